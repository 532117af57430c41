"""Move journal files into another directory, or remove them: at each moment, whatever fails, the journal is complete.

Within a file system, a file gets its second name before it loses the first; across file systems, it is copied under a
hidden name, synced, read again and compared before it gets its final name. The names alone show which of these steps
are done. Files are removed oldest first, so that no gap arises. Called under the lock of
:mod:`sowctl.journal.maintenance.lock`. Specified in ``sow-journal(5)``, "Looking after files".
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
"""Bytes copied at a time."""
# Errors of link(2) if a second name is impossible: another file system, or one without hard links.
_NO_LINK_ERRNOS = frozenset((errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK))


def build_hidden_path(path: Path) -> Path:
    """Return the temporary name of a file that is being written: readers ignore it, the next attempt replaces it."""
    return path.with_name(f".{path.name}.new")


def remove_hidden_files(directory: Path, instance: str, *, archive: bool = False) -> None:
    """Remove the hidden files that killed runs left in ``directory``: copies, receipts, topics files.

    The next attempt would replace one, but it may use another name, or never happen. ``archive``: the directory is the
    archive, and not also the journal's own.
    """
    with suppress(OSError):
        for path in directory.glob(f".{escape(instance)}.*.new"):
            name = path.name.removeprefix(".").removesuffix(".new")
            file, process = build_name_pattern(instance).fullmatch(name), name.removeprefix(f"{instance}.topics.")
            if file is not None:
                # Only the holder of the maintenance lock writes compressed files. An uncompressed one may be the next
                # file that a publisher is starting; but no publisher starts files in an archive.
                left = file[2] is not None or archive
            elif process != name:
                # Publishers write it without the maintenance lock, each under its process id.
                left = process.isdecimal() and not is_running(int(process))
            else:
                left = is_receipt(name, instance)
            if left:
                path.unlink(missing_ok=True)


def move_file(source: Path, directory: Path, seam: Seam) -> Path:
    """Move a file that does not grow into ``directory``, which is created if missing; return its new path.

    Continues an interrupted move. Raises StorageError ``SOW-JRN-061``, with the file at its old path.
    """
    target = directory / source.name
    try:
        make_directories(directory, seam)
        # Left by an interrupted copy: this time a hard link may suffice.
        build_hidden_path(target).unlink(missing_ok=True)
        if not _is_there(source, target, seam):
            _link_file(source, target, seam)
        # Order: the new name is on disk before the old one is removed, in whatever order the system writes its
        # directories.
        sync_directory(directory, seam)
        seam.call("file.unlink", os.unlink, source)
        # Without this sync, a power failure could restore the old name after the move was reported.
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
    """Return whether ``target`` already is the same file or a complete copy of it, after syncing it."""
    try:
        if target.is_symlink() or not target.is_file():
            return False
        if target.samefile(source):
            return True
        # Another program may have copied it: it counts as durable only after a sync, and is compared afterwards.
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
            # A different file at the target is replaced by the copy, which is renamed over it.
            if error.errno not in _NO_LINK_ERRNOS and not isinstance(error, FileExistsError):
                raise
            _copy_file(source, fd, target, seam)
    finally:
        os.close(fd)


def _copy_file(source: Path, fd: int, target: Path, seam: Seam) -> None:
    """Copy, sync, verify the bytes on disk, rename."""
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
        # The comparison should read from the disk, not from the page cache.
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
    """Remove the oldest files of a journal with all their copies; return the number of bytes freed.

    Raises StorageError ``SOW-JRN-062``, which names the first remaining file.
    """
    freed = 0
    for file in files:
        # The copy that is read is removed last: another one may be an incomplete file of an interrupted run.
        for path in reversed(file.paths):
            try:
                seam.call("file.unlink", os.unlink, path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise _removal_error(file, error) from error
        try:
            # Each removal is on disk before the next: a power failure must not restore an older file before a gap.
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
