"""Building memo indexes from slot values that are added batch by batch, in key order. Imports numpy."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from sowctl.memo.format import MemoHeader, MemoKind, encode_file
from sowctl.memo.index import DOUBLES_FLAG, INTEGER, INTEGERS_FLAG, NULL
from sowctl.memo.valuecodec import encode_values
from sowctl.values.column import Array, Column, Kind, build_column, concatenate_columns
from sowctl.values.fields import SlotValue, ValueList

MAX_DISTINCT_VALUES = 1 << 16
"""Number of distinct values of several kinds above which a path is not indexed. A limit of memory, not measured: a
reader creates a Python object for each."""

FileParts: TypeAlias = "list[bytes | memoryview]"


class _Form(Enum):
    """The forms of a column's file, from the cheapest to the most general."""

    NULLS = 0
    NUMBERS = 1
    STRINGS = 2
    WORDS = 3


class IndexBuilder:
    """The values of one path. Add all records, then call :meth:`build_parts`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._records = 0
        self._spoiled = False
        self._form = _Form.NULLS
        # Columns of the same form, unless that is WORDS; then codes of distinct values.
        self._columns: list[Column] = []
        self._words: dict[tuple[type, SlotValue], int] = {}
        self._codes: list[Array] = []

    def mark_unreadable(self) -> None:
        """Record that some record could not be read."""
        self._spoiled = True

    def add_values(self, values: Sequence[SlotValue]) -> None:
        """Add the values of the next records."""
        self._records += len(values)
        if self._form is not _Form.WORDS:
            column = build_column(values)
            # Columns treat bytes and str as the same String; in a file they are different values.
            plain = column.kind is not Kind.STRING or bytes not in set(map(type, values))
            if plain and self._keep_column(column):
                return
        self._add_words(values)

    def add_column(self, column: Column) -> None:
        """Add the values of the next records, one per record; Strings are UTF-8."""
        self._records += column.size
        if not self._keep_column(column):
            self._add_words(_list_values(column))

    def _keep_column(self, column: Column) -> bool:
        """Keep a column if it has the form of the previous ones; return whether it has."""
        form = _find_form(column)
        # NULLs are compatible with every form.
        if form is not self._form and _Form.NULLS not in (form, self._form):
            form = _Form.WORDS
        if _Form.WORDS in (form, self._form):
            return False
        self._form = form if self._form is _Form.NULLS else self._form
        self._columns.append(column)
        return True

    def extend(self, other: IndexBuilder) -> None:
        """Add the values of the records after these, which were added to ``other``."""
        self._spoiled |= other._spoiled or other._has_overflowed
        if self._spoiled:
            self._records += other._records
            return
        for column in other._columns:
            self.add_column(column)
        # Code -1, NULL, is at the end of the list.
        words = [*(_restore_value(key[1]) for key in other._words), None]
        for codes in other._codes:
            self.add_values(list(map(words.__getitem__, codes.tolist())))

    @property
    def _has_overflowed(self) -> bool:
        return len(self._words) > MAX_DISTINCT_VALUES

    def _add_words(self, values: Sequence[SlotValue]) -> None:
        # A column switches to words when a value does not fit, and never back. The earlier values are converted.
        self._form = _Form.WORDS
        earlier, self._columns = self._columns, []
        for column in earlier:
            self._add_words(_list_values(column))
        # Too many distinct values: collecting stops, and build_parts() reports that the path is not indexed.
        if self._has_overflowed:
            return
        known = self._words
        found = []
        for value in values:
            if value is None or value == "" or value == b"":
                found.append(-1)
            else:
                found.append(known.setdefault((type(value), _make_hashable(value)), len(known)))
        self._codes.append(np.array(found, np.int32))

    def build_parts(self, state: int) -> FileParts:
        """Return the file for the state with this number."""
        if self._spoiled:
            return self._build_unsuited(state)
        if self._form is not _Form.WORDS:
            column = concatenate_columns(self._columns or [Column(Kind.NULL, 0)])
            build = self._build_string_parts if self._form is _Form.STRINGS else self._build_number_parts
            return build(column, state)
        words = [key[1] for key in self._words]
        # NaN is not equal to itself, so it has no code by which it could be found again.
        if len(words) > MAX_DISTINCT_VALUES or any(value != value for value in words):
            return self._build_unsuited(state)
        codes = np.concatenate([*self._codes, np.empty(0, np.int32)])
        return self._build_coded(
            MemoKind.WORDS,
            np.where(codes < 0, len(words), codes),
            len(words),
            state,
            [encode_values([_restore_value(word) for word in words])],
        )

    def _build_unsuited(self, state: int) -> FileParts:
        return encode_file(MemoHeader(MemoKind.UNSUITED, self._records, state), [self._text.encode()])

    def _build_number_parts(self, column: Column, state: int) -> FileParts:
        size = column.size
        nulls = np.zeros(size, np.bool_) if column.nulls is None else column.nulls
        data = np.zeros(size, np.int64) if column.kind is Kind.NULL else column.data
        flags = DOUBLES_FLAG if column.kind is Kind.DOUBLE else 0 if column.kind is Kind.NUMBER else INTEGERS_FLAG
        count = int(nulls.sum())
        # Stable: equal values stay in key order, which is the order of a query without further keys.
        order = np.argsort(np.where(nulls, -np.inf, data), kind="stable")
        if count:  # infinities in the data must not be mixed with the NULLs
            order = np.concatenate([np.flatnonzero(nulls), order[~nulls[order]]])
        marks = np.empty(0, np.uint8)
        if count or not flags:
            whole = flags == INTEGERS_FLAG if column.ints is None else column.ints
            marks = np.where(nulls, NULL, np.where(whole, INTEGER, 0)).astype(np.uint8)
        head = MemoHeader(MemoKind.NUMBERS, self._records, state, 8, count, flags)
        return encode_file(
            head, [self._text.encode(), _to_bytes(data), _to_bytes(marks), _to_bytes(order.astype(np.uint32))]
        )

    def _build_string_parts(self, column: Column, state: int) -> FileParts:
        texts, nothing = column.words, len(column.words)
        # Codes are assigned in byte order, so that a range of Strings is a range of codes. Texts that no record has are
        # not part of the index.
        counts = np.bincount(column.data, minlength=nothing + 1)[:nothing]
        ranking = sorted(np.flatnonzero(counts).tolist(), key=texts.__getitem__)
        rank = np.full(nothing + 1, len(ranking), np.int32)
        rank[ranking] = np.arange(len(ranking), dtype=np.int32)
        ordered = [texts[code] for code in ranking]
        # One more than there are Strings: each ends where the next one starts.
        ends = np.zeros(len(ordered) + 1, np.uint64)
        np.cumsum([len(text) for text in ordered], out=ends[1:])
        return self._build_coded(
            MemoKind.STRINGS, rank[column.data], len(ordered), state, [_to_bytes(ends), b"".join(ordered)]
        )

    def _build_coded(
        self, kind: MemoKind, codes: Array, words: int, state: int, more: Sequence[bytes | memoryview]
    ) -> FileParts:
        # The narrowest width for all codes and NULL's, which is the number of words.
        width, kept = next((w, t) for w, t in ((1, np.uint8), (2, np.uint16), (4, np.uint32)) if words < 1 << 8 * w)
        codes = codes.astype(kept)
        order = np.argsort(codes, kind="stable").astype(np.uint32)
        # Counting sort: code c has the rows order[starts[c]:starts[c + 1]].
        starts = np.zeros(words + 2, np.uint32)
        np.cumsum(np.bincount(codes, minlength=words + 1), out=starts[1:])
        head = MemoHeader(kind, self._records, state, width, words)
        return encode_file(head, [self._text.encode(), _to_bytes(codes), _to_bytes(starts), _to_bytes(order), *more])


def _to_bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B") if array.size else memoryview(b"")


def _find_form(column: Column) -> _Form:
    if column.kind is Kind.NULL and column.source is None:
        return _Form.NULLS
    if column.source is None and column.kind is Kind.STRING:
        return _Form.STRINGS
    # Two different Integers beyond 2**53 would compare as equal Doubles, and NaN has no position in an order for binary
    # search.
    if column.source is None and column.kind is Kind.I64 and column.is_exact:
        return _Form.NUMBERS
    if column.source is None and column.kind in (Kind.DOUBLE, Kind.NUMBER):
        nulls = 0 if column.nulls is None else np.count_nonzero(column.nulls)
        if np.count_nonzero(np.isnan(column.data)) == nulls:
            return _Form.NUMBERS
    return _Form.WORDS


def _list_values(column: Column) -> Sequence[SlotValue]:
    """Return the values in the form of readers of single messages: Strings are str."""
    return [value.decode() if type(value) is bytes else value for value in column.read_values()]


def _make_hashable(value: SlotValue) -> Any:
    """Return a key that distinguishes 1, 1.0 and TRUE, and 0.0 and -0.0, also within lists."""
    # 1 == 1.0 == True and 0.0 == -0.0 in Python, so types are part of the key, also those of list items, and the text
    # of zeros.
    if isinstance(value, ValueList):
        items = tuple((type(item), repr(item) if type(item) is float else item) for item in value.items)
        return items, value.dropped, value
    return value if value or type(value) is not float else (repr(value), False, value)


def _restore_value(word: Any) -> SlotValue:
    value: SlotValue = word[2] if isinstance(word, tuple) else word
    return value


def build_key_parts(keys: bytes, txids: Array, times: Array, state: int) -> FileParts:
    """Return the file for the state with this number: keys of all records (8 bytes each, ascending), their txids and
    times.

    ``txids`` are u64, ``times`` i64.
    """
    return encode_file(
        MemoHeader(MemoKind.KEYS, len(keys) // 8, state), [b"", keys, _to_bytes(txids), _to_bytes(times)]
    )


def build_type_parts(name: str, types: bytes, state: int) -> FileParts:
    """Return the file of the field types of a state, encoded as ``types``."""
    return encode_file(MemoHeader(MemoKind.TYPES, 0, state), [name.encode(), types])


def build_location_parts(locations: tuple[Array, Array, Array], state: int) -> FileParts:
    """Return the file for the state with this number: offset, size and last number of each record."""
    return encode_file(MemoHeader(MemoKind.SPOTS, len(locations[0]), state), [b"", *map(_to_bytes, locations)])
