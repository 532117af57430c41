"""Appending to a journal under its lock (``sow-journal(5)``, "Writing")."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from sowctl.errors import SowError, StorageError
from sowctl.journal.block import Block, Position, TailReport, TopicState
from sowctl.journal.files import list_numbers
from sowctl.journal.format import (
    CODEC_ZSTD,
    DIRECTORY_MODE,
    FILE_HEADER_SIZE,
    FILE_MODE,
    BlockMap,
    Topic,
    file_name,
    pack_block_header,
    pack_file_header,
    place_seed,
)
from sowctl.journal.group import EncodedBlock, Group, abort_block, encode
from sowctl.journal.lock import JournalLock
from sowctl.journal.reader import Journal
from sowctl.journal.repair import cut_tail, sync_directory
from sowctl.journal.state import NO_TOPIC, JournalState, save, write_all
from sowctl.seam import SEAM, Seam
from sowctl.values.times import SECOND, Micros

MIN_JOURNAL_SIZE = 1024
TOPICS_EVERY: Micros = 5 * SECOND
"""Time between two rewritings of the topics file."""


class JournalWriter:
    """One appender; not for several threads.

    ``journal`` reads the same journal (its ``blocks`` may be used under the lock). ``tail_report`` is what the last
    :meth:`lock` found torn or unfinished and put right, None where nothing was.
    """

    def __init__(
        self,
        directory: Path,
        instance: str,
        seam: Seam,
        journal_size: int,
        codec: int,
        lock: JournalLock,
        wait: float,
        now: Micros,
    ) -> None:
        """Use :meth:`open`."""
        self.directory = directory
        self.instance = instance
        self.tail_report: TailReport | None = None
        self._seam = seam
        self._journal_size = max(journal_size, MIN_JOURNAL_SIZE)
        self._codec = codec
        self._lock = lock
        self._wait = wait
        self._locked = False
        self._failed: StorageError | None = None
        self._dirty = False
        self._fd = -1
        self._number = -1
        self._offset = 0
        self._acknowledged_offset = 0
        self._last_txid = 0
        self._synced_txid = 0
        self._open_group = 0
        self._pending: list[tuple[Position, BlockMap]] = []
        self._last_block = (0, 0)
        self._now = self._topics_saved = now
        self._topics_end: Position | None = None

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
        random: bytes,
        first_txid_floor: int = 0,
        acknowledged: int = 0,
        holder: str = "sowctl",
    ) -> JournalWriter:
        """Open, under the lock for a moment: start the journal if there is none, put a torn end right.

        ``now`` microseconds UTC, ``random`` 16 bytes for a new lineage, ``lock_wait`` seconds (also for every later
        :meth:`lock`). ``first_txid_floor``: a new journal starts above it. ``acknowledged``: highest txid that any
        store has applied. ``holder``: what the lock file says is running. Raises LockedError ``SOW-JRN-030``,
        StorageError ``SOW-JRN-021``, and the DamageErrors of reading.
        """
        if len(random) != 16:
            raise ValueError("a lineage needs 16 random bytes")
        numbers = list_numbers(directory, instance)
        try:
            _make_directory(directory, seam)
            lock = JournalLock(directory, instance, seam, holder, now)
        except OSError as error:
            raise _write_error(error, directory, None) from error
        writer = cls(directory, instance, seam, journal_size, codec, lock, lock_wait, now)
        try:
            with writer._holding():
                numbers = list_numbers(directory, instance)
                if not numbers:
                    writer._create_file(random, first_txid_floor + 1, 0, now, JournalState(Position(0, 0, 0)))
                writer.journal = Journal.open(directory, instance, seam=seam, acknowledged=acknowledged)
                writer._catch_up()
                writer._seen = writer.journal.end()
        except BaseException:
            writer._release_files()
            raise
        return writer

    journal: Journal
    _seen: Position

    @property
    def lineage(self) -> bytes:
        """16 bytes."""
        return self.journal.lineage

    @property
    def last_txid(self) -> int:
        """Last txid that is used up, as of the last lock and own appends."""
        return self._last_txid

    @property
    def synced_txid(self) -> int:
        """Everything up to it is on disk: acknowledged."""
        return self._synced_txid

    @contextmanager
    def lock(self) -> Iterator[JournalWriter]:
        """Hold the journal for one batch; on entry catches up with what others appended, on exit syncs what is not.

        A group still open on exit is aborted. Raises LockedError ``SOW-JRN-030``, StorageError ``SOW-JRN-021`` and
        ``SOW-JRN-022`` (failed before), and the DamageErrors of reading.
        """
        with self._holding():
            if self._others_wrote():
                self._catch_up()
            try:
                yield self
            finally:
                self._settle()

    def refresh(self) -> list[Block]:
        """The blocks that others appended since the last call, or since :meth:`open`.

        To be asked for before one's own first append under a lock; after it, one's own blocks are among them. Raises
        the DamageErrors of reading.
        """
        if self._seen == self._end():
            return []
        blocks = list(self.journal.blocks(start=self._seen))
        self._seen = self._end()
        return blocks

    def append(self, group: Group, now: Micros, *, last: bool = True) -> tuple[int, int]:
        """Write a group; returns its first and last txid. Not acknowledged before :meth:`sync`.

        With ``last=False`` the group stays open and the next append goes on with it. Raises StorageError
        ``SOW-JRN-021`` (the writer is of no more use then), LimitError ``SOW-JRN-016``.
        """
        self._ready()
        first = self._last_txid + 1
        blocks = list(encode(group, self._codec, first, self._open_group or first, last))
        size = sum(block.header.size for block in blocks)
        if not self._open_group and self._last_block[0] and self._offset + size > self._journal_size:
            self._roll(now)
        unseen = self._seen != self._end()
        self._write(blocks)
        if not unseen:
            self._seen = self._end()
        self._now = now
        return first, self._last_txid

    def sync(self) -> None:
        """Put everything that was appended on disk: this acknowledges it. Raises StorageError ``SOW-JRN-021``."""
        self._ready()
        if self._acknowledged_offset == self._offset:
            return
        try:
            self._seam.call("file.sync", os.fdatasync, self._fd)
        except OSError as error:
            self._fail(error)
        self._acknowledged_offset = self._offset
        self._synced_txid = self._last_txid

    def abort(self) -> None:
        """End an open group so that it has not happened; its txids stay used. Nothing where none is open."""
        self._ready()
        if self._open_group:
            self._write([abort_block(self._open_group, self._last_txid)])

    def end(self) -> Position:
        """The position behind the last complete group."""
        return self._end()

    def topic_state(self, topic: Topic) -> TopicState:
        """The last entry of a topic, as of the last lock and own appends."""
        return self._state.topics.get(topic, NO_TOPIC)

    def highest_sequence(self, publisher: int) -> int:
        """Highest sequence of a publisher (hash of its client name), 0 for none."""
        return self._state.publishers.get(publisher, ("", 0))[1]

    def close(self) -> None:
        """Write the topics file and close. A second time does nothing."""
        if self._fd >= 0:
            if self._failed is None:
                self._save_topics()
            self._release_files()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    _state: JournalState

    def _end(self) -> Position:
        return self._state.end

    @contextmanager
    def _holding(self) -> Iterator[None]:
        if self._locked:
            raise ValueError("the lock is held already")
        self._refuse_if_failed()
        try:
            self._lock.acquire(self._wait)
        except OSError as error:
            raise _write_error(error, self._lock.path, None) from error
        self._locked = True
        try:
            yield
        finally:
            self._locked = False
            self._lock.release()

    def _ready(self) -> None:
        if not self._locked:
            raise ValueError("the journal is not locked")
        self._refuse_if_failed()

    def _refuse_if_failed(self) -> None:
        if self._failed is not None:
            raise StorageError(
                "SOW-JRN-022",
                f"this writer stopped after an error: {self._failed.message}",
                place=self._failed.place,
                hint="open the journal again",
                acknowledged_txid=self._synced_txid,
            )

    def _others_wrote(self) -> bool:
        """Whether the journal is not as this writer left it."""
        there = os.fstat(self._fd)
        if there.st_size != self._offset or there.st_nlink == 0 or self._dirty:
            return True
        return self._path(self._number + 1).exists()

    def _catch_up(self) -> None:
        """Read on to the end, cut a torn tail, sync what others left, close an unfinished group."""
        if self._dirty:
            self.journal.forget()
        self._state = self.journal.state()
        report = self.tail_report = self.journal.tail_report
        self._adopt()
        try:
            if report is not None and report.size:
                cut_tail(self._fd, report.path, report.offset, self._seam)
                self._state = self.journal.state()
                report = self.journal.tail_report
            self._seam.call("file.sync", os.fdatasync, self._fd)
        except OSError as error:
            self._fail(error)
        self._settle_at(self._state.end)
        if report is not None and report.open_group:
            self._offset = self._acknowledged_offset = report.offset
            self._last_txid = report.last_txid
            self._open_group = report.open_group
            self._write([abort_block(report.open_group, report.last_txid)])
            self.sync()
        self._dirty = False

    def _adopt(self) -> None:
        """Open the last file for appending."""
        number = self._state.end.number
        if number == self._number and os.fstat(self._fd).st_nlink:
            return
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = self._seam.call("file.open", os.open, self._path(number), flags)
        except OSError as error:
            self._fail(error)
        self._switch(fd, number)

    def _switch(self, fd: int, number: int) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._number = fd, number

    def _settle_at(self, end: Position) -> None:
        """Everything up to ``end`` is on disk, and nothing is behind it."""
        self._offset = self._acknowledged_offset = end.offset
        self._last_txid = self._synced_txid = end.txid
        self._last_block = self._state.last_block
        self._open_group = 0
        self._pending = []

    def _write(self, blocks: list[EncodedBlock]) -> None:
        """Place blocks at the end of the file with one write, and count them in when it was complete."""
        parts: list[bytes] = []
        placed: list[tuple[Position, BlockMap]] = []
        offset = self._offset
        group = self._pending[0][0] if self._pending else Position(self._number, offset, self._last_txid)
        for block in blocks:
            header = pack_block_header(block.header, self._synced_txid, place_seed(self.lineage, self._number, offset))
            parts += (header, *block.body)
            placed.append((group, block.names))
            last_block = offset, int.from_bytes(header[-4:], "little")
            offset += block.header.size
        self._dirty = True
        try:
            write_all(self._seam, self._fd, b"".join(parts))
        except OSError as error:
            self._fail(error)
        self._offset = offset
        self._last_block = last_block
        self._last_txid = blocks[-1].header.last_txid
        self._open_group = 0 if blocks[-1].header.is_last else blocks[-1].header.group
        self._pending += placed
        if not self._open_group:
            if not blocks[-1].header.is_abort:
                for place, names in self._pending:
                    self._state.absorb(place, names)
            self._pending = []
            self._state.advance(Position(self._number, offset, self._last_txid), last_block)
        self._dirty = False

    def _settle(self) -> None:
        """Leave nothing half done behind when the lock goes."""
        if self._failed is not None:
            return
        if self._dirty:
            # A signal came in the middle of a write: what was not acknowledged is taken back.
            self._cut_back()
            return
        self.abort()
        self.sync()
        if self._now - self._topics_saved >= TOPICS_EVERY:
            self._save_topics()

    def _roll(self, now: Micros) -> None:
        """Go on in a new file; the old one is on disk before."""
        self.sync()
        self._save_topics()
        self._create_file(self.lineage, self._last_txid + 1, self._number + 1, now, self._state)
        self._offset = self._acknowledged_offset = os.fstat(self._fd).st_size
        self._last_block = (0, 0)
        seen_all = self._seen == self._end()
        self._state.advance(Position(self._number, self._offset, self._last_txid), (0, 0))
        if seen_all:
            self._seen = self._end()

    def _create_file(self, lineage: bytes, first_txid: int, number: int, now: Micros, state: JournalState) -> None:
        """Make a file with its header under another name, sync it, give it its name, sync the directory."""
        path = self._path(number)
        temporary = path.with_name(f".{path.name}.new")
        header = pack_file_header(lineage, first_txid, number, now, state.checkpoint())
        fd = -1
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = self._seam.call("file.open", os.open, temporary, flags, FILE_MODE)
            write_all(self._seam, fd, header)
            self._seam.call("file.sync", os.fsync, fd)
            self._seam.call("file.rename", os.rename, temporary, path)
            self._seam.call("dir.sync", sync_directory, self.directory)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            self._fail(error)
        self._switch(fd, number)

    def _fail(self, error: OSError) -> None:
        """Stop for good: take back what was not acknowledged, and say so. Always raises StorageError."""
        cut = self._cut_back()
        self._failed = _write_error(error, self._path(max(self._number, 0)), self._synced_txid, cut=cut)
        raise self._failed from error

    def _cut_back(self) -> bool:
        """Cut the file back to the last acknowledged block; whether that was possible and the block can be read."""
        self._dirty = True
        if self._fd < 0 or not self._locked:
            return False
        try:
            if os.fstat(self._fd).st_size > self._acknowledged_offset >= FILE_HEADER_SIZE:
                self._seam.call("file.truncate", os.ftruncate, self._fd, self._acknowledged_offset)
            self.journal.forget()
            return self.journal.end().offset == self._acknowledged_offset
        except (OSError, SowError, AttributeError):
            return False

    def _save_topics(self) -> None:
        """Write the topics file, where it would say something new. It is derived: not being able to is no error."""
        state = self._state
        if state.last_block[0] == 0 or state.end == self._topics_end or self._dirty:
            return
        self._topics_end = state.end
        self._topics_saved = self._now
        try:
            save(self.directory, self.instance, state.pack(self.lineage), self._seam)
        except OSError:
            pass

    def _path(self, number: int) -> Path:
        return self.directory / file_name(self.instance, number)

    def _release_files(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._lock.close()
        if hasattr(self, "journal"):
            self.journal.close()


def _make_directory(directory: Path, seam: Seam) -> None:
    """Make the directory and put its name on disk. Raises OSError."""
    if directory.is_dir():
        return
    _make_directory(directory.parent, seam)
    seam.call("dir.make", os.mkdir, directory, DIRECTORY_MODE)
    seam.call("dir.sync", sync_directory, directory.parent)


_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is too large",
}


def _write_error(error: OSError, path: Path, acknowledged: int | None, *, cut: bool = False) -> StorageError:
    """StorageError ``SOW-JRN-021`` in plain words."""
    reason = _FULL.get(error.errno or 0, error.strerror or str(error))
    durable = "" if acknowledged is None else f"; everything up to txid {acknowledged} is on disk"
    hint = "make room and run the command again" if error.errno in _FULL else "look at permissions and at the disk"
    return StorageError(
        "SOW-JRN-021",
        f"the journal cannot be written: {reason}{durable}",
        place=str(path),
        hint=hint,
        acknowledged_txid=acknowledged,
        cut_back=cut,
    )
