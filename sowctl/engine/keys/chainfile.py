"""The file in which a chaining key generator stores the chain of each value.

``sowctl-plugins(7)`` specifies the format. The file is a sequence of self-contained blocks: length and CRC-32 of the
body, four bytes each, little-endian, then the body in msgpack. Blocks are only appended; an incomplete block at the end
is a torn write, which the next writer truncates. A file of many small blocks is rewritten as one.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sowctl.checksum import crc32
from sowctl.directories import sync_directory
from sowctl.engine.keys.limits import KEY_LIMITS
from sowctl.errors import DamageError, StorageError
from sowctl.seam import Seam

_BLOCK_HEADER = struct.Struct("<II")
CHAIN_FILE_MODE = 0o640


class ChainBlock(Struct, frozen=True):
    """The links that one writer added. ``identity`` identifies the chains, ``applied`` is the last txid of ``lineage``
    they cover.
    """

    identity: tuple[str, ...]
    lineage: bytes
    applied: int
    links: list[tuple[bytes, bytes]]
    end: int = 0


def read_blocks(path: Path, seam: Seam) -> list[ChainBlock] | None:
    """Return the complete blocks of a file, None without a file. Raises StorageError ``SOW-ENG-055``."""
    try:
        raw: bytes = seam.call("file.read", path.read_bytes)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise build_file_error(path, error) from error
    return list(_parse_chain_blocks(raw, path))


def _parse_chain_blocks(raw: bytes, path: Path) -> Iterator[ChainBlock]:
    import msgpack

    at = 0
    while at + _BLOCK_HEADER.size <= len(raw):
        length, crc = _BLOCK_HEADER.unpack_from(raw, at)
        body = raw[at + _BLOCK_HEADER.size : at + _BLOCK_HEADER.size + length]
        # A torn write ends the file: bytes after it were never relied on.
        if len(body) < length or crc32(body) != crc:
            return
        at += _BLOCK_HEADER.size + length
        try:
            # The checksum holds, so an invalid block is from another kind of file: that is an error, not a torn end.
            identity, lineage, applied, links = msgpack.unpackb(body, strict_map_key=False)
            yield ChainBlock(tuple(identity), lineage, applied, [(value, digest) for value, digest in links], at)
        except (ValueError, TypeError) as error:
            raise DamageError("SOW-ENG-056", "the file is not a file of chains", place=str(path)) from error


def append_block(
    path: Path, block: ChainBlock, keep: int, seam: Seam, *, whole: Iterable[tuple[bytes, bytes]], shared: bool
) -> int:
    """Add a block after the first ``keep`` bytes and sync it; return its end offset.

    Bytes after ``keep`` are truncated; in a ``shared`` file, only an incomplete block. A sparse file is replaced by a
    new one with a single block of the links ``whole``. Raises StorageError ``SOW-ENG-055``.
    """
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with _lock_chain_file(path, seam) as fd:
            size = os.fstat(fd).st_size
            if size > KEY_LIMITS.chain_rewrite_min_bytes:
                content = _encode_chain_block(replace(block, links=list(whole)))
                # The new file has all links in one block. A rewrite must at least halve the file, so it is not repeated
                # soon.
                if len(content) * 2 < size:
                    return _rewrite_chain_file(path, content, seam)
            # Another process may have appended to a journalled topic's file, and its blocks are valid: only a torn end
            # is truncated. Without a journal, links after ``keep`` were never published, and are truncated.
            keep = _find_whole_end(path, seam) if shared and size > keep else keep
            if size > keep:
                seam.call("file.truncate", os.ftruncate, fd, keep)
            content = _encode_chain_block(block)
            _write_chain_bytes(seam, fd, content, keep)
            seam.call("file.sync", os.fsync, fd)
            # The name of a new file is durable only when its directory is synced.
            if not size:
                sync_directory(path.parent, seam)
            return keep + len(content)
    except OSError as error:
        raise build_file_error(path, error) from error


def _find_whole_end(path: Path, seam: Seam) -> int:
    found = read_blocks(path, seam)
    return found[-1].end if found else 0


@contextmanager
def _lock_chain_file(path: Path, seam: Seam) -> Iterator[int]:
    """Open and lock the file until the end of the ``with`` statement. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    while True:
        fd: int = seam.call("file.open", os.open, path, flags, CHAIN_FILE_MODE)
        try:
            seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX)
            # Another process may have replaced or removed the file while this one waited for the lock: a lock on the
            # old file protects nothing.
            if _is_file_at_path(path, fd):
                yield fd
                return
        finally:
            os.close(fd)


def _is_file_at_path(path: Path, fd: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(fd).st_ino
    except FileNotFoundError:
        return False


def _rewrite_chain_file(path: Path, content: bytes, seam: Seam) -> int:
    temporary = path.with_name(f"{path.name}.new-{os.getpid()}")
    fd: int = seam.call(
        "file.open", os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, CHAIN_FILE_MODE
    )
    try:
        try:
            _write_chain_bytes(seam, fd, content, 0)
            seam.call("file.sync", os.fsync, fd)
        finally:
            os.close(fd)
        # Synced before the rename: the name always refers to the complete old or the complete new content.
        seam.call("file.rename", os.rename, temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent, seam)
    return len(content)


def _write_chain_bytes(seam: Seam, fd: int, content: bytes, offset: int) -> None:
    """Write all of ``content``, with a single call unless the system writes less."""
    rest = memoryview(content)
    while rest:
        written: int = seam.call("file.pwrite", os.pwrite, fd, rest, offset)
        rest, offset = rest[written:], offset + written


def _encode_chain_block(block: ChainBlock) -> bytes:
    import msgpack

    body: bytes = msgpack.packb([list(block.identity), block.lineage, block.applied, block.links])
    return _BLOCK_HEADER.pack(len(body), crc32(body)) + body


def build_file_error(path: Path, error: OSError) -> StorageError:
    """Return the error for a failed call of the operating system."""
    return StorageError("SOW-ENG-055", f"file of chains: {error.strerror or error}", place=str(path))
