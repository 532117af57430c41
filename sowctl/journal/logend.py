"""The end of a journal under its writer's lock: read, repaired, appended to, and truncated when a write fails.

Called by :mod:`sowctl.journal.writer` alone, which holds the lock and decides what a batch is; the bytes of the file
are those of :mod:`sowctl.journal.appender`. Ruled by ``sow-journal(5)``, "Writing".
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.errors import RefusedError, SowError, StorageError
from sowctl.journal.appender import Appender, cut_tail, write_error
from sowctl.journal.block import Position, TailReport, TopicState
from sowctl.journal.blockcodec import BlockMap, compute_header_seed, pack_block_header
from sowctl.journal.format import format_block_place, pack_file_header
from sowctl.journal.group import EncodedBlock, build_abort_block
from sowctl.journal.reader import Journal
from sowctl.journal.state import JournalState, save_topics_file
from sowctl.remote.place import require_local
from sowctl.seam import Seam
from sowctl.values.times import MICROS_PER_SECOND, Micros
from sowctl.values.topicref import TopicRef

TOPICS_SAVE_INTERVAL_MICROS: Micros = 5 * MICROS_PER_SECOND
"""Time between two rewritings of the topics file."""


class NewJournal(Struct, frozen=True):
    """What a journal begins with: its ``lineage`` (16 bytes), and ``floor``, the txid above which it starts.

    ``beginnings``: topics that have a past before it, with their last txid and time; its checkpoint says so, for ever.
    """

    lineage: bytes
    floor: int = 0
    beginnings: Mapping[TopicRef, tuple[int, Micros]] = field(default_factory=dict)


class LogEnd:
    """The end of a journal, to which a writer's blocks are appended. Every method is called under the journal's lock.

    ``journal`` reads the same journal. ``state`` is that at the end of the last complete group, ``open_group`` the
    first txid of one that has begun (0 for none), ``tail_report`` what :meth:`catch_up` put right, ``cut`` all torn
    tails that it cut off, ``dirty`` whether the file may hold something that is not counted in, ``failed`` why nothing
    may be written any more; ``now`` is the time of the last append.
    """

    journal: Journal
    state: JournalState

    def __init__(self, file: Appender, seam: Seam, now: Micros) -> None:
        self.tail_report: TailReport | None = None
        self.cut: list[TailReport] = []
        self.last_txid = 0
        self.synced_txid = 0
        self.file = file
        self.open_group = 0
        self.dirty = False
        self._has_written = False
        self.failed: StorageError | None = None
        self.now = now
        self._seam = seam
        self._pending: list[tuple[Position, BlockMap]] = []
        # The header CRC of the last block, whether its group is complete or not: the next block names it.
        self._chain = 0
        self._topics_saved = now
        self._topics_end: Position | None = None

    @property
    def lineage(self) -> bytes:
        """16 bytes."""
        return self.journal.lineage

    def create_journal(self, new: NewJournal, first_txid: int, now: Micros) -> None:
        """The first file of a new journal."""
        # Topics that had entries before this journal are written into its first checkpoint: whether the journal reaches
        # back to a topic's beginning stays answerable for ever.
        state = JournalState(Position(0, 0, 0))
        for topic, (txid, time) in new.beginnings.items():
            state.topic_states[topic] = TopicState(txid, time, Position(0, 0, txid))
        checkpoint = state.encode_checkpoint()
        try:
            self.file.create_file(0, pack_file_header(new.lineage, first_txid, 0, now, checkpoint))
        except OSError as error:
            raise self._stop_after_failure(error) from error

    def catch_up(self) -> None:
        """Read on to the end, cut a torn tail, sync what other writers left, close an unfinished group.

        Raises StorageError ``SOW-JRN-021``, RefusedError ``SOW-JRN-052``, and the DamageErrors of reading.
        """
        if self.dirty:
            self.journal.forget()
        # What this writer has synced was acknowledged: where it is gone, a txid must not be given a second time.
        self.journal.note_synced_txid(self.synced_txid)
        # The reader judges the end by the same rules as for everyone: a torn tail is reported, damage raises and
        # nothing is written.
        self.state = self.journal.refresh_state()
        report = self.tail_report = self.journal.tail_report
        # The last file lies in the archive or is compressed: nothing can be appended to it.
        if self.journal.last_path != self.file.build_file_path(self.state.end.number):
            self._start_next_file(report)
            return
        try:
            self.file.open_file(self.state.end.number)
            if report is not None and report.size:
                # Order: the tail is copied and the copy synced before anything is cut, so no crash can lose bytes that
                # may still be needed.
                copy = cut_tail(self.file.fd, require_local(report.path), report.offset, self._seam)
                self.tail_report = replace(report, copy=copy)
                self.cut.append(self.tail_report)
                # Read again: cutting may leave an open group that now ends the file.
                self.state = self.journal.refresh_state()
                report = self.journal.tail_report
            # What other writers left may not be on disk yet if they died between write and sync. Syncing it here makes
            # everything before `offset` acknowledged, so that the next header may say so. `synced` is set before the
            # sync: if the sync fails, _cut_back must not truncate entries of other writers.
            self.file.resume_at(self.file.read_size())
            self.file.sync()
        except OSError as error:
            raise self._stop_after_failure(error) from error
        self._pending = []
        self.open_group = 0
        self._chain = self.state.chain
        self.last_txid = self.synced_txid = self.state.end.txid
        if report is not None:
            # An unfinished group is ended by an abort marker. Its txids stay used: a reader may have seen them.
            self.open_group = report.open_group
            self._chain = report.chain
            self.last_txid = self.synced_txid = report.last_txid
            self.abort_group()
            self.sync()
        self.dirty = False

    def _start_next_file(self, report: TailReport | None) -> None:
        """Go on in a new file, because the last one lies in the archive or is compressed."""
        if report is not None:
            # A torn end in a file that cannot be changed would stay torn in front of the new file, where readers call
            # it damage.
            raise RefusedError(
                "SOW-JRN-052",
                f"{report.text}, and the file cannot be changed in its place",
                place=format_block_place(report.path, report.offset),
                hint=f"move it back to {self.file.build_file_path(self.state.end.number)}, uncompressed",
            )
        self.last_txid = self.synced_txid = self.state.end.txid
        self._pending, self.open_group = [], 0
        self._next_file(self.state.end.number + 1, self.now)
        self.dirty = False

    def write(self, blocks: list[EncodedBlock]) -> None:
        """Place blocks at the end of the file with one write, and count them in when it was complete."""
        number, offset = self.file.number, self.file.offset
        # Blocks of one group may come in several writes: all are counted at the place where the group began.
        group = self._pending[0][0] if self._pending else Position(number, offset, self.last_txid)
        parts: list[bytes] = []
        last_block = 0, self._chain
        for block in blocks:
            # Each header says up to which txid everything was on disk when it was written. Readers take it as proof
            # that what stands before cannot be torn.
            seed = compute_header_seed(self.lineage, number, offset)
            header = pack_block_header(block.header, self.synced_txid, seed, last_block[1])
            parts += (header, *block.body)
            last_block = offset, int.from_bytes(header[-4:], "little")
            offset += block.header.size
        # From here until the write is complete the file may hold bytes that the state does not know; an exception or a
        # signal between leaves `dirty` set, and the next batch reads the end anew.
        self.dirty = True
        try:
            self.file.write(b"".join(parts))
        except OSError as error:
            raise self._stop_after_failure(error) from error
        self._chain = last_block[1]
        final = blocks[-1].header
        self.last_txid = final.last_txid
        self.open_group = 0 if final.is_last else final.group
        self._pending += [(group, block.names) for block in blocks]
        # Only a complete group changes the state; an aborted one advances the position without being counted.
        if final.is_last:
            for place, names in self._pending if not final.is_abort else ():
                self.state.absorb_block(place, names)
            self._pending = []
            self.state.advance_to(Position(number, offset, final.last_txid), last_block)
        self.dirty = False

    def sync(self) -> None:
        """Put everything that was appended on disk: this acknowledges it. Raises StorageError ``SOW-JRN-021``."""
        if self.file.synced == self.file.offset:
            return
        try:
            self.file.sync()
        except OSError as error:
            raise self._stop_after_failure(error) from error
        # Acknowledged from here on, and not a moment earlier.
        self._has_written = self._has_written or self.last_txid > self.synced_txid
        self.synced_txid = self.last_txid

    def abort_group(self) -> None:
        """End an open group so that it has not happened; its txids stay used. Nothing where none is open."""
        if self.open_group:
            self.write([build_abort_block(self.open_group, self.last_txid)])

    def finish_batch(self) -> None:
        """Leave nothing half done behind when the lock goes."""
        # After a failed write or sync the kernel may have dropped dirty pages: nothing more is tried with this file.
        if self.failed is not None:
            return
        if self.dirty:
            # A signal came in the middle of a write: what was not acknowledged is taken back.
            self._cut_back()
            return
        self.abort_group()
        self.sync()
        if self.now - self._topics_saved >= TOPICS_SAVE_INTERVAL_MICROS:
            self.save_topics()

    def roll_file(self, now: Micros) -> None:
        """Go on in a new file; the old one is on disk before."""
        # The old file is on disk before the new one gets its name: readers rely on every file but the last being whole.
        self.sync()
        self.save_topics()
        self._next_file(self.file.number + 1, now)

    def _next_file(self, number: int, now: Micros) -> None:
        # The checkpoint carries the state into the new file, so that later readers need not walk the old ones.
        header = pack_file_header(
            self.lineage,
            self.last_txid + 1,
            number,
            now,
            self.state.encode_checkpoint(),
            (self.state.last_block[0], self.state.chain),
            self.state.file_version,
        )
        try:
            self.file.create_file(number, header)
        except OSError as error:
            raise self._stop_after_failure(error) from error
        self.state.advance_to(Position(number, self.file.offset, self.last_txid), (0, 0))

    def save_topics(self) -> None:
        """Write the topics file, where it would say something new. It is derived: not being able to is no error."""
        state = self.state
        # Without a block in this file there is nothing by which a reader could verify the topics file; with unknown
        # bytes in the file the state is not that of its end.
        if state.last_block[0] == 0 or state.end == self._topics_end or self.dirty:
            return
        self._topics_end = state.end
        self._topics_saved = self.now
        try:
            save_topics_file(
                self.file.directory, self.file.instance, state.encode_topics_file(self.lineage), self._seam
            )
        except OSError:
            pass

    def _stop_after_failure(self, error: OSError) -> StorageError:
        """Stop for good: take back what was not acknowledged; the error to raise."""
        # What was written but not acknowledged is taken back, so that an error report and the file agree.
        cut_back = self._cut_back()
        self.failed = write_error(
            error, self.file.path, self.synced_txid, has_written=self._has_written, cut_back=cut_back
        )
        return self.failed

    def _cut_back(self) -> bool:
        """Cut the file back to the last acknowledged block; whether that was possible and the block can be read."""
        self.dirty = True
        try:
            self.file.truncate_unsynced()
            self.journal.forget()
            # The cut is proven by reading: the journal must end again exactly where the last acknowledged block
            # does.
            return self.journal.find_end().offset == self.file.synced
        except (OSError, SowError, AttributeError):
            return False

    def close(self) -> None:
        """Close the journal that reads it."""
        if hasattr(self, "journal"):
            self.journal.close()
