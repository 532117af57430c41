"""Merging records in key order: changed ones with indexed ones, versions with records.

Called by :mod:`sowctl.engine.search.index_access` for records changed since indexes were built, and for past states.
:mod:`sowctl.engine.fold.merge_layers` merges a memtable with a store's records.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar, overload

from sowctl.store.codec import LazyValues, extract_payloads

if TYPE_CHECKING:
    from sowctl.engine.sources.source import MatchedPairs


T = TypeVar("T")


class MergedValues(LazyValues):
    """Stored values with a few ``more``, each inserted before the value of its number; combined when they are accessed.

    Payloads are combined separately: those of many values may be known without the values.
    """

    __slots__ = ("_more", "_values", "_whole")

    def __init__(self, values: Sequence[bytes], more: Sequence[tuple[int, bytes]]) -> None:
        self._values = values
        self._more = more
        self._whole: list[bytes] | None = None

    def _build_values(self) -> list[bytes]:
        if self._whole is None:
            self._whole = _interleave_items(list(self._values), self._more)
        return self._whole

    def __len__(self) -> int:
        return len(self._values) + len(self._more)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        return self._build_values()[place]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._build_values())

    def list_payloads(self) -> list[bytes]:
        """Return the payloads of all values."""
        # Payloads are combined separately, so that a caller that needs only them does not decode whole values.
        fresh = extract_payloads([value for _, value in self._more])
        return _interleave_items(
            list(extract_payloads(self._values)), [(at, own) for (at, _), own in zip(self._more, fresh, strict=True)]
        )

    def select_values(self, places: Sequence[int]) -> list[bytes]:
        """Return some of the values."""
        whole = self._build_values()
        return [whole[place] for place in places]


def _interleave_items(items: list[bytes], more: Sequence[tuple[int, bytes]]) -> list[bytes]:
    for number, (at, item) in enumerate(more):
        # Each inserted item shifts the places after it by one.
        items.insert(at + number, item)
    return items


Batch = TypeVar("Batch", bound=tuple[list[bytes], Sequence[bytes]])


def _pair_with_waiting(
    batches: Iterable[Batch], waiting: Sequence[bytes], size: int
) -> Iterator[tuple[Batch | None, Sequence[bytes]]]:
    """Yield every batch with the waiting keys that belong before its last one; then the rest of them, ``size`` at a
    time.

    Both are in key order. Keys after a batch's last key wait for the next batch, if there is one.
    """
    position = 0
    for batch in batches:
        # A waiting key equal to the batch's last one belongs to this batch, of which it replaces a record.
        stop = bisect_right(waiting, batch[0][-1], position)
        yield batch, waiting[position:stop]
        position = stop
    for start in range(position, len(waiting), size):
        yield None, waiting[start : start + size]


def merge_records(found: Iterable[MatchedPairs], fresh: Mapping[bytes, bytes], size: int) -> Iterator[MatchedPairs]:
    """Yield records in key order, merged with ``fresh`` ones with other keys; those after the last, ``size`` at a
    time."""
    for batch, due in _pair_with_waiting(found, sorted(fresh), size):
        if batch is None:
            yield list(due), [fresh[key] for key in due]
        elif due:
            keys, values = batch
            # Fresh keys differ from all found ones, so each has exactly one place between them.
            places = [bisect_left(keys, key) for key in due]
            together = _interleave_items(list(keys), list(zip(places, due, strict=True)))
            yield together, MergedValues(values, [(at, fresh[key]) for at, key in zip(places, due, strict=True)])
        else:
            yield batch


def group_by_key(*streams: Iterable[tuple[bytes, T]]) -> Iterator[tuple[bytes, list[T]]]:
    """Yield every key of some streams of pairs in key order, with its values: those of an earlier stream first."""
    # The merge is stable over its streams: values of an earlier stream come first within a key, which callers use to
    # decide which of them counts.
    rows = heapq.merge(*streams, key=itemgetter(0))
    for key, found in groupby(rows, key=itemgetter(0)):
        yield key, [value for _, value in found]
