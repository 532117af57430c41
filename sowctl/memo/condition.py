"""Conditions on one path that a memo index answers. The engine makes these of conjuncts of a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from sowctl.structs import DescribedStruct
from sowctl.values.fields import SlotValue

if TYPE_CHECKING:
    from sowctl.values.column import Array, Column

MatchFunction: TypeAlias = Callable[[Sequence[SlotValue]], Sequence[int]]
"""The indexes of the values for which the condition is TRUE: the row evaluator over the one slot."""


ColumnMatchFunction: TypeAlias = "Callable[[Column], Array]"
"""The places of a column at which the condition is TRUE, ascending: the columnar evaluator over the one slot."""


class Interval(Struct, frozen=True):
    """Numbers between two bounds, None for no bound; an open bound is not included."""

    low: int | float | None = None
    high: int | float | None = None
    open_low: bool = False
    open_high: bool = False


class Condition(DescribedStruct, frozen=True):
    """``matches`` decides, and ``matches_column`` for many values at once. Where they are given: ``interval`` says
    which numbers it holds for, NULL aside, and ``strings`` for which Strings, in a column of numbers or of Strings
    alone."""

    text: str
    matches: MatchFunction
    matches_column: ColumnMatchFunction
    interval: Interval | None = None
    strings: tuple[bytes, ...] | None = None
