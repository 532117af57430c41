"""The seam through which store and journal touch the operating system and LMDB.

Every call that can fail, tear or be killed goes through :meth:`Seam.call`, under a point name. In production the seam
passes the call on. A test hands in another one and so counts the calls, fails or cuts the n-th short, ends the process
there, or records the writes and syncs from which crash states are built.

Point names: ``file.open file.read file.write file.pwrite file.sync file.truncate file.rename file.link file.unlink
file.lock dir.make dir.sync lmdb.open lmdb.begin lmdb.put lmdb.commit lmdb.sync lmdb.resize lmdb.copy lmdb.close``.

Moments between such calls, which :meth:`Seam.reach` names: ``merge.begun`` (noted what is merged, the journal's lock is
free again), ``merge.filled`` (the new file is complete, no lock is held), ``merge.installed`` (it is the store, its
runs are still there), ``merge.joined`` (a run made of several is there beside these).
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

    def reach(self, point: str) -> None:
        """Note that the moment ``point`` is reached. Nothing is called; a test may end the process here."""
        self.call(point, _do_nothing)


def _do_nothing() -> None:
    """Stand for the call at a moment that has none."""


SEAM = Seam()
