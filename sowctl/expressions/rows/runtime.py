"""Names that generated code may use: one table, shared by all compiled expressions."""

from __future__ import annotations

from typing import Any

from sowctl.expressions.rows.arithmetic import OPERATORS, negate_value
from sowctl.expressions.rows.comparison import COMPARISONS, has_prefix, has_suffix, is_nan, list_texts
from sowctl.expressions.syntax.errors import BoundExceededError
from sowctl.values.fields import SlotValue, ValueList
from sowctl.values.scalars import is_null, to_number, to_scalar, to_text, to_truth

COMPARE_NAMES = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
ARITHMETIC_NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}


def matches_pattern(value: SlotValue, found: Any) -> bool:
    """Return whether some value's text matches."""
    return any(found(text) for text in list_texts(value))


def to_double(value: SlotValue) -> float | None:
    """The scalar as a Double."""
    number = to_number(value)
    return None if number is None else float(number)


def to_integer(value: SlotValue) -> int | None:
    """The scalar truncated toward zero; None for NULL and NaN."""
    # Imported late, because most expressions call no function and load none.
    from sowctl.expressions.functions.numbers import truncate_number

    number = to_number(value)
    return None if number is None or number != number else truncate_number(number)


def list_items(value: SlotValue) -> tuple[SlotValue, ...]:
    """The value list of an identifier."""
    # A value list keeps its NULLs; any other expression is a list of one value, or empty if it is NULL.
    if type(value) is ValueList:
        return value.items
    return () if value is None else (value,)


RUNTIME_NAMES: dict[str, Any] = {
    **{COMPARE_NAMES[word]: compare for word, compare in COMPARISONS.items()},
    **{ARITHMETIC_NAMES[word]: operate for word, operate in OPERATORS.items()},
    "neg": negate_value,
    "begins": has_prefix,
    "ends": has_suffix,
    "texts": list_texts,
    "like": matches_pattern,
    "is_nan": is_nan,
    "is_null": is_null,
    "first": to_scalar,
    "number_of": to_number,
    "double_of": to_double,
    "integer_of": to_integer,
    "items_of": list_items,
    "text_of": to_text,
    "truth_of": to_truth,
    "BoundExceededError": BoundExceededError,
    # Generated code can access nothing else of Python: any other name raises NameError.
    "__builtins__": {"enumerate": enumerate, "zip": zip, "type": type, "float": float, "int": int, "str": str},
}
