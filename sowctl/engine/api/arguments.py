"""Arguments of callers - times, intervals, keys, messages - converted to arguments of verbs.

A text instead of a list of texts would be read as a list of its letters, and would silently match nothing: a wrong type
raises TypeError before a store is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload

from sowctl.errors import InputError, UsageError
from sowctl.values.times import format_time, require_time_in_range, to_micros
from sowctl.values.units import INTERVAL_NANOSECONDS, MAX_COUNT, MAX_INTERVAL_NANOSECONDS, parse_seconds

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.messages.base import MessageType
    from sowctl.values.times import Micros

At: TypeAlias = "datetime | int | str"
"""An instant: a datetime (UTC if it has no time zone), microseconds since 1970 UTC, or a text as for ``--at``: a time,
a bookmark, or the txid of an entry."""
Interval: TypeAlias = "timedelta | float | str"
"""An interval: a timedelta, seconds, or a text such as ``500ms``, ``30s`` or ``5m``."""
Key: TypeAlias = "str | int"
"""A key as on the command line: a SOW key, else the text of the key field, several fields joined by commas. An int is a
SOW key as in the attribute ``sow_key`` of a record."""
Message: TypeAlias = "bytes | bytearray | memoryview | str | Mapping[str, Any]"
"""A message: its bytes, its text, or its fields."""


class ArrowStream(Protocol):
    """A data frame, table or result whose rows can be read as Arrow data."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A batch of rows of Arrow data."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


Messages: TypeAlias = "Iterable[Message] | ArrowStream | ArrowArray"
"""Messages to publish: any iterable of messages, or Arrow data with one message per row."""


def parse_instant(instance: Instance, at: At | None) -> Micros | None:
    """Return an instant in microseconds UTC, None for the present.

    Raises TypeError, and UsageError for an invalid text and (``SOW-VAL-020``) outside the years 1 to 9999.
    """
    if isinstance(at, datetime):
        return to_micros(at)
    if isinstance(at, str):
        from sowctl.engine.topics.log_places import parse_moment

        return parse_moment(at, instance.clock).resolve_time(instance)
    # True would be the first microsecond of 1970.
    if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
        kind = type(at).__name__
        words = "at must be a datetime, microseconds since 1970 (int) or a text such as '2026-01-05T10:00:00Z'"
        raise TypeError(f"{words}, not {kind}")
    return None if at is None else require_time_in_range(at, str(at))


def format_time_text(name: str, at: datetime | str | None) -> str | None:
    """Return a datetime as text for an option of the command line; a text is returned unchanged. Raises TypeError."""
    if at is not None and not isinstance(at, datetime | str):
        raise TypeError(f"{name} must be a datetime or a text such as '2026-01-05T10:00:00Z', not {type(at).__name__}")
    return format_time(to_micros(at)) if isinstance(at, datetime) else at


def convert_interval(name: str, interval: Interval | None) -> float | None:
    """Return an interval in seconds, at most 10,000 years: no date is further away.

    Raises UsageError ``SOW-CLI-006`` for an invalid text, and TypeError.
    """
    if isinstance(interval, timedelta):
        interval = interval.total_seconds()
    if isinstance(interval, str):
        try:
            return parse_seconds(interval)
        except ValueError as error:
            raise UsageError("SOW-CLI-006", f"{name}: {error}", hint="write it like 500ms, 10s or 5m") from None
    if interval is not None and (isinstance(interval, bool) or not isinstance(interval, int | float)):
        raise TypeError(f"{name} must be a timedelta, seconds or a text such as '30s', not {type(interval).__name__}")
    if interval is not None and not (interval >= 0 and interval != inf):
        raise UsageError("SOW-CLI-006", f"{name} must be a number of seconds, at least 0, not {interval}")
    return None if interval is None else min(interval, MAX_INTERVAL_NANOSECONDS // INTERVAL_NANOSECONDS["s"])


def require_text(name: str, value: str | None) -> str | None:
    """Return a text or None. Raises TypeError for anything else."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value


def require_count(name: str, value: int, least: int, most: int = MAX_COUNT) -> int:
    """Return an integer, also from numpy. Raises TypeError, and UsageError ``SOW-CLI-006`` outside the bounds."""
    # True would be 1, which hides a mistake.
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    number = value.__index__()
    if not least <= number <= most:
        raise UsageError("SOW-CLI-006", f"{name} must be an integer from {least} to {most}, not {number}")
    return number


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return one of some words. Raises TypeError unless it is a text, and UsageError ``SOW-CLI-006`` for any other
    word."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if value not in choices:
        raise UsageError("SOW-CLI-006", f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


@overload
def format_keys(what: str, keys: Collection[Key], call: str) -> tuple[str, ...]: ...
@overload
def format_keys(what: str, keys: Collection[Key] | None, call: str) -> tuple[str, ...] | None: ...
def format_keys(what: str, keys: Collection[Key] | None, call: str) -> tuple[str, ...] | None:
    """Return the texts of ``keys``, which are texts or ints as in the attribute ``sow_key`` of records; None for None.

    Raises TypeError with a hint how to ``call``.
    """
    if keys is None:
        return None
    if isinstance(keys, str | bytes | bytearray | memoryview) or not isinstance(keys, Collection):
        raise TypeError(f"{what} must be a list, not {type(keys).__name__}: {call}")
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise TypeError(f"each of {what} must be a str or the int of a SOW key, not {type(key).__name__}")
    return tuple(map(str, keys))


def encode_payloads(messages: Iterable[Message], kind: MessageType) -> tuple[bytes, ...]:
    """Return the messages as bytes. Raises TypeError as publishing them does."""
    from sowctl.engine.writing.batches import ListSource

    source = ListSource(messages, call="delete(data=[message])", encode=build_encoder(kind))
    taken: list[bytes] = []
    while (chunk := source.poll()) is not None:
        taken += chunk.payloads
    return tuple(taken)


def build_encoder(kind: MessageType) -> Callable[[object], bytes]:
    """Return a function that encodes a message of a type that is not bytes: a text, or fields by name.

    It raises TypeError for anything else, and for fields if messages of the type cannot be constructed from fields.
    """

    def encode(message: object) -> bytes:
        if isinstance(message, str):
            try:
                return message.encode()
            except UnicodeEncodeError as problem:
                words = f"a message has an unpaired surrogate at index {problem.start}: {message[problem.start]!r}"
                raise InputError("SOW-MSG-009", words) from None
        if not isinstance(message, Mapping):
            raise TypeError(f"a message must be bytes, str or dict, not {type(message).__name__}")
        if not kind.constructible:
            raise TypeError(f"messages of type {kind.name} cannot be constructed from a dict: pass bytes")
        from sowctl.messages.native_values import build_message

        return build_message(message, kind)

    return encode
