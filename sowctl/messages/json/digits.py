"""Parse numbers in a text, many at once: eight characters per machine word.

Called by :mod:`sowctl.messages.json.template_match`. Only plain numbers of JSON are parsed: an optional minus, and at
most 18 digits, or 15 including a fraction. Each of these has one exact result: whole numbers fit into 64 bits, and the
others are a whole number below 2**53 divided by a power of ten that a double represents exactly, which IEEE 754 rounds
correctly. Anything else (an exponent, more digits, a negative zero, no number at all) is reported as unparsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

    Numbers = numpy.ndarray[Any, Any]

MAX_INTEGER_DIGITS = 18
"""Maximum number of digits of a whole number; all such numbers fit into 64 bits."""
MAX_EXACT_DIGITS = 15
"""Maximum number of digits of other numbers; as whole numbers they are below 2**53."""
_BYTE_ONES = 0x0101010101010101
_KEEP_MASKS = [(1 << 64) - (1 << (64 - 8 * size)) for size in range(9)]
"""Masks that keep the last ``size`` of eight characters in a word, whose first character is at the lowest address."""
_FILL_MASKS = [0x30 * _BYTE_ONES & ~keep for keep in _KEEP_MASKS]


def parse_whole_numbers(chars: Numbers, words: Numbers, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The whole numbers between ``begins`` and ``ends`` (64 bits), and which of them were parsed.

    ``chars`` is the text, ``words`` the little-endian word that starts at every position of it; at least 24 bytes must
    precede every position.
    """

    ends, size, negative, lead, good = _measure_digits(chars, begins, ends, MAX_INTEGER_DIGITS)
    good &= ~lead | (size == 1)
    value, digits = _parse_digit_run(words, ends, size)
    good &= digits
    return _apply_sign(value.view("i8"), negative, good), good


def parse_doubles(chars: Numbers, words: Numbers, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The same for numbers with or without a decimal point, as doubles."""
    import numpy as np

    ends, size, negative, lead, good = _measure_digits(chars, begins, ends, MAX_EXACT_DIGITS + 1)
    behind = _count_fraction_digits(_load_word_before(words, ends, np.minimum(size, 8)))
    if int(size.max(initial=0)) > 8:
        far = _count_fraction_digits(_load_word_before(words, ends - 8, np.clip(size - 8, 0, 8)))
        behind = np.where((behind < 0) & (far >= 0), far + 8, behind)
    pointed = behind >= 0
    fraction = np.maximum(behind, 0)
    before = size - fraction - pointed
    # A number neither begins nor ends with its point, and has no leading zero before other digits.
    good &= (behind != 0) & (before > 0) & (before + fraction <= MAX_EXACT_DIGITS)
    before = np.maximum(before, 0)
    good &= ~lead | (before == 1)
    front, digits = _parse_digit_run(words, ends - fraction - pointed, before)
    good &= digits
    back, digits = _parse_digit_run(words, ends, fraction)
    good &= digits
    powers = np.array([10**power for power in range(MAX_EXACT_DIGITS + 2)], "u8")[fraction]
    found = (front * powers + back).astype("f8") / powers.astype("f8")
    return _apply_sign(found, negative, good), good


def _parse_digit_run(words: Numbers, ends: Numbers, size: Numbers) -> tuple[Numbers, Numbers]:
    """Parse the ``size`` digits before each end; also return where all of them are digits."""
    import numpy as np

    longest = int(size.max(initial=0))
    last = _load_word_before(words, ends, size if longest <= 8 else np.minimum(size, 8))
    good, value = _is_digit_word(last), _decode_digit_word(last)
    for passed in range(8, longest, 8):
        head = _load_word_before(words, ends - passed, np.clip(size - passed, 0, 8))
        good &= _is_digit_word(head)
        value += _decode_digit_word(head) * np.uint64(10**passed)
    return value, good


def _measure_digits(
    chars: Numbers, begins: Numbers, ends: Numbers, most: int
) -> tuple[Numbers, Numbers, Numbers | None, Numbers, Numbers]:
    """Find the ends and counts of digits, and which are negative, have a leading zero, may be a number.

    Negative is None if there are none. A text that cannot be a number is treated as one character, so that it can be
    read.
    """
    import numpy as np

    first = chars[begins]
    minus = first == 0x2D
    negative = None
    if minus.any():
        negative = minus
        begins = begins + minus
        first = chars[begins]
    size = ends - begins
    good = (size > 0) & (size <= most)
    if not good.all():
        size, ends = np.where(good, size, 1), np.where(good, ends, begins + 1)
    return ends, size, negative, first == 0x30, good


def _apply_sign(value: Numbers, negative: Numbers | None, good: Numbers) -> Numbers:
    import numpy as np

    if negative is None:
        return value
    # The sign of a negative zero would be lost.
    good &= ~negative | (value != 0)
    return np.where(negative, -value, value)


def _load_word_before(words: Numbers, ends: Numbers, size: Numbers) -> Numbers:
    """The ``size`` characters (0 to 8) before each end, padded with leading zeros."""
    import numpy as np

    loaded: Numbers = words[ends - 8]
    shortest, longest = int(size.min(initial=8)), int(size.max(initial=8))
    if shortest < 8 or longest < 8:
        loaded &= np.array(_KEEP_MASKS, "u8")[size]
        loaded |= np.array(_FILL_MASKS, "u8")[size]
    return loaded


def _is_digit_word(word: Numbers) -> Numbers:
    """Return True where all eight characters are digits."""
    import numpy as np

    high = np.uint64(0xF0 * _BYTE_ONES)
    # A digit has 3 in its upper half, even after adding 6. A carry only comes from a character that is no digit.
    tops = (word & high) | (((word + np.uint64(0x06 * _BYTE_ONES)) & high) >> np.uint64(4))
    good: Numbers = tops == np.uint64(0x33 * _BYTE_ONES)
    return good


def _decode_digit_word(word: Numbers) -> Numbers:
    """Convert eight digits to a number: pairs, then fours, then all eight are combined, in every lane at once."""
    import numpy as np

    word = (word & np.uint64(0x0F * _BYTE_ONES)) * np.uint64(2561) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    return (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> np.uint64(32)


def _count_fraction_digits(word: Numbers) -> Numbers:
    """Count the characters after the first point of eight, -1 without a point.

    Another character may be taken for a point; it is no digit either, and is detected later.
    """
    import numpy as np

    other = word ^ np.uint64(0x2E * _BYTE_ONES)
    zero = (other - np.uint64(_BYTE_ONES)) & ~other & np.uint64(0x80 * _BYTE_ONES)
    zero &= ~zero + np.uint64(1)  # the lowest is exact; a second point is no digit
    places: Numbers = np.bitwise_count(zero - np.uint64(1)) >> np.uint8(3)
    return np.where(zero == 0, -1, 7 - places.astype("i8"))
