"""Commit of a staged run: segments of the successful attempts are written to journal and store as one group
(principle 2).

Only the driver of a run calls this, once. The group becomes visible as a whole when its last block is on disk. Memory
is bounded by a bucket of the key space or a block, not by the run. :mod:`sowctl.engine.bulk.entries` builds the entries
of a block. The contract is ``sowctl-pipeline(1)``, STAGING.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.bulk import outcomes
from sowctl.engine.bulk.entries import build_staged_entries
from sowctl.engine.bulk.limits import BULK_LIMITS
from sowctl.engine.bulk.merge import order_segments, write_rest_deletions
from sowctl.engine.bulk.segments import SegmentInfo, StagedBatch, read_segments
from sowctl.engine.fold.apply import apply_last_values, apply_timelines
from sowctl.engine.fold.blocks import encode_values
from sowctl.engine.fold.last_per_key import ENTRY_OVERHEAD_BYTES, fold_last_per_key, fold_timelines
from sowctl.engine.fold.removal import remove_expired_batch
from sowctl.engine.reports import CommitReport, Rejected
from sowctl.engine.topics.expiration import count_expired
from sowctl.engine.writing.outcome import format_clock_warning, is_ahead_of_clock, is_duplicate
from sowctl.engine.writing.prepare import Preparer
from sowctl.engine.writing.session import WriteSession, hint_catch_up
from sowctl.errors import InputError, LimitError
from sowctl.identity.hashes import hash_client_name
from sowctl.identity.keyspace import join_words
from sowctl.store.meta import NO_LINEAGE, AppliedPosition
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.engine.bulk.staging import StagedAttempt, StagePlan, StagingArea
    from sowctl.engine.fold.last_per_key import KeyedValues
    from sowctl.engine.writing.topicwriter import StoreWriter
    from sowctl.journal.entries import EntryBatch
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.write import WriteTxn


def _read_into_memtable(
    writer: StoreWriter, journal: JournalWriter, after: int, watch: Callable[[str, int, int], None]
) -> None:
    """Add the entries after a txid to the memtable, flushing it when it is full. The journal's lock is held."""
    from sowctl.engine.fold.entry_columns import find_latest_entries

    for block in journal.journal.iter_blocks(after=after, topic=writer.ref):
        latest = find_latest_entries(block) if writer.get_column_writer(len(block)) is not None else None
        if latest is not None:
            txids = range(block.first_txid, block.last_txid + 1)
            writer.memtable.put_columns(block.decode_columns(), latest, txids)
        else:
            writer.memtable.fold_block(block, writer.ref, after)
        watch("messages to apply", block.last_txid - after, journal.last_txid - after)
        if writer.is_memtable_full():
            writer.flush_full(AppliedPosition(journal.lineage, block.last_txid, block.identity), keeps_lock=True)


class RefusalWords(Struct, frozen=True):
    """Texts about a rejected message in the error of an aborted run: its place, an excerpt or None, and a hint."""

    place: Callable[[Rejected], str]
    excerpt: Callable[[Rejected], str | None]
    hint: str
    in_bytes: bool
    """True if positions in the input are byte offsets."""


FILE_REFUSAL_WORDS = RefusalWords(
    lambda one: f"{one.source}:{one.line or f'byte {one.offset}'}",
    lambda one: None,
    "--on-error skip skips invalid messages; --rejects FILE saves them",
    in_bytes=True,
)
"""Texts for runs of commands, whose input is files."""


class RefusalReporting(Struct, frozen=True):
    """Reporting of rejected messages: ``words`` for errors, ``sources``, the names of input files by number, and
    ``on_reject``, which is called for messages that the commit rejects."""

    words: RefusalWords = FILE_REFUSAL_WORDS
    sources: Sequence[str] = ()
    on_reject: Callable[[Rejected], None] = lambda rejected: None


FILE_REFUSAL_REPORTING = RefusalReporting()


def commit_run(
    area: StagingArea,
    plan: StagePlan,
    staged: Sequence[StagedAttempt],
    *,
    publisher: tuple[str, int] | None = None,
    is_repeated: Callable[[int], bool] | None = None,
    overwrite: bool = False,
    refusals: RefusalReporting = FILE_REFUSAL_REPORTING,
    monotonic: Callable[[], float] = time.monotonic,
) -> CommitReport:
    """Publish the messages of the attempts ``staged`` atomically, and return a report.

    ``publisher`` is the client name and sequence number of the group; if the client has already reached that number,
    nothing is written. ``is_repeated`` replaces this check: it is called with the client's highest number, and raises
    if the group must not follow it. ``overwrite``: records without a message in the run are deleted. Raises InputError
    if a message is rejected and the run does not skip errors, LimitError ``SOW-PUB-020`` if more than ``max_errors``
    are rejected, and what journals and stores raise. After an error nothing is published, unless the error says that
    the journal has the messages.
    """
    started = monotonic()
    run = _StagedCommit(area, plan, publisher, is_repeated, overwrite, refusals)
    area.fetch_attempts(staged)
    try:
        run.run(staged)
    finally:
        run.report.seconds = monotonic() - started
    return run.report


class _StagedCommit:
    def __init__(
        self,
        area: StagingArea,
        plan: StagePlan,
        publisher: tuple[str, int] | None,
        is_repeated: Callable[[int], bool] | None,
        overwrite: bool,
        refusals: RefusalReporting,
    ) -> None:
        self.area, self.plan, self.overwrite, self.refusals = area, plan, overwrite, refusals
        self.instance = area.instance
        self.identity = (hash_client_name(publisher[0]), publisher[0]) if publisher is not None else None
        self.sequence = publisher[1] if publisher is not None else 0
        self.is_repeated = is_repeated or partial(is_duplicate, self.sequence)
        self.report = CommitReport(area.topic.name, area.topic.message_type)
        self.preparer = Preparer(area.instance, area.topic, plan.options)
        self.segments: list[SegmentInfo] = []
        self.deltas = False
        self.outcomes = outcomes.build_empty_outcomes()
        self.now = area.instance.now

    @property
    def directory(self) -> Path:
        return self.area.directory

    def run(self, staged: Sequence[StagedAttempt]) -> None:
        report = self.report
        # Attempts end in any order; samples and rejected messages are reported in input order.
        staged = sorted(staged, key=lambda one: one.first)
        report.messages = sum(one.messages for one in staged)
        report.blank = sum(one.blank for one in staged)
        report.rejected = sum(one.refused for one in staged)
        report.samples = [sample for one in staged for sample in one.samples]
        self.deltas = any(one.deltas for one in staged)
        self._check_refusal_limits()
        self.segments = order_segments(self.directory, [info for one in staged for info in one.segments])
        report.segments = len(self.segments)
        # An overwrite without messages deletes all records; other runs without messages have nothing to commit.
        if not self.segments and not self.overwrite:
            return
        with WriteSession(self.instance, volatile=self.plan.options.allow_volatile) as session:
            writer = session.open_store(self.area.topic)
            # The locks are held for the whole group, so that decisions about records remain valid until it is written.
            with session.hold_batch_locks([writer], merge_first=True):
                self._write_once(session, writer)
            # The group is durable and all decisions are made, so other processes may publish while the store is merged.
            session.flush_final()
        if report.ahead is not None:
            self.instance.notify(format_clock_warning(report.topic, report.ahead))

    def _write_once(self, session: WriteSession, writer: StoreWriter) -> None:
        """Decide all outcomes and write the run, unless it was published before. The locks are held."""
        # Checked under the locks: a driver that is run again after a crash finds its own number in the journal or
        # store, so it does not publish twice.
        if self.identity and self.is_repeated(session.find_highest_sequence(self.identity[0], [writer])):
            self.report.duplicates = sum(info.entries for info in self.segments)
            return
        self._decide_outcomes(writer)
        if not self.segments:
            return
        if writer.journalled:
            self._write_journal_group(session, writer)
        else:
            self._write_store_directly(writer)

    def _decide_outcomes(self, writer: StoreWriter) -> None:
        # Without deltas and enrichment, messages are committed as they were staged.
        if self.deltas or self.preparer.enrichment is not None:
            from sowctl.engine.bulk.delta_merge import RunFinisher

            finishing = RunFinisher(self.directory, writer, self.preparer, self.now, self.refusals.sources)
            self.segments = finishing.finish_segments(self.segments)
            for rejected in finishing.refused:
                self._report_rejected(rejected)
        if self.overwrite:
            # After finishing, which removes rejected messages: they do not preserve the record of their key.
            rest = write_rest_deletions(self.directory, self.segments, writer, self.now)
            self.segments += [rest] if rest is not None else []
        count = sum(info.entries for info in self.segments)
        # Decide the whole run before writing, because one rejected message may abort it.
        self.outcomes = outcomes.decide_run(self._read_blocks, count, writer, self.now)
        if self.outcomes.reasons:
            for rejected in self._find_late_refusals():
                self._report_rejected(rejected)
        self._check_refusal_limits()

    def _check_refusal_limits(self) -> None:
        """Raise if the messages rejected so far abort the run: InputError, or LimitError ``SOW-PUB-020``."""
        report, options = self.report, self.plan.options
        if report.rejected and options.on_error != "skip":
            one, words = report.samples[0], self.refusals.words
            raise InputError(
                one.code,
                f"{one.message}. Nothing was published.",
                place=words.place(one),
                excerpt=words.excerpt(one),
                hint=words.hint,
                byte=one.offset if words.in_bytes else None,
                rejected=report.rejected,
            )
        if options.max_errors is not None and report.rejected > options.max_errors:
            raise LimitError(
                "SOW-PUB-020",
                f"{format_count(report.rejected, 'message was', 'messages were')} rejected, more than the limit of "
                f"{options.max_errors}. Nothing was published.",
                place=report.samples[0].source,
            )

    def _report_rejected(self, rejected: Rejected) -> None:
        self.report.rejected += 1
        self.report.samples.append(rejected)
        self.refusals.on_reject(rejected)

    def _find_late_refusals(self) -> Iterator[Rejected]:
        """Yield the messages that the commit rejected because of the records or the time of the topic."""
        at = 0
        for batch in self._read_blocks():
            for place in (self.outcomes.codes[at : at + len(batch)] == outcomes.REFUSED).nonzero()[0].tolist():
                code, message = self.outcomes.reasons[at + place]
                number, position = batch.get_order(place)
                yield Rejected(self._name_source(number), 0, position, code, message, batch.entries.payloads[place])
            at += len(batch)

    def _name_source(self, number: int) -> str:
        sources = self.refusals.sources
        return sources[number] if number < len(sources) else "messages"

    def _read_blocks(self) -> Iterator[StagedBatch]:
        return read_segments(self.directory, self.segments)

    def _build_entries(self, last_time: int) -> Iterator[EntryBatch]:
        """Yield the entries to write, block by block; each pass recomputes ``already_expired`` and ``ahead``."""
        report, rule = self.report, self.area.topic.expiration
        report.already_expired = 0
        for entries in build_staged_entries(self._read_blocks(), self.outcomes, self.preparer, self.now, last_time):
            report.already_expired += count_expired(rule, entries.list_numbers("expirations"), self.now)
            if is_ahead_of_clock(entries.last_time, self.now):
                report.ahead = entries.last_time
            yield entries

    def _count_outcomes(self, codes: Any, size: int) -> None:
        import numpy as np

        found = np.bincount(codes, minlength=8)
        for code, name in outcomes.OUTCOME_NAMES.items():
            setattr(self.report, name, int(found[code]))
        self.report.published = int(found[: outcomes.MISSING].sum())
        self.report.bytes = size

    def _write_journal_group(self, session: WriteSession, writer: StoreWriter) -> None:
        """Write the run as one group, then read its entries into the memtable, flushing it whenever it is full."""
        # Empties the memtable, so that memory holds only entries of this run while the store catches up.
        session.flush_forced()
        journal, size, done, waiting = session.journal, 0, 0, None
        name = self.instance.find_recorded_client()
        recorded = None if name is None else (hash_client_name(name), name)
        # The journal's lock is held, so the txids of the group are consecutive from here.
        first = journal.last_txid + 1
        for entries in self._build_entries(writer.last_time):
            if waiting is not None:
                # Writing lags by one block, because only the last block may be marked as the end of the group. Until
                # that mark is on disk, readers and recovery ignore the whole group.
                journal.append_group(waiting, self.now, last=False)
            # All entries have the same number: they are written atomically, so one number detects a repeated run.
            waiting = entries.set_publisher(self.identity or recorded, self.sequence)
            size += sum(map(len, entries.payloads))
            done += len(entries)
            self.instance.watch("messages to journal", done, len(self.outcomes.codes))
        self._count_outcomes(self.outcomes.codes, size)
        if waiting is None:
            return
        with session.guard_memtables():
            journal.append_group(waiting, self.now, last=True)
            journal.sync()
            self.report.first_txid, self.report.last_txid = first, journal.last_txid
            # The group is durable. Its entries are read back from the journal, so that memory holds only a part of
            # them; after a crash, the next writer reads the entries after the last sorted run, or after the store.
            with hint_catch_up(writer):
                _read_into_memtable(writer, journal, first - 1, self.instance.watch)

    def _write_store_directly(self, writer: StoreWriter) -> None:
        """Write the run to a store without a journal, in one transaction and in key order."""
        size, count = sum(info.payload_bytes for info in self.segments), sum(info.entries for info in self.segments)
        expected, limit = size + ENTRY_OVERHEAD_BYTES * count, BULK_LIMITS.commit_fold_bytes
        base, last_time, expired_at = writer.last_txid, writer.last_time, writer.remove_expired_at
        last, written, latest = base, 0, last_time

        def read_all() -> Iterator[KeyedValues]:
            nonlocal last, written, latest
            last, written = base, 0
            for entries in self._build_entries(last_time):
                yield join_words(entries.keys), encode_values(entries, range(last + 1, last + 1 + len(entries)))
                last += len(entries)
                self.instance.watch("messages to apply", last - base, count)
                written += sum(map(len, entries.payloads))
                latest = entries.last_time

        # Without a journal, the single transaction makes the run atomic. A transaction is repeated if the file has to
        # grow, so it reads all entries again.
        def run(txn: WriteTxn) -> None:
            # In key order, so that each page of the store is changed only once, and in order.
            if writer.rule is None:
                with fold_last_per_key(read_all(), self.directory, expected, limit) as records:
                    apply_last_values(txn, records, count)
            else:
                with fold_timelines(read_all(), self.directory, expected, limit) as timelines:
                    apply_timelines(txn, timelines, writer.rule)
            txn.set_applied_position(NO_LINEAGE, last)
            # The topic's time never decreases: entries of later runs must not be earlier than these.
            txn.raise_last_time(latest)
            if self.identity is not None:
                # In the transaction of the records, so that a repeated run finds either both or neither.
                txn.set_sequence(self.identity[0], self.sequence)
            if expired_at is not None:
                remove_expired_batch(txn, expired_at)

        writer.store.write(run, pending=size)
        writer.remove_expired_at = None
        self._count_outcomes(self.outcomes.codes, written)
        if last > base:
            self.report.first_txid, self.report.last_txid = base + 1, last
