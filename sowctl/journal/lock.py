"""The lock of a journal: one writer at a time, with a name to complain about (``sow-journal(5)``, "Writing")."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from sowctl.breaks import breakable
from sowctl.errors import LockedError
from sowctl.journal.format import FILE_MODE
from sowctl.seam import Seam
from sowctl.values.times import Micros, format_time

_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.02


class JournalLock:
    """The lock file of an instance, kept open; ``acquire`` and ``release`` as often as wanted."""

    def __init__(self, directory: Path, instance: str, seam: Seam, holder: str, started: Micros) -> None:
        """Open or create the file. Raises OSError."""
        self.path = directory / f"{instance}.lock"
        self._seam = seam
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = seam.call("file.open", os.open, self.path, flags, FILE_MODE)
        lines = (str(os.getpid()), os.uname().nodename, holder, format_time(started), "")
        self._me = "\n".join(line.replace("\n", " ") for line in lines).rstrip(" ").encode()

    def acquire(self, wait: float) -> None:
        """Take the lock within ``wait`` seconds. Raises LockedError ``SOW-JRN-030`` naming the holder, OSError.

        It is asked for again and again instead of waited for, so that the wait ends on time and a signal ends it too.
        """
        deadline = time.monotonic() + wait
        pause = _FIRST_PAUSE
        while True:
            try:
                self._seam.call("file.lock", fcntl.flock, self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._locked(wait)
            with breakable():
                time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._sign()

    def release(self) -> None:
        """Let others in."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, which lets go of the lock too."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _sign(self) -> None:
        """Say who holds it. The text is for people; a failure to write it is none of the holder's business."""
        try:
            if os.pread(self._fd, len(self._me) + 1, 0) != self._me:
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, self._me, 0)
        except OSError:
            pass

    def _locked(self, wait: float) -> LockedError:
        lines = os.pread(self._fd, 4096, 0).decode(errors="replace").split("\n")
        pid, host, command, since = (*lines, "", "", "", "")[:4]
        who = f"process {pid} on {host} ({command}, since {since})" if since else "another process"
        return LockedError(
            "SOW-JRN-030",
            f"the journal is locked by {who}; waited {wait:g} s",
            place=str(self.path),
            hint="wait for it, or raise --lock-wait",
            pid=pid,
            host=host,
            command=command,
            since=since,
        )
