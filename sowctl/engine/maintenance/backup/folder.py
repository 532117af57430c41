"""A directory of backups: its lock, its backups, and a new one, which gets its final name when it is complete."""

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
from sowctl.engine.maintenance.backup import manifest as codec
from sowctl.engine.maintenance.backup.manifest import BackupManifest
from sowctl.errors import LockedError, MissingError, SowError, StorageError
from sowctl.lockwait import wait_for_lock
from sowctl.seam import Seam
from sowctl.values.times import Micros, format_time

TREE_NAME = "tree"
LOCK_NAME = ".sowctl-backup.lock"
_DRAFT_SUFFIX = ".new"
_LOCK_PAUSES_SECONDS = 0.01, 0.1


class Backup(Struct, frozen=True):
    """One backup in its directory. If the manifest cannot be used, it is None and ``problem`` is the reason."""

    path: Path
    manifest: BackupManifest | None
    problem: SowError | None = None

    @property
    def tree(self) -> Path:
        """The directory of its files."""
        return self.path / TREE_NAME

    @property
    def valid_manifest(self) -> BackupManifest:
        """Its manifest. Raises ``problem`` without one."""
        if self.manifest is None:
            assert self.problem is not None
            raise self.problem
        return self.manifest


def _hint_at_error(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "its file system is mounted read-only: name a directory on another one"
    return "check free space and permissions, and run the command again; the incomplete backup is not used"


@contextmanager
def wrap_write_errors(place: Path, what: str) -> Iterator[None]:
    """Raise errors of the system within the block as StorageError ``SOW-BAK-003``, with ``what`` as the failed
    action."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            "SOW-BAK-003",
            f"cannot {what}: {error.strerror or error}",
            place=str(error.filename or place),
            hint=_hint_at_error(error),
        ) from error


@contextmanager
def hold_directory(directory: Path, seam: Seam, wait: float) -> Iterator[None]:
    """Lock the directory for one backup, within ``wait`` seconds; create it if it is missing.

    Raises LockedError ``SOW-BAK-004``, StorageError ``SOW-BAK-003``.
    """
    with wrap_write_errors(directory, "use the directory of backups"):
        make_directories(directory, seam)
        fd = seam.call("file.open", os.open, directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:

        def attempt() -> bool:
            try:
                seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        with wrap_write_errors(directory, "lock the directory of backups"):
            held = wait_for_lock(attempt, wait, _LOCK_PAUSES_SECONDS, lambda: None)
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


def read_backups(directory: Path) -> list[Backup]:
    """Return the backups in a directory, oldest first. Raises MissingError ``SOW-BAK-005`` without the directory."""
    if not directory.is_dir():
        raise MissingError("SOW-BAK-005", "the backup directory does not exist", place=str(directory))
    with wrap_write_errors(directory, "list the backups"):
        names = sorted(entry.name for entry in directory.iterdir() if (entry / codec.MANIFEST_NAME).is_file())
    return [_read_backup(directory / name) for name in names if not name.startswith(".")]


def _read_backup(path: Path) -> Backup:
    place = path / codec.MANIFEST_NAME
    try:
        with wrap_write_errors(place, "read the manifest"):
            return Backup(path, codec.decode_manifest(place.read_bytes(), str(place)))
    except SowError as problem:
        return Backup(path, None, problem)


def find_backup(directory: Path, name: str | None) -> Backup:
    """Return the backup of this name, or the newest one. Raises MissingError ``SOW-BAK-005``, and its ``problem``."""
    found = read_backups(directory)
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
    found[-1].valid_manifest  # noqa: B018 - raises where its manifest cannot be used
    return found[-1]


@contextmanager
def create_draft(directory: Path, now: Micros, seam: Seam) -> Iterator[Path]:
    """Create a draft directory for a new backup; it is removed unless :func:`install_backup` was called.

    Drafts of killed processes are removed first, which is safe because the directory is locked.
    """
    with wrap_write_errors(directory, "begin a backup"):
        for left in directory.glob(f".*{_DRAFT_SUFFIX}"):
            shutil.rmtree(left)
        stem = format_time(now).replace("-", "").replace(":", "")
        name, number = stem, 1
        while (directory / name).exists():
            number += 1
            name = f"{stem}-{number}"
        path = directory / f".{name}{_DRAFT_SUFFIX}"
        # read_backups ignores names that start with a dot, so a draft is never mistaken for a backup.
        seam.call("dir.make", os.mkdir, path, 0o750)
        seam.call("dir.make", os.mkdir, path / TREE_NAME, 0o750)
    try:
        yield path
    finally:
        if path.exists():
            shutil.rmtree(path, ignore_errors=True)


def find_final_name(path: Path) -> str:
    """Return the final name of a draft."""
    return path.name[1 : -len(_DRAFT_SUFFIX)]


def install_backup(path: Path, manifest: BackupManifest, seam: Seam) -> Path:
    """Write the manifest of a draft, whose files are synced, and rename the draft; return the path. Raises OSError."""
    # Order: files, manifest, rename. A directory with the final name is complete, even after a power failure.
    write_synced(path / codec.MANIFEST_NAME, codec.encode_manifest(manifest), seam)
    sync_tree(path, seam)
    final = path.with_name(find_final_name(path))
    seam.call("file.rename", os.rename, path, final)
    sync_directory(final.parent, seam)
    return final


def write_synced(path: Path, content: bytes, seam: Seam, mode: int = 0o640) -> None:
    """Write and sync a new file. Raises OSError."""
    fd = seam.call("file.open", os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[seam.call("file.write", os.write, fd, rest) :]
        seam.call("file.sync", os.fsync, fd)
    finally:
        os.close(fd)


def sync_tree(path: Path, seam: Seam) -> None:
    """Sync a directory and all directories below it, the deepest first. Raises OSError."""
    for entry in sorted(path.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            sync_tree(entry, seam)
    sync_directory(path, seam)
