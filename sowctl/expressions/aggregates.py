"""Aggregate functions over the inputs of one group (``sowctl-expressions(7)``, aggregates)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sowctl.expressions.sets import distinct, double_sum, extreme, numbers_of, total
from sowctl.values.compare import text_of
from sowctl.values.fields import Scalar

Inputs = Sequence[Scalar]


def average(inputs: Inputs) -> float | None:
    """The mean as a Double; None for no input."""
    return double_sum(numbers_of(inputs)) / len(inputs) if inputs else None


def _deviation(inputs: Inputs, degrees: int) -> float | None:
    numbers = numbers_of(inputs)
    if len(numbers) <= degrees:
        return None
    mean = double_sum(numbers) / len(numbers)
    squares = [(number - mean) * (number - mean) for number in map(float, numbers)]
    return math.sqrt(double_sum(squares) / (len(numbers) - degrees))


def unique(inputs: Inputs) -> Scalar:
    """The first value if all are equal by the common reading, else NULL."""
    return inputs[0] if inputs and len(distinct(inputs)) == 1 else None


AGGREGATE_CALLS: dict[str, Callable[[Inputs], Scalar]] = {
    "COUNT": len,
    "COUNT_DISTINCT": lambda inputs: len(distinct(inputs)),
    "SUM": total,
    "AVG": average,
    "STDDEV_POP": lambda inputs: _deviation(inputs, 0),
    "STDDEV_SAMP": lambda inputs: _deviation(inputs, 1),
    "MIN": lambda inputs: extreme(inputs, greatest=False),
    "MAX": lambda inputs: extreme(inputs, greatest=True),
    "UNIQUE": unique,
    "ANY": lambda inputs: inputs[-1] if inputs else None,
}


def group_concat(inputs: Inputs, delimiter: bytes | None) -> bytes | None:
    """The texts of the distinct inputs in first-seen order and spelling."""
    return (delimiter or b"").join(text_of(value) or b"" for value in distinct(inputs)) or None


def aggregate(name: str, inputs: Inputs, delimiter: Scalar = b",") -> Scalar:
    """The result of the aggregate ``name`` over inputs that are not NULL; ``delimiter`` is for GROUP_CONCAT."""
    if name == "GROUP_CONCAT":
        return group_concat(inputs, text_of(delimiter))
    return AGGREGATE_CALLS[name](inputs)
