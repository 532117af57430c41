"""Groups of a view by columns: fields and texts of join keys as columns, joins and groups by numpy.

Records are read like those of queries (:mod:`sowctl.engine.search.blocks`): if messages match few templates, without a
Python object per field. A join step looks up each distinct combination of texts once. Records of attached sources are
numbered, and a joined row consists of the numbers of its records. The result equals that of row-by-row computation
(:mod:`sowctl.engine.views.computation`), which also supports projections that read metadata.
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
"""Returns all records of a source, given its number, as parts of columns."""
RecordNumbers: TypeAlias = "dict[int, Array]"
"""For each attached source of a join, the number of its record in each row."""
_EARLIEST_TIME = np.iinfo(np.int64).min


def can_group_columns(program: Program) -> bool:
    """Return whether a view can be computed from columns."""
    return not program.projection.uses_header


def iterate_parts(
    program: Program, number: int, found: Iterable[LineBatch], *, ordered: bool = False
) -> Iterator[ColumnBatch]:
    """Yield the records of source ``number`` that match its filter, as parts of columns.

    In a join, or if ``ordered``, records keep the order of ``found``. Raises InputError ``SOW-QRY-004`` for an
    unreadable record.
    """
    topic, message_type = program.query.sources[number]
    paths = [side.path for side in program.sides[number]]
    kind = program.instance.find_message_type(message_type)
    read = BlockColumnReader(
        kind, program.slots[number], lambda refused, key: build_unreadable_error(refused, key, topic), paths
    )
    # Rows of a join may share the stamp of an attached record; then their order matters.
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
    """Raised if records of the first source produce too many rows in one batch."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


class AttachedRecords:
    """The records of the source that a step attaches, in memory, indexed by the texts of the step.

    They are numbered in key order. The last one is followed by a row of NULLs, the partner of rows without a matching
    record (``behaviour`` 11.47).
    """

    def __init__(self, program: Program, step: int, found: Sequence[ColumnBatch]) -> None:
        place, _, sides = program.step_places[step]
        # Without a record, a list of values is empty.
        blank = [build_column([ValueList(()) if slot.listed else None]) for slot in program.slots[place]]
        missing = [Column(Kind.NULL, 1)] * len(program.sides[place])
        # The row of NULLs must be older than any record, and times may be before 1970.
        last = ColumnBatch(blank, 1, txids=np.zeros(1, np.uint64), times=np.array([_EARLIEST_TIME]), texts=missing)
        self.records = ColumnBatch.concatenate([*found, last])
        none = self.records.size - 1
        keys = [self.records.texts[side].take(slice(none)) for side in sides]
        codes, tuples = number_distinct(keys, none)
        # Stable, so that the partners of a row are in key order.
        self._order = np.append(np.argsort(codes, kind="stable"), none)
        # For each combination of texts, the start of its records in this order and their number. The last item is for
        # rows without a partner.
        self._counts = np.append(np.bincount(codes, minlength=len(tuples)), 1)
        self._starts = np.cumsum(self._counts) - self._counts
        self._met = {
            texts: number
            for number, (texts, count) in enumerate(zip(tuples, self._counts.tolist(), strict=False))
            # NULL matches nothing unless NULLs match; combinations without records are omitted.
            if count and (program.query.nulls_match or None not in texts)
        }

    def find_partners(self, sought: Sequence[Column], size: int, most: int | None) -> tuple[Array | None, Array]:
        """Return the rows after the join step and the number of the partner of each: which of the ``size`` rows it
        extends (None: one partner for each row, in order). Rows keep their order, and each occurs at least once.

        Raises _TooManyRows if the result has more than ``most`` rows.
        """
        codes, tuples = number_distinct(sought, size)
        found = np.array(list(map(self._met.get, tuples, repeat(len(self._counts) - 1))))[codes]
        starts, counts = self._starts[found], self._counts[found]
        if int(counts.max()) == 1:
            return None, self._order[starts]
        if most is not None and (rows_met := int(counts.sum())) > most:
            raise _TooManyRows(rows_met)
        rows = np.repeat(np.arange(size), counts)
        # The position of each result row among the partners of its row.
        passed = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self._order[starts[rows] + passed]


def number_distinct(texts: Sequence[Column], size: int) -> tuple[Array, list[Texts]]:
    """Number the distinct combinations of texts in ``size`` rows: return the number per row, and the combinations."""
    if len(texts) == 1 and texts[0].kind is Kind.STRING:
        # The codes of the words can be used as numbers; the code after them means NULL.
        return texts[0].data, [(word,) for word in (*texts[0].words, None)]
    codes, count = number_groups(texts, size)
    some = np.zeros(count, np.int64)
    some[codes] = np.arange(size)
    found: list[Texts] = list(zip(*(column.take_values(some) for column in texts), strict=True))
    return codes, found


class ColumnGroups:
    """Computes the groups of a view and adds them to ``groups``. ``read`` returns all records of a source by its
    number; ``waiting`` and ``part``: see :class:`Grouper`."""

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
        """Add all rows. Yield, for each batch, the number of inputs stored in lists of groups. Raises LimitError
        ``SOW-EXP-030``."""
        for batch in self.iterate_batches():
            yield batch.add_to_groups(self.groups)

    def iterate_batches(self) -> Iterator[GroupedBatch]:
        """Yield all rows with their groups, in the order of the records of the first source. Raises LimitError
        ``SOW-EXP-030``."""
        return self._grouper.group_parts(self._all_rows())

    def _all_rows(self) -> Iterator[ColumnBatch]:
        for part in self._read(0):
            for messages in self._join_rows(part):
                if messages.size:
                    yield messages

    def _join_rows(self, part: ColumnBatch) -> Iterator[ColumnBatch]:
        """Yield the rows of some records of the first source, in their order, at most about ``max_joined_rows`` at a
        time."""
        size = part.size
        try:
            found = self._rows(part, VIEW_LIMITS.max_joined_rows if size > 1 else None)
        except _TooManyRows as crowded:
            # Split the records so that each piece has fewer rows; a piece with most of the rows is split again.
            pieces = min(size, crowded.rows // VIEW_LIMITS.max_joined_rows + 1)
        else:
            yield found
            return
        for start, stop in pairwise(size * piece // pieces for piece in range(pieces + 1)):
            yield from self._join_rows(part.take(slice(start, stop)))

    def _rows(self, part: ColumnBatch, most: int | None) -> ColumnBatch:
        """Return the rows of some records of the first source. Raises _TooManyRows if they are more than ``most``."""
        program = self._program
        rows: Array | None = None
        numbers: RecordNumbers = {}
        for place, left, _ in program.step_places:
            size = part.size if rows is None else len(rows)
            sought = [self._take_column(part, rows, numbers, *side, texts=True) for side in left]
            more, numbers_of = self._attached[place].find_partners(sought, size, most)
            if more is not None:
                # A row with several partners is repeated for each, in the order of rows and partners.
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
            # The stamp of a row is that of its newest record, by txid and then by time (behaviour 11.50).
            newer = (others > txids) | ((others == txids) & (moments > times))
            txids, times = np.where(newer, others, txids), np.where(newer, moments, times)
        columns = [self._take_column(part, rows, numbers, source, slot) for source, slot, _ in program.places]
        return ColumnBatch(columns, size, txids=txids, times=times, keys=keys)

    def _filter_rows(
        self, condition: ColumnProgram, part: ColumnBatch, rows: Array | None, numbers: RecordNumbers
    ) -> tuple[Array, RecordNumbers]:
        """Return the joined rows that match the view's filter."""
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
        """Evaluate the view's filter row by row, and raise its error, if any, with the key of the row."""
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
        """Return a column of rows: a slot of a source by its number, or one of its texts."""
        held = self._attached[source].records if source else part
        column = held.texts[number] if texts else held.read_column(number)
        places = numbers[source] if source else rows
        return column if places is None else column.take(places)
