"""Problems found by checks, as values: validate, lint and check yield them, and raise none of them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from msgspec import Struct


class Level(IntEnum):
    """The severity of a finding; a higher number is worse."""

    ADVICE = 1
    INFO = 2
    WARNING = 3
    ERROR = 4


class Place(Struct, frozen=True):
    """The place of a finding: file with line and column (1-based) or byte offset, or an element path."""

    file: str
    line: int | None = None
    column: int | None = None
    offset: int | None = None
    element: str | None = None

    def __str__(self) -> str:
        text = self.file
        if self.line is not None:
            text += f":{self.line}"
            if self.column is not None:
                text += f":{self.column}"
        elif self.offset is not None:
            text += f"@{self.offset}"
        return text


class Finding(Struct, frozen=True):
    """One problem: rule or code, level, place, message, hint; ``excerpt`` shows source lines with a caret.

    ``kind`` is a word that distinguishes findings of one code, if a code has several; programs may rely on it.
    """

    id: str
    level: Level
    place: Place
    message: str
    hint: str | None = None
    excerpt: str | None = None
    kind: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """A flat dictionary for JSON output: rule, severity, file, line, column, path, message and hint, None if
        unknown; ``path`` is the element. ``offset`` and ``kind`` are included if the finding has them."""
        row: dict[str, Any] = {
            "rule": self.id,
            "severity": self.level.name.lower(),
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "path": self.place.element,
            "message": self.message,
            "hint": self.hint,
        }
        if self.place.offset is not None:
            row["offset"] = self.place.offset
        if self.kind is not None:
            row["kind"] = self.kind
        return row


def find_worst_level(findings: Iterable[Finding]) -> Level | None:
    """The highest level among ``findings``, or None if there are none."""
    return max((finding.level for finding in findings), default=None)
