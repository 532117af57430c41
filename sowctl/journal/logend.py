"""The end of a journal under its writer's lock: reading, repairing, appending, and truncating after a failed write.

Called only by :mod:`sowctl.journal.writer`, which holds the lock and defines batches; :mod:`sowctl.journal.appender`
writes the bytes of the file. Specified in ``sow-journal(5)``, "Writing".
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
"""Minimum time between two updates of the topics file."""


class NewJournal(Struct, frozen=True):
    """Initial facts of a journal: its ``lineage`` (16 bytes), and ``floor``, the txid above which it starts.

    ``beginnings``: topics with earlier history, with their last txid and time; the first checkpoint records them
    permanently.
    """

    lineage: bytes
    floor: int = 0
    beginnings: Mapping[TopicRef, tuple[int, Micros]] = field(default_factory=dict)


class LogEnd:
    """The end of a journal, to which a writer appends blocks. Every method is called under the journal's lock.

    ``journal`` reads the same journal. ``state`` is the state at the end of the last complete group, ``open_group`` the
    first txid of an open group (0 for none), ``tail_report`` the tail that :meth:`catch_up` repaired, ``cut`` all torn
    tails that it cut off, ``dirty`` whether the file may contain bytes that the state does not include, ``failed`` the
    error after which nothing may be written; ``now`` is the time of the last append.
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
        """Create the first file of a new journal."""
        # Topics that had entries before this journal are recorded in its first checkpoint, so that it is always known
        # whether the journal reaches back to the beginning of a topic.
        state = JournalState(Position(0, 0, 0))
        for topic, (txid, time) in new.beginnings.items():
            state.topic_states[topic] = TopicState(txid, time, Position(0, 0, txid))
        checkpoint = state.encode_checkpoint()
        try:
            self.file.create_file(0, pack_file_header(new.lineage, first_txid, 0, now, checkpoint))
        except OSError as error:
            raise self._stop_after_failure(error) from error

    def catch_up(self) -> None:
        """Read up to the end, cut off a torn tail, sync entries of other writers, abort an unfinished group.

        Raises StorageError ``SOW-JRN-021``, RefusedError ``SOW-JRN-052``, and the DamageErrors of reading.
        """
        if self.dirty:
            self.journal.forget()
        # Txids that this writer synced were acknowledged: if they are lost, they must not be assigned again.
        self.journal.note_synced_txid(self.synced_txid)
        # The reader applies the same rules to the end as for every other reader: a torn tail is reported, damage raises
        # an error and nothing is written.
        self.state = self.journal.refresh_state()
        report = self.tail_report = self.journal.tail_report
        # The last file is archived or compressed: nothing can be appended to it.
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
                # Read again: the cut may leave an open group at the end of the file.
                self.state = self.journal.refresh_state()
                report = self.journal.tail_report
            # Entries of other writers may not be on disk yet if they died between write and sync. Syncing them here
            # acknowledges everything before `offset`, so that the next header may record it. `synced` is set before the
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
        """Continue in a new file, because the last one is archived or compressed."""
        if report is not None:
            # A torn end in a file that cannot be changed would stay before the new file, where readers classify it as
            # damage.
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
        """Append blocks with one write, and add them to the state after the write."""
        number, offset = self.file.number, self.file.offset
        # Blocks of one group may be appended by several writes: all are recorded at the position where the group began.
        group = self._pending[0][0] if self._pending else Position(number, offset, self.last_txid)
        parts: list[bytes] = []
        last_block = 0, self._chain
        for block in blocks:
            # Each header records the txid up to which everything was on disk when it was written. For readers this
            # proves that earlier blocks cannot be torn.
            seed = compute_header_seed(self.lineage, number, offset)
            header = pack_block_header(block.header, self.synced_txid, seed, last_block[1])
            parts += (header, *block.body)
            last_block = offset, int.from_bytes(header[-4:], "little")
            offset += block.header.size
        # Until the write is complete the file may contain bytes that the state does not include; an exception or a
        # signal in between leaves `dirty` set, and the next batch reads the end again.
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
        """Sync all appended blocks, which acknowledges them. Raises StorageError ``SOW-JRN-021``."""
        if self.file.synced == self.file.offset:
            return
        last_txid = self.last_txid
        try:
            self.file.sync()
        except OSError as error:
            raise self._stop_after_failure(error) from error
        # The txids are acknowledged only from this point on.
        self._has_written = self._has_written or last_txid > self.synced_txid
        self.synced_txid = last_txid

    def abort_group(self) -> None:
        """Abort an open group, if there is one; its txids stay used."""
        if self.open_group:
            self.write([build_abort_block(self.open_group, self.last_txid)])

    def finish_batch(self) -> None:
        """Leave a consistent end before the lock is released."""
        # After a failed write or sync the kernel may have dropped dirty pages: this file is not written again.
        if self.failed is not None:
            return
        if self.dirty:
            # A signal interrupted a write: cut off the unacknowledged part.
            self._cut_back()
            return
        self.abort_group()
        self.sync()
        if self.now - self._topics_saved >= TOPICS_SAVE_INTERVAL_MICROS:
            self.save_topics()

    def roll_file(self, now: Micros) -> None:
        """Continue in a new file after syncing the old one."""
        # The old file is synced before the new one gets its name: readers rely on all files except the last being
        # complete.
        self.sync()
        self.save_topics()
        self._next_file(self.file.number + 1, now)

    def _next_file(self, number: int, now: Micros) -> None:
        # The checkpoint carries the state into the new file, so that later readers need not walk the older ones.
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
        """Write the topics file if it would change. The file is derived, so failing to write it is no error."""
        state = self.state
        # Without a block in this file, a reader could not verify the topics file; with unknown bytes in the file the
        # state does not describe its end.
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
        """Stop permanently: cut off the unacknowledged part and return the error to raise."""
        # The unacknowledged part is cut off, so that error report and file agree.
        cut_back = self._cut_back()
        self.failed = write_error(
            error, self.file.path, self.synced_txid, has_written=self._has_written, cut_back=cut_back
        )
        return self.failed

    def _cut_back(self) -> bool:
        """Truncate the file to the last acknowledged block; return whether this worked and the block can be read."""
        self.dirty = True
        try:
            self.file.truncate_unsynced()
            self.journal.forget()
            # Reading proves the truncation: the journal must end exactly after the last acknowledged block.
            return self.journal.find_end().offset == self.file.synced
        except (OSError, SowError, AttributeError):
            return False

    def close(self) -> None:
        """Close the journal reader."""
        if hasattr(self, "journal"):
            self.journal.close()
