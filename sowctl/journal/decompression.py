"""Compressed journal files, ``.journal.gz`` and ``.journal.zst``, as bytes that can be read at any offset.

A file is decompressed as a stream into an unnamed temporary file, only up to the requested offset: memory stays bounded
whatever the decompressed size, and reading the header decompresses only the first bytes. If the file ends with a table
of its frames (zstd's seekable format), only the requested frames are decompressed. Called only by
:mod:`sowctl.journal.files`; :mod:`sowctl.journal.maintenance.file_compression` writes such tables. Specified in
``sow-journal(5)``, "Archived and compressed files".
"""

from __future__ import annotations

import os
import tempfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from struct import Struct as Layout
from typing import Protocol

from sowctl.errors import DamageError
from sowctl.remote.place import Place
from sowctl.seam import Seam

_READ_CHUNK_BYTES = 4096
"""Bytes of the compressed file per read. A few bytes of zstd can decompress to 128 KiB, so this limits memory."""


_TABLE_LAYOUT = Layout("<II")
"""Before the rows of a table of frames: magic number of a frame that zstd skips, and the number of following bytes."""
_TABLE_ROW = Layout("<II")
"""Of each frame: compressed size and content size."""
_FOOTER = Layout("<IBI")
"""After the rows: their number, flags, magic number of the seekable format."""
_TABLE_MAGIC, _FOOTER_MAGIC = 0x184D2A5E, 0x8F92EAB1
_HAS_CHECKSUMS, _RESERVED = 0x80, 0x7C


def encode_frame_table(frames: Sequence[tuple[int, int]]) -> bytes:
    """Return the table at the end of a file for these frames, each given by compressed size and content size."""
    rows = b"".join(_TABLE_ROW.pack(*frame) for frame in frames) + _FOOTER.pack(len(frames), 0, _FOOTER_MAGIC)
    return _TABLE_LAYOUT.pack(_TABLE_MAGIC, len(rows)) + rows


def decode_frame_table(packed: Callable[[int, int], bytes], stored: int) -> list[tuple[int, int]] | None:
    """Return the frames in the table at the end of a file of ``stored`` bytes; None without a valid table: then the
    file is read from its beginning."""
    # Every number is checked before use, and finally that frames and table together are the whole file.
    if stored < _TABLE_LAYOUT.size + _FOOTER.size:
        return None
    footer = packed(_FOOTER.size, stored - _FOOTER.size)
    if len(footer) < _FOOTER.size:
        return None
    count, flags, magic = _FOOTER.unpack(footer)
    row = _TABLE_ROW.size + (4 if flags & _HAS_CHECKSUMS else 0)
    begin = stored - _TABLE_LAYOUT.size - row * count - _FOOTER.size
    if magic != _FOOTER_MAGIC or flags & _RESERVED or begin < 0:
        return None
    raw = packed(_TABLE_LAYOUT.size + row * count, begin)
    if len(raw) < _TABLE_LAYOUT.size + row * count or _TABLE_LAYOUT.unpack_from(raw) != (
        _TABLE_MAGIC,
        row * count + _FOOTER.size,
    ):
        return None
    frames = [_TABLE_ROW.unpack_from(raw, _TABLE_LAYOUT.size + row * number) for number in range(count)]
    return frames if sum(size for size, _ in frames) == begin else None


class _Stream(Protocol):
    """One of several compressed streams that may follow each other in a file (gzip members, zstd frames)."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip_stream() -> _Stream:
    # 31: 15 bits of window, the maximum, and 16 for a gzip header.
    return zlib.decompressobj(wbits=31)


def _zstd_stream() -> _Stream:
    import zstandard

    # A frame may require a window of gigabytes; 128 MiB is the default limit of the zstd command.
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


class StreamDecompressor:
    """Decompresses a stream piece by piece. The suffix of ``path`` selects the format."""

    def __init__(self, path: Place) -> None:
        self._new: Callable[[], _Stream] = _gzip_stream if path.suffix == ".gz" else _zstd_stream
        self._stream: _Stream | None = None

    @property
    def is_between_streams(self) -> bool:
        """True if no stream is open: the bytes may end here."""
        return self._stream is None

    def decompress(self, raw: bytes) -> Iterator[bytes]:
        """Yield the decompressed content of the next ``raw`` bytes. Raises ValueError."""
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


def _open_unnamed_file() -> int:
    """Open an unnamed temporary file: its space is freed when the descriptor closes, however the process ends."""
    try:
        return os.open(tempfile.gettempdir(), os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except (OSError, AttributeError):
        # The file system does not support unnamed files: a process killed in between leaves an empty file.
        fd, name = tempfile.mkstemp(prefix="sowctl-")
        Path(name).unlink()
        return fd


class DecompressedFile:
    """The content of a compressed file. Raises OSError; DamageError ``SOW-JRN-050`` if it cannot be decompressed."""

    def __init__(self, packed: Callable[[int, int], bytes], path: Place, seam: Seam, stored: Callable[[], int]) -> None:
        """``packed`` reads a number of bytes of the compressed file at an offset, ``stored`` returns their total."""
        self._packed = packed
        self._path = path
        self._seam = seam
        self._stored = stored
        self._unpacker = StreamDecompressor(path)
        self._at = 0
        self._done = False
        self._length = 0
        self._copy = _open_unnamed_file()
        # Only zstd has such tables: gzip files are not checked.
        self._asked = path.suffix != ".zst"
        # Start offsets of the frames in the file and in its content, each list with the end of the last frame.
        self._frames: tuple[list[int], list[int]] | None = None
        # Numbers of the frames that are in the temporary file.
        self._here: set[int] = set()

    @property
    def is_seekable(self) -> bool:
        """True if a part can be read without the bytes before it. Reads the table once."""
        if not self._asked:
            self._asked = True
            found = decode_frame_table(self._packed, self._stored())
            if found is not None:
                sizes, contents = zip(*found, strict=True) if found else ((), ())
                self._frames = [*accumulate(sizes, initial=0)], [*accumulate(contents, initial=0)]
        return self._frames is not None

    def decompress_until(self, end: int) -> None:
        """Decompress until ``end`` bytes or all are available; frames listed in a table are decompressed when they are
        read."""
        while not self.is_seekable and self._length < end and not self._done:
            self._unpack_more()

    def measure_size(self) -> int:
        """Return the decompressed size in bytes."""
        if self.is_seekable and self._frames is not None:
            # The table is trusted here; a frame of another length is detected during decompression.
            return self._frames[1][-1]
        while not self._done:
            self._unpack_more()
        return self._length

    def read(self, offset: int, size: int) -> bytes:
        """Return at most ``size`` bytes; fewer at the end."""
        if self.is_seekable and self._frames is not None:
            begins = self._frames[1]
            number = bisect_right(begins, offset) - 1
            while number < len(begins) - 1 and begins[number] < offset + size:
                if number not in self._here:
                    self._unpack_frame(number, *(column[number : number + 2] for column in self._frames))
                number += 1
        else:
            self.decompress_until(offset + size)
        return os.pread(self._copy, size, offset)

    def _unpack_frame(self, number: int, stored: Sequence[int], content: Sequence[int]) -> None:
        """Decompress one frame to its offset; ``stored`` and ``content`` are its bounds in the file and in the content.

        The table may be wrong: a frame of another length counts as damage, and never overwrites another frame.
        """
        unpacker, (self._at, end), (at, stop) = StreamDecompressor(self._path), stored, content
        while self._at < end:
            raw = self._seam.call("file.read", self._packed, min(_READ_CHUNK_BYTES, end - self._at), self._at)
            if not raw:
                raise self._damage_error("it ends too early")
            self._at += len(raw)
            try:
                for piece in unpacker.decompress(raw):
                    rest = memoryview(piece)
                    if at + len(rest) > stop:
                        raise ValueError("a frame is larger than the table of frames says")
                    while rest:
                        written = self._seam.call("file.write", os.pwrite, self._copy, rest, at)
                        rest, at = rest[written:], at + written
            except ValueError as error:
                raise self._damage_error(str(error)) from error
        if at != stop or not unpacker.is_between_streams:
            raise self._damage_error("a frame is not as the table of frames says")
        self._here.add(number)

    def close(self) -> None:
        """Close the temporary file; repeated calls do nothing."""
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1

    def _unpack_more(self) -> None:
        raw = self._seam.call("file.read", self._packed, _READ_CHUNK_BYTES, self._at)
        self._at += len(raw)
        if not raw:
            # A file that ends within a stream was truncated; the bytes decompressed so far prove nothing. An empty file
            # is damaged, too: even an empty stream has a header.
            if not self._unpacker.is_between_streams or self._at == 0:
                raise self._damage_error("it ends too early")
            self._done = True
        try:
            for content in self._unpacker.decompress(raw):
                self._store_content(content)
        except ValueError as error:
            raise self._damage_error(str(error)) from error

    def _store_content(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._seam.call("file.write", os.write, self._copy, rest) :]
        self._length += len(content)

    def _damage_error(self, why: str) -> DamageError:
        return DamageError(
            "SOW-JRN-050",
            f"cannot decompress the journal file: {why}",
            place=str(self._path),
            hint="restore the file from a copy, compressed or not",
            offset=self._at,
        )
