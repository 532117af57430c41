"""Moving journal files into another directory, or removing them: at each moment, whatever fails, the journal is
complete.

Within a file system it gets its second name before it loses the first; into another one it is copied under a hidden
name, synced, read again and compared before it gets its name there. Which of these steps were done is told by the names
alone. Files that go for good go oldest first, so that no gap arises. Called under the lock of
:mod:`sowctl.journal.maintenance.lock`. Ruled by ``sow-journal(5)``, "Looking after files".
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path

from sowctl.directories import FILE_MODE, make_directories, sync_directory
from sowctl.errors import StorageError
from sowctl.journal.appender import describe_os_error
from sowctl.journal.format import build_name_pattern, is_receipt
from sowctl.journal.maintenance.survey import SurveyedFile
from sowctl.journal.state import write_all
from sowctl.lockwait import is_running
from sowctl.seam import Seam

_MOVE_CHUNK_BYTES = 4 << 20
"""Bytes that are copied at a time."""
# What link(2) says where there cannot be a second name: another file system, or one without such names.
_NO_LINK_ERRNOS = frozenset((errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK))


def build_hidden_path(path: Path) -> Path:
    """The name under which a file is made before it gets its own: readers do not see it, the next attempt replaces
    it."""
    return path.with_name(f".{path.name}.new")


def remove_hidden_files(directory: Path, instance: str, *, archive: bool = False) -> None:
    """Remove the hidden files that killed runs left in ``directory``: copies, receipts, topics files.

    The next attempt would replace one, but it may be an attempt at another name, or never come. ``archive``: the
    directory is the archive, and not the journal's own as well.
    """
    with suppress(OSError):
        for path in directory.glob(f".{escape(instance)}.*.new"):
            name = path.name.removeprefix(".").removesuffix(".new")
            file, process = build_name_pattern(instance).fullmatch(name), name.removeprefix(f"{instance}.topics.")
            if file is not None:
                # Only who holds the lock of upkeep makes compressed files. One that is not compressed may be the next
                # file that a publisher is beginning; but no publisher begins files in an archive.
                left = file[2] is not None or archive
            elif process != name:
                # Publishers write it without the lock of upkeep, each under the number of its process.
                left = process.isdecimal() and not is_running(int(process))
            else:
                left = is_receipt(name, instance)
            if left:
                path.unlink(missing_ok=True)


def move_file(source: Path, directory: Path, seam: Seam) -> Path:
    """Move a file that does not grow into ``directory``, which is made if it is missing; its new path.

    What an interrupted move has left is gone on with. Raises StorageError ``SOW-JRN-061``, with the file where it was.
    """
    target = directory / source.name
    try:
        make_directories(directory, seam)
        # Of a copy that was interrupted: this time a second name may do.
        build_hidden_path(target).unlink(missing_ok=True)
        if not _is_there(source, target, seam):
            _link_file(source, target, seam)
        # Order: the new name is on disk before the old one goes, in whichever order the system writes its directories.
        sync_directory(directory, seam)
        seam.call("file.unlink", os.unlink, source)
        # Without this sync, a power failure could bring the old name back after the move was reported.
        sync_directory(source.parent, seam)
    except OSError as error:
        with suppress(OSError):
            build_hidden_path(target).unlink(missing_ok=True)
        raise StorageError(
            "SOW-JRN-061",
            f"cannot move the journal file to {directory}: {describe_os_error(error)}",
            place=str(source),
            hint="the file is complete in at least one of the two places; free space or correct the "
            "permissions, and run the command again, which continues",
        ) from error
    return target


def _is_there(source: Path, target: Path, seam: Seam) -> bool:
    """Return whether ``target`` is the same file already, or a whole copy of it; synced then."""
    try:
        if target.is_symlink() or not target.is_file():
            return False
        if target.samefile(source):
            return True
        # Who copied it is not known: it counts as on disk only when it was synced, and is compared after that.
        fd = seam.call("file.open", os.open, target, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        seam.call("file.sync", os.fsync, fd)
        return _is_same_file_content(source, fd, seam)
    finally:
        os.close(fd)


def _link_file(source: Path, target: Path, seam: Seam) -> None:
    fd = seam.call("file.open", os.open, source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # A file that was compressed or restored by hand may not be on disk yet.
        seam.call("file.sync", os.fsync, fd)
        try:
            seam.call("file.link", os.link, source, target, follow_symlinks=False)
        except OSError as error:
            # A file that stands there and is not the same is replaced by the copy, which is renamed over it.
            if error.errno not in _NO_LINK_ERRNOS and not isinstance(error, FileExistsError):
                raise
            _copy_file(source, fd, target, seam)
    finally:
        os.close(fd)


def _copy_file(source: Path, fd: int, target: Path, seam: Seam) -> None:
    """Copy, sync, compare what is on disk then, rename."""
    temporary, found = build_hidden_path(target), os.fstat(fd)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    copy = seam.call("file.open", os.open, temporary, flags, FILE_MODE)
    try:
        at = 0
        while chunk := seam.call("file.read", os.pread, fd, _MOVE_CHUNK_BYTES, at):
            write_all(seam, copy, chunk)
            at += len(chunk)
        os.fchmod(copy, found.st_mode & 0o777)
        os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
        seam.call("file.sync", os.fsync, copy)
        # What is compared should come from the disk, not from the memory that it was written from.
        os.posix_fadvise(copy, 0, 0, os.POSIX_FADV_DONTNEED)
        if not _is_same_file_content(source, copy, seam):
            raise OSError(errno.EIO, "the copy was written and reads differently")
    finally:
        os.close(copy)
    seam.call("file.rename", os.rename, temporary, target)


def _is_same_file_content(source: Path, other: int, seam: Seam) -> bool:
    """Return whether a file and an open one have the same bytes."""
    fd = seam.call("file.open", os.open, source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_size != os.fstat(other).st_size:
            return False
        at = 0
        while chunk := seam.call("file.read", os.pread, fd, _MOVE_CHUNK_BYTES, at):
            if chunk != seam.call("file.read", os.pread, other, _MOVE_CHUNK_BYTES, at):
                return False
            at += len(chunk)
        return True
    finally:
        os.close(fd)


def remove_files(files: Sequence[SurveyedFile], seam: Seam) -> int:
    """Remove files that are the oldest of their journal, with all their copies; how many bytes that gives back.

    Raises StorageError ``SOW-JRN-062``, which names the first file that is left.
    """
    freed = 0
    for file in files:
        # The copy that is read goes last: another one may be a part of a file that somebody was making.
        for path in reversed(file.paths):
            try:
                seam.call("file.unlink", os.unlink, path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise _removal_error(file, error) from error
        try:
            # Each on disk before the next: a power failure must not bring an older file back behind a gap.
            for directory in dict.fromkeys(path.parent for path in file.paths):
                sync_directory(directory, seam)
        except OSError as error:
            raise _removal_error(file, error) from error
        freed += file.size
    return freed


def _removal_error(file: SurveyedFile, error: OSError) -> StorageError:
    return StorageError(
        "SOW-JRN-062",
        f"cannot remove the journal file: {describe_os_error(error)}; this file and later ones are intact",
        place=str(file.path),
        hint="correct the permissions of the directory, and run the command again",
    )
