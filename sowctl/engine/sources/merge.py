"""Records put in their places among others, in key order: the journal's among the store's, changed among indexed ones.

Called by sources (:mod:`sowctl.engine.sources.current`) and writers where the overlay holds something, and by
:mod:`sowctl.engine.search.indexed` where records changed since indexes were built.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from sowctl.store.codec import Uncut, payloads

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Matched, Pairs


class Woven(Uncut):
    """Stored values with a few ``more``, each before the one of its number; put together when somebody looks at them.

    Payloads are put together for themselves: those of many values may be known without the values.
    """

    __slots__ = ("_more", "_values", "_whole")

    def __init__(self, values: Sequence[bytes], more: Sequence[tuple[int, bytes]]) -> None:
        self._values = values
        self._more = more
        self._whole: list[bytes] | None = None

    def _together(self) -> list[bytes]:
        if self._whole is None:
            self._whole = _woven(list(self._values), self._more)
        return self._whole

    def __len__(self) -> int:
        return len(self._values) + len(self._more)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        return self._together()[place]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._together())

    def payloads(self) -> list[bytes]:
        """The payloads of all values."""
        fresh = payloads([value for _, value in self._more])
        return _woven(list(payloads(self._values)), [(at, own) for (at, _), own in zip(self._more, fresh, strict=True)])

    def chosen(self, places: Sequence[int]) -> list[bytes]:
        """Some of the values."""
        whole = self._together()
        return [whole[place] for place in places]


def _woven(items: list[bytes], more: Sequence[tuple[int, bytes]]) -> list[bytes]:
    for number, (at, item) in enumerate(more):
        items.insert(at + number, item)
    return items


def woven(found: Iterable[Matched], fresh: Mapping[bytes, bytes], size: int) -> Iterator[Matched]:
    """Records in key order with ``fresh`` ones, of keys that none of them has; those behind the last, ``size`` each."""
    waiting = sorted(fresh)
    position = 0
    for keys, values in found:
        stop = bisect_left(waiting, keys[-1], position)
        if stop == position:
            yield keys, values
            continue
        added = waiting[position:stop]
        places = [bisect_left(keys, key) for key in added]
        together = _woven(list(keys), list(zip(places, added, strict=True)))
        yield together, Woven(values, [(at, fresh[key]) for at, key in zip(places, added, strict=True)])
        position = stop
    for start in range(position, len(waiting), size):
        some = waiting[start : start + size]
        yield some, [fresh[key] for key in some]


def merged(pairs: Iterator[Pairs], overlay: dict[bytes, bytes | None], size: int) -> Iterator[Pairs]:
    """Records of the store with those of the overlay in their places, in key order."""
    waiting = sorted(overlay)
    position = 0
    for keys, values in pairs:
        stop = position
        while stop < len(waiting) and waiting[stop] <= keys[-1]:
            stop += 1
        yield _weave(keys, values, waiting[position:stop], overlay) if stop > position else (keys, values)
        position = stop
    for start in range(position, len(waiting), size):
        yield _weave([], [], waiting[start : start + size], overlay)


def _weave(keys: list[bytes], values: list[bytes], fresh: list[bytes], overlay: dict[bytes, bytes | None]) -> Pairs:
    found: dict[bytes, bytes | None] = dict(zip(keys, values, strict=True))
    found.update((key, overlay[key]) for key in fresh)
    rows = sorted((key, value) for key, value in found.items() if value is not None)
    return [key for key, _ in rows], [value for _, value in rows]


__all__ = ["Woven", "merged", "woven"]
