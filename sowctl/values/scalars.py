"""Scalars: NULL, numeric reading, text, truth, the comparison rule (``sowctl-expressions(7)``, types and comparison).

All packages above may call it. Functions accept slot values as ``values/fields.py`` describes them: a value list counts
as its first value, the empty string as NULL.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from sowctl.values.fields import Number, Scalar, SlotValue, ValueList

NAN = float("nan")
I64_MIN = -(1 << 63)
U64_MAX = (1 << 64) - 1
MAX_EXACT_INTEGER = 1 << 53
"""Up to here a double can represent every Integer."""
SPACE_BYTES = b" \t\r\n"
# A sign, digits, point and exponent as in a number of the language, white space at both ends allowed. Groups 2 to 4
# make it a Double.
_READING_PATTERN = re.compile(rb"[ \t\r\n]*([+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?)[ \t\r\n]*")
# int() refuses texts with more digits than about this (sys.set_int_max_str_digits), and none of them is in range.
_MAX_INTEGER_DIGITS = 4000
# Digits without a leading zero, and a fraction without a trailing zero: no other text can be the shortest of a number.
# The text of -0 is that of 0, and below 0.0001 a Double has an exponent.
_match_shortest_number = re.compile(rb"(?!-0\Z|-?0\.0000)-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?").fullmatch
SHORT_TEXT_BYTES = 15
"""Texts of numbers up to this length have at most 15 digits, all of which a double keeps."""
MIN_PLAIN_DOUBLE = 0.0001
"""The text of a smaller Double has an exponent."""
# Most texts start with none of these, and need no match of the expression above.
_READING_START_CHARACTERS = frozenset("0123456789+-. \t\r\n")
_READING_START_BYTES = frozenset(b"0123456789+-. \t\r\n")

PlainScalar: TypeAlias = bool | int | float | str | bytes | None
"""A scalar without a number's original text, never the empty string."""

LESS, EQUAL, GREATER, UNORDERED = -1, 0, 1, 2


def parse_decimal(digits: str | bytes) -> int | float:
    """Parse an optional sign and decimal digits: an Integer if it is in range, otherwise the nearest Double."""
    if len(digits) < _MAX_INTEGER_DIGITS:
        value = int(digits)
        if I64_MIN <= value <= U64_MAX:
            return value
    return float(digits)


def parse_number(text: str | bytes) -> int | float | None:
    """Parse a whole text as a number, ignoring white space around it; None if it is not one (``nan``, ``0x5``)."""
    if isinstance(text, str):
        if not text or text[0] not in _READING_START_CHARACTERS:
            return None
        match = _READING_PATTERN.fullmatch(text.encode())
    else:
        if not text or text[0] not in _READING_START_BYTES:
            return None
        match = _READING_PATTERN.fullmatch(text)
    if match is None:
        return None
    if match[2] is None and match[3] is None and match[4] is None:
        return parse_decimal(match[1])
    return float(match[1])


def to_scalar(value: SlotValue) -> Scalar:
    """Return the scalar of a slot value: the first of a list; NULL for an empty list and the empty string."""
    if type(value) is ValueList:
        value = value.items[0] if value.items else None
    if (type(value) is str or type(value) is bytes) and not value:
        return None
    return value


def to_plain_scalar(value: SlotValue) -> PlainScalar:
    """Return the scalar of a slot value without a number's original text."""
    scalar = to_scalar(value)
    return scalar.value if type(scalar) is Number else scalar


def to_untyped_scalar(value: Scalar) -> Scalar:
    """Return a scalar as a format without kinds writes it: a whole number without a fraction, even if it is a Double.

    ``1.0`` would not be read as a number again (:func:`is_shortest_text`), and would result in another key than ``1``.
    """
    is_whole = type(value) is float and value.is_integer() and abs(value) <= MAX_EXACT_INTEGER
    # An Integer has no negative zero.
    return int(value) if is_whole and str(value) != "-0.0" else value  # type: ignore[arg-type]


def to_number(value: SlotValue) -> int | float | None:
    """Convert the scalar to a number: NULL becomes None, text without a numeric reading NaN."""
    # The most frequent kinds first; type() excludes bool, which is an int to isinstance().
    if type(value) is float or type(value) is int:
        return value
    scalar = to_plain_scalar(value)
    if scalar is None:
        return None
    if type(scalar) is bool:
        return int(scalar)
    if type(scalar) is int or type(scalar) is float:
        return scalar
    reading = parse_number(scalar)  # type: ignore[arg-type]  # a text: no other kind is left
    return NAN if reading is None else reading


def format_double(value: float) -> str:
    """Return the canonical text of a Double: the shortest that parses back to it, ``NaN``, ``inf``, ``-inf``."""
    return "NaN" if value != value else repr(value)


def is_shortest_text(text: bytes) -> bool:
    """Return whether a text is the shortest spelling of its number, so that the number loses no information.

    An Integer within 2**53 in plain digits, or a fraction that :func:`format_double` writes with exactly this text: a
    program that reads such a number as a double can restore the text. ``007``, ``+5``, ``.5``, ``1.50``, ``1.0``,
    ``1e3``, ``-0`` and ``9007199254740993`` are not.
    """
    if _match_shortest_number(text) is None:
        return False
    if len(text) <= SHORT_TEXT_BYTES:
        return True
    if b"." in text:
        return format_double(float(text)).encode() == text
    return len(text) < _MAX_INTEGER_DIGITS and -MAX_EXACT_INTEGER <= int(text) <= MAX_EXACT_INTEGER


def choose_written_scalar(value: SlotValue) -> Scalar:
    """Return the scalar that a format with numbers and texts writes for the first value.

    A number of a message type without kinds of values is written as a number if its text is the shortest one, otherwise
    as that text: a number would lose leading zeros, signs, exponents and digits beyond a double's, and an identifier
    would be lost with them.
    """
    scalar = to_scalar(value)
    if type(scalar) is not Number or scalar.typed:
        return scalar
    return scalar.value if is_shortest_text(scalar.text) else scalar.text


def make_untyped_number(value: int | float, text: bytes) -> int | Number:
    """Return a number of a message type without kinds: an int if :func:`choose_written_scalar` would return that."""
    if type(value) is int and -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER and b"%d" % value == text:
        return value
    return Number(value, text, False)


def to_text(value: SlotValue) -> bytes | None:
    """Return the scalar's text as bytes, None for NULL."""
    if type(value) is str:
        return value.encode() or None
    scalar = to_scalar(value)
    if scalar is None or type(scalar) is bytes:
        return scalar
    if type(scalar) is str:
        return scalar.encode()
    if type(scalar) is Number:
        return scalar.text
    if type(scalar) is bool:
        return b"1" if scalar else b"0"
    if type(scalar) is float:
        return format_double(scalar).encode()
    return b"%d" % scalar  # type: ignore[str-format]  # an int: no other kind is left


def to_truth(value: SlotValue) -> bool | None:
    """Return the scalar's truth value: a Boolean itself, a number by zero; NULL for NULL and NaN (also of texts)."""
    if type(value) is bool:
        return value
    number = to_number(value)
    # NaN is neither true nor false.
    if number is None or number != number:
        return None
    return number != 0


def compare_scalars(a: PlainScalar, b: PlainScalar) -> int | None:
    """Compare two scalars: LESS, EQUAL, GREATER, UNORDERED (a NaN), or None if either is NULL.

    Both without original text and without the empty string (:func:`to_plain_scalar`).
    """
    if a is None or b is None:
        return None
    # type() instead of isinstance(), which takes twice as long if the answer is no: hence the ignores.
    left, right = type(a), type(b)
    a_text, b_text = left is str or left is bytes, right is str or right is bytes
    if a_text and b_text:
        if left is not right:
            # Strings of one type are compared directly: UTF-8 sorts like the code points that it encodes.
            a, b = _as_bytes(a), _as_bytes(b)  # type: ignore[arg-type]  # both are texts
    elif a_text:
        if b != b:
            return UNORDERED
        # A text without a numeric reading is greater than all numbers.
        reading = parse_number(a)  # type: ignore[arg-type]  # a text
        if reading is None:
            return GREATER
        a = reading
    elif b_text:
        if a != a:
            return UNORDERED
        reading = parse_number(b)  # type: ignore[arg-type]  # a text
        if reading is None:
            return LESS
        b = reading
    elif a != a or b != b:
        return UNORDERED
    # Python compares Integers with Doubles exactly, a Boolean as 1 or 0, and -0.0 equals 0.
    return EQUAL if a == b else LESS if a < b else GREATER  # type: ignore[operator]  # two texts or two numbers


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def is_null(value: SlotValue) -> bool:
    """Return the result of ``IS NULL``: the first value is empty or NULL, and no non-empty object was dropped."""
    if value is None:
        return True
    if type(value) is ValueList and value.dropped:
        return False
    return to_scalar(value) is None
