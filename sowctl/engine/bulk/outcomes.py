"""What becomes of each message of a staged run: found out by buckets of the key space, before anything is written.

The columns of all segments are read once per bucket, so memory holds one bucket's columns and one byte per message,
whatever the run brings. The rules are those of :mod:`sowctl.engine.writing.outcome`; called by
:mod:`sowctl.engine.bulk.commit` and what it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from sowctl.engine.bulk.segmentblock import DELETE, HAS_TIME, OPERATION, Columns
from sowctl.engine.writing.outcome import too_old
from sowctl.engine.writing.statuses import collision
from sowctl.identity.keyspace import parts_of
from sowctl.store.codec import CHECK, payloads

if TYPE_CHECKING:
    import numpy

    from sowctl.engine.writing.topicwriter import TopicWriter

INSERTED, UPDATED, UNCHANGED, DELETED, MISSING, REFUSED = 1, 2, 3, 4, 5, 6
NAMES = {INSERTED: "inserted", UPDATED: "updated", UNCHANGED: "unchanged", DELETED: "deleted", MISSING: "missing"}
BUCKET_ENTRIES = 1 << 21
"""Messages whose columns are held at once: about 100 bytes each while they are sorted."""
LOOKUP = 10_000

Reader = Callable[[], Iterator[Columns]]
"""Gives the columns of all segments in the order of the input, once more each time."""


class Fates(Struct):
    """One code per message in input order; for a deletion the check word of the record that it removes.

    ``reasons`` are code and words for the refused messages.
    """

    codes: numpy.ndarray[Any, Any]
    checks: numpy.ndarray[Any, Any] | None
    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)


def none() -> Fates:
    """The fates of no messages."""
    import numpy as np

    return Fates(np.zeros(0, dtype=np.uint8), None)


def decide(read: Reader, count: int, writer: TopicWriter, now: int, bucket: int = BUCKET_ENTRIES) -> Fates:
    """The fates of ``count`` messages over what the topic holds at ``now``; the topic's locks are held."""
    import numpy as np

    fates = Fates(np.zeros(count, dtype=np.uint8), None)
    if _refuse_older(read, writer, now, fates):
        fates.checks = np.zeros(count, dtype=np.uint64)
    buckets = max(1, -(-count // bucket))
    for number in range(buckets):
        _Bucket(read, number, buckets, fates).settle(writer, now)
    return fates


def in_bucket(keys: Any, number: int, buckets: int) -> Any:
    """Which of some keys (64-bit numbers) lie in one of ``buckets`` equal parts of the key space."""
    return parts_of(keys, buckets) == number


def times_of(columns: Columns, now: int, last: int) -> tuple[Any, Any]:
    """The times of a block's messages, raised to ``last`` and to one another, and which are refused as too old."""
    import numpy as np

    own = (columns.flags & HAS_TIME) != 0
    asked = np.where(own, columns.times, now)
    running = np.maximum.accumulate(np.concatenate(([last], asked)))
    return running[1:], own & (asked < running[:-1])


def _refuse_older(read: Reader, writer: TopicWriter, now: int, fates: Fates) -> bool:
    """Refuse messages whose own time lies before the topic's last one; returns whether there are deletions."""
    at, last, deletes = 0, writer.last_time, False
    for columns in read():
        deletes = deletes or bool(((columns.flags & OPERATION) == DELETE).any())
        times, refused = times_of(columns, now, last)
        if refused.any():
            fates.codes[at : at + len(columns)][refused] = REFUSED
            for place in refused.nonzero()[0].tolist():
                fates.reasons[at + place] = too_old(int(times[place]))
        at, last = at + len(columns), int(times[-1])
    return deletes


class _Bucket:
    """The messages of one part of the key space, sorted by key and within it in input order."""

    def __init__(self, read: Reader, number: int, buckets: int, fates: Fates) -> None:
        import numpy as np

        self._np = np
        self._fates = fates
        parts: list[list[Any]] = [[] for _ in range(5)]
        at = 0
        for columns in read():
            chosen = fates.codes[at : at + len(columns)] != REFUSED
            keys = columns.keys.astype(np.uint64)
            if buckets > 1:
                chosen &= in_bucket(keys, number, buckets)
            places = chosen.nonzero()[0]
            found = keys, columns.checks.astype(np.uint64), columns.hashes, columns.flags & OPERATION
            for part, column in zip(parts, found, strict=False):
                part.append(column[places])
            parts[4].append(places + at)
            at += len(columns)
        keys, checks, hashes, operations, indexes = (np.concatenate(part) for part in parts)
        order = keys.argsort(kind="stable")
        self.keys, self.checks, self.hashes = keys[order], checks[order], hashes[order]
        self.deletes, self.indexes = operations[order] == DELETE, indexes[order]

    def settle(self, writer: TopicWriter, now: int) -> None:
        """Write the fates of the bucket's messages."""
        np, count = self._np, len(self.keys)
        if not count:
            return
        head = np.concatenate(([True], self.keys[1:] != self.keys[:-1]))
        starts = head.nonzero()[0]
        group = head.cumsum() - 1
        there, check, payload = self._stored(writer, self.keys[starts], now)
        present = np.concatenate(([False], ~self.deletes[:-1]))
        present[starts] = there
        before = np.concatenate((self.hashes[:1], self.hashes[:-1]))
        before[starts] = payload
        codes = np.where(present, np.where(before == self.hashes, UNCHANGED, UPDATED), INSERTED).astype(np.uint8)
        codes[self.deletes] = np.where(present[self.deletes], DELETED, MISSING)
        owners = self._owners(starts, group, check)
        for number in self._doubtful(starts, there, check).tolist():
            end = int(starts[number + 1]) if number + 1 < len(starts) else count
            owner = int(check[number]) if there[number] else None
            self._one_by_one(range(int(starts[number]), end), owner, int(payload[number]), codes, owners)
        self._fates.codes[self.indexes] = codes
        if self._fates.checks is not None:
            self._fates.checks[self.indexes] = owners

    def _stored(self, writer: TopicWriter, keys: Any, now: int) -> tuple[Any, Any, Any]:
        """Of every key: whether it has a record, its check word, the hash of its payload."""
        np = self._np
        import xxhash

        there, check = np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.uint64)
        payload = np.zeros(len(keys), dtype=np.uint64)
        raw = keys.astype(">u8").tobytes()
        for start in range(0, len(keys), LOOKUP):
            asked = [raw[at : at + 8] for at in range(8 * start, min(8 * (start + LOOKUP), len(raw)), 8)]
            found = writer.stored(asked, now)
            if not found:
                continue
            places = [start + place for place, key in enumerate(asked) if key in found]
            values = [found[asked[place - start]] for place in places]
            there[places] = True
            check[places] = np.frombuffer(b"".join(value[CHECK] for value in values), dtype=">u8")
            payload[places] = np.array(list(map(xxhash.xxh3_64_intdigest, payloads(values))), dtype=np.uint64)
        return there, check, payload

    def _owners(self, starts: Any, group: Any, check: Any) -> Any:
        """For every message the check word of the record before it: what a deletion removes."""
        np = self._np
        places = np.arange(len(self.keys))
        last = np.maximum.accumulate(np.where(self.deletes, -1, places))
        within = last >= starts[group]
        return np.where(within, self.checks[np.maximum(last, 0)], check[group])

    def _doubtful(self, starts: Any, there: Any, check: Any) -> Any:
        """Numbers of the keys for which messages or the record have different check words."""
        np = self._np
        top = np.uint64(0xFFFFFFFFFFFFFFFF)
        low = np.minimum.reduceat(np.where(self.deletes, top, self.checks), starts)
        high = np.maximum.reduceat(np.where(self.deletes, np.uint64(0), self.checks), starts)
        low = np.where(there, np.minimum(low, check), low)
        high = np.where(there, np.maximum(high, check), high)
        return (low < high).nonzero()[0]

    def _one_by_one(self, places: range, owner: int | None, payload: int, codes: Any, owners: Any) -> None:
        """The messages of one key, where another key's values may have the same SOW key."""
        for place in places:
            check, hashed = int(self.checks[place]), int(self.hashes[place])
            if self.deletes[place]:
                codes[place] = MISSING if owner is None else DELETED
                owners[place] = owner or 0
                owner = None
            elif owner is None or owner == check:
                codes[place] = INSERTED if owner is None else UNCHANGED if payload == hashed else UPDATED
                owner, payload = check, hashed
            else:
                codes[place] = REFUSED
                self._fates.reasons[int(self.indexes[place])] = collision(int(self.keys[place]))
