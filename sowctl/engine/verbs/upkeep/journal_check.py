"""journal check: reads and compares every byte of a journal; errors are returned as findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sowctl.engine.maintenance.journal_search.journal_check import check_instance_journal
from sowctl.engine.reports import JournalCheckReport
from sowctl.journal.check import JournalCoverage
from sowctl.values.display import format_bytes, format_count

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.engine.instance import Instance
    from sowctl.findings import Finding


class JournalCheckRun:
    """Iterate for findings, once; afterwards ``report`` and ``coverage`` describe what was read and what was not."""

    def __init__(self, instance: Instance, directory: Path | None) -> None:
        self._covered = JournalCoverage()
        self._findings = check_instance_journal(instance, self._covered, directory)

    def __iter__(self) -> Iterator[Finding]:
        return self._findings

    @property
    def report(self) -> JournalCheckReport:
        """The counts of what was read, and a description of what was not."""
        read = self._covered
        return JournalCheckReport(
            files=read.files,
            compressed=read.packed,
            archived=read.archived,
            stored=read.stored,
            bytes=read.bytes,
            blocks=read.blocks,
            groups=read.groups,
            entries=read.entries,
            gaps=read.gaps,
            not_verified=tuple(read.missed),
        )

    @property
    def coverage(self) -> str:
        """One line: what was read, and what was not."""
        read = self._covered
        where = f" ({read.packed:,} compressed, {read.archived:,} archived)" if read.packed or read.archived else ""
        files, blocks = format_count(read.files, "file"), format_count(read.blocks, "block")
        entries, groups = format_count(read.entries, "entry", "entries"), format_count(read.groups, "group")
        gaps = f", {format_count(read.gaps, 'gap')}" if read.gaps else ""
        done = f"checked {files}{where}, {format_bytes(read.bytes)}, {blocks}, {entries} in {groups}{gaps}"
        return done + (f"; not verified: {'; '.join(read.missed)}" if read.missed else "; all of it was read")


def check_journal(instance: Instance, directory: Path | None = None) -> JournalCheckRun:
    """Check the journal of the instance, or the one in ``directory``.

    Iterating raises MissingError ``SOW-JRN-001`` (exit 10) without a journal file, StorageError ``SOW-JRN-020``.
    """
    return JournalCheckRun(instance, directory)
