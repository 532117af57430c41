"""The program of a view, made once in every process that works for it (for the job ``view``)."""

from __future__ import annotations

from sowctl.engine.instance import Instance
from sowctl.engine.views.definition import Program, Query, ViewRecord

__all__ = ["Maker", "Program", "Query", "ViewRecord"]


class Maker:
    """Makes the program once per process."""

    def __init__(self, instance: Instance, query: Query) -> None:
        self.instance, self.query = instance, query
        self._made: Program | None = None

    @property
    def program(self) -> Program:
        """The program of this process."""
        if self._made is None:
            self._made = Program(self.instance, self.query)
        return self._made

    def __getstate__(self) -> tuple[Instance, Query]:
        # The compiled program stays behind: each process compiles the texts once for itself.
        return self.instance, self.query

    def __setstate__(self, state: tuple[Instance, Query]) -> None:
        self.instance, self.query = state
        self._made = None
