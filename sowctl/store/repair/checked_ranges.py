"""The record of checks: which range of a store's keys was last read completely, and when (``sow-store(5)``).

Partial checks begin with the data whose last check is oldest, so that several of them read all of it. The file is
derived: without it, no data counts as read. Written by :mod:`sowctl.store.check`.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from pathlib import Path
from typing import TypeAlias

from sowctl.checksum import crc32
from sowctl.directories import FILE_MODE
from sowctl.seam import Seam
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.opening.access import StoreFiles

MAGIC = b"SOWCHECK"
VERSION = 1
_HEAD = struct.Struct("<8sHHIQ")
_MARK = struct.Struct("<Qq")
_CRC = struct.Struct("<I")
KEY_SPACE_END = 1 << 64
Mark: TypeAlias = tuple[int, int]
"""The first SOW key of a stretch, which ends where the next one begins; and its time of reading (microseconds, 0:
never)."""


class CheckedRanges:
    """Stretches of the key space with the times at which they were read."""

    def __init__(self, marks: list[Mark] | None = None) -> None:
        self.marks: list[Mark] = marks or [(0, 0)]

    def find_oldest_time(self, low: int, high: int) -> int:
        """Return the oldest reading time in the range from ``low`` to ``high`` (exclusive)."""
        first = bisect_right(self.marks, (low, KEY_SPACE_END)) - 1
        return min(time for start, time in self.marks[first:] if start < high)

    def mark_range(self, low: int, high: int, time: int) -> None:
        """Record that everything from ``low`` to ``high`` (exclusive) was read at ``time``."""
        behind = self.marks[bisect_right(self.marks, (high, KEY_SPACE_END)) - 1][1]
        # The stretch replaces stretches within it; one that extends past its end keeps its time from there on.
        marks = [mark for mark in self.marks if mark[0] < low] + [(low, time)]
        if high < KEY_SPACE_END:
            marks.append((high, behind))
        marks += [mark for mark in self.marks if mark[0] > high]
        self.marks = [mark for place, mark in enumerate(marks) if not place or marks[place - 1][1] != mark[1]]
        while len(self.marks) > STORE_LIMITS.max_checked_ranges:
            # Merge neighbours with the earlier time: the record never claims more than was read.
            pairs = zip(self.marks[::2], [*self.marks[1::2], self.marks[-1]], strict=False)
            self.marks = [(one[0], min(one[1], other[1])) for one, other in pairs]


def build_ranges_path(store: str | os.PathLike[str]) -> Path:
    """Return the path of a store's record."""
    files = StoreFiles.from_path(store)
    return files.path.with_name(f"{files.path.name}-verified")


def encode_ranges(marks: list[Mark], inode: int) -> bytes:
    """Return an encoded record; ``inode`` is that of the data file that was read."""
    body = _HEAD.pack(MAGIC, VERSION, 0, len(marks), inode) + b"".join(_MARK.pack(*mark) for mark in marks)
    return body + _CRC.pack(crc32(body))


def decode_ranges(data: bytes, inode: int) -> CheckedRanges:
    """Decode a record; one of another version or data file, or a damaged one, counts as empty."""
    if len(data) < _HEAD.size + _CRC.size or crc32(data[: -_CRC.size]) != _CRC.unpack(data[-_CRC.size :])[0]:
        return CheckedRanges()
    magic, version, _, count, of = _HEAD.unpack_from(data)
    # Another inode is another file: a replacement was never read.
    if (magic, version, of) != (MAGIC, VERSION, inode) or len(data) != _HEAD.size + count * _MARK.size + _CRC.size:
        return CheckedRanges()
    marks = list(_MARK.iter_unpack(data[_HEAD.size : -_CRC.size]))
    return CheckedRanges([(start, time) for start, time in marks])


def read_checked_ranges(store: str | os.PathLike[str]) -> CheckedRanges:
    """Read the checked ranges of a store: none without a record of its current data file."""
    path = StoreFiles.from_path(store).path
    try:
        return decode_ranges(build_ranges_path(path).read_bytes(), path.stat().st_ino)
    except OSError:
        return CheckedRanges()


def write_checked_ranges(store: str | os.PathLike[str], marks: list[Mark], seam: Seam) -> None:
    """Write a record. Raises OSError."""
    target = build_ranges_path(store)
    temporary = target.with_name(f"{target.name}.new-{os.getpid()}")
    data = encode_ranges(marks, StoreFiles.from_path(store).path.stat().st_ino)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = seam.call("file.open", os.open, temporary, flags, FILE_MODE)
        with os.fdopen(fd, "wb") as stream:
            seam.call("file.write", stream.write, data)
            stream.flush()
            seam.call("file.sync", os.fsync, stream.fileno())
        seam.call("file.rename", os.rename, temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
