"""Fields of XML payloads read by path: one parse per payload, of which only what some path leads to is kept.

Used by :mod:`sowctl.messages.xmltype`; the mapping is that of ``sowctl-expressions(7)``, IDENTIFIERS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sowctl.messages.xmlparse import MAX_XML_DEPTH, SPACE, new_parser, run, too_deep
from sowctl.values.compare import numeric_reading
from sowctl.values.fields import Number, Scalar, Slot, SlotValue, Values
from sowctl.values.paths import Path, Step

_NO_ATTRIBUTES: dict[str, str] = {}


class Wanted:
    """One place in documents that some path passes or ends at."""

    __slots__ = ("below", "ends")

    def __init__(self) -> None:
        self.below: dict[str, Wanted] = {}
        self.ends = False


class Element:
    """An element on the way of some path, with what of it is wanted."""

    __slots__ = ("attributes", "below", "filled", "texts", "wanted")

    def __init__(self, wanted: Wanted, attributes: dict[str, str]) -> None:
        self.wanted = wanted
        self.attributes = attributes
        self.below: dict[str, list[Element]] = {}
        self.texts: list[str] = []
        self.filled = bool(attributes)
        """Whether it counts as an object with members."""


Node: TypeAlias = Element | str
Read: TypeAlias = Callable[[Element], SlotValue]


def wanted_of(paths: Sequence[Path]) -> Wanted:
    """What a set of paths needs of a document."""
    top = Wanted()
    for path in paths:
        place = top
        for name in path.names:
            if name.startswith("@"):
                break
            place = place.below.setdefault(name, Wanted())
        else:
            place.ends = True
    return top


def document_reader(wanted: Wanted) -> Callable[[bytes], Element]:
    """What reads one payload into the element above its root. It raises PayloadRefused."""
    stack: list[Element] = []
    skipped = 0
    """Elements that are open below one that no path wants, that one included."""

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal skipped
        if skipped:
            skipped += 1
        else:
            parent = stack[-1]
            parent.filled = True
            place = parent.wanted.below.get(name)
            if place is None:
                skipped = 1
            else:
                element = Element(place, attributes)
                stack.append(element)
                parent.below.setdefault(name, []).append(element)
        if len(stack) + skipped > _DEEPEST:
            raise too_deep()

    def end(name: str) -> None:
        nonlocal skipped
        if skipped:
            skipped -= 1
        else:
            stack.pop()

    def text(data: str) -> None:
        if not skipped and stack[-1].wanted.ends:
            stack[-1].texts.append(data)

    def read(payload: bytes) -> Element:
        nonlocal skipped
        top = Element(wanted, _NO_ATTRIBUTES)
        stack[:] = [top]
        skipped = 0
        parser = new_parser()
        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.CharacterDataHandler = text
        run(parser, payload)
        return top

    return read


_DEEPEST = MAX_XML_DEPTH + 1


def reader(slot: Slot) -> Read:
    """What finds the value of ``slot`` in a document."""
    steps, text, listed = slot.path.steps, slot.text, slot.listed

    def general(top: Element) -> SlotValue:
        items, dropped = value_list(resolve(top, steps))
        if listed or dropped or len(items) > 1:
            return Values(tuple([inferred(item, text=text) for item in items]), dropped)
        return inferred(items[0], text=text) if items else None

    if listed or any(step.index is not None for step in steps):
        return general
    *above, last = slot.path.names
    attribute = last[1:] if last.startswith("@") else None

    def direct(top: Element) -> SlotValue:
        node = top
        for name in above:
            found = node.below.get(name)
            if found is None:
                return None
            if len(found) > 1:
                return general(top)
            node = found[0]
        if attribute is not None:
            return inferred(node.attributes.get(attribute), text=text)
        found = node.below.get(last)
        if found is None:
            return None
        if len(found) > 1 or found[0].filled:
            return general(top)
        return inferred("".join(found[0].texts), text=text)

    return direct


def key_reader(path: Path) -> Callable[[Element], bytes | None]:
    """What finds the key text at ``path``: the text of the first value as it stands, None for NULL."""
    steps = path.steps

    def read(top: Element) -> bytes | None:
        items = value_list(resolve(top, steps))[0]
        return items[0].encode() if items and items[0].strip(SPACE) else None

    return read


def resolve(top: Element, steps: Sequence[Step]) -> list[Node]:
    """The elements and texts of attributes that a path reaches."""
    nodes: list[Node] = [top]
    for step in steps:
        found: list[Node] = []
        name = step.name[1:] if step.name.startswith("@") else None
        for node in nodes:
            if isinstance(node, str):
                continue
            if name is None:
                found.extend(node.below.get(step.name, ()))
            elif name in node.attributes:
                found.append(node.attributes[name])
        nodes = found if step.index is None else found[step.index : step.index + 1]
    return nodes


def value_list(nodes: Sequence[Node]) -> tuple[list[str], bool]:
    """The texts of a value list, blank ones included, and whether an object with members was dropped."""
    items: list[str] = []
    dropped = False
    for node in nodes:
        if isinstance(node, str):
            items.append(node)
            continue
        text = "".join(node.texts)
        dropped |= node.filled
        if not node.filled or text.strip(SPACE):
            items.append(text)
    return items, dropped


def inferred(value: str | None, *, text: bool) -> Scalar:
    """A value: NULL if it is blank, a number if it reads as one, else its text. ``text``: keep that of numbers."""
    if not value:
        return None
    number = numeric_reading(value)
    if number is None:
        return value if value.strip(SPACE) else None
    if text and (type(number) is float or str(number) != value):
        return Number(number, value.encode())
    return number
