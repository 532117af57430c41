"""The change feed: changes of a topic's records by its entries (sowctl-spark(7), CHANGES).

A feed has one row for each insert and deletion and two for an update, the record before it and the record after it. The
journal has the effect of each entry: its writer knew whether the record existed, lifetimes included. The previous
record follows from the topic's fold up to that entry: :func:`fold_entries` is that fold, one step per entry, and
:class:`LastEntries` finds its initial state for a part of the journal, so that parts can be read separately.
:func:`iterate_changes` reads the parts one after the other in this process; each Spark task reads one.

Expirations are no entries. A reader that maintains a copy of the records needs them nevertheless: :class:`Lifetimes`
has the records that expire within the feed; each expiration is a deletion at its instant, before any entry of the same
instant.

Invariant, tested: the feed applied to an empty state results in the same state as a replay of the same entries.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sowctl.engine.fold.blocks import (
    EntrySpan,
    build_entry_mask,
    find_entry_places,
    read_values_at,
    read_winner_values,
)
from sowctl.engine.fold.key_table import KeyTable
from sowctl.engine.fold.last_per_key import LastPerKey
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.identity.keyspace import read_words, sort_distinct
from sowctl.journal.format import DELETE, INSERTED_FLAG, NO_PUBLISHER
from sowctl.store.codec import TOMBSTONE_FLAG, read_expiration

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.values.topicref import TopicRef

INSERT, PREIMAGE, POSTIMAGE, DELETION = "insert", "update_preimage", "update_postimage", "delete"
CHANGE_ROW_TYPES = (INSERT, PREIMAGE, POSTIMAGE, DELETION)
"""The types of rows, named as in Delta's change data feed."""
RecordState = MutableMapping[bytes, bytes]
"""Stored values by key."""
DELETED, EXPIRED = "deleted", "expired"
"""The reasons of deletions."""


def fold_entries(state: RecordState, keys: Sequence[bytes], values: Sequence[bytes]) -> list[bytes | None]:
    """Fold entries into ``state``; return for each entry the previous stored value of its key, None if there was none.

    ``keys`` and ``values`` are those of :func:`sowctl.engine.fold.blocks.read_entry_values`: a tombstone is a deletion.
    """
    met = []
    for key, value in zip(keys, values, strict=True):
        met.append(state.get(key))
        if value[0] & TOMBSTONE_FLAG:
            state.pop(key, None)
        else:
            state[key] = value
    return met


def build_change_rows(operations: Any, flags: Any) -> tuple[Any, Any]:
    """Return the rows of some entries: the type of each row, as an index in :data:`CHANGE_ROW_TYPES`, and the index of
    its entry.

    Both are numpy arrays, in the order of the entries; for an update, the row of the previous record comes first.
    """
    import numpy as np

    updates = (operations != DELETE) & ((flags & INSERTED_FLAG) == 0)
    entries = np.repeat(np.arange(len(operations)), np.where(updates, 2, 1))
    kinds = np.where(operations == DELETE, CHANGE_ROW_TYPES.index(DELETION), CHANGE_ROW_TYPES.index(INSERT))[entries]
    # Of the two rows of an update, the first is the one whose successor has the same entry.
    first = np.zeros(len(entries), bool)
    first[:-1] = entries[:-1] == entries[1:]
    kinds = np.where(
        updates[entries], np.where(first, CHANGE_ROW_TYPES.index(PREIMAGE), CHANGE_ROW_TYPES.index(POSTIMAGE)), kinds
    )
    return kinds, entries


class BlockChanges(NamedTuple):
    """The rows of a block: the ``places`` of its entries, the type and entry of each row (all numpy arrays), and the
    key and stored value of its record, None if unknown; both empty if records were not requested."""

    places: Any
    kinds: Any
    entries: Any
    keys: list[bytes]
    images: list[bytes | None]


def read_block_changes(block: Block, topic: TopicRef, span: EntrySpan, state: RecordState | None) -> BlockChanges:
    """Return the rows of a block's entries in ``span``; folds ``state`` up to its end. ``state`` is None if records are
    not requested."""
    import numpy as np

    places = np.array(find_entry_places(block, topic, after=span.after, until=span.until), np.int64)
    keys: list[bytes] = []
    values: list[bytes] = []
    met: list[bytes | None] = []
    if state is not None and len(places):
        keys, values = read_values_at(block, places.tolist())
        met = fold_entries(state, keys, values)
    columns = block.decode_numpy_columns()
    kinds, entries = build_change_rows(columns.operations[places], columns.flags[places])
    if state is None:
        return BlockChanges(places, kinds, entries, [], [])
    old = np.isin(kinds, [CHANGE_ROW_TYPES.index(PREIMAGE), CHANGE_ROW_TYPES.index(DELETION)]).tolist()
    rows = entries.tolist()
    images = [met[at] if before else values[at] for at, before in zip(rows, old, strict=True)]
    return BlockChanges(places, kinds, entries, [keys[at] for at in rows], images)


class JournalPart(NamedTuple):
    """Entries with ``after < txid <= until``; ``latest`` is the latest time of their blocks, microseconds UTC."""

    after: int
    until: int
    latest: int


def list_block_sizes(log: Journal, after: int, until: int) -> list[tuple[int, int, int]]:
    """Return last txid, stored bytes and latest time of every block of these txids, reading only their headers."""
    blocks = []
    for ref in log.iter_block_refs(after):
        if ref.header.first_txid > until:
            break
        blocks.append((ref.header.last_txid, ref.header.size, ref.header.latest))
    return blocks


def cut_parts(blocks: Sequence[tuple[int, int, int]], after: int, until: int, size: int) -> list[JournalPart]:
    """Return parts of about ``size`` stored bytes; ``blocks`` are those of :func:`list_block_sizes`."""
    made, low, held, latest = list[JournalPart](), after, 0, 0
    for last, stored, time in blocks:
        held += stored
        latest = max(latest, time)
        if held >= size:
            made.append(JournalPart(low, min(last, until), latest))
            low, held, latest = last, 0, 0
    # ``until`` may cut the last block, and removed entries end no block.
    return [*made, JournalPart(low, until, latest)] if low < until else made


class ChangeRow(NamedTuple):
    """A row with its record and cause. ``txid`` and ``sequence`` are None for an expiration, whose ``time`` is its
    instant; ``client`` is the publisher's hash and name, None without one; ``image`` is None if the record is
    unknown."""

    kind: str
    key: bytes
    image: bytes | None
    time: int
    reason: str | None = None
    txid: int | None = None
    client: tuple[int, str] | None = None
    sequence: int | None = None


class Lifetimes:
    """Records that expire up to the instant ``now``, as of the entries added so far.

    Memory: about 200 bytes per record.
    """

    def __init__(self, now: int) -> None:
        self._now = now
        self._ends: dict[bytes, tuple[int, int]] = {}
        self._due: list[tuple[int, bytes]] = []

    def put(self, key: bytes, end: int, txid: int) -> None:
        """Add a record written by the entry ``txid`` whose lifetime ends at ``end``, 0 for never."""
        if 0 < end <= self._now:
            self._ends[key] = end, txid
            heapq.heappush(self._due, (end, key))
        else:
            self._ends.pop(key, None)

    def drop(self, key: bytes) -> None:
        """Remove a record that was replaced or deleted."""
        self._ends.pop(key, None)

    def add_records(self, log: Journal, known: LastEntries) -> None:
        """Add the records of ``known``. A record whose lifetime ended at or before the topic's last entry in ``known``
        has expired before the feed begins."""
        import numpy as np

        txids, since = known.list_record_txids(), known.latest
        for block in _read_blocks_holding(log, txids) if len(txids) else ():
            columns, number = block.decode_numpy_columns(), txids.dtype.type
            low, high = txids.searchsorted([number(block.first_txid), number(block.first_txid + len(block))])
            places = (txids[low:high] - number(block.first_txid)).astype("i8")
            ends = columns.expirations[places]
            due = np.flatnonzero((ends > since) & (ends <= self._now))
            keys = read_words(columns.keys[places[due]])
            for key, end, place in zip(keys, ends[due].tolist(), places[due].tolist(), strict=True):
                self.put(key, end, block.first_txid + place)

    def list_txids(self, time: int) -> list[int]:
        """Return the txids of the records that end at or before ``time``."""
        return [txid for end, txid in self._ends.values() if end <= time]

    def list_due(self, time: int) -> list[bytes]:
        """Return the keys of the records that end at or before ``time``."""
        found = list(self.pop_due(time))
        for end, key, txid in found:
            self.put(key, end, txid)
        return [key for _, key, _ in found]

    def pop_due(self, time: int) -> Iterator[tuple[int, bytes, int]]:
        """Remove the records that end at or before ``time`` and yield their ends, keys and txids, in this order."""
        while self._due and self._due[0][0] <= time:
            end, key = heapq.heappop(self._due)
            if (found := self._ends.get(key)) is not None and found[0] == end:
                del self._ends[key]
                yield end, key, found[1]


def iterate_changes(
    log: Journal, topic: TopicRef, span: EntrySpan, lifetimes: Lifetimes | None = None, now: int | None = None
) -> Iterator[list[ChangeRow]]:
    """Yield the rows of a topic's entries in ``span``, in lists; with ``lifetimes`` also those of expirations.

    ``now``: the instant up to which records expire after the last entry; None: no record expires after it.
    """
    import numpy as np

    after, until = max(span.after, log.first_txid - 1), span.until
    known = LastEntries(topic)
    known.advance_to(log, after)
    if lifetimes is not None:
        lifetimes.add_records(log, known)
    for part in cut_parts(list_block_sizes(log, after, until), after, until, FOLD_LIMITS.change_part_bytes):
        known.advance_to(log, part.after)
        txids = known.find_replaced_txids(log, part.until)
        if lifetimes is not None:
            txids = np.union1d(txids, np.array(lifetimes.list_txids(part.latest), np.uint64))
        state = read_records_at(log, txids)
        for block in log.iter_blocks(after=part.after, until=part.until, topic=topic):
            # Records that may expire between the entries of the block, as they are before these entries.
            ending = [] if lifetimes is None else lifetimes.list_due(block.header.latest)
            values = {key: state.get(key) for key in ending}
            rows = _list_rows(block, read_block_changes(block, topic, EntrySpan(part.after, part.until), state))
            yield rows if lifetimes is None else list(_insert_expirations(rows, values, lifetimes))
    while lifetimes is not None and now is not None:
        ended = _take_some(lifetimes.pop_due(now), FOLD_LIMITS.fold_part_records)
        if not ended:
            return
        state = read_records_at(log, np.array(sorted(txid for _, _, txid in ended), np.uint64))
        yield [ChangeRow(DELETION, key, state.get(key), end, EXPIRED) for end, key, _ in ended]


def _take_some(found: Iterator[tuple[int, bytes, int]], count: int) -> list[tuple[int, bytes, int]]:
    # A generator that is abandoned in the middle is not resumed: each record is removed before it is yielded.
    return [one for _, one in zip(range(count), found, strict=False)]


def _list_rows(block: Block, changes: BlockChanges) -> list[ChangeRow]:
    columns, first = block.decode_columns(), block.first_txid
    places = changes.places.tolist()
    publishers = block.publishers
    rows = []
    for kind, at, key, image in zip(
        changes.kinds.tolist(), changes.entries.tolist(), changes.keys, changes.images, strict=True
    ):
        place, word = places[at], CHANGE_ROW_TYPES[kind]
        who = columns.publisher_indexes[place]
        named = who != NO_PUBLISHER
        rows.append(
            ChangeRow(
                word,
                key,
                image,
                columns.times[place],
                DELETED if word == DELETION else None,
                first + place,
                publishers[who] if named else None,
                columns.sequences[place] if named else None,
            )
        )
    return rows


def _insert_expirations(
    rows: list[ChangeRow], values: dict[bytes, bytes | None], lifetimes: Lifetimes
) -> Iterator[ChangeRow]:
    """Yield the rows of a block, and before each entry the records that expired up to its time; ``values`` are the
    records that may expire, as they were before the block."""
    for row in rows:
        if row.kind in (DELETION, PREIMAGE):
            # The writer saw the record, so it had not expired, regardless of the time of the entry.
            lifetimes.drop(row.key)
        for end, key, _ in lifetimes.pop_due(row.time):
            yield ChangeRow(DELETION, key, values.get(key), end, EXPIRED)
        yield row
        if row.kind in (INSERT, POSTIMAGE) and row.image is not None:
            values[row.key] = row.image
            assert row.txid is not None
            lifetimes.put(row.key, read_expiration(row.image), row.txid)


class LastEntries:
    """The last entry of every key up to a txid, advanced while parts of the journal are planned.

    Memory is bounded (:mod:`sowctl.engine.fold.key_table`). Only columns are read, no payloads.
    """

    def __init__(self, topic: TopicRef) -> None:
        self._topic = topic
        self._last = KeyTable()
        self.upto = 0
        self._seen = 0

    @property
    def latest(self) -> int:
        """The time of the last entry, microseconds UTC; 0 for none."""
        return self._last.latest

    def list_record_txids(self) -> Any:
        """Return the txids of the records, ascending, as a numpy array."""
        return self._last.list_record_txids()

    @property
    def lacks_keys(self) -> bool:
        """Return whether the topic has entries but none of them has a key: then it has no records."""
        return self._seen > 0 and not self._last.entries

    def _count_entries(self, block: Block, span: EntrySpan) -> None:
        mask = build_entry_mask(block, (self._topic,), after=span.after, until=span.until, unkeyed=True)
        self._seen += len(block) if mask is None else int(mask.sum())

    def advance_to(self, log: Journal, txid: int) -> None:
        """Add the entries of the journal up to ``txid``, which is not below :attr:`upto`."""
        if txid <= self.upto:
            return
        span = EntrySpan(self.upto, txid)
        for block in log.iter_blocks(after=self.upto, until=txid, topic=self._topic):
            self._count_entries(block, span)
            self._last.add_block(block, self._topic, span)
        self.upto = txid

    def find_replaced_txids(self, log: Journal, until: int) -> Any:
        """Return the txids, ascending, of the entries up to :attr:`upto` that later entries up to ``until`` replace or
        delete; then add these, too. A numpy array of unsigned 64-bit numbers."""
        import numpy as np

        span, none = EntrySpan(self.upto, until), np.zeros(0, np.uint64)
        found, touched, later = [none], [none], LastPerKey()

        def take_in() -> None:
            # Records replaced within the part itself are in its own rows.
            txids = self._last.find_record_txids(sort_distinct(touched))
            found.append(txids[txids <= span.after])
            self._last.add_entries(later)

        for block in log.iter_blocks(after=self.upto, until=until, topic=self._topic):
            columns = block.decode_numpy_columns()
            mask = build_entry_mask(block, (self._topic,), after=span.after, until=span.until)
            keys, flags = columns.keys.astype(np.uint64), columns.flags
            if mask is not None:
                keys, flags = keys[mask], flags[mask]
            # Rows of inserts have no previous record: if there was one, it had expired.
            touched.append(keys[(flags & INSERTED_FLAG) == 0])
            self._count_entries(block, span)
            later.add_block(block, self._topic, span)
            if later.entries >= FOLD_LIMITS.table_entries:
                take_in()
                touched, later = [none], LastPerKey()
        take_in()
        self.upto = until
        return np.sort(np.concatenate(found))


def read_records_at(log: Journal, txids: Any) -> RecordState:
    """Return the stored values of publishes with these ascending txids, by key: the initial state of a part of the
    journal."""
    state: RecordState = {}
    if not len(txids):
        return state
    for block in _read_blocks_holding(log, txids):
        keys, values = read_winner_values(block, txids)
        state.update(zip(keys, values, strict=True))
    return state


def _read_blocks_holding(log: Journal, txids: Any) -> Iterator[Block]:
    """Yield the blocks that contain any of these txids; only the headers of other blocks are read."""
    number, last = txids.dtype.type, int(txids[-1])
    for ref in log.iter_block_refs(after=int(txids[0]) - 1):
        if ref.header.first_txid > last:
            return
        low, high = txids.searchsorted([number(ref.header.first_txid), number(ref.header.last_txid + 1)])
        if low < high:
            yield ref.load()
