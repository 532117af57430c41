"""The plan of the fast JSON reader for a set of paths: a custom Struct type, and the bytes to count.

msgspec skips unwanted fields and so reads a message in a fraction of the time; but of duplicate members it uses the
last. Duplicates are detected by counting (:mod:`sowctl.values.unique_members`). For a *countable* name N, let T be the
number of times that the bytes ``"N"`` occur in some valid messages, and F the number of (object, N) pairs in which the
decoder found N, over the objects on the paths. Unless an escape spells N (searched for separately), every member N of
an object is one occurrence, and different members are different occurrences. So F <= T, and F == T leaves no room for a
second member N in any of those objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Union

import msgspec
from msgspec import UNSET

from sowctl.values.paths import Path
from sowctl.values.unique_members import CountedNames, is_countable

_MASK_BYTE = b"\x7f"
_ANY_VALUE_TYPE = Union[None, bool, int, float, str, list[Any], dict[str, Any]]  # noqa: UP007


class PlannedField:
    """One member to decode: its place among the wanted ones, and the place of its value in the decoded Struct."""

    __slots__ = ("below", "get", "kind", "name", "parent", "spelled", "subscripted", "terminal")

    def __init__(self, name: str, parent: PlannedField | None) -> None:
        self.name = name
        self.parent = parent
        self.below: dict[str, PlannedField] = {}
        self.terminal = False
        self.subscripted = False
        """Whether some path continues below it after a subscript."""
        self.spelled = False
        """Whether numbers are wanted with their spelling."""
        self.get: attrgetter[Any] = attrgetter("f0")
        """Reads it from a Struct."""
        self.kind: type | None = None
        """The Struct type of its value if only members of it are wanted."""


class FieldPlan:
    """The decoder for some paths and the bytes to count. Created by :func:`make_plan`."""

    def __init__(self, paths: Sequence[Path], spelled: Sequence[bool]) -> None:
        self.fields: list[PlannedField] = []
        """All members on the paths, each after its parent."""
        self.leaves: list[PlannedField] = []
        """The last member of each path, in the order of the paths."""
        top: dict[str, PlannedField] = {}
        for path, text in zip(paths, spelled, strict=True):
            # Paths share prefixes: a member is decoded once, however many paths contain it.
            below, field = top, None
            for step in path.steps:
                if step.name not in below:
                    below[step.name] = PlannedField(step.name, field)
                field = below[step.name]
                below = field.below
                field.subscripted |= step.index is not None and step is not path.steps[-1]
            assert field is not None
            field.terminal = True
            field.spelled |= text
            self.leaves.append(field)
        self.struct = _define_struct(top, self.fields)
        self.counted = CountedNames({field.name for field in self.fields})
        # As long as the name, so that offsets stay; no countable name contains DEL, so the mask is no wanted name.
        self.masks = [b'"%b"' % (_MASK_BYTE * len(name.encode())) for name in self.counted.names]


def make_plan(paths: Sequence[Path], spelled: Sequence[bool]) -> FieldPlan | None:
    """The plan for ``paths``; None if a name is not countable, which requires the exact reader.

    ``spelled``, for each path: whether its numbers are wanted with their spelling, which requires a float hook.
    """
    if not all(is_countable(name) for path in paths for name in path.names):
        return None
    return FieldPlan(paths, spelled if any(spelled) else [True] * len(paths))  # without a hook it makes no difference


def _define_struct(members: dict[str, PlannedField], order: list[PlannedField]) -> Any:
    """The Struct type for ``members``; their fields are numbered and appended to ``order``, parents first."""
    parts: list[tuple[str, Any, Any]] = []
    for number, field in enumerate(members.values()):
        attribute = f"f{number}"
        field.get = attrgetter(attribute)
        order.append(field)
        # Without a declared type msgspec decodes any value, and calls the hook for its numbers.
        kind: Any = object
        if field.below and not field.terminal:
            field.kind = _define_struct(field.below, order)
            # All values except objects are decoded unchanged: scalars have no members, and an array may contain
            # objects.
            kind = Union[field.kind, None, bool, int, float, str, list]  # noqa: UP007
        elif field.below:
            # The object itself is wanted too, so it is decoded completely, as a dict, in which the members are looked
            # up.
            _define_struct(field.below, order)
        elif not field.spelled:
            # msgspec calls the hook only for numbers without a declared type, which takes as long as all the rest
            kind = _ANY_VALUE_TYPE
        parts.append((attribute, kind, msgspec.field(default=UNSET, name=field.name)))
    return msgspec.defstruct("Wanted", parts, gc=False)
