"""Find the parents of an element that has none, for parts of a configuration (``sow-config(5)``, parts)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE

_PREFERRED_SECTIONS = ("SOW", "TransactionLog")
"""Sections to search before the others."""
_PREFERRED_PARENTS = {"Field": ("SOW", "View", "Projection"), "Options": ("Actions", "Action", "Do")}
"""The preferred parents of elements that may occur in many places."""


def find_parent_path(tag: str) -> tuple[str, ...]:
    """The names of the elements above ``tag``, without AMPSConfig; empty for its children and for unknown elements."""
    if INSTANCE.find_child(tag) is not None:
        return ()
    return _PREFERRED_PARENTS.get(tag) or _build_parent_paths().get(tag, ())


def find_parents(tag: str) -> list[str]:
    """The paths of all possible parents of ``tag``, such as ``SOW/Topic``; ``AMPSConfig`` for its children."""
    found = ["AMPSConfig"] if INSTANCE.find_child(tag) is not None else []
    for section in _sections():
        paths = [
            "/".join(above)
            for name, above in _iterate_below(section, ())
            if name == tag and not _is_retired(above, tag)
        ]
        found += sorted(dict.fromkeys(paths), key=lambda path: path.count("/"))
    return found


def _is_retired(above: tuple[str, ...], tag: str) -> bool:
    row: Element | None = INSTANCE
    for name in (*above, tag):
        row = row.find_child(name) if row is not None else None
    return row is not None and row.retired is not None


def _sections() -> list[Element]:
    return sorted(INSTANCE.children, key=lambda row: row.tag not in _PREFERRED_SECTIONS)


@cache
def _build_parent_paths() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for section in _sections():
        for tag, above in sorted(_iterate_below(section, ()), key=lambda place: len(place[1])):
            found.setdefault(tag, above)
    return found


def _iterate_below(row: Element, above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for child in row.children:
        here = (*above, row.tag)
        for name in (child.tag, *(other for other, _ in child.synonyms)):
            yield name, here
        yield from _iterate_below(child, here)
