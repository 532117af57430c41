"""The files that a step of a worker reads and writes: two steps without a common file may be exchanged.

A step is a call of the seam with everything its process does up to the next one. The files of the call are known by its
point and arguments; the following ones by Python's audit events (open, listings, removal) and by ``os.stat``. Pages of
LMDB are read through memory and are invisible: a reader sees what was committed when its transaction began, so the
begin represents its reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

READ, WRITE = "r", "w"
Touch = tuple[str, str]
"""A path below the root, with READ or WRITE. Names in a directory count as the directory itself."""

_NAMES = ("file.rename", "file.link", "file.unlink", "dir.make")
_WRITING = ("file.write", "file.pwrite", "file.truncate", "file.lock", "lmdb.commit")
# Without a power cut the effect of a sync is invisible to other processes; changes of a transaction become visible at
# its commit.
_UNSEEN = ("file.sync", "dir.sync", "lmdb.sync", "lmdb.put", "lmdb.close")


def conflict(one: frozenset[Touch], other: frozenset[Touch]) -> bool:
    """Return whether one of two steps writes a file of the other one."""
    if len(other) < len(one):
        one, other = other, one
    return any((path, WRITE) in other or (kind == WRITE and (path, READ) in other) for path, kind in one)


class Toucher:
    """Collects the files below ``root`` that one process touches."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.absolute()) + os.sep
        self._mine = re.compile(rf"(?<=[-.]){os.getpid()}([-.]\d+)?\b")
        self._numbers: dict[str, str] = {}
        self._transactions: dict[int, str] = {}
        self._muted = False
        self.found: set[Touch] = set()

    def name(self, path: object) -> str | None:
        """Return a path as reported to the test: below the root, with "PID" for the number of this process."""
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, os.PathLike):
            path = os.fspath(path)
        if not isinstance(path, str):
            return None
        text = path if path.startswith(os.sep) else str(Path(path).absolute())
        if text + os.sep == self._root:
            return "."
        if not text.startswith(self._root):
            return None
        return self._mine.sub(self._own, text.removeprefix(self._root))

    def _own(self, found: re.Match[str]) -> str:
        """Rename files that no other process creates by their order, as processes and their numbers differ."""
        return self._numbers.setdefault(found[0], f"PID-{len(self._numbers)}")

    def add(self, path: object, kind: str) -> None:
        name = self.name(path)
        if name is not None:
            self.found.add((name, kind))

    def add_name(self, path: object) -> None:
        """Add a name that is created or removed: its file, and its directory."""
        name = self.name(path)
        if name is not None:
            self.found.update({(name, WRITE), (str(Path(name).parent), WRITE)})

    def take(self) -> list[Touch]:
        """Return everything collected since the last call."""
        found = sorted(self.found)
        self.found.clear()
        return found

    # calls of the seam

    def call(self, point: str, function: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
        """Record the files of a call before it is made; return the paths among its arguments."""
        self._muted = True
        try:
            paths = [path for path in map(self._path, (getattr(function, "__self__", None), *args)) if path is not None]
            if point == "lmdb.commit":
                owner = self._transactions.pop(id(getattr(function, "__self__", None)), None)
                paths = [owner] if owner else paths
            if point in _NAMES:
                for path in paths:
                    self.add_name(path)
            elif point == "file.open":
                self._opened(paths, args)
            elif point in _WRITING:
                for path in paths:
                    self.add(path, WRITE)
            elif point not in _UNSEEN:
                for path in paths:
                    self.add(path, READ)
            return [name for name in map(self.name, paths) if name is not None]
        finally:
            self._muted = False

    def began(self, transaction: object, env: object) -> None:
        """Record the store of a transaction."""
        path = self._path(env)
        if path is not None:
            self._transactions[id(transaction)] = path

    def _opened(self, paths: list[str], args: tuple[Any, ...]) -> None:
        flags = args[1] if len(args) > 1 and isinstance(args[1], int) else os.O_CREAT
        for path in paths:
            if flags & os.O_CREAT and not os.path.lexists(path):
                self.add_name(path)
            else:
                self.add(path, WRITE if flags & os.O_TRUNC else READ)

    def _path(self, value: object) -> str | None:
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return self._of_descriptor(value)
        if isinstance(value, str | os.PathLike):
            text = os.fspath(value)
            return str(Path(text).absolute()) if isinstance(text, str) else None
        if callable(known := getattr(value, "path", None)):
            return str(known())
        if callable(number := getattr(value, "fileno", None)):
            return self._of_descriptor(number())
        return None

    def _of_descriptor(self, number: int) -> str | None:
        try:
            path = str(Path(f"/proc/self/fd/{number}").readlink())
        except OSError:
            return None
        return path.removesuffix(" (deleted)") if path.startswith(self._root) else None

    # accesses without the seam

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """A hook of ``sys.addaudithook``."""
        if self._muted or event not in _AUDITED:
            return
        kind = _AUDITED[event]
        if kind == "open":
            flags = args[2] if isinstance(args[2], int) else 0
            new = flags & os.O_CREAT and isinstance(args[0], str) and not os.path.lexists(args[0])
            if new:
                self.add_name(args[0])
            else:
                self.add(args[0], WRITE if flags & os.O_TRUNC else READ)
        elif kind == "name":
            for path in args[:2]:
                self.add_name(path)
        else:
            self.add(args[0] if args and args[0] is not None else ".", kind)


_AUDITED = {
    "open": "open",
    "os.listdir": READ,
    "os.scandir": READ,
    "os.rename": "name",
    "os.remove": "name",
    "os.link": "name",
    "os.mkdir": "name",
    "os.rmdir": "name",
    "os.truncate": WRITE,
}
