"""Functions of whole value lists, checksums, constants and conversions (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.expressions.functions.numbers import truncate_number
from sowctl.expressions.functions.signature import declare_function
from sowctl.identity.hashes import crc32c, crc64
from sowctl.values.fields import Scalar
from sowctl.values.scalars import NAN, to_scalar, to_text


def _non_null_values(values: Sequence[Scalar]) -> list[Scalar]:
    return [scalar for value in values if (scalar := to_scalar(value)) is not None]


def array_min(values: Sequence[Scalar]) -> Scalar:
    """The least value by the common reading, ignoring NULLs."""
    from sowctl.expressions.aggregates.extremes import find_extreme

    return find_extreme(_non_null_values(values), greatest=False)


def array_max(values: Sequence[Scalar]) -> Scalar:
    """The greatest value by the common reading, ignoring NULLs."""
    from sowctl.expressions.aggregates.extremes import find_extreme

    return find_extreme(_non_null_values(values), greatest=True)


def array_sum(values: Sequence[Scalar]) -> Scalar:
    """The sum, ignoring NULLs."""
    from sowctl.expressions.aggregates.sums import compute_sum

    return compute_sum(_non_null_values(values))


def array_to_string(values: Sequence[Scalar], delimiter: bytes | None, null_text: bytes | None) -> bytes:
    """The joined texts; NULLs are replaced by ``null_text``."""
    texts = [to_text(value) for value in values]
    # A NULL delimiter and a NULL replacement are empty.
    return (delimiter or b"").join([text if text is not None else null_text or b"" for text in texts])


ARRAY_FUNCTIONS = (
    declare_function("ARRAY_COUNT", len, "values", "number", "number of values", strict=False),
    declare_function(
        "ARRAY_MIN", array_min, "values", "scalar", "the least value, compared by the common reading", strict=False
    ),
    declare_function(
        "ARRAY_MAX", array_max, "values", "scalar", "the greatest value, compared by the common reading", strict=False
    ),
    declare_function("ARRAY_SUM", array_sum, "values", "number", "the sum; exact for Integers", strict=False),
    declare_function(
        "ARRAY_TO_STRING",
        array_to_string,
        "values text text",
        "text",
        "texts of all values, joined by delim",
        strict=False,
    ),
)


def md5(text: bytes) -> bytes:
    """32 lower-case hexadecimal digits."""
    import hashlib

    return hashlib.md5(text, usedforsecurity=False).hexdigest().encode()


CHECKSUM_FUNCTIONS = (
    declare_function(
        "CRC32", lambda s: crc32c(s or b""), "text", "number", "CRC-32C without the final XOR", strict=False
    ),
    declare_function(
        "CRC64", lambda s: crc64(s or b""), "text", "number", "CRC-64 without the final XOR", strict=False
    ),
    declare_function("MD5", md5, "text", "text", "MD5 in hexadecimal digits"),
)


def coalesce(*values: Scalar) -> Scalar:
    """The first value that is not NULL; compiled expressions stop there instead of calling this."""
    return next((value for value in values if value is not None), None)


def char_value(number: int | float) -> bytes:
    """The single byte with that number; ``?`` outside of 0-255 and for NaN."""
    if number != number:
        return b"?"
    code = truncate_number(number)
    return bytes([code]) if 0 <= code <= 255 else b"?"


TYPED_FUNCTIONS = (
    declare_function("COALESCE", coalesce, "scalar ...", "scalar", "the first argument that is not NULL", strict=False),
    declare_function("TRUE_VALUE", lambda: True, "", "truth", "TRUE"),
    declare_function("FALSE_VALUE", lambda: False, "", "truth", "FALSE"),
    declare_function("NAN_VALUE", lambda: NAN, "", "number", "NaN"),
    declare_function("CHAR_VALUE", char_value, "number", "text", "the single byte n"),
)
