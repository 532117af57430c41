"""``sowctl journal check``: every byte of the log, read and compared."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import JournalPlace

EXAMPLES = (
    "sowctl journal check",
    "sowctl journal check --format json --summary json",
)


def run(
    invocation: Invocation,
    directory: JournalPlace = None,
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
    """Read every byte of all journal files, the compressed and the archived ones too, and report what is wrong.

    Compared are the checksums of headers, lists of topics, columns and payloads, what every block says of itself and of
    those before it, the files with one another, the topics file, and how far the stores prove that the journal went.
    Says at the end how much was read, and what could not be. Ends with status 5 where damage was found.
    """
    from pathlib import Path

    from sowctl.cli.io.reporting import show_findings, show_words
    from sowctl.engine.verbs.upkeep.journal_check import journal_check
    from sowctl.output.findings import Tally
    from sowctl.output.reports import as_dict

    with invocation.open_instance() as instance:
        examination = journal_check(instance, Path(directory) if directory is not None else None)
        tally = Tally()
        findings = tally.through(examination)
        status = show_findings(invocation, findings, as_json=format == "json", status=5, clean="no damage found")
    show_words(invocation, examination.coverage, as_dict(examination.report) | tally.by_name(), summary)
    return status
