"""Environments shared by the readers of one process: LMDB must not have a file open twice in a process.

So a program may look up a record while it iterates over the result of a query, and threads may query concurrently. A
program that announces more queries (:func:`keep_open`) leaves the environment open after the last reader: opening it
and mapping its pages again costs more than a small query. An environment kept this way is closed when this process
wants to write to its store, and before it forks, since a child does not inherit LMDB's locks.

Called by ``current_handle``; a writer has its own environment. ``keep_open`` is called for an open instance.
"""

from __future__ import annotations

import os
from _thread import RLock
from pathlib import Path

from sowctl.open_files import register_closer
from sowctl.seam import Seam
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.opening.environment import OpenMode, open_handle
from sowctl.store.opening.handle import Handle, read_identity
from sowctl.store.opening.locks import StoreFiles
from sowctl.store.opening.meta_pages import read_verified_meta

# _lock guards the tables and is held briefly; _opening_lock serializes opening and may be held while waiting for a lock
# of a file. Order: _opening_lock, then _lock.
_lock = RLock()
_opening_lock = RLock()
_shared: dict[Path, Handle] = {}
_fork_hooks: list[bool] = []
_keepers: list[int] = []
"""The process id of every caller that keeps environments open; a fork inherits those of its parent, which do not count
in it."""


def keep_open() -> None:
    """Leave environments open after their last reader, until :func:`end_keep_open` was called the same number of
    times."""
    with _lock:
        if not _fork_hooks:
            _fork_hooks.append(True)
            os.register_at_fork(before=close_unused_environments)
        _keepers.append(os.getpid())


def end_keep_open() -> None:
    """End one :func:`keep_open`; after the last one, environments without a reader are closed."""
    me = os.getpid()
    with _lock:
        if me in _keepers:  # and not in a fork, which may leave a block that its parent entered
            _keepers.remove(me)
        if me not in _keepers:
            close_unused_environments()


@register_closer
def close_unused_environments(path: Path | None = None) -> None:
    """Close environments without a reader: that of one file, or all."""
    with _lock:
        for known in list(_shared.values()):
            if not known.sharers and path in (None, known.files.path):
                _close_handle(known)


def _close_handle(handle: Handle) -> None:
    handle.retire()
    if handle.env is None and _shared.get(handle.files.path) is handle:
        del _shared[handle.files.path]


def share_environment(files: StoreFiles, mode: OpenMode, seam: Seam) -> Handle:
    """Return the environment in which other readers have this file open, or a new one. Raises as
    :func:`open_handle`."""
    with (
        _opening_lock
    ):  # two threads must not open one file; others may continue, however long this waits for the file's locks
        with _lock:
            known = _shared.get(files.path)
            if known is not None and _is_compatible(known, files, mode, seam) and known.revive():
                return _join_environment(known)
            if known is not None and not known.sharers:
                _close_handle(known)
        handle = open_handle(files, mode, seam)
        with _lock:
            _shared[files.path] = handle
        return handle


def _join_environment(known: Handle) -> Handle:
    """Add a reader. An environment without a reader is checked as at opening: its file may have been truncated
    since."""
    if not known.sharers:
        try:
            read_verified_meta(known.files.path, known.seam)
        except BaseException:
            _close_handle(known)
            raise
    known.sharers += 1
    return known


def _is_compatible(known: Handle, files: StoreFiles, mode: OpenMode, seam: Seam) -> bool:
    """Return whether this process opened it for the current file of the path, with the same system calls."""
    mine = known.pid == os.getpid() and known.seam is seam
    return mine and known.identity == read_identity(files, mode.no_lock)


def release_environment(handle: Handle) -> None:
    """Release one reader; the last one leaves the environment open, or closes it when its snapshots end. For any
    handle."""
    with _lock:
        handle.sharers -= 1
        if handle.sharers:
            return
        if not _can_stay_open(handle):
            _close_handle(handle)
            return
        # Dictionaries keep the order of insertion: the first ones were opened first.
        idle = [known for known in _shared.values() if not known.sharers]
        for known in idle[: -STORE_LIMITS.max_idle_environments]:
            _close_handle(known)


def _can_stay_open(handle: Handle) -> bool:
    """Return whether another reader of its file could use it."""
    # An environment that is not in the table belongs to a writer, or to a replaced file: no reader can reach it.
    if os.getpid() not in _keepers or _shared.get(handle.files.path) is not handle or handle.env is None:
        return False
    now = read_identity(handle.files, no_lock=True)
    return now is not None and now.data == handle.identity.data


__all__ = ["close_unused_environments", "end_keep_open", "keep_open", "release_environment", "share_environment"]
