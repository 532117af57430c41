"""The lock of a journal: one writer at a time; messages can name its holder (``sow-journal(5)``, "Writing").

Maintenance of journal files uses a lock of the same kind (:mod:`sowctl.journal.maintenance.lock`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sowctl.directories import FILE_MODE
from sowctl.errors import LockedError
from sowctl.interrupts import allow_interrupts
from sowctl.lockwait import find_lock_holders, wait_for_lock
from sowctl.seam import Seam
from sowctl.values.times import Micros, format_time

# A batch holds the lock for a few milliseconds: the first pause is shorter than that, and the longest pause keeps a
# long wait cheap.
_LOCK_PAUSE_SECONDS = 0.0005, 0.02
_YIELD_SECONDS = 0.025
"""Pause that lets waiting processes acquire the lock first: longer than their own pauses."""
_FAIR_HOLD_SECONDS = 0.02
"""Total seconds of holding the lock after which waiting processes go first. A process that holds the lock for a
millisecond at a time, such as a worker of a queue, would otherwise spend most of its time yielding."""


def _ignore_wait(_: str) -> None:
    return


def is_locked(directory: Path, instance: str) -> bool:
    """Return whether a process holds the journal lock of an instance, and so may be writing to it."""
    try:
        fd = os.open(directory / f"{instance}.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # A shared lock, so that two concurrent checks do not see each other as the holder. Closing the file releases
        # it.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(fd)
    return False


class JournalLock:
    """The lock file of an instance, kept open; ``acquire`` and ``release`` can be called repeatedly."""

    def __init__(
        self,
        directory: Path,
        instance: str,
        seam: Seam,
        holder: str,
        started: Micros,
        notify: Callable[[str], None] = _ignore_wait,
        *,
        path: Path | None = None,
        what: str = "the journal",
    ) -> None:
        """Open or create the file; ``notify`` receives a message about a long wait. Raises OSError.

        ``path`` and ``what``: another lock of the same kind, and the name of the resource that it protects.
        """
        self._notify = notify
        self._what = what
        self.path = directory / f"{instance}.lock" if path is None else path
        self._seam = seam
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = seam.call("file.open", os.open, self.path, flags, FILE_MODE)
        # The modification time of the file when this process last took the lock.
        self._taken: int | None = None
        self._since = self._held = 0.0
        # One fact a line, so that any program can read it; a line break inside of a name would shift the rest.
        lines = (str(os.getpid()), os.uname().nodename, holder, format_time(started), "")
        self._me = "\n".join(line.replace("\n", " ") for line in lines).rstrip(" ").encode()

    def acquire(self, wait: float) -> None:
        """Acquire the lock within ``wait`` seconds. Raises LockedError ``SOW-JRN-030`` naming the holder, OSError.

        The lock is polled, so that the wait ends on time and signals end it too. A failed attempt touches the file. A
        process that finds the file touched since it last acquired the lock yields to the others first: a process that
        publishes batch after batch releases the lock only for an instant, which waiting processes would miss. It yields
        whenever it has held the lock for :data:`_FAIR_HOLD_SECONDS` in total.
        """

        def tell() -> None:
            self._notify(f"waiting for {self._what}, locked by {self._read_holder()[0]}: {self.path}")

        if self._held >= _FAIR_HOLD_SECONDS:
            if self._taken is not None and os.fstat(self._fd).st_mtime_ns != self._taken:
                with allow_interrupts():
                    time.sleep(_YIELD_SECONDS)
            self._held = 0.0
        if not wait_for_lock(self._try_lock, wait, _LOCK_PAUSE_SECONDS, tell):
            raise self._locked_error(wait)
        self._write_holder()
        # After _write_holder, whose own write sets the time.
        self._taken = os.fstat(self._fd).st_mtime_ns
        self._since = time.monotonic()

    def _try_lock(self) -> bool:
        try:
            self._seam.call("file.lock", fcntl.flock, self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Both mean that another process holds it; anything else is a failure of the file system.
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            # The modification time tells the holder that another process waits (see acquire).
            with suppress(OSError):
                os.utime(self._fd)
            return False
        return True

    def release(self) -> None:
        """Release the lock for other processes."""
        self._held += time.monotonic() - self._since
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, which also releases the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write_holder(self) -> None:
        """Write the holder into the file. The text is for people; the lock is valid even if the text cannot be
        written."""
        try:
            # Written only on change: the same writer acquires the lock for each batch, and the file would be rewritten
            # each time.
            if os.pread(self._fd, len(self._me) + 1, 0) != self._me:
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, self._me, 0)
        except OSError:
            pass

    def _read_holder(self) -> tuple[str, dict[str, str | None]]:
        """Return the holder of the lock, as text and as plain values. The file names its last holder, which may differ
        from the current one: other programs lock it without writing their name."""
        lines = os.pread(self._fd, 4096, 0).decode(errors="replace").split("\n")
        pid, host, command, since = (*lines, "", "", "", "")[:4]
        # The kernel knows the current holder on this host; for another host only the text is available.
        known = find_lock_holders(self.path)
        if known and host == os.uname().nodename and pid not in map(str, known):
            pid, command, since = str(min(known)), "", ""
            return f"process {pid} on {host}", {"pid": pid, "host": host, "command": None, "since": None}
        who = f"process {pid} on {host} ({command}, since {since})" if since else "another process"
        return who, {"pid": pid, "host": host, "command": command, "since": since}

    def _locked_error(self, wait: float) -> LockedError:
        who, facts = self._read_holder()
        return LockedError(
            "SOW-JRN-030",
            f"{self._what} is locked by {who}; waited {wait:g} s",
            place=str(self.path),
            hint="wait for it, or increase --lock-wait",
            **facts,
        )
