"""A directory of backups: its lock, what is in it, and a new one, which gets its name when it is whole."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from sowctl.directories import make_directories, sync_directory
from sowctl.engine.upkeep.backup import manifest as codec
from sowctl.engine.upkeep.backup.manifest import BackupManifest
from sowctl.errors import LockedError, MissingError, SowError, StorageError
from sowctl.seam import Seam
from sowctl.values.times import Micros, format_time
from sowctl.waiting import take

TREE = "tree"
LOCK = ".sowctl-backup.lock"
_DRAFT = ".new"
_PAUSES = 0.01, 0.1


class Backup(Struct, frozen=True):
    """One backup in its directory; ``problem`` says why its manifest cannot be used, which is None then."""

    path: Path
    manifest: BackupManifest | None
    problem: SowError | None = None

    @property
    def tree(self) -> Path:
        """Where its files lie."""
        return self.path / TREE

    @property
    def known(self) -> BackupManifest:
        """Its manifest. Raises the problem where it has none."""
        if self.manifest is None:
            assert self.problem is not None
            raise self.problem
        return self.manifest


def _hint(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "its file system is mounted read-only: name a directory on another one"
    return "check free space and permissions, and run the command again; the incomplete backup is not used"


@contextmanager
def written(place: Path, what: str) -> Iterator[None]:
    """Errors of the system as StorageError ``SOW-BAK-003``, in which ``what`` was to be done."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            "SOW-BAK-003",
            f"cannot {what}: {error.strerror or error}",
            place=str(error.filename or place),
            hint=_hint(error),
        ) from error


@contextmanager
def locked(directory: Path, seam: Seam, wait: float) -> Iterator[None]:
    """Hold the directory for one backup, within ``wait`` seconds; it is made where it is missing.

    Raises LockedError ``SOW-BAK-004``, StorageError ``SOW-BAK-003``.
    """
    with written(directory, "use the directory of backups"):
        make_directories(directory, seam)
        fd = seam.call("file.open", os.open, directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:

        def attempt() -> bool:
            try:
                seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        with written(directory, "lock the directory of backups"):
            held = take(attempt, wait, _PAUSES, lambda: None)
        if not held:
            raise LockedError(
                "SOW-BAK-004",
                f"another process is making a backup here; waited {wait:g} s",
                place=str(directory),
                hint="wait for it, or increase --lock-wait",
            )
        yield
    finally:
        os.close(fd)


def backups(directory: Path) -> list[Backup]:
    """The backups in a directory, the oldest first. Raises MissingError ``SOW-BAK-005`` where there is none such."""
    if not directory.is_dir():
        raise MissingError("SOW-BAK-005", "the backup directory does not exist", place=str(directory))
    with written(directory, "list the backups"):
        names = sorted(entry.name for entry in directory.iterdir() if (entry / codec.NAME).is_file())
    return [_read(directory / name) for name in names if not name.startswith(".")]


def _read(path: Path) -> Backup:
    place = path / codec.NAME
    try:
        with written(place, "read the manifest"):
            return Backup(path, codec.decode(place.read_bytes(), str(place)))
    except SowError as problem:
        return Backup(path, None, problem)


def chosen(directory: Path, name: str | None) -> Backup:
    """The backup of this name, or the newest one. Raises MissingError ``SOW-BAK-005``, and what is wrong with it."""
    found = backups(directory)
    if name is not None:
        found = [one for one in found if one.path.name == name]
    if not found:
        what = "no backups" if name is None else f"no backup {name}"
        raise MissingError(
            "SOW-BAK-005",
            f"the directory has {what}",
            place=str(directory),
            hint="sowctl backup DIR --list lists the backups",
        )
    found[-1].known  # noqa: B018 - raises where its manifest cannot be used
    return found[-1]


@contextmanager
def draft(directory: Path, now: Micros, seam: Seam) -> Iterator[Path]:
    """A place for a new backup, under another name than it will have; removed unless :func:`put_in_place` was called.

    What killed processes have left of theirs is removed first: the directory is locked.
    """
    with written(directory, "begin a backup"):
        for left in directory.glob(f".*{_DRAFT}"):
            shutil.rmtree(left)
        stem = format_time(now).replace("-", "").replace(":", "")
        name, number = stem, 1
        while (directory / name).exists():
            number += 1
            name = f"{stem}-{number}"
        path = directory / f".{name}{_DRAFT}"
        seam.call("dir.make", os.mkdir, path, 0o750)
        seam.call("dir.make", os.mkdir, path / TREE, 0o750)
    try:
        yield path
    finally:
        if path.exists():
            shutil.rmtree(path, ignore_errors=True)


def final_name(path: Path) -> str:
    """The name that a draft will have."""
    return path.name[1 : -len(_DRAFT)]


def put_in_place(path: Path, manifest: BackupManifest, seam: Seam) -> Path:
    """Write the manifest of a draft, whose files are on disk, and give it its name; the name. Raises OSError."""
    write_synced(path / codec.NAME, codec.encode(manifest), seam)
    sync_tree(path, seam)
    final = path.with_name(final_name(path))
    seam.call("file.rename", os.rename, path, final)
    sync_directory(final.parent, seam)
    return final


def write_synced(path: Path, content: bytes, seam: Seam, mode: int = 0o640) -> None:
    """Write a new file and put it on disk. Raises OSError."""
    fd = seam.call("file.open", os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[seam.call("file.write", os.write, fd, rest) :]
        seam.call("file.sync", os.fsync, fd)
    finally:
        os.close(fd)


def sync_tree(path: Path, seam: Seam) -> None:
    """Put the names in a directory and in all below it on disk, the lowest first. Raises OSError."""
    for entry in sorted(path.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            sync_tree(entry, seam)
    sync_directory(path, seam)
