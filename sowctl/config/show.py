"""A configuration as XML, as plain values, and as lines of an outline: what ``config show`` prints.

Works on :mod:`sowctl.config.items`; knows nothing of files or streams. XML that is printed here is a configuration of
the same meaning. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from sowctl.config.document import Document, ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.items import Item, checked, read_items
from sowctl.messages.xml.tree import escaped, escaped_attribute

_FREE = Element("", "0..n", "free")
_SEQUENCES = frozenset({"SOW", "TopicMetaData", "Action"})
"""Elements in which the order of children of different names has a meaning."""


class ValueOrigin(Struct, frozen=True):
    """Where a value comes from: a place and the variables in its text; a default has no place."""

    file: str | None = None
    line: int | None = None
    variables: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.file is None:
            return "default"
        return " ".join((f"{self.file}:{self.line}", *(f"${{{name}}}" for name in self.variables)))


class Line(Struct, frozen=True):
    """A line of an outline; ``value`` is None for an element that holds others."""

    depth: int
    name: str
    value: str | None
    origin: ValueOrigin


def typed(document: Document) -> Item:
    """Every element under its present name, values in one spelling, defaults filled in.

    Raises :class:`~sowctl.errors.ConfigError` of the first error of names, types and ranges.
    """
    return read_items(checked(document))


def expanded(document: Document) -> Item:
    """Every element as it was written, only with includes and variables replaced; nothing is checked."""
    return _written(document.top)


def _written(node: ElementNode) -> Item:
    children = tuple(_written(child) for child in node.children)
    return Item(node.tag, _FREE, node, None if children else node.text, "" if children else node.text, children)


def origin_of(item: Item) -> ValueOrigin:
    """Where an item comes from."""
    node = item.node
    if node is None:
        return ValueOrigin()
    return ValueOrigin(node.place.file, node.place.line, node.variables() if not item.children else ())


def as_xml(item: Item, *, origins: bool = False) -> Iterator[str]:
    """The lines of an XML document; ``origins`` adds a comment with its origin to each value."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield from _xml(item, "", origins)


def _xml(item: Item, indent: str, origins: bool) -> Iterator[str]:
    attributes = ""
    stray = ""
    if item.node is not None and item.row is _FREE:
        attributes = "".join(f' {name}="{escaped_attribute(text)}"' for name, text in item.node.attributes.items())
        # Nothing was checked, so text between elements may be there; it is shown as it was found.
        stray = item.node.text if item.children else ""
    if not item.children:
        text = escaped(item.text)
        element = f"<{item.tag}{attributes}>{text}</{item.tag}>" if text else f"<{item.tag}{attributes}/>"
        comment = f" <!-- {_comment(str(origin_of(item)))} -->" if origins else ""
        yield f"{indent}{element}{comment}"
        return
    yield f"{indent}<{item.tag}{attributes}>{escaped(stray)}"
    for child in item.children:
        yield from _xml(child, indent + "  ", origins)
    yield f"{indent}</{item.tag}>"


def _comment(text: str) -> str:
    """Text that may stand in a comment: no control characters, no two hyphens in a row, none at the end."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    # XML forbids two hyphens within a comment, and one at its end.
    while "--" in text:
        text = text.replace("--", "- -")
    return text.removesuffix("-") + (" -" if text.endswith("-") else "")


def as_values(item: Item, *, origins: bool = False) -> Any:
    """What JSON shows: members by name, arrays for elements that may be repeated, values with their types.

    SOW and each Action are arrays of objects with an ``element`` member, because their order has a meaning. With
    ``origins`` a value is an object: value, and file, line, variables or ``"default": true``.
    """
    if not item.children:
        return _value(item, origins) if item.value is not None else {}
    if item.tag in _SEQUENCES:
        return [_member(child, origins) for child in item.children]
    return _members(item, origins)


def _member(item: Item, origins: bool) -> Any:
    values = as_values(item, origins=origins)
    return {"element": item.tag, **values} if isinstance(values, dict) else {"element": item.tag, "value": values}


def _members(item: Item, origins: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for child in item.children:
        counts[child.tag] = counts.get(child.tag, 0) + 1
    for child in item.children:
        value = as_values(child, origins=origins)
        # An array also where there is one: programs that read it need not expect two shapes.
        listed = child.row.tag != "" and child.row.times.endswith("n")
        if listed or counts[child.tag] > 1:
            found.setdefault(child.tag, []).append(value)
        else:
            found[child.tag] = value
    return found


def _value(item: Item, origins: bool) -> Any:
    if not origins:
        return item.value
    origin = origin_of(item)
    if origin.file is None:
        return {"value": item.value, "default": True}
    where: dict[str, Any] = {"value": item.value, "file": origin.file, "line": origin.line}
    if origin.variables:
        where["variables"] = list(origin.variables)
    return where


def as_lines(item: Item, depth: int = 0) -> Iterator[Line]:
    """An outline, the top element left out; texts of several lines become one."""
    for child in item.children:
        value = None if child.children or child.value is None else " ".join(child.text.split())
        yield Line(depth, child.tag, value, origin_of(child))
        yield from as_lines(child, depth + 1)
