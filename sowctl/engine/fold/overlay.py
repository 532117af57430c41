"""The journal's tail behind a store, folded in memory: acknowledged, but not applied yet (README, principle 2).

A fold turns journal entries into stored values, so that everything above sees one kind of bytes. Writers keep an
overlay per topic and empty it into the store now and then; readers build one from the blocks behind the store's
position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sowctl.journal.format import DELETE, HAS_LOGICAL_TOPIC, NO_PUBLISHER, UNKEYED
from sowctl.store.codec import CHECK, TOMBSTONE, encode, encode_plain, logical_topic, stamps

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.journal.format import Topic
    from sowctl.journal.group import Group


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
        return self.size * len(self.current) // self._added

    def put(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add published records in txid order."""
        self.current.update(zip(keys, values, strict=True))
        if self.changes is not None:
            self.changes.extend(zip(keys, values, strict=True))
        self.size += sum(map(len, values))
        self._added += len(keys)
        self._advance(values[-1])

    def delete(self, key: bytes, tombstone: bytes) -> None:
        """Add one deletion."""
        self.current[key] = None
        self.deletes = True
        if self.changes is not None:
            self.changes.append((key, tombstone))
        self.size += len(tombstone)
        self._added += 1
        self._advance(tombstone)

    def fold(self, block: Block, topic: Topic, after: int = 0) -> None:
        """Add a block's entries of ``topic`` with a txid above ``after``."""
        keys, values = values_of(block, topic, after=after)
        if not any(value[0] & TOMBSTONE for value in values):
            if keys:
                self.put(keys, values)
            return
        for key, value in zip(keys, values, strict=True):
            if value[0] & TOMBSTONE:
                self.delete(key, value)
            else:
                self.put((key,), (value,))

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


def tombstone(key: bytes, check: bytes, txid: int, time: int) -> bytes:
    """The stored value that says: deleted."""
    return encode(key, check, txid, time, 0, TOMBSTONE, b"")


def deletions(topic: Topic, found: Sequence[tuple[bytes, bytes]], at: int, *, logical: bool) -> Group:
    """The journal's group that deletes records, pairs of key and stored value, at the instant ``at``.

    ``logical``: each deletion has the logical topic of its record.
    """
    from sowctl.journal.group import Group

    count = len(found)
    return Group(
        topics=[topic],
        publishers=[],
        operations=bytes((DELETE,)) * count,
        topic=0,
        keys=b"".join(key for key, _ in found),
        checks=b"".join(value[CHECK] for _, value in found),
        times=at,
        expirations=0,
        publisher=NO_PUBLISHER,
        sequences=None,
        flags=HAS_LOGICAL_TOPIC if logical else 0,
        payloads=[b""] * count,
        logical_topics=[logical_topic(value) for _, value in found] if logical else None,
    )


def values_of(
    block: Block,
    topic: Topic,
    *,
    after: int = 0,
    until: int | None = None,
    at: int | None = None,
    unkeyed: bool = False,
) -> tuple[list[bytes], list[bytes]]:
    """Keys and stored values of a block's entries of ``topic``, in txid order; a deletion is a tombstone value.

    Only entries with ``after < txid <= until`` and a time not above ``at``. Times never decrease within a topic, so
    the entries that are left out at the end are its later ones. What was published while the topic had no SOW has no
    key, and is no record: it is left out unless ``unkeyed``.
    """
    index = block.topics.index(topic) if topic in block.topics else -1
    if index < 0:
        return [], []
    columns = block.columns()
    first = block.first_txid
    chosen: Iterable[int] = range(len(block))
    if len(block.topics) > 1:
        chosen = [place for place, found in enumerate(columns.topics) if found == index]
    if after >= first or (until is not None and until < block.last_txid):
        chosen = [place for place in chosen if after < first + place and (until is None or first + place <= until)]
    if at is not None and block.header.latest > at:
        chosen = [place for place in chosen if columns.times[place] <= at]
    places = list(chosen)
    if not unkeyed and any(flag & UNKEYED for flag in set(columns.flags)):
        places = [place for place in places if not columns.flags[place] & UNKEYED]
    raw_keys, raw_checks, payloads = bytes(columns.keys), bytes(columns.checks), block.payloads()
    keys = [raw_keys[8 * place : 8 * place + 8] for place in places]
    checks = [raw_checks[8 * place : 8 * place + 8] for place in places]
    texts = (columns.user_keys, columns.correlation_ids, columns.logical_topics)
    if DELETE not in bytes(columns.operations) and texts == (None, None, None):
        values = encode_plain(
            keys,
            checks,
            [first + place for place in places],
            [columns.times[place] for place in places],
            [columns.expirations[place] for place in places],
            payloads if len(places) == len(payloads) else [payloads[place] for place in places],
        )
        return keys, values
    users, correlations, logicals = ([None] * len(block) if text is None else text for text in texts)
    values = []
    for key, check, place in zip(keys, checks, places, strict=True):
        txid, time = first + place, columns.times[place]
        if columns.operations[place] == DELETE:
            values.append(tombstone(key, check, txid, time))
        else:
            parts = users[place], correlations[place], logicals[place]
            values.append(encode(key, check, txid, time, columns.expirations[place], 0, payloads[place], *parts))
    return keys, values
