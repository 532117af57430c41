"""The fold "highest txid per key wins" of a topic's journal entries into a new store, in bounded memory.

Two passes over a topic's blocks. The first reads only columns and finds the entries that count: the last one of every
key, or all of them where the topic keeps history. The second takes those out, and they go into a new store in key order
(:mod:`~sowctl.engine.fold.last_per_key`). Called by :mod:`sowctl.engine.fold.rebuild`; jobs that fold elsewhere
use :func:`append_sorted` alone. Ruled by ``sow-journal(5)``, From a store's record to its column.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
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
    """The entries up to the txid ``until`` that were the last ones of their keys at any of ``instants``, which ascend.

    Their number, and their keys and stored values by key and txid; deletions are tombstones. All entries of a key come
    in one part. What does not fit into memory goes through files without a name in ``directory``.
    """
    import numpy as np

    # One fold for the entries between each two instants: what it keeps of a key was current at the second of them.
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
    # Also those that delete: without them, what they deleted would seem to be there still.
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
    """The records of the entries with these txids, block by block."""
    for block in blocks.read_again():
        keys, values = read_winner_values(block, winners)
        if check is not None:
            # Every block is looked at, because each was written by one run, which had one definition.
            check.sample_records(keys, values)
        yield b"".join(keys), values


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
