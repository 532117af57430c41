"""Paths in decoded messages of the typed formats (``sowctl-expressions(7)``, IDENTIFIERS), compiled per slot.

A tree is the decoded message of a format's library: dictionaries (of any subclass), lists, and scalars. The type's
``convert`` converts a scalar of the library to a slot value; kinds in :data:`PLAIN_TYPES` are slot values already. Used
by :mod:`sowctl.messages.nested.type` and by types that read parts of a message through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import TypeAlias

from sowctl.messages.json.paths import flatten_array
from sowctl.values.fields import Scalar, Slot, SlotValue, ValueList
from sowctl.values.paths import Path, Step
from sowctl.values.scalars import to_text

PLAIN_TYPES = frozenset({str, bool, int, float, bytes, NoneType})
"""Kinds that are slot values unchanged; integers only if the format cannot represent more than 64 bits."""

TreeReader: TypeAlias = Callable[[object], SlotValue]
ScalarConverter: TypeAlias = Callable[[object], Scalar]


def build_reader(slot: Slot, convert: ScalarConverter) -> TreeReader:
    """Build the reader of the value of ``slot`` in a tree."""
    steps = slot.path.steps
    listed = slot.listed

    def general(root: object) -> SlotValue:
        items, dropped = resolve_path([root], steps)
        return build_slot_value(items, dropped, listed, convert)

    # Lists and subscripts need all values of the path; any other slot usually finds one scalar by one look-up per
    # step.
    if listed or any(step.index is not None for step in steps):
        return general
    *above, name = slot.path.names

    def top(root: object) -> SlotValue:
        if isinstance(root, dict):
            value = root.get(name)
            if type(value) in PLAIN_TYPES:
                return value
        return general(root)

    def below(root: object) -> SlotValue:
        node = root
        for step in above:
            # A list on the path may have several objects.
            if not isinstance(node, dict):
                return general(root)
            node = node.get(step)
        if isinstance(node, dict):
            value = node.get(name)
            if type(value) in PLAIN_TYPES:
                return value
        return general(root)

    return below if above else top


def build_key_reader(path: Path, convert: ScalarConverter) -> Callable[[object], bytes | None]:
    """Build the reader of the key text at ``path`` in a tree: the text of the first value, None for NULL."""
    read = build_reader(Slot(path), convert)

    def text(root: object) -> bytes | None:
        value = read(root)
        if type(value) is str:
            return value.encode() or None
        return to_text(value)

    return text


def resolve_path(nodes: list[object], steps: Sequence[Step]) -> tuple[list[object], bool]:
    """The value list at ``steps`` below the roots ``nodes``, and whether a non-empty object was dropped from it."""
    nodes = collect_nodes(nodes, steps)
    items = [node for node in nodes if not isinstance(node, dict)]
    dropped = len(items) != len(nodes) and any(isinstance(node, dict) and node for node in nodes)
    return items, dropped


def collect_nodes(nodes: list[object], steps: Sequence[Step]) -> list[object]:
    """All nodes at ``steps`` below the roots ``nodes``, objects included."""
    for step in steps:
        found: list[object] = []
        for node in nodes:
            if isinstance(node, dict) and step.name in node:
                child = node[step.name]
                if type(child) is list:
                    found.extend(flatten_array(child))
                else:
                    found.append(child)
        nodes = found if step.index is None else found[step.index : step.index + 1]
    return nodes


def build_slot_value(items: Sequence[object], dropped: bool, listed: bool, convert: ScalarConverter) -> SlotValue:
    """Build the value of a slot from a value list: the cheap form if it is sufficient, else :class:`ValueList`."""
    if listed or dropped or len(items) > 1:
        return ValueList(tuple([convert(item) for item in items]), dropped)
    return convert(items[0]) if items else None


def measure_depth(tree: object) -> int:
    """Measure the depth of nested dictionaries and lists."""
    depth = 0
    # Level by level, not by recursion, because the depth is what may be too large.
    level = [tree] if isinstance(tree, dict | list) else []
    while level:
        depth += 1
        below: list[object] = []
        for node in level:
            below.extend(node.values() if isinstance(node, dict) else node)
        level = [node for node in below if isinstance(node, dict | list)]
    return depth
