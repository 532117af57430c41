"""One block of a segment: messages by columns, packed with checksums, and the columns unpacked again.

A block is a header, the columns, and the payloads, as in the journal; columns and payloads are compressed apart. Called
by :mod:`sowctl.engine.bulk.segments`, which has the files; what tasks stage and a commit reads are :class:`Rows` and
:class:`Columns`. Ruled by ``sowctl-pipeline(1)``, STAGING: segments are temporary, so no other program reads them.
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from sowctl.checksum import crc32
from sowctl.journal import columns as codec
from sowctl.journal.blockcodec import CODEC_ZSTD

if TYPE_CHECKING:
    import numpy

PUBLISH, DELETE, DELTA = 1, 2, 3
"""Operations, in the lowest two bits of the flags."""
OPERATION = 3
HAS_USER_KEY, HAS_CORRELATION_ID = 4, 8
HAS_TIME, HAS_LIFETIME, EXPIRES_AT = 16, 32, 64
"""A time of its own; a lifetime of its own in microseconds; an instant of expiry of its own."""

MAGIC = b"\x89SEG1\r\n\x1a"
HEADER = struct.Struct("<8sIIIIIIII")
"""Magic, entries, raw and stored bytes of the columns, of the payloads, CRC of both as stored, CRC of this header."""

_FIXED = (
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
ENTRY_SIZE = 58


class Columns(Struct):
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


class Rows(Struct):
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

    def part(self, start: int, stop: int) -> Rows:
        """Some of them."""
        return Rows(*(getattr(self, name)[start:stop] for name in self.__struct_fields__))

    def extend(self, other: Rows) -> None:
        """Add those of another."""
        for name in self.__struct_fields__:
            getattr(self, name).extend(getattr(other, name))


def pack(rows: Rows) -> bytes:
    """A block with its header."""
    import numpy
    import xxhash

    numbers: dict[str, Any] = {
        "hashes": list(map(xxhash.xxh3_64_intdigest, rows.payloads)),
        "lengths": list(map(len, rows.payloads)),
    }
    parts = [b"".join(rows.keys), b"".join(rows.checks)]
    parts += [
        numpy.array(numbers.get(name) or getattr(rows, name), dtype=dtype).tobytes() for name, dtype in _FIXED[2:]
    ]
    size = ENTRY_SIZE * len(rows)
    for texts in (rows.user_keys, rows.correlation_ids):
        if any(text is not None for text in texts):
            parts.append(codec.pack_texts(texts, size))
            size += len(parts[-1])
    raw_columns, raw_payloads = b"".join(parts), b"".join(rows.payloads)
    columns, payloads = codec.compress(CODEC_ZSTD, raw_columns), codec.compress(CODEC_ZSTD, raw_payloads)
    sizes = len(raw_columns), len(columns), len(raw_payloads), len(payloads)
    head = HEADER.pack(MAGIC, len(rows), *sizes, crc32(columns), crc32(payloads), 0)[:-4]
    return b"".join((head, crc32(head).to_bytes(4, "little"), columns, payloads))


def unpack(raw: memoryview, count: int) -> Columns:
    """The columns of a block of ``count`` entries, decompressed."""
    import numpy

    at = 0
    found: list[Any] = []
    for _, dtype in _FIXED:
        found.append(numpy.frombuffer(raw, dtype=dtype, count=count, offset=at))
        at += count * int(dtype[2])
    flags = found[-1]
    texts: list[list[bytes | None] | None] = []
    for bit in (HAS_USER_KEY, HAS_CORRELATION_ID):
        if not (flags & bit).any():
            texts.append(None)
            continue
        at += -at % 8
        lengths = numpy.frombuffer(raw, dtype="<u4", count=count, offset=at).tolist()
        ends = list(accumulate(lengths, initial=at + 4 * count))
        spans = zip(flags.tolist(), pairwise(ends), strict=True)
        texts.append([bytes(raw[start:end]) if flag & bit else None for flag, (start, end) in spans])
        at = ends[-1]
    return Columns(*found, *texts)
