"""Input files; those compressed with gzip or Zstandard are decompressed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from errno import EIO
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

from sowctl.errors import LimitError, MissingError, SowError, StorageError
from sowctl.remote.place import require_local_path

GZIP_MAGIC, ZSTANDARD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
COMPRESSION_TOOLS = (
    (GZIP_MAGIC, "gzip", "zcat"),
    (ZSTANDARD_MAGIC, "Zstandard", "zstdcat"),
    (b"BZh", "bzip2", "bzcat"),
    (b"\xfd7zXZ", "xz", "xzcat"),
)
"""The first bytes of compressed data, the name of the format, and the tool that decompresses it."""
_SKIPPABLE_MAGIC = b"\x50\x2a\x4d\x18"
"""The beginning of a skippable frame of Zstandard; the first byte is at most 0x5f."""
_GZIP_WINDOW_BITS = 31
"""zlib's number for the largest window and the headers of gzip."""
_READ_BYTES = 16 << 10
COPY_LIMIT_CODE = "SOW-INP-009"
MAX_COPY_BYTES = 64 << 30
"""Maximum size of a pipe that is copied to a temporary file."""
_COPY_BYTES = 1 << 20


def open_file(name: str) -> BinaryIO:
    """Open an input file.

    Raises MissingError ``SOW-CLI-062`` if it does not exist, UsageError ``SOW-RMT-001`` for a URL, StorageError
    ``SOW-CLI-060`` for a directory, otherwise OSError.
    """
    try:
        return Path(name).open("rb")
    except FileNotFoundError:
        # Here and not before: an existing file may have any name.
        require_local_path(name, "copy the file to this machine; sowctl pipeline load publishes files at URLs")
        raise MissingError("SOW-CLI-062", "the file does not exist", place=name) from None
    except IsADirectoryError:
        raise StorageError("SOW-CLI-060", "it is a directory", place=name, hint="name a file") from None


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Open an input file, decompressing gzip or Zstandard. Raises the errors of opening."""
    with closing(open_file(name)) as stream:
        unpacked = None if Path(name).is_fifo() else open_decompressed(stream)
        yield stream if unpacked is None else unpacked


def find_descriptor(stream: BinaryIO) -> int | BinaryIO:
    """Return the descriptor of a real file, which can be waited for; any other stream unchanged."""
    try:
        return stream.fileno()
    except OSError:
        return stream


def is_compressed(name: str) -> bool:
    """True if :func:`open_input` decompresses a file."""
    try:
        with open_input(name) as stream:
            return isinstance(getattr(stream, "raw", None), DecompressedInput)
    except (OSError, SowError):
        return False


def open_decompressed(stream: BinaryIO) -> BinaryIO | None:
    """Return the decompressed content of a file; None for others, which are still at their beginning."""
    try:
        # Without moving the offset, from which readers of the descriptor itself continue.
        begin = os.pread(stream.fileno(), 4, 0)
    except OSError:
        return None
    if begin.startswith(GZIP_MAGIC):
        from isal import isal_zlib

        parts = _decompress_members(stream, "gzip", GZIP_MAGIC, lambda: isal_zlib.decompressobj(_GZIP_WINDOW_BITS))
        damage: Any = isal_zlib.error
        failures: tuple[type[Exception], ...] = (OSError, damage)
    elif begin == ZSTANDARD_MAGIC or (len(begin) == 4 and _is_skippable_frame("Zstandard", begin)):
        import zstandard

        parts = _decompress_members(
            stream, "Zstandard", ZSTANDARD_MAGIC, lambda: zstandard.ZstdDecompressor().decompressobj()
        )
        failures = (OSError, zstandard.ZstdError)
    else:
        return None
    return cast("BinaryIO", BufferedReader(DecompressedInput(lambda _: next(parts, b""), failures), 1 << 20))


def _check_padding(stream: BinaryIO, name: str, data: bytes, place: int) -> None:
    """Read to the end of a file. Raises OSError unless ``data``, which ends at ``place``, and the rest are zeros."""
    padding = data.strip(b"\0")
    while not padding and (data := stream.read(_READ_BYTES)):
        place += len(data)
        padding = data.strip(b"\0")
    if padding:
        at = place - len(data.lstrip(b"\0"))
        raise OSError(EIO, f"unexpected bytes at {at}, after the end of the {name} data")


def _decompress_members(stream: BinaryIO, name: str, magic: bytes, make: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of a file's members, each of which begins with ``magic``; trailing zeros are padding. Raises
    OSError if the file ends within a member, or if other bytes follow one."""
    member: Any = None
    place = 0
    # Small reads, because the decompressed data may be thousands of times larger.
    while data := stream.read(_READ_BYTES):
        place += len(data)
        while data:
            if member is None:
                # Enough to recognise what begins here; at the end of the file there may be less.
                while len(data) < len(_SKIPPABLE_MAGIC) and (more := stream.read(_READ_BYTES)):
                    place += len(more)
                    data += more
                if not (data.startswith(magic) or _is_skippable_frame(name, data)):
                    _check_padding(stream, name, data, place)
                    return
                member = make()
            if part := member.decompress(data):
                yield part
            data = member.unused_data if member.eof else b""
            member = None if member.eof else member
    if member is not None:
        raise OSError(EIO, f"the {name} data are truncated")


def _is_skippable_frame(name: str, data: bytes) -> bool:
    """True if a frame of Zstandard begins here that readers skip."""
    return name == "Zstandard" and data[1:4] == _SKIPPABLE_MAGIC[1:] and data[0] & 0xF0 == _SKIPPABLE_MAGIC[0]


class DecompressedInput(RawIOBase):
    """The decompressed content of a file. It has no descriptor, because nothing else may read from it. Damage, one of
    the library's own ``failures``, is raised as OSError."""

    def __init__(self, read: Callable[[int], bytes], failures: tuple[type[Exception], ...]) -> None:
        self._next = read
        self._failures = failures
        self._rest = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        try:
            data = self._rest or self._next(len(buffer))
        except self._failures as problem:
            known = isinstance(problem, OSError) and problem.strerror
            raise OSError(EIO, known or f"the compressed data are damaged: {problem}") from None
        taken, self._rest = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


class PeekedInput(RawIOBase):
    """A stream whose first bytes were already read: they are returned again."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._read = getattr(stream, "read1", stream.read)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        data = self._head[: len(buffer)] or self._read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def peek_input(stream: BinaryIO, size: int) -> tuple[bytes, BinaryIO]:
    """The first ``size`` bytes of a stream, fewer at its end, and a stream that still has them."""
    if stream.seekable():
        place = stream.tell()
        head = stream.read(size)
        stream.seek(place)
        return head, stream
    head = b""
    while len(head) < size and (more := stream.read(size - len(head))):
        head += more
    return head, cast("BinaryIO", BufferedReader(PeekedInput(head, stream), 1 << 16))


@contextmanager
def copy_unseekable(name: str, stream: BinaryIO) -> Iterator[BinaryIO]:
    """The stream itself if it is seekable, otherwise a temporary copy, which has no name.

    Raises LimitError ``SOW-INP-009`` for more than :data:`MAX_COPY_BYTES`.
    """
    if stream.seekable():
        yield stream
        return
    with tempfile.TemporaryFile(prefix="sowctl-") as copy:
        _copy(name, stream, cast("BinaryIO", copy))
        yield cast("BinaryIO", copy)


@contextmanager
def copy_to_path(name: str, stream: BinaryIO) -> Iterator[Path]:
    """The path of a stream that is a file, otherwise of a temporary copy. Raises as :func:`copy_unseekable`."""
    path = getattr(stream, "name", None)
    if isinstance(path, str) and stream.seekable():
        yield Path(path)
        return
    with tempfile.NamedTemporaryFile(prefix="sowctl-") as copy:
        _copy(name, stream, cast("BinaryIO", copy))
        copy.flush()
        yield Path(copy.name)


def _copy(name: str, stream: BinaryIO, copy: BinaryIO) -> None:
    size = 0
    while data := stream.read(_COPY_BYTES):
        size += len(data)
        if size > MAX_COPY_BYTES:
            words = f"more than {MAX_COPY_BYTES >> 30} GiB would be copied to a temporary file"
            raise LimitError(COPY_LIMIT_CODE, words, place=name, hint="write the input to a file, and name it")
        copy.write(data)
    copy.seek(0)
