"""A small, slow reader of slots for tests of expressions: JSON, FIX and NVFIX payloads to rows.

It follows the resolution rules of sowctl-expressions(7) word by word and shares no code with the message types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sowctl.values.fields import Number, Row, Slot, SlotValue, ValueList
from sowctl.values.paths import Path

_NUMBER = re.compile(r"[ \t\r\n]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\r\n]*")
_WHOLE = re.compile(r"[+-]?[0-9]+")


class Scanned:
    """A number of the message with the text it was written with."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def value(self) -> int | float:
        word = self.text.strip(" \t\r\n")
        if _WHOLE.fullmatch(word) and -(2**63) <= int(word) < 2**64:
            return int(word)
        return float(word)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(_whole(name), _whole(value))
    return found


def _whole(node: Any) -> Any:
    """Return the node with U+FFFD for every half of a surrogate pair."""
    if isinstance(node, list):
        return [_whole(item) for item in node]
    return node.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(node, str) else node


def read_json(payload: str) -> Any:
    """Parse a JSON payload; of duplicate members the first counts."""
    return json.loads(payload, object_pairs_hook=_members, parse_int=Scanned, parse_float=Scanned)


def read_fix(payload: str) -> dict[str, list[Any]]:
    """Return tags and their values in order."""
    found: dict[str, list[Any]] = {}
    for field in payload.split("\x01"):
        tag, equals, value = field.partition("=")
        if equals:
            found.setdefault(tag, []).append(inferred(value))
    return found


def inferred(text: str) -> Any:
    """Return a value of a format without types."""
    if text == "":
        return None
    return Scanned(text) if _NUMBER.fullmatch(text) else text


READERS = {"json": read_json, "fix": read_fix, "nvfix": read_fix}


def _flat(node: Any) -> list[Any]:
    if isinstance(node, list):
        return [leaf for item in node for leaf in _flat(item)]
    return [node]


def resolve(tree: Any, path: Path) -> list[Any]:
    """Return all nodes that a path refers to, including objects."""
    nodes = [tree] if isinstance(tree, dict) else []
    for step in path.steps:
        below = []
        for node in nodes:
            if isinstance(node, dict) and step.name in node:
                below += _flat(node[step.name])
        if step.index is not None:
            below = below[step.index : step.index + 1]
        nodes = below
    return nodes


def slot_value(tree: Any, slot: Slot) -> SlotValue:
    """Return the value that a message type returns for one slot."""
    nodes = resolve(tree, slot.path)
    dropped = any(isinstance(node, dict) and node for node in nodes)
    items = tuple(_scalar(node, slot.text) for node in nodes if not isinstance(node, dict))
    if slot.listed or dropped or len(items) > 1:
        return ValueList(items, dropped)
    return items[0] if items else None


def _scalar(node: Any, text: bool) -> Any:
    if isinstance(node, Scanned):
        return Number(node.value, node.text.encode()) if text else node.value
    return node


def row(payload: str, slots: Sequence[Slot], kind: str = "json") -> Row:
    """Return the row of a payload."""
    tree = READERS[kind](payload)
    return tuple(slot_value(tree, slot) for slot in slots)
