"""Environments that the readers of one process share: LMDB must not have a file open twice in a process.

So a program may ask for a record while it goes through the result of a query, and threads may query side by side.
Called by ``env``; whoever writes has an environment of his own.
"""

from __future__ import annotations

import os
from _thread import RLock
from pathlib import Path

from sowctl.seam import Seam
from sowctl.store.handle import Handle, Mode, current_identity, open_handle
from sowctl.store.locks import Files

_lock = RLock()
_opening = RLock()
_shared: dict[Path, Handle] = {}


def share(files: Files, mode: Mode, seam: Seam) -> Handle:
    """The environment in which others read this file already, or a new one. Raises as :func:`open_handle`."""
    with _opening:  # two threads must not open one file; others may go on, however long this waits for the file's locks
        with _lock:
            known = _shared.get(files.path)
            if known is not None and _fits(known, files, mode, seam) and known.revive():
                known.sharers += 1
                return known
        handle = open_handle(files, mode, seam)
        with _lock:
            _shared[files.path] = handle
        return handle


def _fits(known: Handle, files: Files, mode: Mode, seam: Seam) -> bool:
    """Whether it was opened by this process, for the file that the path shows now, with the same system calls."""
    mine = known.pid == os.getpid() and known.seam is seam
    return mine and known.identity == current_identity(files, mode.no_lock)


def let_go(handle: Handle) -> None:
    """One reader less; the last one closes the environment, as soon as its snapshots end. Of any handle."""
    with _lock:
        handle.sharers -= 1
        if handle.sharers:
            return
        handle.retire()
        if handle.env is None and _shared.get(handle.files.path) is handle:
            del _shared[handle.files.path]


__all__ = ["let_go", "share"]
