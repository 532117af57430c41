"""The members of a JSON object with the bytes of their values, at msgspec's speed.

msgspec keeps the last of members with one name, where the first one counts; so an object is taken only if its length,
or the number of its quotes, proves that each name is there once. A value is checked against the grammar, but for UTF-8
and depth, and is not made into an object. Objects with the same members in the same order are read together, as
columns, which spares most of what one object costs. Called where payloads are shown (:mod:`sowctl.output.members`,
:mod:`sowctl.output.text_columns`) and where fields of them are left out (:mod:`sowctl.messages.json.select`); what this
reader will not judge goes to theirs.
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
"""A text, or a mark that opens, closes or separates."""
_MEMBER_COMMA_PATTERN = re.compile(rb',\s*+"')
"""A comma behind which the name of a member may begin."""
_MAX_CUT_ATTEMPTS = 8
"""Such commas that are tried; each costs a tenth of what it costs to look at all marks of a part."""


class LongObjectLimits(Struct):
    """Sizes of long objects, and of the parts in which they are read; tests set smaller ones."""

    min_object_bytes: int = 1 << 20
    """Bytes of an object that is worth reading in parts: the members of a shorter one take some megabytes at most."""
    part_bytes: int = 8192
    """Bytes of a part, or those of one member."""


LONG_OBJECT_LIMITS = LongObjectLimits()


def read_raw_members(text: bytes) -> RawMembers | None:
    """Names and values of the outermost object in order; None where only an exact reader can tell."""
    # White space before the object may hide a value of another kind; nothing writes it.
    if text[:1] != b"{":
        return None
    try:
        found = _decode_members(text)
    except (ValueError, RecursionError):
        return None
    return found if _has_only(text, found) else None


class LongObject:
    """A JSON object whose members are read some at a time, in order; each name is there once. Made by
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
    """An object of ``min_object_bytes`` bytes or more; None for other values, and where only an exact reader
    can tell.

    All of it is checked, UTF-8 as well: what is read of it afterwards raises nothing. A record of 2,000,000 members and
    51 MB went to msgpack in 140 MB of RssAnon so, where a dictionary of its members took 777.
    """
    if len(text) < LONG_OBJECT_LIMITS.min_object_bytes or text[:1] != b"{":
        return None
    import numpy as np  # behind the length: few commands read an object as long as that

    cuts, hashes = array("Q", [0]), array("q")
    while cuts[-1] < len(text):
        start = cuts[-1]
        # Any comma will do that has members on both sides. One behind which a name may begin mostly is such a one;
        # where it stands within a value, what is before it is no object, and another one is tried.
        found = None
        for stop in _iterate_likely_cuts(text, start):
            if (found := _decode_part(text, start, stop)) is not None:
                break
        else:
            stop = _find_cut(text, start)
            found = _decode_part(text, start, stop)
        if found is None:
            return None
        # Each part is an object of one member or more. So the parts, put together, are an object again, whose members
        # are those of the parts: nothing hides at a cut.
        cuts.append(stop)
        hashes.extend(map(hash, found))
    # Two names of one hash may be two names; that is as good as never, and costs memory alone.
    ordered = np.frombuffer(hashes, np.int64)
    ordered.sort()
    if (ordered[1:] == ordered[:-1]).any():
        return None
    return LongObject(text, cuts, len(ordered))


def _iterate_likely_cuts(text: bytes, start: int) -> Iterator[int]:
    """Some places for the cut behind ``start``: guesses, which are wrong within values."""
    comma = None
    for comma in islice(_MEMBER_COMMA_PATTERN.finditer(text, start + LONG_OBJECT_LIMITS.part_bytes), _MAX_CUT_ATTEMPTS):
        yield comma.start()
    if comma is None:
        yield len(text)


def _find_cut(text: bytes, start: int) -> int:
    """The next comma between members, at least a part behind ``start``, where members or the object begin; or the end.

    Of a text that is no object anything.
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
    """The members between two cuts; None where that is no object of some, or one is there twice, or is too deep."""
    part = _build_part(text, start, stop)
    try:
        part.decode()
        found = _decode_members(part)
    except (ValueError, RecursionError):
        return None
    if not found:
        return None
    # Mostly the length or the quotes prove that each member is there once.
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
    # It has as many members as commas of its own, and one.
    return found if len(found) == members + 1 else None


def _build_part(text: bytes, start: int, stop: int) -> bytes:
    """The members between two cuts, which are commas or the ends of the text, as an object."""
    front = b"{" if start else b""
    back = b"}" if stop < len(text) else b""
    return b"%b%b%b" % (front, text[start + 1 if start else 0 : stop], back)


def _has_only(text: bytes, found: RawMembers) -> bool:
    """Return whether an object surely has these members and no other one, each once."""
    # The least that these members take: braces, and for each two quotes, a colon and a comma, the last one without. An
    # object of just this length has room for no other member.
    least = sum(map(len, found)) + sum(map(len, found.values())) + 4 * len(found) + 1
    return len(text) == least or _has_each_once(text, found)


def _has_each_once(text: bytes, found: RawMembers) -> bool:
    """Return whether an object with white space surely has each of its members once."""
    # Every member has two quotes around its name, and those of its value. So a member that was left out, however its
    # name is spelled, would leave at least two more; one count tells, whatever the number of members.
    return text.count(b'"') == 2 * len(found) + b"".join(found.values()).count(b'"')


def read_raw_columns(texts: Sequence[bytes | msgspec.Raw], *, dense: bool = False) -> RawColumns | None:
    """The members of several objects by their names, in order, with a value of each object.

    None where the objects have not all the same names in one order, or none, or where only an exact reader can tell;
    with ``dense`` also where white space stands between their members.
    """
    try:
        found = list(map(_decode_members, texts))
    except (ValueError, RecursionError):
        return None
    names = tuple(found[0]) if found else ()
    if not names or any(map(names.__ne__, map(tuple, found))):
        return None
    columns: RawColumns = dict(zip(names, zip(*map(dict.values, found), strict=True), strict=True))
    # The sum of the least that each object takes, see above. None can be shorter than its least, so the sums are equal
    # only if all of them are.
    least = len(found) * (sum(map(len, names)) + 4 * len(names) + 1)
    least += sum([sum(map(len, column)) for column in columns.values()])
    if sum(map(len, texts)) == least:
        return columns
    if dense:
        return None
    # As in _has_each_once: no object can have fewer quotes than that, so equal sums say it of each.
    quotes = 2 * len(found) * len(names) + sum([b"".join(column).count(b'"') for column in columns.values()])
    return columns if b"".join(texts).count(b'"') == quotes else None


def read_raw_items(text: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The items of an array that the grammar has accepted as part of something else."""
    return _decode_items(text)
