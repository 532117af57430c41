"""What of a filter memo indexes can answer: its conjuncts on one field each, compiled one by one.

A record matches where every conjunct is TRUE (``sowctl-expressions(7)``, logic), so each may be asked by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sowctl.expressions.check import NO_FUNCTIONS
from sowctl.expressions.compile import Filter
from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.rewrites.intervals import alone, bounds_of, strings_of
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.trees import walk
from sowctl.memo.condition import Condition, Interval
from sowctl.values.fields import Slot, SlotValue

if TYPE_CHECKING:
    from sowctl.expressions.environment import Environment
    from sowctl.expressions.functions import Function


class Asked(NamedTuple):
    """A conjunct that an index of ``slot`` answers."""

    slot: Slot
    condition: Condition


def conditions_of(
    wanted: Filter, environment: Environment, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> tuple[list[Asked], list[str]]:
    """The conjuncts that indexes can answer, and the texts of the others."""
    asked, others = [], []
    for number, node in enumerate(wanted.conjuncts):
        found = _asked(wanted, number, environment, extra)
        if found is None:
            others.append(str(node))
        else:
            asked.append(found)
    return asked, others


def _asked(wanted: Filter, number: int, environment: Environment, extra: Mapping[str, Function]) -> Asked | None:
    node = wanted.conjuncts[number]
    # An index has one field's values as they were when it was built: only a condition on that field alone, which is the
    # same at any time, has its answer there.
    if alone(node) is None or not all(_steady(part, extra) for part in walk(node)):
        return None
    compiled = wanted.conjunct(number)
    if len(compiled.slots) != 1 or compiled.uses_header or compiled.previous_slots:
        return None

    def matches(values: Sequence[SlotValue]) -> Sequence[int]:
        return compiled.matches(zip(values), environment)

    bounds = bounds_of(node)
    # With bounds an index of numbers is searched; without, the condition is asked of the values in the index, of texts
    # once for each different one.
    interval = Interval(*bounds) if bounds is not None else None
    return Asked(compiled.slots[0], Condition(str(node), matches, interval, strings_of(node)))


def _steady(node: n.Node, extra: Mapping[str, Function]) -> bool:
    """Whether the value of a node depends on the message alone."""
    if not isinstance(node, n.Call):
        return True
    function = FUNCTIONS.get(node.name) or extra.get(node.name)
    return node.name == "IF" or (function is not None and function.is_pure)
