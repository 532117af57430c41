"""Segment files: prepared messages of one task attempt, staged for a commit (``sowctl-pipeline(1)``, STAGING).

A segment is temporary: written once by a task, read by the commit of the run it belongs to, removed with it; no other
program reads one. It is a row of blocks like a journal's: a header, the columns, and the payloads, both with checksums
and compressed apart, so that a commit reads columns without payloads. Messages stand in the order of the input:
ascending by file and position. What is written are :class:`SegmentRows`, what is read are :class:`SegmentColumns`.
Written by :mod:`sowctl.engine.bulk.task` and :mod:`sowctl.engine.bulk.merge`, read by :mod:`sowctl.engine.bulk.commit`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct, field

from sowctl.checksum import crc32
from sowctl.errors import DamageError, StorageError
from sowctl.journal import columns as codec
from sowctl.journal.blockcodec import CODEC_ZSTD
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import numpy

PUBLISH, DELETE, DELTA = 1, 2, 3
"""Operations, in the lowest two bits of the flags."""
OPERATION_MASK = 3
HAS_USER_KEY, HAS_CORRELATION_ID = 4, 8
STAGED_TEXTS = (("user_keys", HAS_USER_KEY), ("correlation_ids", HAS_CORRELATION_ID))
"""The optional texts of staged messages, by the names of their columns, and the flags of messages that have one."""
HAS_TIME, HAS_LIFETIME, EXPIRES_AT = 16, 32, 64
"""A time of its own; a lifetime of its own in microseconds; an instant of expiry of its own."""

SEGMENT_MAGIC = b"\x89SEG1\r\n\x1a"
BLOCK_HEADER = struct.Struct("<8sIIIIIIII")
"""Magic, entries, raw and stored bytes of the columns, of the payloads, CRC of both as stored, CRC of this header."""

_FIXED_COLUMNS = (
    ("keys", ">u8"),
    ("checks", ">u8"),
    ("hashes", "<u8"),
    ("positions", "<i8"),
    ("times", "<i8"),
    ("lifetimes", "<i8"),
    ("files", "<u4"),
    ("lengths", "<u4"),
    ("flags", "<u2"),
)
ENTRY_BYTES = 58

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


class SegmentColumns(DescribedStruct):
    """The columns of a block as numpy arrays; texts None where no entry has one. ``hashes`` are xxh3-64 of payloads."""

    keys: numpy.ndarray[Any, Any]
    checks: numpy.ndarray[Any, Any]
    hashes: numpy.ndarray[Any, Any]
    positions: numpy.ndarray[Any, Any]
    times: numpy.ndarray[Any, Any]
    lifetimes: numpy.ndarray[Any, Any]
    files: numpy.ndarray[Any, Any]
    lengths: numpy.ndarray[Any, Any]
    flags: numpy.ndarray[Any, Any]
    user_keys: list[bytes | None] | None
    correlation_ids: list[bytes | None] | None

    def __len__(self) -> int:
        return len(self.keys)


class SegmentRows(Struct):
    """Messages to write, by columns of plain values; ``keys`` and ``checks`` 8 bytes each."""

    files: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    checks: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    lifetimes: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    user_keys: list[bytes | None] = field(default_factory=list)
    correlation_ids: list[bytes | None] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def slice_rows(self, start: int, stop: int) -> SegmentRows:
        """Return some of the rows."""
        return SegmentRows(*(getattr(self, name)[start:stop] for name in self.__struct_fields__))

    def extend(self, other: SegmentRows) -> None:
        """Add those of another."""
        for name in self.__struct_fields__:
            getattr(self, name).extend(getattr(other, name))


def encode_block(rows: SegmentRows) -> bytes:
    """A block with its header."""
    import numpy
    import xxhash

    numbers: dict[str, Any] = {
        "hashes": list(map(xxhash.xxh3_64_intdigest, rows.payloads)),
        "lengths": list(map(len, rows.payloads)),
    }
    # Keys and check words are bytes in the order of their numbers, so these columns are joined as they are.
    parts = [b"".join(rows.keys), b"".join(rows.checks)]
    parts += [
        numpy.array(numbers.get(name) or getattr(rows, name), dtype=dtype).tobytes()
        for name, dtype in _FIXED_COLUMNS[2:]
    ]
    size = ENTRY_BYTES * len(rows)
    for texts in (getattr(rows, name) for name, _ in STAGED_TEXTS):
        if any(text is not None for text in texts):
            parts.append(codec.pack_text_column(texts, size))
            size += len(parts[-1])
    raw_columns, raw_payloads = b"".join(parts), b"".join(rows.payloads)
    columns, payloads = codec.compress_part(CODEC_ZSTD, raw_columns), codec.compress_part(CODEC_ZSTD, raw_payloads)
    # Columns and payloads are compressed apart: deciding reads columns several times, and payloads hardly ever.
    sizes = len(raw_columns), len(columns), len(raw_payloads), len(payloads)
    # The header has a checksum of its own: its sizes say where the next block begins, and are used before the rest is
    # read.
    head = BLOCK_HEADER.pack(SEGMENT_MAGIC, len(rows), *sizes, crc32(columns), crc32(payloads), 0)[:-4]
    return b"".join((head, crc32(head).to_bytes(4, "little"), columns, payloads))


def decode_block(raw: memoryview, count: int) -> SegmentColumns:
    """The columns of a block of ``count`` entries, decompressed."""
    import numpy

    at = 0
    found: list[Any] = []
    for _, dtype in _FIXED_COLUMNS:
        # Views into the decompressed bytes: no column is copied.
        found.append(numpy.frombuffer(raw, dtype=dtype, count=count, offset=at))
        at += count * int(dtype[2])
    flags = found[-1]
    texts: list[list[bytes | None] | None] = []
    for _, bit in STAGED_TEXTS:
        if not (flags & bit).any():
            texts.append(None)
            continue
        # Columns of texts begin at a multiple of eight bytes, as in a block of the journal.
        at += -at % 8
        lengths = numpy.frombuffer(raw, dtype="<u4", count=count, offset=at).tolist()
        ends = list(accumulate(lengths, initial=at + 4 * count))
        spans = zip(flags.tolist(), pairwise(ends), strict=True)
        # The flag tells an absent text from an empty one; both have length 0.
        texts.append([bytes(raw[start:end]) if flag & bit else None for flag, (start, end) in spans])
        at = ends[-1]
    return SegmentColumns(*found, *texts)


class SegmentWriter:
    """Writes one segment under a temporary name; :meth:`finish` gives it its own. Not for several threads."""

    def __init__(self, directory: Path, name: str) -> None:
        self._final = directory / name
        # Under another name until it is whole: a task that dies leaves nothing that could be taken for a segment.
        self._path = directory / f"{name}.tmp"
        self._rows = SegmentRows()
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

    def add_rows(self, rows: SegmentRows) -> None:
        """Add messages, in their order; ValueError where the order does not ascend."""
        orders = list(zip(rows.files, rows.positions, strict=True))
        if not orders:
            return
        # The merge takes the first and the last order of a segment for its bounds: a row out of order would be lost in
        # it.
        if orders[0] <= self.last or any(a >= b for a, b in pairwise(orders)):
            raise ValueError("messages of a segment must ascend by file and position")
        self._first = self._first or orders[0]
        self.last = orders[-1]
        self._rows.extend(rows)
        self._size += sum(map(len, rows.payloads))
        # Both limits bound what the commit holds at once: a block of columns, and a block of payloads.
        if len(self._rows) >= MAX_BLOCK_ENTRIES or self._size >= MAX_BLOCK_BYTES:
            self._flush_rows()

    def _flush_rows(self) -> None:
        rows, self._rows, self._size = self._rows, SegmentRows(), 0
        try:
            for start, stop in _find_block_bounds(rows.payloads):
                part = rows.slice_rows(start, stop)
                self._entries += len(part)
                self._bytes += sum(map(len, part.payloads))
                self._file.write(encode_block(part))
        except OSError as problem:
            raise _describe_unwritable(problem, self._path) from problem

    def finish(self) -> SegmentInfo:
        """Write what is left, sync, and let the segment have its name."""
        if len(self._rows):
            self._flush_rows()
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

    def iterate_columns(self) -> Iterator[SegmentColumns]:
        """The columns of every block; payloads are passed over."""
        for columns, _ in self._read_segment_blocks(payloads=False):
            yield columns

    def iterate_blocks(self) -> Iterator[tuple[SegmentColumns, list[bytes]]]:
        """Yield columns and payloads of every block."""
        yield from self._read_segment_blocks(payloads=True)

    def _read_segment_blocks(self, *, payloads: bool) -> Iterator[tuple[SegmentColumns, list[bytes]]]:
        self._file.seek(0)
        seen = 0
        while head := self._file.read(BLOCK_HEADER.size):
            count, raw_columns, columns, raw_payloads, size, crc = self._parse_block_header(head)
            stored = self._file.read(columns)
            texts: list[bytes] = []
            # Proven before it is decompressed: a damaged length must not decide how much memory is taken.
            if crc32(stored) != crc[0] or len(stored) != columns:
                raise self._describe_damage()
            found = decode_block(codec.decompress_part(CODEC_ZSTD, memoryview(stored), raw_columns), count)
            if payloads:
                packed = self._file.read(size)
                if crc32(packed) != crc[1] or len(packed) != size:
                    raise self._describe_damage()
                raw = bytes(codec.decompress_part(CODEC_ZSTD, memoryview(packed), raw_payloads))
                texts = [raw[start:end] for start, end in pairwise(accumulate(found.lengths.tolist(), initial=0))]
            else:
                # Payloads are neither read nor decompressed: the file's next block begins behind them.
                self._file.seek(size, os.SEEK_CUR)
            seen += count
            yield found, texts
        # The driver was told how many there are: a file that ends between two blocks looks whole, and is not.
        if seen != self.info.entries:
            raise self._describe_damage()

    def _parse_block_header(self, head: bytes) -> tuple[int, int, int, int, int, tuple[int, int]]:
        if len(head) != BLOCK_HEADER.size or crc32(head[:-4]) != int.from_bytes(head[-4:], "little"):
            raise self._describe_damage()
        magic, count, raw_columns, columns, raw_payloads, size, crc_columns, crc_payloads, _ = BLOCK_HEADER.unpack(head)
        if magic != SEGMENT_MAGIC or not 0 < count <= MAX_SEGMENT_ENTRIES:
            raise self._describe_damage()
        return count, raw_columns, columns, raw_payloads, size, (crc_columns, crc_payloads)

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


def _find_block_bounds(payloads: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for place, payload in enumerate(payloads):
        # One payload larger than a block stands in a block of its own.
        if place > start and (place - start >= MAX_BLOCK_ENTRIES or size + len(payload) > MAX_BLOCK_BYTES):
            yield start, place
            start, size = place, 0
        size += len(payload)
    if start < len(payloads):
        yield start, len(payloads)


def _describe_unwritable(problem: OSError, path: Path) -> StorageError:
    return StorageError(
        "SOW-ENG-042",
        f"a staged segment cannot be written: {problem.strerror or problem}",
        place=str(path),
        hint="free space, or give another --staging directory",
    )
