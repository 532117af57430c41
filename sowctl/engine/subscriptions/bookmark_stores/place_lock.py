"""One run at a time for a place: a lock that its subscription holds, so that two runs do not move one place.

Two runs of one client and subscription id would each tell what the other tells, and store its place over the other's,
which may be ahead of what was acknowledged. The lock is one of flock(2) on an empty file beside the store, which goes
when the run ends; a run that was killed leaves the file, and no lock. Whoever sets a place on purpose takes it, too.
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
    """The lock of the place of ``who`` in ``store``, from when it is made until it is closed.

    Raises LockedError ``SOW-BKM-010`` (exit 11) at once where another run holds it, with its process, StorageError
    ``SOW-BKM-003`` where the file of the lock cannot be made. A store that is nowhere on disk has no such file, and no
    other process can see its places.
    """

    def __init__(self, store: BookmarkStore, who: Subscriber, instance: Instance) -> None:
        self._lock: FileLock | None = None
        path = store.find_lock_file(who)
        if path is None:
            return
        lock = FileLock(path, instance.seam)
        try:
            # Before the first row there may be no directory either.
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            # Two attempts: the file may go between opening and locking it, when the run before has just ended.
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
        # Before the place is read: from here on nothing that it needs is removed.
        if store.file is not None:
            note_store(instance, store.file)
        line = json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "command": instance.holder}) + "\n"
        # Who holds it is a courtesy to others; the lock itself stands.
        with suppress(OSError):
            os.ftruncate(lock.fd, 0)
            os.pwrite(lock.fd, line.encode(), 0)

    def close(self) -> None:
        """Let others in, and remove the file."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        if lock.pid == os.getpid():
            # Under the lock: who has opened this file meanwhile finds that the name leads to another one, or to none.
            with suppress(OSError):
                lock.path.unlink()
        lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A subscription that was begun and forgotten: its place is free again.
        if hasattr(self, "_lock"):
            self.close()


@contextmanager
def hold_place_locks(store: BookmarkStore, some: Iterable[Subscriber], instance: Instance) -> Iterator[None]:
    """Hold the locks of several places, or of none: then no run of theirs is under way. Raises as
    :class:`PlaceLock`.
    """
    with ExitStack() as stack:
        for who in some:
            stack.enter_context(PlaceLock(store, who, instance))
        yield
