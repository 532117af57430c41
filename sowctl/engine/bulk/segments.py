"""Segment files: prepared messages of one task attempt, staged for a commit (``sowctl-pipeline(1)``, STAGING).

Segments are temporary: a task writes them once, and the commit of the same run reads them. They are removed with the
run; no other program reads them. A segment is a sequence of blocks like those of a journal: a header, columns and
payloads. Columns and payloads have checksums and are compressed separately, so that a commit can read only the columns.
The columns of entries are those of a journal block, packed and read by its functions. Messages are in input order,
ascending by file and position. Written by :mod:`sowctl.engine.bulk.task` and :mod:`sowctl.engine.bulk.merge`, read by
:mod:`sowctl.engine.bulk.commit`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.errors import DamageError, StorageError
from sowctl.journal import columns as codec
from sowctl.journal.blockcodec import CODEC_ZSTD
from sowctl.journal.entries import EntryBatch, concatenate_batches
from sowctl.journal.group import pack_columns
from sowctl.structs import DescribedStruct
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    import numpy

    from sowctl.journal.arrays import EntryArrays

HAS_TIME, HAS_LIFETIME, EXPIRES_AT, IS_DELTA = 1, 2, 4, 8
"""Marks of a message: it has its own time; its own lifetime in microseconds; its own instant of expiration; it is a
delta."""

SEGMENT_MAGIC = b"\x89SEG2\r\n\x1a"
BLOCK_HEADER = struct.Struct("<8sIIIIIIIII")
"""Magic, entries, block flags, raw and stored bytes of the columns and of the payloads, CRCs of the stored columns and
payloads, CRC of this header."""

_STAGED_COLUMNS = {"positions": "<i8", "lifetimes": "<i8", "hashes": "<u8", "files": "<u4", "marks": "<u4"}
_STAGED_BYTES = 32
"""Bytes per message of the staged columns, which precede those of the entries."""
_TOPIC_REFS = [TopicRef("", "")]
"""A placeholder: a run has one topic, which its segments do not store."""

MAX_BLOCK_ENTRIES = 4096
MAX_BLOCK_BYTES = 4 << 20
MAX_SEGMENT_ENTRIES = 1 << 20

InputOrder = tuple[int, int]
"""File number, and position in the file."""


class SegmentInfo(Struct, frozen=True):
    """A finished segment: file name, entries, payload bytes, and input order of the first and last message."""

    name: str
    entries: int
    payload_bytes: int
    first: InputOrder
    last: InputOrder


class StagedBatch(DescribedStruct, dict=True):
    """Messages of a run: their entries, and further columns as arrays with one number per message.

    ``entries`` are publishes and deletions. Only times of messages with ``HAS_TIME`` are set; the commit sets the
    others, and expirations. ``files`` and ``positions`` are the input order; ``lifetimes`` are microseconds or
    instants, depending on ``marks``. ``hashes`` are xxh3-64 of the payloads, None before a block is written.
    """

    entries: EntryBatch
    files: numpy.ndarray[Any, Any]
    positions: numpy.ndarray[Any, Any]
    lifetimes: numpy.ndarray[Any, Any]
    marks: numpy.ndarray[Any, Any]
    hashes: numpy.ndarray[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def arrays(self) -> EntryArrays:
        """The columns of the entries as arrays."""
        from sowctl.journal.arrays import EntryArrays

        return EntryArrays(self.entries)

    def slice(self, start: int, stop: int) -> StagedBatch:
        """Return the messages from ``start`` to before ``stop``."""
        return StagedBatch(self.entries.slice(start, stop), *self._pick_staged(slice(start, stop)))

    def take(self, places: Any) -> StagedBatch:
        """Return the messages at these indexes, an array of integers, in the order of the indexes."""
        return StagedBatch(self.arrays.take(places), *self._pick_staged(places))

    def get_order(self, place: int) -> InputOrder:
        """Return the position of a message in the input order."""
        return int(self.files[place]), int(self.positions[place])

    def count_until(self, order: InputOrder) -> int:
        """Count the messages up to a position in the input order, inclusive."""
        low, high = (int(self.files.searchsorted(order[0], side)) for side in ("left", "right"))
        return low + int(self.positions[low:high].searchsorted(order[1], "right"))

    def is_ascending(self) -> bool:
        """Return whether the messages are strictly ascending in input order."""
        files, positions = self.files, self.positions
        later = (files[1:] > files[:-1]) | ((files[1:] == files[:-1]) & (positions[1:] > positions[:-1]))
        return bool(later.all())

    def _pick_staged(self, places: Any) -> list[Any]:
        columns = self.files, self.positions, self.lifetimes, self.marks, self.hashes
        return [None if column is None else column[places] for column in columns]


def concatenate_staged(parts: Sequence[StagedBatch]) -> StagedBatch:
    """Concatenate batches; the result of several batches has no hashes."""
    import numpy

    if len(parts) == 1:
        return parts[0]
    columns = [(part.files, part.positions, part.lifetimes, part.marks) for part in parts]
    entries = concatenate_batches([part.entries for part in parts])
    return StagedBatch(entries, *[numpy.concatenate(some) for some in zip(*columns, strict=True)])


def encode_block(batch: StagedBatch) -> bytes:
    """Encode a block with its header."""
    import numpy
    import xxhash

    payloads = batch.entries.payloads
    hashes = numpy.array(list(map(xxhash.xxh3_64_intdigest, payloads)), dtype="<u8")
    staged = [
        (hashes if name == "hashes" else getattr(batch, name)).astype(dtype).tobytes()
        for name, dtype in _STAGED_COLUMNS.items()
    ]
    packed, flags = pack_columns(batch.entries)
    raw_columns, raw_payloads = b"".join((*staged, packed)), b"".join(payloads)
    columns, stored = codec.compress_part(CODEC_ZSTD, raw_columns), codec.compress_part(CODEC_ZSTD, raw_payloads)
    # Columns and payloads are compressed separately: deciding reads columns several times, but payloads rarely.
    sizes = len(raw_columns), len(columns), len(raw_payloads), len(stored)
    # The header has a separate checksum, because its sizes are used to find the next block before the rest is read.
    head = BLOCK_HEADER.pack(SEGMENT_MAGIC, len(batch), flags, *sizes, crc32(columns), crc32(stored), 0)[:-4]
    return b"".join((head, crc32(head).to_bytes(4, "little"), columns, stored))


def decode_block(raw: memoryview, count: int, flags: int, payloads: _StagedPayloads) -> StagedBatch:
    """Decode a block of ``count`` entries from its decompressed columns. Raises ValueError if they are invalid."""
    import numpy

    found: dict[str, Any] = {}
    at = 0
    for name, dtype in _STAGED_COLUMNS.items():
        # Views of the decompressed bytes, without copies.
        found[name] = numpy.frombuffer(raw, dtype=dtype, count=count, offset=at)
        at += count * int(dtype[2])
    entries: EntryBatch = codec.unpack_columns(
        raw[_STAGED_BYTES * count :], range(count), flags, payloads.size, _TOPIC_REFS, [], payloads.read
    )
    entries.txids = None
    return StagedBatch(entries, **found)


class _StagedPayloads:
    """The payloads of a block, read at first use; ``size`` is their raw size, ``stored`` that in the file."""

    def __init__(self, reader: SegmentReader, offset: int, size: int, stored: int, crc: int) -> None:
        self._reader, self._offset, self.size, self._stored, self._crc = reader, offset, size, stored, crc
        self._raw: memoryview | None = None

    def read(self) -> memoryview:
        """Return the concatenated payloads. Raises DamageError ``SOW-ENG-041`` if they are damaged."""
        if self._raw is None:
            self._raw = self._reader.read_part(self._offset, self._stored, self._crc, self.size)
        return self._raw


class SegmentWriter:
    """Writes one segment under a temporary name, which :meth:`finish` changes to the final name. Not thread-safe."""

    def __init__(self, directory: Path, name: str) -> None:
        self._final = directory / name
        # The name is temporary until the segment is complete, so that a task that dies leaves no incomplete segment.
        self._path = directory / f"{name}.tmp"
        self._held: list[StagedBatch] = []
        self._count = 0
        self._size = 0
        self._entries = 0
        self._bytes = 0
        self._first: InputOrder | None = None
        self.last: InputOrder = (-1, -1)
        try:
            # Mode x prevents two attempts with the same name from writing to the same file.
            self._file: IO[bytes] = self._path.open("xb")
        except OSError as problem:
            raise _describe_unwritable(problem, self._path) from problem

    def add_batch(self, batch: StagedBatch) -> None:
        """Add messages in input order. Raises ValueError if the order does not ascend."""
        if not len(batch):
            return
        # The merge uses the first and last message of a segment as its bounds; it would lose a message out of order.
        if batch.get_order(0) <= self.last or not batch.is_ascending():
            raise ValueError("messages of a segment must ascend by file and position")
        self._first = self._first or batch.get_order(0)
        self.last = batch.get_order(-1)
        self._held.append(batch)
        self._count += len(batch)
        self._size += sum(batch.entries.lengths)
        # Both limits bound the memory of the commit, which holds a block of columns and a block of payloads.
        if self._count >= MAX_BLOCK_ENTRIES or self._size >= MAX_BLOCK_BYTES:
            self._flush_held()

    def _flush_held(self) -> None:
        held, self._held, self._count, self._size = concatenate_staged(self._held), [], 0, 0
        try:
            for start, stop in _find_block_bounds(held.entries.lengths):
                part = held.slice(start, stop)
                self._entries += len(part)
                self._bytes += sum(part.entries.lengths)
                self._file.write(encode_block(part))
        except OSError as problem:
            raise _describe_unwritable(problem, self._path) from problem

    def finish(self) -> SegmentInfo:
        """Write the remaining messages, sync, and rename the segment to its final name."""
        if self._held:
            self._flush_held()
        try:
            self._file.flush()
            # Sync before renaming, and rename before the driver is notified, so that a segment with a final name is
            # complete.
            os.fsync(self._file.fileno())
            self._file.close()
            self._path.rename(self._final)
        except OSError as problem:
            raise _describe_unwritable(problem, self._path) from problem
        return SegmentInfo(self._final.name, self._entries, self._bytes, self._first or (-1, -1), self.last)

    def discard(self) -> None:
        """Close and remove an unfinished segment."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class SegmentReader:
    """Reads a segment block by block. Raises DamageError ``SOW-ENG-041`` if it is damaged or incomplete."""

    def __init__(self, directory: Path, info: SegmentInfo) -> None:
        self.info = info
        self.path = directory / info.name
        self._file = self.path.open("rb")

    def iterate_batches(self) -> Iterator[StagedBatch]:
        """Yield the messages of each block; payloads are read at first use, while the segment is open."""
        seen = offset = 0
        while head := os.pread(self._file.fileno(), BLOCK_HEADER.size, offset):
            count, flags, raw_columns, columns, raw_payloads, stored, crc = self._parse_block_header(head)
            offset += len(head)
            raw = self.read_part(offset, columns, crc[0], raw_columns)
            # Payloads that are not used are neither read nor decompressed; the next block begins after them.
            payloads = _StagedPayloads(self, offset + columns, raw_payloads, stored, crc[1])
            offset += columns + stored
            try:
                found = decode_block(raw, count, flags, payloads)
            except ValueError as error:
                raise self._describe_damage() from error
            seen += count
            yield found
        # A file that was truncated between two blocks looks complete, so compare with the count that the task reported.
        if seen != self.info.entries:
            raise self._describe_damage()

    def read_part(self, offset: int, size: int, crc: int, raw_size: int) -> memoryview:
        """Read and decompress a part of a block with ``size`` stored bytes. Raises DamageError ``SOW-ENG-041``."""
        stored = os.pread(self._file.fileno(), size, offset)
        # Verify the checksum before decompressing, so that a damaged length cannot cause a large allocation.
        if len(stored) != size or crc32(stored) != crc:
            raise self._describe_damage()
        return codec.decompress_part(CODEC_ZSTD, memoryview(stored), raw_size)

    def _parse_block_header(self, head: bytes) -> tuple[int, int, int, int, int, int, tuple[int, int]]:
        if len(head) != BLOCK_HEADER.size or crc32(head[:-4]) != int.from_bytes(head[-4:], "little"):
            raise self._describe_damage()
        magic, count, flags, raw_columns, columns, raw_payloads, stored, crc_columns, crc_payloads, _ = (
            BLOCK_HEADER.unpack(head)
        )
        if magic != SEGMENT_MAGIC or not 0 < count <= MAX_SEGMENT_ENTRIES:
            raise self._describe_damage()
        return count, flags, raw_columns, columns, raw_payloads, stored, (crc_columns, crc_payloads)

    def _describe_damage(self) -> DamageError:
        return DamageError(
            "SOW-ENG-041",
            "a staged segment is damaged or incomplete",
            place=str(self.path),
            hint="nothing was published; run the job again",
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> SegmentReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_segments(directory: Path, segments: Iterable[SegmentInfo]) -> Iterator[StagedBatch]:
    """Yield the messages of each block of ``segments``, in order. Raises as :class:`SegmentReader`."""
    for info in segments:
        with SegmentReader(directory, info) as reader:
            yield from reader.iterate_batches()


def _find_block_bounds(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for place, length in enumerate(lengths):
        # A payload that exceeds the limit gets a separate block.
        if place > start and (place - start >= MAX_BLOCK_ENTRIES or size + length > MAX_BLOCK_BYTES):
            yield start, place
            start, size = place, 0
        size += length
    if start < len(lengths):
        yield start, len(lengths)


def _describe_unwritable(problem: OSError, path: Path) -> StorageError:
    return StorageError(
        "SOW-ENG-042",
        f"a staged segment cannot be written: {problem.strerror or problem}",
        place=str(path),
        hint="free space, or give another --staging directory",
    )
