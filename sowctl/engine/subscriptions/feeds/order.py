"""A sorted collection with insertion, removal, and slices by position.

A list of short lists: a binary search finds first the list and then the item in it, and an insertion shifts only one
short list. A slice by position skips lists by their lengths. Used by :mod:`sowctl.engine.subscriptions.feeds.page`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any

from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS


class OrderedItems:
    """Distinct, comparable items in order; ``len`` returns their number."""

    __slots__ = ("_count", "_lasts", "_lists")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        found = sorted(items)
        size = SUBSCRIPTION_LIMITS.bucket_items
        self._lists = [found[at : at + size] for at in range(0, len(found), size)]
        self._lasts = [one[-1] for one in self._lists]
        self._count = len(found)

    def __len__(self) -> int:
        return self._count

    def add(self, item: Any) -> None:
        """Insert an item."""
        self._count += 1
        if not self._lists:
            self._lists, self._lasts = [[item]], [item]
            return
        # An item after all others goes into the last list.
        at = min(bisect_left(self._lasts, item), len(self._lists) - 1)
        chosen = self._lists[at]
        insort(chosen, item)
        self._lasts[at] = chosen[-1]
        size = SUBSCRIPTION_LIMITS.bucket_items
        if len(chosen) > 2 * size:
            self._lists[at : at + 1] = chosen[:size], chosen[size:]
            self._lasts[at : at + 1] = chosen[size - 1], chosen[-1]

    def remove(self, item: Any) -> None:
        """Remove an item. Raises ValueError if it is missing."""
        at = bisect_left(self._lasts, item)
        if at == len(self._lists):
            raise ValueError("no such item")
        chosen = self._lists[at]
        place = bisect_left(chosen, item)
        if chosen[place] != item:
            raise ValueError("no such item")
        del chosen[place]
        self._count -= 1
        if chosen:
            self._lasts[at] = chosen[-1]
        else:
            del self._lists[at], self._lasts[at]

    def slice_items(self, start: int, count: int) -> list[Any]:
        """Return at most ``count`` items from the position ``start`` on."""
        found: list[Any] = []
        for one in self._lists:
            if start >= len(one):
                start -= len(one)
                continue
            found += one[start : start + count - len(found)]
            start = 0
            if len(found) >= count:
                break
        return found
