"""``sowctl replay``: bring stores up to date with the journals."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Archive, Summaries, Topics
from sowctl.declarations import DOCUMENT, declare_option
from sowctl.engine.options import ReplayOptions
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl replay --verify",
    "sowctl replay orders",
    "sowctl replay --until 2026-01-05T10:00:00Z --into ten-oclock",
)


class ReplayArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl replay``."""

    topic_names: Topics = None
    until: Annotated[
        str | None,
        declare_option("--until", help="Ignore entries written after this time, txid or bookmark.", metavar="WHEN"),
    ] = None
    replay: ReplayOptions
    archive: Archive = None
    summary: Summaries = None


def run(invocation: Invocation, arguments: ReplayArguments) -> int:
    """Bring stores up to date with the journals.

    A store that lags behind its journal catches up. A missing or damaged store is rebuilt in a new file, which then
    replaces the old one; the damaged file is renamed and kept. The same applies to a store that followed a diverged
    copy of the journal. A file that is not a store is rejected; with --force it is renamed and kept, too. --until
    requires --into or --verify, because it would leave a store behind its journal. Transient topics and topics without
    a journal are skipped. If 20,000 records or more changed, and half of those of a topic, its memo indexes are rebuilt
    after the report.

    If older journal files are gone, a missing store is built from the remaining files, with a warning that it is
    incomplete; an existing store that would lose records is replaced only with --force.

    If the records have keys of a definition other than the configured one, the replay is rejected. --rekey deletes the
    old keys and publishes the records under their new keys, in one group of the journal, then rebuilds the store and
    keeps the old file. If several records have the same new key, the latest is kept. The records get the timestamp of
    the group and keep their expirations.

    The exit status is 1 if --verify finds a difference. If the journals begin later than the topic, --verify compares
    what they contain and reports that the store is not verified; this does not count as a difference.
    """
    if arguments.until is not None and not (arguments.replay.into or arguments.replay.verify):
        raise UsageError(
            "SOW-CLI-015",
            "--until would rebuild live stores at an earlier position",
            hint="add --into DIR for new stores",
        )
    from sowctl.cli.io.bulk_load import update_indexes
    from sowctl.cli.io.report_output import show_report, warn_incomplete, write_rows_document
    from sowctl.cli.lookup import apply_archive
    from sowctl.cli.lookup import find_topics as topics_of
    from sowctl.cli.parsing.option_values import parse_position
    from sowctl.engine.verbs.replay import replay_topics
    from sowctl.output.reports import as_dict

    end = parse_position(invocation, arguments.until)
    with invocation.open_instance() as instance:
        instance = apply_archive(instance, arguments.archive, arguments.replay.journal)
        end = end.resolve(instance, arguments.replay.journal)
        options = replace(arguments.replay, until_txid=end.txid, until_time=end.time)
        reports = replay_topics(instance, topics_of(instance, arguments.topic_names or []), options)
    if arguments.summary == DOCUMENT:
        write_rows_document(invocation, [as_dict(report) for report in reports])
    for report in reports:
        if arguments.summary != DOCUMENT:
            show_report(invocation, report, arguments.summary)
        if report.incomplete:
            warn_incomplete(invocation, report.topic)
    if not (arguments.replay.into or arguments.replay.verify or arguments.replay.dry_run):
        changed = {"rebuilt": "records", "caught up": "entries"}
        done = [report for report in reports if report.action in changed]
        update_indexes(invocation, [(one.topic, one.message_type, getattr(one, changed[one.action])) for one in done])
    return 1 if arguments.replay.verify and any(report.action == "differs" for report in reports) else 0
