"""Waiting for a lock of flock(2): attempts with pauses, a note to the waiting user, the process that holds it, and
whether a process exists.

A non-blocking attempt ends in time, and a signal ends the pause. Called by the locks of journals and stores, whose
files name the holder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from sowctl.interrupts import allow_interrupts


class LockWaitLimits(Struct):
    """Times of waiting; tests set shorter ones."""

    notice_delay_seconds: float = 1.0
    """Seconds of waiting after which the user is notified."""


LOCK_WAIT_LIMITS = LockWaitLimits()


def wait_for_lock(
    attempt: Callable[[], bool], wait: float, pauses: tuple[float, float], tell: Callable[[], None] | None = None
) -> bool:
    """Return whether ``attempt`` succeeds within ``wait`` seconds; it is made at least once.

    ``pauses`` are the first and the longest pause between attempts. ``tell`` is called once, if the wait is long.
    """
    begin = time.monotonic()
    pause, longest = pauses
    while not attempt():
        waited = time.monotonic() - begin
        if waited >= wait:
            return False
        if tell is not None and waited >= LOCK_WAIT_LIMITS.notice_delay_seconds:
            tell()
            tell = None
        with allow_interrupts():
            time.sleep(min(pause, wait - waited))
        pause = min(2 * pause, longest)
    return True


def find_lock_holders(path: str | os.PathLike[str]) -> set[int] | None:
    """The processes that hold a flock(2) lock on a file, according to the system; None if unknown.

    The ids are those of this process's own PID namespace; the system omits holders outside of it.
    """
    try:
        found = Path(path).stat()
        wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        with Path("/proc/locks").open() as table:
            rows = [line.split() for line in table]
    except OSError:
        return None
    # 4: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF; a row with an arrow is a waiting process.
    return {int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == wanted and int(row[4]) > 0}


def is_running(pid: int) -> bool:
    """Return whether a process with this id exists."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
