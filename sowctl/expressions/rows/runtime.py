"""Names that generated code may use: one table, shared by every compiled expression."""

from __future__ import annotations

from typing import Any

from sowctl.expressions.rows.arithmetic import OPERATORS, negate
from sowctl.expressions.rows.comparing import COMPARISONS, begins, ends, is_nan, texts
from sowctl.expressions.syntax.errors import BoundExceededError
from sowctl.values.compare import first, is_null, number_of, text_of, truth_of
from sowctl.values.fields import SlotValue, Values

COMPARE_NAMES = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
ARITHMETIC_NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}


def like(value: SlotValue, found: Any) -> bool:
    """Whether some value's text matches."""
    return any(found(text) for text in texts(value))


def double_of(value: SlotValue) -> float | None:
    """The scalar as a Double."""
    number = number_of(value)
    return None if number is None else float(number)


def integer_of(value: SlotValue) -> int | None:
    """The scalar truncated toward zero; None for NULL and NaN."""
    # Imported late, because most expressions call no function and load none.
    from sowctl.expressions.functions.numbers import truncated

    number = number_of(value)
    return None if number is None or number != number else truncated(number)


def items_of(value: SlotValue) -> tuple[SlotValue, ...]:
    """The value list behind an identifier."""
    # A value list keeps its NULLs; any other expression is a list of one value, or of none where it is NULL.
    if type(value) is Values:
        return value.items
    return () if value is None else (value,)


RUNTIME_NAMES: dict[str, Any] = {
    **{COMPARE_NAMES[word]: compare for word, compare in COMPARISONS.items()},
    **{ARITHMETIC_NAMES[word]: operate for word, operate in OPERATORS.items()},
    "neg": negate,
    "begins": begins,
    "ends": ends,
    "texts": texts,
    "like": like,
    "is_nan": is_nan,
    "is_null": is_null,
    "first": first,
    "number_of": number_of,
    "double_of": double_of,
    "integer_of": integer_of,
    "items_of": items_of,
    "text_of": text_of,
    "truth_of": truth_of,
    "BoundExceededError": BoundExceededError,
    # Nothing else of Python can be reached from generated code: a name that got into it by mistake raises NameError.
    "__builtins__": {"enumerate": enumerate, "zip": zip, "type": type, "float": float, "int": int, "str": str},
}
