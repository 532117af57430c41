"""Bookmark texts, which say where a subscription starts and ends (``behaviour`` 4.6, 11.59), as values.

A position is EPOCH ``0``, NOW ``0|1|``, the bookmark of an entry ``publisher|sequence|``, a txid (a bare number) or a
time. A comma-separated list is one position; a range ``[b:e)`` has two, each of which may be a list. ``recent`` is the
position in a bookmark store. :mod:`sowctl.engine.subscriptions.spans` resolves positions to entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from sowctl.engine.topics.log_places import parse_txid
from sowctl.errors import UsageError
from sowctl.identity.bookmarks import EPOCH, NOW, Bookmark, parse_bookmark
from sowctl.values.times import format_time, parse_instant, parse_time
from sowctl.values.units import parse_whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from sowctl.values.times import Clock, Micros

__all__ = [
    "EPOCH",
    "NOW",
    "RECENT_RANGE",
    "Bookmark",
    "BookmarkRange",
    "Mark",
    "RangeBound",
    "TimeMark",
    "TxidMark",
    "parse_bookmark_range",
]

_BOOKMARK_WORDS = {"epoch": EPOCH, "0": EPOCH, "now": NOW}
_RECENT_WORDS = frozenset(("recent", "most_recent", "most-recent"))
_BOOKMARK_HINT = (
    "write it like 0, 0|1|, 13948331409633568391|7|, 20260105T100000Z, -15m, or as a range "
    "[20260105T100000:20260105T110000)"
)


class TxidMark(Struct, frozen=True):
    """The position of the entry with a txid."""

    number: int

    def __str__(self) -> str:
        return str(self.number)


class TimeMark(Struct, frozen=True):
    """The position of the first entry that is not older than ``time`` (microseconds UTC)."""

    time: int

    def __str__(self) -> str:
        # The basic form has no colons, which separate the sides of a range.
        return format_time(self.time).replace("-", "").replace(":", "")


Mark: TypeAlias = Bookmark | TxidMark | TimeMark
"""One position as it was written."""


class RangeBound(Struct, frozen=True):
    """One side of a range: positions, and whether the entry at the position is included; None without a bracket.

    Of several positions, a start uses the earliest and an end the latest.
    """

    marks: tuple[Mark, ...]
    inclusive: bool | None = None

    def __str__(self) -> str:
        return ",".join("0" if mark == EPOCH else str(mark) for mark in self.marks)


class BookmarkRange(Struct, frozen=True):
    """The range of entries that a bookmark text requests. Without an ``end`` the subscription has no end; a start
    without marks is read from a bookmark store.
    """

    start: RangeBound
    end: RangeBound | None = None

    @property
    def is_recent(self) -> bool:
        """True if the start is the position in a bookmark store, not read yet."""
        return not self.start.marks

    def __str__(self) -> str:
        """Return a text that :func:`parse_bookmark_range` parses to the same value; times in UTC."""
        if self.is_recent:
            return "recent"
        if self.end is None:
            return str(self.start)
        return f"{'[' if self.start.inclusive else '('}{self.start}:{self.end}{']' if self.end.inclusive else ')'}"


RECENT_RANGE = BookmarkRange(RangeBound(()))
"""The position in the subscription's bookmark store; EPOCH if the store has none."""


def parse_bookmark_range(text: str, clock: Clock) -> BookmarkRange:
    """Parse a bookmark, a list, a range or ``recent``; ``clock`` resolves times relative to now.

    A comma always separates the members of a list, so fractions of a second are written with a point. Raises UsageError
    ``SOW-IDN-001`` (invalid position), ``SOW-IDN-002`` (invalid range), ``SOW-VAL-020`` (impossible time).
    """
    word = text.strip()
    if word.lower() in _RECENT_WORDS:
        return RECENT_RANGE
    if word[:1] in ("[", "(") or word[-1:] in ("]", ")"):
        return _parse_range(word, clock)
    return BookmarkRange(RangeBound(_parse_marks(word, clock, parse_instant)))


def _parse_range(word: str, clock: Clock) -> BookmarkRange:
    if word[:1] not in ("[", "(") or word[-1:] not in ("]", ")") or len(word) < 2:
        raise _make_range_error(word, "it does not have two brackets")
    inner = word[1:-1]
    if _is_bookmark(inner, clock):
        raise _make_range_error(word, "it has only one side")
    found: list[BookmarkRange] = []
    # ISO 8601 has its own colons: the separator is the colon at which both sides can be parsed.
    for at, sign in enumerate(inner):
        left, right = inner[:at], inner[at + 1 :]
        if sign == ":" and _is_bookmark(left, clock) and _is_bookmark(right, clock):
            start = RangeBound(_parse_marks(left, clock), word[0] == "[")
            found.append(BookmarkRange(start, RangeBound(_parse_marks(right, clock), word[-1] == "]")))
    if len(found) != 1:
        why = "it is ambiguous" if found else "it has no colon with a position on each side"
        raise _make_range_error(word, why)
    return found[0]


def _is_bookmark(text: str, clock: Clock) -> bool:
    try:
        return bool(_parse_marks(text, clock))
    except UsageError:
        return False


def _parse_marks(text: str, clock: Clock, read: Callable[[str, Clock], Micros] = parse_time) -> tuple[Mark, ...]:
    # In a range, 10:30 is two txids and not a time of day, so the additional forms of parse_instant are not allowed
    # there.
    return tuple(_parse_mark(part.strip(), clock, read) for part in text.split(","))


def _parse_mark(word: str, clock: Clock, read: Callable[[str, Clock], Micros]) -> Mark:
    if (known := _BOOKMARK_WORDS.get(word.lower())) is not None:
        return known
    if "|" in word:
        return parse_bookmark(word)
    named = parse_txid if read is parse_instant else parse_whole_number
    if (txid := named(word)) is not None:
        return TxidMark(txid) if txid else EPOCH
    try:
        return TimeMark(read(word, clock))
    except UsageError as error:
        if error.code != "SOW-VAL-010":
            raise
        raise UsageError("SOW-IDN-001", f"{word!r} is not a bookmark, a txid or a time", hint=_BOOKMARK_HINT) from None


def _make_range_error(word: str, why: str) -> UsageError:
    return UsageError("SOW-IDN-002", f"{word!r} is not a bookmark range: {why}", hint=_BOOKMARK_HINT)
