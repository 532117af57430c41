"""The element table as facts for ``config schema``: existence, place, multiplicity and values of elements.

Everything comes from the one table that also drives the checks, and from the lines of
:mod:`sowctl.config.elements.descriptions`. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from sowctl.config.elements.descriptions import find_meaning
from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE

KIND_WORDS = {
    "section": "section",
    "open": "section",
    "opaque": "free XML",
    "mixed": "topic or Join",
    "string": "text",
    "text": "text",
    "path": "path",
    "field": "path of a field",
    "interval": "interval",
    "bytes": "size",
    "count": "count",
    "byte": "byte",
    "switch": "switch",
    "expiration": "interval, enabled, disabled",
    "expiration:queue": "interval",
    "recovery": "epoch, now, time, bookmark",
    "recovery:queue": "epoch, now, creation, time, bookmark",
    "address": "port, host:port",
    "percent": "percentage",
    "octal": "octal mask",
    "level": "log levels",
    "version": "version",
    "tls": "TLS versions, spaces between",
    "struct": "/name = code",
    "exclude": "check names, commas between",
    "regex": "pattern",
    "join": "ref = ref",
    "grouping": "path of a field",
    "projection": "field AS /path, or a path",
    "preprocessing": "field AS /path",
    "enrichment": "field AS /path",
    "enrichment:conflated": "field AS /path",
    "priority": "expression",
}
"""The kinds of values in words; a kind that begins with ``filter`` is a filter."""
KIND_UNITS = {
    "interval": "ns us ms s m h d w",
    "expiration": "ns us ms s m h d w",
    "expiration:queue": "ns us ms s m h d w",
    "bytes": "KB MB GB TB",
    "count": "k M",
    "percent": "%",
}
"""Units that may follow the number, by kind."""


class ElementRow(Struct, frozen=True):
    """An element at one place. ``path`` begins below AMPSConfig; ``acted`` is whether sowctl acts on it."""

    path: str
    row: Element
    acted: bool
    text: str

    @property
    def depth(self) -> int:
        """The number of elements above it."""
        return self.path.count("/")

    @property
    def value(self) -> str:
        """The kind of its content, in words."""
        return describe_value(self.row)

    def build_facts(self) -> dict[str, Any]:
        """Return the element's facts as plain values; those that do not apply are omitted."""
        row = self.row
        facts: dict[str, Any] = {"path": f"/AMPSConfig/{self.path}", "element": row.tag, "times": row.times}
        facts |= {"value": self.value, "effect": "acted on" if self.acted else "checked only", "meaning": self.text}
        optional = {
            "values": list(row.values) or None,
            "default": row.default,
            "unit": KIND_UNITS.get(row.kind),
            "minimum": row.low,
            "maximum": row.high,
            "synonyms": [name for name, _ in row.synonyms] or None,
            "retired": True if row.retired is not None else None,
        }
        return facts | {name: value for name, value in optional.items() if value is not None}


def describe_value(row: Element) -> str:
    """Describe the content of an element in words."""
    if row.kind == "enum":
        return ", ".join(row.values)
    return "filter" if row.kind.startswith("filter") else KIND_WORDS[row.kind]


def iterate_rows(wanted: str | None = None) -> Iterator[ElementRow]:
    """The elements in the order of the table; with ``wanted`` those of this name or path, else of this old name."""
    found = list(_iterate_below(INSTANCE, ""))
    if wanted is None:
        yield from found
        return
    above, _, last = wanted.lower().strip("/").removeprefix("ampsconfig/").rpartition("/")
    here = [row for row in found if _stands_in(row, above)]
    named = [row for row in here if row.row.tag.lower() == last]
    yield from named or [row for row in here if last in (name.lower() for name, _ in row.row.synonyms)]


def _stands_in(row: ElementRow, above: str) -> bool:
    parents = row.path.lower().rpartition("/")[0]
    return not above or f"/{parents}".endswith(f"/{above}")


def _iterate_below(parent: Element, path: str) -> Iterator[ElementRow]:
    for child in parent.children:
        here = f"{path}/{child.tag}" if path else child.tag
        meaning = find_meaning(here)
        yield ElementRow(here, child, meaning.acted, meaning.text)
        yield from _iterate_below(child, here)


def format_row_list(found: list[ElementRow]) -> Iterator[str]:
    """A line for each element: name, multiplicity, value and default, indented by depth."""
    names = [f"{'  ' * row.depth}{row.row.tag}" for row in found]
    longest = max(map(len, names))
    for name, row in zip(names, found, strict=True):
        default = f"; {row.row.default}" if row.row.default is not None else ""
        yield f"{name:<{longest}}  {row.row.times:<4}  {row.value}{default}"


def format_row_facts(row: ElementRow) -> Iterator[str]:
    """All facts about one element, one per line."""
    facts = row.build_facts()
    yield facts.pop("path")
    del facts["element"]
    for name, value in facts.items():
        shown = "yes" if value is True else " ".join(value) if isinstance(value, list) else str(value)
        yield f"  {name:<9} {shown}"
