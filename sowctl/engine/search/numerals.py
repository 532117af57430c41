"""Patterns that the text of a JSON number matches wherever the number may lie between bounds.

They tell numbers apart by their digits before the point alone, so they let more through than lies between the bounds,
and everything with an exponent. A text is read as the nearest Double, which never crosses a whole number that a Double
can be, though it may reach one: ``0.99999999999999999999`` equals 1.
"""

from __future__ import annotations

from math import ceil, floor

from sowctl.expressions.rewrites.intervals import Bounds

MOST = 10**15
"""Whole numbers up to here are Doubles."""
_EXPONENT = rb"[\d.]++[eE]"
"""Behind a minus it makes no difference: such numbers are all kept, or none."""
_DIGIT = rb"\d"


def spelled(bounds: Bounds) -> bytes | None:
    """A pattern for the beginning of all numbers between ``bounds``; None where it would tell nothing."""
    low, high = bounds.low, bounds.high
    least = _least(low, bounds.open_low) if low is not None and abs(low) < MOST else 0
    most = _most(high, bounds.open_high) if high is not None and abs(high) < MOST else None
    if most is None:
        if least < 1:
            return None
        numbers = _from(least)
    elif most < 0:
        numbers = rb"-"
    elif least < 1:
        numbers = rb"-|" + _up_to(most)
    else:
        numbers = rb"(?=%b)(?:%b)" % (_up_to(most), _from(least))
    return numbers + rb"|" + _EXPONENT


def _least(low: int | float, is_open: bool) -> int:
    """The smallest whole part of numbers above ``low``: just below a closed bound lie texts that are read as it."""
    whole = floor(low)
    return whole if is_open or whole != low else whole - 1


def _most(high: int | float, is_open: bool) -> int:
    """The largest whole part of numbers below ``high``."""
    return ceil(high) - 1 if is_open else floor(high)


def _from(least: int) -> bytes:
    """Whole parts of at least ``least``, which is positive, told by how many digits there are and the first two."""
    digits = b"%d" % least
    rest = len(digits) - 1
    ways = [_DIGIT * (rest + 2)]
    if digits[0] < 0x39:
        ways.append(b"[%c-9]" % (digits[0] + 1) + _DIGIT * rest)
    if rest:
        ways.append(b"%c[%c-9]" % (digits[0], digits[1]) + _DIGIT * (rest - 1))
    else:
        ways.append(digits)
    return b"|".join(ways)


def _up_to(most: int) -> bytes:
    """Whole parts of at most ``most``, which is not negative, told likewise."""
    digits = b"%d" % most
    rest = len(digits) - 1
    ways = [rb"\d{1,%d}" % rest] if rest else []
    if digits[0] > 0x30:
        ways.append(b"[0-%c]" % (digits[0] - 1) + _DIGIT * rest)
    if rest:
        ways.append(b"%c[0-%c]" % (digits[0], digits[1]) + _DIGIT * (rest - 1))
    else:
        ways.append(digits)
    return rb"(?:%b)(?!\d)" % b"|".join(ways)
