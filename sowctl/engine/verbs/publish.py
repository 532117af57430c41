"""publish: messages into topics, batch by batch; acknowledged when in the journal and synced (principle 2).

A topic without a journal acknowledges with its store's synced transaction. What is refused is reported and counted;
what was acknowledged before an error stays, and the report says where the input stood.

A message passes through four structures, each built by one function: a batch of the input
(``batches.iterate_batches``), the prepared messages of one topic (``Preparer.prepare``, without locks), the entries of
one topic (``entries.build_topic_entries``, under the locks), and the journal's group of them all
(``commit.build_group``). :meth:`_PublishRun.run_group` has the order of locks, sync and acknowledgement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import InputRest, PublishReport, Rejected, TopicCounts
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.writing.batches import (
    READ_AHEAD_MIN_BYTES,
    MessageSource,
    PublishBatch,
    iterate_batches,
    merge_batches,
)
from sowctl.engine.writing.commit import AcknowledgedBatch, write_entries
from sowctl.engine.writing.entries import TopicEntries, build_topic_entries
from sowctl.engine.writing.limits import WRITING_LIMITS
from sowctl.engine.writing.outcome import format_clock_warning, is_ahead_of_clock
from sowctl.engine.writing.refusal_policy import RefusalPolicy
from sowctl.engine.writing.routing import Router, TopicShare
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import SowError, UsageError
from sowctl.interrupts import allow_interrupts, without_interrupts
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.engine.writing.publishers import Publisher
    from sowctl.engine.writing.topicwriter import TopicWriter
    from sowctl.values.topicref import TopicRef

DEFAULT_LINGER_SECONDS = 0.1
MESSAGE_OVERHEAD_BYTES = 64
"""Bytes that a message takes at least besides its payload."""
DEFAULT_OPTIONS = PublishOptions()


class _PreparedBatch(NamedTuple):
    """A prepared batch, and what was refused of it so far. ``sync``: nothing follows it under the same locks."""

    batch: PublishBatch
    shares: list[TopicShare]
    rejected: list[Rejected]
    sync: bool


class _WrittenBatch(NamedTuple):
    """A batch that is written; ``groups`` are the messages and the first txid of each group or transaction."""

    batch: PublishBatch
    parts: list[TopicEntries]
    rejected: list[Rejected]
    groups: list[tuple[list[bytes], int]]


GroupCommit: TypeAlias = Generator[None, _PreparedBatch | None, list[Rejected]]
"""Batches under way, from their locks to their acknowledgement: see :meth:`_PublishRun.run_group`."""


def publish_messages(
    instance: Instance,
    topic: str | None,
    sources: Iterable[tuple[str, MessageSource]],
    options: PublishOptions = DEFAULT_OPTIONS,
    *,
    message_type: str | None = None,
    on_acknowledged: Callable[[AcknowledgedBatch], None] | None = None,
    on_reject: Callable[[Rejected], None] | None = None,
    on_broken_off: Callable[[InputRest], None] | None = None,
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
        with without_interrupts():  # between the two, an interrupt would leave stores open
            run = _PublishRun(instance, topic, message_type, options, on_acknowledged, on_reject, monotonic)
            stack.callback(run.close)
        started = monotonic()
        try:
            if options.on_error == "abort":
                run.publish_atomically(sources)
            else:
                run.publish_stream(sources)
        except (SowError, OSError, KeyboardInterrupt) as error:
            try:
                run.abort(error)
            finally:
                if on_broken_off is not None and run.report.durable:
                    on_broken_off(run.build_rest())
            raise
        finally:
            run.report.seconds = monotonic() - started
            run.note_end()
        return run.report


class _PublishRun:
    """One run of publish: session, router, policy for refused messages, report, and the batch under way."""

    def __init__(
        self,
        instance: Instance,
        topic: str | None,
        message_type: str | None,
        options: PublishOptions,
        on_acknowledged: Callable[[AcknowledgedBatch], None] | None,
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
        self.router = Router(self.session, (topic, message_type), options, self.finish_group)
        self.report = PublishReport(dry_run=options.dry_run, durable=not options.dry_run, torn_tails=self.session.torn)
        self.refusals = RefusalPolicy(options, self.report, on_reject)
        self.on_acknowledged = on_acknowledged
        self.counts: dict[TopicRef, TopicCounts] = {}
        self.open_group: GroupCommit | None = None
        self.group_batches: list[_WrittenBatch] = []
        """The written batches of the open group."""
        self.due = 0.0
        """When the group that is open is to be finished, though more could join it."""
        self.landed: tuple[PublishBatch, list[Rejected]] | None = None
        self.input = self.inputs = 0
        self.of_input: tuple[PublishBatch, list[Rejected]] | None = None
        """The last finished batch of the current input."""
        self.messages = 0
        """Messages of all finished batches."""
        self.pool = get_sync_pool()
        self.preparer: Preparer | None = None
        self.writer: TopicWriter | None = None
        """Those of the topic that is named, None where envelopes name it."""
        log = instance.log
        default = log.flush_interval_us / 1e6 if log is not None else DEFAULT_LINGER_SECONDS
        self.linger = options.linger if options.linger is not None else default
        if topic is not None:
            try:
                self.writer, self.preparer, _ = self.router.open_target(topic, message_type)
                self.get_counts(self.writer.ref)
            except BaseException:
                self.close()
                raise

    def get_counts(self, ref: TopicRef) -> TopicCounts:
        """The counts of one topic in the report."""
        if ref not in self.counts:
            self.counts[ref] = TopicCounts(*ref)
            self.report.topics.append(self.counts[ref])
        return self.counts[ref]

    def publish_stream(self, sources: Iterable[tuple[str, MessageSource]]) -> None:
        """Publish batch after batch; each is acknowledged before the run waits for more input."""
        for number, (name, source) in enumerate(sources):
            with closing(self.iterate_batches(name, source)) as coming:
                for batch in coming:
                    self.submit(batch)
                self.finish_group()
            self.input, self.of_input = number + 1, None
        self.apply_all()

    def iterate_batches(self, name: str, source: MessageSource) -> Generator[PublishBatch, None, None]:
        """The batches of an input; where much comes, another process goes on with reading it."""
        options = self.options
        columned = self.writer is not None and not options.delta and self.writer.is_columnar
        most = WRITING_LIMITS.max_batch_messages if columned else WRITING_LIMITS.default_batch_messages
        found = iterate_batches(
            name,
            source,
            count=options.batch or most,
            size=options.batch_bytes,
            linger=self.linger,
            monotonic=self.monotonic,
            before_waiting=self.finish_group,
        )
        seen = 0
        for batch in found:
            yield batch
            seen += batch.size
            if seen < READ_AHEAD_MIN_BYTES or self.preparer is None or batch.envelopes is not None:
                continue
            from sowctl.engine.writing.read_ahead import (  # a small run does not load what that needs
                is_read_ahead_useful,
                start_read_ahead,
            )

            if not is_read_ahead_useful(source, self.preparer):
                continue
            # Neither locks nor the thread that syncs are there when a copy of this process is made.
            self.finish_group()
            self.pool.shutdown()
            with ExitStack() as held:
                # An interrupt comes behind this: the process is ended then.
                with without_interrupts():
                    ahead = start_read_ahead(found, source, self.preparer)
                    self.pool = get_sync_pool()
                    if ahead is not None:
                        held.callback(ahead.close)
                if ahead is not None:
                    yield from ahead.receive_batches(name, self.finish_group)
                    return
            # This process goes on, and asks no more.
            seen = -sys.maxsize

    def publish_atomically(self, sources: Iterable[tuple[str, MessageSource]]) -> None:
        """Read everything, then write it as one group; holds the whole input in memory."""
        whole: list[PublishBatch] = []
        for name, source in sources:
            self.inputs += 1
            whole.extend(
                iterate_batches(
                    name,
                    source,
                    count=1 << 20,
                    size=1 << 30,
                    linger=3600.0,
                    monotonic=self.monotonic,
                    before_waiting=self.finish_group,
                )
            )
        self.submit(merge_batches(whole))
        self.finish_group()
        self.apply_all()

    def apply_all(self) -> None:
        """Apply everything that is acknowledged, and keep what is known of chains."""
        with without_interrupts():
            self.session.apply_all()
            if not self.session.dry_run:
                self.router.save_chains()

    def submit(self, batch: PublishBatch) -> None:
        """Prepare a batch while the previous ones are being synced, then finish these and start this one.

        Preparing takes no lock and reads no record, so previous batches need not be visible yet. A batch may also join
        those under way: see :meth:`can_join_group`.
        """
        shares, refusals = self.router.split_batch(batch)
        if self.open_group is not None and not self.can_join_group(shares):
            self.finish_group()
        rejected = self.refusals.locate_refusals(batch, refusals, framing=True)
        self.refusals.cut_batch(batch, shares, rejected)
        size = _estimate_batch_bytes(batch) + self.group_bytes()
        load = _PreparedBatch(batch, shares, rejected, not self.can_group(shares) or size >= self.options.batch_bytes)
        with without_interrupts():
            group, self.open_group = self.open_group, None
            if group is None:
                self.due = self.monotonic() + self.linger
                group = self.run_group(load)
                next(group)
            else:
                group.send(load)
            self.open_group = group

    def can_group(self, shares: list[TopicShare]) -> bool:
        """Return whether shares may be synced with other batches: no number is given, and a journal has all.

        A topic without a journal syncs each batch in its store, and chains are read from what is acknowledged.
        """
        return self.options.batch is None and all(
            share.writer.journalled and share.preparer.keys.chains is None for share in shares
        )

    def can_join_group(self, shares: list[TopicShare]) -> bool:
        """Return whether these shares may be written under the locks of the batches under way, and synced with them.

        While the input has more ready, a sync for each batch would only cost; :meth:`finish_group` is called before the
        run waits for more.
        """
        last = self.group_batches[-1]
        held = {part.writer.ref for part in self.group_batches[0].parts}
        return (
            self.can_group(shares)
            # A refused message may end the run: nothing behind it is written before that is known.
            and not last.rejected
            and held.issuperset(share.writer.ref for share in shares)
            and self.group_bytes() < self.options.batch_bytes
            and self.monotonic() < self.due
        )

    def group_bytes(self) -> int:
        """Return about how many bytes the batches of the open group hold in memory."""
        return sum(_estimate_batch_bytes(written.batch) for written in self.group_batches)

    def run_group(self, load: _PreparedBatch | None) -> GroupCommit:
        """Write batches from their locks to their acknowledgement; returns the refused messages of the last one.

        Suspends after each appended batch: ``send`` gives it the next one, or None to finish the group. While the last
        one is being synced, the next one is prepared. The locks are held all that time: no other process may append
        after entries that are not on disk yet, and nothing reads these, because they would be gone if the sync failed.
        """
        assert load is not None
        batches: list[_WrittenBatch] = []
        self.group_batches = batches
        with self.session.hold_batch_locks([share.writer for share in load.shares]):
            synced: Future[None] | None = None
            try:
                while load is not None:
                    synced = self.append_batch(load)
                    load = yield
            except (Exception, KeyboardInterrupt):
                # The batches before the failed one are acknowledged, as if each had been synced by itself. If the
                # journal has failed, they are gone, and the first error is raised.
                if batches:
                    with suppress(SowError):
                        self.sync_and_apply(None)
                raise
            stop = self.sync_and_apply(synced)
        if stop is not None:
            raise stop
        return batches[-1].rejected

    def append_batch(self, load: _PreparedBatch) -> Future[None] | None:
        """Write a batch under the locks that are held; returns its sync, None where none is under way."""
        publisher = self.router.prepare_publisher(load.batch)
        # Taken under the locks, so that times rise in the order in which batches are written.
        now = self.instance.now
        parts, rejected = self.build_entries(load.batch, load.shares, load.rejected, publisher, now)
        synced, groups = write_entries(self.session, self.pool, parts, publisher, now, sync=load.sync)
        self.group_batches.append(_WrittenBatch(load.batch, parts, rejected, groups))
        return synced

    def sync_and_apply(self, synced: Future[None] | None) -> KeyboardInterrupt | None:
        """Acknowledge what is written, once it is on disk, and apply it; returns an interrupt that came meanwhile."""
        stop: KeyboardInterrupt | None = None
        if (
            synced is None
            and not self.session.dry_run
            and any(part.writer.journalled for part in self.group_batches[0].parts)
        ):
            synced = self.pool.submit(self.session.journal.sync)
        if synced is not None:
            try:
                synced.result()
            except KeyboardInterrupt as interrupt:
                stop = interrupt
                synced.result()  # the sync goes on; a batch that it makes durable is counted and acknowledged
        # From here on the batches are acknowledged: their entries are on disk, whatever happens to this process.
        # All are counted before the first is reported: the caller may abort the run.
        for written in self.group_batches:
            self.count_batch(written)
        for written in self.group_batches:
            self.notify_acknowledged(written)
        # Applied under the same locks, after the acknowledgement: a crash while applying loses nothing acknowledged.
        if not self.session.dry_run and stop is None:
            self.session.flush_memtables()
        return stop

    def build_entries(
        self,
        batch: PublishBatch,
        shares: list[TopicShare],
        rejected: list[Rejected],
        publisher: Publisher | None,
        now: int,
    ) -> tuple[list[TopicEntries], list[Rejected]]:
        """Build the entries of a batch for each topic, and all refusals; the locks are held."""
        # Under the locks: the highest number that is known is still the highest when the batch is written.
        duplicates = (
            publisher.admit_messages(self.router.list_sequence_logs(shares, publisher))
            if publisher is not None
            else set()
        )
        if publisher is not None and duplicates:
            self.router.note_overtaken(publisher)
        parts: list[TopicEntries] = []
        refusals: list[Refusal] = []
        for share in shares:
            entries, refused = build_topic_entries(share.writer, share.preparer, share.ready, now, duplicates)
            parts.append(entries)
            refusals.extend(refused)
        # Refused only now, because of the records of the topic; reported with earlier refusals in the order of the
        # input.
        if late := self.refusals.locate_refusals(batch, refusals):
            rejected = sorted(rejected + late, key=lambda one: one.offset) if rejected else late
            self.refusals.cut_batch(batch, parts, rejected)
        for part in parts:
            part.count_expired(now)
            self.warn_clock_ahead(part, now)
            self.note_ignored_lifetimes(part)
        return parts, rejected

    def finish_group(self) -> None:
        """Wait until the batches of the open group are on disk, acknowledge them, and release the locks.

        Raises what the sync raised, and where the run must not go on after a refused message.
        """
        if self.open_group is None:
            return
        with without_interrupts():
            group, self.open_group = self.open_group, None
            rejected = _finish_group(group)
            self.group_batches = []
        self.refusals.report_rejected(rejected)

    def note_end(self) -> None:
        """Say in the report where the input stands."""
        if self.landed is not None:
            line, self.report.end = self.refusals.find_batch_end(*self.landed)
            self.report.last_line = line - 1

    def build_rest(self) -> InputRest:
        """Build the place where the part of the input begins that is not dealt with."""
        if self.options.on_error == "abort":  # all of the input is one group, which is there as a whole or not at all
            return InputRest(self.inputs, 1, 0, self.messages) if self.report.published else InputRest(0, 1, 0, 0)
        if self.of_input is None:
            return InputRest(self.input, 1, 0, self.messages)
        batch, rejected = self.of_input
        line, offset = self.refusals.find_batch_end(batch, rejected)
        return InputRest(self.input, line, offset, self.messages - len(batch.payloads) + batch.count_before(offset))

    def count_batch(self, written: _WrittenBatch) -> None:
        """Count a batch that is durable."""
        report, batch = self.report, written.batch
        report.blank += batch.blank
        report.messages += len(batch.payloads) + len(batch.refused)
        report.published += sum(map(len, written.parts))
        for part in written.parts:
            report.bytes += sum(map(len, part.batch.payloads))
            # One topic that nothing keeps is enough: the report does not promise what a crash would disprove.
            report.durable = report.durable and not part.writer.is_volatile
            total = self.get_counts(part.writer.ref)
            counts = part.count_outcomes()
            total.add_counts(counts)
            report.add_counts(counts)
        # Noted before the callback runs, so that a run that is aborted in it counts this batch as done.
        self.landed = self.of_input = batch, written.rejected
        self.messages += len(batch.payloads)
        for payloads, first in written.groups:
            report.first_txid = report.first_txid or first
            report.last_txid = first + len(payloads) - 1

    def notify_acknowledged(self, written: _WrittenBatch) -> None:
        """Tell the caller of a batch that is counted."""
        if self.session.dry_run:
            self.instance.watch("bytes", written.batch.end_offset, 0)
        if self.on_acknowledged is None:
            return
        for payloads, first in written.groups:
            last = first + len(payloads) - 1
            with allow_interrupts():  # the caller may take its time
                self.on_acknowledged(AcknowledgedBatch(payloads, first, last, written.batch, self.report.durable))

    def warn_clock_ahead(self, part: TopicEntries, now: int) -> None:
        """Say, once in a run, that a topic gets times far ahead of the clock; times within a topic never go back."""
        if len(part) and is_ahead_of_clock(part.batch.last_time, now):
            if self.report.ahead is None:
                self.instance.notify(format_clock_warning(part.writer.ref.name, part.batch.last_time))
            self.report.ahead = max(self.report.ahead or 0, part.batch.last_time)

    def note_ignored_lifetimes(self, part: TopicEntries) -> None:
        """Count lifetimes that have no effect, and say so once for each topic: its Expiration is disabled."""
        config = part.writer.config
        if can_expire(config.expiration) or config.key_mode == "none":
            return
        if count := len(part) - part.batch.list_numbers("expirations").count(0):
            self.report.lifetimes_ignored += count
            # Beside History a lifetime is not allowed.
            remedy = ""
            if config.history is None:
                import shlex

                name = shlex.quote(config.name)
                remedy = f"; to let them expire: sowctl config add expiration {name} enabled"
            self.instance.notify_once(
                f"lifetimes of {config.name}",
                f"topic {config.name!r} has no Expiration: the lifetimes of its records have no effect{remedy}",
            )

    def close(self) -> None:
        """Let go of everything; what was acknowledged is safe."""
        with without_interrupts():
            group, self.open_group = self.open_group, None
            # The generator's locks go with it; a sync that is under way is waited for by the pool's shutdown.
            if group is not None:
                group.close()
            self.pool.shutdown()
            self.session.close()

    def abort(self, error: BaseException) -> None:
        """Apply what was acknowledged, so that an error leaves no more behind than it must; then pass the error on."""
        try:
            self.finish_group()
            self.apply_all()
        except SowError as second:
            if isinstance(error, SowError):
                # The first error is the cause and is raised; acknowledged messages are in the journal, applied or not.
                error.facts.setdefault("while_applying", second.message)
        if isinstance(error, SowError):
            error.facts["report"] = self.report


def get_sync_pool() -> ThreadPoolExecutor:
    """Return the pool for syncing, of one thread: there is one journal, and a sync of it must not overtake another."""
    return ThreadPoolExecutor(1, thread_name_prefix="sowctl-sync")


def _estimate_batch_bytes(batch: PublishBatch) -> int:
    """Return about how many bytes a batch takes: small messages take more than their payloads."""
    return batch.size + MESSAGE_OVERHEAD_BYTES * len(batch.payloads)


def _finish_group(group: GroupCommit) -> list[Rejected]:
    """Let a batch that is being synced go on to its end; returns what it returns."""
    while True:
        try:
            next(group)
        except StopIteration as end:
            rejected: list[Rejected] = end.value
            return rejected
