"""Bookmarks: ``publisher|sequence|``, EPOCH ``0``, NOW ``0|1|`` (``behaviour`` 4.6, 6.4)."""

from __future__ import annotations

import re

from msgspec import Struct

from sowctl.errors import UsageError

_BOOKMARK_PATTERN = re.compile(r"(\d{1,20})\|(\d{1,20})\|?", re.ASCII)
U64_LIMIT = 1 << 64
MAX_SHOWN_CHARACTERS = 80
"""Maximum number of characters of an invalid bookmark in an error."""


class Bookmark(Struct, frozen=True, order=True):
    """A position in a log as counted by its publisher: publisher id (hash of the client name) and its sequence
    number."""

    publisher: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.publisher}|{self.sequence}|"


EPOCH = Bookmark(0, 0)
NOW = Bookmark(0, 1)


def build_bookmark(publisher: int | None, sequence: int, txid: int, owner: int) -> Bookmark:
    """Return the bookmark of a journal entry. An entry without a publisher's sequence number is numbered by its
    instance: ``owner`` is the hash of the instance's name as a client name, the number is the entry's txid."""
    return Bookmark(publisher, sequence) if publisher is not None and sequence else Bookmark(owner, txid)


def parse_bookmark(text: str) -> Bookmark:
    """Parse one bookmark. Raises :class:`~sowctl.errors.UsageError` ``SOW-IDN-001``."""
    word = text.strip()
    if word == "0":
        return EPOCH
    match = _BOOKMARK_PATTERN.fullmatch(word)
    if match is not None:
        publisher, sequence = int(match[1]), int(match[2])
        # Twenty digits may exceed 64 bits.
        if publisher < U64_LIMIT and sequence < U64_LIMIT:
            return Bookmark(publisher, sequence)
    # The text may be anything, and the error is a line for people.
    shown = repr(text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "...")
    raise UsageError("SOW-IDN-001", f"{shown} is not a bookmark", hint="write bookmarks like 13948331409633568391|7|")
