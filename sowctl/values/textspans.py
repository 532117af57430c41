"""Texts in one buffer, and numbers with such texts; each is created on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from sowctl.values.fields import Number
from sowctl.values.scalars import MIN_PLAIN_DOUBLE, SHORT_TEXT_BYTES

Array: TypeAlias = "np.ndarray[Any, Any]"


_MIN_TEXT_SHARE = 512
"""Bytes of a buffer per selected text above which the texts are copied out of it: both take as long."""


_PACKED_TEXTS = 1 << 14
"""Number of texts copied at a time. 140,000 of 3 to 6 bytes: 2.6 ms of processor time, all at once 7.1."""


class TextSpans(Sequence[bytes]):
    """Texts from offsets ``begins`` to ``ends`` of ``raw``."""

    __slots__ = ("begins", "ends", "raw")

    def __init__(self, raw: bytes | memoryview, begins: Array, ends: Array) -> None:
        self.raw, self.begins, self.ends = raw, begins, ends

    def __len__(self) -> int:
        return len(self.begins)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> TextSpans: ...
    def __getitem__(self, place: int | slice) -> bytes | TextSpans:
        if isinstance(place, slice):
            return self.take(place)
        return bytes(self.raw[self.begins[place] : self.ends[place]])

    def __iter__(self) -> Iterator[bytes]:
        texts = map(self.raw.__getitem__, map(slice, self.begins.tolist(), self.ends.tolist()))
        return texts if isinstance(self.raw, bytes) else map(bytes, texts)  # type: ignore[return-value]  # bytes

    def take(self, places: Array | slice) -> TextSpans:
        """Select texts by an array of indexes, in its order, or by a slice."""
        found = TextSpans(self.raw, self.begins[places], self.ends[places])
        # A concatenation copies the buffer.
        return found.pack() if len(found) * _MIN_TEXT_SHARE < len(self.raw) else found

    def pack(self) -> TextSpans:
        """Return the same texts in a buffer of their own, without gaps."""
        begins, ends = self.begins, self.ends
        if len(self) and begins[0] == 0 and ends[-1] == len(self.raw) and (begins[1:] == ends[:-1]).all():
            return self
        sizes = ends.astype(np.int64) - begins
        stops = np.cumsum(sizes)
        starts = stops - sizes
        moved = begins - starts
        source, packed = np.frombuffer(self.raw, np.uint8), np.empty(int(stops[-1]) if len(stops) else 0, np.uint8)
        # The offset of each byte takes eight: those of all texts would exceed the processor's cache.
        for start in range(0, len(sizes), _PACKED_TEXTS):
            part = slice(start, start + _PACKED_TEXTS)
            low, high = int(starts[start]), int(stops[part][-1])
            places = np.repeat(moved[part], sizes[part])
            places += np.arange(low, high)
            packed[low:high] = source[places]
        return TextSpans(packed.tobytes(), starts, stops)

    def __reduce__(self) -> tuple[type[TextSpans], tuple[bytes | memoryview, Array, Array]]:
        # A few texts of a long buffer are written to files with their own bytes, without the others.
        packed = self.pack()
        return TextSpans, (bytes(packed.raw), packed.begins, packed.ends)

    @classmethod
    def concatenate(cls, several: Sequence[TextSpans]) -> TextSpans:
        """Concatenate texts and their buffers."""
        raws = [one.raw for one in several]
        starts = np.cumsum([0, *map(len, raws[:-1])])
        return cls(
            b"".join(raws),
            np.concatenate([one.begins + start for one, start in zip(several, starts, strict=True)]),
            np.concatenate([one.ends + start for one, start in zip(several, starts, strict=True)]),
        )


def list_numbers(data: Array, nulls: Array | None, ints: Array | None) -> list[Any]:
    """Return the numbers of an array as values: None for ``nulls``, Integers for ``ints`` of an array of Doubles."""
    found: list[Any] = data.tolist()
    if ints is not None:
        # ``ints`` is False for NULL, whose NaN cannot be an Integer.
        found = [int(value) if whole else value for value, whole in zip(found, ints.tolist(), strict=True)]
    if nulls is not None:
        found = [None if null else value for value, null in zip(found, nulls.tolist(), strict=True)]
    return found


class LazyNumbers(Sequence["Number | int | float | None"]):
    """The numbers of ``data`` with their ``texts``; if the text is empty, a plain number or NULL.

    ``nulls`` and ``ints`` as in :class:`~sowctl.values.column.Column`; ``typed`` as in each :class:`Number`.
    """

    __slots__ = ("data", "ints", "nulls", "texts", "typed")

    def __init__(
        self,
        data: Array,
        texts: TextSpans,
        nulls: Array | None = None,
        ints: Array | None = None,
        typed: bool = True,
    ) -> None:
        self.data, self.texts, self.nulls, self.ints, self.typed = data, texts, nulls, ints, typed

    def __len__(self) -> int:
        return len(self.data)

    @overload
    def __getitem__(self, place: int) -> Number | int | float | None: ...
    @overload
    def __getitem__(self, place: slice) -> LazyNumbers: ...
    def __getitem__(self, place: int | slice) -> Number | int | float | LazyNumbers | None:
        return self.take(place) if isinstance(place, slice) else next(iter(self.take(np.array([place]))))

    def __iter__(self) -> Iterator[Number | int | float | None]:
        values, typed = list_numbers(self.data, self.nulls, self.ints), self.typed
        if typed and (self.texts.begins < self.texts.ends).all():
            return map(Number, values, self.texts)
        return (Number(value, text, typed) if text else value for value, text in zip(values, self.texts, strict=True))

    def take(self, places: Array | slice) -> LazyNumbers:
        """Select numbers by an array of indexes, in its order, or by a slice."""
        nulls, ints = (None if some is None else some[places] for some in (self.nulls, self.ints))
        return LazyNumbers(self.data[places], self.texts.take(places), nulls, ints, self.typed)

    def has_canonical_texts(self) -> bool:
        """Return whether each text is the one that :func:`sowctl.values.scalars.format_double` gives its number.

        False also of numbers that have an exponent or many digits.
        """
        spans = self.texts.pack()
        there = spans.begins < spans.ends
        data, begins, ends = self.data[there], spans.begins[there], spans.ends[there]
        chars, zero = np.frombuffer(spans.raw, np.uint8), ord("0")
        points = np.flatnonzero(chars == ord("."))
        if not len(begins) or len(points) != len(begins) or int((ends - begins).max()) > SHORT_TEXT_BYTES:
            return False
        signs = chars[begins] == ord("-")
        starts = begins + signs
        digits = np.count_nonzero(chars - np.uint8(zero) < 10)
        return bool(
            # Digits, with one point among those of each number, and signs in front.
            digits + len(points) + np.count_nonzero(signs) == len(chars)
            and ((starts < points) & (points < ends - 1)).all()
            # No zeros at either end but the one next to the point.
            and ((chars[starts] != zero) | (points == starts + 1)).all()
            and ((chars[ends - 1] != zero) | (points == ends - 2)).all()
            # Below 0.0001 a Double has an exponent.
            and ((np.abs(data) >= MIN_PLAIN_DOUBLE) | (data == 0)).all()
            and (np.signbit(data) == signs).all()
        )

    def __reduce__(self) -> tuple[type[LazyNumbers], tuple[Any, ...]]:
        return LazyNumbers, (self.data, self.texts, self.nulls, self.ints, self.typed)
