"""Group commit: batches written under one set of locks, synced together, acknowledged and applied.

A message passes through four structures, each built by one function: a batch of the input
(``batches.iterate_batches``), the prepared messages of one topic (``Preparer.prepare``, without locks), the entries of
one topic (``entries.build_topic_entries``, under the locks), and the journal group with the entries of all topics
(``commit.build_group``). Steps 1 to 6 in :class:`GroupCommit` define the order of locks, sync and acknowledgement.
Called by :mod:`sowctl.engine.verbs.publish`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.reports import Rejected
from sowctl.engine.writing.commit import WrittenBatch, write_entries
from sowctl.engine.writing.entries import TopicEntries, build_topic_entries
from sowctl.errors import SowError
from sowctl.interrupts import without_interrupts
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.writing.batches import PublishBatch
    from sowctl.engine.writing.publish_report import ReportBuilder
    from sowctl.engine.writing.publishers import Publisher
    from sowctl.engine.writing.refusal_policy import RefusalPolicy
    from sowctl.engine.writing.routing import Router, TopicShare
    from sowctl.engine.writing.session import WriteSession

MESSAGE_OVERHEAD_BYTES = 64
"""Minimum bytes of memory that a message uses in addition to its payload."""


class _PreparedBatch(NamedTuple):
    """A prepared batch, and its refused messages so far. ``sync``: it is the last batch under the same locks."""

    batch: PublishBatch
    shares: list[TopicShare]
    rejected: list[Rejected]
    sync: bool


class _OpenGroup:
    """Batches that are appended under the same locks and not acknowledged yet.

    ``due``: the time after which no further batch joins the group. ``synced``: the running sync.
    """

    def __init__(self, locks: ExitStack, due: float) -> None:
        self.locks = locks
        self.due = due
        self.written: list[WrittenBatch] = []
        self.synced: Future[None] | None = None

    def estimate_bytes(self) -> int:
        """Estimate the bytes that the batches use in memory."""
        return sum(_estimate_batch_bytes(written.batch) for written in self.written)


class GroupCommit:
    """Takes the batches of a run from preparation to acknowledgement, in groups; at most one group is open at a time.

    ``refusals`` cuts a batch at a refused message that ends the run, ``report`` is notified of entries as they are
    built. ``on_durable`` is called with the written batches of a group once all of them are on disk. Batches may join a
    group until it is ``linger`` seconds old by ``monotonic``.
    """

    def __init__(
        self,
        session: WriteSession,
        router: Router,
        refusals: RefusalPolicy,
        report: ReportBuilder,
        options: PublishOptions,
        *,
        linger: float,
        monotonic: Callable[[], float],
        on_durable: Callable[[Sequence[WrittenBatch]], None],
    ) -> None:
        self._session, self._router, self._refusals, self._report = session, router, refusals, report
        self._options, self._linger, self._monotonic, self._on_durable = options, linger, monotonic, on_durable
        self._pool = create_sync_pool()
        self._group: _OpenGroup | None = None

    def submit(self, batch: PublishBatch) -> None:
        """Prepare a batch while the open group is being synced, then finish that group and start the next one.

        Preparing needs no lock and reads no record, so previous batches need not be visible yet. A batch may also join
        the open group: see :meth:`_can_join_group`. Raises the errors of :meth:`finish`.
        """
        shares, refusals = self._router.split_batch(batch)
        if self._group is not None and not self._can_join_group(self._group, shares):
            self.finish()
        rejected = self._refusals.locate_refusals(batch, refusals, framing=True)
        self._refusals.cut_batch(batch, shares, rejected)
        size = _estimate_batch_bytes(batch) + (0 if self._group is None else self._group.estimate_bytes())
        sync = not self._can_group(shares) or size >= self._options.batch_bytes
        prepared = _PreparedBatch(batch, shares, rejected, sync)
        with without_interrupts():
            group, self._group = self._group, None
            if group is None:
                group = self._begin_group(prepared)
            self._append_batch(group, prepared)
            self._group = group

    def finish(self) -> None:
        """Wait until the batches of the open group are on disk, acknowledge them, and release the locks.

        Raises the errors of the sync, and an error if a refused message ends the run.
        """
        if self._group is None:
            return
        with without_interrupts():
            group, self._group = self._group, None
            rejected = self._finish_group(group)
        self._refusals.report_rejected(rejected)

    def stop_sync_thread(self) -> None:
        """Finish the open group and end the sync thread, so that the process can be forked; no lock is held then."""
        self.finish()
        self._pool.shutdown()
        self._pool = create_sync_pool()

    def close(self) -> None:
        """Release the locks of a group that was not finished; acknowledged batches are on disk."""
        group, self._group = self._group, None
        # The shutdown of the pool waits for a running sync.
        if group is not None:
            group.locks.close()
        self._pool.shutdown()

    def _can_group(self, shares: list[TopicShare]) -> bool:
        """Return whether shares may be synced with other batches: no batch size is given, and all topics are journalled
        and without chains.

        A topic without a journal syncs each batch in its store, and chains are read from acknowledged entries.
        """
        return self._options.batch is None and all(
            share.writer.journalled and share.preparer.keys.chains is None for share in shares
        )

    def _can_join_group(self, group: _OpenGroup, shares: list[TopicShare]) -> bool:
        """Return whether these shares may be written under the locks of the open group, and synced with it.

        While the input has data ready, a sync for each batch costs time and gains nothing; :meth:`finish` is called
        before the run waits for input.
        """
        last = group.written[-1]
        held = {part.writer.ref for part in group.written[0].parts}
        return (
            self._can_group(shares)
            # Entries that are appended while a sync is under way may miss it, and count as synced with it.
            and group.synced is None
            # A refused message may end the run: nothing after it is written before that is known.
            and not last.rejected
            and held.issuperset(share.writer.ref for share in shares)
            and group.estimate_bytes() < self._options.batch_bytes
            and self._monotonic() < group.due
        )

    # The next three functions are the steps of a group in order, from its locks to its acknowledgement.

    def _begin_group(self, prepared: _PreparedBatch) -> _OpenGroup:
        """Acquire the locks of a group for the topics of its first batch."""
        # 1. Lock the journal, then the stores of topics without a journal by path; every writer uses this order. Merges
        #    that are due run before, without a lock. Under the locks, memtables have every entry of the journal. The
        #    locks are held until step 6: no other process may append after entries that are not on disk yet, or decide
        #    by them, because they would be lost if the sync failed. Readers, which need no lock, may see them.
        locks = ExitStack()
        locks.enter_context(self._session.hold_batch_locks([share.writer for share in prepared.shares]))
        return _OpenGroup(locks, self._monotonic() + self._linger)

    def _append_batch(self, group: _OpenGroup, prepared: _PreparedBatch) -> None:
        """Append a batch to the group, whose locks are held. If that fails, finish the group and raise the error."""
        # 2. Append each batch to the journal, then to the memtables. Nothing is durable yet: a kill here leaves a torn
        #    tail, which the next writer cuts off, or unacknowledged groups. Only a topic without a journal is synced
        #    here, by its store's transaction.
        try:
            group.synced = self._write_batch(group, prepared)
        except BaseException as error:
            # The batches before the failed one are acknowledged, as if each had been synced by itself.
            self._finish_group(group, error)
            raise

    def _finish_group(self, group: _OpenGroup, failure: BaseException | None = None) -> list[Rejected]:
        """Sync, acknowledge and apply the batches of a group, and release its locks; return the refused messages of the
        last one. ``failure``: the error of appending another batch; it is raised again."""
        written = group.written
        with group.locks:
            if failure is not None and (not written or not isinstance(failure, Exception | KeyboardInterrupt)):
                raise failure
            try:
                # 3. Sync the journal, once for all batches. From here on they are durable, whatever happens to this
                #    process: a kill before step 4 leaves messages that are published but not acknowledged.
                synced = group.synced if failure is None else None
                if synced is None and self._needs_sync(written):
                    synced = self._pool.submit(self._session.journal.sync)
                interrupt = _wait_for_sync(synced)
                # 4. Acknowledge: never before step 3, and before step 5, which may take long or fail.
                self._on_durable(written)
                # 5. Flush full memtables to stores or to runs: the journal has all their entries, synced. After a kill
                #    here, the store lags the journal; the next writer, and each reader, folds the rest.
                if interrupt is None and not self._session.dry_run:
                    self._session.flush_full()
            except SowError:
                # If the journal has failed, all batches are lost, and the first error is raised.
                if failure is None:
                    raise
        # 6. Release the locks: the with statement does, also if a step has raised an error.
        if failure is not None:
            raise failure
        if interrupt is not None:
            raise interrupt
        return written[-1].rejected

    def _write_batch(self, group: _OpenGroup, prepared: _PreparedBatch) -> Future[None] | None:
        """Write a batch under the locks that are held; return its sync, None if none is running."""
        publisher = self._router.prepare_publisher(prepared.batch)
        # Read under the locks, so that times rise in the order in which batches are written.
        now = self._session.instance.now
        parts, rejected = self._build_entries(prepared, publisher, now)
        synced, groups = write_entries(self._session, self._pool, parts, publisher, now, sync=prepared.sync)
        group.written.append(WrittenBatch(prepared.batch, parts, rejected, groups))
        return synced

    def _needs_sync(self, written: Sequence[WrittenBatch]) -> bool:
        """Return whether these batches are written to the journal, and not just a dry run."""
        return not self._session.dry_run and any(part.writer.journalled for part in written[0].parts)

    def _build_entries(
        self, prepared: _PreparedBatch, publisher: Publisher | None, now: int
    ) -> tuple[list[TopicEntries], list[Rejected]]:
        """Build the entries of a batch for each topic, and all refusals; the locks are held."""
        shares, rejected = prepared.shares, prepared.rejected
        # Under the locks, the highest known sequence number is still the highest when the batch is written.
        duplicates = (
            publisher.admit_messages(self._router.list_sequence_logs(shares, publisher))
            if publisher is not None
            else set()
        )
        if publisher is not None and duplicates:
            self._router.note_overtaken(publisher)
        parts: list[TopicEntries] = []
        refusals: list[Refusal] = []
        for share in shares:
            entries, refused = build_topic_entries(share.writer, share.preparer, share.ready, now, duplicates)
            parts.append(entries)
            refusals.extend(refused)
        # These are refused because of the topic's records; they are reported with earlier refusals in input order.
        if late := self._refusals.locate_refusals(prepared.batch, refusals):
            rejected = sorted(rejected + late, key=lambda one: one.offset) if rejected else late
            self._refusals.cut_batch(prepared.batch, parts, rejected)
        for part in parts:
            part.count_expired(now)
            self._report.note_entries(part, now)
        return parts, rejected


def create_sync_pool() -> ThreadPoolExecutor:
    """Create a pool of one thread for syncing the journal: a sync must not overtake an earlier one."""
    return ThreadPoolExecutor(1, thread_name_prefix="sowctl-sync")


def _wait_for_sync(synced: Future[None] | None) -> KeyboardInterrupt | None:
    """Wait for a sync; return an interrupt that arrived meanwhile. Raises the errors of the sync."""
    if synced is None:
        return None
    try:
        synced.result()
    except KeyboardInterrupt as interrupt:
        synced.result()  # the sync continues; a batch that it makes durable is counted and acknowledged
        return interrupt
    return None


def _estimate_batch_bytes(batch: PublishBatch) -> int:
    """Estimate the bytes that a batch uses in memory: small messages use more than their payloads."""
    return batch.size + MESSAGE_OVERHEAD_BYTES * len(batch.payloads)
