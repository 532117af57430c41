"""Segment files: prepared messages of one task attempt, staged for a commit (``sowctl-pipeline(1)``, STAGING).

A segment is temporary: written once by a task, read by the commit of the run it belongs to, removed with it; no other
program reads one. It is a row of blocks like a journal's: a header, the columns, and the payloads, both with checksums
and compressed apart, so that a commit reads columns without payloads. The columns of entries are those of a journal's
block, packed and read by its functions. Messages stand in the order of the input: ascending by file and position.
Written by :mod:`sowctl.engine.bulk.task` and :mod:`sowctl.engine.bulk.merge`, read by :mod:`sowctl.engine.bulk.commit`.
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
"""Marks of a message: a time of its own; a lifetime of its own in microseconds; an instant of expiry of its own; a
delta."""

SEGMENT_MAGIC = b"\x89SEG2\r\n\x1a"
BLOCK_HEADER = struct.Struct("<8sIIIIIIIII")
"""Magic, entries, block flags, raw and stored bytes of the columns, of the payloads, CRC of both as stored, CRC of this
header."""

_STAGED_COLUMNS = {"positions": "<i8", "lifetimes": "<i8", "hashes": "<u8", "files": "<u4", "marks": "<u4"}
_STAGED_BYTES = 32
"""Bytes per message of the staged columns, which stand before those of the entries."""
_TOPIC_REFS = [TopicRef("", "")]
"""A run has one topic, which its segments do not name."""

MAX_BLOCK_ENTRIES = 4096
MAX_BLOCK_BYTES = 4 << 20
MAX_SEGMENT_ENTRIES = 1 << 20

InputOrder = tuple[int, int]
"""File number and position in it."""


class SegmentInfo(Struct, frozen=True):
    """A finished segment: file name, entries, payload bytes, and the orders of its first and last message."""

    name: str
    entries: int
    payload_bytes: int
    first: InputOrder
    last: InputOrder


class StagedBatch(DescribedStruct, dict=True):
    """Messages of a run, and what is staged besides their entries; arrays of a number for each message.

    ``entries`` are publishes and deletions: their times are those that messages bring (``HAS_TIME``), the commit gives
    the others, and expirations. ``files`` and ``positions`` are the order in the input, ``lifetimes`` microseconds or
    instants, as ``marks`` say. ``hashes``, xxh3-64 of the payloads, are there once a block was written.
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
        """The columns of the entries."""
        from sowctl.journal.arrays import EntryArrays

        return EntryArrays(self.entries)

    def slice(self, start: int, stop: int) -> StagedBatch:
        """The messages from ``start`` to ``stop``, exclusive."""
        return StagedBatch(self.entries.slice(start, stop), *self._pick_staged(slice(start, stop)))

    def take(self, places: Any) -> StagedBatch:
        """The messages at these places, an array of integers, in their order."""
        return StagedBatch(self.arrays.take(places), *self._pick_staged(places))

    def get_order(self, place: int) -> InputOrder:
        """The place of a message in the input."""
        return int(self.files[place]), int(self.positions[place])

    def count_until(self, order: InputOrder) -> int:
        """Count the messages up to a place in the input, inclusive."""
        low, high = (int(self.files.searchsorted(order[0], side)) for side in ("left", "right"))
        return low + int(self.positions[low:high].searchsorted(order[1], "right"))

    def is_ascending(self) -> bool:
        """Return whether the messages stand in the order of the input, none twice."""
        files, positions = self.files, self.positions
        later = (files[1:] > files[:-1]) | ((files[1:] == files[:-1]) & (positions[1:] > positions[:-1]))
        return bool(later.all())

    def _pick_staged(self, places: Any) -> list[Any]:
        columns = self.files, self.positions, self.lifetimes, self.marks, self.hashes
        return [None if column is None else column[places] for column in columns]


def concatenate_staged(parts: Sequence[StagedBatch]) -> StagedBatch:
    """The messages of batches, one batch behind the other, without hashes."""
    import numpy

    if len(parts) == 1:
        return parts[0]
    columns = [(part.files, part.positions, part.lifetimes, part.marks) for part in parts]
    entries = concatenate_batches([part.entries for part in parts])
    return StagedBatch(entries, *[numpy.concatenate(some) for some in zip(*columns, strict=True)])


def encode_block(batch: StagedBatch) -> bytes:
    """A block with its header."""
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
    # Columns and payloads are compressed apart: deciding reads columns several times, and payloads hardly ever.
    sizes = len(raw_columns), len(columns), len(raw_payloads), len(stored)
    # The header has a checksum of its own: its sizes say where the next block begins, and are used before the rest is
    # read.
    head = BLOCK_HEADER.pack(SEGMENT_MAGIC, len(batch), flags, *sizes, crc32(columns), crc32(stored), 0)[:-4]
    return b"".join((head, crc32(head).to_bytes(4, "little"), columns, stored))


def decode_block(raw: memoryview, count: int, flags: int, payloads: _StagedPayloads) -> StagedBatch:
    """The messages of a block of ``count`` entries, whose columns are decompressed. Raises ValueError."""
    import numpy

    found: dict[str, Any] = {}
    at = 0
    for name, dtype in _STAGED_COLUMNS.items():
        # Views into the decompressed bytes: no column is copied.
        found[name] = numpy.frombuffer(raw, dtype=dtype, count=count, offset=at)
        at += count * int(dtype[2])
    entries: EntryBatch = codec.unpack_columns(
        raw[_STAGED_BYTES * count :], range(count), flags, payloads.size, _TOPIC_REFS, [], payloads.read
    )
    entries.txids = None
    return StagedBatch(entries, **found)


class _StagedPayloads:
    """The payloads of a block, read when first asked for; ``size`` is theirs, ``stored`` that in the file."""

    def __init__(self, reader: SegmentReader, offset: int, size: int, stored: int, crc: int) -> None:
        self._reader, self._offset, self.size, self._stored, self._crc = reader, offset, size, stored, crc
        self._raw: memoryview | None = None

    def read(self) -> memoryview:
        """All payloads, back to back. Raises DamageError ``SOW-ENG-041``."""
        if self._raw is None:
            self._raw = self._reader.read_part(self._offset, self._stored, self._crc, self.size)
        return self._raw


class SegmentWriter:
    """Writes one segment under a temporary name; :meth:`finish` gives it its own. Not for several threads."""

    def __init__(self, directory: Path, name: str) -> None:
        self._final = directory / name
        # Under another name until it is whole: a task that dies leaves nothing that could be taken for a segment.
        self._path = directory / f"{name}.tmp"
        self._held: list[StagedBatch] = []
        self._count = 0
        self._size = 0
        self._entries = 0
        self._bytes = 0
        self._first: InputOrder | None = None
        self.last: InputOrder = (-1, -1)
        try:
            # With x: two attempts of one name would write into one file, and must not.
            self._file: IO[bytes] = self._path.open("xb")
        except OSError as problem:
            raise _describe_unwritable(problem, self._path) from problem

    def add_batch(self, batch: StagedBatch) -> None:
        """Add messages, in their order; ValueError where the order does not ascend."""
        if not len(batch):
            return
        # The merge takes the first and the last order of a segment for its bounds: a row out of order would be lost in
        # it.
        if batch.get_order(0) <= self.last or not batch.is_ascending():
            raise ValueError("messages of a segment must ascend by file and position")
        self._first = self._first or batch.get_order(0)
        self.last = batch.get_order(-1)
        self._held.append(batch)
        self._count += len(batch)
        self._size += sum(batch.entries.lengths)
        # Both limits bound what the commit holds at once: a block of columns, and a block of payloads.
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
        """Write what is left, sync, and let the segment have its name."""
        if self._held:
            self._flush_held()
        try:
            self._file.flush()
            # Synced before it gets its name, and named before the driver hears of it: a segment with a name is whole.
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
    """Reads a segment block by block. Raises DamageError ``SOW-ENG-041`` where a checksum is wrong."""

    def __init__(self, directory: Path, info: SegmentInfo) -> None:
        self.info = info
        self.path = directory / info.name
        self._file = self.path.open("rb")

    def iterate_batches(self) -> Iterator[StagedBatch]:
        """The messages of every block; payloads are read when they are asked for, while the segment is open."""
        seen = offset = 0
        while head := os.pread(self._file.fileno(), BLOCK_HEADER.size, offset):
            count, flags, raw_columns, columns, raw_payloads, stored, crc = self._parse_block_header(head)
            offset += len(head)
            raw = self.read_part(offset, columns, crc[0], raw_columns)
            # Payloads may neither be read nor decompressed: the file's next block begins behind them.
            payloads = _StagedPayloads(self, offset + columns, raw_payloads, stored, crc[1])
            offset += columns + stored
            try:
                found = decode_block(raw, count, flags, payloads)
            except ValueError as error:
                raise self._describe_damage() from error
            seen += count
            yield found
        # The driver was told how many there are: a file that ends between two blocks looks whole, and is not.
        if seen != self.info.entries:
            raise self._describe_damage()

    def read_part(self, offset: int, size: int, crc: int, raw_size: int) -> memoryview:
        """A part of a block of ``size`` bytes as stored, decompressed. Raises DamageError ``SOW-ENG-041``."""
        stored = os.pread(self._file.fileno(), size, offset)
        # Proven before it is decompressed: a damaged length must not decide how much memory is taken.
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
    """The messages of every block of ``segments``, one after the other. Raises as :class:`SegmentReader`."""
    for info in segments:
        with SegmentReader(directory, info) as reader:
            yield from reader.iterate_batches()


def _find_block_bounds(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for place, length in enumerate(lengths):
        # One payload larger than a block stands in a block of its own.
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
