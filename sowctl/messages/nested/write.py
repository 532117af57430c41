"""Rewrite decoded messages of the typed formats: delta merge, constructed fields, select lists.

Called by :mod:`sowctl.messages.nested.type`; the rules are those of ``sowctl-messages(7)``, the same as for JSON. Trees
passed in are changed in place: they belong to one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sowctl.messages.base import Members
from sowctl.messages.directives import PathDirective
from sowctl.values.fields import FieldWrite, SlotValue

Tree: TypeAlias = dict[Any, Any]
NativeConverter: TypeAlias = Callable[[SlotValue], object]
"""Converts a slot value to a value of the format's library."""


def select_tree(tree: Tree, directive: PathDirective) -> Tree:
    """The root object without the excluded fields."""
    return _select_object(tree, directive, True)


def merge_tree(base: Tree, delta: Tree, set_nulls: bool) -> bool:
    """Write the members of ``delta`` into ``base``, objects by path; return whether one counted."""
    changed = False
    for name, value in delta.items():
        old = base.get(name)
        # An empty object does not change an object; over any other value it is a NULL.
        if isinstance(value, dict) and (value or isinstance(old, dict)):
            # A new object of the delta is built member by member as well, so that its NULLs are omitted.
            below = old if isinstance(old, dict) else type(value)()
            if merge_tree(below, value, set_nulls):
                _set_member(base, name, below)
                changed = True
        elif set_nulls or not is_null(value):
            _set_member(base, name, value)
            changed = True
    return changed


def is_null(value: object) -> bool:
    """Return True if a member of a delta changes nothing: nil, an empty String, array or object."""
    return value is None or (isinstance(value, str | bytes | list | dict) and not value)


def apply_writes(tree: Tree, writes: Sequence[FieldWrite], native: NativeConverter) -> None:
    """Write and remove constructed fields, in order; a scalar on a path is replaced by an object."""
    for one in writes:
        if one.remove:
            _remove_path(tree, one.destination.names)
        else:
            put_member(tree, one.destination.names, native(one.value))


def put_member(tree: Tree, names: Sequence[str], value: object) -> None:
    """Set the member at the end of ``names``, creating objects on the path."""
    for name in names[:-1]:
        below = tree.get(name)
        if not isinstance(below, dict):
            below = {}
            _set_member(tree, name, below)
        tree = below
    _set_member(tree, names[-1], value)


def build_tree(fields: Members, native: NativeConverter) -> Tree:
    """A new object of these fields, in their order."""
    tree: Tree = {}
    for names, value in fields:
        put_member(tree, names, native(value))
    return tree


def _set_member(tree: Tree, name: Any, value: object) -> None:
    """Replace a member completely, even in a dictionary in which the first assignment counts."""
    dict.__setitem__(tree, name, value)


def _remove_path(tree: Tree, names: Sequence[str]) -> None:
    for name in names[:-1]:
        below = tree.get(name)
        if not isinstance(below, dict):
            return
        tree = below
    tree.pop(names[-1], None)


_REMOVED_MARKER = object()


def _select_subtree(node: object, directive: PathDirective | None, include: bool) -> object:
    """Select from one value. Without a directive at or below it a value is kept or dropped completely."""
    if directive is None:
        return node if include else _REMOVED_MARKER
    if isinstance(node, dict) and node:
        # An object of which nothing remains is dropped, too; only the root may be empty.
        return _select_object(node, directive, include) or _REMOVED_MARKER
    if isinstance(node, list) and node:
        # Elements share the decision of their list; members of objects among them have directives of their own.
        inner = include if directive.include is None else directive.include
        kept = [
            part for part in (_select_subtree(item, directive, inner) for item in node) if part is not _REMOVED_MARKER
        ]
        return kept or _REMOVED_MARKER
    include = include if directive.include is None else directive.include
    return node if include else _REMOVED_MARKER


def _select_object(node: Tree, directive: PathDirective, include: bool) -> Tree:
    include = include if directive.include is None else directive.include
    parts = ((name, _select_subtree(child, directive.below.get(name), include)) for name, child in node.items())
    return {name: part for name, part in parts if part is not _REMOVED_MARKER}
