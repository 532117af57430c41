"""Groups of a view from many records at once: fields and texts of join keys as columns, joins and groups by numpy.

Records are read as those of queries are (:mod:`sowctl.engine.search.blocks`): messages of few templates without a value
of Python for each field. A step of a join looks up every distinct combination of texts once; each record of the
attached source has a number, and a joined row is the numbers of its records. The result is that of rows one by one
(:mod:`sowctl.engine.views.computation`), which also does what is not done here: projections that ask for metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sowctl.engine.search.blocks import BlockColumnReader, iterate_blocks
from sowctl.engine.search.matcher import evaluate_records
from sowctl.engine.views.definition import Program
from sowctl.engine.views.joins import Texts
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.records import build_matcher, build_unreadable_error
from sowctl.errors import SowError
from sowctl.expressions.columns.grouping import GroupedBatch, Grouper, number_groups
from sowctl.expressions.columns.program import ColumnProgram
from sowctl.expressions.compiler import Filter
from sowctl.expressions.environment import TIME_LIMIT_CODE
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Array, Column, Kind, build_column
from sowctl.values.fields import ValueList

if TYPE_CHECKING:
    from sowctl.expressions.aggregates.accumulator import Stamp
    from sowctl.expressions.rows.groups import Group
    from sowctl.expressions.rows.projection import GroupKey
    from sowctl.store.read import LineBatch

PartReader: TypeAlias = "Callable[[int], Iterable[ColumnBatch]]"
"""All records of a source by its number, in parts of columns."""
RecordNumbers: TypeAlias = "dict[int, Array]"
"""For each source of a join that was attached, the number of the record that each row has of it."""
_EARLIEST_TIME = np.iinfo(np.int64).min


def can_group_columns(program: Program) -> bool:
    """Return whether a view can be computed from columns."""
    return not program.projection.uses_header


def iterate_parts(
    program: Program, number: int, found: Iterable[LineBatch], *, ordered: bool = False
) -> Iterator[ColumnBatch]:
    """The records of the source ``number`` that its filter leaves, many at a time, in parts of columns.

    In a join, or if ``ordered``, they are in the order in which they come. Raises InputError ``SOW-QRY-004`` for an
    unreadable one.
    """
    topic, message_type = program.query.sources[number]
    paths = [side.path for side in program.sides[number]]
    kind = program.instance.find_message_type(message_type)
    read = BlockColumnReader(
        kind, program.slots[number], lambda refused, key: build_unreadable_error(refused, key, topic), paths
    )
    # Rows of a join may share the stamp of a record that is attached to them, and then their order counts.
    joined = len(program.query.sources) > 1
    for block in iterate_blocks(_filter_batches(program, number, found)):
        if joined or ordered:
            yield read.read_whole(block)
        else:
            yield from read.read_parts(block)


def _filter_batches(program: Program, number: int, found: Iterable[LineBatch]) -> Iterator[LineBatch]:
    matcher = build_matcher(program, number)
    for lines, (keys, values) in found:
        places = matcher.find_matches(keys, values)
        if len(places) < len(keys):
            keys, values = [keys[place] for place in places], [values[place] for place in places]
        yield lines, (keys, values)


class _TooManyRows(Exception):
    """Records of the first source make too many rows at once."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


class AttachedRecords:
    """The records of a source that a step attaches, in memory, and which of them meet which texts.

    They are numbered in key order. Behind the last one stands a row of NULLs, which is the partner of rows that have
    none (``behaviour`` 11.47).
    """

    def __init__(self, program: Program, step: int, found: Sequence[ColumnBatch]) -> None:
        place, _, sides = program.step_places[step]
        # A list of values of no record is an empty list.
        blank = [build_column([ValueList(()) if slot.listed else None]) for slot in program.slots[place]]
        missing = [Column(Kind.NULL, 1)] * len(program.sides[place])
        # A partner that is none is older than any record, of which the times may be before 1970.
        last = ColumnBatch(blank, 1, txids=np.zeros(1, np.uint64), times=np.array([_EARLIEST_TIME]), texts=missing)
        self.records = ColumnBatch.concatenate([*found, last])
        none = self.records.size - 1
        keys = [self.records.texts[side].take(slice(none)) for side in sides]
        codes, tuples = number_distinct(keys, none)
        # Stable, so that the partners of a row stand in key order.
        self._order = np.append(np.argsort(codes, kind="stable"), none)
        # Of each combination of texts, where its records begin in this order, and how many they are; behind all, of the
        # rows without a partner.
        self._counts = np.append(np.bincount(codes, minlength=len(tuples)), 1)
        self._starts = np.cumsum(self._counts) - self._counts
        self._met = {
            texts: number
            for number, (texts, count) in enumerate(zip(tuples, self._counts.tolist(), strict=False))
            # NULL meets nothing, unless NULLs match; and a combination that no record has is none.
            if count and (program.query.nulls_match or None not in texts)
        }

    def find_partners(self, sought: Sequence[Column], size: int, most: int | None) -> tuple[Array | None, Array]:
        """The records that rows meet by their texts: which row each one is for (None: one for every row, in their
        order), and its number. The rows stay in their order, and each stands once at least.

        Raises _Crowded where these are more than ``most``.
        """
        codes, tuples = number_distinct(sought, size)
        found = np.array(list(map(self._met.get, tuples, repeat(len(self._counts) - 1))))[codes]
        starts, counts = self._starts[found], self._counts[found]
        if int(counts.max()) == 1:
            return None, self._order[starts]
        if most is not None and (rows_met := int(counts.sum())) > most:
            raise _TooManyRows(rows_met)
        rows = np.repeat(np.arange(size), counts)
        # How far into the partners of its row each one is.
        passed = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self._order[starts[rows] + passed]


def number_distinct(texts: Sequence[Column], size: int) -> tuple[Array, list[Texts]]:
    """A number for the combination of texts in each of so many rows, and the combinations by their numbers."""
    if len(texts) == 1 and texts[0].kind is Kind.STRING:
        # The codes of the words are such numbers, and the one behind them is that of NULL.
        return texts[0].data, [(word,) for word in (*texts[0].words, None)]
    codes, count = number_groups(texts, size)
    some = np.zeros(count, np.int64)
    some[codes] = np.arange(size)
    found: list[Texts] = list(zip(*(column.take_values(some) for column in texts), strict=True))
    return codes, found


class ColumnGroups:
    """Groups of a view, added to ``groups``. ``read`` gives all records of a source by its number; ``waiting``
    and ``part`` as of :class:`Grouper`."""

    def __init__(
        self,
        program: Program,
        read: PartReader,
        groups: dict[GroupKey, Group] | None = None,
        waiting: int = 0,
        part: Stamp = (),
    ) -> None:
        self._program = program
        self._read = read
        self.groups: dict[GroupKey, Group] = {} if groups is None else groups
        self._locate = partial(evaluate_records, topic=program.query.sources[0].name)
        self._grouper = Grouper(program.projection, program.environment, self._locate, waiting, part)
        self._filter = None if program.filter is None else ColumnProgram(program.filter, program.functions)
        self._attached: dict[int, AttachedRecords] = {}
        for step, (place, _, _) in enumerate(program.step_places):
            self._attached[place] = AttachedRecords(program, step, list(read(place)))

    def compute(self) -> Iterator[int]:
        """Add all rows; how many inputs the groups got in lists, batch by batch. Raises LimitError ``SOW-EXP-030``."""
        for batch in self.iterate_batches():
            yield batch.add_to_groups(self.groups)

    def iterate_batches(self) -> Iterator[GroupedBatch]:
        """All rows with their groups, in the order of the records of the first source. Raises LimitError
        ``SOW-EXP-030``."""
        return self._grouper.group_parts(self._all_rows())

    def _all_rows(self) -> Iterator[ColumnBatch]:
        for part in self._read(0):
            for messages in self._join_rows(part):
                if messages.size:
                    yield messages

    def _join_rows(self, part: ColumnBatch) -> Iterator[ColumnBatch]:
        """The rows of some records of the first source, in their order, about ``max_joined_rows`` at a time at
        most.
        """
        size = part.size
        try:
            found = self._rows(part, VIEW_LIMITS.max_joined_rows if size > 1 else None)
        except _TooManyRows as crowded:
            # Fewer records make fewer rows; where some make most of them, their part is cut again.
            pieces = min(size, crowded.rows // VIEW_LIMITS.max_joined_rows + 1)
        else:
            yield found
            return
        for start, stop in pairwise(size * piece // pieces for piece in range(pieces + 1)):
            yield from self._join_rows(part.take(slice(start, stop)))

    def _rows(self, part: ColumnBatch, most: int | None) -> ColumnBatch:
        """The rows of some records of the first source. Raises _Crowded where they are more than ``most``."""
        program = self._program
        rows: Array | None = None
        numbers: RecordNumbers = {}
        for place, left, _ in program.step_places:
            size = part.size if rows is None else len(rows)
            sought = [self._take_column(part, rows, numbers, *side, texts=True) for side in left]
            more, numbers_of = self._attached[place].find_partners(sought, size, most)
            if more is not None:
                # Rows that meet several records stand once for each of them, in the order of both.
                rows = more if rows is None else rows[more]
                numbers = {other: some[more] for other, some in numbers.items()}
            numbers[place] = numbers_of
        if self._filter is not None:
            rows, numbers = self._filter_rows(self._filter, part, rows, numbers)
        txids, times, keys = part.txids, part.times, part.keys
        size = part.size if rows is None else len(rows)
        if rows is not None:
            txids, times, keys = txids[rows], times[rows], keys[rows]
        for place, some in numbers.items():
            attached = self._attached[place].records
            others, moments = attached.txids[some], attached.times[some]
            # A row is as new as the newest of its records, by txid and then by time (behaviour 11.50).
            newer = (others > txids) | ((others == txids) & (moments > times))
            txids, times = np.where(newer, others, txids), np.where(newer, moments, times)
        columns = [self._take_column(part, rows, numbers, source, slot) for source, slot, _ in program.places]
        return ColumnBatch(columns, size, txids=txids, times=times, keys=keys)

    def _filter_rows(
        self, condition: ColumnProgram, part: ColumnBatch, rows: Array | None, numbers: RecordNumbers
    ) -> tuple[Array, RecordNumbers]:
        """The joined rows that the view's filter leaves."""
        columns = [self._take_column(part, rows, numbers, source, slot) for source, slot, _ in self._program.tested]
        size = part.size if rows is None else len(rows)
        batch = ColumnBatch(columns, size)
        try:
            left = np.flatnonzero(condition.evaluate_mask(batch, self._program.environment))
        except SowError as error:
            if error.code != TIME_LIMIT_CODE:
                self._raise_filter_error(condition, batch, part.keys if rows is None else part.keys[rows])
            raise
        return left if rows is None else rows[left], {place: some[left] for place, some in numbers.items()}

    def _raise_filter_error(self, condition: ColumnProgram, batch: ColumnBatch, keys: Array) -> None:
        """Raise the error that the view's filter meets in rows, one by one, if it meets it."""
        test, tested = condition.compiled, batch.read_rows()
        assert isinstance(test, Filter)

        def matches(part: slice) -> list[int]:
            return test.find_matches(tested[part], self._program.environment)

        self._locate(matches, [key.to_bytes(8, "big") for key in keys.tolist()])

    def _take_column(
        self,
        part: ColumnBatch,
        rows: Array | None,
        numbers: RecordNumbers,
        source: int,
        number: int,
        *,
        texts: bool = False,
    ) -> Column:
        """A column of rows: a slot of a source by its number, or one of its texts."""
        held = self._attached[source].records if source else part
        column = held.texts[number] if texts else held.read_column(number)
        places = numbers[source] if source else rows
        return column if places is None else column.take(places)
