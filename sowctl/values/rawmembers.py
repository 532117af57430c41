"""The members of a JSON object with the bytes of their values, at msgspec's speed.

msgspec keeps the last of duplicate members, although the first one counts; so an object is accepted only if its length,
or the number of its quotes, proves that no name is duplicated. A value is checked against the grammar, except for UTF-8
and depth, and is not converted to an object. Objects with the same members in the same order are read together, as
columns, which saves most of the cost per object. Used where payloads are displayed (:mod:`sowctl.output.members`,
:mod:`sowctl.output.text_columns`) and where some of their fields are omitted (:mod:`sowctl.messages.json.select`);
these have their own readers for objects that this one does not accept.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

import msgspec
from msgspec import Struct

from sowctl.values.depth import MAX_DEPTH, is_deep

RawMembers = dict[str, msgspec.Raw]
RawColumns = dict[str, Sequence[msgspec.Raw]]
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

TOKEN_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],]', re.DOTALL)
"""A string, or a character that opens, closes or separates."""
_MEMBER_COMMA_PATTERN = re.compile(rb',\s*+"')
"""A comma that may be followed by the name of a member."""
_MAX_CUT_ATTEMPTS = 8
"""Number of such commas that are tried; each costs a tenth of a search of all tokens of a part."""


class LongObjectLimits(Struct):
    """Sizes of long objects, and of the parts in which they are read; tests set smaller ones."""

    min_object_bytes: int = 1 << 20
    """A longer object is read in parts: the members of a shorter one need a few megabytes at most."""
    part_bytes: int = 8192
    """Bytes of a part; more if a single member is longer."""


LONG_OBJECT_LIMITS = LongObjectLimits()


def read_raw_members(text: bytes) -> RawMembers | None:
    """Return names and values of the outermost object in order; None if only an exact reader can decide."""
    # White space before the object may hide a value of another kind; no known writer produces it.
    if text[:1] != b"{":
        return None
    try:
        found = _decode_members(text)
    except (ValueError, RecursionError):
        return None
    return found if _has_only(text, found) else None


class LongObject:
    """A JSON object whose members are read in parts, in order; no name is duplicated. Created by
    :func:`open_long_object`.

    ``count`` is the number of its members.
    """

    def __init__(self, text: bytes, cuts: Sequence[int], count: int) -> None:
        self._text, self._cuts = text, cuts
        self.count = count

    def __iter__(self) -> Iterator[RawMembers]:
        for start, stop in pairwise(self._cuts):
            yield _decode_members(_build_part(self._text, start, stop))


def open_long_object(text: bytes) -> LongObject | None:
    """Open an object of ``min_object_bytes`` bytes or more; None for others, and if only an exact reader can decide.

    The whole object is checked, including UTF-8: reading it later raises nothing. A record of 2,000,000 members and 51
    MB was converted to msgpack in 140 MB of RssAnon this way, with a dictionary of its members in 777.
    """
    if len(text) < LONG_OBJECT_LIMITS.min_object_bytes or text[:1] != b"{":
        return None
    import numpy as np  # after the check of the length: few commands read such a long object

    cuts, hashes = array("Q", [0]), array("q")
    while cuts[-1] < len(text):
        start = cuts[-1]
        # Any comma with members on both sides is suitable. A comma that may be followed by a name usually is; if it is
        # within a value, the text before it is not an object, and another one is tried.
        found = None
        for stop in _iterate_likely_cuts(text, start):
            if (found := _decode_part(text, start, stop)) is not None:
                break
        else:
            stop = _find_cut(text, start)
            found = _decode_part(text, start, stop)
        if found is None:
            return None
        # Each part is an object of at least one member. So the concatenated parts are an object again, whose members
        # are those of the parts: nothing is hidden at a cut.
        cuts.append(stop)
        hashes.extend(map(hash, found))
    # Two equal hashes may belong to different names; that is extremely rare, and only costs memory.
    ordered = np.frombuffer(hashes, np.int64)
    ordered.sort()
    if (ordered[1:] == ordered[:-1]).any():
        return None
    return LongObject(text, cuts, len(ordered))


def _iterate_likely_cuts(text: bytes, start: int) -> Iterator[int]:
    """Yield likely positions of the cut after ``start``: guesses, which are wrong within values."""
    comma = None
    for comma in islice(_MEMBER_COMMA_PATTERN.finditer(text, start + LONG_OBJECT_LIMITS.part_bytes), _MAX_CUT_ATTEMPTS):
        yield comma.start()
    if comma is None:
        yield len(text)


def _find_cut(text: bytes, start: int) -> int:
    """Find the next comma between members, at least one part after ``start``, or the end of the text.

    ``start`` is such a comma or the start of the object. Of a text that is not an object the result is meaningless.
    """
    part_bytes = LONG_OBJECT_LIMITS.part_bytes
    depth = 1 if start else 0
    for token in TOKEN_PATTERN.finditer(text, start + 1 if start else 0):
        at = token.start()
        mark = text[at]
        if mark == 0x2C:
            if depth == 1 and at - start >= part_bytes:
                return at
        elif mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
    return len(text)


def _decode_part(text: bytes, start: int, stop: int) -> RawMembers | None:
    """Decode the members between two cuts; None if they are no object, empty, duplicated or too deep."""
    part = _build_part(text, start, stop)
    try:
        part.decode()
        found = _decode_members(part)
    except (ValueError, RecursionError):
        return None
    if not found:
        return None
    # Usually the length or the quotes prove that no member is duplicated.
    if len(part) <= 4 * LONG_OBJECT_LIMITS.part_bytes and _has_only(part, found):
        return None if is_deep(part) else found
    depth = members = 0
    for token in TOKEN_PATTERN.finditer(part):
        mark = part[token.start()]
        if mark == 0x2C:
            members += depth == 1
        elif mark in b"{[":
            depth += 1
            if depth > MAX_DEPTH:
                return None
        elif mark in b"}]":
            depth -= 1
    # It has one member more than commas at its own level.
    return found if len(found) == members + 1 else None


def _build_part(text: bytes, start: int, stop: int) -> bytes:
    """Build an object of the members between two cuts, which are commas or the ends of the text."""
    front = b"{" if start else b""
    back = b"}" if stop < len(text) else b""
    return b"%b%b%b" % (front, text[start + 1 if start else 0 : stop], back)


def _has_only(text: bytes, found: RawMembers) -> bool:
    """Return whether an object certainly has these members and no other one, each once."""
    # The minimum length of these members: braces, and for each one two quotes, a colon and a comma, without the last
    # comma. An object of exactly this length has no room for another member.
    least = sum(map(len, found)) + sum(map(len, found.values())) + 4 * len(found) + 1
    return len(text) == least or _has_each_once(text, found)


def _has_each_once(text: bytes, found: RawMembers) -> bool:
    """Return whether an object with white space certainly has each of its members once."""
    # Every member has two quotes around its name, and the quotes of its value. So a missing member, however its name is
    # spelled, would leave at least two more; one count shows it, whatever the number of members.
    return text.count(b'"') == 2 * len(found) + b"".join(found.values()).count(b'"')


def read_raw_columns(texts: Sequence[bytes | msgspec.Raw], *, dense: bool = False) -> RawColumns | None:
    """Return the members of several objects by name, in order, with a value of each object.

    None if the objects do not all have the same names in one order, if they have none, or if only an exact reader can
    decide; with ``dense`` also if there is white space between their members.
    """
    try:
        found = list(map(_decode_members, texts))
    except (ValueError, RecursionError):
        return None
    names = tuple(found[0]) if found else ()
    if not names or any(map(names.__ne__, map(tuple, found))):
        return None
    columns: RawColumns = dict(zip(names, zip(*map(dict.values, found), strict=True), strict=True))
    # The sum of the minimum lengths, see above. No object can be shorter than its minimum, so the sums are equal only
    # if all lengths are.
    least = len(found) * (sum(map(len, names)) + 4 * len(names) + 1)
    least += sum([sum(map(len, column)) for column in columns.values()])
    if sum(map(len, texts)) == least:
        return columns
    if dense:
        return None
    # As in _has_each_once: no object can have fewer quotes than that, so equal sums prove it for each.
    quotes = 2 * len(found) * len(names) + sum([b"".join(column).count(b'"') for column in columns.values()])
    return columns if b"".join(texts).count(b'"') == quotes else None


def read_raw_items(text: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """Return the items of an array that was checked against the grammar as part of another value."""
    return _decode_items(text)
