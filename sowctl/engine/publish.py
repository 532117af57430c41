"""publish: messages into topics, batch by batch; acknowledged when in the journal and synced (design section 5).

A topic without a journal acknowledges with its store's synced transaction. What is refused is reported and counted;
what was acknowledged before an error stays, and the report says where the input stood.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sowctl.engine.commit import Entries, group_of, into_overlay, settle
from sowctl.engine.intake import Batch, Source, batches
from sowctl.engine.options import PublishOptions
from sowctl.engine.prepare import Prepared, Preparer
from sowctl.engine.publishers import Publisher
from sowctl.engine.reports import PublishReport, Rejected, TopicCounts
from sowctl.engine.session import WriteSession
from sowctl.engine.targets import find_publishable
from sowctl.errors import InputError, LimitError, SowError, UsageError
from sowctl.store.meta import NO_LINEAGE
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.writer import TopicWriter

DEFAULT_LINGER = 0.1
DEFAULTS = PublishOptions()


@dataclass(slots=True)
class Acknowledged:
    """A batch that is on disk: its messages, the txids of the first and the last, and the input offset behind it."""

    payloads: list[bytes]
    first_txid: int
    last_txid: int
    end: int


@dataclass(slots=True)
class _Flight:
    """A batch that was appended and is being synced: the locks held for it, and what becomes true when it lands."""

    locks: ExitStack
    synced: Future[None] | None
    batch: Batch
    parts: list[Entries]
    rejected: list[Rejected]
    written: list[tuple[list[bytes], int]]


@dataclass(slots=True)
class _Share:
    """The part of a batch that goes to one topic; ``places`` are indexes into the batch."""

    writer: TopicWriter
    preparer: Preparer
    ready: Prepared


def publish(
    instance: Instance,
    topic: str | None,
    sources: Iterable[tuple[str, Source]],
    options: PublishOptions = DEFAULTS,
    *,
    message_type: str | None = None,
    on_acknowledged: Callable[[Acknowledged], None] | None = None,
    on_reject: Callable[[Rejected], None] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> PublishReport:
    """Publish the messages of ``sources`` (name and source each) to ``topic``, or where their envelopes say.

    Raises InputError (exit 3) at the first refused message unless ``on_error`` is skip, LimitError (exit 7) beyond
    ``max_errors``, and what stores and journals raise. An error carries the report so far in ``facts["report"]``.
    """
    with ExitStack() as stack:
        run = _Run(instance, topic, message_type, options, on_acknowledged, on_reject)
        stack.callback(run.close)
        started = monotonic()
        try:
            if options.on_error == "abort":
                run.all_or_nothing(sources, monotonic)
            else:
                run.stream(sources, monotonic)
        except (SowError, KeyboardInterrupt) as error:
            run.wind_up(error)
            raise
        finally:
            run.report.seconds = monotonic() - started
        return run.report


class _Run:
    """One run of publish: the session, the preparers of the topics met so far, the report."""

    def __init__(
        self,
        instance: Instance,
        topic: str | None,
        message_type: str | None,
        options: PublishOptions,
        on_acknowledged: Callable[[Acknowledged], None] | None,
        on_reject: Callable[[Rejected], None] | None,
    ) -> None:
        if options.sequence is not None and options.client is None:
            raise UsageError("SOW-PUB-013", "--sequence needs --client: numbers belong to a named publisher")
        if not 1 <= options.batch <= 1_000_000:
            raise UsageError("SOW-PUB-014", f"a batch of {options.batch} messages is not possible")
        self.instance = instance
        self.options = options
        self.session = WriteSession(instance, dry_run=options.dry_run, volatile=options.allow_volatile)
        self.report = PublishReport(dry_run=options.dry_run)
        self.on_acknowledged = on_acknowledged
        self.on_reject = on_reject
        self.default = topic, message_type
        self.preparers: dict[tuple[str | None, str | None], tuple[TopicWriter, Preparer]] = {}
        self.publishers: dict[str, Publisher] = {}
        self.counts: dict[tuple[str, str], TopicCounts] = {}
        self.flight: _Flight | None = None
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="sowctl-sync")
        log = instance.log
        default = log.flush_interval_us / 1e6 if log is not None else DEFAULT_LINGER
        self.linger = options.linger if options.linger is not None else default
        if topic is not None:
            try:
                self.target(topic, message_type)
            except BaseException:
                self.close()
                raise

    def target(self, name: str | None, message_type: str | None) -> tuple[TopicWriter, Preparer]:
        """The topic of a message, opened when first met."""
        found = self.preparers.get((name, message_type))
        if found is None:
            if name is None:
                raise UsageError(
                    "SOW-PUB-015", "no topic is given", hint="name it, or publish envelopes that carry a topic"
                )
            config = find_publishable(self.instance, name, message_type)
            preparer = Preparer(config, self.options, self.instance.clock)
            self.land()
            writer = self.session.topic(config)
            found = self.preparers[name, message_type] = writer, preparer
            if writer.ref not in self.counts:
                self.counts[writer.ref] = TopicCounts(*writer.ref)
                self.report.topics.append(self.counts[writer.ref])
        return found

    def stream(self, sources: Iterable[tuple[str, Source]], monotonic: Callable[[], float]) -> None:
        """Batch after batch; every batch is acknowledged by itself."""
        options = self.options
        for name, source in sources:
            for batch in batches(
                name,
                source,
                count=options.batch,
                size=options.batch_bytes,
                linger=self.linger,
                monotonic=monotonic,
                before_waiting=self.land,
            ):
                self.one_batch(batch)
            self.land()
        self.session.finish()

    def all_or_nothing(self, sources: Iterable[tuple[str, Source]], monotonic: Callable[[], float]) -> None:
        """Read everything, then write it as one group; holds the whole input in memory."""
        whole: list[Batch] = []
        for name, source in sources:
            whole.extend(
                batches(
                    name,
                    source,
                    count=1 << 20,
                    size=1 << 30,
                    linger=3600.0,
                    monotonic=monotonic,
                    before_waiting=self.land,
                )
            )
        merged = whole[0] if whole else Batch("")
        for batch in whole[1:]:
            base = len(merged.payloads)
            merged.parts.extend((base + first, chunk, start) for first, chunk, start in batch.parts)
            merged.payloads.extend(batch.payloads)
            merged.refused.extend(batch.refused)
            merged.blank += batch.blank
            merged.end = batch.end
            if batch.envelopes is not None:
                merged.envelopes = (merged.envelopes or []) + batch.envelopes
        self.one_batch(merged)
        self.land()
        self.session.finish()

    def one_batch(self, batch: Batch) -> None:
        """Prepare, while the batch before is being synced; then settle and append under the locks, and sync."""
        shares, refusals = self.prepare(batch)
        self.land()
        rejected = self.rejected(batch, refusals)
        if rejected and self.options.on_error != "skip":
            self.cut(batch, shares, rejected)
        self.commit(batch, shares, self.publisher(batch), rejected)

    def land(self) -> None:
        """Wait until the batch under way is on disk, acknowledge it, and let its locks go.

        Raises what the sync raised, and where the run must not go on after a refused message.
        """
        flight, self.flight = self.flight, None
        if flight is None:
            return
        with flight.locks:
            if flight.synced is not None:
                flight.synced.result()
            self.account(flight)
            if not self.session.dry_run:
                self.session.apply()
        self.refuse(flight.rejected)

    def account(self, flight: _Flight) -> None:
        """Count a batch that is durable, and tell who asked."""
        batch, report = flight.batch, self.report
        report.blank += batch.blank
        report.messages += len(batch.payloads) + len(batch.refused)
        report.published += sum(map(len, flight.parts))
        for part in flight.parts:
            report.bytes += sum(map(len, part.payloads))
            total = self.counts[part.writer.ref]
            for name in ("inserted", "updated", "unchanged", "duplicates"):
                setattr(total, name, getattr(total, name) + getattr(part.counts, name))
                setattr(report, name, getattr(report, name) + getattr(part.counts, name))
        report.end = batch.end
        if batch.payloads:
            report.last_line = batch.place(len(batch.payloads) - 1)[0]
        for payloads, first in flight.written:
            report.first_txid = report.first_txid or first
            report.last_txid = first + len(payloads) - 1
            if self.on_acknowledged is not None:
                self.on_acknowledged(Acknowledged(payloads, first, report.last_txid, batch.end))

    def prepare(self, batch: Batch) -> tuple[list[_Share], list[Refusal]]:
        """Split a batch by topic and prepare each part."""
        if batch.envelopes is None:
            if not batch.payloads:
                return [], []
            writer, preparer = self.target(*self.default)
            ready, refusals = preparer.prepare(batch.payloads, None)
            return [_Share(writer, preparer, ready)], refusals
        shares, refusals = [], []
        for name, places in self.by_topic(batch, refusals).items():
            writer, preparer = self.preparers[name]
            envelopes = [batch.envelopes[place] for place in places]
            ready, refused = preparer.prepare([batch.payloads[place] for place in places], envelopes)
            ready.places = [places[index] for index in ready.places]
            refusals.extend(Refusal(places[r.index], r.code, r.message, r.offset) for r in refused)
            shares.append(_Share(writer, preparer, ready))
        return shares, refusals

    def by_topic(self, batch: Batch, refusals: list[Refusal]) -> dict[tuple[str | None, str | None], list[int]]:
        """Indexes of the batch by the topic that their envelopes (or the command) name."""
        assert batch.envelopes is not None
        found: dict[tuple[str | None, str | None], list[int]] = {}
        bad: dict[tuple[str | None, str | None], SowError] = {}
        for place, envelope in enumerate(batch.envelopes):
            named = envelope.topic is not None and self.default[0] is None
            ref = (envelope.topic, envelope.message_type) if named else self.default
            if ref not in found and ref not in bad:
                try:
                    self.target(*ref)
                except SowError as error:
                    if error.exit_status not in (2, 10):
                        raise
                    bad[ref] = error
            if ref in bad:
                refusals.append(Refusal(place, bad[ref].code, bad[ref].message))
            else:
                found.setdefault(ref, []).append(place)
        return found

    def publisher(self, batch: Batch) -> Publisher | None:
        """The publisher of a batch, its messages numbered."""
        own = None
        client = self.options.client
        if batch.envelopes is not None:
            if client is None:
                client = next((e.client for e in batch.envelopes if e.client is not None), None)
            if client is not None and any(e.sequence is not None for e in batch.envelopes):
                own = [e.sequence for e in batch.envelopes]
        if client is None:
            return None
        if client not in self.publishers:
            self.publishers[client] = Publisher(client, self.options.sequence, self.session.highest_sequence)
        self.publishers[client].number(len(batch.payloads), own)
        return self.publishers[client]

    def logs(self, shares: list[_Share], publisher: Publisher) -> list[tuple[list[int], int]]:
        """Places by where their numbers are kept, with the highest number there."""
        together = [share for share in shares if share.writer.journalled]
        groups = [together] if together else []
        groups += [[share] for share in shares if not share.writer.journalled]
        return [
            (
                [place for share in group for place in share.ready.places],
                self.session.highest_sequence(publisher.identity[0], [share.writer for share in group]),
            )
            for group in groups
        ]

    def commit(self, batch: Batch, shares: list[_Share], publisher: Publisher | None, rejected: list[Rejected]) -> None:
        """Under the locks: decide what becomes of each message, append one group, and start syncing it."""
        session = self.session
        with ExitStack() as locks:
            locks.enter_context(session.batch([share.writer for share in shares]))
            now = self.instance.now
            duplicates = publisher.admit(self.logs(shares, publisher)) if publisher is not None else set()
            parts: list[Entries] = []
            refusals: list[Refusal] = []
            for share in shares:
                entries, refused = settle(share.writer, share.preparer, share.ready, now, duplicates)
                parts.append(entries)
                refusals.extend(refused)
            late = self.rejected_late(batch, refusals)
            if late and self.options.on_error != "skip":
                self.cut_late(parts, late, batch)
            rejected = sorted(rejected + late, key=lambda one: one.offset)
            synced, written = None, []
            if session.dry_run:
                for part in parts:
                    if len(part):
                        into_overlay(part, range(part.writer.last_txid + 1, part.writer.last_txid + 1 + len(part)))
            else:
                logged = [part for part in parts if part.writer.journalled and len(part)]
                if logged:
                    written.append(self.append(logged, publisher, now))
                    synced = self.pool.submit(session.journal.sync)
                alone = [part for part in parts if not part.writer.journalled and len(part)]
                written += [self.write_alone(part, publisher) for part in alone]
            self.flight = _Flight(locks.pop_all(), synced, batch, parts, rejected, written)

    def append(self, parts: list[Entries], publisher: Publisher | None, now: int) -> tuple[list[bytes], int]:
        """One group in the journal, then the overlays; returns its messages and its first txid."""
        group, ranks = group_of(parts, publisher)
        with self.session.noting():
            first, _ = self.session.journal.append(group, now)
            for part, rank in zip(parts, ranks, strict=True):
                whole = isinstance(rank, range)
                into_overlay(part, range(first, first + len(rank)) if whole else [first + r for r in rank])
        return group.payloads, first

    def write_alone(self, part: Entries, publisher: Publisher | None) -> tuple[list[bytes], int]:
        """One synced transaction in the store of a topic without a journal."""
        first = part.writer.last_txid + 1
        into_overlay(part, range(first, first + len(part)))
        sequences = None
        if publisher is not None:
            sequences = {publisher.identity[0]: max(publisher.sequences(part.places))}
        part.writer.apply(NO_LINEAGE, part.writer.last_txid, sequences)
        return part.payloads, first

    def rejected(self, batch: Batch, refusals: list[Refusal]) -> list[Rejected]:
        """Refusals of framing and preparation, with their places in the input."""
        found = [
            Rejected(batch.name, frame.line, frame.offset, frame.code, frame.message, frame.payload)
            for frame in batch.refused
        ]
        return sorted(found + self.rejected_late(batch, refusals), key=lambda r: r.offset)

    def rejected_late(self, batch: Batch, refusals: list[Refusal]) -> list[Rejected]:
        """Refusals of messages, with their places in the input."""
        found = []
        for refusal in refusals:
            line, offset = batch.place(refusal.index)
            payload = batch.payloads[refusal.index]
            found.append(Rejected(batch.name, line, offset, refusal.code, refusal.message, payload))
        return found

    def cut(self, batch: Batch, shares: list[_Share], rejected: list[Rejected]) -> None:
        """Keep only what stands before the first refused message; with ``abort``, nothing."""
        limit = -1 if self.options.on_error == "abort" else rejected[0].offset
        for share in shares:
            ready = share.ready
            keep = [index for index, place in enumerate(ready.places) if batch.place(place)[1] < limit]
            for name in Prepared.__dataclass_fields__:
                column = getattr(ready, name)
                if column is not None:
                    setattr(ready, name, [column[index] for index in keep])
        del rejected[1:]

    def cut_late(self, parts: list[Entries], late: list[Rejected], batch: Batch) -> None:
        """As :meth:`cut`, for what was refused under the locks."""
        late.sort(key=lambda r: r.offset)
        limit = -1 if self.options.on_error == "abort" else late[0].offset
        for part in parts:
            part.keep([index for index, place in enumerate(part.places) if batch.place(place)[1] < limit])
        del late[1:]

    def refuse(self, rejected: list[Rejected]) -> None:
        """Report refused messages; raises where the run must not go on."""
        for one in rejected:
            self.report.rejected += 1
            if self.on_reject is not None:
                self.on_reject(one)
            if self.options.on_error != "skip":
                nothing = " Nothing was published." if self.options.on_error == "abort" else ""
                raise InputError(
                    one.code,
                    f"{one.message}.{nothing}" if nothing else one.message,
                    place=f"{one.source}:{one.line}",
                    hint="--on-error skip --rejects FILE goes on past bad messages and keeps them",
                    line=one.line,
                    byte=one.offset,
                )
            limit = self.options.max_errors
            if limit is not None and self.report.rejected > limit:
                raise LimitError(
                    "SOW-PUB-020",
                    f"more than {limit} messages were refused; the last one: {one.message}",
                    place=f"{one.source}:{one.line}",
                )

    def close(self) -> None:
        """Let go of everything; what was acknowledged is safe."""
        flight, self.flight = self.flight, None
        if flight is not None:
            flight.locks.close()
        self.pool.shutdown()
        self.session.close()

    def wind_up(self, error: BaseException) -> None:
        """Apply what was acknowledged, so that an error leaves no more behind than it must; then pass the error on."""
        try:
            self.land()
            self.session.finish()
        except SowError as second:
            if isinstance(error, SowError):
                error.facts.setdefault("while_applying", second.message)
        if isinstance(error, SowError):
            error.facts["report"] = self.report
