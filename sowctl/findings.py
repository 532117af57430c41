"""Problems found by checks, as values: validate, lint and check stream them, and raise none of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Level(IntEnum):
    """How bad; a higher number is worse."""

    ADVICE = 1
    INFO = 2
    WARNING = 3
    ERROR = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Where: a file, with line and column (1-based, in characters) or a byte offset where known, or an element path."""

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


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: rule or code, level, place, what it is, what to do; ``excerpt`` shows source lines with a caret."""

    id: str
    level: Level
    place: Place
    message: str
    hint: str | None = None
    excerpt: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """A flat dictionary for JSON output; absent parts are left out."""
        row: dict[str, Any] = {"id": self.id, "level": self.level.name.lower(), "file": self.place.file}
        for name in ("line", "column", "offset", "element"):
            if (value := getattr(self.place, name)) is not None:
                row[name] = value
        row["message"] = self.message
        if self.hint is not None:
            row["hint"] = self.hint
        return row


def worst(findings: Iterable[Finding]) -> Level | None:
    """The highest level among ``findings``, or None when there are none."""
    return max((finding.level for finding in findings), default=None)
