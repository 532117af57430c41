"""Payloads as trees of plain values: ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool``, None.

Read is the JSON view of a payload, which every message type has. msgspec reads it, and takes the last of duplicate
members where the first counts (``behaviour`` C136); so a batch is believed only if it provably has none.

The proof: a member's name and its value are separated by a colon. If no white space stands in front of any colon, each
member has its own ``":`` in the text, and strings may add further ones. As many ``":`` as members that were found leave
no room for one that was not. All other batches are read by the exact reader, which knows the first.

Called by :mod:`sowctl.engine.profile.path_profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from sowctl.messages.base import PayloadRefused
from sowctl.messages.json.exact_reader import parse_json
from sowctl.values.fields import Number

Tree: TypeAlias = Any
"""``dict[str, Tree] | list[Tree] | str | int | float | bool | None``"""
SPACED_COLONS = (b" :", b"\t:", b"\n:", b"\r:")
"""What stands before a colon that the proof does not count."""
_decode_json = msgspec.json.Decoder().decode
UNREADABLE = object()
"""Stands for a payload that cannot be read."""


def parse_trees(payloads: Sequence[bytes], view: Callable[[bytes], bytes]) -> list[Tree]:
    """Return one tree per payload, in order; :data:`UNREADABLE` for those that are no JSON even in their view."""
    lines = list(map(view, payloads))
    try:
        found = list(map(_decode_json, lines))
    except (ValueError, RecursionError):
        return list(map(_parse_exactly, lines))
    joined = b"\n".join(lines)
    # A line of JSON has no line break in it, so what joins the lines cannot stand in front of a colon.
    if joined.count(b'":') == count_members(found) and not any(spaced in joined for spaced in SPACED_COLONS):
        return found
    return [
        tree
        if line.count(b'":') == count_members([tree]) and not any(spaced in line for spaced in SPACED_COLONS)
        else _parse_exactly(line)
        for line, tree in zip(lines, found, strict=True)
    ]


def count_members(found: Sequence[Tree]) -> int:
    """Count the members that all objects in the trees have together."""
    count = 0
    waiting: list[Tree] = list(found)
    while waiting:
        node = waiting.pop()
        if type(node) is dict:
            count += len(node)
            waiting.extend([value for value in node.values() if type(value) is dict or type(value) is list])
        elif type(node) is list:
            waiting.extend([value for value in node if type(value) is dict or type(value) is list])
    return count


def _parse_exactly(line: bytes) -> Tree:
    try:
        return _convert_to_plain(parse_json(line))
    except PayloadRefused:
        return UNREADABLE


def _convert_to_plain(node: Any) -> Tree:
    """A tree of the exact reader without the texts of its numbers; it is no deeper than 256 containers."""
    if type(node) is Number:
        return node.value
    if type(node) is dict:
        return {name: _convert_to_plain(value) for name, value in node.items()}
    if type(node) is list:
        return [_convert_to_plain(value) for value in node]
    return node
