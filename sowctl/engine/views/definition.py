"""A compiled view: the fields that it reads of each source, its joins, and its projection.

Shared by the engine's views and the tasks of Spark's job ``view``; everything derived from the texts of a view is
here. sowctl-expressions(7) specifies the meaning of the texts, ``behaviour`` 5.1 and 5.2 the resolution of sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.search.matcher import build_environment
from sowctl.errors import UsageError
from sowctl.expressions.compiler import compile_projection, compile_view_filter
from sowctl.expressions.rows.joinplan import JoinStep, find_source, plan_joins
from sowctl.expressions.rows.projection import Projection
from sowctl.expressions.syntax.joins import Join, JoinSide, parse_join
from sowctl.values.fields import Slot, SlotValue, ValueList
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.config.derived_entries import View
    from sowctl.engine.instance import Instance
    from sowctl.expressions.compiler import Filter
    from sowctl.expressions.environment import Header


class Query(Struct, frozen=True):
    """The definition of a view; texts as in the configuration."""

    name: str
    message_type: str
    sources: tuple[TopicRef, ...]
    joins: tuple[str, ...]
    projection: tuple[str, ...]
    grouping: tuple[str, ...]
    filter: str | None
    nulls_match: bool
    key_domain: str

    @property
    def ref(self) -> TopicRef:
        """Name and message type."""
        return TopicRef(self.name, self.message_type)

    @property
    def qualifiers(self) -> tuple[tuple[str, str], ...]:
        """The sources by the names used in expressions, ``[type].[name]``."""
        return tuple((source.message_type, source.name) for source in self.sources)

    def __repr__(self) -> str:
        # Caches and conflated topics store digests of this text, so sources must remain (message type, name).
        values = (
            (name, self.qualifiers if name == "sources" else getattr(self, name)) for name in self.__struct_fields__
        )
        return f"Query({', '.join(f'{name}={value!r}' for name, value in values)})"


def build_query(instance: Instance, view: View) -> Query:
    """Build the query of a configured view, with its sources resolved."""
    return Query(
        view.name,
        view.message_type,
        tuple(dict.fromkeys(_resolve_source(instance, source) for source in view.sources)),
        view.joins,
        view.projection,
        view.grouping,
        view.filter,
        view.join_null_equivalency,
        view.key_domain,
    )


def _resolve_source(instance: Instance, source: TopicRef) -> TopicRef:
    """Resolve a source of a view: the entry with its name and type, else the only entry with its name.

    Rule F022 warns if the type of a view differs from that of its topic.
    """
    assert instance.config is not None
    found = instance.config.find_entries(source.name)
    # A unique name identifies the topic even if its type differs (behaviour 11.52).
    return found[0].ref if len(found) == 1 and not instance.config.find_entries(*source) else source


class ViewRecord(NamedTuple):
    """The parts of a record that a view uses: key, (txid, time), header, fields read, texts of join keys."""

    key: bytes
    stamp: tuple[int, ...]
    header: Header | None
    values: tuple[SlotValue, ...]
    texts: tuple[bytes | None, ...]


class StepPlaces(NamedTuple):
    """A step of a join: the source that it attaches; for each condition, source and place of the left text, and place
    of the right text."""

    source: int
    left: tuple[tuple[int, int], ...]
    right: tuple[int, ...]


class Program:
    """A compiled view: the fields read of each source, filter, joins and projection."""

    def __init__(self, instance: Instance, query: Query) -> None:
        """Compile a view. Raises ExpressionError for invalid texts, UsageError ``SOW-QRY-013`` for a message type that
        cannot be constructed."""
        self.instance, self.query = instance, query
        self.functions = load_functions(instance)
        joined = len(query.sources) > 1
        self.projection: Projection = compile_projection(
            query.projection, query.grouping, joined=joined, sources=query.qualifiers, extra=self.functions
        )
        self.kind = instance.find_message_type(query.message_type)
        if not self.kind.constructible:
            raise UsageError(
                "SOW-QRY-013", f"messages of type {self.kind.name} cannot be constructed, so they cannot be projected"
            )
        self.environment = build_environment(instance)
        self.filter: Filter | None = None
        # With a single source, the matcher applies the filter to records as they are read.
        if joined and query.filter:
            self.filter = compile_view_filter(query.filter, query.qualifiers, self.functions)
        # Resolve sides, so that a topic is one source even if only some joins name its message type.
        self.joins: tuple[Join, ...] = tuple(
            Join(self._resolve_side(join.left), self._resolve_side(join.right)) for join in map(parse_join, query.joins)
        )
        self.slots: list[list[Slot]] = [[] for _ in query.sources]
        self.places = self._place_slots(self.projection.slots, self.projection.sources)
        self.tested = self._place_slots(self.filter.slots, self.filter.sources) if self.filter is not None else []
        # With a single source, the values of a record are nearly always those of the projection, in the same order.
        self.direct = not joined and [place for _, place, _ in self.places] == list(range(len(self.slots[0])))

    def _resolve_side(self, side: JoinSide) -> JoinSide:
        source = self.query.sources[self.find_source((side.message_type, side.topic))]
        return side._replace(message_type=source.message_type, topic=source.name)

    def _place_slots(self, slots: Sequence[Slot], sources: Sequence[tuple[str, ...]]) -> list[tuple[int, int, bool]]:
        """Return for each slot its source, its place among that source's slots, and whether it is a list."""
        found = []
        for slot, qualifier in zip(slots, sources, strict=True):
            source = self.find_source(qualifier)
            mine = self.slots[source]
            # A field used several times is extracted from a message once.
            if slot not in mine:
                mine.append(slot)
            found.append((source, mine.index(slot), slot.listed))
        return found

    def find_source(self, qualifier: tuple[str | None, ...]) -> int:
        """Return the number of the source that a qualifier names, 0 for an empty qualifier. Raises UsageError
        ``SOW-EXP-028``."""
        if not qualifier:
            return 0
        message_type = qualifier[0] if len(qualifier) > 1 else None
        # Without a type, prefer the source of the view's own type.
        for one in (message_type or self.query.message_type, message_type):
            for number, source in enumerate(self.query.sources):
                if source.name == qualifier[-1] and one in (None, source.message_type):
                    return number
        raise UsageError("SOW-EXP-028", f"[{qualifier[-1]}] is not a source of the view")

    @cached_property
    def sides(self) -> list[list[JoinSide]]:
        """The distinct sides of joins by source. Their texts are read together with the records."""
        found: list[list[JoinSide]] = [[] for _ in self.query.sources]
        for join in self.joins:
            for side in join:
                mine = found[self.find_source((side.message_type, side.topic))]
                if side not in mine:
                    mine.append(side)
        return found

    @cached_property
    def steps(self) -> list[JoinStep[Any]]:
        """The steps of the join. Raises UsageError ``SOW-EXP-027``."""
        if not self.joins:
            return []
        start: tuple[str | None, str]
        steps: list[JoinStep[Any]]
        start, steps = plan_joins(self.joins)
        # Rows begin with records of the first source, so the join must start there.
        if self.find_source(start) != 0:
            raise UsageError("SOW-EXP-027", f"[{start[1]}] is joined before it is attached")
        return steps

    @cached_property
    def step_places(self) -> list[StepPlaces]:
        """The steps of the join with sources and texts as numbers, because they are looked up for every row."""
        found = []
        for step in self.steps:
            place = self.find_source(step.source)
            left = []
            for old, _ in step.conditions:
                source = self.find_source(find_source(old))
                left.append((source, self.sides[source].index(old)))
            right = [self.sides[place].index(new) for _, new in step.conditions]
            found.append(StepPlaces(place, tuple(left), tuple(right)))
        return found

    def read_text(self, side: JoinSide, record: ViewRecord | None) -> bytes | None:
        """Return the text of a join key in a record."""
        if record is None:
            return None
        # The texts of a record are in the order of ``sides``, as extracted by the readers.
        return record.texts[self.sides[self.find_source(find_source(side))].index(side)]

    def read_values(
        self, records: Sequence[ViewRecord | None], places: list[tuple[int, int, bool]]
    ) -> tuple[SlotValue, ...]:
        """Return the values of slots in a row."""
        found: list[SlotValue] = []
        for source, place, listed in places:
            record = records[source] if source < len(records) else None
            # Fields of a missing partner are NULL (behaviour 11.47), lists of values are empty.
            found.append(record.values[place] if record is not None else ValueList(()) if listed else None)
        return tuple(found)
