"""A configuration as XML, as plain values, and as lines of an outline, for ``config show``.

Works on :mod:`sowctl.config.items`, independent of files and streams. The printed XML is a configuration of the same
meaning. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from sowctl.config.document import Document, ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.items import Item, check_document, read_items
from sowctl.messages.xml.tree import escape_attribute, escape_text

_FREE_ELEMENT = Element("", "0..n", "free")
_SEQUENCE_TAGS = frozenset({"SOW", "TopicMetaData", "Action"})
"""Elements in which the order of children of different names has a meaning."""


class ValueOrigin(Struct, frozen=True):
    """The origin of a value: a place and the variables in its text; a default has no place."""

    file: str | None = None
    line: int | None = None
    variables: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.file is None:
            return "default"
        return " ".join((f"{self.file}:{self.line}", *(f"${{{name}}}" for name in self.variables)))


class Line(Struct, frozen=True):
    """A line of an outline; ``value`` is None for an element with children."""

    depth: int
    name: str
    value: str | None
    origin: ValueOrigin


def build_typed_items(document: Document) -> Item:
    """Every element under its present name, values in canonical spelling, defaults filled in.

    Raises :class:`~sowctl.errors.ConfigError`: the first error of names, types and ranges.
    """
    return read_items(check_document(document))


def build_expanded_items(document: Document) -> Item:
    """Every element as written, only with includes and variables replaced; nothing is checked."""
    return _build_item(document.top)


def _build_item(node: ElementNode) -> Item:
    children = tuple(_build_item(child) for child in node.children)
    return Item(node.tag, _FREE_ELEMENT, node, None if children else node.text, "" if children else node.text, children)


def find_origin(item: Item) -> ValueOrigin:
    """Find the origin of an item."""
    node = item.node
    if node is None:
        return ValueOrigin()
    return ValueOrigin(node.place.file, node.place.line, node.list_variables() if not item.children else ())


def format_xml(item: Item, *, origins: bool = False) -> Iterator[str]:
    """The lines of an XML document; ``origins`` adds a comment with its origin to each value."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield from _format_element(item, "", origins)


def _format_element(item: Item, indent: str, origins: bool) -> Iterator[str]:
    attributes = ""
    stray = ""
    if item.node is not None and item.row is _FREE_ELEMENT:
        attributes = "".join(f' {name}="{escape_attribute(text)}"' for name, text in item.node.attributes.items())
        # Unchecked, so there may be text between elements; it is shown unchanged.
        stray = item.node.text if item.children else ""
    if not item.children:
        text = escape_text(item.text)
        element = f"<{item.tag}{attributes}>{text}</{item.tag}>" if text else f"<{item.tag}{attributes}/>"
        comment = f" <!-- {_format_comment(str(find_origin(item)))} -->" if origins else ""
        yield f"{indent}{element}{comment}"
        return
    yield f"{indent}<{item.tag}{attributes}>{escape_text(stray)}"
    for child in item.children:
        yield from _format_element(child, indent + "  ", origins)
    yield f"{indent}</{item.tag}>"


def _format_comment(text: str) -> str:
    """Text that is valid in a comment: no control characters, no two hyphens in a row, none at the end."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    # XML forbids two hyphens within a comment, and one at its end.
    while "--" in text:
        text = text.replace("--", "- -")
    return text.removesuffix("-") + (" -" if text.endswith("-") else "")


def build_values(item: Item, *, origins: bool = False) -> Any:
    """Build the values for JSON: members by name, arrays for elements that may be repeated, typed values.

    SOW and each Action are arrays of objects with an ``element`` member, because their order has a meaning. With
    ``origins`` a value is an object: value, and file, line, variables or ``"default": true``.
    """
    if not item.children:
        return _build_value(item, origins) if item.value is not None else {}
    if item.tag in _SEQUENCE_TAGS:
        return [_build_member(child, origins) for child in item.children]
    return _build_members(item, origins)


def _build_member(item: Item, origins: bool) -> Any:
    values = build_values(item, origins=origins)
    return {"element": item.tag, **values} if isinstance(values, dict) else {"element": item.tag, "value": values}


def _build_members(item: Item, origins: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for child in item.children:
        counts[child.tag] = counts.get(child.tag, 0) + 1
    for child in item.children:
        value = build_values(child, origins=origins)
        # An array even for a single one, so that programs need to handle only one shape.
        listed = child.row.tag != "" and child.row.times.endswith("n")
        if listed or counts[child.tag] > 1:
            found.setdefault(child.tag, []).append(value)
        else:
            found[child.tag] = value
    return found


def _build_value(item: Item, origins: bool) -> Any:
    if not origins:
        return item.value
    origin = find_origin(item)
    if origin.file is None:
        return {"value": item.value, "default": True}
    where: dict[str, Any] = {"value": item.value, "file": origin.file, "line": origin.line}
    if origin.variables:
        where["variables"] = list(origin.variables)
    return where


def format_outline(item: Item, depth: int = 0) -> Iterator[Line]:
    """An outline without the top element; texts of several lines become one."""
    for child in item.children:
        value = None if child.children or child.value is None else " ".join(child.text.split())
        yield Line(depth, child.tag, value, find_origin(child))
        yield from format_outline(child, depth + 1)
