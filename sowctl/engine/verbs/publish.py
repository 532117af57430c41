"""publish: messages into topics, batch by batch; acknowledged when in the journal and synced (principle 2).

A topic without a journal acknowledges with its store's synced transaction. What is refused is reported and counted;
what was acknowledged before an error stays, and the report says where the input stood.

A message passes through four carriers, each made by one function: a batch of the input (``batching.batches``), the
prepared messages of one topic (``Preparer.prepare``, without locks), the entries of one topic (``entries.entries_of``,
under the locks), and the journal's group of them all (``commit.group_of``). :meth:`_Run.fly` has the order of locks,
sync and acknowledgement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from sowctl.breaks import breakable, unbroken
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import PublishReport, Rejected, Rest, TopicCounts
from sowctl.engine.topics.expiration import expires
from sowctl.engine.writing.batching import (
    DEFAULT_BATCH_MESSAGES,
    MAX_BATCH_MESSAGES,
    READ_AHEAD_MIN_BYTES,
    MessageSource,
    PublishBatch,
    batches,
    joined,
)
from sowctl.engine.writing.commit import Acknowledged, write
from sowctl.engine.writing.entries import TopicEntries, entries_of
from sowctl.engine.writing.outcome import ahead, is_ahead
from sowctl.engine.writing.refusals import Refusals
from sowctl.engine.writing.routing import Router, Share
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import SowError, UsageError
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.engine.writing.publishers import Publisher
    from sowctl.engine.writing.topicwriter import TopicWriter

DEFAULT_LINGER = 0.1
MESSAGE_OVERHEAD = 64
"""Bytes that a message takes at least besides its payload."""
DEFAULTS = PublishOptions()


class _Load(NamedTuple):
    """A prepared batch, and what was refused of it so far. ``sync``: nothing follows it under the same locks."""

    batch: PublishBatch
    shares: list[Share]
    rejected: list[Rejected]
    sync: bool


class _Written(NamedTuple):
    """A batch that is written; ``groups`` are the messages and the first txid of each group or transaction."""

    batch: PublishBatch
    parts: list[TopicEntries]
    rejected: list[Rejected]
    groups: list[tuple[list[bytes], int]]


Flight: TypeAlias = Generator[None, _Load | None, list[Rejected]]
"""Batches under way, from their locks to their acknowledgement: see :meth:`_Run.fly`."""


def publish(
    instance: Instance,
    topic: str | None,
    sources: Iterable[tuple[str, MessageSource]],
    options: PublishOptions = DEFAULTS,
    *,
    message_type: str | None = None,
    on_acknowledged: Callable[[Acknowledged], None] | None = None,
    on_reject: Callable[[Rejected], None] | None = None,
    on_broken_off: Callable[[Rest], None] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> PublishReport:
    """Publish the messages of ``sources`` (name and source each) to ``topic``, or where their envelopes say.

    Raises InputError (exit 3) at the first refused message unless ``on_error`` is skip, LimitError (exit 7) beyond
    ``max_errors``, and what stores and journals raise. An error carries the report so far in ``facts["report"]``.
    ``on_broken_off`` is told of a run that an error or an interrupt ends where the rest of the input begins: published
    from there on, each good message is published once. It is not called where nothing is durable that a second run
    could repeat: after a dry run, for topics that nothing keeps.
    """
    with ExitStack() as stack:
        with unbroken():  # between the two, an interrupt would leave stores open
            run = _Run(instance, topic, message_type, options, on_acknowledged, on_reject, monotonic)
            stack.callback(run.close)
        started = monotonic()
        try:
            if options.on_error == "abort":
                run.all_or_nothing(sources)
            else:
                run.stream(sources)
        except (SowError, OSError, KeyboardInterrupt) as error:
            try:
                run.wind_up(error)
            finally:
                if on_broken_off is not None and run.report.durable:
                    on_broken_off(run.rest())
            raise
        finally:
            run.report.seconds = monotonic() - started
            run.note_end()
        return run.report


class _Run:
    """One run of publish: session, router, policy for refused messages, report, and the batch under way."""

    def __init__(
        self,
        instance: Instance,
        topic: str | None,
        message_type: str | None,
        options: PublishOptions,
        on_acknowledged: Callable[[Acknowledged], None] | None,
        on_reject: Callable[[Rejected], None] | None,
        monotonic: Callable[[], float],
    ) -> None:
        if options.sequence is not None and options.client is None:
            raise UsageError(
                "SOW-PUB-013", "--sequence requires --client: sequence numbers belong to a named publisher"
            )
        if options.batch is not None and not 1 <= options.batch <= 1_000_000:
            raise UsageError("SOW-PUB-014", f"invalid batch size {options.batch}")
        self.instance = instance
        self.options = options
        self.monotonic = monotonic
        self.session = WriteSession(instance, dry_run=options.dry_run, volatile=options.allow_volatile)
        self.router = Router(self.session, (topic, message_type), options, self.land)
        self.report = PublishReport(dry_run=options.dry_run, durable=not options.dry_run, torn_tails=self.session.torn)
        self.refusals = Refusals(options, self.report, on_reject)
        self.on_acknowledged = on_acknowledged
        self.counts: dict[tuple[str, str], TopicCounts] = {}
        self.flight: Flight | None = None
        self.aboard: list[_Written] = []
        """What is written of the flight under way."""
        self.due = 0.0
        """When the flight under way is to land, though more could join it."""
        self.landed: tuple[PublishBatch, list[Rejected]] | None = None
        self.input = self.inputs = 0
        self.of_input: tuple[PublishBatch, list[Rejected]] | None = None
        """What landed last of the input under way."""
        self.messages = 0
        """Messages of all batches that have landed."""
        self.pool = sync_pool()
        self.preparer: Preparer | None = None
        self.writer: TopicWriter | None = None
        """Those of the topic that is named, None where envelopes name it."""
        log = instance.log
        default = log.flush_interval_us / 1e6 if log is not None else DEFAULT_LINGER
        self.linger = options.linger if options.linger is not None else default
        if topic is not None:
            try:
                self.writer, self.preparer, _ = self.router.target(topic, message_type)
                self.count_for(self.writer.ref)
            except BaseException:
                self.close()
                raise

    def count_for(self, ref: tuple[str, str]) -> TopicCounts:
        """The counts of one topic in the report."""
        if ref not in self.counts:
            self.counts[ref] = TopicCounts(*ref)
            self.report.topics.append(self.counts[ref])
        return self.counts[ref]

    def stream(self, sources: Iterable[tuple[str, MessageSource]]) -> None:
        """Batch after batch, acknowledged before the run waits for its input."""
        for number, (name, source) in enumerate(sources):
            with closing(self.coming(name, source)) as coming:
                for batch in coming:
                    self.one_batch(batch)
                self.land()
            self.input, self.of_input = number + 1, None
        self.finish()

    def coming(self, name: str, source: MessageSource) -> Generator[PublishBatch, None, None]:
        """The batches of an input; where much comes, another process goes on with reading it."""
        options = self.options
        columned = self.writer is not None and not options.delta and self.writer.columned
        found = batches(
            name,
            source,
            count=options.batch or (MAX_BATCH_MESSAGES if columned else DEFAULT_BATCH_MESSAGES),
            size=options.batch_bytes,
            linger=self.linger,
            monotonic=self.monotonic,
            before_waiting=self.land,
        )
        seen = 0
        for batch in found:
            yield batch
            seen += batch.size
            if seen < READ_AHEAD_MIN_BYTES or self.preparer is None or batch.envelopes is not None:
                continue
            from sowctl.engine.writing.ahead import pays, start  # a small run does not load what that needs

            if not pays(source, self.preparer):
                continue
            # Neither locks nor the thread that syncs are there when a copy of this process is made.
            self.land()
            self.pool.shutdown()
            with ExitStack() as held:
                # An interrupt comes behind this: the process is ended then.
                with unbroken():
                    ahead = start(found, source, self.preparer)
                    self.pool = sync_pool()
                    if ahead is not None:
                        held.callback(ahead.close)
                if ahead is not None:
                    yield from ahead.batches(name, self.land)
                    return
            # This process goes on, and asks no more.
            seen = -sys.maxsize

    def all_or_nothing(self, sources: Iterable[tuple[str, MessageSource]]) -> None:
        """Read everything, then write it as one group; holds the whole input in memory."""
        whole: list[PublishBatch] = []
        for name, source in sources:
            self.inputs += 1
            whole.extend(
                batches(
                    name,
                    source,
                    count=1 << 20,
                    size=1 << 30,
                    linger=3600.0,
                    monotonic=self.monotonic,
                    before_waiting=self.land,
                )
            )
        self.one_batch(joined(whole))
        self.land()
        self.finish()

    def finish(self) -> None:
        """Apply everything that is acknowledged, and keep what is known of chains."""
        with unbroken():
            self.session.finish()
            if not self.session.dry_run:
                self.router.save_chains()

    def one_batch(self, batch: PublishBatch) -> None:
        """Prepare a batch while those before it are being synced, then let these land and this one start.

        Preparing takes no lock and looks at no record, so it does not matter that a batch before is not visible yet.
        A batch may also join those under way: see :meth:`joins`.
        """
        shares, refusals = self.router.split(batch)
        if self.flight is not None and not self.joins(shares):
            self.land()
        rejected = self.refusals.of(batch, refusals, framing=True)
        self.refusals.cut(batch, shares, rejected)
        size = _room(batch) + self.carried()
        load = _Load(batch, shares, rejected, not self.grows(shares) or size >= self.options.batch_bytes)
        with unbroken():
            flight, self.flight = self.flight, None
            if flight is None:
                self.due = self.monotonic() + self.linger
                flight = self.fly(load)
                next(flight)
            else:
                flight.send(load)
            self.flight = flight

    def grows(self, shares: list[Share]) -> bool:
        """Whether other batches may be synced with these shares: where no number is given, and a journal has all.

        A topic without a journal syncs each batch in its store, and chains are read from what is acknowledged.
        """
        return self.options.batch is None and all(
            share.writer.journalled and share.preparer.keys.chains is None for share in shares
        )

    def joins(self, shares: list[Share]) -> bool:
        """Whether these shares may be written under the locks of the batches under way, and synced with them.

        While the input has more ready, a sync for each batch would only cost; :meth:`land` is called before the run
        waits for more.
        """
        last = self.aboard[-1]
        held = {part.writer.ref for part in self.aboard[0].parts}
        return (
            self.grows(shares)
            # A refused message may end the run: nothing behind it is written before that is known.
            and not last.rejected
            and held.issuperset(share.writer.ref for share in shares)
            and self.carried() < self.options.batch_bytes
            and self.monotonic() < self.due
        )

    def carried(self) -> int:
        """About how many bytes the batches under way hold in memory."""
        return sum(_room(written.batch) for written in self.aboard)

    def fly(self, load: _Load | None) -> Flight:
        """Batches from their locks to their acknowledgement; returns the messages of the last one that were refused.

        Stops on the way behind each batch that is appended: it takes the next one, or None to land. When the last one
        is being synced, the next is prepared meanwhile. The locks are held all that time. No other process may append
        behind entries that are not on disk yet, and nothing reads them: were the sync to fail, they would never have
        been there.
        """
        assert load is not None
        aboard: list[_Written] = []
        self.aboard = aboard
        with self.session.batch([share.writer for share in load.shares]):
            synced: Future[None] | None = None
            try:
                while load is not None:
                    synced = self.written(load)
                    load = yield
            except (Exception, KeyboardInterrupt):
                # What stood before the batch that failed is acknowledged, as it is where it was synced by itself. Where
                # the journal has failed it is not there any more, and the first error is told.
                if aboard:
                    with suppress(SowError):
                        self.conclude(None)
                raise
            stop = self.conclude(synced)
        if stop is not None:
            raise stop
        return aboard[-1].rejected

    def written(self, load: _Load) -> Future[None] | None:
        """Write a batch under the locks that are held; returns its sync, None where none is under way."""
        publisher = self.router.publisher(load.batch)
        # Taken under the locks, so that times rise in the order in which batches are written.
        now = self.instance.now
        parts, rejected = self.settled(load.batch, load.shares, load.rejected, publisher, now)
        synced, groups = write(self.session, self.pool, parts, publisher, now, sync=load.sync)
        self.aboard.append(_Written(load.batch, parts, rejected, groups))
        return synced

    def conclude(self, synced: Future[None] | None) -> KeyboardInterrupt | None:
        """Acknowledge what is written, once it is on disk, and apply it; returns an interrupt that came meanwhile."""
        stop: KeyboardInterrupt | None = None
        if synced is None and not self.session.dry_run and any(part.writer.journalled for part in self.aboard[0].parts):
            synced = self.pool.submit(self.session.journal.sync)
        if synced is not None:
            try:
                synced.result()
            except KeyboardInterrupt as interrupt:
                stop = interrupt
                synced.result()  # the sync goes on; a batch that it makes durable is counted and told
        # From here on the batches are acknowledged: their entries are on disk, whatever happens to this process.
        # All are counted before the first is told of: the caller may break the run off.
        for written in self.aboard:
            self.account(written)
        for written in self.aboard:
            self.tell(written)
        # Applied under the same locks, behind the acknowledgement: a crash while applying loses nothing that was
        # told.
        if not self.session.dry_run and stop is None:
            self.session.apply()
        return stop

    def settled(
        self,
        batch: PublishBatch,
        shares: list[Share],
        rejected: list[Rejected],
        publisher: Publisher | None,
        now: int,
    ) -> tuple[list[TopicEntries], list[Rejected]]:
        """What is to be written of a batch to each topic, and all that was refused; the locks are held."""
        # Under the locks: the highest number that is known is still the highest when the batch is written.
        duplicates = publisher.admit(self.router.logs(shares, publisher)) if publisher is not None else set()
        parts: list[TopicEntries] = []
        refusals: list[Refusal] = []
        for share in shares:
            entries, refused = entries_of(share.writer, share.preparer, share.ready, now, duplicates)
            parts.append(entries)
            refusals.extend(refused)
        # Refused only now, because of what the topic holds; with the earlier ones they are told in the order of the
        # input.
        if late := self.refusals.of(batch, refusals):
            rejected = sorted(rejected + late, key=lambda one: one.offset) if rejected else late
            self.refusals.cut(batch, parts, rejected)
        for part in parts:
            part.count_expired(now)
            self.look_ahead(part, now)
            self.note_ignored_lifetimes(part)
        return parts, rejected

    def land(self) -> None:
        """Wait until the batch under way is on disk, acknowledge it, and let its locks go.

        Raises what the sync raised, and where the run must not go on after a refused message.
        """
        if self.flight is None:
            return
        with unbroken():
            flight, self.flight = self.flight, None
            rejected = _end_of(flight)
            self.aboard = []
        self.refusals.report(rejected)

    def note_end(self) -> None:
        """Say in the report where the input stands."""
        if self.landed is not None:
            line, self.report.end = self.refusals.end_of(*self.landed)
            self.report.last_line = line - 1

    def rest(self) -> Rest:
        """Where the part of the input begins that is not dealt with."""
        if self.options.on_error == "abort":  # all of the input is one group, which is there as a whole or not at all
            return Rest(self.inputs, 1, 0, self.messages) if self.report.published else Rest(0, 1, 0, 0)
        if self.of_input is None:
            return Rest(self.input, 1, 0, self.messages)
        batch, rejected = self.of_input
        line, offset = self.refusals.end_of(batch, rejected)
        return Rest(self.input, line, offset, self.messages - len(batch.payloads) + batch.before(offset))

    def account(self, written: _Written) -> None:
        """Count a batch that is durable."""
        report, batch = self.report, written.batch
        report.blank += batch.blank
        report.messages += len(batch.payloads) + len(batch.refused)
        report.published += sum(map(len, written.parts))
        for part in written.parts:
            report.bytes += sum(map(len, part.payloads))
            # One topic that nothing keeps is enough: the report does not promise what a crash would disprove.
            report.durable = report.durable and not part.writer.volatile
            total = self.count_for(part.writer.ref)
            counts = part.counts()
            total.add(counts)
            report.add(counts)
        # Noted before the caller is told, so that a run that is broken off in its callback counts this batch as done.
        self.landed = self.of_input = batch, written.rejected
        self.messages += len(batch.payloads)
        for payloads, first in written.groups:
            report.first_txid = report.first_txid or first
            report.last_txid = first + len(payloads) - 1

    def tell(self, written: _Written) -> None:
        """Tell the caller of a batch that is counted."""
        if self.session.dry_run:
            self.instance.watch("bytes", written.batch.end, 0)
        if self.on_acknowledged is None:
            return
        for payloads, first in written.groups:
            last = first + len(payloads) - 1
            with breakable():  # the caller may take its time
                self.on_acknowledged(Acknowledged(payloads, first, last, written.batch, self.report.durable))

    def look_ahead(self, part: TopicEntries, now: int) -> None:
        """Say, once in a run, that a topic gets times far ahead of the clock; times within a topic never go back."""
        if part.times and is_ahead(part.times[-1], now):
            if self.report.ahead is None:
                self.instance.notify(ahead(part.writer.ref[0], part.times[-1]))
            self.report.ahead = max(self.report.ahead or 0, part.times[-1])

    def note_ignored_lifetimes(self, part: TopicEntries) -> None:
        """Count lifetimes that have no effect, and say so once for each topic: its Expiration is disabled."""
        config = part.writer.config
        if expires(config.expiration) or config.key_mode == "none":
            return
        if count := len(part.expirations) - part.expirations.count(0):
            self.report.lifetimes_ignored += count
            # Beside History a lifetime is not allowed.
            remedy = "; to let them expire, add <Expiration>enabled</Expiration>" if config.history is None else ""
            self.instance.notify_once(
                f"lifetimes of {config.name}",
                f"topic {config.name!r} has no Expiration: the lifetimes of its records have no effect{remedy}",
            )

    def close(self) -> None:
        """Let go of everything; what was acknowledged is safe."""
        with unbroken():
            flight, self.flight = self.flight, None
            # The generator's locks go with it; a sync that is under way is waited for by the pool's shutdown.
            if flight is not None:
                flight.close()
            self.pool.shutdown()
            self.session.close()

    def wind_up(self, error: BaseException) -> None:
        """Apply what was acknowledged, so that an error leaves no more behind than it must; then pass the error on."""
        try:
            self.land()
            self.finish()
        except SowError as second:
            if isinstance(error, SowError):
                # The first error is the cause and is told; what was acknowledged is in the journal, applied or not.
                error.facts.setdefault("while_applying", second.message)
        if isinstance(error, SowError):
            error.facts["report"] = self.report


def sync_pool() -> ThreadPoolExecutor:
    """One thread: there is one journal, and a sync of it must not overtake another."""
    return ThreadPoolExecutor(1, thread_name_prefix="sowctl-sync")


def _room(batch: PublishBatch) -> int:
    """About how many bytes a batch takes: small messages take more than their payloads."""
    return batch.size + MESSAGE_OVERHEAD * len(batch.payloads)


def _end_of(flight: Flight) -> list[Rejected]:
    """Let a batch that is being synced go on to its end; returns what it returns."""
    while True:
        try:
            next(flight)
        except StopIteration as end:
            rejected: list[Rejected] = end.value
            return rejected
