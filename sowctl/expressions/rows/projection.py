"""Projections with grouping: views, aggregated queries and subscriptions (``sowctl-expressions(7)``, grouping).

Created by :func:`sowctl.expressions.compiler.compile_projection`. One program reads every message (grouping texts,
inputs of aggregates); another computes a group's fields from the results of its aggregates and the last message
processed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from sowctl.expressions.aggregates.accumulator import Accumulator, InputReader, Stamp, iterate_no_rows
from sowctl.expressions.aggregates.latest import find_latest
from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.environment import NO_HEADER, Environment, Header
from sowctl.expressions.functions import Function
from sowctl.expressions.rows.code import Operand, run_emission
from sowctl.expressions.rows.emitter import Emitter
from sowctl.expressions.rows.groups import ContributionReader, Group
from sowctl.expressions.rows.program import CompiledTuples, CompiledValue, compile_checked_value
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.actions import FieldDefinition
from sowctl.expressions.syntax.parser import find_destination
from sowctl.expressions.syntax.trees import transform_tree
from sowctl.values.fields import Row, Scalar, Slot, SlotValue
from sowctl.values.paths import Path, Step
from sowctl.values.scalars import to_text

RESULT_QUALIFIER = "\0result"
"""Qualifier of the fields that represent results of aggregates; no topic has this name."""

GroupKey: TypeAlias = tuple[bytes | None, ...]


class TextNode(NamedTuple):
    """An expression and its source text."""

    node: n.Node
    text: str


class AggregateCall(Struct, frozen=True):
    """One aggregate call of the projection."""

    name: str
    argument: TextNode
    delimiter: TextNode | None


_TEXT_TYPES = frozenset((str, type(None)))


class EvaluatedRows(NamedTuple):
    """Messages and what was computed of each: the grouping fields, then the inputs of the aggregates."""

    values: Sequence[tuple[SlotValue, ...]]
    rows: Sequence[Row]
    headers: Sequence[Header] | None
    stamps: Sequence[Stamp]

    @property
    def size(self) -> int:
        """The number of messages."""
        return len(self.rows)

    @classmethod
    def concatenate(cls, parts: Sequence[EvaluatedRows]) -> EvaluatedRows:
        """The messages of parts, one behind the other; all have headers, or none has."""
        values, rows, headers, stamps = zip(*parts, strict=True)
        joined = None if headers[0] is None else list(chain.from_iterable(headers))
        return cls(
            list(chain.from_iterable(values)),
            list(chain.from_iterable(rows)),
            joined,
            list(chain.from_iterable(stamps)),
        )

    def take(self, places: Sequence[int]) -> EvaluatedRows:
        """Some of the messages."""
        headers = None if self.headers is None else [self.headers[place] for place in places]
        values, rows, stamps = ([some[place] for place in places] for some in (self.values, self.rows, self.stamps))
        return EvaluatedRows(values, rows, headers, stamps)


class GroupedRows:
    """Evaluated messages with the group of each."""

    def __init__(self, projection: Projection, messages: EvaluatedRows) -> None:
        self._projection = projection
        self._messages = messages
        self._places = projection.group_places(messages.values)

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self._places)

    @property
    def group_keys(self) -> list[GroupKey]:
        """The texts of each group."""
        return list(self._places)

    def add_to_groups(self, groups: dict[GroupKey, Group]) -> int:
        """Add each message to the group of its key; how many inputs the groups hold one by one, at most."""
        projection, (values, rows, headers, stamps) = self._projection, self._messages
        keeps = projection.keeps
        for key, places in self._places.items():
            group = groups.get(key)
            if group is None:
                group = groups[key] = projection.build_group()
            last = places[0]
            if len(places) == 1:
                group.add((values[last],), (stamps[last],))
            else:
                times = [stamps[place] for place in places]
                group.add([values[place] for place in places], times)
                last = places[find_latest(times)]
            row = rows[last]
            kept = tuple([row[place] for place in keeps]) if keeps else ()
            header = NO_HEADER if headers is None else headers[last]
            group.latest.add_latest((kept, header), stamps[last], len(places))
        return len(rows) * len(projection.accumulators)

    def divide(self, parts: Sequence[int]) -> Iterator[tuple[int, EvaluatedRows]]:
        """The messages of each part, in their order, where the groups belong to ``parts``."""
        found: dict[int, list[int]] = defaultdict(list)
        for part, places in zip(parts, self._places.values(), strict=True):
            found[part] += places
        for part, places in found.items():
            yield part, self._messages.take(sorted(places))


class Projection:
    """A compiled projection.

    ``slots``, ``sources`` and ``uses_header`` as in compiled values; ``destinations`` are the paths of the fields,
    ``width`` is the number of grouping fields; ``accumulators`` are the classes of the aggregates' states.
    """

    def __init__(
        self, fields: Sequence[tuple[FieldDefinition, str]], grouping: Sequence[TextNode], extra: Mapping[str, Function]
    ) -> None:
        self.destinations: tuple[tuple[str, ...], ...] = tuple(find_destination(field) for field, _ in fields)
        self.aggregates: list[AggregateCall] = []
        # Aggregates are extracted first: the remaining expressions read their results as if they were fields of a
        # message.
        outer = [TextNode(_extract_aggregates(field.expression, text, self.aggregates), text) for field, text in fields]
        delimiters = [call.delimiter for call in self.aggregates if call.delimiter is not None]
        # Two programs: the first runs once per message, the second once per group when its fields are computed.
        reader, maker = Emitter("", extra), Emitter("", extra)
        read = _emit_tuple(reader, [*grouping, *(call.argument for call in self.aggregates)])
        made = _emit_tuple(maker, [*outer, *delimiters])
        # Before the programs are built: it adds slots to the reader, whose row is the one that a group keeps.
        self._needs = _shared_slots(reader, maker)
        self._parts = [*grouping, *(call.argument for call in self.aggregates)]
        self.functions = extra
        """Functions of loaded modules, by name."""
        self.width = len(grouping)
        self.keeps = tuple(place for result, place in self._needs if not result)
        """Places in a message's row of the slots that a group's fields read from its last message."""
        self.accumulators: list[type[Accumulator]] = [AGGREGATES[call.name].accumulator for call in self.aggregates]
        self._read = CompiledTuples("", None, reader, read)
        self._make = CompiledTuples("", None, maker, made)
        self.slots: tuple[Slot, ...] = self._read.slots
        self.sources = self._read.sources
        self.uses_header = self._read.uses_header or self._make.uses_header

    def list_inputs(self) -> list[CompiledValue]:
        """List the values computed for each message: the grouping fields, then the inputs of the aggregates."""
        return [compile_checked_value(part.node, part.text, self.functions) for part in self._parts]

    @property
    def is_ordered(self) -> bool:
        """True if the result of an aggregate depends on the order of its inputs."""
        return any(one.ordered for one in self.accumulators)

    def build_group(self) -> Group:
        """A group without messages."""
        return Group([make() for make in self.accumulators], self.width)

    def add_messages(
        self,
        groups: dict[GroupKey, Group],
        rows: Sequence[Row],
        env: Environment,
        headers: Sequence[Header] | None = None,
        stamps: Sequence[tuple[Any, ...]] | None = None,
    ) -> None:
        """Process messages in order: each is added to the group of its key.

        ``stamps``: given if the order differs from that of the updates, in which stamps ascend: the last message of a
        group is the one with the highest stamp, and of equal stamps the one processed later. Raises LimitError
        ``SOW-EXP-030`` if a pattern exceeds the match limit.
        """
        if stamps is None:
            before = sum(group.size for group in groups.values())
            stamps = [(number,) for number in range(before, before + len(rows))]
        self.group_messages(rows, env, headers, stamps).add_to_groups(groups)

    def group_messages(
        self,
        rows: Sequence[Row],
        env: Environment,
        headers: Sequence[Header] | None,
        stamps: Sequence[Stamp],
    ) -> GroupedRows:
        """Evaluate messages and find the group of each. Raises as :meth:`add_messages`."""
        return GroupedRows(self, EvaluatedRows(self._read.compute_tuples(rows, env, headers), rows, headers, stamps))

    def group_places(self, made: Sequence[tuple[SlotValue, ...]]) -> dict[GroupKey, list[int]]:
        """Group the places of some messages by their keys, with groups in the order of appearance."""
        width = self.width
        found: dict[Any, list[int]] = defaultdict(list)
        keys: list[tuple[Any, ...]] = [values[:width] for values in made]
        # Strings identify their group without conversion. A scalar is never the empty string, so no two of these keys
        # have the same text.
        texts = _TEXT_TYPES.issuperset(map(type, chain.from_iterable(keys)))
        if not texts:
            # Numbers do not identify their group directly: equal ones may have different texts.
            keys = [tuple(map(to_text, key)) for key in keys]
        for place, key in enumerate(keys):
            found[key].append(place)
        return {tuple(map(to_text, key)): places for key, places in found.items()} if texts else found

    def compute_inputs(
        self, rows: Sequence[Row], env: Environment, headers: Sequence[Header] | None = None
    ) -> list[tuple[SlotValue, ...]]:
        """Compute the grouping fields, then the inputs of the aggregates, of each message.

        Raises LimitError as :meth:`add_messages`.
        """
        return self._read.compute_tuples(rows, env, headers)

    def compute_keys(
        self, rows: Sequence[Row], env: Environment, headers: Sequence[Header] | None = None
    ) -> list[GroupKey]:
        """The key of each message's group, for callers that first collect the messages of each group.

        Raises LimitError as :meth:`add_messages`.
        """
        return [tuple(map(to_text, values[: self.width])) for values in self._read.compute_tuples(rows, env, headers)]

    def compute_fields(
        self, group: Group, env: Environment, rows: ContributionReader = iterate_no_rows
    ) -> list[SlotValue]:
        """The values of a group's fields, in the order of ``destinations``.

        ``rows`` are read only for values that a removal made unknown; the group then knows them again, so it is best to
        store a state after this. Raises DamageError ``SOW-EXP-050`` if they contain other messages than the group.
        """
        kept, header = group.find_latest_row(rows)

        def results(delimiters: Sequence[SlotValue]) -> list[Scalar]:
            parts = enumerate(zip(group.parts, delimiters, strict=True))
            return [part.compute_result(_read_inputs(rows, number), text) for number, (part, text) in parts]

        return self._compute_kept_fields(kept, header, results, env)

    def compute_all_fields(self, groups: Sequence[Group], env: Environment) -> list[Sequence[SlotValue]]:
        """Compute the fields of several groups without removals: the program runs once for all."""
        if any(call.delimiter is not None for call in self.aggregates):
            return [self.compute_fields(group, env) for group in groups]
        rows, headers = [], []
        for group in groups:
            results = [part.compute_result() for part in group.parts]
            row, header = group.latest.value
            kept = iter(row)
            rows.append(tuple([results[place] if result else next(kept) for result, place in self._needs]))
            headers.append(header)
        return list(self._make.compute_tuples(rows, env, headers))

    def _compute_kept_fields(
        self,
        kept: Sequence[SlotValue],
        header: Header,
        results: Callable[[Sequence[SlotValue]], Sequence[Scalar]],
        env: Environment,
    ) -> list[SlotValue]:
        """The values of a group's fields from the kept slots of its last message (``keeps``), and its header.

        ``results`` is called once with a delimiter per aggregate (``,`` by default) and returns the results of all.
        """
        size = len(self.destinations)
        delimiters: list[SlotValue] = [b","] * len(self.aggregates)
        # Delimiters are values of the last message and contain no aggregate: they are computed first, with results
        # still NULL.
        if any(call.delimiter is not None for call in self.aggregates):
            given = iter(self._evaluate_kept_fields(kept, header, [None] * len(self.aggregates), env)[size:])
            delimiters = [next(given) if call.delimiter is not None else b"," for call in self.aggregates]
        return list(self._evaluate_kept_fields(kept, header, results(delimiters), env)[:size])

    def _evaluate_kept_fields(
        self, kept: Sequence[SlotValue], header: Header, results: Sequence[SlotValue], env: Environment
    ) -> tuple[SlotValue, ...]:
        rest = iter(kept)
        row = tuple([results[place] if result else next(rest) for result, place in self._needs])
        return self._make.compute_tuples([row], env, [header])[0]


def _read_inputs(rows: ContributionReader, number: int) -> InputReader:
    return lambda descending: ((one.stamp, one.inputs[number]) for one in rows(descending))


def _extract_aggregates(node: n.Node, text: str, aggregates: list[AggregateCall]) -> n.Node:
    """The expression with every aggregate replaced by a result field and added to ``aggregates``."""

    def change(current: n.Node) -> n.Node | None:
        if not isinstance(current, n.Call) or current.name not in AGGREGATES:
            return None
        # The result is a field whose qualifier is no possible topic and whose name is its number.
        number = str(len(aggregates))
        parts = [TextNode(argument, text) for argument in current.arguments]
        aggregates.append(AggregateCall(current.name, parts[0], parts[1] if len(parts) > 1 else None))
        return n.Field(Path((Step(number),)), (RESULT_QUALIFIER,), None, 0, span=current.span)

    return transform_tree(node, change)


def _emit_tuple(emitter: Emitter, parts: Iterable[TextNode]) -> str:
    """Emit all parts; returns the code that ends a row by appending the tuple of their scalars."""
    codes = []
    for node, text in parts:
        emitter.text = text
        operand: Operand = run_emission(emitter.emit_value(node, True))
        codes.append(emitter.code.make_repeatable(emitter.convert_to_scalar(operand)).code + ",")
    return f"append(({' '.join(codes)}))"


def _shared_slots(reader: Emitter, maker: Emitter) -> list[tuple[bool, int]]:
    """Add the maker's fields to the reader, too: per slot of the maker, whether it is a result, and its place."""
    needs = []
    for key, (_, wanted) in maker.code.slots.items():
        field = wanted.field
        if field.qualifier == (RESULT_QUALIFIER,):
            needs.append((True, int(field.path.steps[0].name)))
        else:
            # Both programs share one row per message: the reader reads everything that the maker needs from the last
            # message.
            reader.code.bind_slot(field, wanted.text, wanted.listed)
            needs.append((False, reader.code.slots[key][0]))
    return needs
