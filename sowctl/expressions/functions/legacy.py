"""Date functions of the legacy compatibility module, available in configurations that load it.

Instants are seconds since 1970 and dates are integers of eight digits, 20260105. Dates are of UTC, ``DATE`` and
``TODAY`` of the local time zone (``sowctl-expressions(7)``, functions of modules).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta

from sowctl.expressions.environment import Environment
from sowctl.expressions.functions.signature import Function, declare_function
from sowctl.values.times import EPOCH, MICROS_PER_SECOND

LEGACY_LIBRARY = "udf_legacy_compatibility"
"""A module whose Library contains this name provides these functions."""
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799
"""The seconds of the years 1 to 9999."""


def _utc_datetime(seconds: int | float) -> datetime | None:
    """The instant in UTC, None outside of the years 1 to 9999."""
    if not math.isfinite(seconds) or not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        return None
    return EPOCH + timedelta(seconds=math.floor(seconds))


def _date_part_function(read: Callable[[datetime], int]) -> Callable[[int | float], int | None]:
    def part(seconds: int | float) -> int | None:
        at = _utc_datetime(seconds)
        return None if at is None else read(at)

    return part


def _date_digits(at: datetime) -> int:
    return at.year * 10_000 + at.month * 100 + at.day


def date_utc(seconds: int | float) -> int | None:
    """The date of an instant as eight digits."""
    at = _utc_datetime(seconds)
    return None if at is None else _date_digits(at)


def date(environment: Environment, seconds: int | float) -> int | None:
    """The date of an instant in the local time zone as eight digits."""
    at = _utc_datetime(seconds)
    # The instant is shifted by the zone's offset and read as UTC, which gives the local date.
    return None if at is None else date_utc(math.floor(seconds) + environment.offset(math.floor(seconds)))


def timezone_offset(environment: Environment) -> int:
    """Seconds that local time is ahead of UTC at the clock of the run."""
    return environment.offset(environment.read_clock() // MICROS_PER_SECOND)


def today(environment: Environment) -> int | None:
    """The local date of the clock of the run."""
    return date(environment, environment.read_clock() // MICROS_PER_SECOND)


def today_utc(environment: Environment) -> int | None:
    """The date of the clock of the run."""
    return date_utc(environment.read_clock() // MICROS_PER_SECOND)


def _legacy_clock_function(name: str, call: Callable[[Environment], object], doc: str) -> Function:
    return declare_function(name, call, "", "number", doc, gets="environment", deterministic=False)


LEGACY_FUNCTIONS = (
    declare_function(
        "YEAR", _date_part_function(lambda at: at.year), "number", "number", "year of an instant in seconds, UTC"
    ),
    declare_function(
        "MONTH", _date_part_function(lambda at: at.month), "number", "number", "month of an instant, 1 to 12, UTC"
    ),
    declare_function(
        "DAY", _date_part_function(lambda at: at.day), "number", "number", "day of the month of an instant, UTC"
    ),
    declare_function("DATE_UTC", date_utc, "number", "number", "date of an instant as eight digits, UTC"),
    declare_function(
        "DATE", date, "number", "number", "date of an instant as eight digits, local time", gets="environment"
    ),
    _legacy_clock_function("TIMEZONEOFFSET", timezone_offset, "seconds that local time is ahead of UTC"),
    _legacy_clock_function("TODAY", today, "today's date as eight digits, local time"),
    _legacy_clock_function("TODAY_UTC", today_utc, "today's date as eight digits, UTC"),
)
