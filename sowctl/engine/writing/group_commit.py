"""Group commit: batches written under one set of locks, synced together, acknowledged and applied.

A message passes through four structures, each built by one function: a batch of the input
(``batches.iterate_batches``), the prepared messages of one topic (``Preparer.prepare``, without locks), the entries of
one topic (``entries.build_topic_entries``, under the locks), and the journal's group of them all
(``commit.build_group``). The order of locks, sync and acknowledgement are the steps 1 to 6 in :class:`GroupCommit`.
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
"""Bytes that a message takes at least besides its payload."""


class _PreparedBatch(NamedTuple):
    """A prepared batch, and what was refused of it so far. ``sync``: nothing follows it under the same locks."""

    batch: PublishBatch
    shares: list[TopicShare]
    rejected: list[Rejected]
    sync: bool


class _OpenGroup:
    """Batches that are appended under the same locks and not acknowledged yet.

    ``due``: when the group is to be finished, though more could join it. ``synced``: the sync that is under way.
    """

    def __init__(self, locks: ExitStack, due: float) -> None:
        self.locks = locks
        self.due = due
        self.written: list[WrittenBatch] = []
        self.synced: Future[None] | None = None

    def estimate_bytes(self) -> int:
        """Return about how many bytes the batches hold in memory."""
        return sum(_estimate_batch_bytes(written.batch) for written in self.written)


class GroupCommit:
    """The batches of a run from preparation to acknowledgement, as groups; one is under way at a time.

    ``refusals`` cuts batches where the run ends at a refused message, ``report`` is told of entries as they are built.
    ``on_durable`` is called with the written batches of a group once all of them are on disk. A group takes further
    batches until it is ``linger`` seconds old by ``monotonic``.
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
        """Prepare a batch while the previous ones are being synced, then finish these and start this one.

        Preparing takes no lock and reads no record, so previous batches need not be visible yet. A batch may also join
        those under way: see :meth:`_can_join_group`. Raises what :meth:`finish` raises.
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

        Raises what the sync raised, and where the run must not go on after a refused message.
        """
        if self._group is None:
            return
        with without_interrupts():
            group, self._group = self._group, None
            rejected = self._finish_group(group)
        self._refusals.report_rejected(rejected)

    def stop_sync_thread(self) -> None:
        """Finish the open group and end the thread that syncs, so that this process may be forked: no lock is held."""
        self.finish()
        self._pool.shutdown()
        self._pool = create_sync_pool()

    def close(self) -> None:
        """Release the locks of a group that was not finished; what was acknowledged is safe."""
        group, self._group = self._group, None
        # A sync that is under way is waited for by the pool's shutdown.
        if group is not None:
            group.locks.close()
        self._pool.shutdown()

    def _can_group(self, shares: list[TopicShare]) -> bool:
        """Return whether shares may be synced with other batches: no number is given, and a journal has all.

        A topic without a journal syncs each batch in its store, and chains are read from what is acknowledged.
        """
        return self._options.batch is None and all(
            share.writer.journalled and share.preparer.keys.chains is None for share in shares
        )

    def _can_join_group(self, group: _OpenGroup, shares: list[TopicShare]) -> bool:
        """Return whether these shares may be written under the locks of the batches under way, and synced with them.

        While the input has more ready, a sync for each batch would only cost; :meth:`finish` is called before the run
        waits for more.
        """
        last = group.written[-1]
        held = {part.writer.ref for part in group.written[0].parts}
        return (
            self._can_group(shares)
            # A refused message may end the run: nothing behind it is written before that is known.
            and not last.rejected
            and held.issuperset(share.writer.ref for share in shares)
            and group.estimate_bytes() < self._options.batch_bytes
            and self._monotonic() < group.due
        )

    # A group from its locks to its acknowledgement: the three functions that follow, in the order of their steps.

    def _begin_group(self, prepared: _PreparedBatch) -> _OpenGroup:
        """Take the locks of a group for the topics of its first batch."""
        # 1. Lock: the journal, then the stores of topics without a journal by path, the order of every writer. Merges
        #    that are due run before that, without a lock. Under the locks, memtables have every entry of the journal.
        #    The locks are held up to step 6: no other process may append after entries that are not on disk yet, or
        #    decide by them, because they would be gone if the sync failed. Readers, which take no lock, may see them.
        locks = ExitStack()
        locks.enter_context(self._session.hold_batch_locks([share.writer for share in prepared.shares]))
        return _OpenGroup(locks, self._monotonic() + self._linger)

    def _append_batch(self, group: _OpenGroup, prepared: _PreparedBatch) -> None:
        """Append a batch to the group, whose locks are held. Finishes the group where that fails, and raises."""
        # 2. Append each batch, to the journal and then to the memtables. Nothing of it is durable: a kill here leaves a
        #    torn tail, which the next writer cuts off, or unacknowledged groups. Only a topic without a
        #    journal is synced here, by its store's transaction.
        try:
            group.synced = self._write_batch(group, prepared)
        except BaseException as error:
            # The batches before the failed one are acknowledged, as if each had been synced by itself.
            self._finish_group(group, error)
            raise

    def _finish_group(self, group: _OpenGroup, failure: BaseException | None = None) -> list[Rejected]:
        """Sync, acknowledge and apply the batches of a group, and release its locks; returns the refused messages of
        the last one. ``failure``: what appending another batch has raised; it is raised again."""
        written = group.written
        with group.locks:
            if failure is not None and (not written or not isinstance(failure, Exception | KeyboardInterrupt)):
                raise failure
            try:
                # 3. Sync the journal, once for all batches. From here on they are durable, whatever happens to this
                #    process: a kill before the acknowledgement leaves messages that are there and were not told.
                synced = group.synced if failure is None else None
                if synced is None and self._needs_sync(written):
                    synced = self._pool.submit(self._session.journal.sync)
                interrupt = _wait_for_sync(synced)
                # 4. Acknowledge. Never before step 3, and before step 5, which may take long or fail.
                self._on_durable(written)
                # 5. Flush full memtables to stores or to runs: the journal has all of it, synced. A kill here leaves
                #    a store behind the journal; the next writer, and each reader, folds the rest.
                if interrupt is None and not self._session.dry_run:
                    self._session.flush_full()
            except SowError:
                # If the journal has failed, all batches are gone, and the first error is raised.
                if failure is None:
                    raise
        # 6. The locks are released, by the end of the with statement, also where a step has raised.
        if failure is not None:
            raise failure
        if interrupt is not None:
            raise interrupt
        return written[-1].rejected

    def _write_batch(self, group: _OpenGroup, prepared: _PreparedBatch) -> Future[None] | None:
        """Write a batch under the locks that are held; returns its sync, None where none is under way."""
        publisher = self._router.prepare_publisher(prepared.batch)
        # Taken under the locks, so that times rise in the order in which batches are written.
        now = self._session.instance.now
        parts, rejected = self._build_entries(prepared, publisher, now)
        synced, groups = write_entries(self._session, self._pool, parts, publisher, now, sync=prepared.sync)
        group.written.append(WrittenBatch(prepared.batch, parts, rejected, groups))
        return synced

    def _needs_sync(self, written: Sequence[WrittenBatch]) -> bool:
        """Return whether entries of these batches are in the journal, and no sync of them is under way."""
        return not self._session.dry_run and any(part.writer.journalled for part in written[0].parts)

    def _build_entries(
        self, prepared: _PreparedBatch, publisher: Publisher | None, now: int
    ) -> tuple[list[TopicEntries], list[Rejected]]:
        """Build the entries of a batch for each topic, and all refusals; the locks are held."""
        shares, rejected = prepared.shares, prepared.rejected
        # Under the locks: the highest number that is known is still the highest when the batch is written.
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
        # Refused only now, because of the records of the topic; reported with earlier refusals in the order of the
        # input.
        if late := self._refusals.locate_refusals(prepared.batch, refusals):
            rejected = sorted(rejected + late, key=lambda one: one.offset) if rejected else late
            self._refusals.cut_batch(prepared.batch, parts, rejected)
        for part in parts:
            part.count_expired(now)
            self._report.note_entries(part, now)
        return parts, rejected


def create_sync_pool() -> ThreadPoolExecutor:
    """Return the pool for syncing, of one thread: there is one journal, and a sync of it must not overtake another."""
    return ThreadPoolExecutor(1, thread_name_prefix="sowctl-sync")


def _wait_for_sync(synced: Future[None] | None) -> KeyboardInterrupt | None:
    """Wait for a sync; returns an interrupt that came meanwhile. Raises what the sync raised."""
    if synced is None:
        return None
    try:
        synced.result()
    except KeyboardInterrupt as interrupt:
        synced.result()  # the sync goes on; a batch that it makes durable is counted and acknowledged
        return interrupt
    return None


def _estimate_batch_bytes(batch: PublishBatch) -> int:
    """Return about how many bytes a batch takes: small messages take more than their payloads."""
    return batch.size + MESSAGE_OVERHEAD_BYTES * len(batch.payloads)
