"""Rebuilds stores from journals: fills a new store, catches it up, and replaces the old one with it.

:mod:`sowctl.engine.fold.journal_fold` or a Spark job fills the store. Called by ``replay``, and by readers and writers
that find no store or need a past state. Specified in ``sow-store(5)``, Replacing a store, and principle 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sowctl.engine.fold.apply import apply_to_transaction
from sowctl.engine.fold.blocks import EntrySpan
from sowctl.engine.fold.journal_fold import RecordCheck, fold_journal
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.runs import remove_runs
from sowctl.engine.reports import ReplayReport
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.topics.retention import Retention, build_retention
from sowctl.store.builder import StoreBuilder, build_store
from sowctl.store.integrity import DIGEST_MODULUS
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.write import WriteTxn
    from sowctl.values.topicref import TopicRef


RecordCheckFactory = Callable[["TopicConfig"], RecordCheck]
"""Creates the check of one topic's records."""


class RebuildResult(DescribedStruct, frozen=True):
    """The result of one topic's rebuild: number of folded entries, records and versions, and the position reached."""

    topic: TopicConfig
    entries: int
    records: int
    versions: int
    applied: int
    digest: int

    def build_report(self, action: str, **facts: object) -> ReplayReport:
        """Build the report of a replay; ``facts`` are additional fields."""
        return ReplayReport.for_topic(
            self.topic,
            action,
            entries=self.entries,
            records=self.records,
            versions=self.versions,
            applied=self.applied,
            digest=f"{self.digest % DIGEST_MODULUS:032x}",
            **facts,
        )


def rebuild_stores(
    instance: Instance,
    log: Journal,
    topics: list[TopicConfig],
    *,
    after: Mapping[TopicRef, int] | None = None,
    until: int | None = None,
    at: int | None = None,
    writer: JournalWriter | None = None,
    check_of: RecordCheckFactory | None = None,
) -> list[RebuildResult]:
    """Build the stores of ``topics`` from ``log`` and install them at their configured paths.

    ``after`` omits older entries of a topic; ``until`` and ``at`` stop at a txid or an instant. With ``writer``, the
    store is caught up and installed under the journal's lock, so that no write is lost; otherwise the caller ensures
    this. ``check_of`` creates the check of a topic's new records, which raises an error for invalid ones.
    """
    # The end is fixed before reading: all topics are folded up to the same entry, even if entries are appended.
    end = min(until if until is not None else log.read_last_txid(), log.read_last_txid())
    done = []
    for topic in topics:
        start = (after or {}).get(topic.ref, 0)
        done.append(assemble_store(instance, log, topic, EntrySpan(start, end, at), writer=writer, check_of=check_of))
    return done


FillFunction = Callable[[StoreBuilder, RecordCheck | None], tuple[int, int, int]]
"""Writes checked records, and versions, to a new store; returns the number of folded entries, and time and txid of the
last one."""


def assemble_store(
    instance: Instance,
    log: Journal,
    topic: TopicConfig,
    span: EntrySpan,
    *,
    writer: JournalWriter | None = None,
    fill: FillFunction | None = None,
    check_of: RecordCheckFactory | None = None,
) -> RebuildResult:
    """Build and install a new store from the entries of ``span``; ``fill`` folds them outside this process.

    ``writer`` and ``check_of`` as in :func:`rebuild_stores`.
    """
    assert topic.file is not None
    assert instance.config is not None
    rule = build_retention(topic.history)
    definition = build_definition(instance.config.name, topic)
    # The new store has a temporary name until it is complete. A crash leaves the old one unchanged, and readers of the
    # old one are not disturbed.
    with build_store(
        topic.file,
        definition,
        seam=instance.seam,
        now=instance.now,
        lineage=log.lineage,
        applied=span.until,
        command=instance.holder,
    ) as builder:
        check = check_of(topic) if check_of is not None else None
        if fill is not None:
            entries, last_time, last_txid = fill(builder, check)
        else:
            entries, last_time, last_txid = fold_journal(builder, log, topic, span, rule, check, instance.watch)
        if check is not None:
            # Before the store is installed: a record with a key of another definition ends the rebuild without changes.
            check.finish()

        def position(txn: WriteTxn) -> None:
            txn.raise_last_time(last_time)
            if span.at is not None:
                # Entries of a later time were omitted: only the position of the last folded entry is valid.
                txn.set_applied_position(log.lineage, last_txid)
            else:
                txn.set_applied_position(log.lineage, span.until, log.find_block_ending_at(span.until))

        builder.flush()
        # With an instant, only the fold determines the last entry, so the position is set after it.
        builder.run_transaction(position)
        if writer is None:
            builder.install(wait=instance.lock_wait)
        else:
            # Nothing is appended under the journal's lock, so the store is complete when it replaces the old one.
            with writer.hold_lock():
                _append_late_entries(builder, log, topic, span.until, rule)
                builder.install(wait=instance.lock_wait)
                # The new store has all changes: the runs of the old one are obsolete.
                remove_runs(topic.file, builder.meta, log.lineage)
        meta = builder.meta
    return RebuildResult(topic, entries, meta.records, meta.versions, meta.applied, meta.digest)


def _append_late_entries(
    builder: StoreBuilder, log: Journal, topic: TopicConfig, reached: int, rule: Retention | None
) -> None:
    """Append the entries that were written while the store was built."""
    ref = topic.ref
    # Usually few or none: the long fold runs without the lock, and writers wait only for the entries added during it.
    memtable = Memtable(history=rule is not None, base=reached)
    for block in log.iter_blocks(after=reached, topic=ref):
        memtable.fold_block(block, ref, reached)
    last = log.read_last_txid()

    def catch_up(txn: WriteTxn) -> None:
        apply_to_transaction(txn, memtable, reached, rule)
        txn.raise_last_time(memtable.last_time)
        # The identity of the block is stored with the position: it detects a copy of this journal that was continued
        # separately.
        txn.set_applied_position(log.lineage, last, log.find_block_ending_at(last))

    # Also without entries of this topic: the position records that the journal was read up to here.
    if last > reached:
        builder.run_transaction(catch_up, pending=memtable.added_bytes)
