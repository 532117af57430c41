"""The functions by group: a new function is a row of the tuple of its group."""

from __future__ import annotations

from sowctl.expressions.functions.dates import DATE_FUNCTIONS
from sowctl.expressions.functions.message import MESSAGE_FUNCTIONS
from sowctl.expressions.functions.numbers import NUMBER_FUNCTIONS, TRIGONOMETRY_FUNCTIONS
from sowctl.expressions.functions.signature import Function
from sowctl.expressions.functions.strings import STRING_FUNCTIONS
from sowctl.expressions.functions.values import ARRAY_FUNCTIONS, CHECKSUM_FUNCTIONS, TYPED_FUNCTIONS

FUNCTION_GROUPS: dict[str, tuple[Function, ...]] = {
    "string": STRING_FUNCTIONS,
    "array": ARRAY_FUNCTIONS,
    "numeric": NUMBER_FUNCTIONS,
    "trigonometry": TRIGONOMETRY_FUNCTIONS,
    "date": DATE_FUNCTIONS,
    "checksum": CHECKSUM_FUNCTIONS,
    "typed": TYPED_FUNCTIONS,
    "message": MESSAGE_FUNCTIONS,
}
