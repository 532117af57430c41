"""Making memo indexes of slot values that come batch by batch, in key order. Loads numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import Any, TypeAlias, cast

import numpy as np

from sowctl.memo.column import DOUBLES_FLAG, INTEGER, INTEGERS_FLAG, NULL
from sowctl.memo.format import MemoHeader, MemoKind, encode_file
from sowctl.memo.valuecodec import encode_values
from sowctl.values.fields import SlotValue
from sowctl.values.scalars import MAX_EXACT_INTEGER

MAX_DISTINCT_VALUES = 1 << 16
"""Distinct values of several kinds above which a path is not indexed. A bound of memory, not measured: a reader makes
a Python object of each."""
# The largest range in which each integer has a double of its own: beyond it two different Integers would compare as
# equal.
_NUMERIC_TYPES = frozenset({int, float, type(None)})
_STRING_TYPES = frozenset({str, type(None)})
_TYPE_MARKS: dict[type, int] = {int: INTEGER, float: 0, type(None): NULL}

Array: TypeAlias = "np.ndarray[Any, Any]"
FileParts: TypeAlias = "list[bytes | memoryview]"


class ColumnBuilder:
    """The values of one path. Feed it all records, then ask for :meth:`build_parts`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._numbers: list[tuple[Array, Array]] | None = []
        self._strings: dict[str, int] | None = {}
        self._words: dict[tuple[type, SlotValue], int] | None = None
        self._codes: list[Array] = []
        self._records = 0
        self._spoiled = False

    def mark_unreadable(self) -> None:
        """Note that some record could not be read."""
        self._spoiled = True

    def add_values(self, values: Sequence[SlotValue]) -> None:
        """The values of the next records."""
        self._records += len(values)
        # Codes are looked up before anything is known of the types: only a String finds one.
        if self._strings and (codes := self._find_known_codes(values)) is not None:
            self._codes.append(codes)
            return
        kinds = set(map(type, values))
        # Three forms, from the cheapest to the most general; a column goes over to the next one when a value does not
        # fit, and never back. What came so far is carried over.
        if self._numbers is not None:
            if kinds <= _NUMERIC_TYPES and _are_exact(values, kinds):
                part = _build_number_column(values, kinds)
                # NaN has no place in an order that a search by halves could use.
                if not np.isnan(part[0]).any():
                    self._numbers.append(part)
                    return
            self._leave_numbers()
        if self._strings is not None:
            if kinds <= _STRING_TYPES:
                self._add_strings(values)
                return
            self._leave_strings()
        self._add_words(values)

    def add_numbers(self, numbers: Array, nulls: Array | None, *, whole: bool) -> None:
        """The values of the next records: Doubles, none of them NaN, or Integers within 2**53, and 0 for NULL."""
        marks = np.full(len(numbers), INTEGER if whole else 0, np.uint8)
        if nulls is not None:
            marks[nulls] = NULL
        numbers = numbers.astype(np.float64)
        if self._numbers is None:
            self.add_values(_build_slot_values(numbers, marks))
            return
        self._records += len(numbers)
        self._numbers.append((numbers, marks))

    def add_strings(self, codes: Array, words: Sequence[str]) -> None:
        """The values of the next records: codes of distinct words, and that behind the last one for NULL."""
        if (self._numbers and not _are_all_null(self._numbers)) or self._strings is None:
            self.add_values(list(map([*words, None].__getitem__, codes.tolist())))
            return
        if self._numbers is not None:
            self._leave_numbers()
        self._records += len(codes)
        if all(word in self._strings for word in words):
            table = np.append(self._encode_strings(words), np.int32(-1))
        else:
            # In the order in which they come, as :meth:`add_values` meets them: where they are kept in this order, the
            # same records make the same file. Each is looked up once, which counts where they are many.
            seen, places = np.unique(codes, return_index=True)
            known = seen < len(words)
            coming = seen[known][np.argsort(places[known])]
            table = np.full(len(words) + 1, -1, np.int32)
            table[coming] = self._encode_strings([words[code] for code in coming.tolist()])
        self._codes.append(table[codes])

    def extend(self, other: ColumnBuilder) -> None:
        """The values of the records behind these, which ``other`` was fed with."""
        self._spoiled |= other._spoiled or other._has_overflowed
        if self._spoiled:
            self._records += other._records
        elif self._numbers is not None and other._numbers is not None:
            self._numbers += other._numbers
            self._records += other._records
        elif None not in (self._strings, other._strings) and self._numbers is other._numbers is None:
            # Codes of the other mean other Strings here: each distinct one is looked up once.
            codes = np.append(self._encode_strings(list(other._strings or ())), np.int32(-1))
            self._codes += [codes[part] for part in other._codes]
            self._records += other._records
        else:
            for values in other._list_values():
                self.add_values(values)

    @property
    def _has_overflowed(self) -> bool:
        return self._words is not None and len(self._words) > MAX_DISTINCT_VALUES

    def _list_values(self) -> Iterator[list[SlotValue]]:
        """All values that came so far."""
        if self._numbers is not None:
            for numbers, marks in self._numbers:
                yield _build_slot_values(numbers, marks)
            return
        words = [_restore_value(key[1]) for key in self._words or ()] if self._strings is None else list(self._strings)
        for codes in self._codes:
            # Code -1, NULL, is found at the end.
            yield list(map([*words, None].__getitem__, codes.tolist()))

    def _leave_numbers(self) -> None:
        """Convert the values so far, which were numbers or NULL alone, because another kind follows."""
        assert self._numbers is not None
        earlier, self._numbers = self._numbers, None
        if not earlier:
            return
        # Only NULLs so far: they fit any form, so Strings are still possible.
        if _are_all_null(earlier):
            for _, marks in earlier:
                self._add_strings([None] * len(marks))
            return
        self._leave_strings()
        for numbers, marks in earlier:
            self._add_words(_build_slot_values(numbers, marks))

    def _leave_strings(self) -> None:
        strings, self._strings = self._strings, None
        self._words = {(str, text): code for text, code in (strings or {}).items()}

    def _add_strings(self, values: Sequence[SlotValue]) -> None:
        self._codes.append(self._encode_strings(cast("Sequence[str | None]", values)))

    def _encode_strings(self, texts: Sequence[str | None]) -> Array:
        known = self._strings
        assert known is not None
        # A column of few Strings is coded without a step in Python for each record: only new Strings take one. Code -1
        # stands for NULL, and the empty String is NULL.
        new = [text for text in dict.fromkeys(texts) if text and text not in known]
        known.update(zip(new, count(len(known)), strict=False))
        return np.fromiter(map(cast("Any", known.get), texts, repeat(-1)), np.int32, len(texts))

    def _find_known_codes(self, values: Sequence[SlotValue]) -> Array | None:
        """The codes of values that are all Strings known already; None where one is something else, or NULL."""
        assert self._strings is not None
        try:
            codes = map(self._strings.__getitem__, cast("Sequence[str]", values))
            return np.fromiter(codes, np.int32, len(values))
        except (KeyError, TypeError):
            return None

    def _add_words(self, values: Sequence[SlotValue]) -> None:
        known = self._words
        # Too many distinct values: nothing more is gathered, and parts() says that the path is not indexed.
        if known is None or self._has_overflowed:
            return
        found = []
        for value in values:
            if value is None or value == "" or value == b"":
                found.append(-1)
            else:
                found.append(known.setdefault((type(value), _make_hashable(value)), len(known)))
        self._codes.append(np.array(found, np.int32))

    def build_parts(self, digest: int) -> FileParts:
        """The file for the state with ``digest``."""
        if self._spoiled:
            return self._build_unsuited(digest)
        if self._numbers is not None:
            return self._build_number_parts(digest)
        if self._strings is not None:
            return self._build_string_parts(digest)
        words = [key[1] for key in self._words or {}]
        # NaN is not equal to itself, so it has no code by which it could be found again.
        if len(words) > MAX_DISTINCT_VALUES or any(value != value for value in words):
            return self._build_unsuited(digest)
        codes = np.concatenate([*self._codes, np.empty(0, np.int32)])
        return self._build_coded(
            MemoKind.WORDS, codes, len(words), digest, [encode_values([_restore_value(word) for word in words])]
        )

    def _build_unsuited(self, digest: int) -> FileParts:
        return encode_file(MemoHeader(MemoKind.UNSUITED, self._records, digest), [self._text.encode()])

    def _build_number_parts(self, digest: int) -> FileParts:
        empty = np.empty(0), np.empty(0, np.uint8)
        numbers = np.concatenate([*(part for part, _ in self._numbers or []), empty[0]])
        marks = np.concatenate([*(part for _, part in self._numbers or []), empty[1]])
        nulls = marks == NULL
        count = int(nulls.sum())
        flags = INTEGERS_FLAG if not (marks == 0).any() else DOUBLES_FLAG if not (marks == INTEGER).any() else 0
        data = (
            np.where(nulls, 0, numbers).astype(np.int64) if flags == INTEGERS_FLAG else np.where(nulls, np.nan, numbers)
        )
        # Stable: equal values stay in key order, which is the order that a query without further keys must give.
        order = np.argsort(np.where(nulls, -np.inf, numbers), kind="stable")
        if count:  # infinities of the data must not mix with the NULLs
            order = np.concatenate([np.flatnonzero(nulls), order[~nulls[order]]])
        kept = marks if count or not flags else np.empty(0, np.uint8)
        head = MemoHeader(MemoKind.NUMBERS, self._records, digest, 8, count, flags)
        return encode_file(
            head, [self._text.encode(), _to_bytes(data), _to_bytes(kept), _to_bytes(order.astype(np.uint32))]
        )

    def _build_string_parts(self, digest: int) -> FileParts:
        texts = [text.encode() for text in self._strings or {}]
        # Codes are given anew in the order of bytes, so that a range of Strings is a range of codes.
        ranking = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.empty(len(texts) + 1, np.int32)
        rank[ranking] = np.arange(len(texts), dtype=np.int32)
        rank[-1] = -1  # code -1, NULL, is found at the end
        codes = rank[np.concatenate([*self._codes, np.empty(0, np.int32)])]
        ordered = [texts[code] for code in ranking]
        # One more than there are Strings: each ends where the next one starts.
        ends = np.zeros(len(texts) + 1, np.uint64)
        np.cumsum([len(text) for text in ordered], out=ends[1:])
        return self._build_coded(MemoKind.STRINGS, codes, len(texts), digest, [_to_bytes(ends), b"".join(ordered)])

    def _build_coded(
        self, kind: MemoKind, codes: Array, words: int, digest: int, more: Sequence[bytes | memoryview]
    ) -> FileParts:
        # The narrowest width that holds all codes and NULL's, which is the number of words.
        width, kept = next((w, t) for w, t in ((1, np.uint8), (2, np.uint16), (4, np.uint32)) if words < 1 << 8 * w)
        codes = np.where(codes < 0, words, codes).astype(kept)
        order = np.argsort(codes, kind="stable").astype(np.uint32)
        # Counting sort: code c has the rows order[starts[c]:starts[c + 1]].
        starts = np.zeros(words + 2, np.uint32)
        np.cumsum(np.bincount(codes, minlength=words + 1), out=starts[1:])
        head = MemoHeader(kind, self._records, digest, width, words)
        return encode_file(head, [self._text.encode(), _to_bytes(codes), _to_bytes(starts), _to_bytes(order), *more])


def _to_bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B") if array.size else memoryview(b"")


def _are_exact(values: Sequence[SlotValue], kinds: set[type]) -> bool:
    """Return whether a Double holds each Integer among the numbers."""
    if kinds == {int}:
        integers = cast("Sequence[int]", values)
        return min(integers) >= -MAX_EXACT_INTEGER and max(integers) <= MAX_EXACT_INTEGER
    return int not in kinds or not any(
        type(value) is int and not -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER for value in values
    )


def _build_number_column(values: Sequence[SlotValue], kinds: set[type]) -> tuple[Array, Array]:
    """The numbers, 0 for NULL, and the marks."""
    if len(kinds) == 1 and None.__class__ not in kinds:
        mark = INTEGER if kinds == {int} else 0
        return np.array(values, np.float64), np.full(len(values), mark, np.uint8)
    marks = np.array([_TYPE_MARKS[type(value)] for value in values], np.uint8)
    return np.array([0 if value is None else value for value in values], np.float64), marks


def _are_all_null(parts: Sequence[tuple[Array, Array]]) -> bool:
    return all((marks == NULL).all() for _, marks in parts)


def _build_slot_values(numbers: Array, marks: Array) -> list[SlotValue]:
    pairs = zip(numbers.tolist(), marks.tolist(), strict=True)
    return [None if mark == NULL else int(number) if mark == INTEGER else number for number, mark in pairs]


def _make_hashable(value: SlotValue) -> Any:
    """A key under which 1, 1.0 and TRUE differ, also inside of lists."""
    from sowctl.values.fields import ValueList

    # 1 == 1.0 == True in Python, so types belong to the key, also those of the items of a list.
    if isinstance(value, ValueList):
        return tuple((type(item), item) for item in value.items), value.dropped, value
    return value


def _restore_value(word: Any) -> SlotValue:
    value: SlotValue = word[2] if isinstance(word, tuple) else word
    return value


def build_key_parts(keys: bytes, txids: Array, times: Array, digest: int) -> FileParts:
    """The file of the state with ``digest``: keys of all records (8 bytes each, ascending), their txids and times.

    ``txids`` are u64, ``times`` i64.
    """
    return encode_file(
        MemoHeader(MemoKind.KEYS, len(keys) // 8, digest), [b"", keys, _to_bytes(txids), _to_bytes(times)]
    )


def build_type_parts(name: str, types: bytes, digest: int) -> FileParts:
    """The file of the types that the fields of a state have, as ``types`` says them."""
    return encode_file(MemoHeader(MemoKind.TYPES, 0, digest), [name.encode(), types])


def build_location_parts(locations: tuple[Array, Array, Array], digest: int) -> FileParts:
    """The file of the state with ``digest``: where each record lies, its size, the number at its end."""
    return encode_file(MemoHeader(MemoKind.SPOTS, len(locations[0]), digest), [b"", *map(_to_bytes, locations)])
