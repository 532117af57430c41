"""What makes the records of one state into those of another, as a program goes through it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.errors import codes_memory
from sowctl.values.jsontree import plain

if TYPE_CHECKING:
    from types import TracebackType

    from sowctl.engine.verbs.looking.diff import Comparison, DiffCounts, RecordChange


@codes_memory
class Differences:
    """Iterate for the records that differ, in key order, once; ``counts`` are complete when that is done.

    Both states stay open until then, or until :meth:`close`; a ``with`` statement does the same.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def __repr__(self) -> str:
        return f"<differences of {self._comparison.before} and {self._comparison.after}>"

    @property
    def counts(self) -> DiffCounts:
        """How many records are equal, changed, added and removed, of those that were gone through."""
        return self._comparison.counts

    def __iter__(self) -> Iterator[RecordChange]:
        try:
            for change in self._comparison.changes():
                fields = [replace(one, before=plain(one.before), after=plain(one.after)) for one in change.fields]
                yield replace(change, fields=fields)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of both states."""
        self._comparison.close()

    def __enter__(self) -> Differences:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
