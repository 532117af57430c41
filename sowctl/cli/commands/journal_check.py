"""``sowctl journal check``: every byte of the log, read and compared."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Coverage, FindingsFormat, JournalPlace

EXAMPLES = (
    "sowctl journal check",
    "sowctl journal check --format json --summary json",
)


def run(
    invocation: Invocation,
    directory: JournalPlace = None,
    format: FindingsFormat = "text",
    summary: Coverage = None,
) -> int:
    """Read every byte of all journal files, the compressed and the archived ones too, and report what is wrong.

    Compared are the checksums of headers, lists of topics, columns and payloads, what every block says of itself and of
    those before it, the files with one another, the topics file, and how far the stores prove that the journal went.
    Says at the end how much was read, and what could not be. Ends with status 5 where damage was found.
    """
    from pathlib import Path

    from sowctl.cli.io.reporting import show_examination
    from sowctl.engine.verbs.upkeep.journal_check import journal_check

    with invocation.open_instance() as instance:
        examination = journal_check(instance, Path(directory) if directory is not None else None)
        return show_examination(invocation, examination, as_json=format == "json", summary=summary)
