"""``STRPTIME``: the directives of strptime(3) in the C locale (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from sowctl.values.times import EPOCH, MICROS_PER_SECOND

DateParts: TypeAlias = dict[str, int]

# %E and %O select the eras and digits of a locale. The C locale has none, so only the letter after them counts.
_FORMAT_TOKEN_PATTERN = re.compile(rb"%(?:03f|[EO]?(.))|([ \t\n\v\f\r]+)|(.)", re.DOTALL)
_DAY_NAMES = (b"sunday", b"monday", b"tuesday", b"wednesday", b"thursday", b"friday", b"saturday")
_MONTH_NAMES = (
    *(b"january", b"february", b"march", b"april", b"may", b"june"),
    *(b"july", b"august", b"september", b"october", b"november", b"december"),
)
# The part that a directive sets, its maximum number of digits, its minimum and maximum value. ISO 8601 weeks (%V,
# %G, %g) are read but do not affect the date, as in the GNU C library.
_NUMERIC_DIRECTIVES: dict[bytes, tuple[str, int, int, int]] = {
    b"C": ("century", 2, 0, 99),
    b"d": ("day", 2, 1, 31),
    b"e": ("day", 2, 1, 31),
    b"H": ("hour", 2, 0, 23),
    b"k": ("hour", 2, 0, 23),
    b"I": ("hour12", 2, 1, 12),
    b"l": ("hour12", 2, 1, 12),
    b"j": ("yearday", 3, 1, 366),
    b"m": ("month", 2, 1, 12),
    b"M": ("minute", 2, 0, 59),
    # 60 and 61 are leap seconds, which strptime(3) accepts; the sum below carries them into the next minute.
    b"S": ("second", 2, 0, 61),
    b"U": ("week_sunday", 2, 0, 53),
    b"W": ("week_monday", 2, 0, 53),
    b"V": ("ignored", 2, 0, 53),
    b"G": ("ignored", 4, 0, 9999),
    b"g": ("ignored", 2, 0, 99),
    b"w": ("weekday", 1, 0, 6),
    b"u": ("weekday7", 1, 1, 7),
    b"y": ("short_year", 2, 0, 99),
    b"Y": ("year", 4, 0, 9999),
}
DIRECTIVE_SHORTHANDS = {
    b"c": b"%a %b %e %H:%M:%S %Y",
    b"D": b"%m/%d/%y",
    b"F": b"%Y-%m-%d",
    b"r": b"%I:%M:%S %p",
    b"R": b"%H:%M",
    b"T": b"%H:%M:%S",
    b"x": b"%m/%d/%y",
    b"X": b"%H:%M:%S",
}
"""Directives that are short for several others, in reading and in writing."""
_SPACES_PATTERN = re.compile(rb"[ \t\n\v\f\r]*")
_EPOCH_PATTERN = re.compile(rb" *([+-]?[0-9]{1,18})")
_ZONE_PATTERN = re.compile(rb" *(?:([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?)")
_ZONE_NAME_PATTERN = re.compile(rb"(?i:utc|gmt|z)")
_MERIDIEM_PATTERN = re.compile(rb"(?i:([ap])m)")


@lru_cache(maxsize=64)
def _split_format(fmt: bytes) -> tuple[tuple[str, bytes], ...]:
    """The format as (kind, text) pairs: ``space``, ``literal``, ``fraction`` or ``directive``."""
    found: list[tuple[str, bytes]] = []
    for match in _FORMAT_TOKEN_PATTERN.finditer(fmt):
        if match[2] is not None or match[1] in (b"n", b"t"):
            found.append(("space", b""))
        # Two directives that the C library does not have: fractions of a second with six or three digits.
        elif match[0] in (b"%f", b"%03f"):
            found.append(("fraction", b"3" if match[0] == b"%03f" else b"6"))
        elif match[3] is not None or match[1] == b"%":
            found.append(("literal", match[3] or b"%"))
        elif match[1] in DIRECTIVE_SHORTHANDS:
            found.extend(_split_format(DIRECTIVE_SHORTHANDS[match[1]]))
        else:
            found.append(("directive", match[1]))
    return tuple(found)


def strptime(text: bytes, fmt: bytes) -> float | None:
    """Seconds since 1970 of an instant; None if the text does not match or is not a possible date."""
    # If a part occurs twice, the last value counts.
    parts: DateParts = {}
    position = 0
    for kind, detail in _split_format(fmt):
        # Each part returns its end; None means that the text does not match the format.
        after: int | None
        if kind == "space":
            after = _match_end(_SPACES_PATTERN, text, position)
        elif kind == "literal":
            after = position + 1 if text[position : position + 1] == detail else None
        elif kind == "fraction":
            after = _read_fraction(text, position, int(detail), parts)
        else:
            after = _read_directive(text, position, detail, parts)
        if after is None:
            return None
        position = after
    # A text that continues after the format does not match.
    return _build_instant(parts) if position == len(text) else None


def _match_end(pattern: re.Pattern[bytes], text: bytes, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _read_fraction(text: bytes, position: int, digits: int, parts: DateParts) -> int | None:
    match = re.compile(rb"[0-9]{1,%d}" % digits).match(text, position)
    if match is None:
        return None
    # Fewer digits are the leading ones: ``.5`` is half a second.
    parts["micros"] = int(match[0].ljust(6, b"0"))
    return match.end()


def _read_directive(text: bytes, position: int, letter: bytes, parts: DateParts) -> int | None:
    if letter in _NUMERIC_DIRECTIVES:
        return _read_number(text, position, letter, parts)
    if letter in (b"a", b"A"):
        return _read_name(text, position, _DAY_NAMES, "weekday", parts)
    if letter in (b"b", b"B", b"h"):
        return _read_name(text, position, _MONTH_NAMES, "month0", parts)
    if letter in (b"p", b"P"):
        half = _MERIDIEM_PATTERN.match(text, position)
        parts["afternoon"] = int(half is not None and half[1] in b"pP")
        return half.end() if half else None
    if letter == b"s":
        stamp = _EPOCH_PATTERN.match(text, position)
        parts["stamp"] = int(stamp[1]) if stamp else 0
        return stamp.end() if stamp else None
    if letter == b"z":
        return _read_zone(text, position, parts)
    if letter == b"Z":
        named = _ZONE_NAME_PATTERN.match(text, position)
        return named.end() if named else None
    return None


def _read_number(text: bytes, position: int, letter: bytes, parts: DateParts) -> int | None:
    name, digits, low, high = _NUMERIC_DIRECTIVES[letter]
    # Numbers may have fewer digits than their directive allows, and leading spaces, as in strptime(3).
    match = re.compile(rb" *([0-9]{1,%d})" % digits).match(text, position)
    if match is None or not low <= int(match[1]) <= high:
        return None
    parts[name] = int(match[1])
    return match.end()


def _read_name(text: bytes, position: int, names: tuple[bytes, ...], part: str, parts: DateParts) -> int | None:
    # The longest names, September and Wednesday, have nine letters.
    rest = text[position : position + 9].lower()
    for number, name in enumerate(names):
        # The whole name first: otherwise the rest of it would be read as the next part of the format.
        for length in (len(name), 3):
            if rest.startswith(name[:length]):
                parts[part] = number
                return position + length
    return None


def _read_zone(text: bytes, position: int, parts: DateParts) -> int | None:
    match = _ZONE_PATTERN.match(text, position)
    if match is None:
        return None
    minutes = 0 if match[1] else int(match[3]) * 60 + int(match[4] or 0)
    # No zone is further than 14 hours from UTC, and an hour has 60 minutes.
    if minutes > 14 * 60 or int(match[4] or 0) > 59:
        return None
    parts["offset"] = -minutes if match[2] == b"-" else minutes
    return match.end()


def _build_instant(parts: DateParts) -> float | None:
    micros = parts.get("micros", 0)
    # A stamp is an instant already, so no other part can change it.
    if "stamp" in parts:
        return (parts["stamp"] * MICROS_PER_SECOND + micros) / MICROS_PER_SECOND
    day = _resolve_day(parts)
    if day is None:
        return None
    hour = parts.get("hour", 0)
    if "hour12" in parts:
        # 12 AM is hour 0 and 12 PM hour 12.
        hour = parts["hour12"] % 12 + 12 * parts.get("afternoon", 0)
    seconds = hour * 3600 + (parts.get("minute", 0) - parts.get("offset", 0)) * 60 + parts.get("second", 0)
    days = (datetime(day.year, day.month, day.day, tzinfo=EPOCH.tzinfo) - EPOCH).days
    return ((days * 86400 + seconds) * MICROS_PER_SECOND + micros) / MICROS_PER_SECOND


def _resolve_year(parts: DateParts) -> int:
    if "year" in parts:
        return parts["year"]
    if "short_year" in parts:
        short = parts["short_year"]
        if "century" in parts:
            return parts["century"] * 100 + short
        # The POSIX rule for two-digit years.
        return short + (1900 if short >= 69 else 2000)
    return parts["century"] * 100 if "century" in parts else 1970


def _resolve_day(parts: DateParts) -> date | None:
    year = _resolve_year(parts)
    month = parts["month"] if "month" in parts else parts.get("month0", 0) + 1
    weekday = parts["weekday7"] % 7 if "weekday7" in parts else parts.get("weekday")
    # A day may be given in three ways. A calendar date has precedence over the day of the year, which has precedence
    # over week and weekday.
    calendar = "month" in parts or "month0" in parts or "day" in parts
    try:
        first = date(year, 1, 1)
        if calendar or not ("yearday" in parts or weekday is not None):
            return date(year, month, parts.get("day", 1))
        if "yearday" in parts:
            day = first + timedelta(days=parts["yearday"] - 1)
            return day if day.year == year else None
        for name, start in (("week_sunday", 0), ("week_monday", 1)):
            if name in parts and weekday is not None:
                # Week 1 begins with the first Sunday (%U) or Monday (%W) of the year; the days before it are week 0.
                offset = (7 - (first.isoweekday() % 7 - start)) % 7 - 7 + parts[name] * 7
                day = first + timedelta(days=offset + (weekday - start) % 7)
                return day if day.year == year else None
        return first
    except (ValueError, OverflowError):
        return None
