"""The lock of those who move, compress, remove or repair files of a journal: one of them at a time.

Publishing does not wait for it, because none of them touches the file that grows; where one does, it takes the
journal's own lock too, behind this one. Ruled by ``sow-journal(5)``, "Looking after files".
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
    """Return the path of the lock; no instance's name begins with a dot, so it is no other instance's file."""
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
    """Hold the lock within ``wait`` seconds. Raises LockedError ``SOW-JRN-060``, StorageError ``SOW-JRN-021``."""
    path = build_lock_path(directory, instance)
    try:
        lock = JournalLock(directory, instance, seam, holder, now, notify, path=path, what=_LOCK_PURPOSE)
    except OSError as error:
        raise write_error(error, path, None) from error
    try:
        try:
            # Order of locks: this one first, then the lock of writers; who holds that one never waits for this one.
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
