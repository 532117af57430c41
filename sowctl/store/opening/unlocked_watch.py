"""Reading a store without LMDB's lock table, which this process cannot write (``sow-store(5)``, "Without locks").

A reader's entry in the lock table keeps writers from overwriting the pages of the state that it reads. Without an
entry, the newest meta page shows whether they may have been overwritten. Pages that transaction N+1 replaces are the
last ones that state N needs, and LMDB gives them to a writer only after a later transaction than the one that freed
them was committed and another one begins: N+2 is in the file before N+3 writes to them. So data read of state N belongs
to state N as long as the newest meta page, read afterwards, is that of N or N+1.

:mod:`sowctl.store.opening.environment` decides this and creates a :class:`StateWatch`. Snapshots and checks call it
before every step, because overwritten pages may lead LMDB anywhere, and after it, before they return the data. Few
records are read between the two calls: for LMDB to reach such a page then, two transactions have to be committed within
a fraction of a millisecond, and the worst case is that it kills the process, which :func:`find_overtaken_error`
explains.
"""

from __future__ import annotations

import os

from sowctl.errors import LockedError
from sowctl.seam import Seam
from sowctl.store.opening.access import StoreFiles
from sowctl.store.opening.meta_pages import read_newest_txnid

WATCH_INTERVAL_RECORDS = 100
"""Maximum number of records read between two checks of the meta pages."""
_ATTEMPTS = 3
"""A writer may be replacing one of the meta pages at this moment."""
_active_watches: list[StateWatch] = []


class StateWatch:
    """The newest meta page of a store that is read without locks. Closed with the environment that it watches."""

    def __init__(self, files: StoreFiles, seam: Seam) -> None:
        """Open the file. Raises OSError."""
        self._files = files
        # A separate descriptor. LMDB has its locks on the lock file, so closing this one releases none of them.
        self._fd: int = seam.call("file.open", os.open, files.path, os.O_RDONLY | os.O_CLOEXEC)
        self._state: int | None = None
        _active_watches.append(self)

    def read_inode(self) -> int:
        """Return the inode of the file."""
        return os.fstat(self._fd).st_ino

    def begin_state(self) -> None:
        """Watch the current state, which another process reads."""
        self._state = read_newest_txnid(self._fd)

    def verify_state(self, txnid: int) -> None:
        """Verify that everything read so far belongs to the state of LMDB transaction ``txnid`` and to no later one.

        Raises LockedError SOW-STO-061 if this is not certain.
        """
        self._state = txnid
        if not self.is_state_untouched():
            raise self.overtaken_error()

    def is_state_untouched(self) -> bool:
        """Return whether the state verified last is still untouched."""
        # No state was read yet, so none can have been overwritten.
        if self._state is None:
            return True
        for _ in range(_ATTEMPTS):
            newest = read_newest_txnid(self._fd)
            # N + 1 may be committed: it wrote to pages that state N did not use. A later transaction may have
            # overwritten pages of state N, even before it is committed.
            if newest is not None and self._state <= newest <= self._state + 1:
                return True
        return False

    def overtaken_error(self) -> LockedError:
        """Return the error for a reader whose state writers may have overwritten."""
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
    """Return the error to report when LMDB kills a process, if writers are the cause and not damage; otherwise None."""
    return next((watch.overtaken_error() for watch in _active_watches if not watch.is_state_untouched()), None)
