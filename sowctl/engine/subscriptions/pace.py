"""The rate of a replay: messages or bytes per second, or a multiple of the recorded pace.

Called by the subscription for replayed messages; live messages are not delayed. The caller provides the clock and
sleeps. Specified in ``behaviour`` 4.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.values.times import MICROS_PER_SECOND
from sowctl.values.units import parse_size

RateUnit = Literal["messages", "bytes", "times"]
_RATE_PATTERN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", re.IGNORECASE | re.ASCII)
MAX_CATCH_UP_SECONDS = 0.1
"""Maximum seconds that a delayed replay catches up by exceeding its rate; a longer delay is not caught up."""


class Rate(Struct, frozen=True):
    """``amount`` messages or bytes per second; or the recorded pace, ``amount`` times as fast."""

    amount: float
    unit: RateUnit


def parse_rate(text: str) -> Rate:
    """Parse a rate: ``1000`` messages, ``500KB`` per second, ``2X`` or ``.5X``. Raises UsageError ``SOW-FOL-020``."""
    match = _RATE_PATTERN.fullmatch(text.strip())
    if match is not None:
        number, unit = match[1], match[2].lower()
        try:
            if unit == "x":
                rate = Rate(float(number), "times")
            elif unit:
                # Size units require digits before the point.
                rate = Rate(float(parse_size(f"0{number}{unit}")), "bytes")
            else:
                rate = Rate(float(number), "messages")
            if 0 < rate.amount < float("inf"):
                return rate
        except ValueError:
            pass
    raise UsageError("SOW-FOL-020", f"{text!r} is not a rate", hint="write it like 1000, 500KB, 2X or .5X")


class ReplayPace:
    """Computes the wait before each message. ``longest``: maximum seconds between two messages.

    ``monotonic`` is a monotonic clock in seconds.
    """

    def __init__(self, rate: Rate, longest: float | None, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._longest = longest
        self._monotonic = monotonic
        # When the previous message was due, and when it was recorded. The first message is due immediately.
        self._due: float | None = None
        self._recorded = 0
        self._next = 0.0

    def compute_wait(self, recorded: int, size: int) -> float:
        """Return the seconds until the next message is due, 0 if it is due; call it once for each message, in order.

        ``recorded``: its time in microseconds UTC; ``size``: the bytes of its payload.
        """
        now = self._monotonic()
        if self._due is None:
            self._due = now
        else:
            gap = (
                max(recorded - self._recorded, 0) / MICROS_PER_SECOND / self._rate.amount
                if self._is_recorded_pace
                else self._next
            )
            if self._longest is not None:
                gap = min(gap, self._longest)
            # Relative to the time at which the previous message was due, so that small oversleeps do not add up.
            self._due = max(self._due + gap, now - MAX_CATCH_UP_SECONDS)
        self._recorded = max(recorded, self._recorded)
        self._next = (size if self._rate.unit == "bytes" else 1) / self._rate.amount
        return max(self._due - now, 0.0)

    @property
    def _is_recorded_pace(self) -> bool:
        return self._rate.unit == "times"

    def count_ready(self, recorded: Sequence[int], sizes: Sequence[int]) -> tuple[int, float]:
        """Return the number of messages that are due, and the seconds until the next one is; 0 if all are due.

        The message after them is accounted for: deliver it when the wait is over.
        """
        for place, (time, size) in enumerate(zip(recorded, sizes, strict=True)):
            pause = self.compute_wait(time, size)
            if pause:
                return place, pause
        return len(recorded), 0.0
