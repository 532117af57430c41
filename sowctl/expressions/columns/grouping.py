"""Grouping on columns: builds the same groups as :meth:`Projection.add_messages`, for many messages at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise, repeat
from typing import Any, TypeAlias

import numpy as np

from sowctl.errors import SowError
from sowctl.expressions.aggregates.accumulator import Accumulator, GroupSums, Stamp
from sowctl.expressions.columns.limits import COLUMN_LIMITS
from sowctl.expressions.columns.program import ColumnProgram
from sowctl.expressions.columns.sums import compute_sums, count_values
from sowctl.expressions.environment import NO_HEADER, TIME_LIMIT_CODE, Environment
from sowctl.expressions.rows.groups import Group
from sowctl.expressions.rows.program import CompiledValue
from sowctl.expressions.rows.projection import GroupKey, Projection
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import INTEGER_KINDS, NUMERIC_KINDS, Array, Column, Kind
from sowctl.values.fields import Row
from sowctl.values.paths import Path
from sowctl.values.scalars import to_text

_MAX_CODES = 1 << 40
_MAX_COUNTING_SORT_CODES = 1 << 16
"""Number of codes up to which numpy sorts them by counting."""
KnownColumns: TypeAlias = dict[tuple[Path, tuple[str, ...]], Column]
"""Columns by the path and the qualifier of their slot."""


RecordLocator: TypeAlias = "Callable[[Callable[[slice], object], Sequence[bytes]], object]"
"""Evaluates some rows by the given function, and raises its error with the key of the record."""


class Grouper:
    """A projection over columns, compiled once for all batches.

    A batch has a cost in Python per group, so messages wait if there are many groups (:meth:`gather`).
    ``locate`` adds the record to an error, if messages have keys. ``waiting``: the minimum number of messages that wait
    for others. ``part``: added to the stamps, if states of several parts of the messages are merged.
    """

    def __init__(
        self,
        projection: Projection,
        env: Environment,
        locate: RecordLocator | None = None,
        waiting: int = 0,
        part: Stamp = (),
    ) -> None:
        self.projection = projection
        self._env = env
        self._locate = locate
        self._programs = [(part, ColumnProgram(part, projection.functions)) for part in projection.list_inputs()]
        self._waiting: list[ColumnBatch] = []
        self._size = 0
        self._least = self._wanted = waiting
        self._part = part

    def gather(self, messages: ColumnBatch) -> GroupedBatch | None:
        """A batch of these messages, at least one, and the waiting ones; None if these wait, too.

        Messages of a batch are in the order of arrival. Raises as :meth:`build_batch`.
        """
        self._waiting.append(messages)
        self._size += messages.size
        return self.flush() if self._size >= self._wanted else None

    def flush(self) -> GroupedBatch | None:
        """A batch of all waiting messages; None if there are none."""
        held, self._waiting, self._size = self._waiting, [], 0
        if not held:
            return None
        batch = self.build_batch(ColumnBatch.concatenate(held))
        # The following messages will have about as many groups. A batch in which nearly each message has its own group
        # was only too small to tell: of 50,000 groups, 1,000 messages meet 990.
        wanted = COLUMN_LIMITS.waiting_messages_per_group * batch.count
        if 2 * batch.count > batch.messages.size:
            wanted = COLUMN_LIMITS.waiting_growth * batch.messages.size
        self._wanted = max(self._least, min(wanted, COLUMN_LIMITS.max_waiting_messages))
        return batch

    def group_parts(self, parts: Iterator[ColumnBatch]) -> Iterator[GroupedBatch]:
        """Yield all messages with their groups, in order. Raises the first error of :meth:`build_batch` by key."""
        for messages in parts:
            try:
                batch = self.gather(messages)
            except SowError as error:
                raise self._find_first_failure(error, parts) from None
            if batch is not None:
                yield batch
            # Release it before the next one is made.
            batch = None
        batch = self.flush()
        if batch is not None:
            yield batch

    def _find_first_failure(self, error: SowError, rest: Iterator[ColumnBatch]) -> SowError:
        """Return ``error``, or that of a record in ``rest`` with a lower key: the parts of a block are adjacent."""
        with suppress(SowError):
            for messages in rest:
                key = error.facts.get("sow_key")
                if key is None or not messages.has_keys or messages.keys[0] > int(key):
                    break
                try:
                    self.build_batch(messages)
                except SowError as other:
                    error = min(error, other, key=lambda one: int(one.facts.get("sow_key", key)))
        return error

    def build_batch(self, messages: ColumnBatch) -> GroupedBatch:
        """Messages with the group of each, at least one. Raises LimitError ``SOW-EXP-030`` for a pattern."""
        projection = self.projection
        # One part after the other, each on columns: grouping fields first, then the inputs of aggregates.
        # Two slots with the same path belong to different topics.
        known = {
            (slot.path, source): column
            for slot, source, column in zip(projection.slots, projection.sources, messages.columns, strict=True)
        }
        steps = self._env.steps
        try:
            values = [self._evaluate_value(part, program, known, messages.size) for part, program in self._programs]
        except SowError as error:
            if error.code != TIME_LIMIT_CODE:
                self._env.reset_steps(steps)
                self._name_record(messages)
            raise
        kept = [messages.read_column(place) for place in projection.keeps]
        return GroupedBatch(projection, messages, [*values, *kept], self._part)

    def _name_record(self, messages: ColumnBatch) -> None:
        """Raise the error that evaluation by rows gives in the order of the keys, if it gives one."""
        if self._locate is None or not messages.has_keys:
            return
        # Columns are evaluated part by part, so the first failing record of each part may be a different one.
        order = np.argsort(messages.keys, kind="stable")
        rows = messages.read_rows()
        rows = [rows[place] for place in order.tolist()]
        keys = [key.to_bytes(8, "big") for key in messages.keys[order].tolist()]
        self._locate(lambda part: self.projection.compute_inputs(rows[part], self._env), keys)

    def _evaluate_value(self, value: CompiledValue, program: ColumnProgram, known: KnownColumns, size: int) -> Column:
        columns = [known[slot.path, source] for slot, source in zip(value.slots, value.sources, strict=True)]
        return program.evaluate_column(ColumnBatch(columns, size), self._env)


class GroupedBatch:
    """Messages with the group of each. ``count`` of groups is approximate: a group may have two numbers.

    ``values``: the columns of the grouping fields, of the inputs of the aggregates, and of ``keeps`` of the projection.
    """

    def __init__(
        self, projection: Projection, messages: ColumnBatch, values: Sequence[Column], part: Stamp = ()
    ) -> None:
        self._projection = projection
        self._part = part
        self.messages = messages
        width, end = projection.width, projection.width + len(projection.accumulators)
        self._values = values
        keys, self._inputs, self._kept = values[:width], values[width:end], values[end:]
        self.codes, self.count = number_groups(keys, messages.size)
        self._latest = _find_latest(self)
        # The latest message also provides the group's key: all messages of a group have the same texts.
        self._keys = [column.take_values(self._latest) for column in keys]

    @cached_property
    def group_keys(self) -> list[GroupKey]:
        """The texts of each group, its key: two numbers with the same texts belong to one group."""
        texts = [list(map(to_text, values)) for values in self._keys]
        return list(zip(*texts, strict=True)) if texts else [()]

    def add_to_groups(self, groups: dict[GroupKey, Group]) -> int:
        """Add each message to the group of its key. Returns the number of inputs that the groups hold individually.

        Of equal stamps the later message is the later one, as row by row.
        """
        projection, latest = self._projection, self._latest
        found = []
        for key in self.group_keys:
            group = groups.get(key)
            if group is None:
                group = groups[key] = projection.build_group()
            found.append(group)
        listed = 0
        calls = zip(*[group.parts for group in found], strict=True)
        for accumulator, states, column in zip(projection.accumulators, calls, self._inputs, strict=True):
            listed += accumulator.add_column(states, _BatchInputs(column, self))
        columns = [column.take_values(latest) for column in self._kept]
        rows: Iterable[Row] = zip(*columns, strict=True) if columns else repeat(())
        counts = np.bincount(self.codes, minlength=self.count).tolist()
        for group, stamp, row, count in zip(found, self.read_stamps(latest), rows, counts, strict=False):
            group.latest.add_latest((row, NO_HEADER), stamp, count)
        return listed

    def divide(self, parts: Array) -> Iterator[tuple[int, ColumnBatch]]:
        """Yield, for each part, the values and stamps of its messages, in order; ``parts`` has the part of each group.
        :meth:`restore` makes a batch of them."""
        txids, times = self.messages.txids, self.messages.times
        values = ColumnBatch(self._values, self.messages.size, txids=txids, times=times)
        owners = parts[self.codes]
        order = _sort_codes(owners)
        ends = np.cumsum(np.bincount(owners)).tolist()
        for part, (start, end) in enumerate(pairwise([0, *ends])):
            if start < end:
                yield part, values.take(order[start:end])

    @classmethod
    def restore(cls, projection: Projection, values: ColumnBatch) -> GroupedBatch:
        """Make a batch of the values of a part (:meth:`divide`)."""
        return cls(projection, values, values.columns)

    def read_stamps(self, places: Array) -> list[Stamp]:
        """Txid and time of the messages at the given places."""
        txids, times = self.messages.txids, self.messages.times
        stamps: list[Stamp] = list(zip(txids[places].tolist(), times[places].tolist(), strict=True))
        return [(*stamp, *self._part) for stamp in stamps] if self._part else stamps


def add_columns(projection: Projection, groups: dict[GroupKey, Group], messages: ColumnBatch, env: Environment) -> None:
    """Process messages as :meth:`Projection.add_messages` does. Raises LimitError ``SOW-EXP-030`` for a pattern."""
    if messages.size:
        Grouper(projection, env).build_batch(messages).add_to_groups(groups)


class _BatchInputs:
    """The inputs of an aggregate call in a batch, for accumulators."""

    def __init__(self, column: Column, batch: GroupedBatch) -> None:
        self._original = column
        self._batch = batch
        self._size = len(batch.codes)

    @cached_property
    def _column(self) -> Column:
        """The column with a place for each message."""
        return self._original.expand_constant(self._size)

    def count_inputs(self) -> list[int]:
        """Count the inputs of each group."""
        return count_values(self._original, self._batch.codes, self._batch.count)

    def compute_sums(self, *, squares: bool) -> list[GroupSums] | None:
        """Add up the inputs of each group; None if this is not possible, or if groups have few inputs."""
        codes, count = self._batch.codes, self._batch.count
        if self._size < COLUMN_LIMITS.min_messages_per_group * count:
            return None
        return compute_sums(self._original, codes, count, squares=squares)

    def find_inputs(self) -> Array:
        """Return the places of all inputs."""
        column = self._column
        if column.kind is Kind.NULL:
            return np.zeros(0, np.int64)
        if column.kind is Kind.ROWS:
            there = (value is not None for value in column.read_values())
            return np.flatnonzero(np.fromiter(there, np.bool_, self._size))
        return np.arange(self._size) if column.nulls is None else np.flatnonzero(~column.nulls)

    def find_latest(self) -> Array:
        """Return the place of the latest input of each group."""
        places = self.find_inputs()
        return places[_find_edges(self._batch.messages, places, self._batch.codes[places], latest=True)]

    def find_distinct(self) -> Array:
        """Return the places of the first of inputs that are identical; more places if identity cannot be determined."""
        places = self.find_inputs()
        # Values of several kinds, and numbers with original texts, have no codes that distinguish them in both
        # respects.
        if not len(places) or self._column.source is not None:
            return places
        more = _encode_column(self._column, self._size)[places]
        codes = _densify_codes(_combine_codes(self._batch.codes[places], more))[0]
        return places[_find_edges(self._batch.messages, places, codes, latest=False)]

    def find_extremes(self, *, greatest: bool) -> Array:
        """Return the places of the inputs that may be the least or greatest of their groups."""
        # The least or greatest number is determined by the array alone: of equal ones the first counts, with its
        # text.
        if self._column.kind not in NUMERIC_KINDS or self._column.listed:
            return self.find_distinct()
        places = self.find_inputs()
        codes = self._batch.codes[places]
        places = places[_find_extremes(self._column.data[places], codes, self._batch.count, greatest=greatest)]
        return places[_find_edges(self._batch.messages, places, self._batch.codes[places], latest=False)]

    def add_values(self, states: Sequence[Accumulator], places: Array) -> int:
        """Add the inputs at some places to the states of their groups; return the number of these inputs."""
        batch = self._batch
        # Stable: the messages of a group keep their order of arrival.
        places = places[_sort_codes(batch.codes[places])]
        bounds = [0, *np.cumsum(np.bincount(batch.codes[places], minlength=batch.count)).tolist()]
        values: Any = self._column.take_values(places)
        stamps = batch.read_stamps(places) if states and states[0].ordered else ()
        for state, start, stop in zip(states, bounds, bounds[1:], strict=False):
            if start < stop:
                state.add(values[start:stop], stamps[start:stop])
        return len(values)


def _find_extremes(data: Array, codes: Array, groups: int, *, greatest: bool) -> Array:
    """Return the place of the least or greatest number of each group; that of a NaN, if there is one."""
    if data.dtype == np.bool_:
        data = data.view(np.uint8)
    found = np.empty(groups, data.dtype)
    # Start with any value of each group. NaN propagates: minimum and maximum are NaN if an operand is.
    found[codes] = data
    with np.errstate(invalid="ignore"):
        (np.maximum if greatest else np.minimum).at(found, codes, data)
    best = found[codes]
    return np.flatnonzero((data == best) | (data != data))


def _sort_codes(codes: Array) -> Array:
    """The sort order of codes; equal codes keep their order."""
    few = codes.dtype.itemsize > 2 and bool(len(codes)) and int(codes.max()) < _MAX_COUNTING_SORT_CODES
    return np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")


def _find_latest(batch: GroupedBatch) -> Array:
    """The place of the latest message of each group, the last of equal stamps."""
    places = _find_edges(batch.messages, None, batch.codes, latest=True)
    found = np.empty(batch.count, np.int64)
    found[batch.codes[places]] = places
    return found


def _find_edges(messages: ColumnBatch, places: Array | None, codes: Array, *, latest: bool) -> Array:
    """Return the place, among ``places`` (None: all), of the latest or earliest message of each code.

    Of equal stamps that is the last or the first. In ascending order.
    """
    txids = messages.txids if places is None else messages.txids[places]
    if not len(codes):
        return np.zeros(0, np.int64)
    best = np.empty(int(codes.max()) + 1, txids.dtype)
    best[codes] = txids
    (np.maximum if latest else np.minimum).at(best, codes, txids)
    found = np.flatnonzero(txids == best[codes])
    if len(found) == np.count_nonzero(np.bincount(codes[found])):
        return found
    # Joined rows may share the txid of a common record; then times decide, then the order. Both are
    # negated for the earliest, so that it is the last, too.
    sign = 1 if latest else -1
    times = (messages.times if places is None else messages.times[places])[found]
    order = np.lexsort((sign * np.arange(len(found)), sign * times, codes[found]))
    chosen = codes[found][order]
    return np.sort(found[order[np.append(chosen[1:] != chosen[:-1], True)]])


def number_groups(keys: Sequence[Column], size: int) -> tuple[Array, int]:
    """One number per message for its whole key, shared by messages of a group, and the count of numbers.

    Numbers are consecutive. Keys of one group have the same texts.
    """
    codes = None
    for column in keys:
        if column.constant or column.kind is Kind.NULL:
            continue
        more = _encode_column(column, size)
        codes = more if codes is None else _combine_codes(codes, more)
    return (np.zeros(size, np.uint8), 1) if codes is None else _densify_codes(codes)


def _densify_codes(codes: Array) -> tuple[Array, int]:
    """Codes replaced by consecutive numbers, and their count."""
    most = int(codes.max()) + 1
    if most > max(_MAX_COUNTING_SORT_CODES, 4 * len(codes)):
        known, codes = np.unique(codes, return_inverse=True)
        return codes, len(known)
    there = np.bincount(codes, minlength=most) > 0
    if there.all():
        return codes, most
    numbers = np.cumsum(there) - 1
    return numbers[codes], int(numbers[-1]) + 1


def _combine_codes(codes: Array, more: Array) -> Array:
    """One code for each pair of codes."""
    wide = int(more.max()) + 1
    codes, more = codes.astype(np.int64), more.astype(np.int64)
    if (int(codes.max()) + 1) * wide > _MAX_CODES:
        # Renumbered from 0 before the product of the two ranges could overflow.
        codes = np.unique(codes, return_inverse=True)[1]
    found: Array = codes * wide + more
    return found


def _encode_column(column: Column, size: int) -> Array:
    """Codes that differ where the texts of the values differ."""
    # A constant does not distinguish messages.
    if column.constant or column.kind is Kind.NULL:
        return np.zeros(size, np.int64)
    if column.kind is Kind.STRING:
        return column.data
    if column.kind is Kind.ROWS or column.texts:
        known: dict[Any, int] = {}
        texts = map(to_text, column.read_values())
        return np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    # Doubles by their bits: 0.0 equals -0.0 and NaN equals nothing, which does not suit grouping by text. All NaNs
    # have the same text, regardless of their bits.
    data = column.data if column.kind in INTEGER_KINDS else np.where(np.isnan(column.data), np.nan, column.data)
    bits = data.astype(np.int64) if column.kind in INTEGER_KINDS else data.view(np.int64)
    found = np.unique(bits, return_inverse=True)[1].astype(np.int64)
    if column.ints is not None:
        # An Integer and an equal Double get different codes, because their texts may differ.
        found = found * 2 + column.ints
    if column.nulls is not None:
        # NULL is its own group.
        found = np.where(column.nulls, 0, found + 1)
    return found
