"""Grouping on columns: the same groups as :meth:`Projection.add` makes row by row, from many messages at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from sowctl.expressions.columns.batch import SlotBatch
from sowctl.expressions.columns.column import Array, Column, Kind
from sowctl.expressions.columns.program import ColumnProgram
from sowctl.expressions.environment import Environment
from sowctl.expressions.rows.projection import GroupKey, GroupState, Projection
from sowctl.values.compare import text_of
from sowctl.values.fields import Row
from sowctl.values.paths import Path

_MOST_CODES = 1 << 40
_FEW_CODES = 1 << 16
"""Codes below which numpy sorts them by counting."""
Known: TypeAlias = dict[tuple[Path, tuple[str, ...]], Column]
"""Columns by the path and the qualifier of their slot."""
_WHOLE = (Kind.BOOL, Kind.I64, Kind.U64)


class ColumnBatch(SlotBatch):
    """A batch whose columns are there already."""

    def __init__(self, columns: Sequence[Column], size: int) -> None:
        super().__init__([], size)
        self._columns = {(False, place): column for place, column in enumerate(columns)}

    def rows(self) -> list[Row]:
        """The messages as rows."""
        columns = [column.repeated(self.size) for column in self._columns.values()]
        return list(zip(*columns, strict=True)) if columns else [()] * self.size


def add_columns(
    projection: Projection,
    groups: dict[GroupKey, GroupState],
    columns: Sequence[Column],
    size: int,
    env: Environment,
    txids: Array,
    times: Array,
) -> None:
    """Process ``size`` messages, of which ``columns`` holds every slot of the projection in its order.

    Stamps are txid and time; of equal ones the message that comes later is the later one, as row by row.

    Raises LimitError ``SOW-EXP-030`` if a pattern exceeds the match limit.
    """
    if not size:
        return
    # Part by part, and each on columns: grouping fields first, then the inputs of aggregates.
    # Two slots of one path are of different topics.
    known = {
        (slot.path, source): column
        for slot, source, column in zip(projection.slots, projection.sources, columns, strict=True)
    }
    values = [_evaluated(part, known, size, env) for part in projection.parts()]
    keys, inputs = values[: projection.width], values[projection.width :]
    # One number per message for the whole key: messages of a group share it.
    codes = np.zeros(size, np.int64)
    for column in keys:
        codes = _combined(codes, _codes(column, size))
    # Stable, so that each group keeps the order in which its messages came.
    order = np.argsort(codes.astype(np.uint16) if int(codes.max()) < _FEW_CODES else codes, kind="stable")
    # A group begins where the sorted code changes; the value put in front differs from the first code.
    starts = np.flatnonzero(np.diff(codes[order], prepend=codes[order[0]] - 1))
    bounds = [*starts.tolist(), size]
    counting = [aggregate.name == "COUNT" for aggregate in projection.aggregates]
    taken = [
        _Taken(column, size, order, only=only, nulls=every)
        for column, only, every in zip(inputs, counting, projection.ordered, strict=True)
    ]
    # The same stretches, each in the order of its stamps: the latest message of a group, of equal ones the last, ends
    # its stretch. Joined rows may share the txid of a record that all of them have; then times tell.
    latest = np.lexsort((times, txids, codes))[np.array(bounds[1:]) - 1].tolist()
    stamps = list(zip(txids[order].tolist(), times[order].tolist(), strict=True)) if any(projection.ordered) else []
    for (start, stop), last in zip(pairwise(bounds), latest, strict=True):
        # Groups are found by text, so two codes that have one text meet in one group.
        key = tuple(text_of(_value(column, int(order[start]))) for column in keys)
        group = groups.get(key)
        if group is None:
            group = groups[key] = GroupState(len(projection.aggregates))
        for gathered, values_in_order in zip(group.inputs, taken, strict=True):
            gathered += values_in_order.between(start, stop)
        group.size += stop - start
        group.stamps += stamps[start:stop]
        stamp = int(txids[last]), int(times[last])
        # An earlier batch may have held a later update; its fields then stay.
        if stamp >= group.stamp:
            group.stamp = stamp
            group.row = tuple([_value(column, last) for column in columns])


def _evaluated(value: Any, columns: Known, size: int, env: Environment) -> Column:
    batch = ColumnBatch(
        [columns[slot.path, source] for slot, source in zip(value.slots, value.sources, strict=True)], size
    )
    return ColumnProgram(value).column(batch, env)


def _combined(codes: Array, more: Array) -> Array:
    """One code for each pair of codes."""
    wide = int(more.max()) + 1
    if (int(codes.max()) + 1) * wide > _MOST_CODES:
        # Numbered anew from 0 before the product of the two ranges could overflow.
        codes = np.unique(codes, return_inverse=True)[1]
    found: Array = codes * wide + more
    return found


def _codes(column: Column, size: int) -> Array:
    """Codes that differ where the texts of the values differ."""
    # One value for all messages tells no two of them apart.
    if column.constant or column.kind is Kind.NULL:
        return np.zeros(size, np.int64)
    if column.kind is Kind.STRING:
        return column.data.astype(np.int64)
    if column.kind is Kind.ROWS or column.texts:
        known: dict[Any, int] = {}
        texts = map(text_of, column.values())
        return np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    # Doubles by their bits: 0.0 equals -0.0 and NaN equals nothing, which is of no use for grouping by text.
    bits = column.data.astype(np.int64) if column.kind in _WHOLE else column.data.view(np.int64)
    found = np.unique(bits, return_inverse=True)[1].astype(np.int64)
    if column.ints is not None:
        # An Integer and an equal Double get codes of their own, because their texts may differ.
        found = found * 2 + column.ints
    if column.nulls is not None:
        # NULL is a group of its own.
        found = np.where(column.nulls, 0, found + 1)
    return found


class _Taken:
    """The values of a column in a given order. ``nulls``: NULLs stay; ``only``: their number counts, each is TRUE."""

    def __init__(self, column: Column, size: int, order: Array, *, only: bool, nulls: bool) -> None:
        self._only = only
        self._keeps = nulls
        self._order = order
        # Only plain arrays are cut by numpy; Strings, and numbers with a text, are taken from their slot values.
        self._plain = column.array is not None and column.kind is not Kind.STRING and not column.constant
        self._plain = self._plain and column.ints is None and column.source is None
        if self._plain:
            self._data = column.data[order]
            self._nulls = None if column.nulls is None else column.nulls[order]
        else:
            self._values = column.repeated(size)

    def between(self, start: int, stop: int) -> list[Any]:
        """The values of a stretch."""
        if not self._plain:
            found = map(self._values.__getitem__, self._order[start:stop].tolist())
            return list(found) if self._keeps else [value for value in found if value is not None]
        if self._only:
            return [True] * (stop - start - (0 if self._nulls is None else int(self._nulls[start:stop].sum())))
        data, nulls = self._data[start:stop], None if self._nulls is None else self._nulls[start:stop]
        if nulls is not None and not self._keeps:
            data, nulls = data[~nulls], None
        values: list[Any] = data.tolist()
        if nulls is not None:
            for place in np.flatnonzero(nulls).tolist():
                values[place] = None
        return values


def _value(column: Column, place: int) -> Any:
    """One slot value of a column."""
    if column.constant:
        place = 0
    if column.source is not None:
        return column.source[place]
    if column.kind is Kind.NULL or (column.nulls is not None and column.nulls[place]):
        return None
    if column.kind is Kind.STRING:
        return column.words[int(column.data[place])]
    value = column.data[place].item()
    return int(value) if column.ints is not None and column.ints[place] else value
