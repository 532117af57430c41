"""The commit of a staged run: segments of the winning attempts into journal and store, as one group (README, 2).

Only the driver of a run calls this, once. Before the group's last block is on disk nothing of it can be seen; then all
of it can. Memory holds a bucket of the key space or a block, never the whole run.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.engine import fates as fate
from sowctl.engine.apply import into_store, remove_expired
from sowctl.engine.buckets import words
from sowctl.engine.merging import Finishing, deletions_of_rest, in_order
from sowctl.engine.overlay import Overlay, tombstone
from sowctl.engine.prepare import Preparer
from sowctl.engine.reports import CommitReport, Rejected
from sowctl.engine.segments import (
    DELETE,
    EXPIRES_AT,
    HAS_LIFETIME,
    OPERATION,
    Columns,
    SegmentInfo,
    SegmentReader,
)
from sowctl.engine.session import WriteSession
from sowctl.errors import InputError, LimitError
from sowctl.identity.hashes import client_hash
from sowctl.journal.format import DELETE as DELETED_ENTRY
from sowctl.journal.format import HAS_CORRELATION_ID, HAS_USER_KEY, INSERTED, NO_PUBLISHER
from sowctl.journal.format import PUBLISH as PUBLISHED_ENTRY
from sowctl.journal.group import Group
from sowctl.store.codec import encode
from sowctl.store.meta import NO_LINEAGE

if TYPE_CHECKING:
    from sowctl.engine.staging import Area, Plan, Staged
    from sowctl.engine.writer import TopicWriter
    from sowctl.store.write import WriteTxn

BUCKET_BYTES = 128 << 20
"""Payload bytes of one bucket of a topic without a journal, which are held to be put into the store in key order."""


def commit(
    area: Area,
    plan: Plan,
    staged: Sequence[Staged],
    *,
    publisher: tuple[str, int] | None = None,
    overwrite: bool = False,
    sources: Sequence[str] = (),
    on_reject: Callable[[Rejected], None] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> CommitReport:
    """Publish what the attempts in ``staged`` have left, all or nothing, and say what it was.

    ``publisher`` is client name and sequence number: the group's; if that client has got so far already, nothing is
    written. ``overwrite``: records for whose keys the run has no message are deleted. ``sources`` are the names of the
    input files by number, for refused messages. Raises InputError where a message was refused and the run does not
    skip, LimitError ``SOW-PUB-020`` beyond ``max_errors``, and what journals and stores raise; then nothing was
    published.
    """
    started = monotonic()
    run = _Commit(area, plan, publisher, overwrite, sources, on_reject)
    try:
        run.go(staged)
    finally:
        run.report.seconds = monotonic() - started
    return run.report


@dataclass(slots=True)
class _Chunk:
    """A block's surviving messages, ready for the journal or the store."""

    keys: list[bytes]
    checks: list[bytes]
    times: list[int]
    expirations: list[int]
    deletes: list[bool]
    flags: list[int]
    payloads: list[bytes]
    user_keys: list[bytes | None] | None
    correlation_ids: list[bytes | None] | None

    def __len__(self) -> int:
        return len(self.keys)


class _Commit:
    def __init__(
        self,
        area: Area,
        plan: Plan,
        publisher: tuple[str, int] | None,
        overwrite: bool,
        sources: Sequence[str],
        on_reject: Callable[[Rejected], None] | None,
    ) -> None:
        self.area, self.plan, self.overwrite, self.sources = area, plan, overwrite, sources
        self.instance = area.instance
        self.identity = (client_hash(publisher[0]), publisher[0]) if publisher is not None else None
        self.sequence = publisher[1] if publisher is not None else 0
        self.on_reject = on_reject
        self.report = CommitReport(area.topic.name, area.topic.message_type)
        self.preparer = Preparer(area.instance, area.topic, plan.options)
        self.segments: list[SegmentInfo] = []
        self.deltas = False
        self.fates = fate.none()
        self.now = area.instance.now

    @property
    def directory(self) -> Path:
        return self.area.directory

    def go(self, staged: Sequence[Staged]) -> None:
        report = self.report
        staged = sorted(staged, key=lambda one: one.first)
        report.messages = sum(one.messages for one in staged)
        report.blank = sum(one.blank for one in staged)
        report.rejected = sum(one.refused for one in staged)
        report.samples = [sample for one in staged for sample in one.samples]
        self.deltas = any(one.deltas for one in staged)
        self._judge_refused()
        self.segments = in_order(self.directory, [info for one in staged for info in one.segments])
        report.segments = len(self.segments)
        if not self.segments and not self.overwrite:
            return
        with ExitStack() as held:
            session = held.enter_context(WriteSession(self.instance, volatile=self.plan.options.allow_volatile))
            writer = session.topic(self.area.topic)
            held.enter_context(session.batch([writer]))
            if self.identity and session.highest_sequence(self.identity[0], [writer]) >= self.sequence:
                report.duplicates = sum(info.entries for info in self.segments)
                return
            self._decide(writer)
            if not self.segments:
                return
            if writer.journalled:
                self._into_journal(session, writer)
            else:
                self._into_store(writer)

    def _decide(self, writer: TopicWriter) -> None:
        if self.deltas or self.preparer.enrichment is not None:
            finishing = Finishing(self.directory, writer, self.preparer, self.now, self.sources)
            self.segments = finishing.finish(self.segments)
            for rejected in finishing.refused:
                self._refused(rejected)
        if self.overwrite:
            rest = deletions_of_rest(self.directory, self.segments, writer, self.now)
            self.segments += [rest] if rest is not None else []
        self.fates = fate.decide(self._columns, sum(info.entries for info in self.segments), writer, self.now)
        if self.fates.reasons:
            for rejected in self._late():
                self._refused(rejected)
        self._judge_refused()

    def _judge_refused(self) -> None:
        """Raise where the run is to stop at what was refused so far."""
        report, options = self.report, self.plan.options
        if report.rejected and options.on_error != "skip":
            one = report.samples[0]
            raise InputError(
                one.code,
                f"{one.message}. Nothing was published.",
                place=f"{one.source}:{one.line or f'byte {one.offset}'}",
                hint="--on-error skip --rejects FILE goes on past bad messages and keeps them",
                byte=one.offset,
                rejected=report.rejected,
            )
        if options.max_errors is not None and report.rejected > options.max_errors:
            raise LimitError(
                "SOW-PUB-020",
                f"{report.rejected} messages were refused, more than {options.max_errors}. Nothing was published.",
                place=report.samples[0].source,
            )

    def _refused(self, rejected: Rejected) -> None:
        self.report.rejected += 1
        self.report.samples.append(rejected)
        if self.on_reject is not None:
            self.on_reject(rejected)

    def _late(self) -> Iterator[Rejected]:
        """The messages that were refused only now, because of what the topic holds."""
        at = 0
        for columns, texts in self._blocks():
            for place in (self.fates.codes[at : at + len(columns)] == fate.REFUSED).nonzero()[0].tolist():
                code, message = self.fates.reasons[at + place]
                source = self._source(int(columns.files[place]))
                yield Rejected(source, 0, int(columns.positions[place]), code, message, texts[place])
            at += len(columns)

    def _source(self, number: int) -> str:
        return self.sources[number] if number < len(self.sources) else "messages"

    def _columns(self) -> Iterator[Columns]:
        for info in self.segments:
            with SegmentReader(self.directory, info) as reader:
                yield from reader.columns()

    def _blocks(self) -> Iterator[tuple[Columns, list[bytes]]]:
        for info in self.segments:
            with SegmentReader(self.directory, info) as reader:
                yield from reader.blocks()

    def _chunks(self, last_time: int) -> Iterator[_Chunk]:
        """What is to be written, block by block in input order."""
        at = 0
        for columns, texts in self._blocks():
            codes = self.fates.codes[at : at + len(columns)]
            times, _ = fate.times_of(columns, self.now, last_time)
            places = ((codes != fate.REFUSED) & (codes != fate.MISSING)).nonzero()[0]
            checks = columns.checks if self.fates.checks is None else self.fates.checks[at : at + len(columns)]
            if len(places):
                yield self._chunk(columns, texts, places, codes, times, checks)
            at, last_time = at + len(columns), int(times[-1])

    def _chunk(self, columns: Columns, texts: list[bytes], places: Any, codes: Any, times: Any, owners: Any) -> _Chunk:
        import numpy as np

        flags, times = columns.flags[places], times[places]
        deletes = (flags & OPERATION) == DELETE
        checks = np.where(deletes, owners[places].astype(np.uint64), columns.checks[places].astype(np.uint64))
        usual = self.preparer.stamp(0, None)
        stamps = times + usual if usual else np.zeros(len(places), dtype=np.int64)
        own = columns.lifetimes[places]
        stamps = np.where((flags & HAS_LIFETIME) != 0, np.where(own == 0, 0, times + own), stamps)
        stamps = np.where((flags & EXPIRES_AT) != 0, own, stamps)
        stamps[deletes] = 0
        chosen, gone = places.tolist(), deletes.tolist()
        column_flags = np.where(codes[places] == fate.INSERTED, INSERTED, 0)
        users, correlations = (
            None if c is None else [None if d else c[place] for place, d in zip(chosen, gone, strict=True)]
            for c in (columns.user_keys, columns.correlation_ids)
        )
        for column, bit in ((users, HAS_USER_KEY), (correlations, HAS_CORRELATION_ID)):
            if column is not None:
                column_flags |= np.array([0 if text is None else bit for text in column])
        return _Chunk(
            words(columns.keys[places]),
            words(checks.astype(">u8")),
            times.tolist(),
            stamps.tolist(),
            gone,
            column_flags.tolist(),
            [b"" if d else texts[place] for place, d in zip(chosen, gone, strict=True)],
            users,
            correlations,
        )

    def _count(self, codes: Any, size: int) -> None:
        import numpy as np

        found = np.bincount(codes, minlength=8)
        for code, name in fate.NAMES.items():
            setattr(self.report, name, int(found[code]))
        self.report.published = int(found[: fate.MISSING].sum())
        self.report.bytes = size

    def _into_journal(self, session: WriteSession, writer: TopicWriter) -> None:
        """One group, however large; then the store catches up from the journal in transactions of bounded size."""
        session.apply(force=True)
        journal, size, waiting = session.journal, 0, None
        first = journal.last_txid + 1
        for chunk in self._chunks(writer.last_time):
            if waiting is not None:
                journal.append(waiting, self.now, last=False)
            waiting = self._group(writer, chunk)
            size += sum(map(len, chunk.payloads))
        self._count(self.fates.codes, size)
        if waiting is None:
            return
        with session.noting():
            journal.append(waiting, self.now, last=True)
            journal.sync()
            self.report.first_txid, self.report.last_txid = first, journal.last_txid
            for block in journal.journal.blocks(after=first - 1, topic=writer.ref):
                writer.overlay.fold(block, writer.ref, first - 1)
                if writer.is_full():
                    writer.apply(journal.lineage, block.last_txid)
            writer.apply(journal.lineage, journal.last_txid)

    def _group(self, writer: TopicWriter, chunk: _Chunk) -> Group:
        count = len(chunk)
        known = self.identity is not None
        return Group(
            topics=[writer.ref],
            publishers=[self.identity] if self.identity is not None else [],
            operations=bytes(DELETED_ENTRY if gone else PUBLISHED_ENTRY for gone in chunk.deletes),
            topic=0,
            keys=b"".join(chunk.keys),
            checks=b"".join(chunk.checks),
            times=array("q", chunk.times),
            expirations=array("q", chunk.expirations),
            publisher=0 if known else NO_PUBLISHER,
            sequences=array("Q", (self.sequence,)) * count if known else None,
            flags=array("H", chunk.flags),
            payloads=chunk.payloads,
            user_keys=chunk.user_keys,
            correlation_ids=chunk.correlation_ids,
        )

    def _into_store(self, writer: TopicWriter) -> None:
        """One transaction: buckets of the key space one after the other, in key order."""
        size = sum(info.payload_bytes for info in self.segments)
        base, last_time, expired_at = writer.last_txid, writer.last_time, writer.remove_expired_at
        buckets = max(1, -(-size // BUCKET_BYTES))

        def run(txn: WriteTxn) -> tuple[int, int]:
            last, written, latest = base, 0, last_time
            for number in range(buckets):
                overlay = Overlay(history=writer.rule is not None)
                last, written = self._fold(overlay, base, last_time, number, buckets)
                if len(overlay):
                    into_store(txn, overlay, txn.meta.applied, writer.rule)
                    latest = max(latest, overlay.last_time)
            txn.set_applied(NO_LINEAGE, last)
            txn.raise_last_time(latest)
            if self.identity is not None:
                txn.set_sequence(self.identity[0], self.sequence)
            if expired_at is not None:
                remove_expired(txn, expired_at)
            return last, written

        last, written = writer.store.write(run, pending=size)
        writer.remove_expired_at = None
        self._count(self.fates.codes, written)
        if last > base:
            self.report.first_txid, self.report.last_txid = base + 1, last

    def _fold(self, overlay: Overlay, base: int, last_time: int, number: int, buckets: int) -> tuple[int, int]:
        """The messages of one bucket into ``overlay``; returns the last txid and the payload bytes of the whole run."""
        txid, size = base, 0
        for chunk in self._chunks(last_time):
            size += sum(map(len, chunk.payloads))
            for place, key in enumerate(chunk.keys):
                txid += 1
                if (int.from_bytes(key[:4], "big") * buckets) >> 32 != number:
                    continue
                check, at = chunk.checks[place], chunk.times[place]
                if chunk.deletes[place]:
                    overlay.delete(key, tombstone(key, check, txid, at))
                    continue
                texts = [c[place] if c is not None else None for c in (chunk.user_keys, chunk.correlation_ids)]
                payload = chunk.payloads[place]
                value = encode(key, check, txid, at, chunk.expirations[place], 0, payload, *texts)
                overlay.put((key,), (value,))
        return txid, size
