"""Differences between two messages, field by field: the only module that compares messages.

``diff`` compares two records of one key, ``history --diff`` a version and its predecessor, ``blame`` each entry and the
previous one. Messages are passed as their JSON views (``MessageType.members_view``). The rules:

* Objects are compared member by member, in any order of the members.
* Arrays are compared item by item if all items of both are objects; additional items at the end of one were added or
  removed. Any other array is one value.
* Scalars are equal if their texts are: 1 and 1.0 differ, and so do 1 and ``"1"``, null and a missing field. With
  ``loose``, numbers of one value are equal in any notation.

For messages a and b, ``apply_changes(compare_trees(a, b), a)`` has the fields of b, and ``compare_trees(a, a)`` is
empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.values.jsontree import NumberText, parse_json, parse_member
from sowctl.values.paths import Path, Step, parse_path
from sowctl.values.rawmembers import read_raw_members
from sowctl.values.scalars import parse_number

FieldPath: TypeAlias = tuple[str | int, ...]
"""Names of members and positions of items, starting at the outermost object; empty for the message itself."""


class _MissingType(Enum):
    MISSING = "missing"


MISSING: Final = _MissingType.MISSING
"""Represents the value of a field that a message does not have."""


class FieldChange(Struct, frozen=True):
    """One field that differs: its values (of :mod:`sowctl.values.jsontree`), :data:`MISSING` if there is none."""

    path: FieldPath
    before: Any
    after: Any

    @property
    def name(self) -> str:
        """The field as filters write it, such as ``/legs[0]/qty``."""
        return format_path(self.path)


def parse_view(view: bytes) -> Any:
    """Return the value of a message's JSON view; if the view is not JSON, its text, which compares with any other
    value."""
    text = view.decode("utf-8", "surrogateescape")
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def compare_views(before: bytes, after: bytes, *, loose: bool = False) -> list[FieldChange]:
    """List the changes between two JSON views, without parsing members whose bytes are equal."""
    if before == after:
        return []
    old, new = read_raw_members(before), read_raw_members(after)
    if old is None or new is None:
        return compare_trees(parse_view(before), parse_view(after), loose=loose)
    found: list[FieldChange] = []
    try:
        for name, raw in old.items():
            other = new.get(name)
            if other is None:
                found.append(FieldChange((name,), parse_member(raw), MISSING))
            elif bytes(raw) != bytes(other):
                found += _compare_values((name,), parse_member(raw), parse_member(other), loose)
        found += [FieldChange((name,), MISSING, parse_member(raw)) for name, raw in new.items() if name not in old]
    except (ValueError, RecursionError):
        # A value is not UTF-8, or too deep: the messages are compared as texts, as every other reader treats them.
        return compare_trees(parse_view(before), parse_view(after), loose=loose)
    return found


def compare_trees(before: Any, after: Any, *, loose: bool = False) -> list[FieldChange]:
    """List the changes between two JSON trees, in the order of ``before``, followed by new fields.

    ``loose``: numbers of one value are equal.
    """
    return list(_compare_values((), before, after, loose))


def apply_changes(changes: Sequence[FieldChange], tree: Any) -> Any:
    """Return a copy of ``tree`` in which the changes are applied."""
    from copy import deepcopy

    result = deepcopy(tree)
    for change in changes:
        if change.after is not MISSING:
            if not change.path:
                return deepcopy(change.after)
            _put_field(_find_holder(result, change.path), change.path[-1], deepcopy(change.after))
    # Items are removed from the end of an array: the last one first, so that the positions of the others do not change.
    for change in reversed(changes):
        if change.after is MISSING:
            del _find_holder(result, change.path)[change.path[-1]]
    return result


def iterate_leaves(tree: Any, front: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the fields of a value without fields of their own, with their paths: what a single change can modify."""
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            # Most members are scalars, which need no generator of their own.
            if isinstance(value, (dict, list)):
                yield from iterate_leaves(value, (*front, name))
            else:
                yield (*front, name), value
    elif isinstance(tree, list) and _are_objects(tree):
        for place, value in enumerate(tree):
            yield from iterate_leaves(value, (*front, place))
    else:
        yield front, tree


@lru_cache(4096)
def format_path(path: FieldPath) -> str:
    """Format a path in the expression language, such as ``/legs[0]/qty``; names that it cannot express are quoted."""
    text, steps = "", list[Step]()
    for part in path:
        if isinstance(part, str):
            text += f"/{part}"
            steps.append(Step(part))
        else:
            text += f"[{part}]"
            steps[-1:] = [Step(steps[-1].name, part)] if steps else []
    if not path:
        return "/"
    if steps and _can_write_path(text, steps):
        return text
    if steps and _can_write_path(text := str(Path(tuple(steps))), steps):
        return text
    return "".join(f"/{json.dumps(part)}" if isinstance(part, str) else f"[{part}]" for part in path)


def _can_write_path(text: str, steps: Sequence[Step]) -> bool:
    try:
        return parse_path(text).steps == tuple(steps)
    except UsageError:
        return False


def is_same(before: Any, after: Any, *, loose: bool = False) -> bool:
    """Return whether two values have the same members, items and scalars."""
    if isinstance(before, dict):
        return (
            isinstance(after, dict)
            and before.keys() == after.keys()
            and all(is_same(value, after[name], loose=loose) for name, value in before.items())
        )
    if isinstance(before, list):
        return (
            isinstance(after, list)
            and len(before) == len(after)
            and all(is_same(old, new, loose=loose) for old, new in zip(before, after, strict=True))
        )
    # A number is a str of its own class here, and True equals 1 in Python: the classes distinguish them.
    if type(before) is not type(after):
        return False
    return bool(before == after) or (loose and isinstance(before, NumberText) and _is_equal(before, after))


def has_same_reading(before: Any, after: Any) -> bool:
    """Return whether two values differ only in the notation of numbers, including numeric texts.

    For message types that do not distinguish numbers from texts: ``1.50`` and 1.5 have one reading.
    """
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(has_same_reading, before, after))
    if not isinstance(before, str) or not isinstance(after, str):
        return is_same(before, after)
    if parse_number(before) is None or parse_number(after) is None:
        return before == after
    return _is_equal(before, after)


def _compare_values(path: FieldPath, before: Any, after: Any, loose: bool) -> Iterator[FieldChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from _compare_values((*path, name), value, after[name], loose)
            else:
                yield FieldChange((*path, name), value, MISSING)
        for name, value in after.items():
            if name not in before:
                yield FieldChange((*path, name), MISSING, value)
    elif isinstance(before, list) and isinstance(after, list) and _are_objects(before) and _are_objects(after):
        for place, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _compare_values((*path, place), old, new, loose)
        for place in range(len(after), len(before)):
            yield FieldChange((*path, place), before[place], MISSING)
        for place in range(len(before), len(after)):
            yield FieldChange((*path, place), MISSING, after[place])
    elif not is_same(before, after, loose=loose):
        yield FieldChange(path, before, after)


def _are_objects(items: list[Any]) -> bool:
    """Return whether an array is a list of objects, whose fields are compared one by one."""
    return bool(items) and all(isinstance(item, dict) for item in items)


def _is_equal(one: str, other: str) -> bool:
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


def _find_holder(tree: Any, path: FieldPath) -> Any:
    for part in path[:-1]:
        tree = tree[part]
    return tree


def _put_field(holder: Any, part: str | int, value: Any) -> None:
    if isinstance(holder, list) and part == len(holder):
        holder.append(value)
    else:
        holder[part] = value
