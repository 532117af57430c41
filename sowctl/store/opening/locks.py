"""The two lock files beside a store: the gate and the writer lock (``sow-store(5)``, "Files", "Replacing a store").

Both are locked with flock(2), which ends with the process, and are never renamed or removed, so that all processes lock
the same file. Waiting uses short sleeps, so that signals take effect immediately.
"""

from __future__ import annotations

import errno
import fcntl
import os
from _thread import RLock  # threading's own; that module takes 0.5 ms of a start
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any

from sowctl.checksum import crc32
from sowctl.directories import FILE_MODE
from sowctl.errors import LockedError
from sowctl.lockwait import find_lock_holders, wait_for_lock
from sowctl.seam import Seam
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.opening.access import StoreFiles as StoreFiles
from sowctl.values.times import format_time

# Seconds between two attempts, the first and the longest: a commit takes a few milliseconds.
_WRITER_PAUSE_SECONDS = 0.002, 0.05
_GATE_PAUSE_SECONDS = 0.0005, 0.01
"""Seconds between two attempts to lock the gate, which is held for 0.2 milliseconds while a store is opened."""
_GATE = Struct("<QII")
# A store may contain any data: at most readable for the group.


class FileLock:
    """One flock(2) lock. Not re-entrant; for one process and one thread at a time."""

    def __init__(self, path: Path, seam: Seam) -> None:
        self.path = path
        self.seam = seam
        self.fd = -1
        self.pid = 0

    def acquire(
        self,
        *,
        exclusive: bool,
        wait: float,
        tell: Callable[[], None] | None = None,
        pauses: tuple[float, float] = _WRITER_PAUSE_SECONDS,
    ) -> bool:
        """Lock within ``wait`` seconds; return False if another process kept the lock; ``tell`` is called in a long
        wait.

        ``pauses`` are the seconds between two attempts, the first and the longest. Raises OSError.
        """
        return wait_for_lock(lambda: self._try_lock(exclusive), wait, pauses, tell)

    def _try_lock(self, exclusive: bool) -> bool:
        fd = self._open_lock_file(exclusive)
        try:
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            self.seam.call("file.lock", fcntl.flock, fd, kind | fcntl.LOCK_NB)
            # The file could have been exchanged between open and flock: a lock on a file that the name no longer shows
            # would exclude no other process.
            here, there = os.fstat(fd), self.path.stat()
            same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
        except OSError as problem:
            os.close(fd)
            # Held by another process, or the file was just removed: try again in both cases.
            if problem.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT):
                return False
            raise
        except BaseException:
            os.close(fd)
            raise
        if not same:
            os.close(fd)
            return False
        self.fd, self.pid = fd, os.getpid()
        return True

    def _open_lock_file(self, exclusive: bool) -> int:
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return self.seam.call("file.open", os.open, self.path, flags | os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as problem:
            # A read-only descriptor suffices for a shared lock: readers without write permission pass the gate, too.
            if exclusive or problem.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return self.seam.call("file.open", os.open, self.path, flags | os.O_RDONLY)

    def release(self) -> None:
        """Release the lock. After a fork only the descriptor is closed: the lock belongs to the parent."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        try:
            # flock belongs to the open file, which parent and child share: unlocking in the child would unlock the
            # parent.
            if self.pid == os.getpid():
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)


class Gate:
    """The gate of a store: held briefly to open or to replace it."""

    def __init__(self, files: StoreFiles, seam: Seam, wait: float) -> None:
        self.files = files
        self.seam = seam
        self.wait = max(wait, STORE_LIMITS.min_gate_wait_seconds)

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[FileLock]:
        """Hold the gate. Raises :class:`LockedError` SOW-STO-031, :class:`StorageError`."""
        lock = FileLock(self.files.gate, self.seam)
        with translate_errors(self.files.path, "lock the gate"):
            # Opening and replacing the store need it exclusively; processes without write permission share it to open.
            taken = lock.acquire(exclusive=exclusive, wait=self.wait, pauses=_GATE_PAUSE_SECONDS)
        if not taken:
            # A process suspended while opening the store blocks all others; the system knows which one it is.
            known = sorted(find_lock_holders(self.files.gate) or ())
            who = f" ({known[0]})" if known else ""
            facts: dict[str, Any] = {"holder_pid": known[0]} if known else {}
            raise LockedError(
                "SOW-STO-031",
                f"another process{who} has been opening or replacing the store for more than {self.wait:g} s",
                place=str(self.files.path),
                hint="try again; if that process is suspended, resume or end it",
                **facts,
            )
        try:
            yield lock
        finally:
            lock.release()


def read_gate_inode(lock: FileLock) -> int | None:
    """Return the inode of the data file to which the LMDB lock file belongs, according to the gate; None if invalid."""
    # 16 bytes: inode (8), zero (4), CRC-32 of both (4).
    data = os.pread(lock.fd, _GATE.size, 0)
    if len(data) != _GATE.size:
        return None
    inode, zero, crc = _GATE.unpack(data)
    # An interrupted write is not mistaken for an inode; then the gate is invalid, and is rewritten.
    return inode if zero == 0 and crc == crc32(data[:12]) else None


def write_gate_inode(lock: FileLock, inode: int, seam: Seam) -> None:
    """Write this inode to the gate; ``lock`` is held exclusively."""
    body = _GATE.pack(inode, 0, 0)[:12]
    seam.call("file.pwrite", os.pwrite, lock.fd, body + crc32(body).to_bytes(4, "little"), 0)


class WriterLock:
    """The writer lock of a store, re-entrant within a thread; other threads wait like other processes."""

    def __init__(
        self, files: StoreFiles, seam: Seam, command: str, notify: Callable[[str], None] | None = None
    ) -> None:
        """``command`` is shown to waiting processes, ``notify`` receives a message about a long wait of this one."""
        self.files = files
        self.seam = seam
        self.command = command
        self._notify = notify
        self.depth = 0
        self._lock = FileLock(files.writer, seam)
        self._threads = RLock()

    def acquire(self, wait: float) -> None:
        """Acquire it within ``wait`` seconds. Raises :class:`LockedError` SOW-STO-030 that names the holder."""
        # flock does not exclude threads that share the lock's descriptor: a Python lock does.
        if not self._threads.acquire(timeout=max(wait, 0)):
            raise self._locked_error(wait)
        try:
            # Nested uses count as one: several writes can share one lock, and each write acquires it again.
            if self.depth == 0:
                with translate_errors(self.files.path, "take the writer lock"):
                    if not self._lock.acquire(exclusive=True, wait=wait, tell=self._notify_waiting):
                        raise self._locked_error(wait)
                self._write_holder()
            self.depth += 1
        except BaseException:
            self._threads.release()
            raise

    def release(self) -> None:
        """Release one level."""
        self.depth -= 1
        try:
            if self.depth == 0:
                self._clear_holder()
        finally:
            self._threads.release()

    @contextmanager
    def hold(self, wait: float) -> Iterator[None]:
        """Hold the lock during a with statement."""
        self.acquire(wait)
        try:
            yield
        finally:
            self.release()

    def _write_holder(self) -> None:
        import json  # here, because readers, which never write the holder, start without it

        # Written after locking: a waiting process reads the current holder.
        line = json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "command": self.command}) + "\n"
        try:
            os.ftruncate(self._lock.fd, 0)
            os.pwrite(self._lock.fd, line.encode(), 0)
        except OSError:
            return  # the holder is only information for waiting processes; the lock itself is valid

    def _clear_holder(self) -> None:
        try:
            if self._lock.pid == os.getpid():
                # Cleared before unlocking: a name in the file always means a holder, or one that died.
                os.ftruncate(self._lock.fd, 0)
        except OSError:
            pass
        finally:
            self._lock.release()

    def _notify_waiting(self) -> None:
        if self._notify is not None:
            who = read_holder(self.files.writer)[0]
            self._notify(f"waiting for the store {self.files.path}: another process is writing to it{who}")

    def _locked_error(self, wait: float) -> LockedError:
        who, facts = read_holder(self.files.writer)
        return LockedError(
            "SOW-STO-030",
            f"another process is writing to the store{who}; waited {wait:g} s",
            place=str(self.files.path),
            hint="increase --lock-wait, or end that process",
            **facts,
        )


def read_holder(writer_file: Path) -> tuple[str, dict[str, Any]]:
    """Read the holder of a writer lock: a text for a message (possibly empty) and plain values."""
    import json

    try:
        facts = dict(json.loads(writer_file.read_bytes() or b"{}"))
        since = format_time(writer_file.stat().st_mtime_ns // 1000)
    except (OSError, ValueError, TypeError):
        return "", {}
    if not facts:
        # Another kind of program may hold it; the system may know the process.
        known = find_lock_holders(writer_file)
        return (f": process {min(known)}", {"holder_pid": min(known)}) if known else ("", {})
    words = f": process {facts.get('pid')} on {facts.get('host')} ({facts.get('command')}), since {since}"
    return words, {"holder_" + name: facts.get(name) for name in ("pid", "host", "command")} | {"holder_since": since}
