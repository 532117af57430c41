"""Values of an element's children by the element table: the step from nodes to the model.

Called by :mod:`sowctl.config.instance`, :mod:`sowctl.config.derived_entries` and :mod:`sowctl.config.actions`, after
the structure was checked; an unchecked text raises the error of its reader. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from typing import Any

from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.kinds import read_value
from sowctl.values.paths import Path as FieldPath


def read_child_value(node: ElementNode, section: Element, tag: str) -> Any:
    """The value of a child by the table: its parsed text, else the default of its row, else None."""
    row = section.find_child(tag)
    assert row is not None, tag
    text = node.find_text(tag, *(name for name, _ in row.synonyms))
    # An element without text counts as absent, so its default applies.
    if text is None or text == "":
        text = row.default
    return None if text is None else read_value(row, text)


def read_microseconds(node: ElementNode, section: Element, tag: str) -> int | None:
    """The interval of a child in whole microseconds, or None if neither it nor its row has one."""
    nanoseconds = read_child_value(node, section, tag)
    # The dialect has units below a microsecond; times and lifetimes in files have none.
    return None if nanoseconds is None else nanoseconds // 1000


def read_entry_name(node: ElementNode) -> str:
    """The name of an entry, in either spelling."""
    return node.find_text("Name", "Topic") or ""


def parse_node_path(node: ElementNode) -> FieldPath:
    """The field path in the text of an element."""
    from sowctl.values.paths import parse_path

    return parse_path(node.text)


def read_section_texts(node: ElementNode, section: str, tag: str = "Field") -> tuple[str, ...]:
    """The texts of the ``tag`` elements below ``section``, in file order; none if there is no such section."""
    found = node.find(section)
    return () if found is None else tuple(child.text for child in found.find_all(tag))


def read_hash_indexes(node: ElementNode) -> tuple[tuple[FieldPath, ...], ...]:
    """The fields of each HashIndex, in file order."""
    return tuple(tuple(parse_node_path(key) for key in index.find_all("Key")) for index in node.find_all("HashIndex"))


def read_options(node: ElementNode) -> tuple[tuple[str, str], ...]:
    """The Options of a module: tag and text, in file order."""
    options = node.find("Options")
    return () if options is None else tuple((child.tag, child.text) for child in options.children)
