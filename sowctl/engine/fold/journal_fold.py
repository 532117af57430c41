"""The fold "highest txid per key wins" of a topic's journal entries into a new store, in bounded memory.

It needs two passes over a topic's blocks. The first reads only columns and finds the entries to keep: the last one of
every key, or all entries for a topic with History. The second reads these entries and writes them to a new store in key
order (:mod:`~sowctl.engine.fold.last_per_key`). Called by :mod:`sowctl.engine.fold.rebuild`; jobs that fold elsewhere
use only :func:`append_sorted`. Specified in ``sow-journal(5)``, From a store's record to its column.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sowctl.engine.fold.blocks import EntrySpan, read_entry_values, read_winner_values
from sowctl.engine.fold.last_per_key import (
    ENTRY_OVERHEAD_BYTES,
    KeyedValues,
    LastPerKey,
    Timeline,
    fold_last_per_key,
    fold_timelines,
    retain_versions,
)
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.spill import Pairs
from sowctl.engine.instance import ProgressCallback, ignore_progress
from sowctl.engine.topics.retention import Retention
from sowctl.store.builder import StoreBuilder
from sowctl.store.codec import read_stamps

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.store.write import WriteTxn
    from sowctl.values.times import Micros
    from sowctl.values.topicref import TopicRef


class RecordCheck(Protocol):
    """Checks records before they are written to a new store, and raises an error for invalid ones."""

    def sample_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Check some of the records of one source, spread over them."""
        ...

    def watch_parts(self, parts: Iterable[Pairs]) -> Iterator[Pairs]:
        """Yield ``parts`` unchanged while checking them."""
        ...

    def finish(self) -> None:
        """Check the remaining samples."""
        ...


class _BlockCache:
    """A topic's blocks, read twice: kept in memory if they are few, otherwise read again."""

    def __init__(self, log: Journal, ref: TopicRef, span: EntrySpan, watch: ProgressCallback = ignore_progress) -> None:
        self._log, self._ref, self._span, self._watch = log, ref, span, watch
        self._kept: list[Block] | None = []
        self._size = 0

    def read_first(self) -> Iterator[Block]:
        for block in self._read_journal_blocks():
            if self._kept is not None:
                self._kept.append(block)
                # The first pass decodes the columns, and a block keeps its decoded columns.
                self._size += block.header.size + block.header.columns_raw
                if self._size > FOLD_LIMITS.block_cache_bytes:
                    # Too many to keep: reading them again bounds memory regardless of the length of the journal.
                    self._kept = None
            yield block

    def read_again(self) -> Iterator[Block]:
        kept, self._kept = self._kept, []
        if kept is None:
            # Reported under another name: otherwise a journal that is read twice would seem to start again.
            tell, self._log.on_read = self._log.on_read, partial(self._watch, "entries to gather")
            try:
                yield from self._read_journal_blocks()
            finally:
                self._log.on_read = tell
            return
        # Reversed, so that each block is popped from the end, and its memory is freed after use.
        kept.reverse()
        while kept:
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
    """Fold the entries of ``span`` into the new store; return their number, and time and txid of the last one.

    ``check`` samples records of every block that has remaining records. ``watch`` receives the number of records read
    and written, and their total; ``log`` reports the first pass itself.
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
    # A txid identifies one entry of the journal, so the second pass needs no keys to know which entries win.
    winners = last.list_record_txids()
    # Without any entry, the position is the start of the span: nothing before it was read.
    done = last.entries, last.latest, max(last.last_txid, span.after)
    # The number of buckets is estimated from the share of winning entries: their payloads are not known yet.
    share = len(winners) / max(last.entries, 1)
    # Free the keys and txids of all entries before reading values.
    del last
    expected = int(size * share) + ENTRY_OVERHEAD_BYTES * len(winners)
    count = len(winners)
    values = _read_winners(blocks, winners, check)
    del winners
    with fold_last_per_key(values, directory, expected) as records:
        append_sorted(builder, report_progress(records, count, watch))
    return done


@contextmanager
def fold_instants(
    log: Journal, ref: TopicRef, instants: Sequence[Micros], until: int, directory: Path
) -> Iterator[tuple[int, Iterator[Pairs]]]:
    """Fold the entries up to the txid ``until`` that were the last ones of their keys at any of ``instants``
    (ascending).

    Yields their number, and an iterator of their keys and stored values by key and txid; deletions are tombstones. All
    entries of a key are in one part. Data that exceeds the memory limit goes to unnamed files in ``directory``.
    """
    import numpy as np

    # One fold for the entries between two instants: the entry that it keeps for a key was current at the second
    # instant.
    since = [None, *(instant + 1 for instant in instants[:-1])]
    spans = [EntrySpan(0, until, at, start) for at, start in zip(instants, since, strict=True)]
    folds = [LastPerKey() for _ in spans]
    blocks = _BlockCache(log, ref, EntrySpan(0, until, instants[-1]))
    size = 0
    for block in blocks.read_first():
        first = bisect_left(instants, block.header.earliest)
        last = bisect_left(instants, block.header.latest)
        for place in range(first, min(last + 1, len(instants))):
            size += folds[place].add_block(block, ref, spans[place])
    entries = sum(fold.entries for fold in folds)
    # Includes deletions: without them, deleted records would still seem to exist.
    winners = np.concatenate([fold.list_columns()[1] for fold in folds])
    winners.sort()
    del folds
    expected = size * len(winners) // max(entries, 1) + ENTRY_OVERHEAD_BYTES * len(winners)
    count = len(winners)
    with fold_timelines(_read_winners(blocks, winners, None), directory, expected) as timelines:
        yield count, map(_join_timelines, timelines)


def _join_timelines(timelines: list[Timeline]) -> Pairs:
    return [key for key, values in timelines for _ in values], [value for _, values in timelines for value in values]


def _read_winners(blocks: _BlockCache, winners: Any, check: RecordCheck | None) -> Iterator[KeyedValues]:
    """Yield the records of the entries with these txids, block by block."""
    for block in blocks.read_again():
        keys, values = read_winner_values(block, winners)
        if check is not None:
            # Every block is sampled, because each was written by one run, with one definition.
            check.sample_records(keys, values)
        yield b"".join(keys), values


def report_progress(parts: Iterator[Pairs], count: int, watch: ProgressCallback) -> Iterator[Pairs]:
    """Yield ``parts`` unchanged, of ``count`` records in total; ``watch`` receives the number of records yielded."""
    done = 0
    for keys, values in parts:
        watch("records to write", done, count)
        yield keys, values
        done += len(keys)
    watch("records to write", done, count)


def append_sorted(builder: StoreBuilder, parts: Iterator[Pairs]) -> None:
    """Append records to a new store; ``parts`` have about ``fold_part_records`` records each, in key order."""
    for several, size in _group_parts(parts):
        # Keys only increase, so each transaction appends at the end of the tree: no page is searched or split.
        builder.run_transaction(partial(_append_parts, several), pending=size)


def _group_parts(parts: Iterable[Pairs]) -> Iterator[tuple[list[Pairs], int]]:
    """Yield the parts of each transaction, with the bytes of their values."""
    several: list[Pairs] = []
    size = 0
    for part in parts:
        several.append(part)
        size += sum(map(len, part[1]))
        if len(several) >= FOLD_LIMITS.transaction_parts or size >= FOLD_LIMITS.transaction_bytes:
            yield several, size
            several, size = [], 0
    if several:
        yield several, size


def _append_parts(several: list[Pairs], txn: WriteTxn) -> None:
    for keys, values in several:
        txn.append_records(keys, values)


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
    """Apply the retention rule to all entries of every key, in txid order."""
    size = entries = latest = 0
    last_txid = span.after
    # Which entries become records is known only at the end: some of every block are noted, and checked if they do.
    noted: set[int] = set()
    for block in blocks.read_first():
        size += block.header.payloads_raw + ENTRY_OVERHEAD_BYTES * len(block)

    def read_all() -> Iterator[KeyedValues]:
        nonlocal entries, last_txid, latest
        for block in blocks.read_again():
            keys, values = read_entry_values(block, ref, after=span.after, until=span.until, at=span.at)
            if keys:
                entries += len(keys)
                last_txid, latest = read_stamps(values[-1])
                if check is not None:
                    step = -(-len(values) // FOLD_LIMITS.compared_key_entries)
                    noted.update(read_stamps(value)[0] for value in values[::step])
                yield b"".join(keys), values

    done = 0
    with fold_timelines(read_all(), directory, size) as parts:
        for timelines in parts:
            watch("records to write", done, entries)
            found = retain_versions(timelines, rule)
            builder.append_records(found.keys, found.values)
            builder.append_versions(found.versions)
            if check is not None:
                for key, value in zip(found.keys, found.values, strict=True):
                    if read_stamps(value)[0] in noted:
                        check.sample_records([key], [value])
            done += sum(len(values) for _, values in timelines)
    watch("records to write", done, entries)
    return entries, latest, last_txid
