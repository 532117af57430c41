"""The functions of the expression language: one visible table, one file per group (``sowctl-expressions(7)``)."""

from __future__ import annotations

from sowctl.expressions.functions.arrays import ARRAYS
from sowctl.expressions.functions.checksums import CHECKSUMS
from sowctl.expressions.functions.dates import DATES
from sowctl.expressions.functions.message import MESSAGE
from sowctl.expressions.functions.numbers import NUMBERS
from sowctl.expressions.functions.signature import Function
from sowctl.expressions.functions.strings import STRINGS
from sowctl.expressions.functions.trigonometry import TRIGONOMETRY
from sowctl.expressions.functions.typed import TYPED

GROUPS: dict[str, tuple[Function, ...]] = {
    "string": STRINGS,
    "array": ARRAYS,
    "numeric": NUMBERS,
    "trigonometry": TRIGONOMETRY,
    "date": DATES,
    "checksum": CHECKSUMS,
    "typed": TYPED,
    "message": MESSAGE,
}
FUNCTIONS: dict[str, Function] = {function.name: function for group in GROUPS.values() for function in group}
AGGREGATES: dict[str, tuple[int, int]] = {
    "COUNT": (1, 1),
    "COUNT_DISTINCT": (1, 1),
    "SUM": (1, 1),
    "AVG": (1, 1),
    "STDDEV_POP": (1, 1),
    "STDDEV_SAMP": (1, 1),
    "MIN": (1, 1),
    "MAX": (1, 1),
    "UNIQUE": (1, 1),
    "ANY": (1, 1),
    "GROUP_CONCAT": (1, 2),
}
"""Aggregates and their least and greatest number of arguments; they exist in projections only."""

__all__ = ["AGGREGATES", "FUNCTIONS", "GROUPS", "Function"]
