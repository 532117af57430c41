"""Durations, ages, byte sizes, rates and numbers for people: one spelling of each, wherever a person reads them.

Configurations and options, which the program reads back, use the exact texts of :mod:`sowctl.values.units`.
"""

from __future__ import annotations

MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3_600, 86_400
_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_AGE_UNITS = (("d", DAY_SECONDS), ("h", HOUR_SECONDS), ("m", MINUTE_SECONDS))
_RATE_UNITS = (("a second", 1), ("a minute", MINUTE_SECONDS), ("an hour", HOUR_SECONDS), ("a day", DAY_SECONDS))


def format_duration(seconds: float, *, whole: bool = False) -> str:
    """Format a duration in one or two units: ``6.1 s``, ``3 min 05 s``, ``2 h 07 min``, ``3 d 04 h``.

    Below a minute it has tenths of a second, unless ``whole``; below a tenth, milliseconds: ``20 ms``.
    """
    if not whole and 0 < seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.0005 else "0.0 s"
    rounded = int(seconds + 0.5)
    if rounded < MINUTE_SECONDS:
        return f"{rounded} s" if whole else f"{seconds:.1f} s"
    if rounded < HOUR_SECONDS:
        return f"{rounded // MINUTE_SECONDS} min {rounded % MINUTE_SECONDS:02} s"
    if rounded < DAY_SECONDS:
        return f"{rounded // HOUR_SECONDS} h {rounded % HOUR_SECONDS // MINUTE_SECONDS:02} min"
    return f"{rounded // DAY_SECONDS:,} d {rounded % DAY_SECONDS // HOUR_SECONDS:02} h"


def format_age(seconds: float) -> str:
    """Format an age in one unit, the largest with a number of at least two: ``90s``, ``5h``, ``327d``."""
    for unit, length in _AGE_UNITS:
        if seconds >= 2 * length:
            return f"{int(seconds // length):,}{unit}"
    return f"{max(0, int(seconds))}s"


def format_ago(seconds: float) -> str:
    """Format the time since an event: ``5h ago``; ``in 5h`` if it is in the future, ``now`` within a second."""
    if abs(seconds) < 1:
        return "now"
    return f"{format_age(seconds)} ago" if seconds > 0 else f"in {format_age(-seconds)}"


def format_bytes(count: int) -> str:
    """Format bytes in units of 1024: ``123 B``, ``4.0 KiB``, ``214.3 MiB``."""
    value, unit = float(count), 0
    # 1023.95 would be shown as 1024.0 of its unit.
    while value >= 1023.95 and unit < len(_SIZE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:,.1f} {_SIZE_UNITS[unit]}"


def format_count(count: int, one: str, many: str | None = None) -> str:
    """Format a count of things: ``1 file``, ``1,200 files``; ``many`` if the plural is not formed with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_rate(per_second: float) -> str:
    """Format a rate as an integer, per the shortest unit with at least one: ``49,296 a second``, ``33 a minute``."""
    if per_second <= 0:
        return "0"
    for words, length in _RATE_UNITS:
        if per_second * length >= 1:
            return f"{per_second * length:,.0f} {words}"
    return "less than 1 a day"


def format_number(value: float) -> str:
    """Format a number: integers with separators, others with at most six digits."""
    if isinstance(value, int):
        return f"{value:,}"
    # Six digits would need an exponent for these; a double has no more than 15 significant digits.
    return f"{value:,.0f}" if 999_999.5 <= abs(value) < 1e15 else f"{value:,.6g}"
