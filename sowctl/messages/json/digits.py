"""Numbers out of a text, many at once: eight characters to a machine word.

Called by :mod:`sowctl.messages.json.template_match`. Only plain numbers of JSON are read: a minus, and at most 18
digits, or 15 with a point among them. Each of these has one exact result: whole numbers fit 64 bits, and the others are
a whole number below 2**53 divided by a power of ten that a double holds exactly, which IEEE 754 rounds correctly.
Whatever else there is (an exponent, more digits, a negative zero, no number at all) is said not to fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

    Numbers = numpy.ndarray[Any, Any]

MAX_INTEGER_DIGITS = 18
"""Digits of the longest whole number that is read; every number of so many digits fits 64 bits."""
MAX_EXACT_DIGITS = 15
"""Digits of the longest other number; a whole number of so many digits is below 2**53."""
_BYTE_ONES = 0x0101010101010101
_KEEP_MASKS = [(1 << 64) - (1 << (64 - 8 * size)) for size in range(9)]
"""Of a word of eight characters, the lowest address first: the last ``size`` of them."""
_FILL_MASKS = [0x30 * _BYTE_ONES & ~keep for keep in _KEEP_MASKS]


def parse_whole_numbers(chars: Numbers, words: Numbers, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The whole numbers between ``begins`` and ``ends`` (64 bits), and which of them are such numbers.

    ``chars`` is the text, ``words`` the little-endian word that starts at every place of it; at least 24 bytes must lie
    before every place.
    """

    ends, size, negative, lead, good = _measure_digits(chars, begins, ends, MAX_INTEGER_DIGITS)
    good &= ~lead | (size == 1)
    value, digits = _parse_digit_run(words, ends, size)
    good &= digits
    return _apply_sign(value.view("i8"), negative, good), good


def parse_doubles(chars: Numbers, words: Numbers, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The same for numbers with a point or without, as doubles."""
    import numpy as np

    ends, size, negative, lead, good = _measure_digits(chars, begins, ends, MAX_EXACT_DIGITS + 1)
    behind = _count_fraction_digits(_load_word_before(words, ends, np.minimum(size, 8)))
    if int(size.max(initial=0)) > 8:
        far = _count_fraction_digits(_load_word_before(words, ends - 8, np.clip(size - 8, 0, 8)))
        behind = np.where((behind < 0) & (far >= 0), far + 8, behind)
    pointed = behind >= 0
    fraction = np.maximum(behind, 0)
    before = size - fraction - pointed
    # A number neither begins nor ends with its point, and has no zero in front of other digits.
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
    """The numbers that so many digits before each end are, and where all of them are digits."""
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
    """Find the ends and counts of digits, and which are negative, have a zero in front, may be a number.

    Negative is None where nothing is. What may be none is taken for one character, so that it can be looked at.
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
    """The ``size`` characters (0 to 8) before each end, with zeros in front of them."""
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
    # A digit has 3 in its upper half, and still has it with 6 added. A carry only leaves a character that has not.
    tops = (word & high) | (((word + np.uint64(0x06 * _BYTE_ONES)) & high) >> np.uint64(4))
    good: Numbers = tops == np.uint64(0x33 * _BYTE_ONES)
    return good


def _decode_digit_word(word: Numbers) -> Numbers:
    """The number that eight digits are: pairs, fours, then all eight are put together, in every lane at once."""
    import numpy as np

    word = (word & np.uint64(0x0F * _BYTE_ONES)) * np.uint64(2561) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    return (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> np.uint64(32)


def _count_fraction_digits(word: Numbers) -> Numbers:
    """Count the characters behind the first point of eight, -1 where there is none.

    Another character may be taken for a point; it is no digit either, and so found out later.
    """
    import numpy as np

    other = word ^ np.uint64(0x2E * _BYTE_ONES)
    zero = (other - np.uint64(_BYTE_ONES)) & ~other & np.uint64(0x80 * _BYTE_ONES)
    zero &= ~zero + np.uint64(1)  # the lowest is exact; a second point is no digit
    places: Numbers = np.bitwise_count(zero - np.uint64(1)) >> np.uint8(3)
    return np.where(zero == 0, -1, 7 - places.astype("i8"))
