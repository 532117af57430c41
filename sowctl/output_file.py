"""Output files that appear complete or not at all: ``--output FILE``, exports, new configurations."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sowctl.errors import RefusedError
from sowctl.seam import Seam

FORCE_HINT = "use --force to replace it"
"""The hint of the command line for an existing file."""
_MAX_LINKS = 40
"""Maximum number of chained symbolic links, as in Linux."""


def refuse_existing(path: Path, *, force: bool, hint: str = FORCE_HINT) -> None:
    """Raises :class:`~sowctl.errors.RefusedError` ``SOW-CLI-011`` if a regular file would be replaced without
    ``force``.

    A name such as ``/dev/stdout`` refers to an open file of this process, which is written to and not replaced.
    """
    if not force and path.is_file() and _find_descriptor(path) is None:
        raise RefusedError("SOW-CLI-011", "the file exists", place=str(path), hint=hint)


class FileStage:
    """Output files that are renamed to their final names together; see :func:`stage_files`."""

    def __init__(self, *, force: bool, seam: Seam, hint: str) -> None:
        self._force = force
        self._seam = seam
        self._hint = hint
        self._staged: list[tuple[Path, Path]] = []
        """The temporary name and the final name of each complete file."""
        self._found: dict[Path, list[str]] = {}
        """The temporary files of each directory when the first file was opened in it."""

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """A stream for the content of ``path``, synced at the end of the block, and removed if the block raises.

        An existing file that is not regular (a pipe, ``/dev/null``) is written to directly, and so is an open file of
        this process (``/dev/stdout``). Raises as :func:`refuse_existing`, and OSError.
        """
        refuse_existing(path, force=self._force, hint=self._hint)
        descriptor = _find_descriptor(path)
        if descriptor is not None:
            # Not reopened: the file opened by the shell is continued, not truncated.
            try:
                descriptor = os.dup(descriptor)
            except OSError as error:
                raise OSError(error.errno, error.strerror, os.fspath(path)) from error
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
            return
        # A rename would replace a pipe or device by a file.
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        # The same for a link, whether its target exists or not.
        if path.is_symlink():
            path = _find_target(path)
        # In the directory of the file, because a rename cannot cross file systems.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._remove_abandoned_files(path)
        with _name_errors(path, temporary):
            descriptor = self._seam.call("file.open", os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            try:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with os.fdopen(descriptor, "wb") as stream:
                    if path.exists():
                        # The new file gets the permissions of the replaced one.
                        os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
                    yield stream
                    # Synced before the rename: otherwise a crash may leave the name with no content.
                    stream.flush()
                    self._seam.call("file.sync", os.fsync, stream.fileno())
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        self._staged.append((temporary, path))

    def _remove_abandoned_files(self, path: Path) -> None:
        """Remove temporary files for ``path`` whose processes were killed, such as ``.orders.csv.4711.tmp``.

        In a container every run may have the same process id: a leftover file with our own name would fail each later
        run.
        """
        if path.parent not in self._found:
            self._found[path.parent] = _list_temporary_files(path.parent)
        front, end = f".{path.name}.", ".tmp"
        for name in self._found[path.parent]:
            pid = name[len(front) : -len(end)]
            if not (name.startswith(front) and pid.isdecimal()):
                continue
            # In doubt a file stays. A process id alone proves nothing, because another container has its own; nor does
            # a lock alone, because a complete file that waits for the others of its run is closed.
            with suppress(OSError):
                if int(pid) == os.getpid() or not Path("/proc", pid).exists():
                    _unlink_unlocked(path.with_name(name))

    def install(self) -> None:
        """Rename all files to their final names, and sync the directories; if one fails, remove the new ones."""
        made: list[Path] = []
        try:
            for temporary, path in self._staged:
                is_new = not path.exists()
                with _name_errors(path, temporary):
                    _install_file(temporary, path, force=self._force, seam=self._seam, hint=self._hint)
                if is_new:
                    made.append(path)
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise
        finally:
            self.discard()
        for parent in dict.fromkeys(path.parent for _, path in self._staged):
            directory = os.open(parent, os.O_RDONLY)
            try:
                # The name is an entry of the directory, and is durable only after the directory is synced.
                self._seam.call("dir.sync", os.fsync, directory)
            finally:
                os.close(directory)

    def discard(self) -> None:
        """Remove the files that still have their temporary names."""
        for temporary, _ in self._staged:
            temporary.unlink(missing_ok=True)


@contextmanager
def stage_files(*, force: bool, seam: Seam, hint: str = FORCE_HINT) -> Iterator[FileStage]:
    """Files opened in the block get their names at its end: all of them, or none if it raises.

    Each is written under a temporary name beside its final one. A symbolic link stays: its target is written. A crash
    during the renames may leave some of them. Raises :class:`~sowctl.errors.RefusedError` ``SOW-CLI-011`` as
    :func:`refuse_existing`, and OSError.
    """
    stage = FileStage(force=force, seam=seam, hint=hint)
    try:
        yield stage
    except BaseException:
        stage.discard()
        raise
    stage.install()


@contextmanager
def open_whole_file(path: Path, *, force: bool, seam: Seam, hint: str = FORCE_HINT) -> Iterator[BinaryIO]:
    """A stream whose content becomes ``path`` at the end of the block, as :func:`stage_files` does for several
    files."""
    with stage_files(force=force, seam=seam, hint=hint) as files, files.open(path) as stream:
        yield stream


def _find_descriptor(path: Path) -> int | None:
    """The number of the open file of this process that a path names, such as ``/dev/stdout``; None for other paths."""
    own = os.path.realpath("/proc/self/fd")
    for _ in range(_MAX_LINKS):
        if path.name.isdecimal() and os.path.realpath(path.parent) == own:
            return int(path.name)
        try:
            path = path.parent / path.readlink()
        except OSError:
            # No link, or an unreadable one.
            return None
    return None


def _find_target(link: Path) -> Path:
    """The target of a symbolic link. Raises OSError for a cycle of links."""
    target = Path(os.path.realpath(link))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(link))
    return target


def _list_temporary_files(directory: Path) -> list[str]:
    try:
        return [one.name for one in directory.iterdir() if one.name.startswith(".") and one.suffix == ".tmp"]
    except OSError:
        # Opening the file in it reports the reason.
        return []


def _unlink_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def _name_errors(path: Path, temporary: Path) -> Iterator[None]:
    """Let an OSError about ``temporary``, a name that no longer exists when it is read, name ``path`` instead."""
    try:
        yield
    except OSError as error:
        if error.filename is None or os.fspath(error.filename) != os.fspath(temporary):
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error


def _install_file(temporary: Path, path: Path, *, force: bool, seam: Seam, hint: str) -> None:
    # Without --force by a link, because it fails if another process created the file meanwhile; a rename would replace
    # it.
    if not force:
        try:
            os.link(temporary, path)
            return
        except FileExistsError:
            refuse_existing(path, force=False, hint=hint)
        except OSError:  # a file system without links
            refuse_existing(path, force=False, hint=hint)
    seam.call("file.rename", os.replace, temporary, path)
