"""The file that a writer appends to: create, open, write, sync, truncate, cut off a torn tail after copying it.

Called by :mod:`sowctl.journal.logend` and :mod:`sowctl.journal.writer`, always under the journal's lock. Functions
raise OSError, which the caller converts with :func:`write_error`. Specified in ``sow-journal(5)``, "Writing" and "What
a crash leaves".
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sowctl.directories import FILE_MODE, sync_directory
from sowctl.errors import StorageError
from sowctl.journal.format import FILE_HEADER_SIZE, format_file_name
from sowctl.journal.state import write_all
from sowctl.seam import Seam

# O_APPEND: every write goes to the current end, whatever another descriptor did to the offset.
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
# Bytes of a torn tail that are copied at a time.
_COPY_CHUNK_BYTES = 4 << 20


class Appender:
    """The last file of a journal, open for appending under the lock.

    ``offset`` is the offset of the next block; everything before ``synced`` is on disk.
    """

    def __init__(self, directory: Path, instance: str, seam: Seam) -> None:
        self.directory = directory
        self.instance = instance
        self.number = -1
        self.offset = 0
        self.synced = 0
        self.fd = -1
        self._seam = seam

    @property
    def path(self) -> Path:
        """The path of the file (of the first file if none exists yet)."""
        return self.build_file_path(max(self.number, 0))

    def build_file_path(self, number: int) -> Path:
        """Return the path of a file."""
        return self.directory / format_file_name(self.instance, number)

    def create_file(self, number: int, header: bytes) -> None:
        """Create a file with its header under a temporary name, sync it, rename it, sync the directory."""
        path = self.build_file_path(number)
        # Order: content on disk, then the name, then the directory. A crash before the rename leaves a hidden file that
        # the next attempt truncates; after the rename the header is complete. Readers never see a file without its
        # header.
        temporary = path.with_name(f".{path.name}.new")
        fd = self._seam.call("file.open", os.open, temporary, _OPEN_FLAGS | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        try:
            write_all(self._seam, fd, header)
            self._seam.call("file.sync", os.fsync, fd)
            self._seam.call("file.rename", os.rename, temporary, path)
            sync_directory(self.directory, self._seam)
        except BaseException:
            os.close(fd)
            raise
        self._take_descriptor(fd, number)
        self.offset = self.synced = len(header)

    def open_file(self, number: int) -> None:
        """Open an existing file, unless it is already open."""
        # A removed or replaced file has no links: bytes written to its descriptor would be lost.
        if self.fd < 0 or number != self.number or not os.fstat(self.fd).st_nlink:
            self._take_descriptor(
                self._seam.call("file.open", os.open, self.build_file_path(number), _OPEN_FLAGS), number
            )

    def resume_at(self, offset: int) -> None:
        """Continue at ``offset``, with everything before it on disk."""
        self.offset = self.synced = offset

    def write(self, content: bytes) -> None:
        """Append ``content``, usually with a single write."""
        write_all(self._seam, self.fd, content)
        self.offset += len(content)

    def sync(self) -> None:
        """Sync the file to disk."""
        # fdatasync also writes the file size, which reading needs; it omits times, which saves one write of the inode.
        # The offset is read before the call: bytes that are appended during it may not be on disk.
        offset = self.offset
        self._seam.call("file.sync", os.fdatasync, self.fd)
        self.synced = offset

    def truncate_unsynced(self) -> None:
        """Cut off everything that is not known to be on disk."""
        # Never below the header: `synced` is 0 until a file is opened, and truncating then would destroy the file.
        if self.fd >= 0 and self.read_size() > self.synced >= FILE_HEADER_SIZE:
            self._seam.call("file.truncate", os.ftruncate, self.fd, self.synced)
        self.offset = self.synced

    def read_size(self) -> int:
        """Return the current size of the file in bytes."""
        return os.fstat(self.fd).st_size

    def is_unchanged(self) -> bool:
        """Return whether the file is as this writer left it: not written to, not replaced, and still the last one."""
        # Three cheap tests instead of reading the end: same size, still linked, and no next file. If all hold, no other
        # writer has appended, because each append changes the size or creates a file.
        there = os.fstat(self.fd)
        return (
            there.st_size == self.offset and there.st_nlink > 0 and not self.build_file_path(self.number + 1).exists()
        )

    def close(self) -> None:
        """Close the file; repeated calls do nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _take_descriptor(self, fd: int, number: int) -> None:
        self.close()
        self.fd, self.number = fd, number


def cut_tail(fd: int, path: Path, offset: int, seam: Seam) -> Path:
    """Copy everything from ``offset`` on to ``FILE.torn-N`` (the first unused N), then truncate ``fd`` there.

    The copy is on disk before the truncation. Returns its path. Raises OSError.
    """
    copy, target = _new_copy(path, seam)
    try:
        # The copy and its name are on disk before the cut: whenever a crash happens, the bytes exist at least once.
        at = offset
        while chunk := os.pread(fd, _COPY_CHUNK_BYTES, at):
            write_all(seam, target, chunk)
            at += len(chunk)
        seam.call("file.sync", os.fsync, target)
    finally:
        os.close(target)
    sync_directory(path.parent, seam)
    # The truncation is synced, too: otherwise a crash could restore the torn bytes after blocks that were appended
    # since.
    seam.call("file.truncate", os.ftruncate, fd, offset)
    seam.call("file.sync", os.fsync, fd)
    return copy


def _new_copy(path: Path, seam: Seam) -> tuple[Path, int]:
    number = 1
    while True:
        copy = path.with_name(f"{path.name}.torn-{number}")
        try:
            # O_EXCL: a copy of an earlier tail is never overwritten.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return copy, seam.call("file.open", os.open, copy, flags, FILE_MODE)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            number += 1


_FULL_DISK_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is exceeded",
    errno.EFBIG: "the file size limit is reached",
}


def describe_os_error(error: OSError) -> str:
    """Return the reason of a failed system call in plain words."""
    return _FULL_DISK_REASONS.get(error.errno or 0, error.strerror or str(error))


def write_error(
    error: OSError, path: Path, acknowledged: int | None, *, has_written: bool = False, cut_back: bool = False
) -> StorageError:
    """Return StorageError ``SOW-JRN-021`` in plain words; ``acknowledged`` is the last durable txid, ``has_written``
    whether this run itself put entries on disk."""
    reason = describe_os_error(error)
    durable = "" if acknowledged is None else f"; entries up to txid {acknowledged} are on disk"
    hint = "free space" if error.errno in _FULL_DISK_REASONS else "check permissions and disk"
    if error.errno == errno.EFBIG:
        hint = "increase the limit on file sizes (ulimit -f)"
    elif error.errno == errno.EROFS:
        hint = "mount the file system read-write (reading commands such as query and export work)"
    # Repeating the whole input would write acknowledged messages again.
    hint += ", then publish only what is not on disk" if has_written else ", then run the command again"
    return StorageError(
        "SOW-JRN-021",
        f"cannot write the journal: {reason}{durable}",
        place=str(path),
        hint=hint,
        acknowledged_txid=acknowledged,
        cut_back=cut_back,
    )
