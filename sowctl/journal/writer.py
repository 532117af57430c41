"""Appending to a journal under its lock (``sow-journal(5)``, "Writing")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from sowctl.errors import SowError, StorageError
from sowctl.journal.appender import Appender, make_directory, write_error
from sowctl.journal.block import Block, Position, TailReport, TopicState
from sowctl.journal.format import (
    CODEC_ZSTD,
    BlockMap,
    Topic,
    check_instance,
    pack_block_header,
    pack_file_header,
    place_seed,
)
from sowctl.journal.group import EncodedBlock, Group, abort_block, encode
from sowctl.journal.lock import JournalLock
from sowctl.journal.reader import Journal
from sowctl.journal.repair import cut_tail
from sowctl.journal.state import NO_TOPIC, JournalState, save
from sowctl.seam import SEAM, Seam
from sowctl.values.times import SECOND, Micros

MIN_JOURNAL_SIZE = 1024
TOPICS_EVERY: Micros = 5 * SECOND
"""Time between two rewritings of the topics file."""


class JournalWriter:
    """One appender; not for several threads.

    ``journal`` reads the same journal (its ``blocks`` may be used under the lock). ``tail_report`` is what the last
    :meth:`lock` found torn or unfinished and put right, None where nothing was. ``last_txid`` is used up, as of the
    last lock and own appends; everything up to ``synced_txid`` is on disk: acknowledged.
    """

    journal: Journal
    _state: JournalState
    _seen: Position

    def __init__(
        self, file: Appender, lock: JournalLock, seam: Seam, journal_size: int, codec: int, wait: float, now: Micros
    ) -> None:
        """Use :meth:`open`."""
        self.tail_report: TailReport | None = None
        self.last_txid = 0
        self.synced_txid = 0
        self._file = file
        self._lock = lock
        self._seam = seam
        self._journal_size = max(journal_size, MIN_JOURNAL_SIZE)
        self._codec = codec
        self._wait = wait
        self._locked = False
        self._dirty = False
        self._failed: StorageError | None = None
        self._open_group = 0
        self._pending: list[tuple[Position, BlockMap]] = []
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
        beginnings: Mapping[Topic, tuple[int, Micros]] | None = None,
        holder: str = "sowctl",
    ) -> JournalWriter:
        """Open, under the lock for a moment: start the journal if there is none, put a torn end right.

        ``now`` microseconds UTC, ``random`` 16 bytes for a new lineage, ``lock_wait`` seconds (also for every later
        :meth:`lock`). ``first_txid_floor``: a new journal starts above it. ``acknowledged``: highest txid that any
        store has applied. ``beginnings``: topics that have a past before a new journal, with their last txid and time;
        its checkpoint says so, for ever. ``holder``: what the lock file says is running. Raises LockedError
        ``SOW-JRN-030``, StorageError ``SOW-JRN-021``, and the DamageErrors of reading.
        """
        if len(random) != 16:
            raise ValueError("a lineage needs 16 random bytes")
        check_instance(instance)
        try:
            make_directory(directory, seam)
            lock = JournalLock(directory, instance, seam, holder, now)
        except OSError as error:
            raise write_error(error, directory, None) from error
        writer = cls(Appender(directory, instance, seam), lock, seam, journal_size, codec, lock_wait, now)
        try:
            with writer._holding():
                if not Journal.exists(directory, instance):
                    writer._start(random, first_txid_floor + 1, now, beginnings or {})
                writer.journal = Journal.open(directory, instance, seam=seam, acknowledged=acknowledged)
                writer._catch_up()
                writer._seen = writer.end()
        except BaseException:
            writer._release()
            raise
        return writer

    @property
    def lineage(self) -> bytes:
        """16 bytes."""
        return self.journal.lineage

    @contextmanager
    def lock(self) -> Iterator[JournalWriter]:
        """Hold the journal for one batch; on entry catches up with what others appended, on exit syncs what is not.

        A group still open on exit is aborted. Raises LockedError ``SOW-JRN-030``, StorageError ``SOW-JRN-021`` and
        ``SOW-JRN-022`` (failed before), and the DamageErrors of reading.
        """
        with self._holding():
            if self._dirty or not self._file.is_as_left():
                self._catch_up()
            else:
                self.tail_report = None
            try:
                yield self
            finally:
                self._settle()

    def refresh(self) -> list[Block]:
        """The blocks that others appended since the last call, or since :meth:`open`.

        To be asked for before one's own first append under a lock; after it, one's own blocks are among them. Raises
        the DamageErrors of reading.
        """
        if self._seen == self.end():
            return []
        blocks = list(self.journal.blocks(start=self._seen))
        self._seen = self.end()
        return blocks

    def append(self, group: Group, now: Micros, *, last: bool = True) -> tuple[int, int]:
        """Write a group; returns its first and last txid. Not acknowledged before :meth:`sync`.

        With ``last=False`` the group stays open and the next append goes on with it. Raises StorageError
        ``SOW-JRN-021`` (the writer is of no more use then), LimitError ``SOW-JRN-016``.
        """
        self._ready()
        self._now = now
        first = self.last_txid + 1
        blocks = list(encode(group, self._codec, first, self._open_group or first, last))
        size = sum(block.header.size for block in blocks)
        if not self._open_group and self._state.last_block[0] and self._file.offset + size > self._journal_size:
            self._roll(now)
        saw_all = self._seen == self.end()
        self._write(blocks)
        if saw_all:
            self._seen = self.end()
        return first, self.last_txid

    def sync(self) -> None:
        """Put everything that was appended on disk: this acknowledges it. Raises StorageError ``SOW-JRN-021``."""
        self._ready()
        if self._file.synced == self._file.offset:
            return
        try:
            self._file.sync()
        except OSError as error:
            raise self._fail(error) from error
        self.synced_txid = self.last_txid

    def abort(self) -> None:
        """End an open group so that it has not happened; its txids stay used. Nothing where none is open."""
        self._ready()
        if self._open_group:
            self._write([abort_block(self._open_group, self.last_txid)])

    def end(self) -> Position:
        """The position behind the last complete group."""
        return self._state.end

    def topic_state(self, topic: Topic) -> TopicState:
        """The last entry of a topic, as of the last lock and own appends."""
        return self._state.topics.get(topic, NO_TOPIC)

    def highest_sequence(self, publisher: int) -> int:
        """Highest sequence of a publisher (hash of its client name), 0 for none."""
        return self._state.publishers.get(publisher, ("", 0))[1]

    def close(self) -> None:
        """Write the topics file and close. A second time does nothing."""
        if self._file.fd >= 0:
            if self._failed is None:
                self._save_topics()
            self._release()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _holding(self) -> Iterator[None]:
        if self._locked:
            raise ValueError("the lock is held already")
        self._refuse_if_failed()
        try:
            self._lock.acquire(self._wait)
        except OSError as error:
            raise write_error(error, self._lock.path, None) from error
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
                acknowledged_txid=self.synced_txid,
            )

    def _start(
        self, lineage: bytes, first_txid: int, now: Micros, beginnings: Mapping[Topic, tuple[int, Micros]]
    ) -> None:
        """The first file of a new journal."""
        state = JournalState(Position(0, 0, 0))
        for topic, (txid, time) in beginnings.items():
            state.topics[topic] = TopicState(txid, time, Position(0, 0, txid))
        checkpoint = state.checkpoint()
        try:
            self._file.create(0, pack_file_header(lineage, first_txid, 0, now, checkpoint))
        except OSError as error:
            raise self._fail(error) from error

    def _catch_up(self) -> None:
        """Read on to the end, cut a torn tail, sync what others left, close an unfinished group."""
        if self._dirty:
            self.journal.forget()
        self._state = self.journal.state()
        report = self.tail_report = self.journal.tail_report
        try:
            self._file.adopt(self._state.end.number)
            if report is not None and report.size:
                cut_tail(self._file.fd, report.path, report.offset, self._seam)
                self._state = self.journal.state()
                report = self.journal.tail_report
            self._file.stand_at(self._file.size())
            self._file.sync()
        except OSError as error:
            raise self._fail(error) from error
        self._pending = []
        self._open_group = 0
        self.last_txid = self.synced_txid = self._state.end.txid
        if report is not None:
            self._open_group = report.open_group
            self.last_txid = self.synced_txid = report.last_txid
            self.abort()
            self.sync()
        self._dirty = False

    def _write(self, blocks: list[EncodedBlock]) -> None:
        """Place blocks at the end of the file with one write, and count them in when it was complete."""
        number, offset = self._file.number, self._file.offset
        group = self._pending[0][0] if self._pending else Position(number, offset, self.last_txid)
        parts: list[bytes] = []
        last_block = 0, 0
        for block in blocks:
            header = pack_block_header(block.header, self.synced_txid, place_seed(self.lineage, number, offset))
            parts += (header, *block.body)
            last_block = offset, int.from_bytes(header[-4:], "little")
            offset += block.header.size
        self._dirty = True
        try:
            self._file.write(b"".join(parts))
        except OSError as error:
            raise self._fail(error) from error
        final = blocks[-1].header
        self.last_txid = final.last_txid
        self._open_group = 0 if final.is_last else final.group
        self._pending += [(group, block.names) for block in blocks]
        if final.is_last:
            for place, names in self._pending if not final.is_abort else ():
                self._state.absorb(place, names)
            self._pending = []
            self._state.advance(Position(number, offset, final.last_txid), last_block)
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
        saw_all = self._seen == self.end()
        number = self._file.number + 1
        header = pack_file_header(self.lineage, self.last_txid + 1, number, now, self._state.checkpoint())
        try:
            self._file.create(number, header)
        except OSError as error:
            raise self._fail(error) from error
        self._state.advance(Position(number, self._file.offset, self.last_txid), (0, 0))
        if saw_all:
            self._seen = self.end()

    def _fail(self, error: OSError) -> StorageError:
        """Stop for good: take back what was not acknowledged; the error to raise."""
        cut_back = self._cut_back()
        self._failed = write_error(error, self._file.path, self.synced_txid, cut_back=cut_back)
        return self._failed

    def _cut_back(self) -> bool:
        """Cut the file back to the last acknowledged block; whether that was possible and the block can be read."""
        self._dirty = True
        try:
            self._file.cut_back()
            self.journal.forget()
            return self.journal.end().offset == self._file.synced
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
            save(self._file.directory, self._file.instance, state.pack(self.lineage), self._seam)
        except OSError:
            pass

    def _release(self) -> None:
        self._file.close()
        self._lock.close()
        if hasattr(self, "journal"):
            self.journal.close()
