"""The file in which a chaining key generator keeps what it knows: which value belongs to which chain.

``sowctl-plugins(7)`` rules the format. The file is a row of blocks, each complete in itself: length and CRC-32 of the
body, four bytes each, little-endian, then the body in msgpack. Blocks are only appended; what is not whole at the end
is a torn write and is cut off by the next writer. A file of many small blocks is written anew as one.
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
    """The links that one writer learnt. ``identity`` says whose chains these are, ``applied`` up to which txid of
    ``lineage``.
    """

    identity: tuple[str, ...]
    lineage: bytes
    applied: int
    links: list[tuple[bytes, bytes]]
    end: int = 0


def read_blocks(path: Path, seam: Seam) -> list[ChainBlock] | None:
    """The whole blocks of a file, None where there is no file. Raises StorageError ``SOW-ENG-055``."""
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
        # A torn write ends the file: what stands behind it was never relied on.
        if len(body) < length or crc32(body) != crc:
            return
        at += _BLOCK_HEADER.size + length
        try:
            # The checksum holds, so bytes that are no such block are of another kind of file: that is an error, and no
            # torn end.
            identity, lineage, applied, links = msgpack.unpackb(body, strict_map_key=False)
            yield ChainBlock(tuple(identity), lineage, applied, [(value, digest) for value, digest in links], at)
        except (ValueError, TypeError) as error:
            raise DamageError("SOW-ENG-056", "the file is not a file of chains", place=str(path)) from error


def append_block(
    path: Path, block: ChainBlock, keep: int, seam: Seam, *, whole: Iterable[tuple[bytes, bytes]], shared: bool
) -> int:
    """Add a block behind the first ``keep`` bytes and sync it; returns where it ends.

    What lies behind them is cut off; where the file is ``shared``, only what is not whole. A loose file is replaced by
    a new one of one block, of the links ``whole``. Raises StorageError ``SOW-ENG-055``.
    """
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with _lock_chain_file(path, seam) as fd:
            size = os.fstat(fd).st_size
            if size > KEY_LIMITS.chain_rewrite_min_bytes:
                content = _encode_chain_block(replace(block, links=list(whole)))
                # The new file holds all in one block. At least half of the bytes go, so a file is not written anew
                # again soon.
                if len(content) * 2 < size:
                    return _rewrite_chain_file(path, content, seam)
            # A journalled topic's file may have grown by another process, whose blocks are as good: only a torn end
            # goes. Without a journal, what lies behind ``keep`` was never published, and is cut off.
            keep = _find_whole_end(path, seam) if shared and size > keep else keep
            if size > keep:
                seam.call("file.truncate", os.ftruncate, fd, keep)
            content = _encode_chain_block(block)
            _write_chain_bytes(seam, fd, content, keep)
            seam.call("file.sync", os.fsync, fd)
            # A new file's name is durable only when its directory is synced.
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
    """The file, open and locked until the end of the ``with`` statement. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    while True:
        fd: int = seam.call("file.open", os.open, path, flags, CHAIN_FILE_MODE)
        try:
            seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX)
            # Another process may have put a new file in place while this one waited for the lock, or removed it: a lock
            # on the old one guards nothing.
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
        # Synced before it is renamed: under the file's name stands the old content or the new one, and never a part.
        seam.call("file.rename", os.rename, temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent, seam)
    return len(content)


def _write_chain_bytes(seam: Seam, fd: int, content: bytes, offset: int) -> None:
    """Write all of ``content``, with one call where the system takes it whole."""
    rest = memoryview(content)
    while rest:
        written: int = seam.call("file.pwrite", os.pwrite, fd, rest, offset)
        rest, offset = rest[written:], offset + written


def _encode_chain_block(block: ChainBlock) -> bytes:
    import msgpack

    body: bytes = msgpack.packb([list(block.identity), block.lineage, block.applied, block.links])
    return _BLOCK_HEADER.pack(len(body), crc32(body)) + body


def build_file_error(path: Path, error: OSError) -> StorageError:
    """Build the error for a refusal of the operating system."""
    return StorageError("SOW-ENG-055", f"file of chains: {error.strerror or error}", place=str(path))
