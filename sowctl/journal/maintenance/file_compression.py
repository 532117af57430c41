"""Compress a finished journal file: write a temporary file, sync it, read it again, rename it, remove the plain file.

At each moment, whatever fails, the complete file exists plain, compressed, or both. Called under the lock of
:mod:`sowctl.journal.maintenance.lock`. Specified in ``sow-journal(5)``, "Looking after files".
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sowctl.directories import FILE_MODE, sync_directory
from sowctl.errors import StorageError
from sowctl.journal.appender import describe_os_error
from sowctl.journal.decompression import StreamDecompressor, encode_frame_table
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.maintenance.relocation import build_hidden_path
from sowctl.journal.state import write_all
from sowctl.seam import Seam

_PACK_CHUNK_BYTES = 1 << 20
"""Bytes read at a time."""
COMPRESSION_LEVELS = {".zst": 9, ".gz": 6}
"""Compression levels: blocks are already compressed individually; this removes only the redundancy between them."""


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


def compress_file(source: Path, suffix: str, seam: Seam) -> Path | None:
    """Compress a file that does not grow, append ``suffix`` (``.zst``, ``.gz``) to its name, and return its path.

    Returns None if the compressed file would not be smaller: then the file stays unchanged. Continues an interrupted
    run. Raises StorageError ``SOW-JRN-070``, with the file unchanged.
    """
    target = source.with_name(source.name + suffix)
    temporary = build_hidden_path(target)
    try:
        fd = seam.call("file.open", os.open, source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not _is_there(fd, target, seam) and not _write_compressed(fd, target, temporary, seam):
                seam.call("file.unlink", os.unlink, temporary)
                return None
        finally:
            os.close(fd)
        # Order: the new name is on disk before the old one is removed.
        sync_directory(source.parent, seam)
        seam.call("file.unlink", os.unlink, source)
        sync_directory(source.parent, seam)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StorageError(
            "SOW-JRN-070",
            f"cannot compress the journal file: {describe_os_error(error)}",
            place=str(source),
            hint="the file exists uncompressed, compressed, or both; free space or correct the "
            "permissions, and run the command again, which continues",
        ) from error
    return target


def _write_compressed(fd: int, target: Path, temporary: Path, seam: Seam) -> bool:
    """Compress, sync, verify the bytes on disk, rename; return False without renaming if the file would not be
    smaller."""
    found = os.fstat(fd)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    copy = seam.call("file.open", os.open, temporary, flags, FILE_MODE)
    try:
        packer = _make_compressor(target.suffix, found.st_size)
        # The plain file does not grow any more: writers append to the last file, which is never compressed.
        for chunk in _read_chunks(fd, seam):
            if packed := packer.compress(chunk):
                write_all(seam, copy, packed)
        write_all(seam, copy, packer.flush())
        if os.fstat(copy).st_size >= found.st_size:
            return False
        os.fchmod(copy, found.st_mode & 0o777)
        os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
        seam.call("file.sync", os.fsync, copy)
        # The comparison should read from the disk, not from the page cache.
        os.posix_fadvise(copy, 0, 0, os.POSIX_FADV_DONTNEED)
        if not _has_same_content(copy, target, fd, seam):
            raise OSError(errno.EIO, "the compressed file was written and reads differently")
    finally:
        os.close(copy)
    seam.call("file.rename", os.rename, temporary, target)
    return True


def _is_there(fd: int, target: Path, seam: Seam) -> bool:
    """Return whether ``target`` already is the compressed form of this file, after syncing it. Another file is
    replaced."""
    try:
        copy = seam.call("file.open", os.open, target, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        # An earlier run synced its copy before the rename, but another program may have made this one.
        seam.call("file.sync", os.fsync, copy)
        return _has_same_content(copy, target, fd, seam)
    finally:
        os.close(copy)


def _has_same_content(copy: int, target: Path, fd: int, seam: Seam) -> bool:
    """Return whether a compressed file decompresses to exactly the bytes of the plain one."""
    unpacker, at = StreamDecompressor(target), 0
    try:
        for raw in _read_chunks(copy, seam):
            for content in unpacker.decompress(raw):
                if content != seam.call("file.read", os.pread, fd, len(content), at):
                    return False
                at += len(content)
    except ValueError:
        return False
    # Between two frames, at the end of both: a partial frame, or a file truncated after a frame, is not a copy.
    return unpacker.is_between_streams and at == os.fstat(fd).st_size


def _read_chunks(fd: int, seam: Seam) -> Iterator[bytes]:
    at = 0
    while chunk := seam.call("file.read", os.pread, fd, _PACK_CHUNK_BYTES, at):
        yield chunk
        at += len(chunk)


def _make_compressor(suffix: str, size: int) -> _Compressor:
    return (
        zlib.compressobj(COMPRESSION_LEVELS[suffix], wbits=31)
        if suffix == ".gz"
        else _ZstdFrames(COMPRESSION_LEVELS[suffix], size)
    )


class _ZstdFrames:
    """Compresses with zstd into frames of ``frame_bytes`` of content each, followed by a table of them."""

    def __init__(self, level: int, size: int) -> None:
        import zstandard

        # zstd(1) tests the checksum of a frame.
        self._packer = zstandard.ZstdCompressor(level=level, write_checksum=True)
        self._left = size
        self._room = self._stored = 0
        self._frames: list[tuple[int, int]] = []
        self._begin_frame()

    def _begin_frame(self) -> None:
        self._content = self._room = min(JOURNAL_LIMITS.frame_bytes, self._left)
        self._left -= self._content
        self._stored = 0
        self._stream = self._packer.compressobj(size=self._content)

    def compress(self, data: bytes, /) -> bytes:
        """Add content; return the compressed bytes so far available."""
        found, rest = [], memoryview(data)
        while rest:
            if not self._room:
                found.append(self._end_frame())
                self._begin_frame()
            some, rest = rest[: self._room], rest[self._room :]
            # Only finished files are compressed: entries appended meanwhile would be lost.
            if not some:
                raise OSError(errno.EIO, "the file has grown during its compression")
            packed = self._stream.compress(some)
            self._room -= len(some)
            self._stored += len(packed)
            found.append(packed)
        return b"".join(found)

    def _end_frame(self) -> bytes:
        packed = self._stream.flush()
        self._frames.append((self._stored + len(packed), self._content))
        return packed

    def flush(self) -> bytes:
        """Return the remaining bytes and the table."""
        return self._end_frame() + encode_frame_table(self._frames)
