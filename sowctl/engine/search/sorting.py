"""Ordering results in bounded memory: the first n, or all through sorted runs in temporary files.

Items are ``(sort key, SOW key, value)``; sort keys are plain tuples (:mod:`sowctl.values.order`), so runs can be
written with :mod:`marshal`, which is fast and reads nothing but the plain values that this process wrote itself.
"""

from __future__ import annotations

import heapq
import marshal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any

Item = tuple[Any, bytes, bytes]
"""Sort key, a key that no other item has, stored value: items are ordered as tuples are."""
_ITEM_BYTES = 300
"""What Python needs for an item besides its value, about."""
_RUN_ITEMS = 2000


class Sorter:
    """Collects items and gives them in order. ``first``: only so many are wanted. ``memory``: bytes held at most."""

    def __init__(self, memory: int, first: int | None = None) -> None:
        self._memory = memory
        self._first = first
        self._items: list[Item] = []
        self._size = 0
        self._limit: Item | None = None
        self._runs: list[IO[bytes]] = []
        self._stack = ExitStack()

    @property
    def limit(self) -> Any:
        """A sort key behind which nothing is wanted any more; None while that is not known."""
        return None if self._limit is None else self._limit[0]

    def add(self, items: list[Item]) -> None:
        """Add items in any order."""
        if self._limit is not None:
            limit = self._limit
            items = [item for item in items if item < limit]
        self._items.extend(items)
        self._size += sum(len(value) for _, _, value in items) + _ITEM_BYTES * len(items)
        if self._first is not None and len(self._items) > 2 * self._first + 1000:
            self._trim()
        if self._size > self._memory:
            self._spill()

    def _trim(self) -> None:
        self._items.sort()
        del self._items[self._first :]
        if self._items:
            self._limit = self._items[-1]
        self._size = sum(len(value) for _, _, value in self._items) + _ITEM_BYTES * len(self._items)

    def _spill(self) -> None:
        import tempfile

        self._items.sort()
        if self._first is not None:
            del self._items[self._first :]
        run = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed by the stack
        for start in range(0, len(self._items), _RUN_ITEMS):
            marshal.dump(self._items[start : start + _RUN_ITEMS], run)
        marshal.dump([], run)
        run.seek(0)
        self._runs.append(run)
        self._items, self._size = [], 0

    def sorted(self) -> Iterator[Item]:
        """All items in order, the first ones only where so many were wanted."""
        self._items.sort()
        sources = [_read(run) for run in self._runs]
        merged = heapq.merge(*sources, self._items) if sources else iter(self._items)
        for count, item in enumerate(merged):
            if self._first is not None and count >= self._first:
                return
            yield item

    def close(self) -> None:
        """Forget everything; temporary files go."""
        self._stack.close()
        self._items = []


def _read(run: IO[bytes]) -> Iterator[Item]:
    while items := marshal.load(run):
        yield from items
