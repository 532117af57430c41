"""``sowctl check``: every byte, read and compared."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Targets

EXAMPLES = (
    "sowctl check",
    "sowctl check orders --format json --summary json",
)


def run(
    invocation: Invocation,
    targets: Targets = None,
    format: Annotated[
        str, option("--format", "-F", help="how findings are written", choices=("text", "json"))
    ] = "text",
    summary: Annotated[
        str | None,
        option(
            "--summary",
            help="how much was read and found: in words, or as the last line of JSON",
            choices=("text", "json"),
        ),
    ] = None,
) -> int:
    """Read every byte of the stores and journals and report what is damaged, missing or inconsistent.

    Says at the end how much was read, and what was not. Ends with status 5 where damage was found; where there was none
    but a store is another topic's, or has the keys of another definition, with 8; where one could not be read, with the
    status of that: 6 for permission, 11 for a lock.
    """
    from sowctl.cli.io.reporting import show_findings, show_words
    from sowctl.engine.topics.targets import resolve
    from sowctl.engine.verbs.check import check
    from sowctl.output.findings import Tally
    from sowctl.output.reports import as_dict

    with invocation.open_instance(*(targets or ())) as instance:
        chosen = [target for text in targets or () for target in resolve(instance, text)]
        examination = check(instance, chosen if targets else None)
        tally = Tally()
        findings = tally.through(examination)
        show_findings(invocation, findings, as_json=format == "json", status=5, clean="no damage found")
    show_words(invocation, examination.coverage, as_dict(examination.report) | tally.by_name(), summary)
    return examination.status
