"""Journal files as the operating system gives them: listing, reading at an offset. Used inside the room only."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from sowctl.checksum import crc32
from sowctl.errors import DamageError, SowError, StorageError
from sowctl.journal.block import Block
from sowctl.journal.blockcodec import (
    BLOCK_HEADER_SIZE,
    BLOCK_MAGIC,
    BlockHeader,
    BlockMap,
    place_seed,
    unpack_block_header,
    unpack_map,
)
from sowctl.journal.format import (
    FILE_HEADER_SIZE,
    FileHeader,
    block_place,
    check_instance,
    file_name,
    name_pattern,
    unpack_file_header,
)
from sowctl.seam import Seam

PEEK = 512
"""Bytes read with a block header: most maps fit into them."""
_CHUNK = 1 << 20


def read_error(error: OSError, path: Path) -> StorageError:
    """The error for a file that cannot be read."""
    return StorageError(
        "SOW-JRN-020",
        f"the journal cannot be read: {error.strerror or error}",
        place=str(path),
        hint="look at permissions and at the health of the disk",
    )


def list_numbers(directory: Path, instance: str) -> list[int]:
    """The numbers of an instance's files, ascending; empty where the directory is missing.

    Raises DamageError ``SOW-JRN-006`` where one is missing in between, StorageError ``SOW-JRN-020``.
    """
    pattern = name_pattern(check_instance(instance))
    try:
        names = os.listdir(directory)  # noqa: PTH208 - every query of a journalled topic asks this several times
        numbers = sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise read_error(error, directory) from error
    for before, number in pairwise(numbers):
        if number != before + 1:
            raise DamageError(
                "SOW-JRN-006",
                f"the journal has no file {before + 1:010d}, but earlier and later ones",
                place=str(directory / file_name(instance, before + 1)),
                hint="restore the missing file; the entries in it are lost without it",
            )
    return numbers


class JournalFile:
    """One file open for reading; reads by offset, so that nothing maps what another process may cut."""

    __slots__ = ("_seam", "fd", "header", "number", "path", "size")

    def __init__(self, path: Path, number: int, seam: Seam) -> None:
        self.path = path
        self._seam = seam
        self.number = number
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise read_error(error, path) from error
        try:
            self.size = self.current_size()
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    def current_size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self.fd).st_size

    def read(self, offset: int, size: int) -> memoryview:
        """At most ``size`` bytes; fewer at the end of the file. Raises StorageError ``SOW-JRN-020``."""
        try:
            raw = self._seam.call("file.read", os.pread, self.fd, size, offset)
        except OSError as error:
            raise read_error(error, self.path) from error
        return memoryview(raw)

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            self.close()

    def _read_header(self) -> FileHeader:
        header = unpack_file_header(bytes(self.read(0, FILE_HEADER_SIZE)), str(self.path))
        if header.number != self.number:
            raise DamageError(
                "SOW-JRN-005",
                f"the journal file is number {header.number:010d}, its name says {self.number:010d}",
                place=str(self.path),
                hint="give the file its own name back",
            )
        if header.blocks_offset > self.size:
            raise DamageError(
                "SOW-JRN-004",
                "the journal file ends within its header",
                place=str(self.path),
                hint="restore the file from a copy",
                offset=self.size,
            )
        return header

    def checkpoint(self) -> memoryview:
        """The checkpoint's bytes. Raises DamageError ``SOW-JRN-004``."""
        raw = self.read(FILE_HEADER_SIZE, self.header.checkpoint_size)
        if len(raw) != self.header.checkpoint_size or crc32(raw) != self.header.checkpoint_crc:
            raise DamageError(
                "SOW-JRN-004",
                "the checkpoint of the journal file is damaged",
                place=block_place(self.path, FILE_HEADER_SIZE),
                hint="restore the file from a copy; the blocks in it are intact",
                offset=FILE_HEADER_SIZE,
            )
        return raw

    def block_at(self, offset: int) -> Ref | None:
        """The block that starts at ``offset``; None where there is no valid header, or its body is cut."""
        peek = self.read(offset, PEEK)
        seed = place_seed(self.header.lineage, self.number, offset)
        header = unpack_block_header(peek[:BLOCK_HEADER_SIZE], seed, block_place(self.path, offset))
        if header is None or offset + header.size > self.size:
            return None
        return Ref(self, offset, header, peek)

    def next_block(self, offset: int) -> Ref | None:
        """The first block with a valid header at or behind ``offset``, whether its body is whole or not."""
        while offset + BLOCK_HEADER_SIZE <= self.size:
            chunk = bytes(self.read(offset, _CHUNK))
            at = chunk.find(BLOCK_MAGIC)
            while at >= 0:
                place = offset + at
                seed = place_seed(self.header.lineage, self.number, place)
                peek = self.read(place, PEEK)
                try:
                    header = unpack_block_header(peek[:BLOCK_HEADER_SIZE], seed, block_place(self.path, place))
                except SowError:
                    header = None
                if header is not None:
                    return Ref(self, place, header, peek)
                at = chunk.find(BLOCK_MAGIC, at + 1)
            offset += max(len(chunk) - len(BLOCK_MAGIC) + 1, 1)
        return None


class Ref:
    """One block in a file whose header was right; its body is read when asked for."""

    __slots__ = ("_map", "_peek", "file", "header", "offset")

    def __init__(self, file: JournalFile, offset: int, header: BlockHeader, peek: memoryview) -> None:
        self.file = file
        self.offset = offset
        self.header = header
        self._peek = peek
        self._map: BlockMap | None = None

    @property
    def end(self) -> int:
        """The offset behind the block."""
        return self.offset + self.header.size

    def names(self) -> BlockMap:
        """The map, its CRC checked. Raises DamageError ``SOW-JRN-010`` and ``SOW-JRN-014``."""
        if self._map is None:
            size = self.header.map_size
            raw = self._peek[BLOCK_HEADER_SIZE : BLOCK_HEADER_SIZE + size]
            if len(raw) < size:
                raw = self.file.read(self.offset + BLOCK_HEADER_SIZE, size)
            if len(raw) != size or crc32(raw) != self.header.map_crc:
                raise self.damage()
            if self.header.is_abort:
                self._map = BlockMap((), ())
            else:
                self._map = unpack_map(raw, block_place(self.file.path, self.offset))
        return self._map

    def body(self) -> tuple[memoryview, memoryview]:
        """Columns and payloads as stored, all CRCs checked. Raises DamageError ``SOW-JRN-010``."""
        header = self.header
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
            raise self.damage()
        return columns, payloads

    def load(self) -> Block:
        """The block, verified and in memory. Raises DamageError ``SOW-JRN-010`` and ``SOW-JRN-014``."""
        columns, payloads = self.body()
        return Block(self.file.path, self.file.number, self.offset, self.header, self.names(), columns, payloads)

    def is_whole(self) -> bool:
        """Whether the body is there with the right CRCs."""
        try:
            self.body()
        except DamageError:
            return False
        return True

    def damage(self) -> DamageError:
        """The error for a body with a wrong CRC."""
        header = self.header
        return damaged_block(self.file.path, self.offset, header.first_txid, header.last_txid)


def damaged_block(path: Path, offset: int, first: int, last: int | None) -> DamageError:
    """DamageError ``SOW-JRN-010``: the block at ``offset``, which held (at least) these txids."""
    held = f"txids {first} to {last}" if last is not None else f"txid {first} and on"
    return DamageError(
        "SOW-JRN-010",
        f"a block of the journal is damaged ({held})",
        place=block_place(path, offset),
        hint="restore the file from a copy; 'sowctl journal check' shows what else is affected",
        offset=offset,
        first_txid=first,
        last_txid=last,
    )
