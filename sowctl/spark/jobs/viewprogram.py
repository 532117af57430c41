"""A view, compiled: which fields of which source it reads, how its sources are joined, what becomes of the rows.

The tasks of :mod:`sowctl.spark.jobs.grouping` ask it for everything that depends on the texts of a view; the job
``view`` says which view that is. What the texts mean is ruled by sowctl-expressions(7).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.instance import Instance
from sowctl.engine.search.matcher import environment_of
from sowctl.errors import UsageError
from sowctl.expressions.compile import compile_projection
from sowctl.expressions.rows.joining import JoinStep, plan, source_of
from sowctl.expressions.rows.projection import Projection
from sowctl.expressions.syntax.joins import Join, JoinSide, parse_join
from sowctl.values.fields import Slot, SlotValue, Values

if TYPE_CHECKING:
    from sowctl.expressions.compile import Filter
    from sowctl.expressions.environment import Header


class Query(Struct, frozen=True):
    """A view: ``sources`` are message type and name; texts as a configuration has them."""

    name: str
    message_type: str
    sources: tuple[tuple[str, str], ...]
    joins: tuple[str, ...]
    projection: tuple[str, ...]
    grouping: tuple[str, ...]
    filter: str | None
    nulls_match: bool
    key_domain: str


class ViewRecord(NamedTuple):
    """What travels of a record: its key, (txid, time), header, the fields asked for, the texts of join keys."""

    key: bytes
    stamp: tuple[int, ...]
    header: Header | None
    values: tuple[SlotValue, ...]
    texts: tuple[bytes | None, ...]


class Program:
    """A compiled view: which fields of which source, and what becomes of them. Made anew by every task."""

    def __init__(self, instance: Instance, query: Query) -> None:
        self.instance, self.query = instance, query
        functions = functions_of(instance)
        joined = len(query.sources) > 1
        # A qualifier may leave the message type out.
        names = [(name,) for _, name in query.sources] + [(kind, name) for kind, name in query.sources]
        self.projection: Projection = compile_projection(
            query.projection, query.grouping, joined=joined, sources=names, extra=functions
        )
        self.kind = instance.type_of(query.message_type)
        if not self.kind.constructible:
            raise UsageError("SOW-QRY-013", f"messages of type {self.kind.name} cannot be written, so not projected")
        self.environment = environment_of(instance)
        self.filter: Filter | None = None
        # Over one topic the filter is the matcher's, which asks it of records as they are read.
        if joined and query.filter:
            from sowctl.expressions.compile import compile_filter

            self.filter = compile_filter(query.filter, extra=functions)
        self.joins: tuple[Join, ...] = tuple(map(parse_join, query.joins))
        self.slots: list[list[Slot]] = [[] for _ in query.sources]
        self.places = self._placed(self.projection.slots, self.projection.sources)
        self.tested = self._placed(self.filter.slots, self.filter.sources) if self.filter is not None else []

    def _placed(self, slots: Sequence[Slot], sources: Sequence[tuple[str, ...]]) -> list[tuple[int, int, bool]]:
        """For every slot: its source, its place among that source's slots, whether it is a list."""
        found = []
        for slot, qualifier in zip(slots, sources, strict=True):
            source = self.source_of(qualifier)
            mine = self.slots[source]
            # A field that is used several times is taken out of a message once.
            if slot not in mine:
                mine.append(slot)
            found.append((source, mine.index(slot), slot.listed))
        return found

    def source_of(self, qualifier: tuple[str | None, ...]) -> int:
        """The number of the source that a qualifier names; the first where there is none."""
        if not qualifier:
            return 0
        for number, (kind, name) in enumerate(self.query.sources):
            if name == qualifier[-1] and (len(qualifier) < 2 or qualifier[0] in (None, kind)):
                return number
        raise UsageError("SOW-EXP-028", f"[{qualifier[-1]}] is no source of the view")

    @cached_property
    def sides(self) -> list[list[JoinSide]]:
        """The sides of joins by source, each once: their texts travel with the records."""
        found: list[list[JoinSide]] = [[] for _ in self.query.sources]
        for join in self.joins:
            for side in join:
                mine = found[self.source_of((side.message_type, side.topic))]
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
        start, steps = plan(self.joins)
        # Rows begin with the records of the first source; a join that starts elsewhere would have nothing to attach to.
        if self.source_of(start) != 0:
            raise UsageError("SOW-EXP-027", f"[{start[1]}] is joined before it is attached")
        return steps

    def text(self, side: JoinSide, record: ViewRecord | None) -> bytes | None:
        """The text of a join key in a record."""
        if record is None:
            return None
        # The texts of a record stand in the order of ``sides``, both here and where they were taken out.
        return record.texts[self.sides[self.source_of(source_of(side))].index(side)]

    def values(
        self, records: Sequence[ViewRecord | None], places: list[tuple[int, int, bool]]
    ) -> tuple[SlotValue, ...]:
        """The values of slots in a row."""
        found: list[SlotValue] = []
        for source, place, listed in places:
            record = records[source] if source < len(records) else None
            # A missing partner has NULL in all its fields (behaviour 11.47); a list of values is then empty.
            found.append(record.values[place] if record is not None else Values(()) if listed else None)
        return tuple(found)


class Maker:
    """Makes the program once per process."""

    def __init__(self, instance: Instance, query: Query) -> None:
        self.instance, self.query = instance, query
        self._made: Program | None = None

    @property
    def program(self) -> Program:
        """The program of this process."""
        if self._made is None:
            self._made = Program(self.instance, self.query)
        return self._made

    def __getstate__(self) -> tuple[Instance, Query]:
        # The compiled program stays behind: each process compiles the texts once for itself.
        return self.instance, self.query

    def __setstate__(self, state: tuple[Instance, Query]) -> None:
        self.instance, self.query = state
        self._made = None
