"""The members of a JSON object with the bytes of their values, at msgspec's speed.

msgspec keeps the last of members with one name, where the first one counts; so an object is taken only if its length,
or the occurrences of its names, prove that each name is there once. A value is checked against the grammar, but for
UTF-8 and depth, and is not made into an object. Objects of one shape are read together, as columns, which spares most
of what one object costs. Called where payloads are shown (:mod:`sowctl.output.members`,
:mod:`sowctl.output.texts`) and where fields of them are left out (:mod:`sowctl.messages.json.select`); what this reader
will not judge goes to theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

RawMembers = dict[str, msgspec.Raw]
RawColumns = dict[str, Sequence[msgspec.Raw]]
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


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


def _each_once(text: bytes, found: RawMembers) -> bool:
    """Whether no name of an object with white space occurs more than once in it, as name or as anything else."""
    # An escape may spell a name in another way.
    return b"\\" not in text and all(text.count(b'"%b"' % name.encode()) == 1 for name in found)


def raw_columns(texts: Sequence[bytes | msgspec.Raw]) -> RawColumns | None:
    """The members of several objects by their names, in order, with a value of each object.

    None where the objects have not all the same names in one order, or none, or have white space between their members,
    or where only an exact reader can tell.
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
    return columns if sum(map(len, texts)) == least else None


def raw_items(text: bytes) -> list[msgspec.Raw]:
    """The items of an array that the grammar has accepted as part of something else."""
    return _decode_items(text)
