"""What a commit of a staged run writes: the surviving messages of its blocks as journal entries or stored values.

Called by :mod:`sowctl.engine.bulk.commit` only, once the fate of every message is known
(:mod:`sowctl.engine.bulk.outcomes`). Memory holds one block at a time. Ruled by ``sowctl-pipeline(1)``, STAGING,
``sow-journal(5)`` and ``sow-store(5)``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.bulk import outcomes as fate
from sowctl.engine.bulk.segmentblock import DELETE, EXPIRES_AT, HAS_LIFETIME, OPERATION, Columns
from sowctl.engine.fold.blocks import tombstone
from sowctl.engine.fold.overlay import Overlay
from sowctl.engine.topics import expiration
from sowctl.identity.keyspace import words
from sowctl.journal.format import DELETE as DELETED_ENTRY
from sowctl.journal.format import HAS_CORRELATION_ID, HAS_USER_KEY, INSERTED, NO_PUBLISHER
from sowctl.journal.format import PUBLISH as PUBLISHED_ENTRY
from sowctl.journal.group import Group
from sowctl.store.codec import encode

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.journal.format import Topic


class Chunk(Struct):
    """A block's surviving messages, ready for the journal or the store."""

    keys: list[bytes]
    checks: list[bytes]
    times: list[int]
    expirations: list[int]
    deletes: list[bool]
    flags: list[int]
    payloads: list[bytes]
    user_keys: list[bytes | None] | None
    correlation_ids: list[bytes | None] | None

    def __len__(self) -> int:
        return len(self.keys)


def chunks(
    blocks: Iterable[tuple[Columns, list[bytes]]], fates: fate.Fates, preparer: Preparer, now: int, last_time: int
) -> Iterator[Chunk]:
    """What is to be written, block by block in input order; ``now`` and ``last_time``, the topic's, in microseconds."""
    at = 0
    for columns, texts in blocks:
        codes = fates.codes[at : at + len(columns)]
        times, _ = fate.times_of(columns, now, last_time)
        places = ((codes != fate.REFUSED) & (codes != fate.MISSING)).nonzero()[0]
        checks = columns.checks if fates.checks is None else fates.checks[at : at + len(columns)]
        if len(places):
            yield _chunk(columns, texts, places, codes, times, checks, preparer.usual)
        at, last_time = at + len(columns), int(times[-1])


def _chunk(
    columns: Columns, texts: list[bytes], places: Any, codes: Any, times: Any, owners: Any, usual: int | None
) -> Chunk:
    import numpy as np

    flags, times = columns.flags[places], times[places]
    deletes = (flags & OPERATION) == DELETE
    checks = np.where(deletes, owners[places].astype(np.uint64), columns.checks[places].astype(np.uint64))
    stamps = np.zeros(len(places), dtype=np.int64) if usual is None else expiration.stamps(times, usual)
    own = columns.lifetimes[places]
    stamps = np.where((flags & HAS_LIFETIME) != 0, np.where(own == 0, 0, expiration.stamps(times, own)), stamps)
    stamps = np.where((flags & EXPIRES_AT) != 0, own, stamps)
    stamps[deletes] = 0
    chosen, gone = places.tolist(), deletes.tolist()
    column_flags = np.where(codes[places] == fate.INSERTED, INSERTED, 0)
    users, correlations = (
        None if c is None else [None if d else c[place] for place, d in zip(chosen, gone, strict=True)]
        for c in (columns.user_keys, columns.correlation_ids)
    )
    for column, bit in ((users, HAS_USER_KEY), (correlations, HAS_CORRELATION_ID)):
        if column is not None:
            column_flags |= np.array([0 if text is None else bit for text in column])
    return Chunk(
        words(columns.keys[places]),
        words(checks.astype(">u8")),
        times.tolist(),
        stamps.tolist(),
        gone,
        column_flags.tolist(),
        [b"" if d else texts[place] for place, d in zip(chosen, gone, strict=True)],
        users,
        correlations,
    )


def group_of(chunk: Chunk, topic: Topic, publisher: tuple[int, str] | None, sequence: int) -> Group:
    """A chunk as blocks of the run's group; the whole run has one ``sequence`` number of its ``publisher``."""
    count = len(chunk)
    return Group(
        topics=[topic],
        publishers=[publisher] if publisher is not None else [],
        operations=bytes(DELETED_ENTRY if gone else PUBLISHED_ENTRY for gone in chunk.deletes),
        topic=0,
        keys=b"".join(chunk.keys),
        checks=b"".join(chunk.checks),
        times=array("q", chunk.times),
        expirations=array("q", chunk.expirations),
        publisher=0 if publisher is not None else NO_PUBLISHER,
        sequences=array("Q", (sequence,)) * count if publisher is not None else None,
        flags=array("H", chunk.flags),
        payloads=chunk.payloads,
        user_keys=chunk.user_keys,
        correlation_ids=chunk.correlation_ids,
    )


def fold(overlay: Overlay, found: Iterable[Chunk], base: int, number: int, buckets: int) -> tuple[int, int]:
    """The messages of one bucket into ``overlay``; returns the last txid and the payload bytes of the whole run.

    ``found`` is all that is to be written; it gets the txids behind ``base``.
    """
    txid, size = base, 0
    for chunk in found:
        size += sum(map(len, chunk.payloads))
        for place, key in enumerate(chunk.keys):
            txid += 1
            if (int.from_bytes(key[:4], "big") * buckets) >> 32 != number:
                continue
            check, at = chunk.checks[place], chunk.times[place]
            if chunk.deletes[place]:
                overlay.delete(key, tombstone(key, check, txid, at))
                continue
            texts = [c[place] if c is not None else None for c in (chunk.user_keys, chunk.correlation_ids)]
            payload = chunk.payloads[place]
            value = encode(key, check, txid, at, chunk.expirations[place], 0, payload, *texts)
            overlay.put((key,), (value,))
    return txid, size
