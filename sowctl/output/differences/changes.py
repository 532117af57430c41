"""Lists of differences between two things: lines for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sowctl.output.display import escape_line, measure_width

_MARKS = {"changed": "~", "removed": "-", "added": "+", "moved": ">"}


class MemberChange(NamedTuple):
    """``kind`` is changed, removed, added or moved; texts and origins are None on the side that lacks it."""

    kind: str
    path: str
    before: str | None
    after: str | None
    before_origin: str | None
    after_origin: str | None


def format_change(change: MemberChange, columns: int | None = None) -> Iterator[str]:
    """A line: mark, path, values, places; several lines if it does not fit a terminal of ``columns``."""
    head = f"{_MARKS[change.kind]} {escape_line(change.path)}"
    values = " -> ".join(_format_member(text) for text in (change.before, change.after) if text is not None)
    origins = ", ".join(
        escape_line(origin)
        for origin in dict.fromkeys((change.before_origin, change.after_origin))
        if origin is not None
    )
    line = f"{head}{': ' if values else ''}{values}  ({origins})"
    # Into pipes always one line, whatever its length, so that grep(1) finds whole changes.
    if columns is None or measure_width(line) <= columns:
        yield line
        return
    yield head
    for part in (values, f"({origins})"):
        if part:
            yield f"    {part}"


def encode_change(change: MemberChange) -> str:
    """One line of JSON, ASCII only; absent parts are omitted."""
    row: dict[str, Any] = {"change": change.kind, "path": change.path}
    for name, value in zip(change._fields[2:], change[2:], strict=True):
        if value is not None:
            row[name] = value
    return json.dumps(row)


def _format_member(text: str) -> str:
    return escape_line(" ".join(text.split())) or "(empty)"
