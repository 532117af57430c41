"""When an action of the configuration is due: the texts of ``Every`` as values (``sow-config(5)``, ``sow-upkeep(5)``).

An interval, a time of day, or a weekday and a time of day, in UTC or in the time of the machine. Read by the checks of
configurations and by the runs of actions.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sowctl.structs import DescribedStruct
from sowctl.values.units import parse_interval

if TYPE_CHECKING:
    from sowctl.values.times import Micros

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_AT_PATTERN = re.compile(
    rf"(?:(?P<day>{'|'.join(DAYS)})\s+at\s+)?(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?P<utc>Z?)",
    re.IGNORECASE | re.ASCII,
)
_SECOND_MICROS: Micros = 1_000_000


class Schedule(DescribedStruct, frozen=True):
    """When an action is due: every ``interval`` microseconds; else each day at ``hour`` and ``minute``, or on one
    ``weekday`` (0 is Monday), in UTC or in the time of the machine."""

    text: str
    interval: Micros | None = None
    weekday: int | None = None
    hour: int = 0
    minute: int = 0
    utc: bool = False

    def is_due(self, last: Micros, now: Micros) -> bool:
        """Return True if the action is due at ``now``; ``last`` is the time of its last run, 0 for never."""
        return now >= self.find_due_time(last, now)

    def find_due_time(self, last: Micros, now: Micros) -> Micros:
        """The instant at which the action is due after its run at ``last``; ``now`` if it never ran.

        If several instants have passed, the last one counts: missed runs are made up for once.
        """
        if not last:
            return now
        if self.interval is not None:
            return last + self.interval
        passed = self._instant(now, 0)
        return passed if last < passed <= now else self._instant(max(now, last), 1)

    def _instant(self, around: Micros, which: int) -> Micros:
        """The last instant up to ``around`` (0), or the first one after it (1)."""
        zone = UTC if self.utc else None
        day = datetime.fromtimestamp(around // _SECOND_MICROS, zone).replace(
            hour=self.hour, minute=self.minute, second=0
        )
        # The days from 8 before to 8 after include every weekday, even if clocks are changed within them.
        instants = sorted(
            int((day + timedelta(days=shift)).replace(fold=0).timestamp()) * _SECOND_MICROS
            for shift in range(-8, 9)
            if self.weekday is None or (day + timedelta(days=shift)).weekday() == self.weekday
        )
        if which:
            return next(instant for instant in instants if instant > around)
        return next(instant for instant in reversed(instants) if instant <= around)


def parse_every(text: str) -> Schedule:
    """The value of a text: ``4h``, ``03:00``, ``Sunday at 03:00Z``. Raises ValueError."""
    found = _AT_PATTERN.fullmatch(text.strip())
    if found is None:
        try:
            interval = parse_interval(text) // 1000
        except ValueError:
            raise ValueError(f"{text!r} is not an interval, HH:MM[Z] or 'Weekday at HH:MM[Z]'") from None
        return Schedule(text, interval=interval)
    weekday = DAYS.index(found["day"].lower()) if found["day"] else None
    return Schedule(text, None, weekday, int(found["hour"]), int(found["minute"]), bool(found["utc"]))
