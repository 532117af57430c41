"""Checking a journal: every byte is read and verified, what is wrong comes as findings (``sow-journal(5)``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sowctl.findings import Finding
from sowctl.seam import SEAM, Seam


@dataclass(slots=True)
class Coverage:
    """How much a check has looked at; filled while its findings are consumed."""

    files: int = 0
    bytes: int = 0
    blocks: int = 0
    entries: int = 0
    groups: int = 0


def check_journal(
    directory: Path,
    instance: str,
    *,
    seam: Seam = SEAM,
    acknowledged: int = 0,
    coverage: Coverage | None = None,
) -> Iterator[Finding]:
    """Read everything and yield what is wrong. Raises MissingError ``SOW-JRN-001`` and StorageError only."""
    raise NotImplementedError
    yield
