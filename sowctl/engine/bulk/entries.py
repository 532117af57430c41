"""Entries of a commit of a staged run: the messages of its blocks that are left, for the journal or the store.

Called by :mod:`sowctl.engine.bulk.commit` only, once the outcome of every message is known
(:mod:`sowctl.engine.bulk.outcomes`). Memory holds one block at a time. Ruled by ``sowctl-pipeline(1)``, STAGING,
``sow-journal(5)`` and ``sow-store(5)``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.bulk.outcomes import MISSING, OUTCOME_NAMES, REFUSED, Outcomes, assign_block_times
from sowctl.engine.bulk.segments import DELETE, EXPIRES_AT, HAS_LIFETIME, OPERATION_MASK, SegmentColumns
from sowctl.engine.fold.blocks import encode_tombstone
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.topics.expiration import NO_EXPIRATION
from sowctl.engine.writing.outcome import ExpirationInstant, Lifetime, compute_entry_flags, compute_expirations
from sowctl.identity.keyspace import find_part, read_words
from sowctl.journal.format import DELETE as DELETED_ENTRY
from sowctl.journal.format import NO_PUBLISHER
from sowctl.journal.format import PUBLISH as PUBLISHED_ENTRY
from sowctl.journal.group import Group
from sowctl.store.codec import encode_record

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.values.topicref import TopicRef


class StagedEntries(Struct):
    """The messages of a block that are written, ready for the journal or the store."""

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


def build_staged_entries(
    blocks: Iterable[tuple[SegmentColumns, list[bytes]]],
    outcomes: Outcomes,
    preparer: Preparer,
    now: int,
    last_time: int,
) -> Iterator[StagedEntries]:
    """Build the entries, block by block in input order; ``now`` and ``last_time``, the topic's, in microseconds."""
    at = 0
    for columns, texts in blocks:
        codes = outcomes.codes[at : at + len(columns)]
        # All messages of the block count for the times, those that are refused too: as where they were decided.
        times, _ = assign_block_times(columns, now, last_time)
        # A deletion of a key without a record writes no entry: the journal holds what changed something.
        places = ((codes != REFUSED) & (codes != MISSING)).nonzero()[0]
        owners = columns.checks if outcomes.checks is None else outcomes.checks[at : at + len(columns)]
        if len(places):
            yield _build_block_entries(columns, texts, places, codes, times, owners, preparer.default_lifetime)
        # Also past messages that were refused: the times are those by which the outcomes were decided.
        at, last_time = at + len(columns), times[-1]


def _build_block_entries(
    columns: SegmentColumns,
    texts: list[bytes],
    places: Any,
    codes: Any,
    all_times: list[int],
    owners: Any,
    usual: int | None,
) -> StagedEntries:
    """The messages at ``places`` of a block; ``owners`` has the check words of the records that deletions remove."""
    import numpy as np

    chosen = places.tolist()
    flags = columns.flags[places]
    gone = ((flags & OPERATION_MASK) == DELETE).tolist()
    deletes = True in gone
    checks = columns.checks[places].astype(np.uint64)
    if deletes:
        # The entry of a deletion has the check word of the record that it removes, as one that ``sowctl delete``
        # writes.
        checks = np.where(gone, owners[places].astype(np.uint64), checks)
    times = [all_times[place] for place in chosen]
    stamps = compute_expirations(times, _restore_lifetimes(columns.lifetimes[places], flags), usual)
    payloads = [texts[place] for place in chosen]
    users, correlations = (
        None if column is None else [column[place] for place in chosen]
        for column in (columns.user_keys, columns.correlation_ids)
    )
    if deletes:
        # A deletion is a key and a time: whatever its message had besides is not part of the entry.
        stamps = [NO_EXPIRATION if d else stamp for stamp, d in zip(stamps, gone, strict=True)]
        payloads = [b"" if d else payload for payload, d in zip(payloads, gone, strict=True)]
        users, correlations = (
            None if column is None else [None if d else text for text, d in zip(column, gone, strict=True)]
            for column in (users, correlations)
        )
    statuses = [OUTCOME_NAMES[code] for code in codes[places].tolist()]
    return StagedEntries(
        read_words(columns.keys[places]),
        read_words(checks.astype(">u8")),
        times,
        stamps,
        gone,
        compute_entry_flags(statuses, users, correlations, None),
        payloads,
        users,
        correlations,
    )


def _restore_lifetimes(values: Any, flags: Any) -> list[Lifetime] | None:
    """The lifetimes of staged messages as they were before they were staged, None where none has its own."""
    # One test for the block: mostly no message brings a lifetime.
    if not (flags & (HAS_LIFETIME | EXPIRES_AT)).any():
        return None
    return [
        ExpirationInstant(value) if flag & EXPIRES_AT else value if flag & HAS_LIFETIME else None
        for value, flag in zip(values.tolist(), flags.tolist(), strict=True)
    ]


def build_staged_group(
    entries: StagedEntries, topic: TopicRef, publisher: tuple[int, str] | None, sequence: int
) -> Group:
    """Entries as a part of the run's group; the whole run has one ``sequence`` number of its ``publisher``."""
    count = len(entries)
    return Group(
        topic_refs=[topic],
        publishers=[publisher] if publisher is not None else [],
        operations=bytes(DELETED_ENTRY if gone else PUBLISHED_ENTRY for gone in entries.deletes),
        topic=0,
        keys=b"".join(entries.keys),
        checks=b"".join(entries.checks),
        times=array("q", entries.times),
        expirations=array("q", entries.expirations),
        publisher=0 if publisher is not None else NO_PUBLISHER,
        # One number for all entries: they are written together or not at all, so one answer is enough for a repeated
        # run.
        sequences=array("Q", (sequence,)) * count if publisher is not None else None,
        flags=array("H", entries.flags),
        payloads=entries.payloads,
        user_keys=entries.user_keys,
        correlation_ids=entries.correlation_ids,
    )


def fold_bucket(
    memtable: Memtable, found: Iterable[StagedEntries], base: int, number: int, buckets: int
) -> tuple[int, int]:
    """The messages of one bucket into ``memtable``; returns the last txid and the payload bytes of the whole run.

    ``found`` is all that is to be written; it gets the txids behind ``base``.
    """
    txid, size = base, 0
    for entries in found:
        size += sum(map(len, entries.payloads))
        for place, key in enumerate(entries.keys):
            # Entries of other buckets count, too: txids are those of the run, not of the bucket.
            txid += 1
            if find_part(key, buckets) != number:
                continue
            check, at = entries.checks[place], entries.times[place]
            if entries.deletes[place]:
                memtable.put_deletions((key,), (encode_tombstone(key, check, txid, at),))
                continue
            texts = [c[place] if c is not None else None for c in (entries.user_keys, entries.correlation_ids)]
            payload = entries.payloads[place]
            value = encode_record(key, check, txid, at, entries.expirations[place], 0, payload, *texts)
            memtable.put_records((key,), (value,))
    return txid, size
