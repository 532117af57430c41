"""Intervals, byte sizes, counts and switches in configurations and options (``sow-config(5)``, units)."""

from __future__ import annotations

import re

NANOSECOND = 1
INTERVAL_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
MAX_INTERVAL_NANOSECONDS = 10_000 * 366 * INTERVAL_NANOSECONDS["d"]
SIZE_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# ASCII: otherwise other digits match, too, and U+017F and U+212A are the letters s and k.
_INTERVAL_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d|w)?", re.IGNORECASE | re.ASCII)
_SIZE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m|g|t)?(?:i?b)?", re.IGNORECASE | re.ASCII)
_COUNT_PATTERN = re.compile(r"(\d+)([km])?", re.IGNORECASE | re.ASCII)
MAX_U64 = (1 << 64) - 1
"""The largest sequence number, txid and SOW key."""
MAX_COUNT = 10**18
"""The maximum of a count in an option: sums of such numbers are less than the largest index of Python."""
_WHOLE_NUMBER_PATTERN = re.compile("0*([0-9]{1,20})")  # 2**64 has 20 digits
_SWITCH_VALUES = {"true": True, "false": False, "enabled": True, "disabled": False}


def parse_whole_number(text: str) -> int | None:
    """Parse an unsigned decimal below 2**64 in the digits 0 to 9, such as a SOW key or txid; None for any other text.

    Leading zeros are allowed. int() alone would also accept signs, underscores, white space and other digits.
    """
    digits = _WHOLE_NUMBER_PATTERN.fullmatch(text)
    number = int(digits[1]) if digits is not None else MAX_U64 + 1
    return number if number <= MAX_U64 else None


def parse_interval(text: str) -> int:
    """Parse an interval to nanoseconds: ``100ms``, ``5m``, ``1.5h``; a bare number is in seconds. Raises ValueError."""
    match = _INTERVAL_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an interval (a number and ns, us, ms, s, m, h, d or w)")
    return _multiply_number(match[1], INTERVAL_NANOSECONDS[(match[2] or "s").lower()])


def parse_seconds(text: str) -> float:
    """Parse an interval to seconds, :data:`MAX_INTERVAL_NANOSECONDS` at most: no date is further away. Raises
    ValueError."""
    return min(parse_interval(text), MAX_INTERVAL_NANOSECONDS) / INTERVAL_NANOSECONDS["s"]


def parse_size(text: str) -> int:
    """Parse a size to bytes, with units of 1024: ``5MB``, ``64k``, ``4KiB``, ``123``. Raises ValueError."""
    match = _SIZE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a byte size (a number and KB, MB, GB or TB)")
    return _multiply_number(match[1], SIZE_FACTORS[(match[2] or "").lower()])


def _multiply_number(number: str, factor: int) -> int:
    # Integers are not converted: a size beyond 2**53 would lose bytes as a Double.
    if "." not in number:
        return _parse_digits(number) * factor
    product = float(number) * factor
    if product == float("inf"):
        raise ValueError(f"{number[:20]}... is too large")
    return round(product)


def _parse_digits(digits: str) -> int:
    # No real quantity has so many digits; int() refuses some thousand with its own message.
    if len(digits) > 400:
        raise ValueError(f"{digits[:20]}... is too large")
    return int(digits)


def parse_count(text: str) -> int:
    """Parse an integer with an optional decimal multiplier: ``250``, ``64k`` (64,000), ``2M``. Raises ValueError."""
    match = _COUNT_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an integer (k and M are allowed)")
    return _parse_digits(match[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[(match[2] or "").lower()]


def parse_switch(text: str) -> bool:
    """Parse ``true``/``false`` or ``enabled``/``disabled`` in any case. Raises ValueError."""
    try:
        return _SWITCH_VALUES[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is not true, false, enabled or disabled") from None


def format_interval(nanoseconds: int) -> str:
    """Return the shortest exact text of an interval: ``100ms``, ``90s``, ``0s``; :func:`parse_interval` reads it."""
    # The largest unit that divides it results in the shortest text without loss.
    for unit, factor in reversed(INTERVAL_NANOSECONDS.items()):
        if nanoseconds and nanoseconds % factor == 0:
            return f"{nanoseconds // factor}{unit}"
    return "0s"


def format_size(size: int) -> str:
    """Return the shortest exact spelling of a byte size: ``5MB``, ``1000``; :func:`parse_size` reads it."""
    for unit, factor in reversed(SIZE_FACTORS.items()):
        if unit and size and size % factor == 0:
            return f"{size // factor}{unit.upper()}B"
    return str(size)
