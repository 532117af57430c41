"""The fields of matching records, read from memo indexes instead of the records: by rows or by columns.

Called by :class:`sowctl.engine.search.index_access.IndexAccess` for aggregated queries whose projection reads only
indexed fields: over many records by columns (:func:`read_columns`, which loads numpy), over few by rows
(:func:`read_rows`). The result equals that of a scan (principle 3): records that changed since the indexes were built
are read from the store. Ruled by ``behaviour`` 3.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.memo.format import BadMemo
from sowctl.store.codec import extract_payloads, read_all_stamps
from sowctl.values.fields import Row, Slot, SlotValue

if TYPE_CHECKING:
    from sowctl.engine.search.index_lookup import OpenIndexes
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.sources.source import StoredSource
    from sowctl.memo.index import MemoIndex as Memo
    from sowctl.values.batch import ColumnBatch

StampedRows: TypeAlias = "tuple[list[Row], list[tuple[int, int]]]"
"""Rows, and txid and time of each row's record."""


def _iterate_rows(
    columns: Sequence[list[SlotValue]], stamped: list[tuple[int, int]], places: Sequence[int]
) -> Iterator[StampedRows]:
    """Yield rows and stamps at ``places``, in batches."""
    for start in range(0, len(places), QUERY_LIMITS.group_batch_rows):
        part = places[start : start + QUERY_LIMITS.group_batch_rows]
        # Without a filter the places are a range, so columns can be sliced.
        if isinstance(part, range):
            chosen = [column[part.start : part.stop] for column in columns]
            times = stamped[part.start : part.stop]
        else:
            chosen = [[column[place] for place in part] for column in columns]
            times = [stamped[place] for place in part]
        yield list(zip(*chosen, strict=True)) if chosen else [()] * len(part), times


def _merge_rows(parts: Iterator[StampedRows], more: list[tuple[int, Row, tuple[int, int]]]) -> Iterator[StampedRows]:
    """Yield rows merged with those of ``more``; each is inserted before the row of its number."""
    at = 0
    more.reverse()
    for rows, times in parts:
        # ``more`` is reversed, so pop() returns its next row.
        while more and more[-1][0] <= at + len(rows):
            stop, row, stamp = more.pop()
            yield rows[: stop - at], times[: stop - at]
            yield [row], [stamp]
            rows, times, at = rows[stop - at :], times[stop - at :], stop
        yield rows, times
        at += len(rows)
    for _, row, stamp in reversed(more):
        yield [row], [stamp]


def read_rows(
    memos: OpenIndexes,
    columns: Sequence[Memo],
    places: Sequence[int] | None,
    slots: Sequence[Slot],
    source: StoredSource,
    matcher: Matcher,
) -> Iterator[StampedRows] | None:
    """Return fields and stamps of the records at ``places`` (None: all), in key order; None if an index or a changed
    record is unreadable.

    ``columns``: the indexes of ``slots``; ``matcher``: the filter, evaluated on records changed since the index build.
    """
    try:
        stamped = memos.read_stamps()
        values = [column.read_values() for column in columns]
    except BadMemo:
        return None
    if places is None:
        places = range(memos.records)
    if not memos.changed:
        return _iterate_rows(values, stamped, places)
    # Changed records are read in their current state and matched by the complete filter; their index rows are dropped.
    keys, fresh = source.find_records(sorted(memos.changed))
    chosen = matcher.find_matches(keys, fresh)
    keys, fresh = [keys[place] for place in chosen], [fresh[place] for place in chosen]
    rows, refused = matcher.type.build_extractor(slots)(extract_payloads(fresh))
    # The caller then reads the records themselves, which raises an error that names the record.
    if refused:
        return None
    gone = memos.find_changed_places()
    places = [place for place in places if place not in gone]
    # A key's rank is the row before which it belongs, so the result stays in key order.
    stops = [bisect_left(places, memos.find_rank(key)) for key in keys]
    changed = zip(stops, rows, read_all_stamps(fresh), strict=True)
    return _merge_rows(_iterate_rows(values, stamped, places), list(changed))


def read_columns(memos: OpenIndexes, places: Sequence[int] | None, slots: Sequence[Slot]) -> ColumnBatch | None:
    """Return fields and stamps of the records at ``places`` (None: all); None if a field has no readable index."""
    import numpy as np

    from sowctl.values.batch import ColumnBatch

    known = {slot: memo for slot in slots if (memo := memos.indexes.get(slot)) is not None}
    # If any field lacks an index, the records must be read anyway.
    if len(known) < len(slots):
        return None
    chosen = None if places is None else np.array(places, np.int64)
    try:
        txids, times = memos.read_stamp_columns(np)
        columns = [known[slot].read_column(chosen) for slot in slots]
    except BadMemo:
        return None
    if chosen is not None:
        txids, times = txids[chosen], times[chosen]
    return ColumnBatch(columns, len(txids), txids=txids, times=times)
