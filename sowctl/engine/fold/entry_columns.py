"""Published records of a memtable by columns: they are encoded into stored values only on demand.

In a large publish, many keys occur more than once before the memtable is flushed. Only the last record of each key is
encoded then, in key order: 630,000 values for 1,000,000 orders over 500,000 keys. Until then, publishing looks up check
words and payloads in the columns. Created by :mod:`sowctl.engine.fold.memtable`; imports numpy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from sowctl.engine.fold.spill import Pairs
from sowctl.identity.keyspace import find_last_occurrences, join_words, read_words, sort_distinct
from sowctl.journal.entries import TEXT_BLOCK_FLAGS, EntryBatch
from sowctl.journal.format import PUBLISH, UNKEYED_FLAG
from sowctl.store.codec import (
    HEADER_DTYPE,
    VALUE_OVERHEAD_BYTES,
    Numbers,
    encode_plain_records,
    extract_headers,
    extract_payloads,
)
from sowctl.store.sortedrun import Changes

if TYPE_CHECKING:
    from sowctl.journal.block import Block

_PART_ROWS = 1 << 15
MIN_TABLE_BITS = 14
SLOTS_PER_KEY = 3
"""Minimum slots per key: an existing key is found in the first or second slot."""
EMPTY_ROW = -1


class LatestEntries(NamedTuple):
    """The distinct keys of a batch of entries, as an array of uint64; the indexes of their last entries; and the sizes
    of all its payloads."""

    keys: Any
    places: Any
    sizes: Any


def find_latest_entries(block: Block) -> LatestEntries | None:
    """Return the last entries of the keys of a block, for a memtable that adds it as columns.

    None unless all are publishes of one topic without texts: then its values are folded.
    """
    if len(block.topic_refs) > 1 or block.header.flags & TEXT_BLOCK_FLAGS:
        return None
    arrays = block.decode_numpy_columns()
    if (arrays.operations != PUBLISH).any() or (arrays.flags & UNKEYED_FLAG).any():
        return None
    keys = arrays.keys.astype(np.uint64)
    places = find_last_occurrences(keys)
    return LatestEntries(keys[places], places, arrays.lengths)


class KeyTable:
    """A hash table from SOW keys to row numbers, with operations on whole columns.

    Columns of keys are arrays of uint64 without duplicates, rows are arrays of intp. A dictionary accesses four or five
    scattered memory locations per key, one after the other; this table fetches those of a column together. In batches
    of 4,800, lookups and changes of 1,000,000 keys, 500,000 of them distinct, took 1.4 to 1.6 s with a dictionary, and
    take 0.22 to 0.28 s with this table, including the sorting of each batch.
    """

    def __init__(self, bits: int = MIN_TABLE_BITS) -> None:
        self._count = 0
        # A random factor that publishers do not know spreads the keys. Without it, keys could be constructed to share
        # one sequence of slots, and each search would be linear in the number of keys.
        self._factor = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
        self._allocate_slots(bits)

    def __len__(self) -> int:
        return self._count

    def _allocate_slots(self, bits: int) -> None:
        self._shift, self._mask = np.uint64(64 - bits), (1 << bits) - 1
        self._keys = np.zeros(1 << bits, dtype=np.uint64)
        self._rows = np.full(1 << bits, EMPTY_ROW, dtype=np.int32)

    def find_rows(self, keys: Any) -> Any:
        """Return the row of each key, :data:`EMPTY_ROW` for none."""
        if not self._count:
            return np.full(len(keys), EMPTY_ROW, dtype=np.intp)
        return self._rows[self._find_slots(keys)].astype(np.intp)

    def set_rows(self, keys: Any, rows: Any) -> None:
        """Set the rows of new or existing keys."""
        if (self._count + len(keys)) * SLOTS_PER_KEY > len(self._rows):
            self._grow_table(self._count + len(keys))
        slots = self._find_slots(keys)
        self._count += int(np.count_nonzero(self._rows[slots] == EMPTY_ROW))
        while True:
            self._keys[slots], self._rows[slots] = keys, rows
            # Two new keys may have found the same empty slot: the later one gets it, and the other continues the
            # search.
            lost = (self._rows[slots] != rows).nonzero()[0]
            if not len(lost):
                return
            keys, rows = keys[lost], rows[lost]
            slots = self._find_slots(keys)

    def list_rows(self) -> tuple[Any, Any]:
        """Return all keys, unordered, and their rows."""
        taken = (self._rows != EMPTY_ROW).nonzero()[0]
        return self._keys[taken], self._rows[taken].astype(np.intp)

    def _find_slots(self, keys: Any) -> Any:
        """Return the slot of each key, or the empty slot where it belongs."""
        # The highest bits of the product, modulo 2**64, select the slot.
        slots = (keys * self._factor >> self._shift).astype(np.intp)
        open_ = ((self._rows[slots] != EMPTY_ROW) & (self._keys[slots] != keys)).nonzero()[0]
        while len(open_):
            # The slot has another key: the key is in one of the next slots, before the first empty one. Keys are never
            # removed, so no slot before it has become empty.
            at = (slots[open_] + 1) & self._mask
            slots[open_] = at
            open_ = open_[(self._rows[at] != EMPTY_ROW) & (self._keys[at] != keys[open_])]
        return slots

    def _grow_table(self, count: int) -> None:
        keys, rows = self.list_rows()
        self._allocate_slots(max(MIN_TABLE_BITS, (count * 2 * SLOTS_PER_KEY - 1).bit_length() - 1))
        self._count = 0
        if len(keys):
            self.set_rows(keys, rows)


class RecordColumns:
    """Records by columns: each row is a record, in txid order, and the last row of a key is its current record."""

    def __init__(self) -> None:
        self._table = KeyTable()
        self._count = 0
        self._room = _PART_ROWS
        self.payloads: list[bytes] = []
        """Payload of each row."""
        self.keys: Any = np.empty(_PART_ROWS, dtype=np.uint64)
        self.checks: Any = np.empty(_PART_ROWS, dtype=np.uint64)
        self.sizes: Any = np.empty(_PART_ROWS, dtype=np.int64)
        self._txids: Any = np.empty(_PART_ROWS, dtype=np.uint64)
        self._times: Any = np.empty(_PART_ROWS, dtype=np.int64)
        self._expirations: Any = np.empty(_PART_ROWS, dtype=np.int64)
        self.records = self.added = 0
        """Number of added records, and bytes of their values."""
        self.held = self.taken = 0
        """Bytes of the current values, and of all values in memory."""

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._table)

    def find_rows(self, keys: Any) -> Any:
        """Return the row of each of ``keys`` (uint64, without duplicates), -1 for none."""
        return self._table.find_rows(keys)

    def add_entries(self, entries: EntryBatch, latest: LatestEntries, txids: Numbers) -> None:
        """Append records: entries without deletions and optional texts, newer than all rows."""
        count, start = len(entries), self._count
        stop = start + count
        while stop > self._room:
            self._grow_columns()
        sizes = latest.sizes.astype(np.int64)
        keys, checks = (np.frombuffer(join_words(words), ">u8") for words in (entries.keys, entries.checks))
        # Keys are numbers, which sort in the order of their bytes; check words keep their byte order in memory.
        fresh = keys, checks.view(np.uint64), sizes, txids, entries.times, entries.expirations
        for column, values in zip(self._list_columns(), fresh, strict=True):
            column[start:stop] = values
        self.payloads += entries.payloads
        self._count = stop
        before = self._table.find_rows(latest.keys)
        known = before[before != EMPTY_ROW]
        self._table.set_rows(latest.keys, start + latest.places)
        self.records += count
        size = int(sizes.sum()) + VALUE_OVERHEAD_BYTES * count
        self.added += size
        self.taken += size
        self.held += int(sizes[latest.places].sum()) + VALUE_OVERHEAD_BYTES * len(latest.places)
        self.held -= int(self.sizes[known].sum()) + VALUE_OVERHEAD_BYTES * len(known)

    def load_values(self, current: Mapping[bytes, bytes | None]) -> bool:
        """Add the stored values ``current``, one per key; return False if a change is a deletion or has parts without a
        column."""
        values = [value for value in current.values() if value is not None]
        if len(values) < len(current):
            return False
        fields: Any = np.frombuffer(extract_headers(values), dtype=HEADER_DTYPE)
        if fields["flags"].any() or fields["extra"].any():
            return False
        keys, payloads = b"".join(current), extract_payloads(values)
        entries = EntryBatch([], payloads, keys, fields["check"].tobytes(), fields["time"], fields["expiration"])
        sizes = np.fromiter(map(len, payloads), dtype=np.int64, count=len(payloads))
        latest = LatestEntries(np.frombuffer(keys, ">u8").astype(np.uint64), np.arange(len(payloads)), sizes)
        self.add_entries(entries, latest, fields["txid"])
        return True

    def exceeds_bytes(self, bound: int) -> bool:
        """Return whether the values need about ``bound`` bytes of memory, even after dropping superseded ones."""
        if self.taken < bound:
            return False
        self._drop_superseded()
        # At least a quarter must be superseded each time: this bounds the cost to three kept records per dropped one.
        return self.taken > bound - bound // 4

    def sort_rows(self) -> RecordColumnsLayer:
        """Return all keys as a layer of changes, as of now."""
        keys, rows = self._table.list_rows()
        order = keys.argsort()
        return RecordColumnsLayer(self, keys[order], rows[order])

    def encode_rows(self, rows: Any) -> Pairs:
        """Return keys and stored values of some rows."""
        keys = read_words(self.keys[rows].astype(">u8"))
        payloads = self.payloads
        values: list[Any] = encode_plain_records(
            keys,
            read_words(self.checks[rows]),
            self._txids[rows].tolist(),
            self._times[rows].tolist(),
            self._expirations[rows].tolist(),
            [payloads[row] for row in rows.tolist()],
        )
        return keys, values

    def _list_columns(self) -> tuple[Any, ...]:
        return self.keys, self.checks, self.sizes, self._txids, self._times, self._expirations

    def _grow_columns(self) -> None:
        self._room *= 2
        self._set_columns([np.concatenate((column, np.empty_like(column))) for column in self._list_columns()])

    def _set_columns(self, columns: Sequence[Any]) -> None:
        self.keys, self.checks, self.sizes, self._txids, self._times, self._expirations = columns

    def _drop_superseded(self) -> None:
        """Drop the superseded rows."""
        _, rows = self._table.list_rows()
        rows.sort()
        payloads = self.payloads
        self.payloads = [payloads[row] for row in rows.tolist()]
        self._count = len(rows)
        for column in self._list_columns():
            column[: self._count] = column[rows]
        # In parts, because a lookup needs several numbers in memory for each key.
        for start in range(0, self._count, _PART_ROWS):
            stop = min(start + _PART_ROWS, self._count)
            self._table.set_rows(self.keys[start:stop], np.arange(start, stop))
        self.taken = self.held


class RecordColumnsLayer:
    """A layer of changes in key order (:class:`~sowctl.engine.fold.merge_layers.Layer`), encoded part by part."""

    def __init__(self, records: RecordColumns, keys: Any, rows: Any) -> None:
        self._records = records
        self._keys = keys
        self._rows = rows

    def __len__(self) -> int:
        return len(self._keys)

    def find_place(self, key: bytes, low: int = 0, *, after: bool = False) -> int:
        """Return the index of the first key from ``low`` on that is not before ``key``; with ``after``, that is after
        it."""
        if len(key) > 8:
            return len(self._keys)  # nine bytes sort after every key
        number = np.uint64(int.from_bytes(key, "big"))
        return max(low, int(self._keys.searchsorted(number, "right" if after else "left")))

    def key_at(self, place: int) -> bytes:
        """Return the key at an index."""
        return int(self._keys[place]).to_bytes(8, "big")

    def read_changes(self, start: int, stop: int) -> Changes:
        """Return the changes from index ``start`` to ``stop``, exclusive."""
        keys, values = self._records.encode_rows(self._rows[start:stop])
        return keys, cast("list[bytes | None]", values)

    def read_all_changes(self, start: int, stop: int) -> Pairs:
        """As :meth:`read_changes`: this layer has no deletions, and topics with History have no columns."""
        return self._records.encode_rows(self._rows[start:stop])

    def find_values(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        """Return the values of the changed keys among ``keys``."""
        wanted = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
        rows = self._records.find_rows(sort_distinct([wanted]))
        return dict(zip(*self._records.encode_rows(rows[rows != EMPTY_ROW]), strict=True))
