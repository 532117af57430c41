"""Functions of whole value lists (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.expressions.functions.signature import function
from sowctl.values.compare import first, text_of
from sowctl.values.fields import Scalar


def _present(values: Sequence[Scalar]) -> list[Scalar]:
    return [scalar for value in values if (scalar := first(value)) is not None]


def array_min(values: Sequence[Scalar]) -> Scalar:
    """The least value by the common reading, NULLs left out."""
    from sowctl.expressions.rows.sets import extreme

    return extreme(_present(values), greatest=False)


def array_max(values: Sequence[Scalar]) -> Scalar:
    """The greatest value by the common reading, NULLs left out."""
    from sowctl.expressions.rows.sets import extreme

    return extreme(_present(values), greatest=True)


def array_sum(values: Sequence[Scalar]) -> int | float | None:
    """The sum, NULLs left out."""
    from sowctl.expressions.rows.sets import total

    return total(_present(values))


def array_to_string(values: Sequence[Scalar], delimiter: bytes | None, null_text: bytes | None) -> bytes:
    """The texts joined; ``null_text`` stands for NULLs."""
    texts = [text_of(value) for value in values]
    return (delimiter or b"").join([text if text is not None else null_text or b"" for text in texts])


ARRAYS = (
    function("ARRAY_COUNT", len, "values", "number", "number of values", strict=False),
    function("ARRAY_MIN", array_min, "values", "scalar", "the least value, by the common reading", strict=False),
    function("ARRAY_MAX", array_max, "values", "scalar", "the greatest value, by the common reading", strict=False),
    function("ARRAY_SUM", array_sum, "values", "number", "the sum, of Integers exact", strict=False),
    function(
        "ARRAY_TO_STRING",
        array_to_string,
        "values text text",
        "text",
        "texts of all values joined by delim",
        strict=False,
    ),
)
