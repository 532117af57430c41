"""Aggregate functions over the inputs of one group (``sowctl-expressions(7)``, aggregates)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sowctl.errors import LimitError
from sowctl.expressions.environment import MAX_VALUE_BYTES
from sowctl.expressions.functions.sets import (
    Stamps,
    compute_deviation,
    compute_mean,
    compute_sum,
    find_extreme,
    select_distinct,
)
from sowctl.values.fields import Scalar
from sowctl.values.scalars import to_text

Inputs = Sequence[Scalar]

AGGREGATE_CALLS: dict[str, Callable[[Inputs], Scalar]] = {
    # NULLs have been left out before, so the length is the count.
    "COUNT": len,
    "COUNT_DISTINCT": lambda inputs: len(select_distinct(inputs)),
    "SUM": compute_sum,
    "AVG": compute_mean,
    "STDDEV_POP": lambda inputs: compute_deviation(inputs, 0),
    "STDDEV_SAMP": lambda inputs: compute_deviation(inputs, 1),
}


def find_unique(inputs: Inputs, stamps: Stamps | None) -> Scalar:
    """The first value if all are equal by the common reading, else NULL."""
    found = select_distinct(inputs, stamps)
    return found[0] if len(found) == 1 else None


def find_last(inputs: Inputs, stamps: Stamps | None) -> Scalar:
    """The last value; of equal stamps the one that came later, as for a field that is not aggregated."""
    if not inputs:
        return None
    # max() gives the first of equals: reversed, that is the later one.
    return inputs[-1 if stamps is None else max(reversed(range(len(inputs))), key=stamps.__getitem__)]


ORDERED_CALLS: dict[str, Callable[[Inputs, Stamps | None], Scalar]] = {
    "MIN": lambda inputs, stamps: find_extreme(inputs, greatest=False, stamps=stamps),
    "MAX": lambda inputs, stamps: find_extreme(inputs, greatest=True, stamps=stamps),
    "UNIQUE": find_unique,
    "ANY": find_last,
}
ORDERED_AGGREGATES = frozenset((*ORDERED_CALLS, "GROUP_CONCAT"))
"""Aggregates whose result depends on the order of their inputs: the last, the first of equals, all in their order."""


def join_distinct_texts(values: Inputs, delimiter: bytes | None) -> bytes | None:
    """The texts of distinct values in their order, as GROUP_CONCAT gives them; a NULL delimiter is nothing.

    Raises LimitError ``SOW-EXP-037`` for more bytes than a message may have.
    """
    delimiter = delimiter or b""
    texts = [to_text(value) or b"" for value in values]
    if sum(map(len, texts)) + len(delimiter) * (len(texts) - 1) > MAX_VALUE_BYTES:
        words = f"GROUP_CONCAT makes a text of more than {MAX_VALUE_BYTES:,} bytes"
        raise LimitError(
            "SOW-EXP-037", words, hint="group by more fields, or filter, so that each group has fewer values"
        )
    # An empty result is NULL, as every empty string is.
    return delimiter.join(texts) or None


def compute_aggregate(name: str, inputs: Inputs, delimiter: Scalar = b",", stamps: Stamps | None = None) -> Scalar:
    """The result of the aggregate ``name`` over inputs that are not NULL.

    ``delimiter`` is for GROUP_CONCAT. ``stamps``: one per input, ascending in the order of updates, for those of
    :data:`ORDERED_AGGREGATES`; None where the inputs are in that order.
    """
    if name == "GROUP_CONCAT":
        return join_distinct_texts(select_distinct(inputs, stamps), to_text(delimiter))
    if name in ORDERED_CALLS:
        return ORDERED_CALLS[name](inputs, stamps)
    return AGGREGATE_CALLS[name](inputs)
