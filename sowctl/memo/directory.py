"""The files of a store's memo indexes: a directory beside it, with a file for the keys and one for each path.

A builder holds a lock for which no other process waits: other processes use no indexes meanwhile. Files are written
under temporary names and renamed; nothing is synced, since checksums detect incomplete files and all can be rebuilt.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from sowctl.memo.format import BadMemo, MemoFile, MemoKind, open_memo
from sowctl.memo.index import MemoIndex, open_index
from sowctl.seam import SEAM, Seam

_KEYS, _SPOTS, _TYPES = "keys", "spots", "types"
_RESERVED_FILE_NAMES = {f"{_KEYS}.memo", f"{_SPOTS}.memo", f"{_TYPES}.memo"}
_MEMO_SUFFIX = ".memo"
_REQUEST_SUFFIX = ".asked"


class MemoDirectory:
    """The memo indexes of the store at ``store``. Columns are named by texts that describe their content."""

    def __init__(self, store: Path, seam: Seam = SEAM) -> None:
        real = store.resolve()
        self.path = real.with_name(f"{real.name}-memo")
        self._seam = seam

    def find_keys(self) -> tuple[MemoFile, memoryview] | None:
        """Return the file of the keys, and the keys end to end; None without a usable file."""
        try:
            file = open_memo(self._file_path(_KEYS))
            if file.head.kind is not MemoKind.KEYS:
                return None
            return file, file.read_section(1)
        except (OSError, BadMemo):
            return None

    def find_locations(self, state: int) -> tuple[memoryview, memoryview, memoryview] | None:
        """Return offset (u64), size and checksum (u32) of each record; None without a usable file.

        Sizes are verified, so that no read is larger than the record; offsets are not, because each record has its own
        checksum.
        """
        try:
            file = open_memo(self._file_path(_SPOTS))
            if file.head.kind is not MemoKind.SPOTS or file.head.state != state:
                return None
            found = (
                file.read_unverified_section(1).cast("Q"),
                file.read_section(2).cast("I"),
                file.read_unverified_section(3).cast("I"),
            )
            # All three must have an entry per record; otherwise no row number may be used with them.
            return found if {len(part) for part in found} == {file.head.records} else None
        except (OSError, BadMemo, TypeError):
            return None

    def find_types(self, name: str) -> tuple[int, bytes] | None:
        """Return the number of a state and the types of its fields, as stored under ``name``; None without a usable
        file."""
        try:
            file = open_memo(self._file_path(_TYPES))
            if file.head.kind is not MemoKind.TYPES or bytes(file.read_section(0)) != name.encode():
                return None
            return file.head.state, bytes(file.read_section(1))
        except (OSError, BadMemo):
            return None

    def find_column(self, name: str, state: int) -> tuple[MemoIndex | None] | None:
        """Return the column ``name`` for the state with this number; None without a usable file.

        ``(None,)`` means that the values of this path cannot be indexed.
        """
        try:
            # The name in the file is also compared: the file's name is a hash, and two paths may share one.
            file = open_memo(self._column_path(name))
            if file.head.state != state or bytes(file.read_section(0)) != name.encode():
                return None
            return (open_index(file),)
        except (OSError, BadMemo, ValueError):
            return None

    def list_columns(self) -> list[str]:
        """Return the names of all existing columns, of any state."""
        found = []
        for path in sorted(self.path.glob(f"*{_MEMO_SUFFIX}")):
            if path.name not in _RESERVED_FILE_NAMES:
                with suppress(OSError, BadMemo, UnicodeDecodeError):
                    # Opened separately and not cached: reading all files must not evict those that queries use.
                    found.append(bytes(MemoFile(path).read_section(0)).decode())
        return found

    def count_bytes(self) -> int:
        """Return the total size of all files in bytes."""
        return sum(path.stat().st_size for path in self.path.glob(f"*{_MEMO_SUFFIX}"))

    def note_request(self, names: Iterable[str]) -> bool:
        """Record that columns ``names`` would have been useful; return whether each of them had been recorded
        before."""
        notes = [self._file_path(xxh3_64_hexdigest(name.encode()), _REQUEST_SUFFIX) for name in names]
        new = [note for note in notes if not note.exists()]
        # A request is an empty file, so two processes that create the same one do not interfere. Without write
        # permission there is none, and no index can be built either.
        with suppress(OSError):
            if new:
                self._make_directory()
            for note in new:
                self._seam.call("file.open", note.touch, 0o640)
        return not new

    def clear(self) -> None:
        """Remove all indexes and requests."""
        for path in (*self.path.glob(f"*{_MEMO_SUFFIX}*"), *self.path.glob(f"*{_REQUEST_SUFFIX}")):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all files and the directory."""
        self.clear()
        (self.path / "lock").unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            self.path.rmdir()

    def _column_path(self, name: str) -> Path:
        return self._file_path(xxh3_64_hexdigest(name.encode()))

    def _file_path(self, name: str, suffix: str = _MEMO_SUFFIX) -> Path:
        return self.path / f"{name}{suffix}"

    def _make_directory(self) -> None:
        with suppress(FileExistsError):
            self._seam.call("dir.make", os.mkdir, self.path, 0o750)

    @contextmanager
    def hold_build_lock(self) -> Iterator[bool]:
        """Hold the lock of the builder; yield False if another process holds it. Raises OSError if locking fails."""
        self._make_directory()
        # The lock file stays when the lock is released: a removed file could be locked by two builders at once.
        fd = self._seam.call("file.open", os.open, self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            try:
                # Does not wait: the query that would build continues without an index, which costs less than waiting
                # for another builder.
                self._seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(fd)

    def write_keys(self, parts: Sequence[bytes | memoryview]) -> None:
        """Write the file of keys. Raises OSError."""
        self._write_file(self._file_path(_KEYS), parts)

    def write_locations(self, parts: Sequence[bytes | memoryview] | None) -> None:
        """Write or remove the file of locations. Raises OSError."""
        if parts is None:
            self._file_path(_SPOTS).unlink(missing_ok=True)
        else:
            self._write_file(self._file_path(_SPOTS), parts)

    def write_types(self, parts: Sequence[bytes | memoryview]) -> None:
        """Write the file of field types. Raises OSError."""
        self._make_directory()
        self._write_file(self._file_path(_TYPES), parts)

    def write_column(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        """Write a column. Raises OSError."""
        path = self._column_path(name)
        self._write_file(path, parts)
        # The earlier request is served. When this column becomes outdated, it is requested again.
        path.with_suffix(_REQUEST_SUFFIX).unlink(missing_ok=True)

    def _write_file(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        # Renamed when complete: a reader that has the old file mapped keeps it, and no reader sees an incomplete file.
        # A crash may lose the content after the rename, which the checksums detect.
        temporary = path.with_name(f"{path.name}.new-{os.getpid()}")
        try:
            fd = self._seam.call(
                "file.open", os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640
            )
            with os.fdopen(fd, "wb") as stream:
                for part in parts:
                    self._seam.call("file.write", stream.write, part)
            self._seam.call("file.rename", os.rename, temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
