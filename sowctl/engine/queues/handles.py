"""Handles of messages and their leases, and the outcomes of operations on them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Outcome: TypeAlias = Literal[
    "done", "stale", "unknown", "deferred", "leased", "not leased", "max_cancels", "max_deliveries"
]
"""``done``, or why not; the last two: the message was returned and is dead."""


class Lease(Struct, frozen=True):
    """A leased message. ``until`` microseconds UTC, NEVER without an end; ``place`` is that of its payload."""

    txid: int
    name: tuple[int, int]
    token: int
    until: int
    deliveries: int
    cancels: int
    place: tuple[int, int, int]
    barrier: bool = False


class CommandFailure(Struct, frozen=True):
    """The failure of a worker's command: its exit status, and the end of its standard error."""

    exit_status: int
    stderr: str = ""


class MessageHandle(Struct, frozen=True):
    """A reference to a message: by its bookmark, by the token of a lease, or both. ``delay_us`` and ``failure`` are for
    cancels."""

    name: tuple[int, int]
    token: int | None = None
    delay_us: int = 0
    failure: CommandFailure | None = None
