"""The format of memo files: a header, a table of sections with their checksums, the sections (``sow-memo(5)``)."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.open_files import register_closer

MAGIC = b"SOWMEMO\0"
FORMAT_VERSION = 1
_HEADER_LAYOUT = struct.Struct("<8sHBBIQ16sQI")
"""Magic, version, kind, width of a code, sections, records, state, count that depends on the kind, flags."""
_SECTION_LAYOUT = struct.Struct("<QQI")
_CRC_LAYOUT = struct.Struct("<I")
# Sections begin at multiples of 8, so that numbers in them are read in place.
_ALIGNMENT_BYTES = 8
MAX_OPEN_MEMOS = 64
"""Maximum number of files that a process keeps open between queries."""
_open_memos: dict[Path, MemoFile] = {}


class MemoKind(IntEnum):
    """The kind of the content of a memo file."""

    KEYS = 0
    NUMBERS = 1
    STRINGS = 2
    WORDS = 3
    UNSUITED = 4
    SPOTS = 5
    TYPES = 6


class BadMemo(Exception):
    """An unusable file: damaged, truncated, of another version or another machine's byte order."""


class MemoHeader(Struct, frozen=True):
    """``state`` is the number of the store's state; ``count`` the number of NULLs for NUMBERS, otherwise of distinct
    values."""

    kind: MemoKind
    records: int
    state: int
    width: int = 4
    count: int = 0
    flags: int = 0


def encode_file(head: MemoHeader, sections: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """Return the parts of a file, to be written in sequence."""
    raw = _HEADER_LAYOUT.pack(
        MAGIC,
        FORMAT_VERSION,
        head.kind,
        head.width,
        len(sections),
        head.records,
        head.state.to_bytes(16, "little"),
        head.count,
        head.flags,
    )
    # The table's size follows from the number of sections, so all offsets are known before the first byte is written.
    at = _align_size(_HEADER_LAYOUT.size + _SECTION_LAYOUT.size * len(sections) + _CRC_LAYOUT.size)
    parts: list[bytes | memoryview] = []
    for section in sections:
        size = memoryview(section).nbytes
        raw += _SECTION_LAYOUT.pack(at, size, crc32(section))
        parts += [section, bytes(-size % _ALIGNMENT_BYTES)]
        at += size + -size % _ALIGNMENT_BYTES
    # Covers header and table; each section has its own checksum in the table.
    raw += _CRC_LAYOUT.pack(crc32(raw))
    return [raw, bytes(_align_size(len(raw)) - len(raw)), *parts]


def _align_size(size: int) -> int:
    return size + -size % _ALIGNMENT_BYTES


FileStamp: TypeAlias = tuple[int, int, int, int]
"""Device, inode, size and modification time: a file with the same values is unchanged."""


def _file_stamp(status: os.stat_result) -> FileStamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def open_memo(path: Path) -> MemoFile:
    """Open the file at ``path``. A file that this process keeps open and that has not changed is not verified again.

    Raises BadMemo, and OSError for a missing file.
    """
    # Same device, inode, size and modification time: the file is the verified one, and is not read again.
    known = _open_memos.pop(path, None)
    if known is None or known.stamp != _file_stamp(path.stat()):
        known = MemoFile(path)
    # The least recently used file is dropped first: each is moved to the end on use.
    while len(_open_memos) >= MAX_OPEN_MEMOS:
        _open_memos.pop(next(iter(_open_memos)), None)
    _open_memos[path] = known
    return known


@register_closer
def close_open_memos() -> None:
    """Close all cached files, each as soon as its last user releases it."""
    _open_memos.clear()


class MemoFile:
    """A mapped memo file. Sections are verified on first access."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises BadMemo, and OSError for a missing file."""
        # Sections are used in place; on a machine with another byte order there are no memo indexes, and results are
        # the same.
        if sys.byteorder != "little":
            raise BadMemo("memo files are little-endian")
        with path.open("rb") as stream:
            self.stamp = _file_stamp(os.fstat(stream.fileno()))
            size = self.stamp[2]
            if size < _HEADER_LAYOUT.size:
                raise BadMemo("too short")
            # Mapped instead of read: a query accesses only the pages that it needs. The file is never truncated, only
            # replaced, so the mapped pages stay valid.
            self._map = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ)
        self.size = size
        self._view = memoryview(self._map)
        self._known: dict[int, memoryview] = {}
        try:
            self.head, self._table = self._read_header()
        except (struct.error, ValueError) as problem:
            raise BadMemo(str(problem)) from None

    def _read_header(self) -> tuple[MemoHeader, list[tuple[int, int, int]]]:
        magic, version, kind, width, sections, records, state, count, flags = _HEADER_LAYOUT.unpack_from(self._view)
        end = _HEADER_LAYOUT.size + _SECTION_LAYOUT.size * sections
        if magic != MAGIC or version != FORMAT_VERSION or end + _CRC_LAYOUT.size > self.size:
            raise BadMemo("another format")
        if crc32(self._view[:end]) != _CRC_LAYOUT.unpack_from(self._view, end)[0]:
            raise BadMemo("the header is damaged")
        table = [
            _SECTION_LAYOUT.unpack_from(self._view, _HEADER_LAYOUT.size + _SECTION_LAYOUT.size * number)
            for number in range(sections)
        ]
        # Checked once here, so that no section extends past the end of the mapped file.
        if any(at + size > self.size for at, size, _ in table):
            raise BadMemo("the end is missing")
        return MemoHeader(MemoKind(kind), records, int.from_bytes(state, "little"), width, count, flags), table

    def read_section(self, number: int) -> memoryview:
        """Return a section. Raises BadMemo if it is damaged."""
        if number >= len(self._table):
            raise BadMemo(f"section {number} is missing")
        # Each section is verified on first access: a query that needs only the order does not read the values.
        if number not in self._known:
            at, size, checksum = self._table[number]
            view = self._view[at : at + size]
            if crc32(view) != checksum:
                raise BadMemo(f"section {number} is damaged")
            self._known[number] = view
        return self._known[number]

    def read_unverified_section(self, number: int) -> memoryview:
        """Return a section whose entries refer to data with their own checksums. Raises BadMemo."""
        if number >= len(self._table):
            raise BadMemo(f"section {number} is missing")
        # The section is not read for its checksum: a query for ten records would read all of it.
        at, size, _ = self._table[number]
        return self._view[at : at + size]

    def read_codes(self, number: int) -> memoryview:
        """Return a section of codes of the file's width."""
        section = self.read_section(number)
        width = self.head.width
        return section.cast("B") if width == 1 else section.cast("H") if width == 2 else section.cast("I")
