"""Numbers with their texts out of an array and a text, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from sowctl.values.fields import Number

if TYPE_CHECKING:
    import numpy

    NumberArray = numpy.ndarray[Any, Any]


class LazyNumbers(Sequence[Number]):
    """The numbers of ``data``, whose texts lie from ``begins`` to ``ends`` in ``raw``: each is made when asked for."""

    __slots__ = ("_begins", "_data", "_ends", "_raw")

    def __init__(self, data: NumberArray, raw: bytes, begins: NumberArray, ends: NumberArray) -> None:
        self._data, self._raw, self._begins, self._ends = data, raw, begins, ends

    def __len__(self) -> int:
        return len(self._data)

    @overload
    def __getitem__(self, place: int) -> Number: ...
    @overload
    def __getitem__(self, place: slice) -> LazyNumbers: ...
    def __getitem__(self, place: int | slice) -> Number | LazyNumbers:
        if isinstance(place, slice):
            return self.take(place)
        return Number(self._data[place].item(), self._raw[self._begins[place] : self._ends[place]])

    def __iter__(self) -> Iterator[Number]:
        texts = map(self._raw.__getitem__, map(slice, self._begins.tolist(), self._ends.tolist()))
        return map(Number, self._data.tolist(), texts)

    def take(self, places: NumberArray | slice) -> LazyNumbers:
        """Some of them: an array of places in their order, or a slice."""
        return LazyNumbers(self._data[places], self._raw, self._begins[places], self._ends[places])

    def __reduce__(self) -> tuple[type[LazyNumbers], tuple[NumberArray, bytes, NumberArray, NumberArray]]:
        # Parts of numbers that lie in one long text go to files: each takes its own texts along, and no others.
        import numpy as np

        sizes = self._ends - self._begins
        ends = np.cumsum(sizes)
        texts = map(self._raw.__getitem__, map(slice, self._begins.tolist(), self._ends.tolist()))
        return LazyNumbers, (self._data, b"".join(texts), ends - sizes, ends)

    @classmethod
    def concatenate(cls, several: Sequence[LazyNumbers]) -> LazyNumbers:
        """The numbers of several, one behind the other; what their texts lie in is brought together."""
        import numpy as np

        raws = [one._raw for one in several]
        starts = np.cumsum([0, *map(len, raws[:-1])])
        return cls(
            np.concatenate([one._data for one in several]),
            b"".join(raws),
            np.concatenate([one._begins + start for one, start in zip(several, starts, strict=True)]),
            np.concatenate([one._ends + start for one, start in zip(several, starts, strict=True)]),
        )
