"""``sowctl journal check``: verify every byte of the journal."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Coverage, FindingsFormat, JournalPlace

EXAMPLES = (
    "sowctl journal check",
    "sowctl journal check --format json --summary json",
)


class JournalCheckArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal check``."""

    directory: JournalPlace = None
    format: FindingsFormat = "text"
    summary: Coverage = None


def run(invocation: Invocation, arguments: JournalCheckArguments) -> int:
    """Read every byte of all journal files, including compressed and archived ones, and report damage.

    The command verifies the checksums of headers, topic lists, columns and payloads, the consistency of each block with
    itself and the blocks before it, the consistency of the files with one another, the topics file, and that the
    journal reaches the positions of the stores. The summary at the end has the amount of data read and what could not
    be read. The exit status is 5 if damage was found.
    """
    from pathlib import Path

    from sowctl.cli.io.report_output import show_examination
    from sowctl.engine.verbs.upkeep.journal_check import check_journal

    with invocation.open_instance() as instance:
        examination = check_journal(instance, Path(arguments.directory) if arguments.directory is not None else None)
        return show_examination(invocation, examination, format=arguments.format, summary=arguments.summary)
