"""Texts that say where a subscription begins, and where it ends (``behaviour`` 4.6, 11.59), as values.

A place is EPOCH ``0``, NOW ``0|1|``, an entry's bookmark ``publisher|sequence|``, a txid (a bare number) or a time. A
list with commas stands for one place, a range ``[b:e)`` for two, each of which may be a list. ``recent`` is what a
bookmark store has. :mod:`sowctl.engine.subscriptions.spans` finds out which entries are meant.
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
    """The place of the entry with a txid."""

    number: int

    def __str__(self) -> str:
        return str(self.number)


class TimeMark(Struct, frozen=True):
    """The place of the first entry that is not older than ``time`` (microseconds UTC)."""

    time: int

    def __str__(self) -> str:
        # The basic form: without colons, which part the sides of a range.
        return format_time(self.time).replace("-", "").replace(":", "")


Mark: TypeAlias = Bookmark | TxidMark | TimeMark
"""One place as it was written."""


class RangeBound(Struct, frozen=True):
    """One side of what is wanted: places, and whether the entry there belongs to it; None without a bracket.

    Of several places the start takes the earliest, the end the latest.
    """

    marks: tuple[Mark, ...]
    inclusive: bool | None = None

    def __str__(self) -> str:
        return ",".join("0" if mark == EPOCH else str(mark) for mark in self.marks)


class BookmarkRange(Struct, frozen=True):
    """The range of entries that a bookmark text asks for. Without an ``end`` the subscription goes on; a start
    without marks is a store's to say.
    """

    start: RangeBound
    end: RangeBound | None = None

    @property
    def is_recent(self) -> bool:
        """True if the start is the place in a bookmark store, which is yet to be read."""
        return not self.start.marks

    def __str__(self) -> str:
        """A text that :func:`parse_bookmark_range` reads back; times in UTC."""
        if self.is_recent:
            return "recent"
        if self.end is None:
            return str(self.start)
        return f"{'[' if self.start.inclusive else '('}{self.start}:{self.end}{']' if self.end.inclusive else ')'}"


RECENT_RANGE = BookmarkRange(RangeBound(()))
"""What the subscription's bookmark store has; EPOCH where it has nothing."""


def parse_bookmark_range(text: str, clock: Clock) -> BookmarkRange:
    """Read a bookmark, a list, a range or ``recent``; ``clock`` is for times that count from now.

    A comma always parts the members of a list, so fractions of a second are written with a point. Raises UsageError
    ``SOW-IDN-001`` (no place), ``SOW-IDN-002`` (no range), ``SOW-VAL-020`` (a time that cannot be).
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
    # ISO 8601 has colons of its own: the one that parts the sides is the one at which both of them can be read.
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
    # In a range 10:30 is two txids and not a time of day, so only other places have what parse_instant adds.
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
