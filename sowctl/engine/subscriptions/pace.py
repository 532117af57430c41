"""The rate of a replay: messages or bytes a second, or a multiple of the recorded pace.

Called by the subscription for what it replays; what comes live is not held back. Clocks and sleeping are the caller's.
Ruled by ``behaviour`` 4.6.
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
"""Seconds by which a replay that was held up may be behind and hurry on; beyond them it goes on at its rate."""


class Rate(Struct, frozen=True):
    """``amount`` messages or bytes a second; or the recorded pace, ``amount`` times as fast."""

    amount: float
    unit: RateUnit


def parse_rate(text: str) -> Rate:
    """Read a rate: ``1000`` messages, ``500KB`` a second, ``2X`` or ``.5X``. Raises UsageError ``SOW-FOL-020``."""
    match = _RATE_PATTERN.fullmatch(text.strip())
    if match is not None:
        number, unit = match[1], match[2].lower()
        try:
            if unit == "x":
                rate = Rate(float(number), "times")
            elif unit:
                # Units of sizes have digits before the point.
                rate = Rate(float(parse_size(f"0{number}{unit}")), "bytes")
            else:
                rate = Rate(float(number), "messages")
            if 0 < rate.amount < float("inf"):
                return rate
        except ValueError:
            pass
    raise UsageError("SOW-FOL-020", f"{text!r} is not a rate", hint="write it like 1000, 500KB, 2X or .5X")


class ReplayPace:
    """Tells message by message how long to wait. ``longest``: seconds between two messages at most.

    ``monotonic`` is a clock in seconds that only goes on.
    """

    def __init__(self, rate: Rate, longest: float | None, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._longest = longest
        self._monotonic = monotonic
        # When the message before was due, and when it was recorded. The first one is due at once.
        self._due: float | None = None
        self._recorded = 0
        self._next = 0.0

    def compute_wait(self, recorded: int, size: int) -> float:
        """Return the seconds until the next message is due, 0 if it is; call it once for each message, in their order.

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
            # Counted from when the one before was due, so that pauses which are too long by a little do not add up.
            self._due = max(self._due + gap, now - MAX_CATCH_UP_SECONDS)
        self._recorded = max(recorded, self._recorded)
        self._next = (size if self._rate.unit == "bytes" else 1) / self._rate.amount
        return max(self._due - now, 0.0)

    @property
    def _is_recorded_pace(self) -> bool:
        return self._rate.unit == "times"

    def count_ready(self, recorded: Sequence[int], sizes: Sequence[int]) -> tuple[int, float]:
        """Return how many messages may go now, and the seconds until the next of them; 0 where none is left.

        The message that has to wait is known already: it goes when the time is over.
        """
        for place, (time, size) in enumerate(zip(recorded, sizes, strict=True)):
            pause = self.compute_wait(time, size)
            if pause:
                return place, pause
        return len(recorded), 0.0
