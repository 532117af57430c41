"""The members of a JSON object with the bytes of their values, at msgspec's speed.

msgspec keeps the last of members with one name, where the first one counts; so an object is taken only if its length,
or the number of its quotes, proves that each name is there once. A value is checked against the grammar, but for
UTF-8 and depth, and is not made into an object. Objects of one shape are read together, as columns, which spares most
of what one object costs. Called where payloads are shown (:mod:`sowctl.output.members`,
:mod:`sowctl.output.texts`) and where fields of them are left out (:mod:`sowctl.messages.json.select`); what this reader
will not judge goes to theirs.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

RawMembers = dict[str, msgspec.Raw]
RawColumns = dict[str, Sequence[msgspec.Raw]]
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

LONG = 1 << 20
"""Bytes of an object that is worth reading in parts: the members of a shorter one take some megabytes at most."""
_PART = 8192
"""Bytes of a part, or those of one member."""
_DEEPEST = 100
"""Brackets within each other in an object that is read in parts: no reader of one of its values gives up at that."""
_SETS = 64
"""Sets into which the hashes of names are divided, so that one of them at a time is looked through."""
TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],]', re.DOTALL)
"""A text, or a mark that opens, closes or separates."""


def raw_members(text: bytes) -> RawMembers | None:
    """Names and values of the outermost object in order; None where only an exact reader can tell."""
    # White space before the object may hide a value of another kind; nothing writes it.
    if text[:1] != b"{":
        return None
    try:
        found = _decode(text)
    except (ValueError, RecursionError):
        return None
    # The least that these members take: braces, and for each two quotes, a colon and a comma, the last one without. An
    # object of just this length has room for no other member.
    least = sum(map(len, found)) + sum(map(len, found.values())) + 4 * len(found) + 1
    if len(text) == least or _each_once(text, found):
        return found
    return None


class LongObject:
    """A JSON object whose members are read some at a time, in order; each name is there once. Made by :func:`in_parts`.

    ``count`` is the number of its members.
    """

    def __init__(self, text: bytes, cuts: Sequence[int], count: int) -> None:
        self._text, self._cuts = text, cuts
        self.count = count

    def __iter__(self) -> Iterator[RawMembers]:
        for start, stop in pairwise(self._cuts):
            yield _decode(_part(self._text, start, stop))


def in_parts(text: bytes) -> LongObject | None:
    """An object of :data:`LONG` bytes or more; None for other values, and where only an exact reader can tell.

    All of it is checked, UTF-8 as well: what is read of it afterwards raises nothing. A record of 2,000,000 members and
    51 MB went to msgpack in 140 MB of RssAnon so, where a dictionary of its members took 777.
    """
    if len(text) < LONG or text[:1] != b"{":
        return None
    cuts, sizes = array("Q", [0]), array("Q")
    depth = members = 0
    for token in TOKEN.finditer(text):
        at = token.start()
        mark = text[at]
        if mark == 0x2C:
            if depth == 1:
                members += 1
                if at - cuts[-1] >= _PART:
                    cuts.append(at)
                    sizes.append(members)
                    members = 0
        elif mark in b"{[":
            depth += 1
            if depth > _DEEPEST:
                return None
        elif mark in b"}]":
            depth -= 1
    cuts.append(len(text))
    sizes.append(members + 1)
    # Each part is an object with as many members as it has commas of its own, and one. So the parts, put together,
    # are an object again, whose members are those of the parts: nothing hides at a cut.
    hashes = [array("q") for _ in range(_SETS)]
    for (start, stop), size in zip(pairwise(cuts), sizes, strict=True):
        part = _part(text, start, stop)
        try:
            part.decode()
            found = _decode(part)
        except (ValueError, RecursionError):
            return None
        if len(found) != size:
            return None
        for hashed in map(hash, found):
            hashes[hashed % _SETS].append(hashed)
    # Two names of one hash may be two names; that is as good as never, and costs memory alone.
    if any(len(set(some)) != len(some) for some in hashes):
        return None
    return LongObject(text, cuts, sum(sizes))


def _part(text: bytes, start: int, stop: int) -> bytes:
    """The members between two cuts, which are commas or the ends of the text, as an object."""
    front = b"{" if start else b""
    back = b"}" if stop < len(text) else b""
    return b"%b%b%b" % (front, text[start + 1 if start else 0 : stop], back)


def _each_once(text: bytes, found: RawMembers) -> bool:
    """Whether an object with white space surely has each of its members once."""
    # Every member has two quotes around its name, and those of its value. So a member that was left out, however its
    # name is spelled, would leave at least two more; one count tells, whatever the number of members.
    return text.count(b'"') == 2 * len(found) + b"".join(found.values()).count(b'"')


def raw_columns(texts: Sequence[bytes | msgspec.Raw], *, dense: bool = False) -> RawColumns | None:
    """The members of several objects by their names, in order, with a value of each object.

    None where the objects have not all the same names in one order, or none, or where only an exact reader can tell;
    with ``dense`` also where white space stands between their members.
    """
    try:
        found = list(map(_decode, texts))
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
    # As in _each_once: no object can have fewer quotes than that, so equal sums say it of each.
    quotes = 2 * len(found) * len(names) + sum([b"".join(column).count(b'"') for column in columns.values()])
    return columns if b"".join(texts).count(b'"') == quotes else None


def raw_items(text: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The items of an array that the grammar has accepted as part of something else."""
    return _decode_items(text)
