"""One row of the element table: names, multiplicity and content of an element.

The rows themselves are in the neighbouring modules, one per section of the configuration; together they are the one
table by which structure, types, ranges, synonyms and retired names are checked. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct


class Element(Struct, frozen=True):
    """A row. ``times`` is ``1``, ``0..1``, ``1..n`` or ``0..n``; ``kind`` names a row of :mod:`sowctl.config.kinds`.

    Kinds without a value: ``section`` (only the listed children), ``open`` (listed children are checked, others may
    occur), ``opaque`` (anything below belongs to a module).
    """

    tag: str
    times: str
    kind: str
    default: str | None = None
    children: tuple[Element, ...] = ()
    values: tuple[str, ...] = ()
    """The legal words of the kind ``enum``."""
    low: str | None = None
    high: str | None = None
    """Bounds, both inclusive, written as a value of the element's kind."""
    rule: str | None = None
    """The rule that an invalid value breaks, if it is not the kind's own."""
    missing: str = "S009"
    """The rule that its absence breaks, if it is required."""
    bounds: str | None = None
    """The rule that a value outside the bounds breaks."""
    synonyms: tuple[tuple[str, str | None], ...] = ()
    """Other accepted names, each with the rule that reports its use."""
    retired: str | None = None
    """The rule that reports any use of the element."""

    def find_child(self, tag: str) -> Element | None:
        """The row of a child by its name or a synonym."""
        for row in self.children:
            if tag == row.tag:
                return row
        for row in self.children:
            for name, _ in row.synonyms:
                if tag == name:
                    return row
        return None

    @property
    def is_required(self) -> bool:
        return self.times.startswith("1")

    @property
    def is_single(self) -> bool:
        return self.times.endswith("1")


def walk_rows(row: Element, parent: str = "") -> Iterator[tuple[str, Element]]:
    """Every row below ``row`` with the name of its parent, for lists and 'belongs in' hints."""
    yield parent, row
    for child in row.children:
        yield from walk_rows(child, row.tag)
