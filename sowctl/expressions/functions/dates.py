"""``STRFTIME``: the directives of strftime(3) in the C locale, UTC (``sowctl-expressions(7)``, functions).

The directives are written out here: the C library's would follow the process's locale and the platform's habits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta

from sowctl.expressions.functions.signature import function
from sowctl.expressions.functions.strptime import SHORTHANDS, strptime
from sowctl.values.times import EPOCH, LATEST, SECOND

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
LONGEST = 128
EARLIEST = -62_135_596_800 * SECOND
"""The first microsecond of year 1."""

# Flags and a width between % and the letter, as the C library of GNU has them: ``%-d``, ``%_5H``, ``%^a``.
# Possessive quantifiers: a zero is both a flag and a digit, and giving it back takes time that grows with the square.
_DIRECTIVE = re.compile(rb"%([_0^#-]*+)([0-9]*+)[EO]?(.)", re.DOTALL)


def _weekday(at: datetime) -> int:
    return at.isoweekday() % 7


def _week(at: datetime, first: int) -> int:
    """Week of the year that begins on weekday ``first`` (0 Sunday, 1 Monday)."""
    # The number of weeks that have begun by this day; the days before the first Sunday or Monday are week 0.
    return (at.timetuple().tm_yday - 1 + 7 - (_weekday(at) - first) % 7) // 7


_TEXTS: dict[str, Callable[[datetime], str]] = {
    "a": lambda at: DAYS[_weekday(at)][:3],
    "A": lambda at: DAYS[_weekday(at)],
    "b": lambda at: MONTHS[at.month - 1][:3],
    "h": lambda at: MONTHS[at.month - 1][:3],
    "B": lambda at: MONTHS[at.month - 1],
    "p": lambda at: "AM" if at.hour < 12 else "PM",
    "P": lambda at: "am" if at.hour < 12 else "pm",
    "z": lambda at: "+0000",
    "Z": lambda at: "UTC",
    "n": lambda at: "\n",
    "t": lambda at: "\t",
    "%": lambda at: "%",
}
_NUMBERS: dict[str, tuple[Callable[[datetime], int], int, str]] = {
    "C": (lambda at: at.year // 100, 2, "0"),
    "d": (lambda at: at.day, 2, "0"),
    "e": (lambda at: at.day, 2, " "),
    "G": (lambda at: at.isocalendar().year, 1, "0"),
    "g": (lambda at: at.isocalendar().year % 100, 2, "0"),
    "H": (lambda at: at.hour, 2, "0"),
    "I": (lambda at: at.hour % 12 or 12, 2, "0"),
    "j": (lambda at: at.timetuple().tm_yday, 3, "0"),
    "k": (lambda at: at.hour, 2, " "),
    "l": (lambda at: at.hour % 12 or 12, 2, " "),
    "m": (lambda at: at.month, 2, "0"),
    "M": (lambda at: at.minute, 2, "0"),
    "s": (lambda at: (at - EPOCH) // timedelta(seconds=1), 1, "0"),
    "S": (lambda at: at.second, 2, "0"),
    "u": (lambda at: at.isoweekday(), 1, "0"),
    "U": (lambda at: _week(at, 0), 2, "0"),
    "V": (lambda at: at.isocalendar().week, 2, "0"),
    "w": (_weekday, 1, "0"),
    "W": (lambda at: _week(at, 1), 2, "0"),
    "y": (lambda at: at.year % 100, 2, "0"),
    "Y": (lambda at: at.year, 1, "0"),
}


def _one(at: datetime, flags: str, width: int, letter: str) -> str | None:
    if letter in _TEXTS:
        text = _TEXTS[letter](at)
        if "^" in flags or "#" in flags:
            # ``#`` swaps the case, as in strftime(3): only AM and PM become small by it.
            text = text.lower() if letter == "p" and "#" in flags else text.upper()
        return text.rjust(width)
    # An unknown directive stays in the text, as in the C library.
    if letter not in _NUMBERS:
        return None
    read, digits, fill = _NUMBERS[letter]
    # The last flag of filling wins; those of the case do not concern numbers.
    for flag in flags:
        fill = {"_": " ", "0": "0", "-": ""}.get(flag, fill)
    number = read(at)
    if not fill:
        return str(number)
    size = max(width, digits)
    return str(number).rjust(size) if fill == " " else f"{number:0{size}d}"


def format_instant(fmt: bytes, at: datetime) -> bytes:
    """``fmt`` with its directives replaced; unknown ones stay. At most :data:`LONGEST` bytes."""

    def put(match: re.Match[bytes]) -> bytes:
        flags, letter = match[1].decode(), match[3].decode("latin-1")
        # Only these two spellings exist; with any other flag or width %f is unknown.
        if letter == "f" and match[0] in (b"%f", b"%03f"):
            return b"%06d" % at.microsecond if match[0] == b"%f" else b"%03d" % (at.microsecond // 1000)
        if match[3] in SHORTHANDS:
            return format_instant(SHORTHANDS[match[3]], at)
        # The width has a limit, because a format may come from a message and must not ask for gigabytes.
        text = _one(at, flags, min(int(match[2][:4] or 0), LONGEST), letter)
        return match[0] if text is None else text.encode()

    made, position = bytearray(), 0
    # The language cuts the result, so that no format makes a text without bound: what would stand behind is not made.
    for match in _DIRECTIVE.finditer(fmt):
        made += fmt[position : match.start()]
        if len(made) >= LONGEST:
            break
        made += put(match)
        position = match.end()
    else:
        made += fmt[position:]
    return bytes(made[:LONGEST])


def strftime(fmt: bytes, seconds: int | float) -> bytes | None:
    """An instant in seconds since 1970 as text; None for NaN and outside the years 1 to 9999."""
    if not math.isfinite(seconds):
        return None
    # Whole seconds and the rest apart: their product with a million would lose microseconds in a Double.
    whole = math.floor(seconds)
    micros = whole * SECOND + round((seconds - whole) * SECOND)
    if not EARLIEST <= micros <= LATEST:
        return None
    return format_instant(fmt, EPOCH + timedelta(microseconds=micros))


DATES = (
    function("STRFTIME", strftime, "text number", "text", "text of an instant in seconds, in UTC"),
    function("STRPTIME", strptime, "text text", "number", "instant of a text, in seconds"),
)
