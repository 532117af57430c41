"""Environments that the readers of one process share: LMDB must not have a file open twice in a process.

So a program may ask for a record while it goes through the result of a query, and threads may query side by side.
Where the program says that more questions follow (:func:`keep`), the last reader leaves the environment open for the
next one: opening it and mapping its pages anew costs more than a small query. Nobody has to know: it is closed for
whoever wants to write, and before the process forks, since LMDB's locks do not come along.

Called by ``current``; whoever writes has an environment of his own. :class:`~sowctl.engine.instance.Instance` keeps.
"""

from __future__ import annotations

import os
from _thread import RLock
from pathlib import Path

from sowctl.seam import Seam
from sowctl.store.opening.environment import Mode, open_handle
from sowctl.store.opening.handle import Handle, current_identity
from sowctl.store.opening.locks import StoreFiles
from sowctl.store.opening.pages import inspect

MOST_IDLE = 16
"""Environments kept open for nobody; of more, those that were opened first are closed."""
_lock = RLock()
_opening = RLock()
_shared: dict[Path, Handle] = {}
_hooked: list[bool] = []
_keepers: list[int] = []
"""The process ids of those who keep; a fork has those of its parent, too, which keep nothing for it."""


def keep() -> None:
    """From now on, leave environments open that nobody reads; until :func:`drop` is called as often."""
    with _lock:
        if not _hooked:
            _hooked.append(True)
            os.register_at_fork(before=close_idle)
        _keepers.append(os.getpid())


def drop() -> None:
    """End one :func:`keep`; after the last, what nobody reads is closed."""
    me = os.getpid()
    with _lock:
        if me in _keepers:  # and not in a fork, which may leave a block that its parent entered
            _keepers.remove(me)
        if me not in _keepers:
            close_idle()


def close_idle(path: Path | None = None) -> None:
    """Close what is open for nobody: of one file, or all."""
    with _lock:
        for known in list(_shared.values()):
            if not known.sharers and path in (None, known.files.path):
                _close(known)


def _close(handle: Handle) -> None:
    handle.retire()
    if handle.env is None and _shared.get(handle.files.path) is handle:
        del _shared[handle.files.path]


def share(files: StoreFiles, mode: Mode, seam: Seam) -> Handle:
    """The environment in which others read this file already, or a new one. Raises as :func:`open_handle`."""
    with _opening:  # two threads must not open one file; others may go on, however long this waits for the file's locks
        with _lock:
            known = _shared.get(files.path)
            if known is not None and _fits(known, files, mode, seam) and known.revive():
                return _joined(known)
            if known is not None and not known.sharers:
                _close(known)
        handle = open_handle(files, mode, seam)
        with _lock:
            _shared[files.path] = handle
        return handle


def _joined(known: Handle) -> Handle:
    """One reader more. What was open for nobody is looked at as if it were opened: a file may have been cut since."""
    if not known.sharers:
        try:
            inspect(known.files.path, known.seam)
        except BaseException:
            _close(known)
            raise
    known.sharers += 1
    return known


def _fits(known: Handle, files: StoreFiles, mode: Mode, seam: Seam) -> bool:
    """Whether it was opened by this process, for the file that the path shows now, with the same system calls."""
    mine = known.pid == os.getpid() and known.seam is seam
    return mine and known.identity == current_identity(files, mode.no_lock)


def let_go(handle: Handle) -> None:
    """One reader less; the last one leaves the environment, or closes it when its snapshots end. Of any handle."""
    with _lock:
        handle.sharers -= 1
        if handle.sharers:
            return
        if not _stays(handle):
            _close(handle)
            return
        idle = [known for known in _shared.values() if not known.sharers]
        for known in idle[:-MOST_IDLE]:
            _close(known)


def _stays(handle: Handle) -> bool:
    """Whether the next reader of its file can use it, and one may come."""
    if os.getpid() not in _keepers or _shared.get(handle.files.path) is not handle or handle.env is None:
        return False
    now = current_identity(handle.files, no_lock=True)
    return now is not None and now.data == handle.identity.data


__all__ = ["close_idle", "drop", "keep", "let_go", "share"]
