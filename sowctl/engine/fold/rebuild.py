"""Stores from journals: a new store is filled, made up to date, and put in the place of the old one.

:mod:`sowctl.engine.fold.folding` fills it, or a job that folds on Spark. Called by ``replay``, and by readers and
writers that find no store or need one of the past. Ruled by ``sow-store(5)``, Replacing a store, and principle
1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sowctl.described import DescribedStruct
from sowctl.engine.fold.apply import into_store
from sowctl.engine.fold.folding import EntrySpan, RecordCheck, fold
from sowctl.engine.fold.overlay import Overlay
from sowctl.engine.fold.runs import remove_runs
from sowctl.engine.reports import ReplayReport
from sowctl.engine.topics.positions import definition_of
from sowctl.engine.topics.retention import Retention, retention
from sowctl.store.builder import StoreBuilder, build
from sowctl.store.integrity import DIGEST_MODULUS

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.format import Topic
    from sowctl.journal.reader import Journal
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.write import WriteTxn


CheckOf = Callable[["TopicConfig"], RecordCheck]
"""Makes the check of one topic's records."""


class Rebuilt(DescribedStruct, frozen=True):
    """What one topic's rebuild did: journal entries folded, records and versions made, position reached."""

    topic: TopicConfig
    entries: int
    records: int
    versions: int
    applied: int
    digest: int

    def report(self, action: str, **facts: object) -> ReplayReport:
        """What a replay says of it; ``facts`` are further fields of the report."""
        return ReplayReport.of(
            self.topic,
            action,
            entries=self.entries,
            records=self.records,
            versions=self.versions,
            applied=self.applied,
            digest=f"{self.digest % DIGEST_MODULUS:032x}",
            **facts,
        )


def rebuild(
    instance: Instance,
    log: Journal,
    topics: list[TopicConfig],
    *,
    after: Mapping[Topic, int] | None = None,
    until: int | None = None,
    at: int | None = None,
    writer: JournalWriter | None = None,
    check_of: CheckOf | None = None,
) -> list[Rebuilt]:
    """Build the stores of ``topics`` from ``log`` and put them in place at their configured paths.

    ``after`` leaves out older entries of a topic; ``until`` and ``at`` stop at a txid or an instant. With ``writer``,
    the end is made up to date and put in place under its lock, so that no write is lost; else the caller sees to it.
    ``check_of`` makes what looks at a topic's records on their way into the store, and raises what it finds.
    """
    # The end is fixed before anything is read: all topics are folded up to the same entry, whatever is appended
    # meanwhile.
    end = min(until if until is not None else log.last_txid(), log.last_txid())
    done = []
    for topic in topics:
        start = (after or {}).get((topic.name, topic.message_type), 0)
        done.append(assemble(instance, log, topic, EntrySpan(start, end, at), writer=writer, check_of=check_of))
    return done


Fill = Callable[[StoreBuilder, RecordCheck | None], tuple[int, int, int]]
"""Puts records, which the check looks at, and versions into a new store; returns how many entries were folded, the last
one's time and txid."""


def assemble(
    instance: Instance,
    log: Journal,
    topic: TopicConfig,
    span: EntrySpan,
    *,
    writer: JournalWriter | None = None,
    fill: Fill | None = None,
    check_of: CheckOf | None = None,
) -> Rebuilt:
    """A new store from the entries of ``span``, put in place; ``fill`` folds them elsewhere than in this process.

    ``writer`` and ``check_of`` as in :func:`rebuild`.
    """
    assert topic.file is not None
    assert instance.config is not None
    rule = retention(topic.history)
    definition = definition_of(instance.config.name, topic)
    # The new store has a name of its own until it is complete. A crash leaves the old one in place, and a reader of the
    # old one is not disturbed.
    with build(
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
            entries, last_time, last_txid = fold(builder, log, topic, span, rule, check, instance.watch)
        if check is not None:
            # Before the store is put in place: a record under a key of another definition stops the rebuild with
            # nothing changed.
            check.finish()

        def position(txn: WriteTxn) -> None:
            txn.raise_last_time(last_time)
            if span.at is not None:
                # Entries of a later time were left out: no position behind the last one that was taken would be true.
                txn.set_applied(log.lineage, last_txid)
            else:
                txn.set_applied(log.lineage, span.until, log.block_ending_with(span.until))

        builder.flush()
        # Up to an instant, only the fold can say which entry was the last one; so the position is set behind it.
        builder.change(position)
        if writer is None:
            builder.put_in_place(wait=instance.lock_wait)
        else:
            # Under the journal's lock nothing is appended, so the store is complete when it takes the old one's place.
            with writer.lock():
                _append_late_entries(builder, log, topic, span.until, rule)
                builder.put_in_place(wait=instance.lock_wait)
                # The new store has everything: runs beside the old one lead nowhere any more.
                remove_runs(topic.file, builder.meta, log.lineage)
        meta = builder.meta
    return Rebuilt(topic, entries, meta.records, meta.versions, meta.applied, meta.digest)


def _append_late_entries(
    builder: StoreBuilder, log: Journal, topic: TopicConfig, reached: int, rule: Retention | None
) -> None:
    """Entries that were appended while the store was built."""
    ref = topic.name, topic.message_type
    # Few entries, mostly none: the long fold runs without the lock, and writers wait only for what came during it.
    overlay = Overlay(history=rule is not None, base=reached)
    for block in log.blocks(after=reached, topic=ref):
        overlay.fold(block, ref, reached)
    last = log.last_txid()

    def catch_up(txn: WriteTxn) -> None:
        into_store(txn, overlay, reached, rule)
        txn.raise_last_time(overlay.last_time)
        # The block's identity is noted with the position: it tells a copy of this journal that goes on by itself apart.
        txn.set_applied(log.lineage, last, log.block_ending_with(last))

    # Also where no entry is of this topic: the position says that the journal was looked at up to here.
    if last > reached:
        builder.change(catch_up, pending=overlay.size)
