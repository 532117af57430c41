"""Memo indexes of one path, opened for reading: the records that satisfy a condition, and the order of values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from sowctl.memo import rownumbers as p
from sowctl.memo.condition import Condition, Interval
from sowctl.memo.format import BadMemo, MemoFile, MemoKind
from sowctl.memo.valuecodec import decode_values
from sowctl.values.fields import SlotValue

if TYPE_CHECKING:
    from sowctl.values.column import Array, Column

INTEGERS_FLAG = 1
"""Flag of NUMBERS: all of them are Integers."""
DOUBLES_FLAG = 2
"""Flag of NUMBERS: none of them is an Integer."""
NULL, INTEGER = 1, 2
"""Marks of one record in an index of numbers."""


class Hits(Protocol):
    """The records that satisfy a condition."""

    count: int

    def read_row_numbers(self, *, arrays: bool) -> p.RowNumbers:
        """Return all of them, in any order; ``arrays``: as an array if that saves time."""
        ...

    def select_among(self, places: p.RowNumbers) -> p.RowNumbers:
        """Return those of ``places`` that are among them, in the same order."""
        ...


class MemoIndex(Protocol):
    """One path of all records of a state."""

    records: int
    state: int
    numeric: bool
    """Whether values compare as numbers."""

    def find_hits(self, condition: Condition, *, columns: bool) -> Hits:
        """Return the records that satisfy a condition; ``columns``: many values are evaluated as a column."""
        ...

    def iterate_by_value(self, *, descending: bool) -> Iterator[Sequence[int]]:
        """Yield the row numbers of all records by value, NULL lowest, equal values together and by row number."""
        ...

    def read_values(self) -> list[SlotValue]:
        """Return the slot value of every record, in key order."""
        ...

    def read_column(self, places: Array | None = None) -> Column:
        """Return the values at ``places`` (None: all) as a column. Imports numpy. Raises BadMemo."""
        ...


def open_index(file: MemoFile) -> MemoIndex | None:
    """Return the index in a file; None if the values of its path cannot be indexed. Raises BadMemo."""
    kind = file.head.kind
    # The file records that this path was tried: without it every query would try again.
    if kind is MemoKind.UNSUITED:
        return None
    if kind is MemoKind.NUMBERS:
        return NumberIndex(file)
    if kind is MemoKind.STRINGS:
        return StringIndex(file)
    if kind is MemoKind.WORDS:
        return WordIndex(file)
    raise BadMemo("not an index")


class _FileIndex:
    numeric = False

    def __init__(self, file: MemoFile) -> None:
        self.records = file.head.records
        self.state = file.head.state
        self._file = file


class NumberIndex(_FileIndex):
    """Sections: path, numbers (8 bytes each), optional marks, row numbers by number with the NULLs first."""

    numeric = True

    def __init__(self, file: MemoFile) -> None:
        super().__init__(file)
        self.nulls = file.head.count
        self.data = file.read_section(1).cast("q" if file.head.flags & INTEGERS_FLAG else "d")
        self.kinds = file.head.flags & (INTEGERS_FLAG | DOUBLES_FLAG)

    @property
    def marks(self) -> memoryview:
        """A byte for each record, empty if all have the same kind."""
        return self._file.read_section(2)

    def read_number_order(self) -> memoryview:
        """Return the row numbers by number, those of NULLs first."""
        return self._file.read_section(3).cast("I")

    def find_span(self, interval: Interval) -> tuple[int, int]:
        """Return the range of :meth:`read_number_order` within an interval."""
        # The rows are sorted by number, so an interval is one range of them, found by two binary searches.
        ranks, number = self.read_number_order(), self.data.__getitem__
        start, stop = self.nulls, self.records
        if interval.low is not None:
            search = bisect_right if interval.open_low else bisect_left
            start = search(ranks, interval.low, self.nulls, self.records, key=number)
        if interval.high is not None:
            search = bisect_left if interval.open_high else bisect_right
            stop = search(ranks, interval.high, self.nulls, self.records, key=number)
        return start, max(start, stop)

    def find_hits(self, condition: Condition, *, columns: bool) -> Hits:
        """See :class:`MemoIndex`."""
        if condition.interval is None:
            # Without bounds the condition is evaluated for every value, still without reading a record.
            return _RowNumberHits(
                condition.matches_column(self.read_column()) if columns else list(condition.matches(self.read_values()))
            )
        # The condition itself is evaluated for NULL: a negated one may hold for it.
        return _NumberHits(self, condition.interval, nulls=bool(condition.matches([None])))

    def iterate_by_value(self, *, descending: bool) -> Iterator[Sequence[int]]:
        """See :class:`MemoIndex`."""
        ranks, data = self.read_number_order(), self.data
        nulls = ranks[: self.nulls].tolist()
        if nulls and not descending:
            yield nulls
        if descending:
            stop = self.records
            while stop > self.nulls:
                # Equal values together and in key order also when descending: the group of the highest value comes
                # first, and its rows ascend.
                start = bisect_left(ranks, data[ranks[stop - 1]], self.nulls, stop, key=data.__getitem__)
                yield ranks[start:stop].tolist()
                stop = start
        else:
            start = self.nulls
            while start < self.records:
                stop = bisect_right(ranks, data[ranks[start]], start, self.records, key=data.__getitem__)
                yield ranks[start:stop].tolist()
                start = stop
        if nulls and descending:
            yield nulls

    def read_values(self) -> list[SlotValue]:
        """See :class:`MemoIndex`."""
        found: list[Any] = self.data.tolist()
        # For a single kind without NULLs the section is the result; otherwise marks give the kind of each number.
        if self.nulls or not self.kinds:
            for place, mark in enumerate(bytes(self.marks)):
                if mark & NULL:
                    found[place] = None
                elif mark & INTEGER and not self.kinds:
                    found[place] = int(found[place])
        return found

    def read_column(self, places: Array | None = None) -> Column:
        """See :class:`MemoIndex`."""
        import numpy as np

        from sowctl.values.column import Column, Kind

        # As in the file: the array has the value for NULL that a column requires.
        data: Any = np.frombuffer(self.data, self.data.format)  # type: ignore[arg-type]  # numpy accepts any format
        marks: Any = np.frombuffer(self.marks, np.uint8) if len(self.marks) else None
        if places is not None:
            data, marks = data[places], None if marks is None else marks[places]
        # A column without NULLs has no mask, so that computations use the faster path.
        nulls = None if marks is None or not self.nulls else marks == NULL
        if nulls is not None and not nulls.any():
            nulls = None
        if nulls is not None and nulls.all():
            return Column(Kind.NULL, len(data))
        if self.kinds == INTEGERS_FLAG:
            return Column(Kind.I64, len(data), data, nulls)
        if self.kinds == DOUBLES_FLAG or marks is None:
            return Column(Kind.DOUBLE, len(data), data, nulls)
        return Column(Kind.NUMBER, len(data), data, nulls, ints=marks == INTEGER)


class _NumberHits:
    def __init__(self, index: NumberIndex, interval: Interval, *, nulls: bool) -> None:
        self._index, self._interval, self._nulls = index, interval, nulls
        self._span = index.find_span(interval)
        self.count = self._span[1] - self._span[0] + (index.nulls if nulls else 0)

    def read_row_numbers(self, *, arrays: bool) -> p.RowNumbers:
        spans = [self._span] if not self._nulls else [(0, self._index.nulls), self._span]
        return p.read_spans(self._index.read_number_order(), spans, arrays=arrays)

    def select_among(self, places: p.RowNumbers) -> p.RowNumbers:
        interval, index = self._interval, self._index
        # NULLs are outside the interval: both parts are needed, and testing each row is no faster.
        if self._nulls:
            return p.intersect_rows(places, self.read_row_numbers(arrays=not isinstance(places, list)))
        # The section has some number for a NULL as well; the marks exclude those rows first.
        if index.nulls:
            places = p.select_flagged(places, index.marks, bytes(not code & NULL for code in range(256)))
        return p.select_within(places, index.data, interval)


class _RowNumberHits:
    def __init__(self, places: p.RowNumbers) -> None:
        self._places = places
        self.count = len(places)

    def read_row_numbers(self, *, arrays: bool) -> p.RowNumbers:
        return self._places if arrays else p.list_rows(self._places)

    def select_among(self, places: p.RowNumbers) -> p.RowNumbers:
        return p.intersect_rows(places, self._places)


class _CodedIndex(_FileIndex, ABC):
    """Sections: path, codes, start of the row numbers of each code, row numbers by code. The last code is NULL."""

    def __init__(self, file: MemoFile) -> None:
        super().__init__(file)
        self.words = file.head.count
        self.codes = file.read_codes(1)

    def read_code_order(self) -> tuple[memoryview, memoryview]:
        """Return the start of the row numbers of each code, and the row numbers."""
        return self._file.read_section(2).cast("I"), self._file.read_section(3).cast("I")

    def find_hits(self, condition: Condition, *, columns: bool) -> Hits:
        """See :class:`MemoIndex`. Evaluates the condition for each distinct value; there are seldom many."""
        return _CodeHits(self, self._choose_codes(condition))

    def _choose_codes(self, condition: Condition) -> Sequence[int]:
        return condition.matches([*self.read_distinct_values(), None])

    @abstractmethod
    def read_distinct_values(self) -> list[SlotValue]:
        """Return the value of each code except NULL's."""

    def iterate_by_value(self, *, descending: bool) -> Iterator[Sequence[int]]:
        """See :class:`MemoIndex`."""
        starts, places = self.read_code_order()
        # NULL has the highest code and is the lowest value.
        ranks = [self.words, *range(self.words)]
        for code in reversed(ranks) if descending else ranks:
            if starts[code] < starts[code + 1]:
                yield places[starts[code] : starts[code + 1]].tolist()

    def read_values(self) -> list[SlotValue]:
        """See :class:`MemoIndex`."""
        return list(map([*self.read_distinct_values(), None].__getitem__, self.codes.tolist()))


class _CodeHits:
    def __init__(self, index: _CodedIndex, codes: Sequence[int]) -> None:
        self._index, self._codes = index, codes
        # The count is known before any row is read, because the planner uses it.
        starts, self._places = index.read_code_order()
        self._spans = [(starts[code], starts[code + 1]) for code in codes if starts[code] < starts[code + 1]]
        self.count = sum(stop - start for start, stop in self._spans)

    def read_row_numbers(self, *, arrays: bool) -> p.RowNumbers:
        return p.read_spans(self._places, self._spans, arrays=arrays)

    def select_among(self, places: p.RowNumbers) -> p.RowNumbers:
        # One byte per code: testing a row is an index access without a search, however many codes are selected.
        flags = bytearray(self._index.words + 1)
        for code in self._codes:
            flags[code] = 1
        return p.select_flagged(places, self._index.codes, bytes(flags))


class StringIndex(_CodedIndex):
    """Only Strings and NULL. Codes are in byte order; two more sections: start of each String, the Strings."""

    def read_distinct_values(self) -> list[SlotValue]:
        """See :class:`_CodedIndex`."""
        ends, text = self._file.read_section(4).cast("Q").tolist(), bytes(self._file.read_section(5))
        try:
            return [text[start:stop].decode() for start, stop in pairwise(ends)]
        except UnicodeDecodeError:
            return [text[start:stop] for start, stop in pairwise(ends)]

    def read_column(self, places: Array | None = None) -> Column:
        """See :class:`MemoIndex`."""
        import numpy as np

        from sowctl.values.column import Column, Kind
        from sowctl.values.textspans import TextSpans

        # Rows are compared and grouped by their codes, and the Strings are only used at the end.
        codes: Any = np.frombuffer(self.codes, self.codes.format)
        codes = codes if places is None else codes[places]
        bounds: Any = np.frombuffer(self._file.read_section(4), "<u8")
        words = TextSpans(self._file.read_section(5), bounds[:-1], bounds[1:])
        return Column(Kind.STRING, len(codes), codes, dictionary=words)

    def _choose_codes(self, condition: Condition) -> Sequence[int]:
        if condition.strings is None:
            return super()._choose_codes(condition)
        starts, text = self._file.read_section(4).cast("Q"), self._file.read_section(5)
        found = []
        # Equality with given Strings: only those are searched, and no other value is decoded.
        for wanted in condition.strings:
            # Codes are in the byte order of the Strings: a binary search in the section, without decoding all of it.
            code = bisect_left(range(self.words), wanted, key=lambda at: bytes(text[starts[at] : starts[at + 1]]))
            if code < self.words and text[starts[code] : starts[code + 1]] == wanted:
                found.append(code)
        return found


class WordIndex(_CodedIndex):
    """Values of any kind, with few distinct ones; one more section: the values."""

    def read_distinct_values(self) -> list[SlotValue]:
        """See :class:`_CodedIndex`."""
        return decode_values(self._file.read_section(4))

    def read_column(self, places: Array | None = None) -> Column:
        """See :class:`MemoIndex`."""
        from sowctl.values.column import build_column

        values = self.read_values()
        return build_column(values if places is None else [values[place] for place in places.tolist()])

    def iterate_by_value(self, *, descending: bool) -> Iterator[Sequence[int]]:
        """Raise BadMemo: the order of several kinds depends on other values in the result, which are unknown here."""
        raise BadMemo("values of several kinds have no order of their own")
