"""The proof, by counting, that no object in JSON messages has a duplicate member.

The first of duplicate members counts (``behaviour`` C136), while msgspec's decoders silently take the last. So the
result of a decoder is used only if this module proves that there are no duplicates; otherwise the exact reader answers.

The law: a member's name is a string followed by a colon, so a text without its white space has at least as many marks
``":`` as members, and different members have different marks. A decoder finds each name of an object once, so it finds
no more members than there are. If there are as many marks as members found, there is no room for a member that was not
found, however its name is spelled, in any object that was decoded or skipped.

If a decoder skips most of a message, the same holds for each single name: ``"N"`` in quotes occurs at least once for
each member N, unless an escape spells the name (:class:`CountedNames`). Decoders of whole struct types use a pattern
instead (:mod:`sowctl.arrow.unique_fields`).

msgspec has decoded the texts that are counted here, so they are JSON; for any other text the counts prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_SPACE = b" \t\n\r"
_UNCOUNTABLE_PATTERN = re.compile(r'["\\/\x00-\x1f\x7f]|^[ :,\[\]{}]')


def has_unique_members(message: bytes) -> bool:
    """Return True if a JSON message certainly has no duplicate member; False also if msgspec refuses it."""
    try:
        found = _decode(message)
    except (ValueError, RecursionError):
        return False
    return has_all_members(message, (found,))


def has_all_members(text: bytes, trees: Sequence[Any]) -> bool:
    """Return True if the result of msgspec's decoder certainly has every member of one or more messages.

    ``text``: the messages, with or without line breaks between them.
    """
    return count_marks(text) == count_members(trees)


def count_members(trees: Sequence[Any]) -> int:
    """Count the members of all objects in the trees."""
    count = 0
    waiting: list[Any] = [tree for tree in trees if type(tree) is dict or type(tree) is list]
    # The list grows during the iteration: no tree is too deep for it.
    for node in waiting:
        if type(node) is dict:
            count += len(node)
        for value in node.values() if type(node) is dict else node:
            if type(value) is dict or type(value) is list:
                waiting.append(value)
    return count


def count_marks(text: bytes) -> int:
    """Return the maximum number of members that JSON messages can have; usually their actual number."""
    # Within strings this may join a quote and a colon, which is one mark too many and proves nothing.
    text = text.translate(None, _SPACE)
    count = text.count(b'":')
    # JSON within a string: an escaped quote ends no name, unless the backslash itself was escaped.
    if b"\\" in text and b'\\\\":' not in text:
        count -= text.count(b'\\":')
    return count


def is_countable(name: str) -> bool:
    """Return True if members of this name can be counted by their bytes.

    Only ``\\u`` escapes can spell such a name differently, and no other text of a valid message can overlap one of its
    occurrences: it would have to be text between two strings.
    """
    return _UNCOUNTABLE_PATTERN.search(name) is None


class CountedNames:
    """Names whose members are counted by their bytes; each of them is countable."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = sorted(names)
        self.needles = [b'"%b"' % name.encode() for name in self.names]
        self._escapes = _compile_name_escapes(self.names)
        self._escape_start = b"\\u00" if all(map(str.isascii, self.names)) else b"\\u"

    def may_be_escaped(self, text: bytes) -> bool:
        """Return True if an escape may spell one of the names."""
        return self._escape_start in text and bool(self.names) and self._escapes.search(text) is not None


def count_occurrences(text: bytes, needle: bytes) -> int:
    """Count the occurrences of a name in quotes."""
    # Searching from the right is twice as fast as counting, which searches from the left.
    return len(text.rsplit(needle)) - 1


def _compile_name_escapes(names: Sequence[str]) -> re.Pattern[bytes]:
    """Compile a pattern of every ``\\u`` escape that could be part of one of ``names``."""
    units: set[str] = set()
    # A name beyond the Basic Multilingual Plane is escaped as two units: each of them makes a payload suspect.
    for character in "".join(names):
        code = character.encode("utf-16-be")
        units.update(code[at : at + 2].hex() for at in range(0, len(code), 2))
    return re.compile(rb"\\u(?:" + "|".join(sorted(units)).encode() + rb")", re.IGNORECASE)
