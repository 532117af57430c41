"""Files that modules keep open from one operation of a process to the next, closed together.

A module that keeps files registers how they are closed when it is imported, so that nobody has to know these modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Closer = TypeVar("Closer", bound=Callable[[], None])
_closers: list[Callable[[], None]] = []


def register_closer(close: Closer) -> Closer:
    """Register a function that closes the kept files that nothing uses at the moment; for use as a decorator."""
    _closers.append(close)
    return close


def close_kept_files() -> None:
    """Close the files that the modules of this process keep open and nothing uses; they are opened again when asked."""
    for close in _closers:
        close()
