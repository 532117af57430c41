"""``STRFTIME``: the directives of strftime(3) in the C locale, UTC (``sowctl-expressions(7)``, functions).

The directives are implemented here: the C library's would depend on the process's locale and on the platform.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta

from sowctl.expressions.functions.signature import declare_function
from sowctl.expressions.functions.strptime import DIRECTIVE_SHORTHANDS, strptime
from sowctl.values.times import EPOCH, MAX_MICROS, MICROS_PER_SECOND

DAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
MAX_FORMATTED_BYTES = 128
MIN_INSTANT_MICROS = -62_135_596_800 * MICROS_PER_SECOND
"""The first microsecond of year 1."""

# Flags and a width between % and the letter, as in the GNU C library: ``%-d``, ``%_5H``, ``%^a``.
# Possessive quantifiers: a zero is both a flag and a digit, and backtracking over it takes quadratic time.
_DIRECTIVE_PATTERN = re.compile(rb"%([_0^#-]*+)([0-9]*+)[EO]?(.)", re.DOTALL)


def _weekday_number(at: datetime) -> int:
    return at.isoweekday() % 7


def _week_number(at: datetime, first: int) -> int:
    """Week of the year that begins on weekday ``first`` (0 Sunday, 1 Monday)."""
    # The number of weeks that have begun by this day; the days before the first Sunday or Monday are week 0.
    return (at.timetuple().tm_yday - 1 + 7 - (_weekday_number(at) - first) % 7) // 7


_TEXT_DIRECTIVES: dict[str, Callable[[datetime], str]] = {
    "a": lambda at: DAY_NAMES[_weekday_number(at)][:3],
    "A": lambda at: DAY_NAMES[_weekday_number(at)],
    "b": lambda at: MONTH_NAMES[at.month - 1][:3],
    "h": lambda at: MONTH_NAMES[at.month - 1][:3],
    "B": lambda at: MONTH_NAMES[at.month - 1],
    "p": lambda at: "AM" if at.hour < 12 else "PM",
    "P": lambda at: "am" if at.hour < 12 else "pm",
    "z": lambda at: "+0000",
    "Z": lambda at: "UTC",
    "n": lambda at: "\n",
    "t": lambda at: "\t",
    "%": lambda at: "%",
}
_NUMBER_DIRECTIVES: dict[str, tuple[Callable[[datetime], int], int, str]] = {
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
    "U": (lambda at: _week_number(at, 0), 2, "0"),
    "V": (lambda at: at.isocalendar().week, 2, "0"),
    "w": (_weekday_number, 1, "0"),
    "W": (lambda at: _week_number(at, 1), 2, "0"),
    "y": (lambda at: at.year % 100, 2, "0"),
    "Y": (lambda at: at.year, 1, "0"),
}


def _format_directive(at: datetime, flags: str, width: int, letter: str) -> str | None:
    if letter in _TEXT_DIRECTIVES:
        text = _TEXT_DIRECTIVES[letter](at)
        if "^" in flags or "#" in flags:
            # ``#`` swaps the case, as in strftime(3): only AM and PM become lower-case.
            text = text.lower() if letter == "p" and "#" in flags else text.upper()
        return text.rjust(width)
    # An unknown directive is left unchanged, as in the C library.
    if letter not in _NUMBER_DIRECTIVES:
        return None
    read, digits, fill = _NUMBER_DIRECTIVES[letter]
    # The last padding flag has precedence; case flags do not affect numbers.
    for flag in flags:
        fill = {"_": " ", "0": "0", "-": ""}.get(flag, fill)
    number = read(at)
    if not fill:
        return str(number)
    size = max(width, digits)
    return str(number).rjust(size) if fill == " " else f"{number:0{size}d}"


def format_instant(fmt: bytes, at: datetime) -> bytes:
    """``fmt`` with its directives replaced; unknown ones are kept. At most :data:`MAX_FORMATTED_BYTES` bytes."""

    def put(match: re.Match[bytes]) -> bytes:
        flags, letter = match[1].decode(), match[3].decode("latin-1")
        # Only these two spellings exist; with any other flag or width %f is unknown.
        if letter == "f" and match[0] in (b"%f", b"%03f"):
            return b"%06d" % at.microsecond if match[0] == b"%f" else b"%03d" % (at.microsecond // 1000)
        if match[3] in DIRECTIVE_SHORTHANDS:
            return format_instant(DIRECTIVE_SHORTHANDS[match[3]], at)
        # The width is limited, because a format may come from a message and must not request gigabytes.
        text = _format_directive(at, flags, min(int(match[2][:4] or 0), MAX_FORMATTED_BYTES), letter)
        return match[0] if text is None else text.encode()

    made, position = bytearray(), 0
    # The result is truncated, so that no format creates an unbounded text: the rest is not formatted.
    for match in _DIRECTIVE_PATTERN.finditer(fmt):
        made += fmt[position : match.start()]
        if len(made) >= MAX_FORMATTED_BYTES:
            break
        made += put(match)
        position = match.end()
    else:
        made += fmt[position:]
    return bytes(made[:MAX_FORMATTED_BYTES])


def strftime(fmt: bytes, seconds: int | float) -> bytes | None:
    """An instant in seconds since 1970 as text; None for NaN and outside the years 1 to 9999."""
    if not math.isfinite(seconds):
        return None
    # Seconds and fraction separately: their product with a million would lose microseconds in a Double.
    whole = math.floor(seconds)
    micros = whole * MICROS_PER_SECOND + round((seconds - whole) * MICROS_PER_SECOND)
    if not MIN_INSTANT_MICROS <= micros <= MAX_MICROS:
        return None
    return format_instant(fmt, EPOCH + timedelta(microseconds=micros))


DATE_FUNCTIONS = (
    declare_function("STRFTIME", strftime, "text number", "text", "text of an instant in seconds, in UTC"),
    declare_function("STRPTIME", strptime, "text text", "number", "instant of a text, in seconds"),
)
