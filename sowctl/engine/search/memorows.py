"""The fields of the records that match a filter, row by row, from memo indexes instead of the records.

Called by :class:`sowctl.engine.search.indexed.Found` for aggregated queries, whose projection reads nothing but indexed
fields. The answer is that of a scan (README, principle 3): records that changed since indexes were built are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sowctl.memo.format import BadMemo
from sowctl.store.codec import all_stamps, payloads
from sowctl.values.fields import Row, Slot, SlotValue

if TYPE_CHECKING:
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.search.memos import Memos
    from sowctl.engine.sources.source import StoredSource
    from sowctl.memo.column import MemoColumn

Stamped: TypeAlias = "tuple[list[Row], list[tuple[int, int]]]"
"""Rows, and txid and time of their records."""

_ROWS = 10_000


def _gathered(
    columns: Sequence[list[SlotValue]], stamped: list[tuple[int, int]], places: Sequence[int]
) -> Iterator[Stamped]:
    """Rows and stamps at some places."""
    for start in range(0, len(places), _ROWS):
        part = places[start : start + _ROWS]
        if isinstance(part, range):
            chosen = [column[part.start : part.stop] for column in columns]
            times = stamped[part.start : part.stop]
        else:
            chosen = [[column[place] for place in part] for column in columns]
            times = [stamped[place] for place in part]
        yield list(zip(*chosen, strict=True)) if chosen else [()] * len(part), times


def _woven(parts: Iterator[Stamped], more: list[tuple[int, Row, tuple[int, int]]]) -> Iterator[Stamped]:
    """Rows with others between them; each of ``more`` stands before the row of its number."""
    at = 0
    more.reverse()
    for rows, times in parts:
        while more and more[-1][0] <= at + len(rows):
            stop, row, stamp = more.pop()
            yield rows[: stop - at], times[: stop - at]
            yield [row], [stamp]
            rows, times, at = rows[stop - at :], times[stop - at :], stop
        yield rows, times
        at += len(rows)
    for _, row, stamp in reversed(more):
        yield [row], [stamp]


def rows_of(
    memos: Memos,
    columns: Sequence[MemoColumn],
    places: Sequence[int] | None,
    slots: Sequence[Slot],
    source: StoredSource,
    matcher: Matcher,
) -> Iterator[Stamped] | None:
    """The fields at ``places`` (None: all), in key order, with the stamps of their records; None if they are not known.

    ``columns`` are the indexes of ``slots``; ``matcher`` says which of the records match that changed since.
    """
    try:
        stamped = memos.stamps()
        values = [column.values() for column in columns]
    except BadMemo:
        return None
    if places is None:
        places = range(memos.records)
    if not memos.changed:
        return _gathered(values, stamped, places)
    keys, fresh = source.lookup(sorted(memos.changed))
    chosen = matcher.places(keys, fresh)
    keys, fresh = [keys[place] for place in chosen], [fresh[place] for place in chosen]
    rows, refused = matcher.type.extractor(slots)(payloads(fresh))
    if refused:
        return None
    gone = memos.changed_places()
    places = [place for place in places if place not in gone]
    stops = [bisect_left(places, memos.rank(key)) for key in keys]
    changed = zip(stops, rows, all_stamps(fresh), strict=True)
    return _woven(_gathered(values, stamped, places), list(changed))
