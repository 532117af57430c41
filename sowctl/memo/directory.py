"""The files of a store's memo indexes: a directory beside it, with a file for the keys and one for each path.

A builder holds a lock for which no other process waits: the others do without indexes meanwhile. Files are written
under temporary names and renamed; nothing is synced, since checksums tell what is whole and all can be made anew.
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
    """The memo indexes of the store at ``store``. Columns are named by texts that say what they hold."""

    def __init__(self, store: Path, seam: Seam = SEAM) -> None:
        real = store.resolve()
        self.path = real.with_name(f"{real.name}-memo")
        self._seam = seam

    def find_keys(self) -> tuple[MemoFile, memoryview] | None:
        """The file of the keys, and the keys end to end; None where there is none of use."""
        try:
            file = open_memo(self._file_path(_KEYS))
            if file.head.kind is not MemoKind.KEYS:
                return None
            return file, file.read_section(1)
        except (OSError, BadMemo):
            return None

    def find_locations(self, digest: int) -> tuple[memoryview, memoryview, memoryview] | None:
        """Return first bytes (u64), sizes and sums (u32) of each record; None where there is no file of use.

        Sizes are verified, so that no read is larger than the record; offsets are not, because the record that is read
        there has a checksum of its own.
        """
        try:
            file = open_memo(self._file_path(_SPOTS))
            if file.head.kind is not MemoKind.SPOTS or file.head.digest != digest:
                return None
            found = (
                file.read_unverified_section(1).cast("Q"),
                file.read_section(2).cast("I"),
                file.read_unverified_section(3).cast("I"),
            )
            # All three have an entry for each record, or no row number may be used with them.
            return found if {len(part) for part in found} == {file.head.records} else None
        except (OSError, BadMemo, TypeError):
            return None

    def find_types(self, name: str) -> tuple[int, bytes] | None:
        """The digest of a state and the types of its fields, as they were put under ``name``; None where there are
        none of use."""
        try:
            file = open_memo(self._file_path(_TYPES))
            if file.head.kind is not MemoKind.TYPES or bytes(file.read_section(0)) != name.encode():
                return None
            return file.head.digest, bytes(file.read_section(1))
        except (OSError, BadMemo):
            return None

    def find_column(self, name: str, digest: int) -> tuple[MemoIndex | None] | None:
        """The column ``name`` for the state with ``digest``; None where there is none of use.

        ``(None,)`` says that the values of this path cannot be indexed.
        """
        try:
            # The name in the file is compared as well: the file's name is a hash, and two paths may share one.
            file = open_memo(self._column_path(name))
            if file.head.digest != digest or bytes(file.read_section(0)) != name.encode():
                return None
            return (open_index(file),)
        except (OSError, BadMemo, ValueError):
            return None

    def list_columns(self) -> list[str]:
        """The names of all columns there are, whatever state they are of."""
        found = []
        for path in sorted(self.path.glob(f"*{_MEMO_SUFFIX}")):
            if path.name not in _RESERVED_FILE_NAMES:
                with suppress(OSError, BadMemo, UnicodeDecodeError):
                    # Opened by itself and not kept: a walk over all files must not push out those that queries use.
                    found.append(bytes(MemoFile(path).read_section(0)).decode())
        return found

    def count_bytes(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.path.glob(f"*{_MEMO_SUFFIX}"))

    def note_request(self, names: Iterable[str]) -> bool:
        """Note that columns ``names`` would have been of use; whether each of them had been noted before."""
        notes = [self._file_path(xxh3_64_hexdigest(name.encode()), _REQUEST_SUFFIX) for name in names]
        new = [note for note in notes if not note.exists()]
        # A note is an empty file, so two processes that make the same one do not disturb each other. Without leave to
        # write here there is none, and no index will be built either.
        with suppress(OSError):
            if new:
                self._make_directory()
            for note in new:
                self._seam.call("file.open", note.touch, 0o640)
        return not new

    def clear(self) -> None:
        """Remove all indexes, and what was noted of questions."""
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
        """Hold the lock of the builder; False where another process does. Raises OSError where that fails."""
        self._make_directory()
        # The lock file stays when the lock is given up: a file that was removed could be locked by two builders at
        # once.
        fd = self._seam.call("file.open", os.open, self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            try:
                # Not waited for: the query that would build goes on without an index, which costs less than waiting for
                # another builder.
                self._seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(fd)

    def write_keys(self, parts: Sequence[bytes | memoryview]) -> None:
        """Put a file of keys in place. Raises OSError."""
        self._write_file(self._file_path(_KEYS), parts)

    def write_locations(self, parts: Sequence[bytes | memoryview] | None) -> None:
        """Put a file of spots in place, or none. Raises OSError."""
        if parts is None:
            self._file_path(_SPOTS).unlink(missing_ok=True)
        else:
            self._write_file(self._file_path(_SPOTS), parts)

    def write_types(self, parts: Sequence[bytes | memoryview]) -> None:
        """Put the types of fields in place. Raises OSError."""
        self._make_directory()
        self._write_file(self._file_path(_TYPES), parts)

    def write_column(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        """Put a column in place. Raises OSError."""
        path = self._column_path(name)
        self._write_file(path, parts)
        # What was asked before is answered. Where this column is out of date one day, it is asked for anew.
        path.with_suffix(_REQUEST_SUFFIX).unlink(missing_ok=True)

    def _write_file(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        # Renamed when complete: a reader that has the old file mapped keeps it, and none sees half a file. A crash may
        # lose the content behind the new name, which the checksums tell.
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
