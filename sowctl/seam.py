"""The seam through which store and journal touch the operating system and LMDB.

Every call that can fail, tear or be killed goes through :meth:`Seam.call`, under a point name. In production the seam
passes the call on. A test hands in another one and so counts the calls, fails or cuts the n-th short, ends the process
there, or records the writes and syncs from which crash states are built.

Point names: ``file.open file.read file.write file.pwrite file.sync file.truncate file.rename file.link file.unlink
file.lock dir.make dir.sync lmdb.open lmdb.begin lmdb.put lmdb.commit lmdb.sync lmdb.resize lmdb.copy lmdb.close``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Seam:
    """Passes every call on. Subclasses in ``tests/support`` count, fail, kill or record."""

    def call(self, point: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function(*args, **kwargs)``; ``point`` names the kind of call (see the module's list)."""
        return function(*args, **kwargs)


SEAM = Seam()
