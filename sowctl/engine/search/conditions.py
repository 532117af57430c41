"""The conditions of a filter that indexes can answer: conjuncts on a single field, compiled one by one.

A record matches if every conjunct is TRUE (``sowctl-expressions(7)``, logic), so each can be evaluated separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sowctl.expressions.checker import NO_FUNCTIONS
from sowctl.expressions.compiler import Filter
from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.rewrites.intervals import find_number_bounds, find_sole_field, list_equal_strings
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.trees import walk_tree
from sowctl.memo.condition import Condition, Interval
from sowctl.values.fields import Slot, SlotValue

if TYPE_CHECKING:
    from sowctl.expressions.environment import Environment
    from sowctl.expressions.functions import Function
    from sowctl.values.column import Array, Column


class IndexCondition(NamedTuple):
    """A conjunct that an index of ``slot`` answers."""

    slot: Slot
    condition: Condition


def split_conditions(
    wanted: Filter, environment: Environment, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> tuple[list[IndexCondition], list[str]]:
    """Return the conjuncts that indexes can answer, and the texts of the others."""
    asked, others = [], []
    for number, node in enumerate(wanted.conjuncts):
        found = _build_index_condition(wanted, number, environment, extra)
        if found is None:
            others.append(str(node))
        else:
            asked.append(found)
    return asked, others


def _build_index_condition(
    wanted: Filter, number: int, environment: Environment, extra: Mapping[str, Function]
) -> IndexCondition | None:
    node = wanted.conjuncts[number]
    # An index holds the values of one field at the time of its build. It can answer only conditions on that field
    # alone whose result does not change with time.
    if find_sole_field(node) is None or not all(_is_deterministic(part, extra) for part in walk_tree(node)):
        return None
    compiled = wanted.compile_conjunct(number)
    if len(compiled.slots) != 1 or compiled.uses_header or compiled.previous_slots:
        return None

    def matches(values: Sequence[SlotValue]) -> Sequence[int]:
        return compiled.find_matches(zip(values), environment)

    def matches_column(column: Column) -> Array:
        from sowctl.expressions.columns.program import ColumnProgram
        from sowctl.values.batch import ColumnBatch

        mask = ColumnProgram(compiled, extra).evaluate_mask(ColumnBatch([column], column.size), environment)
        return mask.nonzero()[0]

    bounds = find_number_bounds(node)
    # With bounds an index of numbers is searched. Without bounds the condition is evaluated on the values in the index,
    # for texts once per distinct value.
    interval = Interval(*bounds) if bounds is not None else None
    condition = Condition(str(node), matches, matches_column, interval, list_equal_strings(node))
    return IndexCondition(compiled.slots[0], condition)


def _is_deterministic(node: n.Node, extra: Mapping[str, Function]) -> bool:
    """Return whether the value of a node depends on the message alone."""
    if not isinstance(node, n.Call):
        return True
    function = FUNCTIONS.get(node.name) or extra.get(node.name)
    return node.name == "IF" or (function is not None and function.is_pure)
