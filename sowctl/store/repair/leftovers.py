"""Files left beside a store by killed builders: names that end in ``.new-PID`` or ``.new-PID-N``.

Builders of stores and of sorted runs hold a lock on such a file while they run; those of memo indexes have a separate
lock. A file is a leftover if no process has its number, and no process holds its lock. Called by maintenance; a builder
removes leftovers of its own kind when it begins. Specified in ``sow-store(5)``, "Files".
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from sowctl.lockwait import is_running
from sowctl.seam import SEAM, Seam
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.opening.access import StoreFiles

_LEFTOVER_NAME_PATTERN = re.compile(r".+\.new-(\d+)(?:-\d+)?")
_SIDE_DIRECTORIES = ("-runs", "-memo", "-views")
"""Suffixes of directories beside a store in which files are also built."""


class Leftover(Struct, frozen=True):
    """A file whose builder is dead: the process, and the size in bytes."""

    path: Path
    pid: int
    bytes: int


def list_leftovers(store: str | os.PathLike[str]) -> list[Leftover]:
    """List the files left beside the store at this path, ordered by name. Reads only names."""
    files = StoreFiles.from_path(store)
    name = files.path.name
    # In a directory shared with other stores, only files that begin with its name belong to it.
    found = list(_find_leftovers(files.directory, (f"{name}.new-", f"{name}-verified.new-")))
    for end in _SIDE_DIRECTORIES:
        found += _find_leftovers(files.directory / f"{name}{end}", ("",))
    return found


def _find_leftovers(directory: Path, beginnings: tuple[str, ...]) -> Iterator[Leftover]:
    """Yield the leftover files in a directory whose names have one of the prefixes."""
    paths: list[Path] = []
    with suppress(OSError):
        paths = sorted(directory.iterdir())
    for path in paths:
        named = _LEFTOVER_NAME_PATTERN.fullmatch(path.name)
        if named is None or not path.name.startswith(beginnings):
            continue
        pid = int(named[1])
        size: int | None = None
        # Process and lock are both checked: builders of indexes hold no lock on the file itself.
        with suppress(OSError):
            size = path.lstat().st_size if not is_running(pid) and _is_unlocked(path) else None
        if size is not None:
            yield Leftover(path, pid, size)


def remove_leftovers(store: str | os.PathLike[str], seam: Seam = SEAM) -> list[Leftover]:
    """Remove leftover files; return the removed ones. Raises StorageError."""
    gone = []
    for one in list_leftovers(store):
        with translate_errors(one.path, "remove what a killed process left"):
            try:
                fd = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue  # another process cleaned up, too
            try:
                # Locked during removal: a builder that got the same number meanwhile begins again.
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                seam.call("file.unlink", os.unlink, one.path)
                gone.append(one)
            except BlockingIOError:
                continue
            finally:
                os.close(fd)
    return gone


def _is_unlocked(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
