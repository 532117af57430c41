"""Numbers out of a text, many at once: eight characters to a machine word.

Used by :mod:`sowctl.spark.decode.shapes` alone. Only plain numbers of JSON are read: a minus, at most eight digits
before the point and seven behind it, or at most 15 digits without one. All of these have one exact result: whole
numbers fit 64 bits, and the others are a whole number below 2^53 divided by a power of ten that a double holds exactly,
which IEEE 754 rounds correctly. Whatever else there is, be it an exponent, more digits, a negative zero or no number at
all, is said not to fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

    Numbers = numpy.ndarray[Any, Any]

_ALL = 0x0101010101010101
_POWERS = [10**power for power in range(9)]
_KEEP = [(1 << 64) - (1 << (64 - 8 * size)) for size in range(9)]
_FILL = [0x30 * _ALL & ~keep for keep in _KEEP]


def numbers(chars: Numbers, words: Numbers, begins: Numbers, ends: Numbers, *, whole: bool) -> tuple[Numbers, Numbers]:
    """The numbers between ``begins`` and ``ends``, and which of them are such numbers.

    ``chars`` is the text, ``words`` the little-endian word that starts at every place of it; at least 16 bytes must lie
    before every place. ``whole``: INTEGERS of 64 bits, without a point; else doubles.
    """
    import numpy as np

    lead = chars[begins]
    negative = lead == 0x2D
    signed = bool(negative.any())
    if signed:
        begins = begins + negative
        lead = chars[begins]
    size = ends - begins
    fits = (size > 0) & (size < 17 - whole)
    if not fits.all():
        size, ends = np.where(fits, size, 1), np.where(fits, ends, begins + 1)
    value, good = (_whole if whole else _double)(words, ends, size, lead == 0x30)
    good &= fits
    if signed:
        good &= ~negative | (value != 0)
        value = np.where(negative, -value, value)
    return value, good


def _whole(words: Numbers, ends: Numbers, size: Numbers, zero: Numbers) -> tuple[Numbers, Numbers]:
    """Up to 15 digits; ``zero`` is where the first one is a zero."""
    import numpy as np

    good = ~zero | (size == 1)
    last = _right(words, ends, np.minimum(size, 8))
    good &= _digits(last)
    value = _value(last)
    if size.max(initial=0) > 8:
        head = _right(words, ends - 8, np.maximum(size - 8, 0))
        good &= _digits(head)
        value += _value(head) * np.uint64(10**8)
    return value.view("i8"), good


def _double(words: Numbers, ends: Numbers, size: Numbers, zero: Numbers) -> tuple[Numbers, Numbers]:
    """Up to 8 digits before a point and 7 behind it."""
    import numpy as np

    behind = _behind_point(_right(words, ends, np.minimum(size, 8)))
    pointed = behind >= 0
    fraction = np.maximum(behind, 0)
    before = size - fraction - pointed
    good = (behind != 0) & (before > 0) & (before < 9)
    before = np.minimum(np.maximum(before, 0), 8)
    front = _right(words, ends - fraction - pointed, before)
    back = _right(words, ends, fraction)
    good &= _digits(front)
    good &= _digits(back)
    good &= ~zero | (before == 1)
    powers = np.array(_POWERS, "u8")[fraction]
    mantissa = _value(front) * powers + _value(back)
    return mantissa.astype("f8") / powers.astype("f8"), good


def _right(words: Numbers, ends: Numbers, size: Numbers) -> Numbers:
    """The ``size`` characters (0 to 8) before each end, with zeros in front of them."""
    import numpy as np

    loaded = words[ends - 8]
    loaded &= np.array(_KEEP, "u8")[size]
    loaded |= np.array(_FILL, "u8")[size]
    return loaded  # type: ignore[no-any-return]


def _digits(word: Numbers) -> Numbers:
    """Whether all eight characters are digits."""
    import numpy as np

    high = np.uint64(0xF0 * _ALL)
    tops = (word & high) | (((word + np.uint64(0x06 * _ALL)) & high) >> np.uint64(4))
    good: Numbers = tops == np.uint64(0x33 * _ALL)
    return good


def _value(word: Numbers) -> Numbers:
    """The number that eight digits are."""
    import numpy as np

    word = (word & np.uint64(0x0F * _ALL)) * np.uint64(2561) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    return (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> np.uint64(32)


def _behind_point(word: Numbers) -> Numbers:
    """How many characters stand behind the last point, -1 where there is none.

    Another character may be taken for a point; it is no digit either, and so found out later.
    """
    import numpy as np

    other = word ^ np.uint64(0x2E * _ALL)
    zero = (other - np.uint64(_ALL)) & ~other & np.uint64(0x80 * _ALL)
    zero &= ~zero + np.uint64(1)  # the lowest is exact; a second point is no digit
    places: Numbers = np.bitwise_count(zero - np.uint64(1)) >> np.uint8(3)
    return np.where(zero == 0, -1, 7 - places.astype("i8"))
