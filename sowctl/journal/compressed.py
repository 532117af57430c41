"""Compressed journal files, ``.journal.gz`` and ``.journal.zst``, as bytes that can be read at any offset.

A file is unpacked as a stream into a temporary file without a name, only as far as has been asked for: memory stays
bounded whatever a file unpacks to, and the header of a file costs no more than its first bytes. Called by
:mod:`sowctl.journal.files` alone. Ruled by ``sow-journal(5)``, "Archived and compressed files".
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from sowctl.errors import DamageError
from sowctl.remote.place import Place
from sowctl.seam import Seam

_READ = 4096
"""Bytes of the compressed file at a time. A few bytes of zstd can stand for 128 KiB, so this is what bounds memory."""


class _Stream(Protocol):
    """One compressed stream of several that may follow each other in a file (gzip members, zstd frames)."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip_stream() -> _Stream:
    # 31: 15 bits of window, the largest there is, and 16 for a gzip header.
    return zlib.decompressobj(wbits=31)


def _zstd_stream() -> _Stream:
    import zstandard

    # A frame may ask for a window of gigabytes; 128 MiB is what the zstd command accepts without an option.
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


class Unpacker:
    """Compressed bytes in, content out, as much as each piece gives. ``path`` says by its suffix how."""

    def __init__(self, path: Place) -> None:
        self._new: Callable[[], _Stream] = _gzip_stream if path.suffix == ".gz" else _zstd_stream
        self._stream: _Stream | None = None

    @property
    def is_between(self) -> bool:
        """Whether no stream is open: the bytes may end here."""
        return self._stream is None

    def feed(self, raw: bytes) -> Iterator[bytes]:
        """What the next ``raw`` bytes unpack to. Raises ValueError."""
        while raw:
            stream = self._stream = self._stream or self._new()
            try:
                content = stream.decompress(raw)
            except Exception as error:  # zstandard has an error class of its own, which is imported only with it
                raise ValueError(str(error)) from error
            yield content
            # Several streams may follow each other in one file, as after `cat a.gz b.gz`.
            raw = stream.unused_data if stream.eof else b""
            if stream.eof:
                self._stream = None


def _nameless() -> int:
    """A temporary file without a name: the space is freed when the descriptor closes, however the process ends."""
    try:
        return os.open(tempfile.gettempdir(), os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except (OSError, AttributeError):
        # A file system without such files: one that is killed in between leaves an empty file.
        fd, name = tempfile.mkstemp(prefix="sowctl-")
        Path(name).unlink()
        return fd


class DecompressedFile:
    """The content of a compressed file. Raises OSError; DamageError ``SOW-JRN-050`` where it cannot be unpacked."""

    def __init__(self, packed: Callable[[int, int], bytes], path: Place, seam: Seam) -> None:
        """``packed`` reads so many bytes of the compressed file at an offset."""
        self._packed = packed
        self._path = path
        self._seam = seam
        self._unpacker = Unpacker(path)
        self._at = 0
        self._done = False
        self._length = 0
        self._copy = _nameless()

    def reach(self, end: int) -> None:
        """Unpack until there are ``end`` bytes, or all."""
        while self._length < end and not self._done:
            self._more()

    def total(self) -> int:
        """How many bytes it unpacks to."""
        while not self._done:
            self._more()
        return self._length

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes; fewer at the end."""
        self.reach(offset + size)
        return os.pread(self._copy, size, offset)

    def close(self) -> None:
        """Let go of the temporary file; a second time does nothing."""
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1

    def _more(self) -> None:
        raw = self._seam.call("file.read", self._packed, _READ, self._at)
        self._at += len(raw)
        if not raw:
            # A file that ends within a stream was cut; what was unpacked of it so far proves nothing.
            if not self._unpacker.is_between or self._at == 0:
                raise self._damage("it ends too early")
            self._done = True
        try:
            for content in self._unpacker.feed(raw):
                self._keep(content)
        except ValueError as error:
            raise self._damage(str(error)) from error

    def _keep(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._seam.call("file.write", os.write, self._copy, rest) :]
        self._length += len(content)

    def _damage(self, why: str) -> DamageError:
        return DamageError(
            "SOW-JRN-050",
            f"the compressed journal file cannot be unpacked: {why}",
            place=str(self._path),
            hint="restore the file from a copy, compressed or not",
            offset=self._at,
        )
