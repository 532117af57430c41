"""The members of a JSON object with the bytes of their values, at msgspec's speed.

msgspec keeps the last of members with one name, where the first one counts; so an object is taken only if its length,
or the occurrences of its names, prove that each name is there once. A value is checked against the grammar, but for
UTF-8 and depth, and is not made into an object. Called where payloads are shown
(:mod:`sowctl.output.members`) and where fields of them are left out (:mod:`sowctl.messages.json.select`); what this
reader will not judge goes to theirs.
"""

from __future__ import annotations

import msgspec

RawMembers = dict[str, msgspec.Raw]
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


def raw_items(text: bytes) -> list[msgspec.Raw]:
    """The items of an array that the grammar has accepted as part of something else."""
    return _decode_items(text)
