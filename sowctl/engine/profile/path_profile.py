"""The paths of many trees: the types of their values, their frequencies, and the values.

A batch is split into columns: objects with the same members in the same order are transposed together with ``zip``, so
that the cost per value is that of C code, and there is one Python step per set of members and not per record.

Called by the verbs ``schema`` and ``stats``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from sowctl.engine.profile.tally import Tally, TallyBudget
from sowctl.engine.profile.trees import UNREADABLE, Tree
from sowctl.values.paths import Path, Step

MAX_PATHS = 10_000
"""Maximum number of distinct paths. If member names are data, such as dates, each is a path."""
LOWEST, HIGHEST = -(1 << 63), (1 << 64) - 1
"""Integers of the expression language; other numbers are Doubles."""
_TYPE_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}
_TYPE_NAMES[type(None)] = "null"
"""The names of types; a number without point and exponent that fits 64 bits is an integer, any other a number."""


class PathProfile:
    """The types and values at one path. ``names`` are the members on it, ``"*"`` means the elements of an array.

    ``types`` counts values by type. ``missing_count``: objects that could have this member but do not.
    """

    def __init__(self, whole: TopicProfile, parent: PathProfile | None = None, name: str | None = None) -> None:
        self.types: Counter[str] = Counter()
        self.empty = 0
        """Number of empty texts, which the expression language treats as NULL."""
        self.lengths: tuple[int, int] | None = None
        """Minimum and maximum number of elements of an array."""
        self.members: dict[str, PathProfile] = {}
        self.elements: PathProfile | None = None
        self.parent = parent
        self.name = name
        self.tally = Tally(whole.room) if whole.room is not None else None
        self._whole = whole

    @property
    def missing_count(self) -> int:
        """Number of objects at the parent path without this member."""
        if self.parent is None or self.name is None:
            return 0
        return self.parent.types["object"] - self.types.total()

    @property
    def names(self) -> tuple[str, ...]:
        """The member names of the path, without array elements, as in filters."""
        above = self.parent.names if self.parent is not None else ()
        return above if self.name is None else (*above, self.name)

    @property
    def field(self) -> str | None:
        """The path as in filters; None for the whole message."""
        return str(Path(tuple(map(Step, self.names)))) if self.names else None

    @property
    def path(self) -> str:
        """The path with ``[*]`` after each array; ``/`` is the whole message."""
        text, node = "", self
        while node.parent is not None:
            text = ("[*]" if node.name is None else f"/{node.name}") + text
            node = node.parent
        if not text:
            return "/"
        # A name that filters write in brackets is in brackets here, too.
        return f"[{text}]" if (self.field or "").startswith("[") else text

    def add_values(self, values: Sequence[Tree]) -> None:
        """Add the values of a batch at this path."""
        kinds = Counter(map(type, values))
        for kind, count in kinds.items():
            some: Sequence[Tree] = values if len(kinds) == 1 else [value for value in values if type(value) is kind]
            if kind is dict:
                self.types["object"] += count
                self._add_objects(some)
            elif kind is list:
                self.types["array"] += count
                self._add_arrays(some)
            elif kind is int:
                self._add_integers(some)
            else:
                self.types[_TYPE_NAMES[kind]] += count
                self._add_scalars(kind, some)

    def _add_integers(self, values: Sequence[int]) -> None:
        if min(values) < LOWEST or max(values) > HIGHEST:
            beyond = [float(value) for value in values if not LOWEST <= value <= HIGHEST]
            self.types["number"] += len(beyond)
            self._add_scalars(float, beyond)
            values = [value for value in values if LOWEST <= value <= HIGHEST]
        self.types["integer"] += len(values)
        self._add_scalars(int, values)

    def _add_scalars(self, kind: type, values: Sequence[Tree]) -> None:
        if kind is str:
            self.empty += values.count("")
        if self.tally is None or kind is type(None):
            return
        if kind is bool:
            self.tally.add_booleans(values)
        else:
            self.tally.add_values(values)

    def _add_arrays(self, arrays: Sequence[list[Tree]]) -> None:
        counts = list(map(len, arrays))
        low, high = self.lengths or (counts[0], counts[0])
        self.lengths = min(low, *counts), max(high, *counts)
        elements = list(chain.from_iterable(arrays))
        if elements and self.elements is None:
            self.elements = self._whole.create_path(self, None)
        if elements and self.elements is not None:
            self.elements.add_values(elements)

    def _add_objects(self, objects: Sequence[dict[str, Tree]]) -> None:
        alike: dict[tuple[str, ...], list[Iterable[Tree]]] = {}
        for one in objects:
            alike.setdefault(tuple(one), []).append(one.values())
        columns: dict[str, list[Tree]] = {}
        # Further new names cannot become paths: no column is built for them, however many members objects have.
        more = self._whole.remaining_paths
        for names, rows in alike.items():
            # For a unique set of members, a column of one value costs more than the value.
            values: Iterable[Sequence[Tree]] = zip(*rows, strict=True) if len(rows) > 1 else zip(rows[0])
            for name, some in zip(names, values, strict=True):
                column = columns.get(name)
                if column is not None:
                    column += some
                elif name in self.members:
                    columns[name] = list(some)
                elif more > 0:
                    more -= 1
                    columns[name] = list(some)
                else:
                    self._whole.left_out += 1
        for name, column in columns.items():
            member = self.members.get(name)
            if member is None:
                member = self._whole.create_path(self, name)
                if member is None:
                    continue
                self.members[name] = member
            member.add_values(column)

    def iterate_paths(self) -> Iterator[PathProfile]:
        """Yield this path and all below it, members in order of first occurrence."""
        yield self
        if self.elements is not None:
            yield from self.elements.iterate_paths()
        for member in self.members.values():
            yield from member.iterate_paths()


class TopicProfile:
    """The paths of all messages of a topic. ``valued``: also their values."""

    def __init__(self, *, valued: bool, most: int = MAX_PATHS, held: int | None = None) -> None:
        self.room = (TallyBudget() if held is None else TallyBudget(held)) if valued else None
        self.unreadable = 0
        self.left_out = 0
        """Number of occurrences of paths beyond the limit."""
        self._most = most
        self._count = 0
        self.root = PathProfile(self)

    @property
    def remaining_paths(self) -> int:
        """The number of further paths below the limit."""
        return self._most - self._count

    def create_path(self, parent: PathProfile, name: str | None) -> PathProfile | None:
        """Create a new path; return None beyond the limit."""
        if self._count >= self._most:
            self.left_out += 1
            return None
        self._count += 1
        return PathProfile(self, parent, name)

    def add_trees(self, found: Sequence[Tree]) -> None:
        """Add the trees of a batch."""
        read = [tree for tree in found if tree is not UNREADABLE]
        self.unreadable += len(found) - len(read)
        if read:
            self.root.add_values(read)
        if self.room is not None:
            self.room.enforce()
