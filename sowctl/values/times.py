"""Instants: texts to microseconds since 1970 UTC and back, and the clock that is passed to everything as an argument.

Every command imports this module, few parse a time: ``datetime``, which takes 1 ms, is imported on demand.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias

from sowctl.errors import UsageError

Micros: TypeAlias = int
"""Microseconds since 1970-01-01T00:00:00Z."""

Clock: TypeAlias = Callable[[], Micros]

if TYPE_CHECKING:
    from datetime import datetime, timezone

    EPOCH: datetime
    """Instant 0."""

MICROS_PER_SECOND = 1_000_000
_UNIT_MICROS = {
    "ns": 0.001,
    "us": 1,
    "ms": 1_000,
    "s": MICROS_PER_SECOND,
    "m": 60 * MICROS_PER_SECOND,
    "h": 3600 * MICROS_PER_SECOND,
    "d": 86400 * MICROS_PER_SECOND,
}
_UNIT_MICROS["w"] = 7 * _UNIT_MICROS["d"]
EPOCH_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""Units of numbers since 1970, and their names."""
_MAX_PLAIN_DIGITS = 19
"""Maximum number of digits of an integer that is an instant in any unit."""
_UNIT_DECIMAL_SHIFTS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""The power of ten that converts a unit to microseconds."""
_FRACTION_PATTERN = r"[.,](\d{1,12})"
"""Digits after the second, up to picoseconds."""
_ZONE_PATTERN = r"(Z|z|[+-]\d\d(?::?\d\d)?)"
_MAX_EPOCH_DIGITS = 400
_MAX_EPOCH_EXPONENT = 30
"""A number with more digits before its point is after the year 9999 in every unit."""
MAX_MICROS: Micros = 253402300799_999999
"""The last microsecond of year 9999: later times cannot be formatted."""
MIN_MICROS: Micros = -62135596800_000000
"""The first microsecond of year 1."""


def __getattr__(name: str) -> datetime:
    """Return ``EPOCH``, created when a module imports it: only modules that calculate with days do."""
    if name != "EPOCH":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from datetime import UTC, datetime

    return datetime(1970, 1, 1, tzinfo=UTC)


class EntryInstant(int):
    """The instant of a state named by a journal entry: the state after that entry, whatever the times of others.

    As a number it is the entry's time, which decides about lifetimes. ``txid``: entries up to it belong to the state.
    """

    txid: int

    def __new__(cls, time: Micros, txid: int = 0) -> EntryInstant:
        """Create the instant ``time`` of the entry ``txid``."""
        made = super().__new__(cls, time)
        made.txid = txid
        return made

    def __eq__(self, other: object) -> bool:
        # A plain time is another state, even if it is the same number.
        return isinstance(other, EntryInstant) and self.txid == other.txid and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((int(self), self.txid))

    def __format__(self, form: str) -> str:
        # Names of files and copies include what distinguishes states.
        return format(int(self), form) if form else f"{int(self)}-txid-{self.txid}"


def find_last_txid(at: Micros | None) -> int | None:
    """Return the txid of the last entry that belongs to the state at an instant; None if its time decides."""
    return at.txid if isinstance(at, EntryInstant) else None


def system_clock() -> Micros:
    """Return the time of the wall clock. Outside tests the program reads it only here."""
    return time.time_ns() // 1000


def build_fixed_clock(at: Micros) -> Clock:
    """Return a clock with a constant time, for --now and SOWCTL_NOW."""
    return lambda: at


def format_time(at: Micros) -> str:
    """Format ISO-8601 with microseconds and Z, as in all output: ``2026-01-02T03:04:05.678901Z``.

    A time outside the years 1 to 9999 is refused today, but old journals and stores may contain some. They are shown as
    the nearest time that can be formatted, so that their records can be read.
    """
    # Rounded down also before 1970, so that the microseconds are never negative.
    seconds, micros = divmod(min(max(at, MIN_MICROS), MAX_MICROS), MICROS_PER_SECOND)
    return f"{_format_whole_second(seconds)}.{micros:06}Z"


@lru_cache(256)
def _format_whole_second(seconds: int) -> str:
    # Cached: records that were published together share their second.
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"


def to_micros(at: datetime) -> Micros:
    """Return the instant of a datetime; one without a zone is UTC, like a text without one (behaviour 11.22)."""
    from datetime import UTC, datetime, timedelta

    since = datetime(1970, 1, 1, tzinfo=UTC)
    return ((at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - since) // timedelta(microseconds=1)


def to_datetime(at: Micros) -> datetime:
    """Return the instant as a datetime in UTC; outside the years 1 to 9999 the nearest that can be represented."""
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=min(max(at, MIN_MICROS), MAX_MICROS))


def to_expiry_datetime(at: Micros) -> datetime | None:
    """Return when a record expires, as a datetime in UTC; None if never, as in :func:`format_expiry`."""
    return to_datetime(at) if at and at <= MAX_MICROS else None


def format_expiry(at: Micros) -> str | None:
    """Return when a record expires; None if never: 0, and times after the year 9999, see :func:`compute_expiry`."""
    return format_time(at) if at and at <= MAX_MICROS else None


def compute_expiry(at: Micros, lifetime: Micros) -> Micros:
    """Return when a record expires that was published ``at``; 0 means never, also if that is after the year 9999.

    No clock reaches such a time, and no text can express it. :func:`format_expiry` treats stored times in the same way.
    """
    end = at + lifetime
    return end if end <= MAX_MICROS else 0


def format_milliseconds(at: int) -> str:
    """Format an instant stored as milliseconds since 1970; outside years 1-9999 the number itself."""
    micros = at * 1000
    return format_time(micros) if MIN_MICROS <= micros <= MAX_MICROS else str(at)


def parse_time(text: str, now: Clock) -> Micros:
    """Parse an instant: ISO-8601, extended or basic, FIX's UTCTimestamp and TZTimestamp, epoch with unit, relative,
    ``EPOCH``, ``NOW`` (``sowctl-messages(7)``, INSTANTS).

    A number with a sign is relative to now and one without to 1970, so instants before 1970 are written as dates. A
    text without a zone is UTC in every form, like all output. Digits after the microsecond, up to picoseconds, are
    truncated and not rounded, so that no instant moves to the next second. Raises :class:`~sowctl.errors.UsageError`
    ``SOW-VAL-010`` (no instant) or ``SOW-VAL-020`` (not within the years 1 to 9999).
    """
    try:
        # The bounds are checked for the result: no form of an instant can exceed them.
        at = _read_time(text, now)
    except (OverflowError, ValueError):  # a number of more digits than a float, or than Python reads
        at = MAX_MICROS + 1
    return require_time_in_range(at, text)


_WORD_DAYS = {"today": 0, "midnight": 0, "yesterday": -1, "tomorrow": 1}
"""Words for the start of a day, as days from today."""


def parse_instant(text: str, now: Clock) -> Micros:
    """Parse an instant that a person enters: what :func:`parse_time` accepts, ``today``, ``midnight``, ``yesterday``,
    ``tomorrow``, ``noon``, a time of today such as ``10:00``, or a day and a time: ``yesterday 10:00``.

    Days are in UTC. Messages do not allow such words: they would mean another instant every day. Raises the same errors
    as :func:`parse_time`.
    """
    found = _compile_day_pattern().fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return parse_time(text, now)
    day, noon, hour, minute, second, fraction = found.groups()
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        raise UsageError("SOW-VAL-010", f"{text!r} is not a time of day", hint="use 0:00 to 23:59:59")
    at = now() // _UNIT_MICROS["d"] + _WORD_DAYS[(day or "today").lower()]
    seconds = 43200 if noon else int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    micros = int((fraction or "")[:6].ljust(6, "0"))
    return require_time_in_range(int(at * _UNIT_MICROS["d"]) + seconds * MICROS_PER_SECOND + micros, text)


@cache
def _compile_day_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"({'|'.join(_WORD_DAYS)})?(?:(?:^|\s+)(?:(noon)|(\d\d?):(\d\d)(?::(\d\d)(?:{_FRACTION_PATTERN})?)?)\s*Z?)?",
        re.IGNORECASE | re.ASCII,
    )


def require_time_in_range(at: Micros, text: str) -> Micros:
    """Return an instant within the years 1 to 9999.

    Any other raises :class:`~sowctl.errors.UsageError` ``SOW-VAL-020``, which shows ``text``.
    """
    if MIN_MICROS <= at <= MAX_MICROS:
        return at
    raise UsageError(
        "SOW-VAL-020",
        f"{(text if len(text) < 60 else text[:60] + '...')!r} is outside the years 1 to 9999",
        hint="check the unit of numbers since 1970: s, ms, us or ns",
    )


@cache
def _instant_patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """The forms of an instant: relative, stamp, basic and FIX, ISO 8601. Compiled on demand: takes 1.4 ms at the start.

    Only ASCII digits and letters match: without the flag U+017F is an s if case is ignored.
    """
    return (
        re.compile(r"(?:now)?\s*([+-])\s*(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d|w)", re.IGNORECASE | re.ASCII),
        re.compile(r"(\d+(?:\.\d+)?)(s|ms|us|ns)", re.ASCII),
        # ISO 8601 without hyphens, and FIX, which has a hyphen before its time and colons in it.
        re.compile(
            r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)?|-(\d\d):(\d\d)(?::(\d\d))?)"
            rf"(?:(?:(?<=T\d{{6}})|(?<=:\d\d:\d\d)){_FRACTION_PATTERN})?{_ZONE_PATTERN}?",
            re.ASCII,
        ),
        re.compile(
            rf"(\d{{4}})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:{_FRACTION_PATTERN})?)?)?\s*{_ZONE_PATTERN}?",
            re.ASCII,
        ),
    )


def _read_time(text: str, now: Clock) -> Micros:
    """Parse an instant of any year, in microseconds. Raises OverflowError and ValueError for huge numbers."""
    word = text.strip()
    if word.upper() == "EPOCH":
        return 0
    if word.upper() == "NOW":
        return now()
    relative, stamp, basic, iso = _instant_patterns()
    if match := relative.fullmatch(word):
        delta = round(float(match[2]) * _UNIT_MICROS[match[3].lower()])
        return now() + (delta if match[1] == "+" else -delta)
    if match := stamp.fullmatch(word):
        return parse_epoch(match[1], match[2])
    if match := basic.fullmatch(word):
        date, plain, colons = match.groups()[:3], match.groups()[3:6], match.groups()[6:9]
        parts = [part or "0" for part in (*date, *(plain if plain[0] else colons))]
        return _build_instant(text, parts, (match[10] or "")[:6], _parse_zone(match[11]))
    if match := iso.fullmatch(word):
        # A date without a time is its midnight.
        parts = [part or "0" for part in match.groups()[:6]]
        return _build_instant(text, parts, (match[7] or "")[:6], _parse_zone(match[8]))
    raise UsageError(
        "SOW-VAL-010",
        f"{text!r} is not an instant",
        hint="examples: 2026-01-02T03:04:05Z, 20260102-03:04:05.678, 1767323045s, 1767323045678ms, -15m, 10:00, today, "
        "NOW, EPOCH",
    )


def parse_epoch(text: str, unit: str) -> Micros:
    """Return the instant of a decimal number since 1970, of any sign; ``unit`` is one of :data:`EPOCH_UNITS`.

    Fractions of a microsecond are truncated. Raises :class:`~sowctl.errors.UsageError` ``SOW-VAL-010`` if the text is
    not a number, ``SOW-VAL-020`` outside the years 1 to 9999.
    """
    # Most are integers, which need no decimals: this takes a fifth of the time.
    if len(text) <= _MAX_PLAIN_DIGITS and text.isascii() and text.isdecimal():
        shift = _UNIT_DECIMAL_SHIFTS[unit]
        number_us = int(text) * 10**shift if shift >= 0 else int(text) // 10**-shift
        return require_time_in_range(number_us, text)
    # Decimals, not doubles: as a double a current instant in nanoseconds loses its last digits.
    from decimal import Context, Decimal, InvalidOperation

    try:
        number = (
            Decimal(text.strip()) if len(text) <= _MAX_EPOCH_DIGITS and text.isascii() and "_" not in text else None
        )
    except InvalidOperation:
        number = None
    if len(text) > _MAX_EPOCH_DIGITS and text.replace(".", "", 1).isdecimal():
        return require_time_in_range(MAX_MICROS + 1, text)
    if number is None or not number.is_finite():
        words = f"{text[:60]!r} is not a number of {EPOCH_UNITS[unit]} since 1970"
        raise UsageError("SOW-VAL-010", words, hint="for example 1767323045.678901 with s, 1767323045678 with ms")
    # The exponent is checked first: a number of a million digits would not fit into memory.
    if number.adjusted() > _MAX_EPOCH_EXPONENT:
        return require_time_in_range(MAX_MICROS + 1, text)
    at = number.scaleb(_UNIT_DECIMAL_SHIFTS[unit], Context(prec=_MAX_EPOCH_DIGITS))
    return require_time_in_range(int(at.to_integral_value("ROUND_FLOOR", Context(prec=_MAX_EPOCH_DIGITS))), text)


def _parse_zone(text: str | None) -> timezone:
    from datetime import UTC, timedelta, timezone

    if text is None or text in "Zz":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[3:].removeprefix(":") or 0)
    if minutes >= 24 * 60:
        raise UsageError("SOW-VAL-010", f"{text!r} is not a time zone offset", hint="use for example +02:00")
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _build_instant(text: str, parts: list[str], fraction: str, zone: timezone) -> Micros:
    from datetime import UTC, datetime, timedelta

    year, month, day, hour, minute, second = map(int, parts)
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError as error:
        raise UsageError("SOW-VAL-010", f"{text!r} is not an instant: {error}") from None
    return (whole - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) + int(fraction.ljust(6, "0") or 0)
