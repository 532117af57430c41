"""A batch of messages by columns: one column per slot, and further data of the messages. Imports numpy.

Scans, memo indexes, templates, the columnar evaluator, grouping and joins pass batches to each other. A batch is
converted to rows only where the language needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from sowctl.values.column import Array, Column, build_column, concatenate_columns, replace_places
from sowctl.values.fields import Row, SlotValue

SlotValues: TypeAlias = "Column | Sequence[SlotValue]"
"""The values of one slot, as a column or as a sequence."""


class ColumnBatch:
    """``size`` messages: the values of each slot, in the order of the slots.

    ``previous``: the same of the stored records that the messages update, for OF PREVIOUS. ``txids``, ``times``: the
    stamps of the messages; ``keys``: their SOW keys as numbers; ``texts``: a column for each key field, strings or
    NULL. Arrays and columns have one item per message; a constant column has one item.
    """

    __slots__ = ("_given", "_keys", "_made", "_previous", "_times", "_txids", "size", "texts")

    def __init__(
        self,
        given: Sequence[SlotValues],
        size: int,
        *,
        txids: Array | None = None,
        times: Array | None = None,
        keys: Array | None = None,
        texts: Sequence[Column] = (),
        previous: Sequence[SlotValues] = (),
    ) -> None:
        self.size = size
        self.texts = texts
        self._given, self._previous = given, previous
        self._txids, self._times, self._keys = txids, times, keys
        self._made: dict[tuple[bool, int], Column] = {}

    @classmethod
    def from_rows(
        cls, rows: Sequence[Row], slots: int, previous: Sequence[Row | None] = (), before: int = 0
    ) -> ColumnBatch:
        """Build a batch of rows of ``slots`` values; ``previous``: rows of stored records, ``before`` values each."""
        # Without a stored record every field of OF PREVIOUS is NULL.
        stored = [row if row is not None else (None,) * before for row in previous or [None] * len(rows)]
        return cls(
            [[row[place] for row in rows] for place in range(slots)],
            len(rows),
            previous=[[row[place] for row in stored] for place in range(before)],
        )

    @classmethod
    def concatenate(cls, batches: Sequence[ColumnBatch]) -> ColumnBatch:
        """Concatenate the messages of batches with the same slots.

        The result has stamps, keys or texts if all batches have them.
        """
        if len(batches) == 1:
            return batches[0]
        return cls(
            _join_columns(batches, [batch.columns for batch in batches]),
            sum(batch.size for batch in batches),
            txids=_join_arrays([batch._txids for batch in batches]),
            times=_join_arrays([batch._times for batch in batches]),
            keys=_join_arrays([batch._keys for batch in batches]),
            texts=_join_columns(batches, [batch.texts for batch in batches]),
            previous=_join_columns(batches, [batch.previous_columns for batch in batches]),
        )

    @property
    def txids(self) -> Array:
        """The txid of each message; only of a batch with txids."""
        assert self._txids is not None
        return self._txids

    @property
    def times(self) -> Array:
        """The time of each message in microseconds; only of a batch with times."""
        assert self._times is not None
        return self._times

    @property
    def keys(self) -> Array:
        """The SOW key of each message as a number; only of a batch with keys."""
        assert self._keys is not None
        return self._keys

    @property
    def has_keys(self) -> bool:
        """Whether the SOW keys of the messages are known."""
        return self._keys is not None

    @property
    def columns(self) -> list[Column]:
        """The columns of all slots."""
        return [self.read_column(slot) for slot in range(len(self._given))]

    @property
    def previous_columns(self) -> list[Column]:
        """The columns of all slots of stored records."""
        return [self.read_column(slot, previous=True) for slot in range(len(self._previous))]

    def read_column(self, slot: int, *, previous: bool = False) -> Column:
        """Return the column of a slot."""
        given = (self._previous if previous else self._given)[slot]
        if isinstance(given, Column):
            return given
        # Built on demand: a slot that only the row evaluator needs costs no array.
        made = self._made.get((previous, slot))
        if made is None:
            made = self._made[previous, slot] = build_column(given)
        return made

    def take(self, places: Any) -> ColumnBatch:
        """Select messages: by an array of indexes, in its order, or by a slice."""
        return ColumnBatch(
            [column.take(places) for column in self.columns],
            len(range(self.size)[places]) if isinstance(places, slice) else len(places),
            txids=None if self._txids is None else self._txids[places],
            times=None if self._times is None else self._times[places],
            keys=None if self._keys is None else self._keys[places],
            texts=[column.take(places) for column in self.texts],
            previous=[column.take(places) for column in self.previous_columns],
        )

    def replace(self, places: Array, fresh: ColumnBatch) -> ColumnBatch:
        """The messages with ``fresh`` ones at ``places``; both without stored records, and with all else that is known
        of the others."""
        return ColumnBatch(
            list(map(replace_places, self.columns, repeat(places), fresh.columns)),
            self.size,
            txids=_replace_items(self._txids, places, fresh._txids),
            times=_replace_items(self._times, places, fresh._times),
            keys=_replace_items(self._keys, places, fresh._keys),
            texts=list(map(replace_places, self.texts, repeat(places), fresh.texts)),
        )

    def read_rows(self) -> list[Row]:
        """Return the messages as rows."""
        return _zip_rows(self._given, self.size) if self._given else [()] * self.size

    def read_previous_rows(self) -> list[Row | None]:
        """Return the stored records as rows."""
        return [*_zip_rows(self._previous, self.size)] if self._previous else [None] * self.size


def _replace_items(array: Array | None, places: Array, fresh: Array | None) -> Array | None:
    if array is None:
        return None
    found = array.copy()
    found[places] = fresh
    return found


def _zip_rows(given: Sequence[SlotValues], size: int) -> list[Row]:
    # Values that were not given as columns stay as they are: a column does not tell str from bytes.
    lists = [values.repeat_values(size) if isinstance(values, Column) else values for values in given]
    return list(zip(*lists, strict=True))


def _join_columns(batches: Sequence[ColumnBatch], columns: Sequence[Sequence[Column]]) -> list[Column]:
    """Concatenate the columns of each slot."""
    if not all(columns):
        return []
    sizes = [batch.size for batch in batches]
    return [
        concatenate_columns([column.expand_constant(size) for column, size in zip(some, sizes, strict=True)])
        for some in zip(*columns, strict=True)
    ]


def _join_arrays(arrays: Sequence[Array | None]) -> Array | None:
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None
