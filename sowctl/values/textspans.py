"""Texts that lie in one buffer, and numbers with such texts; each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from sowctl.values.fields import Number

Array: TypeAlias = "np.ndarray[Any, Any]"


class TextSpans(Sequence[bytes]):
    """Texts that lie from ``begins`` to ``ends`` in ``raw``."""

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
        """Some of them: an array of places in their order, or a slice."""
        return TextSpans(self.raw, self.begins[places], self.ends[places])

    def __reduce__(self) -> tuple[type[TextSpans], tuple[bytes, Array, Array]]:
        # A few texts out of a long buffer go to files: they take their own bytes along, and no others.
        sizes = self.ends - self.begins
        ends = np.cumsum(sizes)
        return TextSpans, (b"".join(self), ends - sizes, ends)

    @classmethod
    def concatenate(cls, several: Sequence[TextSpans]) -> TextSpans:
        """The texts of several, one behind the other; what they lie in is brought together."""
        raws = [one.raw for one in several]
        starts = np.cumsum([0, *map(len, raws[:-1])])
        return cls(
            b"".join(raws),
            np.concatenate([one.begins + start for one, start in zip(several, starts, strict=True)]),
            np.concatenate([one.ends + start for one, start in zip(several, starts, strict=True)]),
        )


class LazyNumbers(Sequence[Number]):
    """The numbers of ``data`` with their ``texts``."""

    __slots__ = ("data", "texts")

    def __init__(self, data: Array, texts: TextSpans) -> None:
        self.data, self.texts = data, texts

    def __len__(self) -> int:
        return len(self.data)

    @overload
    def __getitem__(self, place: int) -> Number: ...
    @overload
    def __getitem__(self, place: slice) -> LazyNumbers: ...
    def __getitem__(self, place: int | slice) -> Number | LazyNumbers:
        if isinstance(place, slice):
            return self.take(place)
        return Number(self.data[place].item(), self.texts[place])

    def __iter__(self) -> Iterator[Number]:
        return map(Number, self.data.tolist(), self.texts)

    def take(self, places: Array | slice) -> LazyNumbers:
        """Some of them: an array of places in their order, or a slice."""
        return LazyNumbers(self.data[places], self.texts.take(places))

    def __reduce__(self) -> tuple[type[LazyNumbers], tuple[Array, TextSpans]]:
        return LazyNumbers, (self.data, self.texts)

    @classmethod
    def concatenate(cls, several: Sequence[LazyNumbers]) -> LazyNumbers:
        """The numbers of several, one behind the other."""
        texts = TextSpans.concatenate([one.texts for one in several])
        return cls(np.concatenate([one.data for one in several]), texts)
