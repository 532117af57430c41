"""Scalars: NULL, numeric reading, text, truth, the comparison rule (``sowctl-expressions(7)``, types and comparison).

All rooms above may call it. Functions take slot values as ``values/fields.py`` describes them: a value list stands for
its first value, the empty string for NULL.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from sowctl.values.fields import Number, Scalar, SlotValue, ValueList

NAN = float("nan")
I64_MIN = -(1 << 63)
U64_MAX = (1 << 64) - 1
MAX_EXACT_INTEGER = 1 << 53
"""Up to here a double holds every Integer."""
SPACE_BYTES = b" \t\r\n"
# A sign, digits, point and exponent as in a number of the language, white space at both ends allowed. Groups 2 to 4 are
# what makes it a Double.
_READING_PATTERN = re.compile(rb"[ \t\r\n]*([+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?)[ \t\r\n]*")
# int() refuses longer texts than about this many digits (sys.set_int_max_str_digits), and none of them is in range.
_MAX_INTEGER_DIGITS = 4000
# Digits without a leading zero, and a fraction without a zero at its end: no other text can be a number's shortest. The
# text of -0 is that of 0, and below 0.0001 a Double has an exponent.
_match_shortest_number = re.compile(rb"(?!-0\Z|-?0\.0000)-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?").fullmatch
# Texts of so many bytes have at most 15 digits, all of which a double keeps.
_SHORT_TEXT_BYTES = 15
# Most texts begin with none of these, and are told from numbers without the expression above.
_READING_START_CHARACTERS = frozenset("0123456789+-. \t\r\n")
_READING_START_BYTES = frozenset(b"0123456789+-. \t\r\n")

PlainScalar: TypeAlias = bool | int | float | str | bytes | None
"""A scalar without a number's original text, never the empty string."""

LESS, EQUAL, GREATER, UNORDERED = -1, 0, 1, 2


def parse_decimal(digits: str | bytes) -> int | float:
    """The number of an optional sign and decimal digits: Integer if it is in range, else the nearest Double."""
    if len(digits) < _MAX_INTEGER_DIGITS:
        value = int(digits)
        if I64_MIN <= value <= U64_MAX:
            return value
    return float(digits)


def parse_number(text: str | bytes) -> int | float | None:
    """The number that a whole text stands for, white space at its ends aside, or None. ``nan`` and ``0x5`` are none."""
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
    """The scalar of a slot value: the first of a list, NULL for none and for the empty string."""
    if type(value) is ValueList:
        value = value.items[0] if value.items else None
    if (type(value) is str or type(value) is bytes) and not value:
        return None
    return value


def to_plain_scalar(value: SlotValue) -> PlainScalar:
    """The scalar of a slot value without a number's original text."""
    scalar = to_scalar(value)
    return scalar.value if type(scalar) is Number else scalar


def to_untyped_scalar(value: Scalar) -> Scalar:
    """A scalar as a format without kinds writes it: a whole number without a fraction, also where it comes as a Double.

    ``1.0`` would not be read as a number again (:func:`is_shortest_text`), and would make another key than ``1``.
    """
    is_whole = type(value) is float and value.is_integer() and abs(value) <= MAX_EXACT_INTEGER
    # An Integer has no negative zero.
    return int(value) if is_whole and str(value) != "-0.0" else value  # type: ignore[arg-type]


def to_number(value: SlotValue) -> int | float | None:
    """The scalar converted to a number: NULL stays None, text without a numeric reading is NaN."""
    # The commonest kinds first; type() keeps bool, which is an int to isinstance(), out of this way.
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
    """The canonical text of a Double: the shortest that reads back, ``NaN``, ``inf``, ``-inf``."""
    return "NaN" if value != value else repr(value)


def is_shortest_text(text: bytes) -> bool:
    """Return whether a text is the shortest spelling of its number, so that the number says all that it says.

    An Integer within 2**53 in plain digits, or a fraction that :func:`format_double` writes with this very text:
    whoever reads such a number as a double gets the text back. ``007``, ``+5``, ``.5``, ``1.50``, ``1.0``, ``1e3``,
    ``-0`` and ``9007199254740993`` are none.
    """
    if _match_shortest_number(text) is None:
        return False
    if len(text) <= _SHORT_TEXT_BYTES:
        return True
    if b"." in text:
        return format_double(float(text)).encode() == text
    return len(text) < _MAX_INTEGER_DIGITS and -MAX_EXACT_INTEGER <= int(text) <= MAX_EXACT_INTEGER


def choose_written_scalar(value: SlotValue) -> Scalar:
    """Return the scalar that a format with numbers and texts writes for the first value.

    A number of a message type that says nothing of kinds is a number there if its text is the shortest one, else the
    text itself: leading zeros, signs, exponents and digits beyond a double's are lost in a number, and an identifier
    with them.
    """
    scalar = to_scalar(value)
    if type(scalar) is not Number or scalar.typed:
        return scalar
    return scalar.value if is_shortest_text(scalar.text) else scalar.text


def make_untyped_number(value: int | float, text: bytes) -> int | Number:
    """A number of a message type that says nothing of kinds: plain where :func:`choose_written_scalar` would give
    the Integer.
    """
    if type(value) is int and -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER and b"%d" % value == text:
        return value
    return Number(value, text, False)


def to_text(value: SlotValue) -> bytes | None:
    """The scalar's text as bytes, None for NULL."""
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
    """The scalar as a truth: Booleans themselves, numbers by zero, NULL and NaN (text too) NULL."""
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
    # Kinds are asked by type(), not isinstance(), which takes twice as long where the answer is no: hence the ignores.
    left, right = type(a), type(b)
    a_text, b_text = left is str or left is bytes, right is str or right is bytes
    if a_text and b_text:
        if left is not right:
            # Strings of one type are compared as they are: UTF-8 sorts as the code points that it encodes do.
            a, b = _as_bytes(a), _as_bytes(b)  # type: ignore[arg-type]  # both are texts
    elif a_text:
        if b != b:
            return UNORDERED
        # A text without a numeric reading stands above all numbers.
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
    """Return the truth of ``IS NULL``: empty or NULL first, and no non-empty object was dropped."""
    if value is None:
        return True
    if type(value) is ValueList and value.dropped:
        return False
    return to_scalar(value) is None
