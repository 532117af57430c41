"""Writes the entries of one batch to the journal and the memtables, under the locks.

The entries that :mod:`sowctl.engine.writing.entries` built from a batch are one group: appended and synced, after which
it may be acknowledged. The entries of a topic without a journal are one transaction of its store. Called by
:mod:`~sowctl.engine.writing.group_commit`. Specified in ``sow-journal(5)``, Txids and groups, and ``sow-store(5)``,
Records.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.fold.blocks import encode_values
from sowctl.engine.writing.entries import TopicEntries
from sowctl.identity.keyspace import split_words
from sowctl.journal.entries import EntryBatch, interleave_batches
from sowctl.journal.format import PUBLISH
from sowctl.store.meta import NO_LINEAGE, AppliedPosition
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.reports import Rejected
    from sowctl.engine.writing.batches import PublishBatch
    from sowctl.engine.writing.publishers import Publisher
    from sowctl.engine.writing.session import WriteSession


class AcknowledgedBatch(DescribedStruct):
    """A batch that is on disk: its messages, the txids of the first and the last, and its place in the input.

    ``durable`` is False if the run published to a volatile topic: transient and not journalled."""

    payloads: list[bytes]
    first_txid: int
    last_txid: int
    batch: PublishBatch
    durable: bool = True

    @property
    def end_offset(self) -> int:
        """The input offset after the batch, in bytes."""
        return self.batch.end_offset


class WrittenBatch(NamedTuple):
    """A batch that is written and may not be synced yet; ``groups`` are the messages and the first txid of each group
    or transaction."""

    batch: PublishBatch
    parts: list[TopicEntries]
    rejected: list[Rejected]
    groups: list[tuple[list[bytes], int]]


def write_entries(
    session: WriteSession,
    pool: Executor,
    parts: list[TopicEntries],
    publisher: Publisher | None,
    now: int,
    *,
    sync: bool,
) -> tuple[Future[None] | None, list[tuple[list[bytes], int]]]:
    """Write the entries of a batch; with ``sync``, ``pool`` syncs the journal. A dry run writes only to the memtables.

    Returns the sync to wait for, or None, and the written messages with the first txid of each group or transaction.
    Raises the errors of journals and stores.
    """
    if session.dry_run:
        # The memtables hold what would be stored, so that later batches of the run meet these records.
        for part in parts:
            if len(part):
                txids = range(part.writer.last_txid + 1, part.writer.last_txid + 1 + len(part))
                apply_to_memtable(part, txids, encode_entry_values(part, txids))
        return None, []
    synced, written = None, []
    logged = [part for part in parts if part.writer.journalled and len(part)]
    if logged:
        # All journalled topics of the batch are one group: after a crash, all or none of it exists. It is appended
        # before stores are written, and synced by another thread meanwhile.
        written.append(_append_group(session, pool, logged, publisher, now))
        # The caller waits for this before it acknowledges anything or releases the journal's lock.
        synced = pool.submit(session.journal.sync) if sync else None
    alone = [part for part in parts if not part.writer.journalled and len(part)]
    written += [_write_without_journal(session, part, publisher) for part in alone]
    return synced, written


def _append_group(
    session: WriteSession, pool: Executor, parts: list[TopicEntries], publisher: Publisher | None, now: int
) -> tuple[list[bytes], int]:
    """Append one group to the journal, then to the memtables; return its messages and its first txid."""
    batch, ranks = build_group(parts, publisher)
    # The group's entries get consecutive txids in input order over all topics; a part's own are those at its ranks.
    first = session.journal.last_txid + 1
    txids = [
        range(first, first + len(rank)) if isinstance(rank, range) else [first + r for r in rank] for rank in ranks
    ]
    values: list[list[bytes]] = []

    def pack() -> None:
        # The memtable keeps large batches as columns, and packs their values itself when it needs them.
        values.extend([] if part.latest is not None else encode_entry_values(part, own) for part, own in packing)

    packing = list(zip(parts, txids, strict=True))

    # Entries are in the memtables before they are synced. That is safe under the locks: before the sync is done,
    # nothing is applied to a store, and no other session sees the memtables of this one.
    with session.guard_memtables():
        # Values are packed while another thread compresses; they become visible once the journal has the group.
        session.journal.append_group(batch, now, pool=pool, meanwhile=pack)
        for part, own, packed in zip(parts, txids, values, strict=True):
            apply_to_memtable(part, own, packed)
    return list(batch.payloads), first


def _write_without_journal(
    session: WriteSession, part: TopicEntries, publisher: Publisher | None
) -> tuple[list[bytes], int]:
    """Write a batch in one synced transaction to the store of a topic without a journal."""
    # Without a journal, the store assigns the txids. The batch holds its writer lock, so they are unique.
    first = part.writer.last_txid + 1
    txids = range(first, first + len(part))
    apply_to_memtable(part, txids, [] if part.latest is not None else encode_entry_values(part, txids))
    sequences = None
    # A client that is only recorded is not written to a store, which has no entries with a publisher.
    if publisher is not None and (highest := max(publisher.list_sequences(part.places))):
        sequences = {publisher.identity[0]: highest}
    if part.chains is not None:
        part.chains.save_links()  # before the records: links after the store's position are ignored
    # The store syncs each commit, so these entries are durable when this returns. Records and the publisher's sequence
    # number change in the same transaction: a repeated run finds both or neither.
    session.stores[part.writer.ref].apply_in_place(AppliedPosition(NO_LINEAGE, part.writer.last_txid), sequences)
    return list(part.batch.payloads), first


def build_group(parts: list[TopicEntries], publisher: Publisher | None) -> tuple[EntryBatch, list[Sequence[int]]]:
    """Build one journal group of the entries of a batch, in input order; also return the ranks of each part's entries
    in it."""
    # Txids follow the input, also across topics: readers of the journal see messages in the order of their publisher.
    batch, ranks = interleave_batches([part.batch for part in parts], [part.places for part in parts])
    if publisher is not None:
        places = parts[0].places if len(parts) == 1 else sorted(place for part in parts for place in part.places)
        # An entry has its publisher's sequence number, so the journal alone detects duplicates after a crash (behaviour
        # 6.4).
        batch = batch.set_publisher(publisher.identity, publisher.list_sequences(places))
    return batch, ranks


def encode_entry_values(entries: TopicEntries, txids: Sequence[int]) -> list[bytes]:
    """Return the stored values of entries with their txids; none for a topic without records."""
    return [] if entries.writer.config.key_mode == "none" else encode_values(entries.batch, txids)


def apply_to_memtable(entries: TopicEntries, txids: Sequence[int], values: Sequence[bytes]) -> None:
    """Make entries visible to the rest of the session; ``values`` are those of :func:`encode_entry_values`."""
    writer, batch = entries.writer, entries.batch
    if writer.config.key_mode == "none":
        writer.last_txid, writer.last_time = txids[-1], batch.last_time
        return
    if entries.latest is not None:
        writer.memtable.put_columns(batch, entries.latest, txids)
    else:
        # Stored values are encoded once: the memtable serves lookups from them, and later writes the same bytes to the
        # store.
        put = writer.memtable.put_records if batch.operations == PUBLISH else writer.memtable.add_entries
        put(split_words(batch.keys), values)
    writer.last_txid, writer.last_time = writer.memtable.last_txid, writer.memtable.last_time
    if entries.chains is not None:
        # Chains learn links only from entries with txids: refused messages leave no link.
        entries.chains.learn_links(entries.places, writer.last_txid)
