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
    """Everything up to ``end`` is counted in. ``last_block``: offset and header CRC of the last block of that file.

    ``chain`` is the header CRC of the last block, in whichever file, 0 where it is not known. ``histories`` are those
    that restores ended, oldest first.
    """

    end: Position
    last_block: tuple[int, int] = (0, 0)
    topic_states: dict[TopicRef, TopicState] = field(default_factory=dict)
    publishers: dict[int, tuple[str, int]] = field(default_factory=dict)
    marks: list[tuple[int, int]] = field(default_factory=list)
    chain: int = 0
    histories: tuple[EndedHistory, ...] = ()

    def absorb_block(self, group: Position, names: BlockMap) -> None:
        """Count in one block of the group that starts at ``group``."""
        for row in names.topic_rows:
            # Blocks come in txid order, so the last row wins. The position is that of the group, because reading can
            # begin only between groups.
            self.topic_states[row.topic] = TopicState(row.last_txid, row.last_time, group)
        for who in names.publishers:
            # A publisher may send a lower number again; what counts is the highest one ever acknowledged.
            if who.sequence >= self.publishers.get(who.hash, ("", 0))[1]:
                self.publishers[who.hash] = who.client, who.sequence
        # Marks are places where a reader may begin: one per MiB keeps a search short and the topics file small.
        if group.offset >= (self.marks[-1][1] if self.marks else 0) + JOURNAL_LIMITS.mark_interval_bytes:
            self.marks.append((group.txid, group.offset))

    def advance_to(self, end: Position, last_block: tuple[int, int]) -> None:
        """Note that everything before ``end`` has been read."""
        # Marks are offsets in one file: they do not survive its successor.
        if end.number != self.end.number:
            self.marks = []
        self.end = end
        self.last_block = last_block
        self.chain = last_block[1] or self.chain

    @property
    def block_identity(self) -> tuple[int, int, int] | None:
        """Number of the file, offset and header CRC of the last block; None where the last file holds no block yet."""
        return (self.end.number, *self.last_block) if self.last_block[0] else None

    def encode_checkpoint(self) -> bytes:
        """The bytes for the header of the next file."""
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
        """The rows of topics and of publishers, as a checkpoint has them."""
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
        """The whole topics file."""
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
    """The state at the start of a file of ``version``, whose header says ``chain``. Raises ValueError."""
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
    """Read a topics file; None where it is damaged, of another version, or of another journal."""
    if len(raw) < TOPICS_HEADER.size:
        return None
    magic, version, crc = TOPICS_HEADER.unpack_from(raw)
    body = memoryview(raw)[TOPICS_HEADER.size :]
    # The file is derived: anything that is not exactly right counts as missing, and the state is read from the journal.
    if magic != TOPICS_MAGIC or version != BLOCK_VERSION or crc != crc32(body):
        return None
    try:
        owner, number, offset, txid, block, block_crc, topic_rows, publishers, marks = unpack_rows(body, 9)
        # Files of another journal may lie here after a restore: their offsets mean nothing in this one.
        if owner != lineage:
            return None
        # Every field is proven to be of its type: the CRC shows that the bytes are as written, not that this program
        # wrote them.
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
    """Topics by name and type, out of the rows of a checkpoint. Raises ValueError."""
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
    """The bytes of the topics file, none where it is missing or its disk fails: it is derived, so that is no error.

    Not being permitted to read it is one: it may prove that entries are missing, of which the reader would not be told.
    Raises StorageError ``SOW-JRN-053``.
    """
    path = build_topics_path(directory, instance)
    try:
        # A missing or unreadable file only means more to read. One that exists and may not be read is refused: it might
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
    """The state that the topics file tells, or None; whether its places are those of the files is not asked here."""
    return decode_topics_file(read_topics_file(directory, instance), lineage)


def read_last_known_txid(directory: Path, instance: str) -> int:
    """The last txid that a topics file knows, of whichever lineage; 0 where there is none that can be read."""
    # Whatever its lineage: a txid that was once given must never be given again in this directory.
    return told.end.txid if (told := read_topics_lineage(directory, instance)[1]) is not None else 0


def read_topics_lineage(directory: Path, instance: str) -> tuple[bytes, JournalState | None]:
    """The lineage that a topics file is of, whichever that is, and what it tells; None where it cannot be read."""
    raw = read_topics_file(directory, instance)
    try:
        lineage = unpack_rows(memoryview(raw)[TOPICS_HEADER.size :], 9)[0]
        return lineage, decode_topics_file(raw, lineage)
    except ValueError:
        return b"", None


def limit_topic_txid(directory: Path, instance: str, topic: TopicRef, applied: int, seam: Seam) -> None:
    """Let a topics file tell no more of a topic than ``applied``, the last txid that a store was built up to.

    For a journal that was given up: what was acknowledged behind it is lost, and that was accepted. The last txid of
    all stays, so that none is given twice. Raises OSError.
    """
    lineage, told = read_topics_lineage(directory, instance)
    known = told.topic_states.get(topic) if told is not None else None
    if told is not None and known is not None and known.last_txid > applied:
        told.topic_states[topic] = replace(known, last_txid=applied)
        save_topics_file(directory, instance, told.encode_topics_file(lineage), seam)


def find_last_counted_block(told: JournalState, file: JournalFile) -> BlockRef | None:
    """The last block that a topics file counted in, if ``file`` has it where it says, header unchanged.

    Then nothing before it has to be read to know what it tells. That it had been synced is so either way: where the
    block is missing it was lost.
    """
    # A topics file is believed only through a block that is still there unchanged.
    if told.end.number != file.number:
        return None
    ref = file.find_block_at(told.last_block[0])
    is_it = ref is not None and (ref.header.crc, ref.end_offset) == (told.last_block[1], told.end.offset)
    return ref if is_it else None


def save_topics_file(directory: Path, instance: str, content: bytes, seam: Seam) -> None:
    """Replace the topics file. Not synced: what a crash leaves of it is noticed by its CRC. Raises OSError.

    It keeps its mode: who may read the journal has to be able to read what proves where that ended.
    """
    path = build_topics_path(directory, instance)
    # Written aside and renamed: readers see the old file or the new one. It is not synced, because losing it costs a
    # longer walk and nothing else.
    temporary = directory / f".{instance}.topics.{os.getpid()}.new"
    fd = seam.call("file.open", os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            write_all(seam, fd, content)
            if path.exists():
                # A reader that may not read this file is refused, so the mode that an administrator gave it is kept.
                os.fchmod(fd, path.stat().st_mode & 0o777)
        finally:
            os.close(fd)
        seam.call("file.rename", os.rename, temporary, path)
    except OSError:
        # Such as of a full disk: nobody would remove what stands there under the number of this process.
        with suppress(OSError):
            temporary.unlink()
        raise


def write_all(seam: Seam, fd: int, content: bytes, write: Callable[[int, memoryview], int] = os.write) -> None:
    """Write every byte: a short count is gone on with. Raises OSError."""
    rest = memoryview(content)
    while rest:
        # A full disk or a signal may cut a write short without an error; the next attempt reports it.
        written = seam.call("file.write", write, fd, rest)
        if written <= 0:
            raise OSError("nothing was written")
        rest = rest[written:]
