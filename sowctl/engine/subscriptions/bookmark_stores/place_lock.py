"""A lock that a subscription holds on its position, so that only one run at a time moves it.

Two runs with the same client and subscription id would deliver the same messages twice, and each would overwrite the
position of the other, possibly with one ahead of the acknowledged messages. The lock is a flock(2) on an empty file
next to the store. The file is removed when the run ends; a killed run leaves the file, but no lock. Commands that set a
position explicitly take the lock, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Self

from sowctl.engine.subscriptions.bookmark_stores.store_list import note_store
from sowctl.errors import LockedError, StorageError
from sowctl.store.opening.locks import FileLock, read_holder

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore, Subscriber

PLACE_LOCKED = "SOW-BKM-010"


class PlaceLock:
    """The lock on the position of ``who`` in ``store``, held from construction to :meth:`close`.

    Raises LockedError ``SOW-BKM-010`` (exit 11) immediately if another run holds it, naming its process, and
    StorageError ``SOW-BKM-003`` if the lock file cannot be created. A store without a place on disk has no lock file,
    and no other process can see its positions.
    """

    def __init__(self, store: BookmarkStore, who: Subscriber, instance: Instance) -> None:
        self._lock: FileLock | None = None
        path = store.find_lock_file(who)
        if path is None:
            return
        lock = FileLock(path, instance.seam)
        try:
            # Before the first row the directory may be missing, too.
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            # Two attempts: if the previous run has just ended, the file may be removed between opening and locking it.
            taken = lock.acquire(exclusive=True, wait=0) or lock.acquire(exclusive=True, wait=0)
        except OSError as error:
            raise StorageError(
                "SOW-BKM-003",
                f"cannot lock the position: {error.strerror or error}",
                place=str(path),
                hint="make the directory of the bookmark store writable",
            ) from error
        if not taken:
            words, facts = read_holder(path)
            raise LockedError(
                PLACE_LOCKED,
                f"client {who.client!r}, subscription {who.sub_id!r} is already subscribed{words}",
                place=str(path),
                hint="end that run, or give this run another --sub-id",
                client=who.client,
                sub_id=who.sub_id,
                **facts,
            )
        self._lock = lock
        # Before the position is read: from here on no journal entry that it needs is removed.
        if store.file is not None:
            note_store(instance, store.file)
        line = json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "command": instance.holder}) + "\n"
        # The holder's name is only informational; the lock is held without it, too.
        with suppress(OSError):
            os.ftruncate(lock.fd, 0)
            os.pwrite(lock.fd, line.encode(), 0)

    def close(self) -> None:
        """Release the lock and remove the file."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        if lock.pid == os.getpid():
            # Under the lock: a process that has opened this file meanwhile finds another file, or none, under the name.
            with suppress(OSError):
                lock.path.unlink()
        lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A subscription that was started and dropped: release its position.
        if hasattr(self, "_lock"):
            self.close()


@contextmanager
def hold_place_locks(store: BookmarkStore, some: Iterable[Subscriber], instance: Instance) -> Iterator[None]:
    """Hold the locks of several positions, possibly none, so that no run uses them. Raises as :class:`PlaceLock`."""
    with ExitStack() as stack:
        for who in some:
            stack.enter_context(PlaceLock(store, who, instance))
        yield
