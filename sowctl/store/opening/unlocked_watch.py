"""Reading a store without LMDB's lock table, which this process may not write (``sow-store(5)``, "Without locks").

A reader's entry in the lock table keeps writers from the pages of the state that it reads. Without one, the newest meta
page tells whether they can have been written again. Pages that transaction N+1 replaces are the last ones that state N
needs, and LMDB gives them to a writer only when a later transaction than the one that freed them is committed, and
another one begins: N+2 is in the file before N+3 writes to them. So what was read of state N is of state N as long as
the newest meta page, read afterwards, is that of N or N+1.

:mod:`sowctl.store.opening.environment` decides and makes a :class:`StateWatch`. Snapshots and checks ask it before
every step, because pages that were written again may lead LMDB anywhere, and after it, before what they have read goes
on. Between the two stand few records: for LMDB to meet such a page then, two transactions have to be committed within a
fraction of a millisecond, and the worst is that it ends the process, which :func:`find_overtaken_error` explains.
"""

from __future__ import annotations

import os

from sowctl.errors import LockedError
from sowctl.seam import Seam
from sowctl.store.opening.access import StoreFiles
from sowctl.store.opening.meta_pages import read_newest_txnid

WATCH_INTERVAL_RECORDS = 100
"""Records that are read between two looks at the meta pages, at most."""
_ATTEMPTS = 3
"""A writer may just be replacing one of the meta pages."""
_active_watches: list[StateWatch] = []


class StateWatch:
    """The newest meta page of a store that is read without locks. Closed with the environment that it watches."""

    def __init__(self, files: StoreFiles, seam: Seam) -> None:
        """Raises OSError."""
        self._files = files
        # A descriptor of its own. LMDB has its locks on the lock file, so closing this one releases none of them.
        self._fd: int = seam.call("file.open", os.open, files.path, os.O_RDONLY | os.O_CLOEXEC)
        self._state: int | None = None
        _active_watches.append(self)

    def read_inode(self) -> int:
        """Return the inode of the file."""
        return os.fstat(self._fd).st_ino

    def begin_state(self) -> None:
        """The state of now is the one that is read, by another process."""
        self._state = read_newest_txnid(self._fd)

    def verify_state(self, txnid: int) -> None:
        """Return if everything read so far is of the state that LMDB transaction ``txnid`` left, and of no later one.

        Raises LockedError SOW-STO-061 where that is not certain.
        """
        self._state = txnid
        if not self.is_state_untouched():
            raise self.overtaken_error()

    def is_state_untouched(self) -> bool:
        """Return whether the state that was asked for last is still untouched."""
        # Nothing was asked for yet, so nothing can have been overtaken.
        if self._state is None:
            return True
        for _ in range(_ATTEMPTS):
            newest = read_newest_txnid(self._fd)
            # N + 1 may be committed: it wrote to pages that state N did not use. A transaction after that may have
            # overwritten pages of state N, even before it is committed.
            if newest is not None and self._state <= newest <= self._state + 1:
                return True
        return False

    def overtaken_error(self) -> LockedError:
        """The error for a reader that writers have overtaken."""
        return LockedError(
            "SOW-STO-061",
            "another process wrote to the store while it was read without locks: what was read may be of two states",
            place=str(self._files.path),
            hint=f"run it again; with write permission on {self._files.lock.name} it can be read while others write",
        )

    def close(self) -> None:
        """Close the file."""
        _active_watches.remove(self)
        os.close(self._fd)


def find_overtaken_error() -> LockedError | None:
    """For the last words of a process that LMDB ends: the error to report where writers are the cause, not damage."""
    return next((watch.overtaken_error() for watch in _active_watches if not watch.is_state_untouched()), None)
