"""An indented outline in columns: names, values, and their origins.

For nested facts, which :mod:`sowctl.output.table` cannot show. On a terminal no line is longer than its width: values
are cut, and if that leaves too little, the origin has a line of its own. All text is escaped by ``escape_line``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from sowctl.output.display import clip_text, escape_line, measure_width

_GAP = "  "
_MIN_VALUE_COLUMNS = 12
"""Values are not cut below this width to make room for origins."""


class OutlineEntry(Struct, frozen=True):
    """A line: its depth, its name, its value (None for a heading), and its origin."""

    depth: int
    name: str
    value: str | None
    origin: str = ""


def format_outline(entries: Iterable[OutlineEntry], columns: int | None = None) -> Iterator[str]:
    """The lines, without line feeds; ``columns`` is the width of a terminal, None for no limit."""
    rows = [
        OutlineEntry(e.depth, escape_line(e.name), e.value if e.value is None else escape_line(e.value), e.origin)
        for e in entries
    ]
    if not rows:
        return
    first = max(2 * row.depth + measure_width(row.name) for row in rows)
    if columns is not None:
        # Names get at most half of the width, or deep ones would leave no room for values.
        first = min(first, columns // 2)
    last = max(measure_width(row.origin) for row in rows)
    longest = max((measure_width(row.value) for row in rows if row.value is not None), default=0)
    room = None if columns is None else columns - first - len(_GAP)
    beside = room is None or room - last - len(_GAP) >= min(longest, _MIN_VALUE_COLUMNS)
    if room is not None and last and beside:
        room -= last + len(_GAP)
    for row in rows:
        yield from _format_entry(row, first, room, longest if room is None else min(longest, room), beside, columns)


def _format_entry(
    row: OutlineEntry, first: int, room: int | None, second: int, beside: bool, columns: int | None
) -> Iterator[str]:
    name = "  " * row.depth + row.name
    if row.value is None:
        yield name if columns is None else clip_text(name, columns)
        return
    # A name that is too long has its own line, and the value is below it in its column.
    if columns is not None and measure_width(name) > first:
        yield clip_text(name, columns)
        name = ""
    value = row.value if room is None else clip_text(row.value, max(1, room))
    line = name + " " * (first - measure_width(name)) + _GAP + value
    if row.origin and beside:
        line += " " * max(0, second - measure_width(value)) + _GAP + row.origin
    yield line.rstrip()
    if row.origin and not beside:
        yield clip_text(" " * first + _GAP + row.origin, columns or measure_width(row.origin) + first + 2)
