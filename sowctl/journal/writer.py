"""Append to a journal under its lock, batch by batch (``sow-journal(5)``, "Writing").

Called by the engine's writers. This module has the lock and the operations of one batch; :mod:`sowctl.journal.logend`
appends the blocks to the last file and handles failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from sowctl.directories import make_directories
from sowctl.errors import StorageError
from sowctl.journal.appender import Appender, write_error
from sowctl.journal.block import Block, Position, TailReport, TopicState
from sowctl.journal.blockcodec import CODEC_ZSTD
from sowctl.journal.format import check_instance
from sowctl.journal.group import EncodedBlock, encode_blocks, encode_blocks_in_pool
from sowctl.journal.lock import JournalLock
from sowctl.journal.logend import LogEnd, NewJournal
from sowctl.journal.reader import Journal
from sowctl.journal.state import EMPTY_TOPIC_STATE, read_last_known_txid
from sowctl.remote.place import Place
from sowctl.seam import SEAM, Seam
from sowctl.values.times import Micros
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from sowctl.journal.entries import EntryBatch

BACKGROUND_COMPRESSION_BYTES = range(64 << 10, 64 << 20)
"""Bytes of payload that another thread compresses: for fewer it is not worth waking; more are not kept in memory
twice."""
# A file needs room for at least its header and a block; without a minimum each append would create a file.
MIN_JOURNAL_SIZE = 1024


class JournalWriter:
    """Appends to a journal; not thread-safe."""

    _seen: Position

    def __init__(
        self, file: Appender, lock: JournalLock, seam: Seam, journal_size: int, codec: int, wait: float, now: Micros
    ) -> None:
        """Use :meth:`open`."""
        self._ending = LogEnd(file, seam, now)
        self._file = file
        self._lock = lock
        self._journal_size = max(journal_size, MIN_JOURNAL_SIZE)
        self._codec = codec
        self._wait = wait
        self._locked = False

    @classmethod
    def open(
        cls,
        directory: Path,
        instance: str,
        *,
        seam: Seam = SEAM,
        journal_size: int = 1 << 30,
        codec: int = CODEC_ZSTD,
        lock_wait: float = 10.0,
        now: Micros,
        new: NewJournal,
        acknowledged: int = 0,
        holder: str = "sowctl",
        archive: Place | None = None,
        notify: Callable[[str], None] = lambda words: None,
    ) -> JournalWriter:
        """Open, under the lock for a moment: start the journal if there is none, put a torn end right.

        ``now`` microseconds UTC, ``lock_wait`` seconds (also for every later :meth:`hold_lock`). ``new``: what the
        journal begins with where there is none. ``acknowledged``: highest txid that any store has applied. ``holder``:
        what the lock file says is running. ``archive``: a second place in which files of the journal may lie.
        ``notify`` is told of a long wait for the lock. Raises
        LockedError ``SOW-JRN-030``, StorageError ``SOW-JRN-021``, RefusedError ``SOW-JRN-052`` (the last file is
        archived, and torn), and the DamageErrors of reading.
        """
        if len(new.lineage) != 16:
            raise ValueError("a lineage needs 16 random bytes")
        check_instance(instance)
        try:
            make_directories(directory, seam)
            lock = JournalLock(directory, instance, seam, holder, now, notify)
        except OSError as error:
            raise write_error(error, directory, None) from error
        writer = cls(Appender(directory, instance, seam), lock, seam, journal_size, codec, lock_wait, now)
        try:
            # The lock is held from the check whether a journal exists to the end of its repair, so that two first
            # writers cannot both create one.
            with writer._require_lock():
                if not Journal.exists(directory, instance, archive):
                    # The topics file outlives its journal: no txid in it is assigned again.
                    floor = max(new.floor, read_last_known_txid(directory, instance))
                    writer._ending.create_journal(new, floor + 1, now)
                writer._ending.journal = Journal.open(
                    directory, instance, seam=seam, acknowledged=acknowledged, archive=archive
                )
                writer._ending.journal.on_gap = lambda gap: notify(gap.note)
                writer._ending.catch_up()
                writer._seen = writer.find_end()
        except BaseException:
            writer._release_lock()
            raise
        return writer

    @property
    def journal(self) -> Journal:
        """A reader of the same journal; its ``blocks`` may be used under the lock."""
        return self._ending.journal

    @property
    def lineage(self) -> bytes:
        """16 bytes."""
        return self._ending.lineage

    @property
    def tail_report(self) -> TailReport | None:
        """The torn or unfinished part that was found and repaired when the lock was last acquired; None for none."""
        return self._ending.tail_report

    def take_cut_tails(self) -> list[TailReport]:
        """Return the torn tails that were cut off since the last call."""
        found, self._ending.cut = self._ending.cut, []
        return found

    @property
    def last_txid(self) -> int:
        """The last used txid, as of the last lock and own appends."""
        return self._ending.last_txid

    @property
    def last_block(self) -> tuple[int, int, int] | None:
        """The block that ends with :attr:`last_txid`: file number, offset and header CRC; None for none."""
        return self._ending.state.block_identity if not self._ending.open_group else None

    @property
    def synced_txid(self) -> int:
        """Everything up to this txid is on disk: acknowledged."""
        return self._ending.synced_txid

    @contextmanager
    def hold_lock(self) -> Iterator[JournalWriter]:
        """Hold the journal for one batch; on entry reads the entries of other writers, on exit syncs unsynced ones.

        A group still open on exit is aborted. Raises LockedError ``SOW-JRN-030``, StorageError ``SOW-JRN-021`` and
        ``SOW-JRN-022`` (failed before), and the DamageErrors of reading.
        """
        with self._require_lock():
            # The usual case costs three system calls: this writer was the last one, so its state of the end is still
            # valid.
            if self._ending.dirty or not self._file.is_unchanged():
                self._ending.catch_up()
            else:
                self._ending.tail_report = None
            try:
                yield self
            finally:
                # Also on an exception: an open group is aborted and written entries are synced before the lock is
                # released, so the next holder finds a consistent end.
                self._ending.finish_batch()

    def read_new_blocks(self) -> list[Block]:
        """Return the blocks that other writers appended since the last call, or since :meth:`open`.

        Must be called before the first append under a lock; afterwards, own blocks are among them. Raises the
        DamageErrors of reading.
        """
        if self._seen == self.find_end():
            return []
        blocks = list(self.journal.iter_blocks(start=self._seen))
        self._seen = self.find_end()
        return blocks

    def append_group(
        self,
        batch: EntryBatch,
        now: Micros,
        *,
        last: bool = True,
        pool: Executor | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> tuple[int, int]:
        """Write a batch as a group; return its first and last txid. It is not acknowledged until :meth:`sync`.

        With ``last=False`` the group stays open and the next append continues it. ``meanwhile`` is called before the
        group is written, while a thread of ``pool`` compresses it if it is large. Raises StorageError ``SOW-JRN-021``
        (the writer is unusable afterwards), LimitError ``SOW-JRN-016``.
        """
        self._make_ready()
        ending = self._ending
        ending.now = now
        first = ending.last_txid + 1
        # Encoded before anything is written: inconsistent columns raise an error here, before the file changes.
        blocks = self._encode_blocks(batch, first, last, pool, meanwhile)
        size = sum(block.header.size for block in blocks)
        # Determined before the write: if this writer had seen everything, its own blocks count as seen, too.
        saw_all = self._seen == self.find_end()
        # A new file begins only between groups and never after an empty one: a group is in one file, and a block larger
        # than the limit does not cause an endless series of files.
        if not ending.open_group and ending.state.last_block[0] and self._file.offset + size > self._journal_size:
            ending.roll_file(now)
        ending.write(blocks)
        if saw_all:
            self._seen = self.find_end()
        return first, ending.last_txid

    def _encode_blocks(
        self, batch: EntryBatch, first: int, last: bool, pool: Executor | None, meanwhile: Callable[[], None]
    ) -> list[EncodedBlock]:
        group_txid = self._ending.open_group or first
        if (
            pool is not None
            and self._codec == CODEC_ZSTD
            and batch.stored is None
            and sum(map(len, batch.payloads)) in BACKGROUND_COMPRESSION_BYTES
        ):
            return encode_blocks_in_pool(batch, self._codec, first, group_txid, last, pool, meanwhile)
        blocks = list(encode_blocks(batch, self._codec, first, group_txid, last))
        meanwhile()
        return blocks

    def begin_next_file(self, now: Micros) -> int:
        """Finish the last file and begin the next one; return its number, or 0 if the last one has no block.

        The finished file is synced first. Raises StorageError ``SOW-JRN-021``.
        """
        self._make_ready()
        ending = self._ending
        # Never after an empty file: readers find the end of the journal in the last file or the previous one.
        if ending.open_group or not ending.state.last_block[0]:
            return 0
        saw_all = self._seen == self.find_end()
        ending.now = now
        ending.roll_file(now)
        if saw_all:
            self._seen = self.find_end()
        return self._file.number

    def sync(self) -> None:
        """Sync all appended entries, which acknowledges them. Raises StorageError ``SOW-JRN-021``."""
        self._make_ready()
        self._ending.sync()

    def abort_group(self) -> None:
        """Abort an open group, if there is one; its txids stay used."""
        self._make_ready()
        self._ending.abort_group()

    def find_end(self) -> Position:
        """Return the position after the last complete group."""
        return self._ending.state.end

    def find_topic_state(self, topic: TopicRef) -> TopicState:
        """Return the last entry of a topic, as of the last lock and own appends."""
        return self._ending.state.topic_states.get(topic, EMPTY_TOPIC_STATE)

    def find_highest_sequence(self, publisher: int) -> int:
        """Return the highest sequence of a publisher (hash of its client name), 0 for none."""
        return self._ending.state.publishers.get(publisher, ("", 0))[1]

    def close(self) -> None:
        """Write the topics file and close. Repeated calls do nothing."""
        if self._file.fd >= 0:
            # A failed writer saves no topics file: its state of the end may be wrong. No lock is needed: an outdated
            # topics file is still correct, because readers verify it by the block that it names.
            if self._ending.failed is None:
                self._ending.save_topics()
            self._release_lock()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _require_lock(self) -> Iterator[None]:
        if self._locked:
            raise ValueError("the lock is held already")
        self._refuse_if_failed()
        try:
            self._lock.acquire(self._wait)
        except OSError as error:
            raise write_error(error, self._lock.path, None) from error
        # Set only after the lock was acquired: _make_ready relies on it.
        self._locked = True
        try:
            yield
        finally:
            self._locked = False
            self._lock.release()

    def _make_ready(self) -> None:
        if not self._locked:
            raise ValueError("the journal is not locked")
        self._refuse_if_failed()

    def _refuse_if_failed(self) -> None:
        failed = self._ending.failed
        if failed is not None:
            raise StorageError(
                "SOW-JRN-022",
                f"this writer stopped after an error: {failed.message}",
                place=failed.place,
                hint="open the journal again",
                acknowledged_txid=self.synced_txid,
            )

    def _release_lock(self) -> None:
        self._file.close()
        self._lock.close()
        self._ending.close()
