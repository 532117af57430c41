"""``sowctl expire``: remove expired records from the stores."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Numbers, Regex, Summary, Topics
from sowctl.engine.options import DryRun

EXAMPLES = (
    "sowctl expire",
    "sowctl expire quotes --dry-run",
    "sowctl expire --now 2026-01-06T00:00:00Z",
    "sowctl expire --regex '^q' --format json",
)


class ExpireArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl expire``."""

    topic_names: Topics = None
    regex: Regex = False
    dry_run: DryRun = False
    summary: Summary = None
    format: Numbers = None


def run(invocation: Invocation, arguments: ExpireArguments) -> int:
    """Remove expired records, as of the current time (--now).

    Expired records are already invisible; this command frees their space. It also removes versions of topics with
    History that have not been current for longer than the History window. Nothing is written to the journal, because
    expiration follows from timestamps and the clock. The name of a logical topic selects the Pattern topic whose file
    holds its records. For several topics, the counts are followed by their total.
    """
    from sowctl.cli.io.report_output import check_report_options, show_reports
    from sowctl.cli.lookup import find_topics as topics_of
    from sowctl.engine.verbs.expire import expire_records

    check_report_options(arguments.summary, arguments.format)
    with invocation.open_instance() as instance:
        reports = expire_records(
            instance, topics_of(instance, arguments.topic_names or [], regex=arguments.regex), dry_run=arguments.dry_run
        )
    show_reports(invocation, reports, arguments.summary, arguments.format)
    return 0
