"""A slow reader of slots of XML payloads, as the reference for the message type.

It follows the resolution rules of sowctl-expressions(7) word by word and shares no code with the message type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.parsers import expat

from sowctl.errors import InputError
from sowctl.values.fields import Row, Slot, SlotValue, ValueList
from sowctl.values.paths import Path
from tests.support import jsonslots
from tests.support.jsonslots import inferred


class Element:
    """An XML element: its attributes, its child elements, and its own text."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.below: list[Element] = []
        self.texts: list[str] = []

    @property
    def text(self) -> str | None:
        """Return its own text and CDATA, joined; None if that is blank."""
        joined = "".join(self.texts)
        return joined if joined.strip(" \t\r\n") else None

    @property
    def is_object(self) -> bool:
        """Return whether it counts as an object with members."""
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
    """Return all nodes that a path refers to: elements, and texts of attributes."""
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
    """Return the value that a message type returns for one slot."""
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
        return ValueList(values, dropped)
    return values[0] if values else None


def row(payload: str, slots: Sequence[Slot]) -> Row:
    """Return the row of a payload. Raises InputError."""
    tree = read_xml(payload)
    return tuple(xml_value(tree, slot) for slot in slots)
