"""Conditions on one path that a memo index evaluates. The engine builds them from conjuncts of a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from sowctl.structs import DescribedStruct
from sowctl.values.fields import SlotValue

if TYPE_CHECKING:
    from sowctl.values.column import Array, Column

MatchFunction: TypeAlias = Callable[[Sequence[SlotValue]], Sequence[int]]
"""Returns the indexes of the values for which the condition is TRUE: the row evaluator over a single slot."""


ColumnMatchFunction: TypeAlias = "Callable[[Column], Array]"
"""Returns the ascending row numbers of a column at which the condition is TRUE: the columnar evaluator over a single
slot."""


class Interval(Struct, frozen=True):
    """Numbers between two bounds, None for no bound; an open bound is excluded."""

    low: int | float | None = None
    high: int | float | None = None
    open_low: bool = False
    open_high: bool = False


class Condition(DescribedStruct, frozen=True):
    """``matches`` evaluates the condition, ``matches_column`` for many values at once. If given, ``interval`` has the
    numbers for which it holds, except for NULL, and ``strings`` the Strings, in a column of only numbers or only
    Strings."""

    text: str
    matches: MatchFunction
    matches_column: ColumnMatchFunction
    interval: Interval | None = None
    strings: tuple[bytes, ...] | None = None
