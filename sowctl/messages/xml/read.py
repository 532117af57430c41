"""Fields of XML payloads read by path; one parse per payload (``sowctl-expressions(7)``, IDENTIFIERS).

Used by :mod:`sowctl.messages.xml.type`. The parser passes its events to the tree builder of the standard library
without any Python code in between: a whole tree costs less than handlers of our own that keep only wanted fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias
from xml.etree.ElementTree import Element, TreeBuilder

from sowctl.messages.base import PayloadRefused
from sowctl.messages.xml.parse import MAX_XML_DEPTH, XML_SPACE, build_parser, check_payload, parse_payload
from sowctl.values.fields import Scalar, Slot, SlotValue, ValueList
from sowctl.values.paths import Path, Step
from sowctl.values.scalars import make_untyped_number, parse_number

_is_simple_name = re.compile(r"[\w:-]+").fullmatch
"""Names that ``findall`` interprets as names, not as patterns."""

_MAX_UNCHECKED_TAGS = 1 << 16
"""Number of tags above which a payload is checked before a tree is built: a refused one then costs no memory."""

Node: TypeAlias = Element | str
"""An element, or the text of an attribute."""


def read_document(payload: bytes) -> Element:
    """The root element of one payload. Raises PayloadRefused."""
    if payload.count(b"<") > _MAX_UNCHECKED_TAGS:
        check_payload(payload)
    # The builder's methods are C functions: no event passes through Python.
    builder = TreeBuilder()
    parser = build_parser()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parse_payload(parser, payload)
    # The checking parser determines the reason and the place; only refused payloads need this second pass.
    except PayloadRefused:
        check_payload(payload)
        raise
    root: Element = builder.close()
    # Fewer tags than the limit cannot be nested more deeply.
    if payload.count(b"<") > MAX_XML_DEPTH and _is_deep(root):
        check_payload(payload)
    return root


def _is_deep(root: Element) -> bool:
    level = [root]
    for _ in range(MAX_XML_DEPTH):
        level = [below for element in level for below in element]
        if not level:
            return False
    return True


def build_reader(slot: Slot) -> Callable[[Element], SlotValue]:
    """Build the reader of the value of ``slot`` below a root element."""
    steps, text, listed = slot.path.steps, slot.text, slot.listed

    def general(root: Element) -> SlotValue:
        items, dropped = build_value_list(resolve_path(root, steps))
        if listed or dropped or len(items) > 1:
            return ValueList(tuple([infer_scalar(item, text=text) for item in items]), dropped)
        return infer_scalar(items[0], text=text) if items else None

    first, *above = slot.path.names
    # The fast path below finds one element per step; it cannot count values, nor use names that ``findall`` would
    # interpret as patterns.
    if listed or not above or any(step.index is not None for step in steps) or not all(map(_is_simple_name, above)):
        return general
    last = above.pop()

    def single(root: Element) -> SlotValue:
        # The first step names the root; with another root the path finds nothing.
        if root.tag != first:
            return None
        node = root
        for name in above:
            found = node.findall(name)
            if len(found) != 1:
                return general(root) if found else None
            node = found[0]
        found = node.findall(last)
        if not found:
            return None
        node = found[0]
        # Several values, or an element that counts as an object: the general function has the rules for both.
        if len(found) > 1 or len(node) or node.attrib:
            return general(root)
        return infer_scalar(node.text, text=text) if node.text else None

    return single


def build_key_reader(path: Path) -> Callable[[Element], bytes | None]:
    """Build the reader of the key text at ``path``: the unchanged text of the first value, None for NULL."""
    steps = path.steps

    def read(root: Element) -> bytes | None:
        items = build_value_list(resolve_path(root, steps))[0]
        return items[0].encode() if items and items[0].strip(XML_SPACE) else None

    return read


def resolve_path(root: Element, steps: Sequence[Step]) -> Sequence[Node]:
    """The elements and texts of attributes at a path, whose first step is the root element."""
    first = steps[0]
    # There is one root, so on the first step only the subscript 0 finds something.
    nodes: Sequence[Node] = [root] if root.tag == first.name and not first.index else []
    for step in steps[1:]:
        name = step.name
        found: list[Node]
        if name.startswith("@"):
            name = name[1:]
            found = [node.attrib[name] for node in nodes if not isinstance(node, str) and name in node.attrib]
        else:
            found = [below for node in nodes if not isinstance(node, str) for below in node if below.tag == name]
        nodes = found if step.index is None else found[step.index : step.index + 1]
    return nodes


def build_value_list(nodes: Sequence[Node]) -> tuple[list[str], bool]:
    """The texts of a value list, including blank ones, and whether an object with members was dropped."""
    items: list[str] = []
    dropped = False
    for node in nodes:
        if isinstance(node, str):
            items.append(node)
        elif len(node) or node.attrib:
            dropped = True
            # The builder attaches text after a child to that child; all of it is the text of this element.
            text = "".join([node.text or "", *[below.tail or "" for below in node]])
            if text.strip(XML_SPACE):
                items.append(text)
        else:
            items.append(node.text or "")
    return items, dropped


def infer_scalar(value: str, *, text: bool) -> Scalar:
    """A value: NULL if it is blank, a number if it reads as one, else its text. ``text``: keep that of numbers."""
    # XML has no kinds: a text that reads as a number is one.
    number = parse_number(value)
    if number is None:
        return value if value.strip(XML_SPACE) else None
    return make_untyped_number(number, value.encode()) if text else number
