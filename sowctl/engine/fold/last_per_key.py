"""The fold that keeps the last entry of each key, in bounded memory.

It has two forms, because most of the cost is in payloads:

* :class:`LastPerKey` reads only columns, 17 bytes per key, and determines the last entries. If entries can be read
  twice, only these are converted to stored values. Used by rebuilds, repairs, change feeds and Spark tasks.
* :func:`fold_last_per_key` and :func:`fold_timelines` read stored values and return, in key order, the last one or all
  of every key. Values are kept in memory up to a limit; more are divided by ranges of keys into temporary files, which
  are folded separately. Used by rebuilds and repairs, by bulk loads of topics without a journal, and for the output of
  Spark tasks with two passes.

The fold of a live topic is the memtable (:mod:`~sowctl.engine.fold.memtable`), which is queried between entries.
Specified in ``sow-journal(5)``, From a store's record to its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sowctl.engine.fold.blocks import EntrySpan, build_entry_mask
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.spill import Pairs, SortBuckets
from sowctl.engine.topics.retention import Retention, encode_version, extend_versions
from sowctl.identity.keyspace import find_last_occurrences
from sowctl.journal.format import PUBLISH

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.values.topicref import TopicRef

ENTRY_OVERHEAD_BYTES = 96
"""Approximate bytes of an entry in memory in addition to its payload."""
KeyedValues = tuple[bytes, list[bytes]]
"""Keys of 8 bytes back to back, and their stored values."""
Timeline = tuple[bytes, list[bytes]]
"""A key, and its stored values in txid order, including tombstones."""


@contextmanager
def fold_last_per_key(
    parts: Iterable[KeyedValues], directory: Path, expected: int, limit: int | None = None
) -> Iterator[Iterator[Pairs]]:
    """Return the last stored value of every key, in key order, including tombstones. All ``parts`` are read first.

    Values of a key are in txid order. ``expected``: their approximate size in bytes. Up to ``limit`` of them (default:
    ``bucket_bytes``) stay in memory; more go to unnamed files in ``directory``.

    Raises StorageError ``SOW-ENG-040``.
    """
    with SortBuckets(directory, expected, FOLD_LIMITS.bucket_bytes if limit is None else limit) as buckets:
        for keys, values in parts:
            buckets.add_values(keys, values)
        yield buckets.iterate_last(FOLD_LIMITS.fold_part_records)


@contextmanager
def fold_timelines(
    parts: Iterable[KeyedValues], directory: Path, expected: int, limit: int | None = None
) -> Iterator[Iterator[list[Timeline]]]:
    """As :func:`fold_last_per_key`, with all values of every key, several keys at a time."""
    with SortBuckets(directory, expected, FOLD_LIMITS.bucket_bytes if limit is None else limit) as buckets:
        for keys, values in parts:
            buckets.add_values(keys, values)
        yield buckets.iterate_timelines(FOLD_LIMITS.fold_part_records)


class RetainedRecords(NamedTuple):
    """Records of a topic with History, in key order, and the older versions kept for their keys."""

    keys: list[bytes]
    values: list[bytes]
    versions: list[tuple[bytes, bytes]]


def retain_versions(timelines: Iterable[Timeline], rule: Retention) -> RetainedRecords:
    """Apply the retention rule to all entries of keys."""
    found = RetainedRecords([], [], [])
    for key, values in timelines:
        # The rule is applied to the entries of a key as in live writes, so it keeps the same versions.
        versions = extend_versions([], values, rule)
        if not versions[-1].tombstone:
            found.keys.append(key)
            found.values.append(versions.pop().value)
        # A key whose last entry is a deletion has no record; its tombstone is kept among the versions.
        for version in versions:
            found.versions.append((key, encode_version(key, version)))
    return found


class LastPerKey:
    """The first pass: the txid of the last entry of every key, and whether that is a publish."""

    def __init__(self) -> None:
        import numpy

        self._np = numpy
        self._keys: list[Any] = []
        self._txids: list[Any] = []
        self._publishes: list[Any] = []
        self._held = 0
        self.entries = 0
        self.latest = 0
        self.last_txid = 0

    def add_block(self, block: Block, ref: TopicRef, span: EntrySpan) -> int:
        """Add a block's entries; return the bytes of their payloads."""
        np, columns = self._np, block.decode_numpy_columns()
        txids = np.arange(block.first_txid, block.last_txid + 1, dtype=np.uint64)
        keys, operations, times, lengths = columns.keys, columns.operations, columns.times, columns.lengths
        # Selected by the same function as in memtables and Spark jobs, so that all folds use the same entries.
        chosen = build_entry_mask(block, (ref,), after=span.after, until=span.until, since=span.since, at=span.at)
        if chosen is not None:
            txids, keys, operations = txids[chosen], keys[chosen], operations[chosen]
            times, lengths = times[chosen], lengths[chosen]
        if not len(txids):
            return 0
        # Each entry needs 17 bytes: key, txid, operation. The second pass reads payloads, only of winners.
        self._keys.append(keys.astype(np.uint64))
        self._txids.append(txids)
        self._publishes.append(operations == PUBLISH)
        self.entries += len(txids)
        self._held += len(txids)
        self.latest = max(self.latest, int(times[-1]))
        self.last_txid = int(txids[-1])
        # Memory grows with the number of keys, not of entries.
        if self._held > FOLD_LIMITS.compact_entries:
            self._forget_superseded()
        return int(lengths.sum(dtype=np.int64))

    def add_columns(self, keys: Any, txids: Any, publishes: Any, *, entries: int, latest: int, last_txid: int) -> None:
        """Add the :meth:`list_columns` of another instance, whose entries are all newer than those added before."""
        self._keys.append(keys)
        self._txids.append(txids)
        self._publishes.append(publishes)
        self.entries += entries
        self._held += len(keys)
        self.latest = max(self.latest, latest)
        self.last_txid = last_txid
        if self._held > FOLD_LIMITS.compact_entries:
            self._forget_superseded()

    def list_columns(self) -> tuple[Any, Any, Any]:
        """Return keys, the txid of the last entry of each, and whether it is a publish, by txid: numpy arrays."""
        if not self._keys:
            nothing = self._np.zeros(0, dtype=self._np.uint64)
            return nothing, nothing, nothing.astype(bool)
        self._held = FOLD_LIMITS.compact_entries + 1
        self._forget_superseded()
        return self._keys[0], self._txids[0], self._publishes[0]

    def _forget_superseded(self) -> None:
        np = self._np
        if len(self._keys) <= 1 and self._held <= FOLD_LIMITS.compact_entries:
            return
        # One column after the other, so that only the current one is in memory twice.
        keys = np.concatenate(self._keys)
        self._keys = []
        kept = find_last_occurrences(keys)
        kept.sort()  # in txid order again, in which the second pass looks them up
        self._keys = [keys[kept]]
        del keys
        self._txids = [np.concatenate(self._txids)[kept]]
        self._publishes = [np.concatenate(self._publishes)[kept]]
        # Count from zero: compacting is useful only after the same number of new entries; otherwise a journal of
        # distinct keys would be sorted for every block.
        self._held = 0

    def build_table(self) -> tuple[Any, Any, Any]:
        """Return keys in order, the txid of the last entry of each, and whether it is a publish: numpy arrays."""
        if not self._keys:
            return self.list_columns()
        keys, txids, publishes = map(self._np.concatenate, (self._keys, self._txids, self._publishes))
        order = find_last_occurrences(keys)
        return keys[order], txids[order], publishes[order]

    def list_record_txids(self) -> Any:
        """Return the txids of the remaining records, ascending, as a numpy array."""
        _, txids, publishes = self.list_columns()
        # A deletion that is a key's last entry replaces earlier entries and leaves no record itself.
        return txids if publishes.all() else txids[publishes]
