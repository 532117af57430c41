"""Where an element belongs that stands alone, for parts of a configuration (``sow-config(5)``, parts)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE

_FIRST = ("SOW", "TransactionLog")
"""The sections that are searched before the others."""
_USUAL = {"Field": ("SOW", "View", "Projection"), "Options": ("Actions", "Action", "Do")}
"""Elements that stand in many places."""


def home(tag: str) -> tuple[str, ...]:
    """The names of the elements above ``tag``, AMPSConfig aside; none for its children and for what is not known."""
    if INSTANCE.child(tag) is not None:
        return ()
    return _USUAL.get(tag) or _homes().get(tag, ())


@cache
def _homes() -> dict[str, tuple[str, ...]]:
    sections = sorted(INSTANCE.children, key=lambda row: row.tag not in _FIRST)
    found: dict[str, tuple[str, ...]] = {}
    for section in sections:
        for tag, above in sorted(_below(section, ()), key=lambda place: len(place[1])):
            found.setdefault(tag, above)
    return found


def _below(row: Element, above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for child in row.children:
        here = (*above, row.tag)
        for name in (child.tag, *(other for other, _ in child.synonyms)):
            yield name, here
        yield from _below(child, here)
