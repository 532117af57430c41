"""All aggregate functions: their checks, computation and documentation (``sowctl-expressions(7)``, aggregates)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sowctl.expressions.aggregates.accumulator import Accumulator


class Aggregate(NamedTuple):
    """An aggregate function. ``class_name``: the module and class of its accumulator, loaded on first use;
    ``null``: its treatment of NULL inputs, if it is more than skipping them."""

    name: str
    class_name: str
    result: str
    doc: str
    null: str | None = None
    least: int = 1
    most: int = 1
    arguments: str = "e"

    @property
    def accumulator(self) -> type[Accumulator]:
        """The class of its states."""
        module, name = self.class_name.split(".")
        found: type[Accumulator] = getattr(import_module(f"sowctl.expressions.aggregates.{module}"), name)
        return found


_ZERO_TEXT = "NULL inputs are skipped; 0 if there are no others"
AGGREGATES: dict[str, Aggregate] = {
    one.name: one
    for one in (
        Aggregate("COUNT", "sums.Count", "number", "number of inputs", _ZERO_TEXT),
        Aggregate(
            "COUNT_DISTINCT",
            "inputsets.CountDistinct",
            "number",
            "number of distinct inputs, compared by the common reading",
            _ZERO_TEXT,
        ),
        Aggregate("SUM", "sums.Sum", "number", "exact sum of Integers, otherwise the correctly rounded sum"),
        Aggregate("AVG", "sums.Average", "number", "the Double nearest to the mean"),
        Aggregate("STDDEV_POP", "sums.PopulationDeviation", "number", "standard deviation of a population"),
        Aggregate(
            "STDDEV_SAMP",
            "sums.SampleDeviation",
            "number",
            "standard deviation of a sample",
            "NULL inputs are skipped; NULL if there is at most one other",
        ),
        Aggregate(
            "MIN", "inputsets.Minimum", "value", "the least input, the first of equal ones; NaN if any input is NaN"
        ),
        Aggregate(
            "MAX", "inputsets.Maximum", "value", "the greatest input, the first of equal ones; NaN if any input is NaN"
        ),
        Aggregate("UNIQUE", "inputsets.Unique", "value", "the first input if all are equal, otherwise NULL"),
        Aggregate("ANY", "latest.Latest", "value", "the last input, in the order of updates"),
        Aggregate(
            "GROUP_CONCAT",
            "inputsets.JoinedTexts",
            "String",
            "distinct inputs in the order of updates, joined by delim; default: a comma",
            most=2,
            arguments="e [, delim]",
        ),
    )
}
"""Aggregate functions by name; they are allowed in projections only."""
