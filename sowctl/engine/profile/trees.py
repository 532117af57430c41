"""Payloads as trees of plain values: ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool``, None.

They are parsed from the JSON view of a payload, which every message type has; of duplicate members the first one is
used: msgspec parses a batch that provably has none (:mod:`sowctl.values.unique_members`), the exact reader all other
messages.

Called by :mod:`sowctl.engine.profile.path_profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from sowctl.messages.base import PayloadRefused
from sowctl.messages.json.exact_reader import parse_json
from sowctl.values.fields import Number
from sowctl.values.unique_members import has_all_members

Tree: TypeAlias = Any
"""``dict[str, Tree] | list[Tree] | str | int | float | bool | None``"""
_decode_json = msgspec.json.Decoder().decode
UNREADABLE = object()
"""Represents a payload that cannot be parsed."""


def parse_trees(payloads: Sequence[bytes], view: Callable[[bytes], bytes]) -> list[Tree]:
    """Return one tree per payload, in order; :data:`UNREADABLE` for those whose view is not JSON."""
    lines = list(map(view, payloads))
    try:
        found = list(map(_decode_json, lines))
    except (ValueError, RecursionError):
        return list(map(_parse_exactly, lines))
    joined = b"\n".join(lines)
    if has_all_members(joined, found):
        return found
    return [
        tree if has_all_members(line, (tree,)) else _parse_exactly(line)
        for line, tree in zip(lines, found, strict=True)
    ]


def _parse_exactly(line: bytes) -> Tree:
    try:
        return _convert_to_plain(parse_json(line))
    except PayloadRefused:
        return UNREADABLE


def _convert_to_plain(node: Any) -> Tree:
    """Return a tree of the exact reader without the texts of its numbers; its depth is at most 256 containers."""
    if type(node) is Number:
        return node.value
    if type(node) is dict:
        return {name: _convert_to_plain(value) for name, value in node.items()}
    if type(node) is list:
        return [_convert_to_plain(value) for value in node]
    return node
