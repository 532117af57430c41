"""The interface through which store and journal call the operating system and LMDB.

Every call that can fail, tear or be killed goes through :meth:`Seam.call`, with a point name. In production the seam
only forwards the call. A test passes its own, which counts the calls, fails the n-th one or cuts it short, ends the
process there, or records the writes and syncs from which crash states are built.

Point names: ``file.open file.read file.write file.pwrite file.sync file.truncate file.rename file.link file.unlink
file.lock dir.make dir.sync lmdb.open lmdb.begin lmdb.put lmdb.commit lmdb.sync lmdb.resize lmdb.copy lmdb.close``.

Moments between such calls, named in :meth:`Seam.reach`: ``merge.begun`` (the inputs of the merge are recorded, the
journal's lock is released), ``merge.filled`` (the new file is complete, no lock is held), ``merge.installed`` (it is
the store, its runs still exist), ``merge.joined`` (a run compacted from several exists beside these).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Seam:
    """Forwards every call. Subclasses in ``tests/support`` count, fail, kill or record."""

    def call(self, point: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function(*args, **kwargs)``; ``point`` names the kind of call (see the module's list)."""
        return function(*args, **kwargs)

    def reach(self, point: str) -> None:
        """Note that the moment ``point`` is reached. Nothing is called; a test may end the process here."""
        self.call(point, _do_nothing)


def _do_nothing() -> None:
    """Do nothing, for a moment without a call."""


SEAM = Seam()
