"""Bookmarks: ``publisher|sequence|``, EPOCH ``0``, NOW ``0|1|`` (``behaviour`` 4.6, 6.4)."""

from __future__ import annotations

import re

from msgspec import Struct

from sowctl.errors import UsageError

_BOOKMARK_PATTERN = re.compile(r"(\d{1,20})\|(\d{1,20})\|?", re.ASCII)
U64_LIMIT = 1 << 64
MAX_SHOWN_CHARACTERS = 80
"""Characters of what is no bookmark, in an error."""


class Bookmark(Struct, frozen=True, order=True):
    """One place in a log as its publisher counts: publisher id (hash of the client name) and its sequence number."""

    publisher: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.publisher}|{self.sequence}|"


EPOCH = Bookmark(0, 0)
NOW = Bookmark(0, 1)


def build_bookmark(publisher: int | None, sequence: int, txid: int, owner: int) -> Bookmark:
    """The bookmark of a journal entry. One that no publisher has numbered, named or not, is counted by its instance:
    ``owner`` is the hash of the instance's name as if it were a client, the number is the entry's txid."""
    return Bookmark(publisher, sequence) if publisher is not None and sequence else Bookmark(owner, txid)


def parse_bookmark(text: str) -> Bookmark:
    """Read one bookmark. Raises :class:`~sowctl.errors.UsageError` ``SOW-IDN-001``."""
    word = text.strip()
    if word == "0":
        return EPOCH
    match = _BOOKMARK_PATTERN.fullmatch(word)
    if match is not None:
        publisher, sequence = int(match[1]), int(match[2])
        # Twenty digits can be more than 64 bits hold.
        if publisher < U64_LIMIT and sequence < U64_LIMIT:
            return Bookmark(publisher, sequence)
    # A consumer may write anything, and the error is a line for people.
    shown = repr(text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "...")
    raise UsageError("SOW-IDN-001", f"{shown} is not a bookmark", hint="write bookmarks like 13948331409633568391|7|")
