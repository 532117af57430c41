"""Constants, single bytes, the first value that is not NULL (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

from sowctl.expressions.functions.numbers import truncated
from sowctl.expressions.functions.signature import function
from sowctl.values.compare import NAN
from sowctl.values.fields import Scalar


def coalesce(*values: Scalar) -> Scalar:
    """The first value that is not NULL; compiled expressions stop there instead of calling this."""
    return next((value for value in values if value is not None), None)


def char_value(number: int | float) -> bytes:
    """The single byte of that number; ``?`` outside 0-255 and for NaN."""
    if number != number:
        return b"?"
    code = truncated(number)
    return bytes([code]) if 0 <= code <= 255 else b"?"


TYPED = (
    function("COALESCE", coalesce, "scalar ...", "scalar", "the first argument that is not NULL", strict=False),
    function("TRUE_VALUE", lambda: True, "", "truth", "TRUE"),
    function("FALSE_VALUE", lambda: False, "", "truth", "FALSE"),
    function("NAN_VALUE", lambda: NAN, "", "number", "NaN"),
    function("CHAR_VALUE", char_value, "number", "text", "the single byte n"),
)
