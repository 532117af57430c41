"""Disk states after a power cut: a seam that records writes, syncs and names, and the states that they may result in.

A :class:`Recorder` is passed to the code under test as its seam. It forwards every call and records its effect on the
files below ``root``. :meth:`Recorder.states` then cuts the power after every recorded operation. Everything synced by
then is on the disk; of the rest ("pending") any part may be: none, all, each prefix, each operation alone, all but one,
all but the writes to one file (a name may be on the disk before its file's data), and the last one or a single one torn
at sectors and at 1, n/2 and n-1 bytes, or the last one without one of its sectors.

The model: data of a file is durable after a sync of that file; a name (create, rename, unlink, mkdir) after a sync of
its directory. Unwritten data reads as zeros. Files are identified by inode, so data written before a rename belongs to
the renamed file.

LMDB does not write through the seam. Files that match ``databases`` are read after each ``lmdb.commit`` and
``lmdb.sync``; a commit is durable immediately, unless ``behind(path)`` is true, which means ``metasync=False``: then
the next commit or sync of that file makes it durable.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sowctl.seam import Seam

R = TypeVar("R")
SECTOR = 512


@dataclass(slots=True)
class Disk:
    """Contents by inode, names by path relative to the root; a directory has inode -1."""

    contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Disk:
        return Disk(dict(self.contents), dict(self.names))

    def files(self) -> dict[str, bytes | None]:
        """Return the contents of the directory tree; None is a directory."""
        found: dict[str, bytes | None] = {}
        for name, inode in sorted(self.names.items()):
            parent = name.rpartition("/")[0]
            if not parent or parent in found:
                found[name] = None if inode < 0 else self.contents.get(inode, b"")
        return found


@dataclass(frozen=True, slots=True)
class Write:
    inode: int
    offset: int
    data: bytes

    def apply(self, disk: Disk) -> None:
        old = disk.contents.get(self.inode, b"").ljust(self.offset, b"\0")
        disk.contents[self.inode] = old[: self.offset] + self.data + old[self.offset + len(self.data) :]

    def torn(self) -> Iterator[Write]:
        size = len(self.data)
        first = SECTOR - self.offset % SECTOR
        for cut in sorted({1, size // 2, size - 1, *range(first, size, SECTOR)}):
            if 0 < cut < size:
                yield Write(self.inode, self.offset, self.data[:cut])

    def holed(self) -> Iterator[tuple[Write, Write]]:
        """Yield the write without one sector in the middle, as two parts."""
        size = len(self.data)
        for start in range(SECTOR - self.offset % SECTOR, size - SECTOR, SECTOR):
            rest = Write(self.inode, self.offset + start + SECTOR, self.data[start + SECTOR :])
            yield Write(self.inode, self.offset, self.data[:start]), rest


@dataclass(frozen=True, slots=True)
class Truncate:
    inode: int
    size: int

    def apply(self, disk: Disk) -> None:
        disk.contents[self.inode] = disk.contents.get(self.inode, b"")[: self.size].ljust(self.size, b"\0")


@dataclass(frozen=True, slots=True)
class Replace:
    """A database file after a commit."""

    inode: int
    data: bytes

    def apply(self, disk: Disk) -> None:
        disk.contents[self.inode] = self.data


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    inode: int

    def apply(self, disk: Disk) -> None:
        disk.names[self.path] = self.inode


@dataclass(frozen=True, slots=True)
class Rename:
    source: str
    target: str

    def apply(self, disk: Disk) -> None:
        if disk.names.get(self.source) == -1:
            below = [name for name in disk.names if name.startswith(self.source + "/")]
            for name in below:
                disk.names[self.target + name[len(self.source) :]] = disk.names.pop(name)
        if self.source in disk.names:
            disk.names[self.target] = disk.names.pop(self.source)


@dataclass(frozen=True, slots=True)
class Unlink:
    path: str

    def apply(self, disk: Disk) -> None:
        disk.names.pop(self.path, None)


@dataclass(frozen=True, slots=True)
class SyncFile:
    inode: int


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    path: str


Data = Write | Truncate | Replace
Change = Data | Create | Rename | Unlink
Operation = Change | SyncFile | SyncDirectory


@dataclass(frozen=True, slots=True)
class CrashState:
    """One possible state of the disk, and the number of acknowledgements before the power cut."""

    label: str
    acknowledged: int
    files: dict[str, bytes | None]

    def materialise(self, target: Path) -> None:
        """Replace ``target`` with a directory of exactly these files."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name, content in self.files.items():
            if content is None:
                (target / name).mkdir()
            else:
                (target / name).write_bytes(content)


class Recorder(Seam):
    """Forwards every call and records its effect below ``root``.

    With ``forget_syncs`` nothing counts as synced: a program that never syncs, to test the tests.
    """

    def __init__(
        self,
        root: Path,
        *,
        forget_syncs: bool = False,
        databases: Sequence[str] = ("*.sow", "*.queue"),
        behind: Callable[[Path], bool] = lambda path: False,
    ) -> None:
        self.root = root.resolve()
        self.operations: list[Operation | None] = []
        self.acknowledged = 0
        self._forget = forget_syncs
        self._databases = databases
        self._behind = behind
        self._seen: dict[int, bytes] = {}
        self._start = Disk()
        for path in sorted(self.root.rglob("*")):
            self._start.names[str(path.relative_to(self.root))] = -1 if path.is_dir() else path.stat().st_ino
            if path.is_file():
                self._start.contents[path.stat().st_ino] = path.read_bytes()

    def acknowledge(self) -> None:
        """Record that the code under test has acknowledged something: from here on its loss is a fault."""
        self.acknowledged += 1
        self.operations.append(None)

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        before = self._before(point, args)
        result = function(*args, **kwargs)
        handler = getattr(self, "_" + point.replace(".", "_"), None)
        if handler is not None:
            handler(before, result, *args)
        return result

    def _before(self, point: str, args: tuple[Any, ...]) -> Any:
        if point == "file.open" and args and isinstance(args[0], (str, os.PathLike)):
            path = Path(args[0])
            return path.stat().st_size if path.exists() else None
        if point == "file.write":
            status = os.fstat(args[0])
            append = bool(_flags(args[0]) & os.O_APPEND)
            return status.st_size if append else os.lseek(args[0], 0, os.SEEK_CUR)
        return None

    def _name(self, path: Any) -> str | None:
        full = Path(os.path.abspath(path))  # noqa: PTH100  resolve() would follow the link that is to be named
        return str(full.relative_to(self.root)) if full.is_relative_to(self.root) else None

    def _file_open(self, size: int | None, fd: Any, *args: Any) -> None:
        if not isinstance(fd, int) or (name := self._name(args[0])) is None:
            return
        inode = os.fstat(fd).st_ino
        if size is None:
            self.operations += [Create(name, inode), Truncate(inode, 0)]
        elif args[1] & os.O_TRUNC and size:
            self.operations.append(Truncate(inode, 0))

    def _file_write(self, offset: int, count: int, fd: int, data: Any) -> None:
        self.operations.append(Write(os.fstat(fd).st_ino, offset, bytes(data)[:count]))

    def _file_pwrite(self, _: Any, count: int, fd: int, data: Any, offset: int) -> None:
        self.operations.append(Write(os.fstat(fd).st_ino, offset, bytes(data)[:count]))

    def _file_truncate(self, _: Any, __: Any, fd: int, size: int) -> None:
        self.operations.append(Truncate(os.fstat(fd).st_ino, size))

    def _file_rename(self, _: Any, __: Any, source: Any, target: Any) -> None:
        old, new = self._name(source), self._name(target)
        if old is not None and new is not None:
            self.operations.append(Rename(old, new))

    def _file_link(self, _: Any, __: Any, source: Any, target: Any) -> None:
        if (new := self._name(target)) is not None:
            self.operations.append(Create(new, Path(source).stat().st_ino))

    def _file_unlink(self, _: Any, __: Any, path: Any) -> None:
        if (name := self._name(path)) is not None:
            self.operations.append(Unlink(name))

    def _dir_make(self, _: Any, __: Any, path: Any, *___: Any) -> None:
        if (name := self._name(path)) is not None:
            self.operations.append(Create(name, -1))

    def _file_sync(self, _: Any, __: Any, fd: int) -> None:
        if not self._forget:
            self.operations.append(SyncFile(os.fstat(fd).st_ino))

    def _dir_sync(self, _: Any, __: Any, fd: int) -> None:
        name = self._name(Path(f"/proc/self/fd/{fd}").readlink())
        if name is not None and not self._forget:
            self.operations.append(SyncDirectory(name))

    def _lmdb_commit(self, *_: Any) -> None:
        self._look_at_databases()

    def _lmdb_sync(self, *_: Any) -> None:
        self._look_at_databases(forced=True)

    def _look_at_databases(self, forced: bool = False) -> None:
        for pattern in self._databases:
            for path in sorted(self.root.rglob(pattern)):
                inode, content = path.stat().st_ino, path.read_bytes()
                changed = self._seen.get(inode) != content
                if (changed or forced) and not self._forget:
                    self.operations.append(SyncFile(inode))
                if changed:
                    self._seen[inode] = content
                    self.operations.append(Replace(inode, content))
                    if not self._forget and (forced or not self._behind(path)):
                        self.operations.append(SyncFile(inode))

    def states(self) -> Iterator[CrashState]:
        """Yield every distinct state, with the acknowledgements given before it."""
        told: set[int] = set()
        base = self._start.copy()
        pending: list[Change] = []
        acknowledged = 0
        for number, operation in enumerate(self.operations):
            if operation is None:
                acknowledged += 1
            elif isinstance(operation, (SyncFile, SyncDirectory)):
                rest: list[Change] = []
                for change in pending:
                    if _is_covered(change, operation):
                        change.apply(base)
                    else:
                        rest.append(change)
                pending = rest
            else:
                pending.append(operation)
            for label, chosen in _choices(pending):
                disk = base.copy()
                for change in chosen:
                    change.apply(disk)
                files = disk.files()
                key = hash((acknowledged, tuple(files.items())))
                if key not in told:
                    told.add(key)
                    yield CrashState(f"operation {number}, {label}", acknowledged, files)


def _flags(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_GETFL)


def _is_covered(change: Change, sync: SyncFile | SyncDirectory) -> bool:
    if isinstance(change, Data):
        return isinstance(sync, SyncFile) and sync.inode == change.inode
    if not isinstance(sync, SyncDirectory):
        return False
    name = change.target if isinstance(change, Rename) else change.path
    return (name.rpartition("/")[0] or ".") == sync.path


def _choices(pending: list[Change]) -> Iterator[tuple[str, list[Change]]]:
    """Yield selections of the pending operations that reached the disk."""
    for count in range(len(pending) + 1):
        yield f"first {count} of {len(pending)} pending", pending[:count]
        if count and isinstance(last := pending[count - 1], Write):
            for torn in last.torn():
                yield f"first {count}, the last torn at {len(torn.data)}", [*pending[: count - 1], torn]
            for parts in last.holed():
                yield (
                    f"first {count}, the last without a sector at {len(parts[0].data)}",
                    [*pending[: count - 1], *parts],
                )
    for inode in dict.fromkeys(change.inode for change in pending if isinstance(change, Data)):
        rest = [change for change in pending if not (isinstance(change, Data) and change.inode == inode)]
        yield f"all but the data of {inode}", rest
    for index, change in enumerate(pending):
        yield f"only pending {index}", [change]
        yield f"all but pending {index}", pending[:index] + pending[index + 1 :]
        if isinstance(change, Write):
            for torn in change.torn():
                yield f"only pending {index}, torn at {len(torn.data)}", [torn]
