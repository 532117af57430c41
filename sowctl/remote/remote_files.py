"""Files at URLs: all of them are opened, written and listed here, through ``pyarrow.fs``.

Used for journals in archives, and for the inputs, outputs and staging of the pipeline. Connections are cached per
process: one for each file system. Raises errors of :mod:`sowctl.remote.remote_errors`, and UsageError ``SOW-RMT-001``
for a URL that no file system of Arrow supports.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

from msgspec import Struct

from sowctl.directories import FILE_MODE, make_directories, sync_directory
from sowctl.errors import MissingError, UsageError
from sowctl.extras import build_missing_package_error
from sowctl.interrupts import without_interrupts
from sowctl.remote.place import RemotePath, parse_url
from sowctl.remote.remote_errors import (
    build_missing_file_error,
    build_missing_server_error,
    build_read_error,
    build_write_error,
    convert_error,
    shorten_message,
)
from sowctl.seam import Seam

FIRST_READ_BYTES = 64 << 10
READ_AHEAD_BYTES = 4 << 20
"""Bytes of a request: the first one, and the maximum for sequential reads. A request to an object store takes as long
as 1 to 5 MB of its answer; the header of a file needs few bytes."""
COPY_CHUNK_BYTES = 4 << 20
"""Bytes that are copied at a time."""
RETRY_SECONDS = 20
"""Seconds for which requests to an unresponsive store are retried; its library would continue for minutes."""
_ATOMIC_STORES = frozenset(("s3", "gs", "gcs", "abfs", "abfss"))
"""Stores in which a file exists only once all of it was written."""


class RemoteLimits(Struct):
    """Limits of stores at URLs; tests set smaller ones."""

    max_copy_bytes: int = 5 << 30
    """Bytes of the largest object that S3 copies with one request."""


REMOTE_LIMITS = RemoteLimits()


class FoundFile(NamedTuple):
    """A file of a directory, its size in bytes, and its modification time in seconds since 1970 (0: unknown)."""

    place: RemotePath
    size: int
    changed: float = 0.0


def _connect_filesystem(root: str) -> tuple[Any, str]:
    """Arrow's file system for a URL, and the beginning of the URL's path in it."""
    try:
        from pyarrow import fs
    except ImportError as error:
        words = "files at URLs require the package pyarrow, which is not installed"
        raise build_missing_package_error(
            "SOW-RMT-007", words, "arrow", more="the extra 'spark' includes it"
        ) from error
    made: tuple[Any, str] = fs.FileSystem.from_uri(root)
    return made


@lru_cache(maxsize=32)
def _get_filesystem(root: str, query: str, process: int) -> tuple[Any, str]:
    """The file system, and the prefix of every path in it. ``process``: a fork must not share connections."""
    if root.startswith(("gs:", "gcs:")) and "retry_limit_seconds" not in query:
        # Without it Google's library retries for a quarter of an hour.
        query = f"{query or '?'}&retry_limit_seconds={RETRY_SECONDS}".replace("?&", "?")
    # The path is requested with a name in it: without one, stores interpret the URL as that of the service.
    system, path = _connect_filesystem(f"{root}x{query}")
    if root.startswith(("abfs:", "abfss:")):
        _require_credentials(parse_url(root), system, path)
    return system, path.removesuffix("x")


def _require_credentials(root: RemotePath, system: Any, path: str) -> None:
    """Make a harmless request first: without credentials, Azure's library ends the process that opens a file.

    Raises StorageError ``SOW-RMT-004``.
    """
    try:
        system.get_file_info(path)
    except _arrow_failures() as error:
        found = convert_error(error, root, "read")
        if found.code == "SOW-RMT-004":
            raise found from error


def _arrow_failures() -> tuple[type[Exception], ...]:
    """Return the exception classes of Arrow; called only after it raised something."""
    from pyarrow.lib import ArrowException

    return OSError, ValueError, ArrowException


def _locate_path(place: RemotePath) -> tuple[Any, str]:
    """The file system of a place, and its path there.

    Raises UsageError ``SOW-RMT-001``, MissingPackageError ``SOW-RMT-007``, and the error of
    :func:`sowctl.remote.remote_errors.convert_error` for an unresponsive store.
    """
    options = f"?{place.query}" if place.query else ""
    try:
        system, before = _get_filesystem(place.root, options, os.getpid())
    except (ValueError, OSError, NotImplementedError) as error:
        # For S3 the library requests the region of the bucket, so the error may be about the store and not about the
        # URL.
        found = convert_error(error, place, "reached")
        if found.code in ("SOW-RMT-003", "SOW-RMT-004", "SOW-RMT-005"):
            raise found from error
        # The library may repeat the requested URL, with a password or options in it.
        said = shorten_message(ValueError(str(error).replace(f"{place.root}x{options}", str(place))))
        raise UsageError(
            "SOW-RMT-001",
            f"the scheme of the URL is not supported: {said}",
            place=str(place),
            hint="use s3://, gs://, abfs://, hdfs:// or file://; hdfs requires Hadoop's native library, "
            "see sow-archive(5)",
        ) from error
    return system, before + place.path


class RemoteFile:
    """A file open for reading at any offset; sequential reads are served by large requests."""

    def __init__(self, place: RemotePath) -> None:
        self.place = place
        system, path = _locate_path(place)
        try:
            self._file = system.open_input_file(path)
            self.size: int = self._file.size()
        except _arrow_failures() as error:
            raise _convert_missing(error, place) from error
        self._start = 0
        self._held = b""
        self._step = FIRST_READ_BYTES

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """At most ``size`` bytes; fewer at the end of the file."""
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        end = self._start + len(self._held)
        if not (self._start <= offset and offset + size <= end):
            # The request size grows with sequential reads; a jump resets it.
            follows = self._start <= offset <= end and self._held
            self._step = min(self._step * 4, READ_AHEAD_BYTES) if follows else FIRST_READ_BYTES
            kept = self._held[offset - self._start :] if follows else b""
            begin = offset + len(kept)
            wanted = min(max(size - len(kept), self._step), self.size - begin)
            try:
                more = self._file.read_at(wanted, begin)
            except _arrow_failures() as error:
                raise _convert_missing(error, self.place) from error
            self._held = kept + more if kept else more
            self._start = offset
        at = offset - self._start
        return memoryview(self._held)[at : at + size]

    def close(self) -> None:
        """Close the file; repeated calls have no effect."""
        self._held = b""
        if not self._file.closed:
            self._file.close()


class RemoteStream:
    """A file open for reading as a seekable stream, like a local binary file."""

    def __init__(self, place: RemotePath) -> None:
        self._file = RemoteFile(place)
        self._at = 0

    def seek(self, at: int) -> None:
        """Set the offset."""
        self._at = at

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        found = bytes(self._file.read(self._at, size))
        self._at += len(found)
        return found

    def __enter__(self) -> RemoteStream:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def read_file(place: RemotePath) -> bytes:
    """The content of a small file."""
    system, path = _locate_path(place)
    try:
        with system.open_input_file(path) as file:
            return bytes(file.read())
    except _arrow_failures() as error:
        raise _convert_missing(error, place) from error


def iterate_chunks(place: RemotePath) -> Iterator[bytes]:
    """The content, in chunks."""
    system, path = _locate_path(place)
    try:
        with system.open_input_stream(path, compression=None) as file:
            while chunk := file.read(COPY_CHUNK_BYTES):
                yield chunk
    except _arrow_failures() as error:
        raise _convert_missing(error, place) from error


def write_file(place: RemotePath, content: Iterable[bytes]) -> int:
    """Write a file, replacing an existing one; return its size in bytes. It is replaced completely or not at all.

    In an object store this holds for content in a sequence; if an iterator of chunks ends early, no file is left
    there. In other stores the file is written under a hidden name and renamed. On this machine it is synced before, and
    gets the mode of journals and stores, whose content may be confidential.
    """
    system, path = _locate_path(place)
    directory, _, name = path.rpartition("/")
    hidden = f"{directory}/.{name}.new"
    try:
        if place.scheme in _ATOMIC_STORES:
            return _write_object(system, path, content)
        if place.scheme == "file":
            with _create_local(Path(hidden)) as file:
                size = _copy_content(content, file)
                file.flush()
                os.fsync(file.fileno())
            Path(hidden).replace(path)
            sync_directory(Path(directory), Seam())
            return size
        if directory:
            system.create_dir(directory, recursive=True)
        with system.open_output_stream(hidden, compression=None) as file:
            size = _copy_content(content, file)
        _rename_in_store(system, hidden, path)
    except _arrow_failures() as error:
        raise convert_error(error, place, "written") from error
    return size


def _write_object(system: Any, path: str, content: Iterable[bytes]) -> int:
    """Write an object. Arrow cannot abort an upload: when a file is closed or released, it exists with the content so
    far, and has replaced the previous one."""
    if isinstance(content, Sequence):
        # Only a signal could interrupt these calls, so it is delayed.
        with without_interrupts(), system.open_output_stream(path, compression=None) as file:
            return _copy_content(content, file)
    file = None
    try:
        with without_interrupts():
            file = system.open_output_stream(path, compression=None)
        with file:
            return _copy_content(content, file)
    except BaseException:
        if file is not None:
            with suppress(*_arrow_failures()):
                system.delete_file(path)
        raise


def _copy_content(content: Iterable[bytes], file: Any) -> int:
    size = 0
    for chunk in content:
        file.write(chunk)
        size += len(chunk)
    return size


def _create_local(path: Path) -> IO[bytes]:
    """Create a file of this machine, open for writing, and its directory if missing."""
    make_directories(path.parent, Seam())
    # A leftover file of a run that died may have another mode.
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE), "wb")


def _rename_in_store(system: Any, source: str, target: str) -> None:
    try:
        system.move(source, target)
    except OSError:
        # HDFS does not rename over an existing file.
        system.delete_file(target)
        system.move(source, target)


def find_size(place: RemotePath) -> int | None:
    """The size of a file in bytes; None if it does not exist."""
    system, path = _locate_path(place)
    try:
        found = system.get_file_info(path)
    except _arrow_failures() as error:
        raise convert_error(error, place, "read") from error
    return found.size if found.is_file else None


def place_exists(place: RemotePath) -> bool:
    """True if there is a file, or a non-empty directory. Raises MissingError ``SOW-RMT-003``."""
    system, path = _locate_path(place)
    try:
        found = bool(system.get_file_info(path).type.name != "NotFound")
    except _arrow_failures() as error:
        raise convert_error(error, place, "read") from error
    if not found:
        _require_server(place)
    return found


def list_files(directory: RemotePath, *, below: bool = False) -> list[FoundFile]:
    """The files of a directory by name, with ``below`` those of all subdirectories; none if it is missing.

    Raises MissingError ``SOW-RMT-003``.
    """
    from pyarrow import fs

    system, path = _locate_path(directory)
    selector = fs.FileSelector(path, allow_not_found=True, recursive=below)
    try:
        infos = system.get_file_info(selector)
    except _arrow_failures() as error:
        raise convert_error(error, directory, "read") from error
    if not infos:
        _require_server(directory)
    start = len(path.strip("/")) + 1 if path.strip("/") else 0
    found = [(one.path.strip("/")[start:], one.size, (one.mtime_ns or 0) / 1e9) for one in infos if one.is_file]
    return [FoundFile(directory / name, size, changed) for name, size, changed in sorted(found)]


def list_directories(directory: RemotePath) -> list[RemotePath]:
    """The subdirectories of a directory, by name; none if it is missing."""
    from pyarrow import fs

    system, path = _locate_path(directory)
    try:
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    except _arrow_failures() as error:
        raise convert_error(error, directory, "read") from error
    return [directory / name for name in sorted(one.base_name for one in infos if one.type.name == "Directory")]


@contextmanager
def create_file(place: RemotePath) -> Iterator[IO[bytes]]:
    """Create a file for sequential writing, under a name that no reader uses before its writer announces it: if the
    block raises, a part of the file may remain."""
    system, path = _locate_path(place)
    try:
        if place.scheme not in _ATOMIC_STORES:
            system.create_dir(path.rpartition("/")[0], recursive=True)
        file = system.open_output_stream(path, compression=None)
    except _arrow_failures() as error:
        raise convert_error(error, place, "written") from error
    is_whole = False
    try:
        yield file
        is_whole = True
    finally:
        try:
            file.close()
        except _arrow_failures() as error:
            # The error of the block is raised instead.
            if is_whole:
                raise convert_error(error, place, "written") from error


def upload_file(path: Path, place: RemotePath) -> int:
    """Copy a file of this machine to a URL; return its size in bytes. Raises StorageError ``SOW-RMT-008`` if it is
    unreadable."""

    def content() -> Iterator[bytes]:
        # Only errors of reading concern the local file: errors of writing are raised where a chunk is consumed, not
        # here.
        try:
            with path.open("rb") as file:
                while chunk := file.read(COPY_CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise build_read_error(error, path) from error

    return write_file(place, content())


def download_file(place: RemotePath, path: Path) -> None:
    """Copy a file at a URL to this machine. Raises StorageError ``SOW-RMT-009`` if it cannot be written here."""
    try:
        with path.open("wb") as file:
            for chunk in iterate_chunks(place):
                file.write(chunk)
    except OSError as error:
        # Errors at the URL are no OSError any more, so this one is about the local file.
        raise build_write_error(error, path) from error


def rename_file(source: RemotePath, place: RemotePath) -> None:
    """Rename a file in the same file system; if it was renamed already, do nothing.

    Object stores copy it themselves, and the file also keeps its first name until that is deleted.
    """
    system, path = _locate_path(source)
    _, target = _locate_path(place)
    size = find_size(source)
    if size is None:
        if place.scheme not in _ATOMIC_STORES and find_size(place) is not None:
            return
        raise build_missing_file_error(source)
    try:
        if place.scheme not in _ATOMIC_STORES:
            system.create_dir(target.rpartition("/")[0], recursive=True)
            _rename_in_store(system, path, target)
        elif size > REMOTE_LIMITS.max_copy_bytes:
            write_file(place, iterate_chunks(source))
        else:
            system.copy_file(path, target)
    except _arrow_failures() as error:
        raise convert_error(error, place, "written") from error


def delete_file(place: RemotePath) -> None:
    """Remove a file; a missing one is no error."""
    system, path = _locate_path(place)
    try:
        system.delete_file(path)
    except FileNotFoundError:
        return
    except _arrow_failures() as error:
        raise convert_error(error, place, "removed") from error


def delete_directory(directory: RemotePath) -> None:
    """Remove a directory with all of its content; a missing one is no error."""
    system, path = _locate_path(directory)
    try:
        system.delete_dir(path)
    except FileNotFoundError:
        return
    except _arrow_failures() as error:
        raise convert_error(error, directory, "removed") from error


def _convert_missing(error: Exception, place: RemotePath) -> Exception:
    """As :func:`convert_error`; if a file is missing, also check that the bucket exists."""
    found = convert_error(error, place, "read")
    if found.code == "SOW-RMT-002":
        try:
            _require_server(place)
        except MissingError as without:
            return without
    return found


def _require_server(place: RemotePath) -> None:
    """Raise MissingError ``SOW-RMT-003`` if nothing was found because the bucket is missing."""
    if place.scheme not in _ATOMIC_STORES:
        return
    system, path = _locate_path(place)
    try:
        missing = system.get_file_info(path.partition("/")[0]).type.name == "NotFound"
    except _arrow_failures():
        # No permission to check the bucket: it is only known that nothing was found.
        return
    if missing:
        raise build_missing_server_error(place)
