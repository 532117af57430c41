"""One state of a store while it is being read: a read transaction, which can be ended and begun again.

Created by ``Store.open_snapshot`` and closed by its caller; :mod:`sowctl.store.read` has the read operations. This
module adds the checks for reading without locks: every result is proven to belong to one state. Specified in
``sow-store(5)``, "How to read" and "Without locks".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

from sowctl.store.codec import Offsets
from sowctl.store.integrity import Marks
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.opening.handle import Handle
from sowctl.store.opening.unlocked_watch import WATCH_INTERVAL_RECORDS
from sowctl.store.ordered_entries import Batch, Found
from sowctl.store.read import LineBatch, Reader, Run, Version

P = ParamSpec("P")
R = TypeVar("R")
_END_MARK: Any = object()


class Snapshot(Reader):
    """A read transaction: one state of the store while it is open. Close it soon: it keeps old pages alive.

    ``opener`` begins a read transaction in the store's current file and counts it in the handle's users. If the store
    is read without locks, the handle's watch verifies all data after reading, every method may raise LockedError
    SOW-STO-061, and batches are smaller.
    """

    def __init__(self, opener: Callable[[], tuple[Handle, Any]]) -> None:
        self._opener = opener
        self._begin_read()

    def _begin_read(self) -> None:
        # The transaction's number identifies the state: all later data is proven to belong to it.
        handle, txn = self._opener()
        self._open = True
        try:
            self._handle, self._state = handle, int(txn.id())
            self._read_steady(super().__init__, handle, txn)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renew(self) -> None:
        """Continue with the newest state: end the transaction and begin another one, in a replaced file if
        necessary."""
        self.close()
        self._begin_read()

    def close(self) -> None:
        """End the transaction and free its reader slot; iterators of this snapshot end with it."""
        # Only once: the handle counts its transactions, and a second release would close it while others use it.
        if self._open:
            self._open = False
            self._txn.abort()
            self._handle.release_read()

    def copy_to_pipe(self, take: Callable[[int], R]) -> R:
        """Copy this state, without free pages: ``take`` reads the bytes of a data file from a pipe, at its own pace.

        Writers are not blocked meanwhile. Returns the result of ``take``. Raises its exceptions, StorageError,
        DamageError.
        """
        return self._read_steady(self._copy_in_order, take)

    def _copy_in_order(self, take: Callable[[int], R]) -> R:
        self._txn.verify_all()  # LMDB reads all pages in a separate thread
        handle, problems = self._handle, list[BaseException]()
        source, sink = os.pipe()

        def copy() -> None:
            try:
                handle.env.copyfd(sink, compact=True, txn=self._txn.raw)
            except BaseException as problem:
                problems.append(problem)
            finally:
                os.close(sink)

        from threading import Thread

        thread = Thread(target=copy, daemon=True)
        with translate_errors(handle.files.path, "copy the store"):
            try:
                handle.seam.call("lmdb.copy", thread.start)
                taken = take(source)
            finally:
                # The pipe has no reader any more: LMDB ends with an error, if it has not finished yet.
                os.close(source)
                if thread.ident is None:
                    os.close(sink)
                else:
                    thread.join()
            if problems:
                raise problems[0]
        return taken

    def _read_steady(self, read: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of ``read``, of one state. Damage found in a mixture of two states does not count."""
        watch = self._handle.watch
        if watch is None:
            return read(*args, **kwargs)
        # Before: overwritten pages could lead LMDB anywhere. After: the data may have been overwritten while it was
        # read. The second check also runs on an exception, because damage found in a mixture of two states does not
        # count.
        watch.verify_state(self._state)
        try:
            return read(*args, **kwargs)
        finally:
            watch.verify_state(self._state)

    def _iterate_steady(self, steps: Iterator[R]) -> Iterator[R]:
        """Verify each step of an iterator before it is returned."""
        if self._handle.watch is None:
            return steps
        # Each step is verified before it is returned, so that no caller gets a batch of two states.
        return iter(lambda: self._read_steady(next, steps, _END_MARK), _END_MARK)

    def _verify_step(self, batch: int) -> int:
        # Small steps keep the time between two checks short, in which LMDB could follow an overwritten page.
        return batch if self._handle.watch is None else min(batch, WATCH_INTERVAL_RECORDS)

    def read_values(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """See :class:`Reader`."""
        return self._read_steady(super().read_values, keys)

    def read_values_at(self, keys: Sequence[bytes], offsets: Offsets) -> Found:
        """See :class:`Reader`."""
        return self._read_steady(super().read_values_at, keys, offsets)

    def read_many_values(self, keys: Sequence[bytes]) -> Found:
        """See :class:`Reader`."""
        return self._read_steady(super().read_many_values, keys)

    def locate_values(self, keys: bytes) -> tuple[Any, Any, Any] | None:
        """See :class:`Reader`."""
        return self._read_steady(super().locate_values, keys)

    def scan_runs(
        self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000, marks: Marks | None = None
    ) -> Iterator[Run]:
        """See :class:`Reader`."""
        return self._iterate_steady(super().scan_runs(start, stop, self._verify_step(batch), marks))

    def scan_lines(self, batch: int = 1000) -> Iterator[LineBatch] | None:
        """See :class:`Reader`. None also if the store is read without locks: pages may be written meanwhile."""
        return super().scan_lines(batch) if self._handle.watch is None else None

    def scan_history(self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000) -> Iterator[Batch]:
        """See :class:`Reader`."""
        return self._iterate_steady(super().scan_history(start, stop, self._verify_step(batch)))

    def read_versions(self, key: bytes) -> list[Version]:
        """See :class:`Reader`."""
        return self._read_steady(super().read_versions, key)

    def iter_expired_keys(self, now: int) -> Iterator[bytes]:
        """See :class:`Reader`."""
        return self._iterate_steady(super().iter_expired_keys(now))

    def find_next_expiry(self, now: int) -> int | None:
        """See :class:`Reader`."""
        return self._read_steady(super().find_next_expiry, now)

    def find_changed_keys(self, state_number: int) -> set[bytes] | None:
        """See :class:`Reader`."""
        return self._read_steady(super().find_changed_keys, state_number)

    def read_sequence(self, publisher: int) -> int | None:
        """See :class:`Reader`."""
        return self._read_steady(super().read_sequence, publisher)
