"""What an expression may know besides the message: the clock of the run, names of the instance, a record's header."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from msgspec import Struct

from sowctl.values.times import Micros


def local_offset(seconds: int) -> int:
    """Seconds that the local time zone is ahead of UTC at an instant."""
    return time.localtime(seconds).tm_gmtoff


class Environment(Struct):
    """One evaluation run. ``now`` is read at most once; ``random`` gives n random bytes (only UUID7 asks); ``offset``
    gives the seconds that local time is ahead of UTC at an instant in seconds (only functions of modules ask)."""

    now: Callable[[], Micros]
    instance_name: str | None = None
    group_name: str | None = None
    random: Callable[[int], bytes] = os.urandom
    offset: Callable[[int], int] = local_offset
    _reading: Micros | None = None

    def reading(self) -> Micros:
        """The clock of the run in microseconds since 1970 UTC, the same at every call."""
        # One reading for the run: two calls in one expression, or in two records, must agree.
        if self._reading is None:
            self._reading = self.now()
        return self._reading


class Header(Struct, frozen=True):
    """What message functions ask of a record; times in microseconds since 1970 UTC, None where not kept."""

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
