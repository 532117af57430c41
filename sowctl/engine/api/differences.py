"""The differences between the records of two states, for iteration by programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.errors import convert_memory_errors
from sowctl.values.jsontree import convert_numbers

if TYPE_CHECKING:
    from contextlib import ExitStack
    from types import TracebackType

    from sowctl.engine.verbs.inspect.diff import Comparison, DiffCounts, RecordChange


@convert_memory_errors
class Differences:
    """Iterate for the records that differ, in key order, once; ``counts`` are complete afterwards.

    Both states stay open until then, or until :meth:`close`; a ``with`` statement closes them, too.
    """

    def __init__(self, comparison: Comparison, held: ExitStack) -> None:
        self._comparison = comparison
        self._held = held

    def __repr__(self) -> str:
        return f"<differences of {self._comparison.before} and {self._comparison.after}>"

    @property
    def counts(self) -> DiffCounts:
        """Counts of equal, changed, added and removed records so far."""
        return self._comparison.counts

    def __iter__(self) -> Iterator[RecordChange]:
        try:
            for change in self._comparison.iterate_changes():
                fields = [
                    replace(one, before=convert_numbers(one.before), after=convert_numbers(one.after))
                    for one in change.fields
                ]
                yield replace(change, fields=fields)
        finally:
            self.close()

    def close(self) -> None:
        """Close both states."""
        self._comparison.close()
        self._held.close()

    def __enter__(self) -> Differences:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
