"""Slow readers of slots for tests of expressions: JSON, typed formats, FIX, NVFIX and XML payloads to rows.

They follow the resolution rules of sowctl-expressions(7) word by word and share no code with the message types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.parsers import expat

from sowctl.errors import InputError
from sowctl.values.fields import Row, Slot, SlotValue, Values
from sowctl.values.paths import Path
from tests.support import jsonslots
from tests.support.jsonslots import Scanned, inferred

TYPED = frozenset({"msgpack", "messagepack", "bson", "bflat", "protobuf"})
"""Formats whose kinds are those of JSON, written here as JSON; their numbers have no original text."""


class Element:
    """An XML element: its attributes, the elements in it, and its own text."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.below: list[Element] = []
        self.texts: list[str] = []

    @property
    def text(self) -> str | None:
        """Text and CDATA directly in it, joined; None where that is blank."""
        joined = "".join(self.texts)
        return joined if joined.strip(" \t\r\n") else None

    @property
    def is_object(self) -> bool:
        """Whether it counts as an object with members."""
        return bool(self.below or self.attributes)


def read_xml(payload: str) -> Element:
    """The root element. Names keep their prefixes. Raises InputError."""
    top = Element("", {})
    stack = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        element = Element(name, attributes)
        stack[-1].below.append(element)
        stack.append(element)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: stack.pop() and None
    parser.CharacterDataHandler = lambda data: stack[-1].texts.append(data)
    try:
        parser.Parse(payload.encode(), True)
    except expat.ExpatError as error:
        raise InputError("SOW-MSG-002", str(error)) from None
    return top


def resolve_xml(top: Element, path: Path) -> list[Any]:
    """All nodes that a path reaches: elements, and texts of attributes."""
    nodes: list[Any] = [top]
    for step in path.steps:
        found: list[Any] = []
        for node in nodes:
            if not isinstance(node, Element):
                continue
            if step.name.startswith("@"):
                found += [node.attributes[step.name[1:]]] if step.name[1:] in node.attributes else []
            else:
                found += [element for element in node.below if element.name == step.name]
        nodes = found if step.index is None else found[step.index : step.index + 1]
    return nodes


def xml_value(top: Element, slot: Slot) -> SlotValue:
    """What a message type hands over for one slot."""
    items: list[Any] = []
    dropped = False
    for node in resolve_xml(top, slot.path):
        if isinstance(node, Element):
            dropped |= node.is_object
            if node.text is not None or not node.is_object:
                items.append(None if node.text is None else inferred(node.text))
        else:
            items.append(inferred(node) if node.strip(" \t\r\n") else None)
    values = tuple(jsonslots._scalar(item, slot.text) for item in items)
    if slot.listed or dropped or len(values) > 1:
        return Values(values, dropped)
    return values[0] if values else None


def read(payload: str, kind: str) -> Any:
    """The tree of a payload. Raises InputError where it cannot be read."""
    if kind == "xml":
        return read_xml(payload)
    try:
        return jsonslots.READERS.get(kind, jsonslots.read_json)(payload)
    except ValueError as error:
        raise InputError("SOW-MSG-002", str(error)) from None


def row(payload: str, slots: Sequence[Slot], kind: str = "json") -> Row:
    """The row of a payload. Raises InputError."""
    if kind == "binary":
        return tuple(Values(()) if slot.listed else None for slot in slots)
    tree = read(payload, kind)
    if kind == "xml":
        return tuple(xml_value(tree, slot) for slot in slots)
    wanted = [Slot(slot.path, False, slot.listed) for slot in slots] if kind in TYPED else slots
    return tuple(jsonslots.slot_value(tree, slot) for slot in wanted)


def view(payload: str, kind: str) -> Any:
    """The message as a tree of plain values, for what constructed fields are written into."""

    def plain(node: Any) -> Any:
        if isinstance(node, Scanned):
            return node.value
        if isinstance(node, list):
            return [plain(item) for item in node]
        return {name: plain(value) for name, value in node.items()} if isinstance(node, dict) else node

    tree = plain(read(payload, kind))
    if kind in ("fix", "nvfix"):
        return {tag: values[0] if len(values) == 1 else values for tag, values in tree.items()}
    return tree
