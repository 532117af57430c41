"""Columns of slot values in Arrow's layout: an array of one kind, the places of NULL, texts as codes of a dictionary.

Message types, memo indexes, the columnar evaluator, grouping and joins hand these to each other. Importing this module
imports numpy.

Invariants: NULL places hold NaN in DOUBLE and NUMBER, 0 in the other numeric kinds, False in BOOL, and the code
``len(words)`` in STRING. A constant is a column of size 1, which numpy broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from sowctl.values.fields import Number, Scalar, SlotValue, ValueList
from sowctl.values.scalars import MAX_EXACT_INTEGER, to_scalar
from sowctl.values.textspans import LazyNumbers, TextSpans, list_numbers

Array: TypeAlias = "np.ndarray[Any, Any]"
_NONE_TYPE = type(None)


class Kind(Enum):
    """The kind of the values of a column, NULLs aside."""

    NULL = "nothing but NULL"
    BOOL = "Booleans"
    I64 = "Integers below 2**63"
    U64 = "Integers, some from 2**63 on"
    DOUBLE = "Doubles"
    NUMBER = "Doubles, and Integers within 2**53"
    STRING = "Strings"
    ROWS = "values of several kinds, or arrays"


FLOAT_KINDS = frozenset((Kind.DOUBLE, Kind.NUMBER))
INTEGER_KINDS = frozenset((Kind.BOOL, Kind.I64, Kind.U64))
NUMERIC_KINDS = FLOAT_KINDS | INTEGER_KINDS
_SCALAR_NUMBERS = frozenset((Kind.I64, Kind.DOUBLE, Kind.NUMBER))
_TEXT_NUMBERS = _SCALAR_NUMBERS | {Kind.U64}


class Column:
    """Values of one slot or sub-expression; ``size`` is 1 for a constant.

    ``data``: the array, of STRING the codes into ``dictionary``, its distinct texts in any order. ``ints``: of NUMBER,
    which places are Integers. ``source``: the slot values themselves, kept for ROWS, where ``texts``: some number has
    an original text, and where ``listed``: they are value lists of one value at most.
    """

    def __init__(
        self,
        kind: Kind,
        size: int,
        data: Array | None = None,
        nulls: Array | None = None,
        *,
        ints: Array | None = None,
        dictionary: Sequence[bytes] = (),
        source: Sequence[SlotValue] | None = None,
        texts: bool = False,
        listed: bool = False,
        constant: bool = False,
    ) -> None:
        self.kind = kind
        self.size = size
        self.array = data
        self._nulls = nulls
        self.ints = ints
        self.dictionary = dictionary
        self.source = source
        self.texts = texts
        self.listed = listed
        self.constant = constant

    @property
    def data(self) -> Array:
        """The array; NULL and ROWS have none."""
        assert self.array is not None
        return self.array

    @cached_property
    def words(self) -> list[bytes]:
        """The texts of the dictionary, each made once where they lie in a buffer."""
        return self.dictionary if isinstance(self.dictionary, list) else list(self.dictionary)

    @cached_property
    def nulls(self) -> Array | None:
        """True where the value is NULL; None if no value is. ROWS columns do not know."""
        if self.kind is Kind.NULL:
            return np.ones(self.size, np.bool_)
        if self.kind is Kind.STRING:
            # The code behind the last word stands for NULL.
            found = self.data == len(self.dictionary)
            return found if found.any() else None
        return self._nulls

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest Integer of a whole kind, 0 among them where there are NULLs."""
        if self.kind is Kind.BOOL or not self.data.size:
            return 0, 1
        # NULL places hold 0. That can only widen the range, and a range too wide only sends more to the row evaluator.
        return int(self.data.min()), int(self.data.max())

    @property
    def is_exact(self) -> bool:
        """Return whether every Integer of a whole kind is a Double."""
        low, high = self.bounds
        return low >= -MAX_EXACT_INTEGER and high <= MAX_EXACT_INTEGER

    @property
    def scalars(self) -> Column:
        """The column of the first values: itself, unless the slot values are lists."""
        # Not a cached property: a column that refers to itself keeps its array until the next collection of cycles.
        return self if self.kind is not Kind.ROWS and not self.listed else self._first_values

    @cached_property
    def _first_values(self) -> Column:
        if self.kind is not Kind.ROWS and not self.texts:
            return self.strip_source()
        assert self.source is not None
        return build_scalar_column(self.source, constant=self.constant)

    def strip_source(self) -> Column:
        """The column without the slot values it was made of, so without original texts."""
        if self.source is None:
            return self
        assert self.kind is not Kind.ROWS
        return Column(
            self.kind,
            self.size,
            self.array,
            self._nulls,
            ints=self.ints,
            dictionary=self.dictionary,
            constant=self.constant,
        )

    def read_values(self) -> Sequence[SlotValue]:
        """The slot values, one per row; a single one of a constant."""
        if self.source is not None:
            return self.source
        if self.kind is Kind.NULL:
            return [None] * self.size
        if self.kind is Kind.STRING:
            return list(map([*self.words, None].__getitem__, self.data.tolist()))
        return list_numbers(self.data, self.nulls, self.ints)

    def expand_constant(self, size: int) -> Column:
        """The column with one place per row: of a constant, its value ``size`` times."""
        return build_column(self.repeat_values(size)) if self.constant else self

    def repeat_values(self, size: int) -> Sequence[SlotValue]:
        """The slot values of ``size`` rows."""
        return list(repeat(self.read_values()[0], size)) if self.constant else self.read_values()

    def build_mask(self, size: int) -> Array:
        """Of BOOL and NULL columns: where the value is TRUE, one place per row."""
        found = np.zeros(1, np.bool_) if self.kind is Kind.NULL else self.data
        return np.broadcast_to(found, (size,)) if len(found) != size else found

    def take_values(self, places: Array) -> list[SlotValue]:
        """The slot values at some places."""
        if self.constant:
            return list(repeat(self.read_values()[0], len(places)))
        if isinstance(self.source, LazyNumbers):
            return list(self.source.take(places))
        if self.source is not None:
            return list(map(self.source.__getitem__, places.tolist()))
        if self.kind is Kind.NULL:
            return [None] * len(places)
        nulls = self.nulls[places] if self.nulls is not None and self.kind is not Kind.STRING else None
        ints = None if self.ints is None else self.ints[places]
        some = Column(self.kind, len(places), self.data[places], nulls, ints=ints, dictionary=self.words)
        return list(some.read_values())

    def take(self, places: Any) -> Column:
        """A column of some places; a constant stays one. The dictionary has no more texts than it needs.

        ``places``: an array of them in their order, each as often as it stands there, or a slice.
        """
        if self.constant:
            return self
        source: Sequence[SlotValue] | None = None
        if isinstance(self.source, LazyNumbers):
            source = self.source.take(places)
        elif self.source is not None:
            source = self.source[places] if isinstance(places, slice) else self.take_values(places)
        if self.array is None:
            size = len(source) if source is not None else len(np.empty(self.size, np.bool_)[places])
            return Column(self.kind, size, source=source, texts=self.texts, listed=self.listed)
        data, words = self.array[places], self.dictionary
        if self.kind is Kind.STRING and len(data) < len(words):
            # The code behind the last word stands for NULL: the highest one here, and again behind the last word.
            used, codes = np.unique(data, return_inverse=True)
            words = [self.words[code] for code in used.tolist() if code < len(words)]
            data = codes.astype(choose_code_type(len(words)))
        nulls = self.nulls[places] if self.nulls is not None and self.kind is not Kind.STRING else None
        if nulls is not None and not nulls.any():
            nulls = None
        ints = None if self.ints is None else self.ints[places]
        return Column(
            self.kind,
            len(data),
            data,
            nulls,
            ints=ints,
            dictionary=words,
            source=source,
            texts=self.texts,
            listed=self.listed,
        )


def choose_code_type(words: int) -> Any:
    """The smallest type of numpy for the codes of so many words and the one of NULL behind them."""
    return np.uint8 if words < 255 else np.uint16 if words < 65_535 else np.int32


def build_column(values: Sequence[SlotValue], *, constant: bool = False) -> Column:
    """The column of slot values. One value may be a ``constant``."""
    kinds = set(map(type, values))
    if ValueList not in kinds:
        return _build_from_scalars(values, kinds, values, constant)  # type: ignore[arg-type]  # there is no list
    lists = [value for value in values if type(value) is ValueList]
    if any(value.dropped or len(value.items) > 1 for value in lists):
        # A comparison sees all values of a list, and an array of numpy has room for one.
        return Column(Kind.ROWS, len(values), source=values, constant=constant)
    firsts = [to_scalar(value) for value in values]
    column = _build_from_scalars(firsts, set(map(type, firsts)), values, constant)
    # Lists of one value at most compare like their values. The slot values stay, because functions of whole lists tell
    # an empty list from a NULL.
    column.source, column.listed = values, True
    return column


def build_scalar_column(values: Sequence[SlotValue], *, constant: bool = False) -> Column:
    """The column of the first values of slot values."""
    firsts = [to_scalar(value) for value in values]
    return _build_from_scalars(firsts, set(map(type, firsts)), firsts, constant)


def _build_from_scalars(
    values: Sequence[Scalar], kinds: set[type], source: Sequence[SlotValue], constant: bool
) -> Column:
    size = len(values)
    # NULL goes with every kind.
    kinds = kinds - {_NONE_TYPE}
    # NULL alone: there is nothing to make an array of.
    if not kinds:
        return Column(Kind.NULL, size, constant=constant)
    column: Column | None = None
    if kinds <= {str, bytes}:
        column = _build_from_strings(values, str in kinds)
    # Booleans among numbers are no column of numbers: TRUE and 1 are equal but have different texts.
    elif kinds == {bool}:
        column = _build_plain(Kind.BOOL, values, np.bool_, False)
    elif kinds <= {int, float, Number}:
        column = _build_from_numbers(values, kinds, source)
    if column is None:
        # What fits no array stays as it is and is evaluated row by row.
        column = Column(Kind.ROWS, size, source=source)
    column.constant = constant
    return column


def _build_from_strings(values: Sequence[Any], decoded: bool) -> Column:
    index = dict.fromkeys(values)
    index.pop(None, None)
    if decoded:
        # The same text may have come as str and as bytes; the empty one is NULL.
        codes: dict[bytes, int] = {}
        for value in index:
            word = value.encode() if type(value) is str else value
            index[value] = codes.setdefault(word, len(codes)) if word else None
    else:
        codes = {word: number for number, word in enumerate(word for word in index if word)}
        index = dict(codes)
        index[b""] = None
    words = list(codes)
    nothing = len(words)
    places = {value: nothing if code is None else code for value, code in index.items()}
    places[None] = nothing
    if not words:
        return Column(Kind.NULL, len(values))
    data = np.fromiter(map(places.__getitem__, values), choose_code_type(len(words)), len(values))
    return Column(Kind.STRING, len(values), data, dictionary=words)


def _find_nulls(values: Sequence[Any]) -> Array | None:
    if None not in values:
        return None
    return np.fromiter((value is None for value in values), np.bool_, len(values))


def _build_plain(kind: Kind, values: Sequence[Any], dtype: Any, blank: Any) -> Column:
    nulls = _find_nulls(values)
    # The array has a number in NULL places, too: see the invariants at the top of the module.
    filled = values if nulls is None else [blank if value is None else value for value in values]
    return Column(kind, len(values), np.array(filled, dtype), nulls)


def _build_from_numbers(values: Sequence[Any], kinds: set[type], source: Sequence[SlotValue]) -> Column | None:
    texts = Number in kinds
    # Numbers are compared and computed by their values; their texts stay in ``source`` for what asks for them.
    if texts:
        values = [value.value if type(value) is Number else value for value in values]
        kinds = set(map(type, values)) - {_NONE_TYPE}
    column = _build_by_kinds(values, kinds)
    if column is not None and texts:
        column.source, column.texts = source, True
    return column


def _build_by_kinds(values: Sequence[Any], kinds: set[type]) -> Column | None:
    if kinds == {float}:
        return _build_plain(Kind.DOUBLE, values, np.float64, np.nan)
    # Integers keep 64 bits; together with Doubles they stay Integers only where every one is exact as a Double.
    whole = [value for value in values if type(value) is int]
    low, high = min(whole), max(whole)
    # One range decides for the whole column, so that the kernels never ask each value.
    if kinds == {int}:
        if high < 1 << 63:
            return _build_plain(Kind.I64, values, np.int64, 0)
        return _build_plain(Kind.U64, values, np.uint64, 0) if low >= 0 else None
    if low < -MAX_EXACT_INTEGER or high > MAX_EXACT_INTEGER:
        return None
    column = _build_plain(Kind.NUMBER, values, np.float64, np.nan)
    column.ints = np.fromiter((type(value) is int for value in values), np.bool_, len(values))
    return column


def concatenate_columns(columns: Sequence[Column]) -> Column:
    """Columns of one slot, none of them a constant, one behind the other."""
    if len(columns) == 1:
        return columns[0]
    # NULLs go with every kind. Values without an array, those with texts outside a buffer, and numbers of two kinds of
    # which no Double holds all are put together value by value, by the rules for a column of all of them.
    if any(isinstance(column.source, LazyNumbers) for column in columns):
        columns = list(map(pack_numbers, columns))
    typed = {column.source.typed for column in columns if isinstance(column.source, LazyNumbers)}
    plain = len(typed) <= 1 and all(
        column.source is None or isinstance(column.source, LazyNumbers) for column in columns
    )
    kinds = {column.kind for column in columns} - {Kind.NULL}
    if len(kinds) > 1 and kinds <= _SCALAR_NUMBERS and plain:
        columns = _unify_numbers(columns)
        kinds = {column.kind for column in columns} - {Kind.NULL}
    if len(kinds) > 1 or Kind.ROWS in kinds or not plain:
        return build_column([value for column in columns for value in column.read_values()])
    size = sum(column.size for column in columns)
    if not kinds:
        return Column(Kind.NULL, size)
    (kind,) = kinds
    if kind is Kind.STRING:
        return _concatenate_texts(columns, size)
    blank = np.nan if kind in FLOAT_KINDS else 0
    dtype = next(column.array.dtype for column in columns if column.array is not None)
    data = [np.full(column.size, blank, dtype) if column.array is None else column.array for column in columns]
    nulls = [np.zeros(column.size, np.bool_) if column.nulls is None else column.nulls for column in columns]
    ints = [np.zeros(column.size, np.bool_) if column.ints is None else column.ints for column in columns]
    missing = np.concatenate(nulls)
    found = Column(
        kind,
        size,
        np.concatenate(data),
        missing if missing.any() else None,
        ints=np.concatenate(ints) if kind is Kind.NUMBER else None,
    )
    if typed:
        texts = TextSpans.concatenate(list(map(_read_texts, columns)))
        found.source, found.texts = LazyNumbers(found.data, texts, found.nulls, found.ints, typed.pop()), True
    return found


def _read_texts(column: Column) -> TextSpans:
    """The original texts of numbers, empty ones where they have none."""
    if isinstance(column.source, LazyNumbers):
        return column.source.texts
    nowhere = np.zeros(column.size, np.int64)
    return TextSpans(b"", nowhere, nowhere)


def pack_numbers(column: Column) -> Column:
    """The same column; of numbers with original texts, these in one buffer, if that can hold all that they tell."""
    source = column.source
    if source is None or column.listed or column.kind not in _TEXT_NUMBERS or isinstance(source, LazyNumbers):
        return column
    typed = {value.typed for value in source if type(value) is Number}
    if len(typed) != 1:
        return column
    raw = [value.text if type(value) is Number else b"" for value in source]
    ends = np.cumsum(np.fromiter(map(len, raw), np.int64, len(raw)))
    texts = TextSpans(b"".join(raw), np.append(0, ends[:-1]), ends)
    numbers = LazyNumbers(column.data, texts, column.nulls, column.ints, typed.pop())
    return Column(
        column.kind, column.size, column.data, column.nulls, ints=column.ints, source=numbers, texts=True,
        constant=column.constant,
    )  # fmt: skip


def _unify_numbers(columns: Sequence[Column]) -> Sequence[Column]:
    """Columns of one kind, where a Double holds each Integer; else the same columns."""
    if not all(column.is_exact for column in columns if column.kind is Kind.I64):
        return columns
    return [_convert_to_number(column) for column in columns]


def _convert_to_number(column: Column) -> Column:
    if column.kind is Kind.NULL:
        return column
    data, nulls, ints = column.data, column.nulls, column.ints
    if column.kind is Kind.I64:
        data = data.astype(np.float64)
        ints = np.ones(column.size, np.bool_) if nulls is None else ~nulls
        if nulls is not None:
            data[nulls] = np.nan
    return Column(Kind.NUMBER, column.size, data, nulls, ints=ints, source=column.source, texts=column.texts)


def _concatenate_texts(columns: Sequence[Column], size: int) -> Column:
    codes: dict[bytes, int] = {}
    tables: dict[int, Array] = {}
    for column in columns:
        # Parts of one column share its dictionary.
        if (identity := id(column.dictionary)) not in tables:
            numbers = [codes.setdefault(word, len(codes)) for word in column.words]
            tables[identity] = np.array([*numbers, -1], np.int64)
    # The code behind the last word stands for NULL, in each of the columns and in that of all of them.
    nothing, kind = len(codes), choose_code_type(len(codes))
    for table in tables.values():
        table[-1] = nothing
    data = [
        np.full(column.size, nothing, kind)
        if column.array is None
        else tables[id(column.dictionary)].astype(kind)[column.array]
        for column in columns
    ]
    return Column(Kind.STRING, size, np.concatenate(data), dictionary=list(codes))
