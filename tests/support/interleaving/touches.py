"""Which files a step of a worker reads and writes: two steps that share none of them may change places.

A step is a call of the seam with what its process does up to the next one. What the call touches is told by its point
and arguments; what follows it, by Python's audit events (open, listings, removal) and by ``os.stat``. Pages of LMDB are
read through memory and are not seen: a reader sees what was committed when its transaction began, so the begin stands
for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

READ, WRITE = "r", "w"
Touch = tuple[str, str]
"""A path below the root, with READ or WRITE. The names in a directory are touched as the directory itself."""

_NAMES = ("file.rename", "file.link", "file.unlink", "dir.make")
_WRITING = ("file.write", "file.pwrite", "file.truncate", "file.lock", "lmdb.commit")
# What a sync does is not seen by another process as long as the power stays on; changes of a transaction are seen when
# it is committed.
_UNSEEN = ("file.sync", "dir.sync", "lmdb.sync", "lmdb.put", "lmdb.close")


def conflict(one: frozenset[Touch], other: frozenset[Touch]) -> bool:
    """Whether one of two steps writes what the other one touches."""
    if len(other) < len(one):
        one, other = other, one
    return any((path, WRITE) in other or (kind == WRITE and (path, READ) in other) for path, kind in one)


class Toucher:
    """Collects what one process touches below ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.absolute()) + os.sep
        self._mine = re.compile(rf"(?<=[-.]){os.getpid()}([-.]\d+)?\b")
        self._numbers: dict[str, str] = {}
        self._transactions: dict[int, str] = {}
        self._muted = False
        self.found: set[Touch] = set()

    def name(self, path: object) -> str | None:
        """A path as it is told to the test: below the root, with "PID" for the number of this process."""
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
        """Names that no other process makes: by the order in which they came, as processes and their numbers differ."""
        return self._numbers.setdefault(found[0], f"PID-{len(self._numbers)}")

    def add(self, path: object, kind: str) -> None:
        name = self.name(path)
        if name is not None:
            self.found.add((name, kind))

    def add_name(self, path: object) -> None:
        """A name that comes or goes: its file, and its directory."""
        name = self.name(path)
        if name is not None:
            self.found.update({(name, WRITE), (str(Path(name).parent), WRITE)})

    def take(self) -> list[Touch]:
        """What was collected since the last time."""
        found = sorted(self.found)
        self.found.clear()
        return found

    # calls of the seam

    def call(self, point: str, function: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
        """Note what a call is about to touch; the paths among its arguments."""
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
        """Remember of which store a transaction is."""
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

    # what happens beside the seam

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
