"""The journal's tail behind a store, folded in memory: acknowledged, but not applied yet (README, principle 2).

A fold turns journal entries into stored values, so that everything above sees one kind of bytes. Writers keep an
overlay per topic and empty it into the store now and then; readers build one from the blocks behind the store's
position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.fold.blocks import values_of
from sowctl.store.codec import TOMBSTONE, stamps

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.journal.format import Topic


class Overlay:
    """Changes of one topic, newest per key; with ``history`` also every change in txid order.

    ``current`` maps a key to its stored value, None where the key was deleted. ``changes`` (history only) lists
    ``(key, value)`` with tombstones as values. ``size`` is the bytes of all values added, ``deletes`` whether any key
    was deleted. Every entry of the topic above ``base`` up to the end of the journal is in here; a store below ``base``
    cannot take it.
    """

    __slots__ = ("_added", "base", "changes", "current", "deletes", "last_time", "last_txid", "size")

    def __init__(self, *, history: bool = False, base: int = 0) -> None:
        self.base = base
        self.current: dict[bytes, bytes | None] = {}
        self.changes: list[tuple[bytes, bytes]] | None = [] if history else None
        self.last_txid = 0
        self.last_time = 0
        self.size = 0
        self._added = 0
        self.deletes = False

    def __len__(self) -> int:
        return len(self.current)

    @property
    def held(self) -> int:
        """About how many bytes of values are held; superseded ones are gone unless there is history."""
        if self.changes is not None or not self._added:
            return self.size
        # Superseded values are gone from memory; their sizes are not known any more, so the mean stands for them.
        return self.size * len(self.current) // self._added

    def put(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add published records in txid order."""
        # Entries come in txid order and an equal key replaces: the value with the highest txid is the one that stays.
        self.current.update(zip(keys, values, strict=True))
        if self.changes is not None:
            self.changes.extend(zip(keys, values, strict=True))
        self.size += sum(map(len, values))
        self._added += len(keys)
        self._advance(values[-1])

    def delete(self, keys: Sequence[bytes], tombstones: Sequence[bytes]) -> None:
        """Add deletions in txid order."""
        # Kept as None, not removed: the store may still have the record, which this entry hides and later deletes.
        self.current.update(dict.fromkeys(keys))
        self.deletes = True
        if self.changes is not None:
            self.changes.extend(zip(keys, tombstones, strict=True))
        self.size += sum(map(len, tombstones))
        self._added += len(keys)
        self._advance(tombstones[-1])

    def fold(self, block: Block, topic: Topic, after: int = 0, until: int | None = None) -> None:
        """Add a block's entries of ``topic`` with ``after < txid <= until``; blocks come in txid order."""
        keys, values = values_of(block, topic, after=after, until=until)
        # A block of publishes, or of deletions, is the usual case and is taken in one call.
        gone = sum(value[0] & TOMBSTONE == TOMBSTONE for value in values)
        if gone in (0, len(values)):
            if keys:
                (self.delete if gone else self.put)(keys, values)
            return
        # put takes the last of several values of one key; with deletions among them the order decides, one by one
        for key, value in zip(keys, values, strict=True):
            (self.delete if value[0] & TOMBSTONE else self.put)((key,), (value,))

    def clear(self, base: int) -> None:
        """Forget everything but position and time: it has been applied up to ``base``."""
        self.base = base
        self.current.clear()
        if self.changes is not None:
            self.changes.clear()
        self.size = self._added = 0
        self.deletes = False

    def _advance(self, value: bytes) -> None:
        self.last_txid, self.last_time = stamps(value)
