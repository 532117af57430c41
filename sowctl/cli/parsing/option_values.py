"""Parse texts of options to engine values: instants, txids, keys, lifetimes, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.values.times import Micros, parse_instant
from sowctl.values.units import parse_seconds, parse_size, parse_whole_number

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.log_places import Moment

T = TypeVar("T")
FUTURE_TOLERANCE_US = 1_000_000
"""Microseconds by which the clocks of machines that share files may differ without a note."""


class LogPosition(Struct, frozen=True):
    """A position in the log: a txid or an instant; the other is None, or both are. ``bookmark`` is not resolved yet."""

    txid: int | None = None
    time: Micros | None = None
    bookmark: str | None = None

    def resolve(self, instance: Instance, directory: str | None = None) -> LogPosition:
        """Resolve the bookmark to the txid of its entry, in the journals of the instance or in ``directory``.

        NOW is unchanged. Raises MissingError ``SOW-ENG-070``.
        """
        if self.bookmark is None:
            return self
        from sowctl.engine.topics.log_places import find_log_place
        from sowctl.remote.place import parse_place

        place = find_log_place(instance, self.bookmark, None if directory is None else parse_place(directory))
        return LogPosition() if place is None else LogPosition(txid=place.txid)


def parse_at_option(invocation: Invocation, text: str | None) -> Moment:
    """Parse ``--at``; a note is printed for a future time, whose state is the present one. Raises UsageError."""
    from sowctl.engine.topics.log_places import parse_moment

    found = parse_moment(text, invocation.clock)
    if found.time is not None and found.time > invocation.clock() + FUTURE_TOLERANCE_US:
        from sowctl.values.times import format_time

        invocation.note_once(f"{text} is {format_time(found.time)}, which has not come yet: this is the current state")
    return found


def parse_position(invocation: Invocation, text: str | None) -> LogPosition:
    """Parse a txid (a bare number or ``txid:N``), a bookmark or an instant. Raises UsageError."""
    if text is None:
        return LogPosition()
    # Only bookmarks contain a bar, and only txids are bare numbers: no text is ambiguous.
    if "|" in text:
        from sowctl.identity.bookmarks import parse_bookmark

        parse_bookmark(text)
        return LogPosition(bookmark=text)
    from sowctl.engine.topics.log_places import parse_txid

    if (txid := parse_txid(text)) is not None:
        return LogPosition(txid=txid)
    return LogPosition(time=parse_instant(text, invocation.clock))


def refuse_file_order(text: str | None) -> None:
    """Reject the name of a file as a sort order, if ``-o`` was meant to name the output. Raises UsageError."""
    if text is None or text.lstrip().startswith("/") or "." not in text:
        return
    from sowctl.output.exports import find_file_format

    if find_file_format(text).ending is not None:
        raise UsageError(
            "SOW-CLI-003",
            f"invalid value for '--order-by': {text!r} names a file",
            hint=f"to write to this file: --output {text}",
        )


def parse_range(name: str, text: str | None, only: str = "both") -> tuple[int, int] | None:
    """Parse ``N:M``; a single ``M`` is M to M, or with ``only="last"`` 1 to M. Raises UsageError ``SOW-CLI-018``."""
    if text is None:
        return None
    low, colon, high = text.partition(":")
    first, last = parse_whole_number(low), parse_whole_number(high if colon else low)
    if not first or last is None:
        raise UsageError("SOW-CLI-018", f"{name} {text!r} is not a range", hint="use for example 10 or 1000:1010")
    if last < first:
        raise UsageError(
            "SOW-CLI-018", f"{name} {text} is empty: it ends before it starts", hint="use for example 1000:1010"
        )
    return (1 if only == "last" and not colon else first), last


def parse_sow_keys(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Parse the values of ``--sow-key``: each is one key, or a list with commas."""
    from sowctl.engine.search.keytext import split_keys

    return tuple(key for text in texts or () for key in split_keys(text))


def parse_interval(name: str, text: str | None) -> float | None:
    """Parse an interval such as ``5m`` to seconds. Raises UsageError ``SOW-CLI-022``."""
    return _parse_number(name, text, parse_seconds, "use for example 30, 500ms, 5m or 2h")


def parse_bytes(name: str, text: str | None) -> int | None:
    """Parse a size such as ``64MB`` to bytes. Raises UsageError ``SOW-CLI-022``."""
    return _parse_number(name, text, parse_size, "use for example 4096, 64KB or 10MB")


def _parse_number(name: str, text: str | None, parse: Callable[[str], T], hint: str) -> T | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise UsageError("SOW-CLI-022", f"{name}: {error}", hint=hint) from None
