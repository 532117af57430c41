"""The columns of a batch of messages, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.values.column import Column, build_column
from sowctl.values.fields import Row, SlotValue


class SlotBatch:
    """``size`` messages as one sequence of slot values per slot; ``previous`` likewise of stored records."""

    def __init__(
        self, lists: Sequence[Sequence[SlotValue]], size: int, previous: Sequence[Sequence[SlotValue]] = ()
    ) -> None:
        self.size = size
        self._lists = lists
        self._previous = previous
        self._columns: dict[tuple[bool, int], Column] = {}

    @classmethod
    def from_rows(
        cls, rows: Sequence[Row], slots: int, previous: Sequence[Row | None] = (), before: int = 0
    ) -> SlotBatch:
        """The batch of rows of ``slots`` values; ``previous`` are those of stored records, ``before`` values each."""
        # Without a stored record every field of OF PREVIOUS is NULL.
        stored = [row if row is not None else (None,) * before for row in previous or [None] * len(rows)]
        return cls(
            [[row[place] for row in rows] for place in range(slots)],
            len(rows),
            [[row[place] for row in stored] for place in range(before)],
        )

    def read_column(self, slot: int, *, previous: bool = False) -> Column:
        """The column of a slot."""
        key = (previous, slot)
        # Made when a step asks: a slot that only the row evaluator needs costs no array.
        if key not in self._columns:
            self._columns[key] = build_column((self._previous if previous else self._lists)[slot])
        return self._columns[key]

    def build_columns(self) -> SlotBatch:
        """Make all columns now."""
        for slot in range(len(self._lists)):
            self.read_column(slot)
        for slot in range(len(self._previous)):
            self.read_column(slot, previous=True)
        return self

    def read_rows(self) -> list[Row]:
        """The messages as rows."""
        return list(zip(*self._lists, strict=True)) if self._lists else [()] * self.size

    def read_previous_rows(self) -> list[Row | None]:
        """The stored records as rows."""
        return list(zip(*self._previous, strict=True)) if self._previous else [None] * self.size
