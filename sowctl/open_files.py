"""Files that modules keep open between operations of a process, closed together.

A module that keeps files open registers its close function on import, so that no caller has to know these modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Closer = TypeVar("Closer", bound=Callable[[], None])
_closers: list[Callable[[], None]] = []


def register_closer(close: Closer) -> Closer:
    """Register a function that closes the kept files that are currently unused; for use as a decorator."""
    _closers.append(close)
    return close


def close_kept_files() -> None:
    """Close the unused files that the modules of this process keep open; they are opened again on demand."""
    for close in _closers:
        close()
