"""Input files: expand paths, split files at line breaks, and read the lines of a split (for the job ``load``)."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from sowctl.arrow.inputs.partitions import build_order_key, is_hidden, list_directory_files
from sowctl.engine.reports import Rejected
from sowctl.errors import DamageError, MissingError
from sowctl.journal.decompression import StreamDecompressor
from sowctl.remote.place import is_file_url, parse_url
from sowctl.spark.paths import is_remote, parse_local_path

if TYPE_CHECKING:
    from sowctl.messages.framing.frames import FrameReader

SCAN_BYTES = 1 << 16
READ_CHUNK_BYTES = 1 << 14
"""Bytes of a compressed file read at a time; few, because the decompressed size may be thousands of times larger."""
COMPRESSED_SUFFIXES = (".gz", ".zst")


def expand_paths(
    paths: Sequence[str], *, through_door: bool = False, notify: Callable[[str], None] = lambda text: None
) -> list[str]:
    """Return the files of paths and patterns in the order given. Files of a pattern or below a directory are sorted by
    path (:mod:`sowctl.arrow.inputs.partitions`).

    ``through_door``: expand URLs here; otherwise Spark expands them when it reads. ``notify`` receives notes. Raises
    MissingError ``SOW-SPK-040`` if a path matches no file.
    """
    found: list[str] = []
    for path in paths:
        if is_remote(path):
            found += _list_url_files(path) if through_door else [path]
            continue
        plain = str(parse_local_path(path)) if is_file_url(path) else path
        if Path(plain).is_file():
            found.append(plain)
            continue
        if Path(plain).is_dir():
            some = list_directory_files(plain, notify)
        else:
            some = glob.glob(plain, recursive=True)  # noqa: PTH207 - the pattern may be absolute
            some = sorted((name for name in some if _is_data_file(name)), key=build_order_key)
        if not some:
            hint = "give paths of files or directories, or quoted patterns"
            what = "the file does not exist"
            if Path(plain).is_dir():
                what = "the directory has no files"
                hint = "files whose names begin with . or _ are not read"
            raise MissingError("SOW-SPK-040", what, place=path, hint=hint)
        found += some
    return found


def _is_data_file(name: str) -> bool:
    return Path(name).is_file() and not is_hidden(Path(name).name)


def _list_url_files(url: str) -> list[str]:
    """Return the files that a URL matches, as URLs: a single file, those of a directory, or those of a pattern."""
    from sowctl.remote.remote_files import find_size, list_files

    place = parse_url(url)
    wild = next((at for at, part in enumerate(place.path.split("/")) if set(part) & set("*?[")), None)
    if wild is None and find_size(place) is not None:
        return [url]
    parts = place.path.split("/")
    root = place if wild is None else replace(place, path="/".join(parts[:wild]))
    some = [one.place for one in list_files(root, below=True)]
    if wild is not None:
        some = [one for one in some if fnmatchcase(one.path, place.path) and one.path.count("/") == len(parts) - 1]
    above = root.path.rstrip("/").count("/") + 1
    some = [one for one in some if not any(map(is_hidden, one.path.split("/")[above:]))]
    if not some:
        hint = "give URLs of files or directories, or quoted patterns"
        raise MissingError("SOW-SPK-040", "the file does not exist", place=str(place), hint=hint)
    return [one.url for one in sorted(some, key=lambda one: build_order_key(one.path))]


class InputSplit(Struct, frozen=True):
    """The lines that begin in bytes ``start`` to ``stop`` of a file. A compressed file is a single split."""

    path: str
    number: int
    start: int
    stop: int
    packed: bool = False


def split_files(files: Sequence[str], size: int) -> Iterator[InputSplit]:
    """Yield splits of about ``size`` bytes; compressed files are not split."""
    for number, path in enumerate(files):
        total = _size(path)
        packed = is_compressed(path)
        count = 1 if packed else max(1, -(-total // size))
        # Each split begins where the previous one ends, so that rounding neither skips nor repeats a byte.
        for start, stop in pairwise(total * step // count for step in range(count + 1)):
            yield InputSplit(path if is_remote(path) else str(Path(path).absolute()), number, start, stop, packed)


def is_compressed(path: str) -> bool:
    """Return whether a file is compressed with gzip or zstd, judged by its suffix."""
    return Path(parse_url(path).name if is_remote(path) else path).suffix.lower() in COMPRESSED_SUFFIXES


def find_large_compressed(splits: Sequence[InputSplit], size: int) -> list[str]:
    """Return the compressed files larger than a split. Each is read by one task, as decompression is sequential."""
    return [format_path(split.path) for split in splits if split.packed and split.stop > size]


def format_path(path: str) -> str:
    """Format a path for messages: a URL without its secret parts."""
    return str(parse_url(path)) if is_remote(path) else path


def _size(path: str) -> int:
    if not is_remote(path):
        return Path(path).stat().st_size
    from sowctl.remote.remote_errors import build_missing_file_error
    from sowctl.remote.remote_files import find_size

    size = find_size(parse_url(path))
    if size is None:
        raise build_missing_file_error(parse_url(path))
    return size


def _open_file(path: str) -> Any:
    """Open a local or remote file as a seekable binary stream."""
    if not is_remote(path):
        return Path(path).open("rb")
    from sowctl.remote.remote_files import RemoteStream

    return RemoteStream(parse_url(path))


class SplitLines(NamedTuple):
    """Lines of a split: messages with their offsets in the file and their line numbers, counted from 1 in the split;
    the number of blank lines; and rejected lines."""

    payloads: list[bytes]
    offsets: list[int]
    lines: list[int]
    blank: int
    refused: list[Rejected]


def read_lines(split: InputSplit) -> Iterator[SplitLines]:
    """Yield the lines of a split, in chunks."""
    from sowctl.messages.framing.frames import FrameReader

    with _open_file(split.path) as file:
        if split.packed:
            yield from _lines(FrameReader(cast(Any, _UnpackedStream(file, split.path)), "lines"), split.path, 0, 0)
            return
        # A split other than the first is read from the line break that ends the last line of the previous split. The
        # reader counts it as a blank line.
        start = _line_break(file, split.start - 1) if split.start else 0
        stop = _line_break(file, split.stop - 1) + 1 if split.stop else 0
        extra = 1 if split.start else 0
        if start + extra >= stop:
            return
        # A line belongs to the split that contains its first byte. Both edges move by the same rule, from one byte
        # before the edge to the next line break, so that adjacent splits agree without communication.
        file.seek(start)
        reader = FrameReader(cast(Any, _BoundedStream(file, stop - start)), "lines")
        yield from _lines(reader, split.path, start, extra)


def _lines(reader: FrameReader, path: str, start: int, extra: int) -> Iterator[SplitLines]:
    """Yield lines from ``start``; ``extra`` blank lines belong to the previous split."""
    before = extra
    for chunk in reader:
        lines, offsets = chunk.places
        refused = [
            Rejected(format_path(path), one.line - before, start + one.offset, one.code, one.message, one.payload)
            for one in chunk.refused
        ]
        blank = chunk.blank
        if extra and blank:
            # The line break at the start of the split ends a line of the previous split.
            blank, extra = blank - 1, 0
        yield SplitLines(
            chunk.payloads,
            [start + offset for offset in offsets],
            [line - before for line in lines],
            blank,
            refused,
        )


def _line_break(file: Any, at: int) -> int:
    """Return the offset of the first line break at or after ``at``, or the end of the file."""
    file.seek(at)
    while data := file.read(SCAN_BYTES):
        found = data.find(b"\n")
        if found >= 0:
            return at + int(found)
        at += len(data)
    return at


class _BoundedStream:
    """A stream of the next ``size`` bytes of an open file."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the end of the part."""
        data: bytes = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


class _UnpackedStream:
    """A stream of the content of a compressed file. Raises DamageError ``SOW-SPK-154``."""

    def __init__(self, file: Any, path: str) -> None:
        self._file, self._path = file, path
        self._unpacker = StreamDecompressor(Path(path.lower()))
        self._content: Iterator[bytes] = iter(())
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        while not self._rest:
            try:
                piece = next(self._content, None)
            except ValueError as error:
                raise self._damage(str(error)) from error
            if piece is not None:
                # A piece may be empty before the end of the file; then the loop reads the next one.
                self._rest = piece
                continue
            raw = self._file.read(READ_CHUNK_BYTES)
            if not raw:
                if not self._unpacker.is_between_streams:
                    raise self._damage("it ends too early")
                return b""
            self._content = self._unpacker.decompress(raw)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _damage(self, why: str) -> DamageError:
        return DamageError(
            "SOW-SPK-154",
            f"cannot decompress the file: {why}",
            place=format_path(self._path),
            hint="check the file with gzip -t or zstd -t; nothing was loaded",
        )
