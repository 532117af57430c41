"""The lock for moving, compressing, removing or repairing journal files: one process at a time.

Publishing does not wait for it, because these operations do not change the file that grows; an operation that does also
acquires the journal's own lock, after this one. Specified in ``sow-journal(5)``, "Looking after files".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sowctl.errors import LockedError
from sowctl.journal.appender import write_error
from sowctl.journal.lock import JournalLock
from sowctl.seam import Seam
from sowctl.values.times import Micros

_LOCK_PURPOSE = "the maintenance of the journal"


def build_lock_path(directory: Path, instance: str) -> Path:
    """Return the path of the lock; an instance name never begins with a dot, so no other instance has this file."""
    return directory / f".{instance}.upkeep.lock"


@contextmanager
def hold_maintenance_lock(
    directory: Path,
    instance: str,
    *,
    seam: Seam,
    wait: float,
    holder: str,
    now: Micros,
    notify: Callable[[str], None] = lambda words: None,
) -> Iterator[None]:
    """Hold the lock, acquired within ``wait`` seconds. Raises LockedError ``SOW-JRN-060``, StorageError
    ``SOW-JRN-021``."""
    path = build_lock_path(directory, instance)
    try:
        lock = JournalLock(directory, instance, seam, holder, now, notify, path=path, what=_LOCK_PURPOSE)
    except OSError as error:
        raise write_error(error, path, None) from error
    try:
        try:
            # Order of locks: this one first, then the lock of writers; a holder of that one never waits for this one.
            lock.acquire(wait)
        except OSError as error:
            raise write_error(error, path, None) from error
        except LockedError as error:
            raise LockedError(
                "SOW-JRN-060", error.message, place=error.place, hint=error.hint, **error.facts
            ) from error
        yield
    finally:
        lock.close()
