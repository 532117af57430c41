"""Texts of options to the values that the engine takes: instants, txids, lifetimes, sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sowctl.cli.context import Invocation
from sowctl.errors import UsageError
from sowctl.values.times import Micros, parse_time
from sowctl.values.units import parse_interval, parse_size


class Position(NamedTuple):
    """A place in the log: a txid or an instant; the other is None, or both are."""

    txid: int | None = None
    time: Micros | None = None


def instant(invocation: Invocation, text: str | None) -> Micros | None:
    """The instant of ``--at``. Raises UsageError; ``SOW-CLI-021`` for a bare number, which could be anything."""
    if text is not None and text.strip().isdecimal():
        raise UsageError(
            "SOW-CLI-021", f"{text} names no time", hint=f"with a unit it does: {text}s or {text}ms since 1970"
        )
    return None if text is None else parse_time(text, invocation.clock)


def position(invocation: Invocation, text: str | None) -> Position:
    """A txid (a bare number) or an instant. Raises UsageError."""
    if text is None:
        return Position()
    if text.strip().isdecimal():
        return Position(txid=int(text))
    return Position(time=parse_time(text, invocation.clock))


def seconds(name: str, text: str | None) -> float | None:
    """An interval such as ``5m`` in seconds. Raises UsageError ``SOW-CLI-022``."""
    nanoseconds = _number(name, text, parse_interval)
    return None if nanoseconds is None else nanoseconds / 1e9


def size(name: str, text: str | None) -> int | None:
    """A size such as ``64MB`` in bytes. Raises UsageError ``SOW-CLI-022``."""
    return _number(name, text, parse_size)


def _number(name: str, text: str | None, parse: Callable[[str], int]) -> int | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise UsageError("SOW-CLI-022", f"{name}: {error}") from None
