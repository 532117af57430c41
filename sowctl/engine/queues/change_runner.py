"""One change of a queue: locks, the journal's new entries, due returns, the change itself, and its journal entries.

The journal is written and synced before the state is committed. A crash in between leaves entries that the state does
not have; the next change reads them like those of any other process. Lock order: the journal's lock, then the state
file's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

from sowctl.engine.queues.backlog import Backlog
from sowctl.engine.queues.definition import compute_definition_digest
from sowctl.engine.queues.presence import WorkerPresence
from sowctl.engine.queues.queue_change import NeedsJournal, QueueChange
from sowctl.engine.queues.recovery import (
    DEFINITION_CHANGED,
    belongs_to_other_copy,
    describe_missing_beginning,
    explain_stale_state,
    find_creation_txid,
    find_recovery_txid,
    read_proven_end,
    reset_state,
    restore_pending_states,
)
from sowctl.engine.queues.returns import apply_due, return_holder_leases
from sowctl.engine.queues.settlement import QueueEntry
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.engine.topics.queuestates import build_state_path, read_boot_id
from sowctl.errors import StorageError
from sowctl.interrupts import without_interrupts
from sowctl.journal.format import BEGIN
from sowctl.store.queue.file import QueueFile
from sowctl.work_directories import create_work_directory

if TYPE_CHECKING:
    from sowctl.config.derived_entries import Queue
    from sowctl.engine.instance import Instance
    from sowctl.engine.queues.expressions import QueueExpressions
    from sowctl.engine.queues.recovery import PendingState
    from sowctl.journal.reader import Journal
    from sowctl.journal.writer import JournalWriter

T = TypeVar("T")
NOT_WRITABLE_CODES = frozenset({"SOW-STO-040", "SOW-STO-041", "SOW-JRN-021"})
"""Errors of a state or journal that is not writable: no space, no permission, a read-only file system."""
WORKER_CHECK_SECONDS = 0.5
"""Seconds between two checks whether workers are alive; each costs a file lock per worker."""


class ChangeRunner:
    """Executes the changes of one queue. Files are opened on first use and stay open; not thread-safe."""

    def __init__(self, instance: Instance, queue: Queue) -> None:
        self.instance = instance
        self.queue = queue
        self.path = build_state_path(instance, queue)
        boot, synced = read_boot_id(), queue.file_backed_metadata
        self._file = QueueFile(
            self.path, instance.seam, boot=boot, synced=synced, lock_wait=instance.lock_wait, tell=instance.notify
        )
        self.presence = WorkerPresence(self.path, instance.seam)
        self._log: Journal | None = None
        self._writer: JournalWriter | None = None
        self._backlog: Backlog | None = None
        self._looked = 0.0
        self._digest = compute_definition_digest(queue)
        self._owner = instance.publisher_id
        self._known: tuple[int, int, int] | None = None
        self._is_copy = False

    @property
    def has_log(self) -> bool:
        """True if there is a journal: without one the queue is empty."""
        return self._log is not None or has_log(self.instance)

    @property
    def log(self) -> Journal:
        """The journal, for reading."""
        if self._log is None:
            self._log = open_log(self.instance)
        return self._log

    @property
    def writer(self) -> JournalWriter:
        """The journal, for appending."""
        if self._writer is None:
            from sowctl.engine.writing.session import open_journal

            self._writer = open_journal(self.instance)
        return self._writer

    @property
    def backlog(self) -> Backlog:
        """The journal's new entries for the queue."""
        if self._backlog is None:
            log = self.instance.log
            assert log is not None
            self._backlog = Backlog(
                self.queue, self._compile_expressions, self.instance.publisher_id, regex=log.regex_topics
            )
        return self._backlog

    def _compile_expressions(self) -> QueueExpressions:
        from sowctl.engine.queues.expressions import QueueExpressions

        return QueueExpressions(self.instance, self.queue)

    def run_change(self, act: Callable[[QueueChange], T], *, journals: bool = False, look: bool = False) -> T:
        """Execute a change: call ``act`` with the current state, possibly more than once until it is committed.

        ``journals``: the change is expected to write journal entries. ``look``: check in any case whether workers are
        alive.
        """
        while True:
            # Covers taking the locks of journal and state: a signal between taking a lock and recording it would leave
            # it held.
            with without_interrupts():
                try:
                    with self._open_change(journals, look) as turn:
                        if turn is not None:
                            return act(turn)
                except NeedsJournal:
                    journals = True

    def run_read(self, act: Callable[[QueueChange], T], *, look: bool = False) -> T:
        """Execute a change as :meth:`run_change`, with an ``act`` that only reads: if this process may not write the
        state or the journal, the change is made on a copy of the state, and no entry is written."""
        try:
            return self.run_change(act, look=look)
        except StorageError as error:
            if error.code not in NOT_WRITABLE_CODES:
                raise
        self.instance.notify_once("queue copy", "the state files of queues are not writable: reading copies of them")
        with self._use_state_copy():
            return self.run_change(act, journals=True, look=look)

    @contextmanager
    def _use_state_copy(self) -> Iterator[None]:
        """Make changes on a copy of the state within the block; messages are never leased from a copy."""
        file, known = self._file, self._known
        file.close()
        with create_work_directory() as place, closing(file.copy_into(place)) as copy:
            self._file, self._is_copy = copy, True
            try:
                yield
            finally:
                self._file, self._known, self._is_copy = file, known, False

    def close(self) -> None:
        """Close all files."""
        self._file.close()
        if self._log is not None:
            self._log.close()
        if self._writer is not None:
            self._writer.close()
        self._log = self._writer = None

    @contextmanager
    def _open_change(self, journals: bool, look: bool) -> Iterator[QueueChange | None]:
        """Execute one change; yield None if the journal is so long that reading it requires another change."""
        with ExitStack() as locks:
            # A change of a copy writes no entries, so it does not take the journal's lock.
            writes = journals and not self._is_copy
            # Lock order: journal, then state. A change that discovers later that it must write to the journal is
            # restarted (NeedsJournal), because taking the locks in the other order could deadlock.
            if writes:
                locks.enter_context(self.writer.hold_lock())
            # Opened before the state is locked: opening a journal may read the states of all queues, including this
            # one.
            log = self.log
            rows = locks.enter_context(self._file.begin_change())
            # Read under the locks, so that times increase in the order of the changes.
            now = self.instance.now
            turn = QueueChange(rows, log, self.queue, self._owner, now, self.instance.random, journals=journals)
            # With the journal's lock held, the writer knows the end, unless the state proves a later one.
            last = self.writer.last_txid if writes else 0
            if rows.written_txid > last:
                last = read_proven_end(rows, log)
            elif not writes:
                last = log.read_last_txid()
            self._rebuild_if_stale(turn, last)
            if self.backlog.catch_up(rows, log, last, now):
                apply_due(turn)
                self._return_dead_leases(turn, look)
                rows.flush()
                yield turn
            else:
                # What was read so far is committed, and other processes get the locks before the rest is read.
                yield None
            # The journal is synced before the state is committed (when `locks` exits). After a crash in between, the
            # next change reads the entries from the journal; in the other order, the acknowledgement would exist only
            # in this state.
            self._write_entries(turn)

    def _rebuild_if_stale(self, turn: QueueChange, last: int) -> None:
        """Rebuild the state if it is stale."""
        rows, log = turn.rows, self.log
        why = explain_stale_state(rows, self._digest, log, last)
        # A block is looked up in the journal once, and again only if the state has another block.
        if why is None and rows.state.block != self._known and belongs_to_other_copy(rows, log):
            why = "it belongs to another copy of the journal"
        if why is None:
            self._known = rows.state.block
            return
        if not rows.is_new:
            self.instance.notify(f"rebuilding the state of queue {self.queue.name!r}: {why}")
        if self.queue.recovery_point == "creation":
            # A queue that had another RecoveryPoint until now is created at this moment.
            other = not rows.is_new and rows.state.recovery != self.queue.recovery_point
            found = None if other else find_creation_txid(self.queue, log)
            if found is None:
                turn.add_entry(QueueEntry(BEGIN, (0, 0)))
            began = log.read_last_txid() if found is None else found
        else:
            began = find_recovery_txid(self.instance, self.queue, log)
        same = why == DEFINITION_CHANGED and rows.state.lineage == log.lineage and rows.state.applied <= last
        keep = same and not belongs_to_other_copy(rows, log)
        kept = reset_state(rows, self.queue, log, began, turn.now, keep=keep)
        if lacks := describe_missing_beginning(self.instance, self.queue, log):
            self.instance.notify(lacks)
        self._restore_leases(turn, kept, last)

    def _restore_leases(self, turn: QueueChange, kept: list[PendingState], last: int) -> None:
        """Restore leases; this cannot wait for another change, so the rest of the journal is read in this one."""
        if kept:
            while not self.backlog.catch_up(turn.rows, self.log, last, turn.now):
                pass
            restore_pending_states(turn.rows, kept)

    def _return_dead_leases(self, turn: QueueChange, look: bool) -> None:
        """Return the leases of workers that have terminated."""
        instant = time.monotonic()
        if not look and instant - self._looked < WORKER_CHECK_SECONDS:
            return
        self._looked = instant
        workers = [number for number, holder in turn.rows.list_holders().items() if holder.worker]
        alive = frozenset(number for number in workers if self.presence.is_alive(number))
        turn.alive = alive
        for number in workers:
            if number not in alive:
                return_holder_leases(turn, number)

    def _write_entries(self, turn: QueueChange) -> None:
        """Write the entries of the change to the journal; this makes the change effective."""
        entries = turn.entries
        if not len(entries) or self._is_copy:
            return
        writer, ref = self.writer, self.queue.ref
        # Times never decrease within a topic, even if the clock is set back.
        moment = max(turn.now, writer.find_topic_state(ref).last_time)
        first, last = writer.append_group(entries.build_batch(ref, moment), moment)
        writer.sync()
        state = turn.rows.state
        # Set only after the sync: from now on it proves that the journal reached this txid (read_proven_end).
        turn.rows.written_txid = last
        # Nothing was appended in between, so the state need not read its own entries.
        if state.applied == first - 1:
            end = writer.find_end()
            state.applied, state.block = last, writer.last_block
            state.position = end.number, end.offset, end.txid
            self._known = state.block
