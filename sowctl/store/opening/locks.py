"""The two lock files beside a store: the gate and the writer lock (``sow-store(5)``, "Files", "Replacing a store").

Both are locked with flock(2), which ends with the process, and are never renamed or removed, so that all processes
lock the same file. Waiting is done in short sleeps: a signal is answered at once.
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
"""Seconds between two attempts at the gate, which is held for 0.2 milliseconds while a store is opened."""
_GATE = Struct("<QII")
# A store may hold anything: readable for the group at most.


class FileLock:
    """One flock(2) lock. Not re-entrant; of one process and one thread at a time."""

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
        """Lock within ``wait`` seconds; False when another process kept it; ``tell`` is called in a long wait.

        ``pauses`` are the seconds between two attempts, the first and the longest. Raises OSError.
        """
        return wait_for_lock(lambda: self._try_lock(exclusive), wait, pauses, tell)

    def _try_lock(self, exclusive: bool) -> bool:
        fd = self._open_lock_file(exclusive)
        try:
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            self.seam.call("file.lock", fcntl.flock, fd, kind | fcntl.LOCK_NB)
            # The file could have been exchanged between open and flock: a lock on a file that the name no longer shows
            # would exclude no one.
            here, there = os.fstat(fd), self.path.stat()
            same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
        except OSError as problem:
            os.close(fd)
            # Held by another process, or the file went away just now: both mean to try again.
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
            # A shared lock can be had through a descriptor for reading: readers without write permission pass the gate,
            # too.
            if exclusive or problem.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return self.seam.call("file.open", os.open, self.path, flags | os.O_RDONLY)

    def release(self) -> None:
        """Let go. After a fork only the descriptor is closed: the lock belongs to the parent."""
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
    """The gate of a store: passed one at a time, to open it or to replace it."""

    def __init__(self, files: StoreFiles, seam: Seam, wait: float) -> None:
        self.files = files
        self.seam = seam
        self.wait = max(wait, STORE_LIMITS.min_gate_wait_seconds)

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[FileLock]:
        """Hold the gate. Raises :class:`LockedError` SOW-STO-031, :class:`StorageError`."""
        lock = FileLock(self.files.gate, self.seam)
        with translate_errors(self.files.path, "lock the gate"):
            # Who opens the store has it alone, as who replaces it has; openers that may not write to it share it.
            taken = lock.acquire(exclusive=exclusive, wait=self.wait, pauses=_GATE_PAUSE_SECONDS)
        if not taken:
            # A process that was stopped while it opened the store keeps all others out; the system knows which it is.
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
    """The inode to which the LMDB lock file belongs, as the gate says; None when it says nothing sensible."""
    # 16 bytes: inode (8), zero (4), CRC-32 of both (4).
    data = os.pread(lock.fd, _GATE.size, 0)
    if len(data) != _GATE.size:
        return None
    inode, zero, crc = _GATE.unpack(data)
    # A write that was interrupted does not pass for an inode; then the gate says nothing, and the store is settled
    # anew.
    return inode if zero == 0 and crc == crc32(data[:12]) else None


def write_gate_inode(lock: FileLock, inode: int, seam: Seam) -> None:
    """Write it into the gate; ``lock`` is held exclusively."""
    body = _GATE.pack(inode, 0, 0)[:12]
    seam.call("file.pwrite", os.pwrite, lock.fd, body + crc32(body).to_bytes(4, "little"), 0)


class WriterLock:
    """The writer lock of a store, re-entrant within a thread; other threads wait like other processes do."""

    def __init__(
        self, files: StoreFiles, seam: Seam, command: str, notify: Callable[[str], None] | None = None
    ) -> None:
        """``command`` is shown to waiting processes, ``notify`` is told of a long wait of this one."""
        self.files = files
        self.seam = seam
        self.command = command
        self._notify = notify
        self.depth = 0
        self._lock = FileLock(files.writer, seam)
        self._threads = RLock()

    def acquire(self, wait: float) -> None:
        """Take it within ``wait`` seconds. Raises :class:`LockedError` SOW-STO-030 that names the holder."""
        # flock does not exclude threads that share the lock's descriptor: between threads a lock of Python does.
        if not self._threads.acquire(timeout=max(wait, 0)):
            raise self._locked_error(wait)
        try:
            # Nested uses are one: several writes can be put under one lock, inside of which each write takes it again.
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
        """Let go of one level."""
        self.depth -= 1
        try:
            if self.depth == 0:
                self._clear_holder()
        finally:
            self._threads.release()

    @contextmanager
    def hold(self, wait: float) -> Iterator[None]:
        """Hold it for the length of a with statement."""
        self.acquire(wait)
        try:
            yield
        finally:
            self.release()

    def _write_holder(self) -> None:
        import json  # here, because readers, who never sign, start without it

        # Written after the lock is taken: a waiting process reads who holds it now.
        line = json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "command": self.command}) + "\n"
        try:
            os.ftruncate(self._lock.fd, 0)
            os.pwrite(self._lock.fd, line.encode(), 0)
        except OSError:
            return  # who holds it is a courtesy to those who wait; the lock itself stands

    def _clear_holder(self) -> None:
        try:
            if self._lock.pid == os.getpid():
                # Emptied before the lock goes: a name in the file always means a holder, or one that died.
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
    """Read who holds a writer lock: words for a message (perhaps none) and plain values."""
    import json

    try:
        facts = dict(json.loads(writer_file.read_bytes() or b"{}"))
        since = format_time(writer_file.stat().st_mtime_ns // 1000)
    except (OSError, ValueError, TypeError):
        return "", {}
    if not facts:
        # A program of another kind may hold it; the system may know which process that is.
        known = find_lock_holders(writer_file)
        return (f": process {min(known)}", {"holder_pid": min(known)}) if known else ("", {})
    words = f": process {facts.get('pid')} on {facts.get('host')} ({facts.get('command')}), since {since}"
    return words, {"holder_" + name: facts.get(name) for name in ("pid", "host", "command")} | {"holder_since": since}
