"""The memtable of a store: journal entries that are acknowledged and not yet applied, folded (principle 2).

A fold converts journal entries to stored values, so that all callers see one format. Writers have a memtable per topic
and flush it to the store or to a sorted run (``sow-run(5)``); readers build one from the runs and the blocks after the
store's position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from sowctl.engine.fold.blocks import read_entry_values
from sowctl.engine.fold.merge_layers import AllChanges, Layer, LayerStack, MemoryLayer, NewestChanges, sort_changes
from sowctl.store.codec import TOMBSTONE_FLAG, read_stamps

if TYPE_CHECKING:
    from sowctl.engine.fold.entry_columns import LatestEntries, RecordColumns
    from sowctl.journal.block import Block
    from sowctl.journal.entries import EntryBatch
    from sowctl.store.sortedrun import Changes, SortedRun
    from sowctl.values.topicref import TopicRef


class Memtable:
    """Changes of one topic, newest per key; with ``history`` also every change in txid order.

    Older changes may be in sorted runs, ``runs``, from the oldest to the newest. ``current_changes`` has the later
    ones: it maps a key to its stored value, None for a deleted key. ``changes`` (history only) lists all of them,
    ``(key, value)``, with tombstones as values; then runs also have every change. ``added_bytes`` is the total size of
    all values added to ``current_changes``, ``deletes`` whether any key was deleted there. The memtable has every entry
    of the topic above ``base`` up to the end of the journal; it must not be applied to a store below ``base``.

    Records published in large batches are kept in ``unpacked`` as columns. They are newer than all others, and are
    moved to ``current_changes`` when this is accessed.
    """

    __slots__ = (
        "_added",
        "_again",
        "_layers",
        "_packed",
        "_size",
        "base",
        "changes",
        "deletes",
        "last_time",
        "last_txid",
        "runs",
        "unpacked",
    )

    def __init__(
        self,
        *,
        history: bool = False,
        base: int = 0,
        runs: Sequence[SortedRun] = (),
        again: Callable[[SortedRun], Layer] | None = None,
    ) -> None:
        """``again`` folds the journal's entries of a damaged run; required with runs."""
        self.base = base
        self.runs: list[SortedRun] = list(runs)
        # The layers of the runs: a damaged run is replaced here by its entries from the journal.
        self._layers: list[Layer] = list(runs)
        self._packed: dict[bytes, bytes | None] = {}
        self.unpacked: RecordColumns | None = None
        self.changes: list[tuple[bytes, bytes]] | None = [] if history else None
        self.last_txid = self.runs[-1].last_txid if self.runs else 0
        self.last_time = max((run.state.last_time for run in self.runs), default=0)
        self._size = 0
        self._added = 0
        self._again = again
        self.deletes = False

    @property
    def current_changes(self) -> dict[bytes, bytes | None]:
        """The changes in memory, by key. Changes in columns are encoded and moved here first."""
        if self.unpacked is not None:
            unpacked, self.unpacked = self.unpacked, None
            layer = unpacked.sort_rows()
            keys, values = layer.read_changes(0, len(layer))
            self._packed.update(zip(keys, values, strict=True))
            self._size += unpacked.added
            self._added += unpacked.records
        return self._packed

    @property
    def packed_changes(self) -> Mapping[bytes, bytes | None]:
        """The changes in memory that are not in columns; those in columns are newer."""
        return self._packed

    def __len__(self) -> int:
        """Return the number of changed keys; a key that changed in several runs, or in a run and memory, counts for
        each.

        With history, the number of changes.
        """
        return self.memory_change_count + sum(map(len, self.runs))

    @property
    def memory_change_count(self) -> int:
        """The number of changes in memory: with history all, otherwise one for each key that changed after the runs.

        A key that changed both in columns and before counts twice.
        """
        if self.changes is not None:
            return len(self.changes)
        return len(self._packed) + (len(self.unpacked) if self.unpacked is not None else 0)

    @property
    def added_bytes(self) -> int:
        """Bytes of all values added after the runs."""
        return self._size + (self.unpacked.added if self.unpacked is not None else 0)

    @property
    def memory_start_txid(self) -> int:
        """The txid after which ``current_changes`` begins: the end of the last run."""
        return self.runs[-1].last_txid if self.runs else self.base

    @property
    def held_bytes(self) -> int:
        """Approximate bytes of values in memory; superseded ones do not count unless there is history."""
        waiting = self.unpacked.held if self.unpacked is not None else 0
        if self.changes is not None or not self._added:
            return self._size + waiting
        # Superseded values were dropped, and their sizes are unknown, so the mean size is used.
        return self._size * len(self._packed) // self._added + waiting

    def find_values(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Return the newest values of the changed keys among ``keys``, in key order; None is a deletion."""
        current = self.current_changes
        found = {key: current[key] for key in keys if key in current}
        if self.runs:
            found |= self.find_in_runs([key for key in keys if key not in found] if found else keys)
        return found

    def find_in_runs(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """As :meth:`find_values`, only for the changes in runs."""
        return LayerStack(self._layers, self._refold_run).find_values(keys)

    def select_newest(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> NewestChanges:
        """Return the changes from key ``start`` (inclusive) to ``stop`` (exclusive), in windows of about ``size``."""
        memory: Layer | None = None
        if self.unpacked is not None and not self._packed:
            memory = self.unpacked.sort_rows()
        elif self.current_changes:
            current: Mapping[bytes, bytes | None] = self.current_changes
            if start is not None or stop is not None:
                # Nine bytes of 255 sort after every key, which has eight.
                low, high = start or b"", stop or bytes((255,)) * 9
                # Only the keys of this part are sorted: each part is read separately, perhaps by another process.
                current = {key: value for key, value in current.items() if low <= key < high}
            memory = MemoryLayer(current)
        return NewestChanges(LayerStack(self._layers, self._refold_run, memory), size, start, stop)

    def sort_memory_changes(self, size: int) -> tuple[int, Iterator[Changes]]:
        """Return the number of keys that changed after the runs, and their changes in key order, ``size`` at a time."""
        if self.unpacked is None or self._packed:
            return len(self.current_changes), sort_changes(self._packed, size)
        layer = self.unpacked.sort_rows()
        starts = range(0, len(layer), size)
        return len(layer), (layer.read_changes(start, min(start + size, len(layer))) for start in starts)

    def list_memory_keys(self) -> Iterable[bytes]:
        """Return the keys that changed after the runs, unordered."""
        if self.unpacked is None:
            return self._packed
        layer = self.unpacked.sort_rows()
        return chain(self._packed, map(layer.key_at, range(len(layer))))

    def list_layers(self) -> LayerStack:
        """Return every change, with history: those of a key in txid order. Later additions are not included."""
        memory = MemoryLayer({}, self.changes) if self.changes else None
        return LayerStack(self._layers, self._refold_run, memory)

    def select_all(self, size: int) -> AllChanges:
        """Return every change, with history, in key order, in windows of about ``size`` keys."""
        return AllChanges(self.list_layers(), size)

    def iterate_parts(self, size: int) -> Iterator[Mapping[bytes, bytes | None]]:
        """Yield all changes in key order, in parts of about ``size``."""
        for _, part in self.select_newest(size).read_upto(None):
            if part:
                yield {key: part[key] for key in sorted(part)}

    def _refold_run(self, number: int) -> Layer:
        assert self._again is not None
        return self._again(self.runs[number])

    def put_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add published records in txid order."""
        # Entries are in txid order and an equal key replaces: the value with the highest txid remains.
        self.current_changes.update(zip(keys, values, strict=True))
        if self.changes is not None:
            self.changes.extend(zip(keys, values, strict=True))
        self._size += sum(map(len, values))
        self._added += len(keys)
        self._advance_position(values[-1])

    def put_columns(self, entries: EntryBatch, latest: LatestEntries, txids: Sequence[int]) -> None:
        """As :meth:`put_records`, for records that are encoded on demand; not with history."""
        assert self.changes is None
        if self.unpacked is None:
            from sowctl.engine.fold.entry_columns import RecordColumns

            self.unpacked = RecordColumns()
            if self._packed and not self.deletes and self.unpacked.load_values(self._packed):
                # Changes of small batches or of another process are moved to the columns, so that all are together.
                self._packed.clear()
                self._size = self._added = 0
        self.unpacked.add_entries(entries, latest, txids)
        self.last_txid, self.last_time = txids[-1], entries.last_time

    def put_deletions(self, keys: Sequence[bytes], tombstones: Sequence[bytes]) -> None:
        """Add deletions in txid order."""
        # Kept as None: the store may have the record, which this entry hides, and deletes when it is applied.
        self.current_changes.update(dict.fromkeys(keys))
        self.deletes = True
        if self.changes is not None:
            self.changes.extend(zip(keys, tombstones, strict=True))
        self._size += sum(map(len, tombstones))
        self._added += len(keys)
        self._advance_position(tombstones[-1])

    def fold_block(self, block: Block, topic: TopicRef, after: int = 0, until: int | None = None) -> None:
        """Add a block's entries of ``topic`` with ``after < txid <= until``; blocks must be in txid order."""
        self.add_entries(*read_entry_values(block, topic, after=after, until=until))

    def add_entries(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add entries in txid order; a tombstone is a deletion."""
        # The usual case is a block of only publishes, or only deletions, which is added in one call.
        kinds = {flags & TOMBSTONE_FLAG for flags in set(map(itemgetter(0), values))}
        if len(kinds) < 2:
            if keys:
                (self.put_deletions if TOMBSTONE_FLAG in kinds else self.put_records)(keys, values)
            return
        # put_records keeps the last of several values of a key. With deletions among them, entries must be added one by
        # one, in order.
        for key, value in zip(keys, values, strict=True):
            (self.put_deletions if value[0] & TOMBSTONE_FLAG else self.put_records)((key,), (value,))

    def append_run(self, run: SortedRun, again: Callable[[SortedRun], Layer]) -> None:
        """Append ``run``, which now has the changes that were in memory, after the other runs."""
        self.runs.append(run)
        self._layers.append(run)
        self._again = again
        self._clear_memory()

    def install_run(self, runs: Sequence[SortedRun], joined: SortedRun) -> bool:
        """Replace ``runs`` by ``joined``, compacted from them; return False if they are no longer in the memtable."""
        start = self.runs.index(runs[0]) if runs[0] in self.runs else 0
        # Compaction runs without a lock: the runs may have been merged into the store, or reloaded, meanwhile.
        if self.runs[start : start + len(runs)] != list(runs):
            return False
        self.runs[start : start + len(runs)] = [joined]
        self._layers[start : start + len(runs)] = [joined]
        return True

    def load_runs(self) -> None:
        """Load all changes of the runs into memory."""
        whole: dict[bytes, bytes | None] = {}
        layers = LayerStack(self._layers, self._refold_run)
        changes: list[tuple[bytes, bytes]] = []
        for number in range(len(layers)):
            whole.update(zip(*layers.read_changes(number, 0, len(layers[number])), strict=True))
            if self.changes is not None:
                changes += zip(*layers.read_all_changes(number, 0, len(layers[number])), strict=True)
        if self.changes is not None:
            # No longer in txid order overall, but those of each key are.
            self.changes[:0] = changes
        # Memory is last, because it is newer than every run.
        self._packed = whole | self.current_changes
        self.deletes = self.deletes or None in whole.values()
        if self.changes is not None:
            self._size = sum(len(value) for _, value in self.changes)
        else:
            self._size = sum(len(value) for value in self._packed.values() if value is not None)
        self._added = len(self._packed)
        self.runs, self._layers = [], []

    def drop_runs(self, base: int) -> None:
        """Drop the runs, which end at ``base``: the store has their changes."""
        self.base = base
        self.runs, self._layers = [], []

    def clear(self, base: int) -> None:
        """Drop everything except position and time: the changes up to ``base`` were applied."""
        self.base = base
        self.runs, self._layers = [], []
        self._clear_memory()

    def _clear_memory(self) -> None:
        self._packed.clear()
        self.unpacked = None
        if self.changes is not None:
            self.changes.clear()
        self._size = self._added = 0
        self.deletes = False

    def _advance_position(self, value: bytes) -> None:
        self.last_txid, self.last_time = read_stamps(value)
