"""One state of a store for as long as somebody reads it: a read transaction, ended and begun again.

Made by ``Store.snapshot``, closed by whoever asked for it; what can be read in it is in :mod:`sowctl.store.read`. Ruled
by ``sow-store(5)``, "How to read".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sowctl.store.handle import Handle
from sowctl.store.read import Reader


class Snapshot(Reader):
    """A read transaction: one state of the store for as long as it is open. Close it soon: it keeps old pages alive.

    ``opener`` begins a read transaction in the store's current file and counts it in the handle's users.
    """

    def __init__(self, opener: Callable[[], tuple[Handle, Any]]) -> None:
        self._opener = opener
        self._begin()

    def _begin(self) -> None:
        handle, txn = self._opener()
        self._open = True
        try:
            super().__init__(handle, txn)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renew(self) -> None:
        """Go on to the newest state: end the transaction and begin another one, in a replaced file if need be."""
        self.close()
        self._begin()

    def close(self) -> None:
        """End the transaction and free its reader slot; iterators of this snapshot end with it."""
        if self._open:
            self._open = False
            self._txn.abort()
            self._handle.release()
