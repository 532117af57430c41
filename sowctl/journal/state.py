"""The state of a journal: last entry per topic, highest sequence per publisher, and its end.

It is the content of checkpoints and of the derived file ``INSTANCE.topics`` (``sow-journal(5)``, "The topics file").
Used by reader, writer and check.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.checksum import crc32
from sowctl.directories import FILE_MODE
from sowctl.errors import StorageError
from sowctl.journal.block import EndedHistory, Position, TopicState
from sowctl.journal.blockcodec import BlockMap
from sowctl.journal.files import BlockRef, JournalFile
from sowctl.journal.format import (
    BLOCK_VERSION,
    TOPICS_HEADER,
    TOPICS_MAGIC,
    pack_rows,
    require_number,
    require_text,
    unpack_rows,
)
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.seam import Seam
from sowctl.values.topicref import TopicRef

EMPTY_TOPIC_STATE = TopicState(0, 0, None)


class JournalState(Struct):
    """State of the journal up to ``end``. ``last_block``: offset and header CRC of the last block of that file.

    ``chain`` is the header CRC of the last block, in whichever file, 0 if unknown. ``histories`` are the histories that
    restores ended, oldest first.
    """

    end: Position
    last_block: tuple[int, int] = (0, 0)
    topic_states: dict[TopicRef, TopicState] = field(default_factory=dict)
    publishers: dict[int, tuple[str, int]] = field(default_factory=dict)
    marks: list[tuple[int, int]] = field(default_factory=list)
    chain: int = 0
    histories: tuple[EndedHistory, ...] = ()

    def absorb_block(self, group: Position, names: BlockMap) -> None:
        """Add one block of the group that starts at ``group``."""
        for row in names.topic_rows:
            # Blocks come in txid order, so the last row wins. The position is that of the group, because reading can
            # begin only between groups.
            self.topic_states[row.topic] = TopicState(row.last_txid, row.last_time, group)
        for who in names.publishers:
            # A publisher may send a lower number again; the highest one ever acknowledged counts.
            if who.sequence >= self.publishers.get(who.hash, ("", 0))[1]:
                self.publishers[who.hash] = who.client, who.sequence
        # Marks are offsets at which a reader may begin: one per MiB keeps a search short and the topics file small.
        if group.offset >= (self.marks[-1][1] if self.marks else 0) + JOURNAL_LIMITS.mark_interval_bytes:
            self.marks.append((group.txid, group.offset))

    def advance_to(self, end: Position, last_block: tuple[int, int]) -> None:
        """Note that everything before ``end`` has been read."""
        # Marks are offsets in one file: a new file discards them.
        if end.number != self.end.number:
            self.marks = []
        self.end = end
        self.last_block = last_block
        self.chain = last_block[1] or self.chain

    @property
    def block_identity(self) -> tuple[int, int, int] | None:
        """Number of the file, offset and header CRC of the last block; None if the last file has no block yet."""
        return (self.end.number, *self.last_block) if self.last_block[0] else None

    def encode_checkpoint(self) -> bytes:
        """Return the checkpoint for the header of the next file."""
        # The third list requires version 2 (file_version); a journal that was never restored stays at version 1.
        rows: list[Any] = [self._topic_rows(), self._publisher_rows()]
        if self.histories:
            rows.append([[one.lineage, one.last_txid, one.above, one.time] for one in self.histories])
        return pack_rows(rows)

    @property
    def file_version(self) -> int:
        """The format version of a file that begins with :meth:`encode_checkpoint`."""
        return 2 if self.histories else 1

    def build_rows(self) -> tuple[list[list[Any]], list[list[Any]]]:
        """Return the rows of topics and of publishers, as in a checkpoint."""
        return self._topic_rows(), self._publisher_rows()

    def _topic_rows(self) -> list[list[Any]]:
        return [
            [*topic, state.last_txid, state.last_time, at.number, at.offset, at.txid]
            for topic, state in self.topic_states.items()
            if (at := state.position) is not None
        ]

    def _publisher_rows(self) -> list[list[Any]]:
        return [[who, client, sequence] for who, (client, sequence) in self.publishers.items()]

    def encode_topics_file(self, lineage: bytes) -> bytes:
        """Return the content of the topics file."""
        end = self.end
        body = pack_rows(
            [
                lineage,
                end.number,
                end.offset,
                end.txid,
                *self.last_block,
                self._topic_rows(),
                self._publisher_rows(),
                [list(mark) for mark in self.marks],
            ]
        )
        return TOPICS_HEADER.pack(TOPICS_MAGIC, BLOCK_VERSION, crc32(body)) + body


def decode_checkpoint(raw: memoryview, end: Position, chain: int = 0, version: int = 1) -> JournalState:
    """Return the state at the start of a file of ``version``, with ``chain`` from its header. Raises ValueError."""
    topic_rows, publishers, *more = unpack_rows(raw, 3 if version > 1 else 2)
    histories = tuple(
        EndedHistory(bytes(lineage), require_number(last), require_number(above), require_number(time))
        # `more` is empty in version 1.
        for rows in more
        for lineage, last, above, time in rows
    )
    return JournalState(
        end,
        topic_states=decode_topic_states(topic_rows),
        publishers=_decode_publishers(publishers),
        chain=chain,
        histories=histories,
    )


def decode_topics_file(raw: bytes, lineage: bytes) -> JournalState | None:
    """Decode a topics file; None if it is damaged, of another version, or of another journal."""
    if len(raw) < TOPICS_HEADER.size:
        return None
    magic, version, crc = TOPICS_HEADER.unpack_from(raw)
    body = memoryview(raw)[TOPICS_HEADER.size :]
    # The file is derived: unless it is exactly right it counts as missing, and the state is read from the journal.
    if magic != TOPICS_MAGIC or version != BLOCK_VERSION or crc != crc32(body):
        return None
    try:
        owner, number, offset, txid, block, block_crc, topic_rows, publishers, marks = unpack_rows(body, 9)
        # After a restore the directory may contain the topics file of another journal, whose offsets mean nothing in
        # this one.
        if owner != lineage:
            return None
        # The type of every field is checked: the CRC proves that the bytes are unchanged, not that this program wrote
        # them.
        end = Position(require_number(number), require_number(offset), require_number(txid))
        pairs = [(require_number(before), require_number(at)) for before, at in marks]
        return JournalState(
            end,
            (require_number(block), require_number(block_crc)),
            decode_topic_states(topic_rows),
            _decode_publishers(publishers),
            pairs,
            require_number(block_crc),
        )
    except (ValueError, TypeError):
        return None


def decode_topic_states(rows: Iterable[Any]) -> dict[TopicRef, TopicState]:
    """Return topics by name and type from the rows of a checkpoint. Raises ValueError."""
    return {
        TopicRef(require_text(name), require_text(kind)): TopicState(
            require_number(txid),
            require_number(at),
            Position(require_number(number), require_number(offset), require_number(before)),
        )
        for name, kind, txid, at, number, offset, before in rows
    }


def _decode_publishers(rows: list[Any]) -> dict[int, tuple[str, int]]:
    return {require_number(who): (require_text(client), require_number(sequence)) for who, client, sequence in rows}


def build_topics_path(directory: Path, instance: str) -> Path:
    """Return the path of the topics file of an instance."""
    return directory / f"{instance}.topics"


def read_topics_file(directory: Path, instance: str) -> bytes:
    """Return the topics file, or no bytes if it is missing or its disk fails: it is derived, so this is no error.

    A permission error is raised: the file may prove that entries are missing, which the reader would not notice. Raises
    StorageError ``SOW-JRN-053``.
    """
    path = build_topics_path(directory, instance)
    try:
        # A missing or unreadable file only means more to read. A file without read permission is an error: it might
        # prove that entries are missing.
        return path.read_bytes() if path.is_file() else b""
    except PermissionError:
        raise StorageError(
            "SOW-JRN-053",
            "permission denied: cannot read the topics file, which has the synced position of the journal",
            place=str(path),
            hint="grant read permission on the file, as for the journal files",
        ) from None
    except OSError:
        return b""


def load_topics_state(directory: Path, instance: str, lineage: bytes) -> JournalState | None:
    """Return the state in the topics file, or None; does not check its offsets against the journal files."""
    return decode_topics_file(read_topics_file(directory, instance), lineage)


def read_last_known_txid(directory: Path, instance: str) -> int:
    """Return the last txid in a topics file, of any lineage; 0 if it is missing or invalid."""
    # Of any lineage: a txid must never be assigned twice in this directory.
    return told.end.txid if (told := read_topics_lineage(directory, instance)[1]) is not None else 0


def read_topics_lineage(directory: Path, instance: str) -> tuple[bytes, JournalState | None]:
    """Return the lineage of a topics file, whichever it is, and its state; None if the file is invalid."""
    raw = read_topics_file(directory, instance)
    try:
        lineage = unpack_rows(memoryview(raw)[TOPICS_HEADER.size :], 9)[0]
        return lineage, decode_topics_file(raw, lineage)
    except ValueError:
        return b"", None


def limit_topic_txid(directory: Path, instance: str, topic: TopicRef, applied: int, seam: Seam) -> None:
    """Lower the last txid of a topic in a topics file to ``applied``, the last txid up to which a store was built.

    For an abandoned journal: acknowledged entries after it are lost, and this loss was accepted. The last txid of the
    journal stays, so that no txid is assigned twice. Raises OSError.
    """
    lineage, told = read_topics_lineage(directory, instance)
    known = told.topic_states.get(topic) if told is not None else None
    if told is not None and known is not None and known.last_txid > applied:
        told.topic_states[topic] = replace(known, last_txid=applied)
        save_topics_file(directory, instance, told.encode_topics_file(lineage), seam)


def find_last_counted_block(told: JournalState, file: JournalFile) -> BlockRef | None:
    """Return the last block that a topics file includes, if ``file`` has it at that offset with an unchanged header.

    Then the state in the topics file is valid without reading any earlier block. That the block was synced is certain
    in any case: if it is missing, it was lost.
    """
    # A topics file is trusted only if its last block still exists unchanged.
    if told.end.number != file.number:
        return None
    ref = file.find_block_at(told.last_block[0])
    is_it = ref is not None and (ref.header.crc, ref.end_offset) == (told.last_block[1], told.end.offset)
    return ref if is_it else None


def save_topics_file(directory: Path, instance: str, content: bytes, seam: Seam) -> None:
    """Replace the topics file without syncing it: the CRC detects the remains of a crash. Raises OSError.

    The file keeps its mode: readers of the journal need to read the proof of its last position.
    """
    path = build_topics_path(directory, instance)
    # Written to a temporary file and renamed: readers see the old file or the new one. It is not synced, because its
    # loss costs only a longer walk.
    temporary = directory / f".{instance}.topics.{os.getpid()}.new"
    fd = seam.call("file.open", os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            write_all(seam, fd, content)
            if path.exists():
                # A reader without permission for this file gets an error, so the mode set by an administrator is kept.
                os.fchmod(fd, path.stat().st_mode & 0o777)
        finally:
            os.close(fd)
        seam.call("file.rename", os.rename, temporary, path)
    except OSError:
        # For example a full disk: no other process would remove the temporary file, whose name has the id of this
        # process.
        with suppress(OSError):
            temporary.unlink()
        raise


def write_all(seam: Seam, fd: int, content: bytes, write: Callable[[int, memoryview], int] = os.write) -> None:
    """Write all bytes, continuing after short writes. Raises OSError."""
    rest = memoryview(content)
    while rest:
        # A full disk or a signal may cut a write short without an error; the next attempt reports it.
        written = seam.call("file.write", write, fd, rest)
        if written <= 0:
            raise OSError("nothing was written")
        rest = rest[written:]
