"""Columns of slot values in Arrow's layout: an array of one kind, a mask of NULLs, texts as codes of a dictionary.

Message types, memo indexes, the columnar evaluator, grouping and joins pass these to each other. Importing this module
imports numpy.

Invariants: for NULL the array has NaN in DOUBLE and NUMBER, 0 in the other numeric kinds, False in BOOL, and the code
``len(words)`` in STRING. A constant is a column of size 1, which numpy broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from itertools import chain, repeat
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

    ``data``: the array; of STRING the codes into ``dictionary``, its distinct texts in any order. ``ints``: of NUMBER,
    a mask of the Integers. ``source``: the slot values themselves, kept for ROWS, if some number has an original text
    (``texts``), and if they are value lists of at most one value (``listed``).
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
        """The texts of the dictionary as a list; texts in a buffer are copied once."""
        return self.dictionary if isinstance(self.dictionary, list) else list(self.dictionary)

    @cached_property
    def nulls(self) -> Array | None:
        """A mask of the NULLs; None if no value is NULL, and of ROWS columns, whose NULLs are not known."""
        if self.kind is Kind.NULL:
            return np.ones(self.size, np.bool_)
        if self.kind is Kind.STRING:
            # The code after the last word represents NULL.
            found = self.data == len(self.dictionary)
            return found if found.any() else None
        return self._nulls

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest value of a column of Integers; with NULLs the range includes 0."""
        if self.kind is Kind.BOOL or not self.data.size:
            return 0, 1
        # NULLs are 0 in the array. That can only widen the range, and a range that is too wide only means more work for
        # the row evaluator.
        return int(self.data.min()), int(self.data.max())

    @property
    def is_exact(self) -> bool:
        """Whether a Double can represent every Integer of a column of Integers."""
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
        """Return the column without the slot values it was made of, so without original texts."""
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
        """Return the slot values, one per row; of a constant a single one."""
        if self.source is not None:
            return self.source
        if self.kind is Kind.NULL:
            return [None] * self.size
        if self.kind is Kind.STRING:
            return list(map([*self.words, None].__getitem__, self.data.tolist()))
        return list_numbers(self.data, self.nulls, self.ints)

    def expand_constant(self, size: int) -> Column:
        """Return the column with one item per row: of a constant, its value ``size`` times."""
        return build_column(self.repeat_values(size)) if self.constant else self

    def repeat_values(self, size: int) -> Sequence[SlotValue]:
        """Return the slot values of ``size`` rows."""
        return list(repeat(self.read_values()[0], size)) if self.constant else self.read_values()

    def build_mask(self, size: int) -> Array:
        """Return a mask of the TRUE values, one item per row; only of BOOL and NULL columns."""
        found = np.zeros(1, np.bool_) if self.kind is Kind.NULL else self.data
        return np.broadcast_to(found, (size,)) if len(found) != size else found

    def take_values(self, places: Array) -> list[SlotValue]:
        """Return the slot values at some indexes."""
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
        """Select rows of the column; a constant remains one. The dictionary of the result has no more texts than rows.

        ``places``: an array of indexes, in its order and with its repetitions, or a slice.
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
            # The code after the last word represents NULL: the highest one here, and in the result also the one after
            # the last word.
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
    """Return the smallest numpy type for the codes of ``words`` texts and the code of NULL after them."""
    return np.uint8 if words < 255 else np.uint16 if words < 65_535 else np.int32


def build_column(values: Sequence[SlotValue], *, constant: bool = False) -> Column:
    """Build the column of slot values. A single value may be a ``constant``."""
    kinds = set(map(type, values))
    if ValueList not in kinds:
        return _build_from_scalars(values, kinds, values, constant)  # type: ignore[arg-type]  # there is no list
    lists = [value for value in values if type(value) is ValueList]
    if any(value.dropped or len(value.items) > 1 for value in lists):
        # A comparison uses all values of a list, and a numpy array has room for one.
        return Column(Kind.ROWS, len(values), source=values, constant=constant)
    firsts = [to_scalar(value) for value in values]
    column = _build_from_scalars(firsts, set(map(type, firsts)), values, constant)
    # Lists of at most one value compare like their values. The slot values are kept because functions of whole lists
    # distinguish an empty list from a NULL.
    column.source, column.listed = values, True
    return column


def build_scalar_column(values: Sequence[SlotValue], *, constant: bool = False) -> Column:
    """Build the column of the first values of slot values."""
    firsts = [to_scalar(value) for value in values]
    return _build_from_scalars(firsts, set(map(type, firsts)), firsts, constant)


def _build_from_scalars(
    values: Sequence[Scalar], kinds: set[type], source: Sequence[SlotValue], constant: bool
) -> Column:
    size = len(values)
    # NULL can be in a column of every kind.
    kinds = kinds - {_NONE_TYPE}
    # Only NULLs: no array is needed.
    if not kinds:
        return Column(Kind.NULL, size, constant=constant)
    column: Column | None = None
    if kinds <= {str, bytes}:
        column = _build_from_strings(values, str in kinds)
    # Booleans and numbers together are not a column of numbers: TRUE and 1 are equal but have different texts.
    elif kinds == {bool}:
        column = _build_plain(Kind.BOOL, values, np.bool_, False)
    elif kinds <= {int, float, Number}:
        column = _build_from_numbers(values, kinds, source)
    if column is None:
        # Values that fit no array remain as they are and are evaluated row by row.
        column = Column(Kind.ROWS, size, source=source)
    column.constant = constant
    return column


def _build_from_strings(values: Sequence[Any], decoded: bool) -> Column:
    index = dict.fromkeys(values)
    index.pop(None, None)
    if decoded:
        # The same text may occur as str and as bytes; the empty one is NULL.
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
    # NULL has a number in the array, too: see the invariants at the top of the module.
    filled = values if nulls is None else [blank if value is None else value for value in values]
    return Column(kind, len(values), np.array(filled, dtype), nulls)


def _build_from_numbers(values: Sequence[Any], kinds: set[type], source: Sequence[SlotValue]) -> Column | None:
    texts = Number in kinds
    # Numbers are compared and computed by their values; their texts remain in ``source`` for callers that need them.
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
    # Integers keep 64 bits; together with Doubles they remain Integers only if a Double represents each of them
    # exactly.
    whole = [value for value in values if type(value) is int]
    low, high = min(whole), max(whole)
    # One range decides for the whole column, so that the kernels need not check each value.
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
    """Concatenate columns of one slot, none of them a constant."""
    if len(columns) == 1:
        return columns[0]
    # NULLs can be in a column of every kind. A column of all values is built anew if some have no array, if there are
    # texts outside a buffer, or if the numbers are of two kinds and a Double cannot represent all of them.
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
    """Return the original texts of numbers, empty for numbers without one."""
    if isinstance(column.source, LazyNumbers):
        return column.source.texts
    nowhere = np.zeros(column.size, np.int64)
    return TextSpans(b"", nowhere, nowhere)


def pack_numbers(column: Column) -> Column:
    """Return the same column, original texts of numbers in one buffer if that loses nothing."""
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
    """Return the columns converted to one kind if a Double represents each Integer; otherwise the same columns."""
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
    several: dict[int, list[bytes]] = {}
    for column in columns:
        # Slices of one column share its dictionary.
        if id(column.dictionary) not in several:
            several[id(column.dictionary)] = column.words
    known = list(dict.fromkeys(chain.from_iterable(several.values())))
    # The code after the last word represents NULL, in each of the columns and in the result.
    nothing, kind = len(known), choose_code_type(len(known))
    codes = dict(zip(known, range(nothing), strict=True))
    tables = {
        identity: np.fromiter(chain(map(codes.__getitem__, words), (nothing,)), kind, len(words) + 1)
        for identity, words in several.items()
    }
    data = [
        np.full(column.size, nothing, kind) if column.array is None else tables[id(column.dictionary)][column.array]
        for column in columns
    ]
    return Column(Kind.STRING, size, np.concatenate(data), dictionary=known)


def replace_places(column: Column, places: Array, fresh: Column) -> Column:
    """The column with the values of ``fresh`` at ``places``; neither is a constant."""
    sources = (column.source, fresh.source)
    if column.kind is not fresh.kind or column.kind not in NUMERIC_KINDS or sources != (None, None):
        # Put together by the rules for a column of all values.
        order = np.arange(column.size)
        order[places] = np.arange(column.size, column.size + fresh.size)
        return concatenate_columns([column, fresh]).take(order)
    data, nulls, ints = column.data.copy(), column.nulls, column.ints
    data[places] = fresh.data
    if nulls is not None or fresh.nulls is not None:
        nulls = np.zeros(column.size, np.bool_) if nulls is None else nulls.copy()
        nulls[places] = False if fresh.nulls is None else fresh.nulls
        nulls = nulls if nulls.any() else None
    if ints is not None:
        ints = ints.copy()
        ints[places] = fresh.ints
    return Column(column.kind, column.size, data, nulls, ints=ints)
