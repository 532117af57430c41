"""Inputs of an expression besides the message: clock of the run, names of the instance, a record's header."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from msgspec import Struct

from sowctl.expressions.syntax.errors import BoundExceededError
from sowctl.values.times import Micros

MAX_PATTERN_STEPS = 1_000_000_000
"""Steps of long pattern matches in one run: a few seconds of work (``sowctl-expressions(7)``, limits)."""
MAX_RECORD_STEPS = 100_000
"""Additional steps for each examined record, about 0.3 ms: a run is not ended for the length of its scan."""
MAX_VALUE_BYTES = 64 << 20
"""Maximum size in bytes of a text created by a function: no message may be longer, either."""
MAX_BATCH_BYTES = 512 << 20
"""Maximum bytes of long texts that functions create for one batch of messages, all of which may be held at once."""
LONG_TEXT_BYTES = 64 << 10
"""Shorter texts are not counted: those of one batch take no more memory than its messages may."""


class EvaluationLimits(Struct, frozen=True):
    """Bounds of one evaluation run: one query, deletion or view's refresh, or one task of a job.

    ``pattern_steps`` of long matches in total, and ``record_steps`` more for each examined record; ``value_bytes`` of
    one text that a function creates, ``batch_bytes`` of all long ones in one batch of messages; ``seconds`` since the
    first message, None for no bound.
    """

    pattern_steps: int = MAX_PATTERN_STEPS
    record_steps: int = MAX_RECORD_STEPS
    value_bytes: int = MAX_VALUE_BYTES
    batch_bytes: int = MAX_BATCH_BYTES
    seconds: float | None = None


DEFAULT_LIMITS = EvaluationLimits()
TIME_LIMIT_CODE = "SOW-EXP-036"


def compute_local_offset(seconds: int) -> int:
    """Seconds that the local time zone is ahead of UTC at an instant."""
    return time.localtime(seconds).tm_gmtoff


class Environment(Struct):
    """One evaluation run. ``now`` is read at most once; ``random`` returns n random bytes (used only by UUID7);
    ``offset`` returns the seconds that local time is ahead of UTC at an instant in seconds (used only by functions of
    modules). ``limits`` bound the work of the run, or of each batch of messages if it is ``endless``; ``examined``
    counts the records of whole batches for which bounded expressions were evaluated."""

    now: Callable[[], Micros]
    instance_name: str | None = None
    group_name: str | None = None
    random: Callable[[int], bytes] = os.urandom
    offset: Callable[[int], int] = compute_local_offset
    limits: EvaluationLimits = DEFAULT_LIMITS
    endless: bool = False
    timer: Callable[[], float] = time.monotonic
    _reading: Micros | None = None
    examined: int = 0
    _steps: int = 0
    _batch_bytes: int = 0
    _end: float | None = None

    def read_clock(self) -> Micros:
        """The clock of the run in microseconds since 1970 UTC, the same at every call."""
        # Read once per run: two calls in one expression, or for two records, must agree.
        if self._reading is None:
            self._reading = self.now()
        return self._reading

    def begin_batch(self) -> None:
        """Begin a batch of messages. Raises BoundExceededError if the time is exceeded."""
        self._batch_bytes = 0
        if self.endless:
            self._steps, self.examined, self._end = 0, 0, None
        if self.limits.seconds is None:
            return
        now = self.timer()
        if self._end is None:
            self._end = now + self.limits.seconds
        if now > self._end:
            raise BoundExceededError(TIME_LIMIT_CODE, f"the evaluation took longer than {self.limits.seconds:g} s")

    @property
    def steps(self) -> int:
        """The number of counted steps."""
        return self._steps

    def reset_steps(self, steps: int) -> None:
        """Set the count back to ``steps``: the work since then is repeated by another method."""
        self._steps = steps

    def spend_steps(self, steps: int) -> None:
        """Count ``steps`` of a pattern match. Raises BoundExceededError if the run exceeds its steps."""
        self._steps += steps
        most = self.limits.pattern_steps + self.examined * self.limits.record_steps
        if self._steps > most:
            words = f"patterns took more than {most:,} steps"
            raise BoundExceededError("SOW-EXP-034", words)

    def count_text(self, size: int) -> None:
        """Count a text of ``size`` bytes before a function creates it. Raises BoundExceededError."""
        if size <= LONG_TEXT_BYTES:
            return
        if size > self.limits.value_bytes:
            words = f"a function makes a text of more than {self.limits.value_bytes:,} bytes"
            raise BoundExceededError("SOW-EXP-035", words)
        self._batch_bytes += size
        if self._batch_bytes > self.limits.batch_bytes:
            words = f"functions make more than {self.limits.batch_bytes:,} bytes of long texts for one batch"
            raise BoundExceededError("SOW-EXP-035", words)


class Header(Struct, frozen=True):
    """Header fields of a record for message functions; times in microseconds since 1970 UTC, None if not stored."""

    topic: str | None = None
    sow_key: str | None = None
    sow_key_hash: str | None = None
    bookmark: str | None = None
    correlation_id: str | bytes | None = None
    last_updated: Micros | None = None
    last_read: Micros | None = None
    last_leased: Micros | None = None
    lease_count: int | None = None
    payload_size: int | None = None
    client_name: str | None = None
    user: str | None = None
    remote_address: str | None = None
    client_version: str | None = None
    connection_name: str | None = None


NO_HEADER = Header()
