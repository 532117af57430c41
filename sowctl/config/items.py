"""The whole configuration as typed items: present names, values in canonical spelling, defaults filled in.

The generic half of the model: every element, including those that sowctl does not act on. Code that shows, compares or
prints a configuration works on items; :mod:`sowctl.config.model` has the elements that the engine acts on. A document
must be checked (:func:`check_document`) before it is read with defaults. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sowctl.config.canonical_values import read_canonical
from sowctl.config.document import Document, ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.elements.modules import ACTION_MODULES
from sowctl.config.kinds import CONTAINER_KINDS, find_bounds_fault
from sowctl.config.problems import build_config_error
from sowctl.config.topic_patterns import is_pattern
from sowctl.findings import Level

_OPEN_ELEMENT = Element("", "0..n", "free")
_CONDITIONAL_DEFAULTS = frozenset(
    {
        *(("Transport", tag) for tag in ("MessageDiskPath", "ClientMaxCapacity", "PerMessageDeflate")),
        *(("MessageType", f"{what}Separator") for what in ("Field", "Header", "Message")),
        ("MessageType", "AMPSVersionCompliance"),
        ("MessageType", "EarlyTerminationOptimization"),
    }
)
"""Defaults under conditions that the table does not express: they are not filled in."""
_RETIRED_SIZE_TAGS = frozenset({"RecordSize", "InitialSize", "IncrementSize"})


class Item(Struct, frozen=True):
    """An element: ``node`` is None for a default; a section has ``value`` None and an empty ``text``.

    ``value`` is an int (sizes in bytes, intervals in nanoseconds, counts), a bool, a float (percentages) or a text;
    ``text`` is its canonical spelling.
    """

    tag: str
    row: Element
    node: ElementNode | None
    value: Any
    text: str
    children: tuple[Item, ...]

    def find(self, tag: str) -> Item | None:
        """The first child of this name."""
        return next((child for child in self.children if child.tag == tag), None)

    def find_text(self, tag: str) -> str:
        """The text of a child, empty if absent."""
        found = self.find(tag)
        return "" if found is None else found.text

    @property
    def is_leaf(self) -> bool:
        """Return True if it holds a value rather than elements."""
        return not self.children and self.value is not None


def check_document(document: Document) -> Document:
    """Return the document. Raises :class:`~sowctl.errors.ConfigError`: the first error of names, types and ranges."""
    from sowctl.config.structure import check_element

    for finding in check_element(document.top, INSTANCE):
        # A fragment need not have a Name (S004): the file that includes it has one.
        if finding.level >= Level.ERROR and not (document.fragment and finding.id == "S004"):
            raise build_config_error(finding)
    return document


def read_items(document: Document) -> Item:
    """The items of a checked document, with defaults in existing sections."""
    return _build_item(document.top, INSTANCE)


def _build_item(node: ElementNode, row: Element) -> Item:
    tag = row.tag or node.tag
    if not _holds_elements(node, row):
        value, text = read_canonical(row, node.text)
        return Item(tag, row, node, value, text, ())
    children = [_build_item(child, _find_child_row(row, node, child)) for child in node.children]
    if row.tag == "Options":  # a module's texts: they keep their spelling
        children = [replace(child, text=below.text) for child, below in zip(children, node.children, strict=True)]
    values = [position for position, child in enumerate(children, start=1) if child.is_leaf]
    last = values[-1] if values else 0
    # Defaults follow the written values, before the sections.
    children[last:last] = _build_defaults(row, children)
    return Item(tag, row, node, None, "", tuple(children))


def _holds_elements(node: ElementNode, row: Element) -> bool:
    if node.children:
        return True
    return row.kind in CONTAINER_KINDS and row.kind not in ("mixed", "opaque")


def _find_child_row(row: Element, node: ElementNode, child: ElementNode) -> Element:
    """The row of a child; for Options of an action module, one made from the table of modules."""
    found = row.find_child(child.tag)
    if found is None:
        return _OPEN_ELEMENT
    if found.tag == "Options" and row.tag in ACTION_MODULES:
        module = ACTION_MODULES[row.tag].get(node.find_text("Module") or "")
        if module is not None:
            options = tuple(Element(name, "0..1", kind) for name, kind in module.options.items())
            return replace(found, kind="open", children=options)
    return found


def _build_defaults(row: Element, children: list[Item]) -> list[Item]:
    given = {child.tag: child for child in children}
    found = []
    for below in row.children:
        absent = below.tag not in given and below.times == "0..1" and below.retired is None
        if not absent or (row.tag, below.tag) in _CONDITIONAL_DEFAULTS:
            continue
        text = _find_default(below, row, given)
        # A neighbour's value used as a default may be outside its bounds, and is ignored then.
        if text is not None and find_bounds_fault(below, text) is None:
            value, spelled = read_canonical(below, text)
            item = Item(below.tag, below, None, value, spelled, ())
            # A later default may refer to this one.
            given[below.tag] = item
            found.append(item)
    return found


def _find_default(below: Element, row: Element, given: dict[str, Item]) -> str | None:
    """The text of a default; the name of a neighbour is replaced by the neighbour's value."""
    if below.tag == "FairnessModel":
        semantics = given.get("Semantics")
        return "round-robin" if semantics is not None and semantics.text == "at-most-once" else "proportional"
    # Without Key a domain has no effect, and would be an error if written (behaviour C11).
    if below.tag == "KeyDomain" and row.tag == "Topic" and "Key" not in given:
        return None
    # Missing present sizes are derived from the retired ones (behaviour 11.31).
    if (
        row.tag == "Topic"
        and below.tag in ("SlabSize", "InitialSlabCount")
        and not _RETIRED_SIZE_TAGS.isdisjoint(given)
    ):
        return _compute_retired_sizes(row, given)[below.tag]
    if below.default is None or row.find_child(below.default) is None:
        return below.default
    other = given.get(below.default)
    # A pattern does not name one topic to publish to.
    if other is None or (below.tag == "DefaultPublishTarget" and is_pattern(other.text)):
        return None
    return other.text


def _compute_retired_sizes(row: Element, given: dict[str, Item]) -> dict[str, str]:
    """Convert the retired sizes of a topic, at least one of which is set, to the present ones."""

    def size(tag: str) -> int:
        below = row.find_child(tag)
        value = given[tag].value if tag in given else read_canonical(below, below.default or "")[0] if below else 0
        return value if isinstance(value, int) else 0

    step = size("IncrementSize")
    return {
        "SlabSize": str(size("RecordSize") * step),
        "InitialSlabCount": str(-(-size("InitialSize") // step) if step else 1),
    }
