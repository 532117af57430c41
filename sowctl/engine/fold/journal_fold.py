"""The fold "highest txid per key wins" of a topic's journal entries into a new store, in bounded memory.

Two passes over a topic's blocks. The first reads only columns and finds the entries that count: the last one of every
key, or all of them where the topic keeps history. The second takes those out and sorts them by key, in buckets of the
key space that fit into memory, into a new store. Called by :mod:`sowctl.engine.fold.rebuild`; jobs that fold elsewhere
use :func:`append_sorted` alone. Ruled by ``sow-journal(5)``, From a store's record to its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from sowctl.engine.fold.blocks import build_entry_mask, read_entry_values, read_winner_values
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.spill import Pairs, SortBuckets
from sowctl.engine.instance import ProgressCallback, ignore_progress
from sowctl.engine.topics.retention import Retention, encode_version, extend_versions
from sowctl.identity.keyspace import find_last_occurrences
from sowctl.journal.format import PUBLISH
from sowctl.store.builder import StoreBuilder
from sowctl.store.codec import read_stamps

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.store.write import WriteTxn
    from sowctl.values.topicref import TopicRef


class EntrySpan(Struct, frozen=True):
    """The entries to fold: ``after < txid <= until``, and not later than ``at`` (microseconds) where that is given."""

    after: int
    until: int
    at: int | None = None


class RecordCheck(Protocol):
    """Looks at records on their way into a new store, and raises what it finds wrong with them."""

    def sample_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Look at some of the records that come from one place, spread over them."""
        ...

    def watch_parts(self, parts: Iterable[Pairs]) -> Iterator[Pairs]:
        """``parts`` as they come, looked at."""
        ...

    def finish(self) -> None:
        """Judge what was seen and not yet judged."""
        ...


class _BlockCache:
    """A topic's blocks, twice: kept in memory if they are few, read again if not."""

    def __init__(self, log: Journal, ref: TopicRef, span: EntrySpan, watch: ProgressCallback = ignore_progress) -> None:
        self._log, self._ref, self._span, self._watch = log, ref, span, watch
        self._kept: list[Block] | None = []
        self._size = 0

    def read_first(self) -> Iterator[Block]:
        for block in self._read_journal_blocks():
            if self._kept is not None:
                self._kept.append(block)
                # The first pass reads the columns, and a block that has unpacked them holds them.
                self._size += block.header.size + block.header.columns_raw
                if self._size > FOLD_LIMITS.block_cache_bytes:
                    # Too many to keep: they are read again, so memory stays bounded however long the journal is.
                    self._kept = None
            yield block

    def read_again(self) -> Iterator[Block]:
        kept, self._kept = self._kept, []
        if kept is None:
            # Told under another name: a journal that is read twice would seem to begin again.
            tell, self._log.on_read = self._log.on_read, partial(self._watch, "entries to gather")
            try:
                yield from self._read_journal_blocks()
            finally:
                self._log.on_read = tell
            return
        # Reversed, so that each block is taken off the end and its memory is free.
        kept.reverse()
        while kept:
            # Each block is let go of as soon as it was used.
            yield kept.pop()

    def _read_journal_blocks(self) -> Iterator[Block]:
        return self._log.iter_blocks(after=self._span.after, until=self._span.until, topic=self._ref)


def fold_journal(
    builder: StoreBuilder,
    log: Journal,
    topic: TopicConfig,
    span: EntrySpan,
    rule: Retention | None,
    check: RecordCheck | None = None,
    watch: ProgressCallback = ignore_progress,
) -> tuple[int, int, int]:
    """Fold the entries of ``span`` into the new store; returns how many there were, the last one's time and txid.

    ``check`` looks at records of every block that has records left. ``watch`` is told how many of how many records
    are gathered and written; of the first reading, ``log`` tells by itself.
    """
    ref = topic.ref
    blocks = _BlockCache(log, ref, span, watch)
    directory = builder.files.directory
    if rule is not None:
        return _fill_history(builder, blocks, ref, span, rule, directory, check, watch)
    last = LastPerKey()
    size = 0
    for block in blocks.read_first():
        size += last.add_block(block, ref, span)
    # A txid stands for one entry of the journal, so the second pass needs no keys to know which entries win.
    winners = last.list_record_txids()
    # Without any entry, the position is where the span begins: nothing before it was looked at.
    done = last.entries, last.latest, max(last.last_txid, span.after)
    # How many buckets are needed is estimated from the share of entries that win: their payloads are not known yet.
    share = len(winners) / max(last.entries, 1)
    # Keys and txids of all entries go before values come.
    del last
    with SortBuckets(directory, int(size * share) + 96 * len(winners), FOLD_LIMITS.bucket_bytes) as buckets:
        for block in blocks.read_again():
            keys, values = read_winner_values(block, winners)
            if check is not None:
                # Every block is looked at, because each was written by one run, which had one definition.
                check.sample_records(keys, values)
            buckets.add_values(b"".join(keys), values)
        count = len(winners)
        del winners
        append_sorted(builder, report_progress(buckets.iterate_sorted(FOLD_LIMITS.fold_part_records), count, watch))
    return done


def report_progress(parts: Iterator[Pairs], count: int, watch: ProgressCallback) -> Iterator[Pairs]:
    """Yield ``parts`` unchanged, of ``count`` records; ``watch`` is told how many of them were taken."""
    done = 0
    for keys, values in parts:
        watch("records to write", done, count)
        yield keys, values
        done += len(keys)
    watch("records to write", done, count)


def append_sorted(builder: StoreBuilder, parts: Iterator[Pairs]) -> None:
    """Records into a new store; ``parts`` are of about ``fold_part_records`` records, in key order."""
    while several := list(islice(parts, FOLD_LIMITS.transaction_parts)):
        # Keys only rise, so each transaction appends at the end of the tree: no page is searched for or split.
        builder.run_transaction(
            partial(_append_parts, several), pending=sum(sum(map(len, values)) for _, values in several)
        )


def _append_parts(several: list[Pairs], txn: WriteTxn) -> None:
    for keys, values in several:
        txn.append_records(keys, values)


class LastPerKey:
    """The first pass: for every key the txid of its last entry, and whether that is a publish."""

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
        """Take a block's entries in; returns the bytes of their payloads."""
        np, columns = self._np, block.decode_numpy_columns()
        txids = np.arange(block.first_txid, block.last_txid + 1, dtype=np.uint64)
        keys, operations, times, lengths = columns.keys, columns.operations, columns.times, columns.lengths
        # Chosen by the function that memtables and Spark's jobs ask, so a fold takes the entries that they take.
        chosen = build_entry_mask(block, (ref,), after=span.after, until=span.until, at=span.at)
        if chosen is not None:
            txids, keys, operations = txids[chosen], keys[chosen], operations[chosen]
            times, lengths = times[chosen], lengths[chosen]
        if not len(txids):
            return 0
        # Of an entry, 17 bytes are kept: key, txid, operation. Payloads are read in the second pass, of winners alone.
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
        """Take in the :meth:`list_columns` of another one, whose entries all stand behind those that were added
        before.
        """
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
        """Keys, the txid of the last entry of each, and whether it is a publish, by txid: numpy arrays."""
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
        # One column after the other, so that none but the present one is held twice.
        keys = np.concatenate(self._keys)
        self._keys = []
        kept = find_last_occurrences(keys)
        kept.sort()  # in txid order again, which the second pass looks them up in
        self._keys = [keys[kept]]
        del keys
        self._txids = [np.concatenate(self._txids)[kept]]
        self._publishes = [np.concatenate(self._publishes)[kept]]
        # Counts from zero again: compacting pays only after as many new entries, or a journal of distinct keys would be
        # sorted again for every block.
        self._held = 0

    def build_table(self) -> tuple[Any, Any, Any]:
        """Keys in their order, the txid of the last entry of each, and whether it is a publish: numpy arrays."""
        keys, txids, publishes = self.list_columns()
        order = keys.argsort()
        return keys[order], txids[order], publishes[order]

    def list_record_txids(self) -> Any:
        """The txids of the records that are left, ascending, as a numpy array."""
        _, txids, publishes = self.list_columns()
        # A deletion that is a key's last entry wins over what came before it and leaves no record itself.
        return txids if publishes.all() else txids[publishes]


def _fill_history(
    builder: StoreBuilder,
    blocks: _BlockCache,
    ref: TopicRef,
    span: EntrySpan,
    rule: Retention,
    directory: Path,
    check: RecordCheck | None,
    watch: ProgressCallback,
) -> tuple[int, int, int]:
    """Apply the retention rule to every entry of every key, in txid order."""
    size = entries = latest = 0
    last_txid = span.after
    # Which entries are records is known only at the end: of every block some are noted, to be looked at if they are.
    noted: set[int] = set()
    for block in blocks.read_first():
        size += block.header.payloads_raw + 96 * len(block)
    with SortBuckets(directory, size, FOLD_LIMITS.bucket_bytes) as buckets:
        for block in blocks.read_again():
            keys, values = read_entry_values(block, ref, after=span.after, until=span.until, at=span.at)
            if keys:
                entries += len(keys)
                last_txid, latest = read_stamps(values[-1])
                buckets.add_values(b"".join(keys), values)
                if check is not None:
                    step = -(-len(values) // FOLD_LIMITS.compared_key_entries)
                    noted.update(read_stamps(value)[0] for value in values[::step])
        entries_in_order = chain.from_iterable(
            zip(*part, strict=True)
            for part in report_progress(buckets.iterate_sorted(FOLD_LIMITS.fold_part_records), entries, watch)
        )
        for key, rows in groupby(entries_in_order, key=itemgetter(0)):
            # All entries of a key come together and in txid order: the retention rule sees them as live writes did, and
            # so keeps the same versions.
            versions = extend_versions([], (value for _, value in rows), rule)
            current = versions[-1]
            # A key that was deleted last has no record; its tombstone is kept among the versions.
            older = versions if current.tombstone else versions[:-1]
            if not current.tombstone:
                builder.append_records([key], [current.value])
                if check is not None and current.txid in noted:
                    check.sample_records([key], [current.value])
            builder.append_versions([(key, encode_version(key, version)) for version in older])
    return entries, latest, last_txid
