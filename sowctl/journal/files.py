"""Journal files: reading blocks at an offset, searching for blocks.

Used only by the modules of the journal. Nothing is trusted before its checksum was verified: headers when a block is
found, maps when they are read, bodies when they are loaded. Specified in ``sow-journal(5)``, "Files" and "Blocks".
"""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.checksum import crc32
from sowctl.errors import DamageError, SowError, StorageError
from sowctl.journal.block import Block, Gap
from sowctl.journal.blockcodec import (
    BLOCK_HEADER_SIZE,
    BLOCK_MAGIC,
    BlockHeader,
    BlockMap,
    compute_header_seed,
    unpack_block_header,
    unpack_block_map,
)
from sowctl.journal.format import (
    COMPRESSED_SUFFIXES,
    FILE_HEADER_SIZE,
    FileHeader,
    format_block_place,
    unpack_file_header,
)
from sowctl.remote.place import Place
from sowctl.seam import Seam

if TYPE_CHECKING:
    from sowctl.journal.decompression import DecompressedFile

PEEK_BYTES = 512
"""Bytes read with a block header: most maps fit into them."""
# Bytes read at a time when searching for the next block of a damaged file; intact files are never searched.
_SCAN_CHUNK_BYTES = 1 << 20


def read_error(error: OSError, path: Place) -> StorageError:
    """Return the error for a file that cannot be read."""
    return StorageError(
        "SOW-JRN-020",
        f"cannot read the journal: {error.strerror or error}",
        place=str(path),
        hint="check permissions and disk",
    )


class JournalFile:
    """One file open for reading, compressed or not; reads by offset instead of mapping, as other processes may truncate
    it.

    ``size`` is the uncompressed size; for a compressed file, reading it decompresses the whole file.
    """

    __slots__ = ("_seam", "_size", "_unpacked", "fd", "header", "number", "path")

    def __init__(self, path: Path, number: int, seam: Seam) -> None:
        self.path: Place = path
        self._seam = seam
        self.number = number
        try:
            # O_NONBLOCK: opening a pipe of this name must not block; O_NOFOLLOW: a link could lead out of the journal.
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise read_error(error, path) from error
        self._unpacked: DecompressedFile | None = None
        self._size = -1
        try:
            if path.suffix in COMPRESSED_SUFFIXES:
                from sowctl.journal.decompression import DecompressedFile

                self._unpacked = DecompressedFile(partial(os.pread, self.fd), path, seam, lambda: self.stored_bytes)
            else:
                self._size = self.read_size()
            self.header = self._read_header()
        except OSError as error:
            self.close()
            raise read_error(error, path) from error
        except BaseException:
            self.close()
            raise

    @property
    def is_compressed(self) -> bool:
        """True for a compressed file, to which nothing can be appended."""
        return self._unpacked is not None

    @property
    def is_seekable(self) -> bool:
        """True if any part can be read directly: compressed files only if they end with a table of their frames."""
        return self._unpacked is None or self._unpacked.is_seekable

    @property
    def stored_bytes(self) -> int:
        """Size of the file on disk in bytes."""
        return os.fstat(self.fd).st_size

    @property
    def size(self) -> int:
        """Bytes in the file, as of the last call of :meth:`read_size`."""
        if self._size < 0:
            self._size = self.read_size()
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._size = size

    def read_size(self) -> int:
        """Return the current number of bytes in the file. Raises StorageError ``SOW-JRN-020``, DamageError
        ``SOW-JRN-050``."""
        if self._unpacked is None:
            return os.fstat(self.fd).st_size
        try:
            return self._unpacked.measure_size()
        except OSError as error:
            raise read_error(error, self.path) from error

    def read(self, offset: int, size: int) -> memoryview:
        """Return at most ``size`` bytes; fewer at the end of the file. Raises StorageError ``SOW-JRN-020``."""
        try:
            if self._unpacked is not None:
                raw = self._unpacked.read(offset, size)
            else:
                raw = self._seam.call("file.read", os.pread, self.fd, size, offset)
        except OSError as error:
            raise read_error(error, self.path) from error
        return memoryview(raw)

    def close(self) -> None:
        """Close the file; repeated calls do nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self._unpacked is not None:
            self._unpacked.close()

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            self.close()

    def _read_header(self) -> FileHeader:
        header = unpack_file_header(bytes(self.read(0, FILE_HEADER_SIZE)), str(self.path))
        if header.number != self.number:
            raise DamageError(
                "SOW-JRN-005",
                f"the journal file has number {header.number:010d}, but its name has {self.number:010d}",
                place=str(self.path),
                hint="rename the file to its original name",
            )
        if self._unpacked is not None:
            # One byte before the first block proves that header and checkpoint are complete; asking for the size would
            # decompress the entire file.
            self._unpacked.decompress_until(header.blocks_offset)
            whole = len(self.read(header.blocks_offset - 1, 1)) == 1
        else:
            whole = header.blocks_offset <= self.size
        if not whole:
            raise DamageError(
                "SOW-JRN-004",
                "the journal file ends within its header",
                place=str(self.path),
                hint="restore the file from a copy",
                offset=self.size,
            )
        return header

    def read_checkpoint(self) -> memoryview:
        """Return the checkpoint. Raises DamageError ``SOW-JRN-004``."""
        raw = self.read(FILE_HEADER_SIZE, self.header.checkpoint_size)
        if len(raw) != self.header.checkpoint_size or crc32(raw) != self.header.checkpoint_crc:
            raise DamageError(
                "SOW-JRN-004",
                "the checkpoint of the journal file is damaged",
                place=format_block_place(self.path, FILE_HEADER_SIZE),
                hint="restore the file from a copy; the blocks in it are intact",
                offset=FILE_HEADER_SIZE,
            )
        return raw

    def find_block_at(self, offset: int) -> BlockRef | None:
        """Return the block that starts at ``offset``; None without a valid header, or if its body is cut short."""
        # One read returns the header and, for most blocks, the map.
        peek = self.read(offset, PEEK_BYTES)
        header = self._header_of(peek, offset)
        # A valid header whose body extends past the end is not a block yet: a write is in progress, or a crash cut it.
        if header is None or offset + header.size > self.size:
            return None
        return BlockRef(self, offset, header, peek)

    def read_header_at(self, offset: int) -> BlockHeader | None:
        """Return the header of the block that starts at ``offset``, even if its body is missing; None without a valid
        header."""
        return self._header_of(self.read(offset, BLOCK_HEADER_SIZE), offset)

    def _header_of(self, peek: memoryview, offset: int) -> BlockHeader | None:
        # The CRC is seeded with journal, file and offset: the bytes of a block are valid only where they were written.
        seed = compute_header_seed(self.header.lineage, self.number, offset)
        return unpack_block_header(peek[:BLOCK_HEADER_SIZE], seed, format_block_place(self.path, offset))

    def find_next_block(self, offset: int, at_a_time: int = _SCAN_CHUNK_BYTES) -> BlockRef | None:
        """Return the first block with a valid header at or after ``offset``, whether its body is intact or not.

        Searches up to ``size``: bytes that a writer has added since prove nothing about bytes read before. Reads and
        searches ``at_a_time`` bytes at a time.
        """
        while offset + BLOCK_HEADER_SIZE <= self.size:
            chunk = bytes(self.read(offset, min(at_a_time, self.size - offset)))
            at = chunk.find(BLOCK_MAGIC)
            while at >= 0:
                place = offset + at
                seed = compute_header_seed(self.header.lineage, self.number, place)
                peek = self.read(place, PEEK_BYTES)
                try:
                    # A newer format raises while searching, which says nothing about this file: skip it.
                    header = unpack_block_header(peek[:BLOCK_HEADER_SIZE], seed, format_block_place(self.path, place))
                except SowError:
                    header = None
                if header is not None:
                    return BlockRef(self, place, header, peek)
                at = chunk.find(BLOCK_MAGIC, at + 1)
            # Chunks overlap by one byte less than the magic, so that a magic across their border is found.
            offset += max(len(chunk) - len(BLOCK_MAGIC) + 1, 1)
        return None

    def find_displaced_block(self, offset: int, last_txid: int) -> BlockRef | None:
        """Return the first intact block at or after ``offset`` that was written at another offset after ``offset``.

        It proves that bytes before it were cut out of the file or inserted: no append causes this. A copy of an earlier
        block, for example within a payload, was written before ``offset`` and is not returned. Searches up to ``size``.
        """
        start = offset
        while offset + BLOCK_HEADER_SIZE <= self.size:
            chunk = bytes(self.read(offset, min(_SCAN_CHUNK_BYTES, self.size - offset)))
            at = chunk.find(BLOCK_MAGIC)
            while at >= 0:
                ref = self._find_displaced_at(offset + at, start, last_txid)
                if ref is not None:
                    return ref
                at = chunk.find(BLOCK_MAGIC, at + 1)
            offset += max(len(chunk) - len(BLOCK_MAGIC) + 1, 1)
        return None

    def _find_displaced_at(self, place: int, start: int, last_txid: int) -> BlockRef | None:
        peek = self.read(place, PEEK_BYTES)
        raw = bytes(peek[:BLOCK_HEADER_SIZE])
        if len(raw) < BLOCK_HEADER_SIZE:
            return None
        seed = _seed_of(raw)
        # The seed of the CRC is computed back from the header, and the offset from the seed: so the block itself shows
        # where it was written.
        written = _place_of(seed, self.header.lineage, self.number, place)
        # Written after `start` and elsewhere: only then were bytes cut out or inserted in between. Comparing the seeds
        # rejects bytes that are no header, for which the computed offset is arbitrary.
        if (
            written < start
            or written == place
            or compute_header_seed(self.header.lineage, self.number, written) != seed
        ):
            return None
        try:
            header = unpack_block_header(raw, seed, format_block_place(self.path, place))
        except SowError:
            return None
        # A txid that the walk has already passed: an old copy, not a displaced block.
        if header is None or header.first_txid <= last_txid:
            return None
        ref = BlockRef(self, place, header, peek)
        return ref if ref.is_whole() else None


def require_same_content(file: JournalFile, path: Path, seam: Seam) -> None:
    """Require that a second file of the same number at ``path`` is the same. Raises DamageError ``SOW-JRN-051``.

    A second file with an unreadable header is ignored: it is being written, or its writing was interrupted.
    """
    try:
        other = JournalFile(path, file.number, seam)
    except SowError:
        return
    try:
        # Lineage, number, first txid and creation time together identify a file. Comparing contents would decompress
        # both files at each opening.
        same = other.header == file.header
    finally:
        other.close()
    if not same:
        raise DamageError(
            "SOW-JRN-051",
            f"two different journal files have number {file.number:010d}: {file.path} and {path}",
            place=str(path),
            hint="move the file away that does not belong to this journal",
            offset=0,
        )


def _seed_of(raw: bytes) -> int:
    """Return the seed for which the CRC of these 104 bytes of a block header is right."""
    # A CRC is linear: the contribution of the seed was shifted through as many zero bytes as the header has bytes.
    return _unshift_crc(crc32(raw[:-4]) ^ int.from_bytes(raw[-4:], "little"), BLOCK_HEADER_SIZE - 4)


def _place_of(seed: int, lineage: bytes, number: int, near: int) -> int:
    """Return the offset for which :func:`compute_header_seed` gives ``seed``, within the same 4 GiB as ``near``."""
    high = near >> 32 << 32
    # The CRC takes the four low bytes of the offset as one 32-bit word, followed by the four high ones.
    return high | _unshift_crc(seed ^ compute_header_seed(lineage, number, high), 8)


def _unshift_crc(crc: int, count: int) -> int:
    """Return the difference of two CRCs before ``count`` equal bytes were processed."""
    by_top = _crc_table()
    for _ in range(count):
        # One step of a table-driven CRC in reverse: the highest byte of the result names the table entry that was
        # added, and its index is the byte that was shifted out.
        index, entry = by_top[crc >> 24]
        crc = (crc ^ entry) << 8 & 0xFFFFFFFF | index
    return crc


@cache
def _crc_table() -> dict[int, tuple[int, int]]:
    """Return the table of CRC-32 by the highest byte of its entries, which is unique."""
    entries = [crc32(b"\0", index) ^ crc32(b"\0") for index in range(256)]
    return {entry >> 24: (index, entry) for index, entry in enumerate(entries)}


class BlockRef:
    """One block in a file with a valid header; its body is read on demand."""

    __slots__ = ("_map", "_peek", "file", "header", "offset")

    def __init__(self, file: JournalFile, offset: int, header: BlockHeader, peek: memoryview) -> None:
        self.file = file
        self.offset = offset
        self.header = header
        self._peek = peek
        self._map: BlockMap | None = None

    @property
    def end_offset(self) -> int:
        """The offset after the block."""
        return self.offset + self.header.size

    def read_map(self) -> BlockMap:
        """Return the map after checking its CRC. Raises DamageError ``SOW-JRN-010`` and ``SOW-JRN-014``."""
        if self._map is None:
            size = self.header.map_size
            raw = self._peek[BLOCK_HEADER_SIZE : BLOCK_HEADER_SIZE + size]
            if len(raw) < size:
                raw = self.file.read(self.offset + BLOCK_HEADER_SIZE, size)
            if len(raw) != size or crc32(raw) != self.header.map_crc:
                raise self.damage_error()
            # A marker has no entries and therefore no map; the map of a gap may be lost.
            if self.header.is_abort or (self.header.is_gap and not size):
                self._map = BlockMap((), ())
            else:
                self._map = unpack_block_map(raw, format_block_place(self.file.path, self.offset))
        return self._map

    def read_body(self) -> tuple[memoryview, memoryview]:
        """Return columns and payloads as stored after checking all CRCs. Raises DamageError ``SOW-JRN-010``."""
        header = self.header
        # The file may have changed since the peek: map and body come from one read, so that they belong together.
        self._map = None
        raw = self.file.read(self.offset + BLOCK_HEADER_SIZE, header.size - BLOCK_HEADER_SIZE)
        self._peek = memoryview(bytes(self._peek[:BLOCK_HEADER_SIZE]) + bytes(raw[: header.map_size]))
        columns = raw[header.map_size : header.map_size + header.columns_stored]
        payloads = raw[header.map_size + header.columns_stored :]
        if (
            len(raw) != header.size - BLOCK_HEADER_SIZE
            or crc32(raw[: header.map_size]) != header.map_crc
            or crc32(columns) != header.columns_crc
            or crc32(payloads) != header.payloads_crc
        ):
            raise self.damage_error()
        return columns, payloads

    def read_raw_columns(self) -> memoryview:
        """Return the decompressed columns after checking their CRC; the payloads are not read.

        Raises DamageError ``SOW-JRN-010``.
        """
        from sowctl.journal.columns import decompress_part

        header = self.header
        raw = self.file.read(self.offset + BLOCK_HEADER_SIZE + header.map_size, header.columns_stored)
        if len(raw) != header.columns_stored or crc32(raw) != header.columns_crc:
            raise self.damage_error()
        try:
            return decompress_part(header.codec, raw, header.columns_raw)
        except ValueError as error:
            raise self.damage_error() from error

    def load(self) -> Block:
        """Return the verified block in memory. Raises DamageError ``SOW-JRN-010`` and ``SOW-JRN-014``."""
        columns, payloads = self.read_body()
        return Block(self.file.path, self.file.number, self.offset, self.header, self.read_map(), columns, payloads)

    def is_whole(self) -> bool:
        """Return whether the body is complete and its CRCs are right."""
        try:
            self.read_body()
        except DamageError:
            return False
        return True

    def read_gap(self) -> Gap:
        """Return the description of the removed part at a gap. Raises DamageError ``SOW-JRN-010``."""
        header = self.header
        names = self.read_map()
        columns, _ = self.read_body()
        receipt = bytes(columns).partition(b"\n")[0].decode("utf-8", "replace") if header.columns_stored else ""
        known = header.map_size > 0
        topic_refs = tuple(row.topic for row in names.topic_rows) if known else None
        return Gap(self.file.path, self.offset, header.size, header.first_txid, header.last_txid, receipt, topic_refs)

    def damage_error(self) -> DamageError:
        """Return the error for a body with a wrong CRC."""
        header = self.header
        return damaged_block_error(self.file.path, self.offset, header.first_txid, header.last_txid)


def damaged_block_error(path: Place, offset: int, first: int, last: int | None) -> DamageError:
    """Return DamageError ``SOW-JRN-010``: the block at ``offset``, which held (at least) these txids."""
    held = f"txids {first} to {last}" if last is not None else f"txid {first} and later"
    return DamageError(
        "SOW-JRN-010",
        f"a block of the journal is damaged ({held})",
        place=format_block_place(path, offset),
        hint="restore the file from a copy; without a copy, sowctl journal repair --dry-run shows "
        "what it would cut out",
        offset=offset,
        first_txid=first,
        last_txid=last,
    )


def foreign_file_error(file: JournalFile, before: JournalFile, expected: int, found: int | None) -> DamageError:
    """Return DamageError ``SOW-JRN-054``: ``file`` was started after another file than ``before``; checksums of the
    block."""
    if found is None:
        what = f"but {before.path.name} has no block there: it is damaged, or belongs to another copy"
    else:
        what = f"but the last block of {before.path.name} has {found:08x}: two histories in one journal"
    return DamageError(
        "SOW-JRN-054",
        f"the file follows a block with checksum {expected:08x}, {what}",
        place=str(file.path),
        hint="copies of this journal were continued separately, and the directory has files of "
        "both: restore the files of one of them",
        offset=0,
        first_txid=file.header.first_txid,
        last_txid=None,
        written_behind=f"{expected:08x}",
        stands_behind=None if found is None else f"{found:08x}",
    )


def has_gap(file: JournalFile, txid: int) -> bool:
    """Return whether a txid, or a marker after it, was cut out of a file. Called when a block does not match the
    expected one: reads all headers up to there."""
    at = file.header.blocks_offset
    while (ref := file.find_block_at(at)) is not None and ref.header.first_txid <= txid + 1:
        if ref.header.is_gap and ref.header.first_txid - 1 <= txid <= ref.header.last_txid:
            return True
        at = ref.end_offset
    return False
