"""Projections with grouping: views, aggregated queries and subscriptions (``sowctl-expressions(7)``, grouping).

Made by :func:`sowctl.expressions.compiler.compile_projection`. One program reads every message (grouping texts, inputs
of aggregates); another makes a group's fields from the results of its aggregates and the last message processed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from sowctl.expressions.environment import NO_HEADER, Environment, Header
from sowctl.expressions.functions import AGGREGATES, Function
from sowctl.expressions.rows.aggregates import ORDERED_AGGREGATES, compute_aggregate
from sowctl.expressions.rows.code import Operand, run_emission
from sowctl.expressions.rows.emitter import Emitter
from sowctl.expressions.rows.program import CompiledTuples, CompiledValue, compile_checked_value
from sowctl.expressions.rows.sums import SUM_STATES, Count, Sum
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.actions import FieldDefinition
from sowctl.expressions.syntax.parser import find_destination
from sowctl.expressions.syntax.trees import transform_tree
from sowctl.values.fields import Row, Scalar, Slot, SlotValue
from sowctl.values.paths import Path, Step
from sowctl.values.scalars import to_text

RESULT_QUALIFIER = "\0result"
"""Qualifier of the fields that stand for results of aggregates; no topic has this name."""

GroupKey: TypeAlias = tuple[bytes | None, ...]


class TextNode(NamedTuple):
    """An expression and the text it was parsed from."""

    node: n.Node
    text: str


class AggregateCall(Struct, frozen=True):
    """One aggregate call of the projection."""

    name: str
    argument: TextNode
    delimiter: TextNode | None


_TEXT_TYPES = frozenset((str, type(None)))


class GroupState:
    """State of one group: inputs per aggregate, row and header of the last message, its stamp, and the count.

    Inputs are without NULLs, and may lack those that the result does not depend on. ``stamps`` has one per input of
    each aggregate whose order counts, nothing where messages came in the order of their updates. ``sums``: what
    further inputs of an aggregate add up to, by its number; these are not among its inputs.
    """

    __slots__ = ("header", "inputs", "row", "size", "stamp", "stamps", "sums")

    def __init__(self, aggregates: int) -> None:
        self.inputs: list[list[Scalar]] = [[] for _ in range(aggregates)]
        self.size = 0
        self.row: Row = ()
        self.header: Header = NO_HEADER
        self.stamp: tuple[Any, ...] = ()
        self.stamps: dict[int, list[tuple[Any, ...]]] = {}
        self.sums: dict[int, Count | Sum] = {}

    def number_stamps(self, part: int) -> None:
        """Make all stamps unique by the number of a part of the messages, whose parts come in their order."""
        # Inputs stand in the order in which their messages came.
        for number, stamps in self.stamps.items():
            self.stamps[number] = [(*stamp, part, place) for place, stamp in enumerate(stamps)]
        self.stamp = (*self.stamp, part, self.size)


class Projection:
    """A compiled projection.

    ``slots``, ``sources`` and ``uses_header`` as in compiled values; ``destinations`` are the places of the fields,
    ``width`` is the number of grouping fields; ``ordered`` says of each aggregate whether the order of inputs counts.
    """

    def __init__(
        self, fields: Sequence[tuple[FieldDefinition, str]], grouping: Sequence[TextNode], extra: Mapping[str, Function]
    ) -> None:
        self.destinations: tuple[tuple[str, ...], ...] = tuple(find_destination(field) for field, _ in fields)
        self.aggregates: list[AggregateCall] = []
        # Aggregates are cut out first: what is left of the fields reads their results as if they were fields of a
        # message.
        outer = [TextNode(_extract_aggregates(field.expression, text, self.aggregates), text) for field, text in fields]
        delimiters = [call.delimiter for call in self.aggregates if call.delimiter is not None]
        # Two programs: the first runs once per message, the second once per group when its fields are asked for.
        reader, maker = Emitter("", extra), Emitter("", extra)
        read = _emit_tuple(reader, [*grouping, *(call.argument for call in self.aggregates)])
        made = _emit_tuple(maker, [*outer, *delimiters])
        # Before the programs are made: it still adds slots to the reader, whose row is the one that a group keeps.
        self._needs = _shared_slots(reader, maker)
        self._parts = [*grouping, *(call.argument for call in self.aggregates)]
        self.functions = extra
        """Functions of loaded modules, by name."""
        self.width = len(grouping)
        self.keeps = tuple(place for result, place in self._needs if not result)
        """Places in a message's row of what a group's fields read from its last message."""
        self.ordered = [call.name in ORDERED_AGGREGATES for call in self.aggregates]
        self._read = CompiledTuples("", None, reader, read)
        self._make = CompiledTuples("", None, maker, made)
        self.slots: tuple[Slot, ...] = self._read.slots
        self.sources = self._read.sources
        self.uses_header = self._read.uses_header or self._make.uses_header

    def list_inputs(self) -> list[CompiledValue]:
        """List the values computed of each message: the grouping fields, then the inputs of the aggregates."""
        return [compile_checked_value(part.node, part.text, self.functions) for part in self._parts]

    def add_messages(
        self,
        groups: dict[GroupKey, GroupState],
        rows: Sequence[Row],
        env: Environment,
        headers: Sequence[Header] | None = None,
        stamps: Sequence[tuple[Any, ...]] | None = None,
    ) -> None:
        """Process messages in order: each is added to the group of its key.

        ``stamps``: they come in another order than that of their updates, which ascending stamps are: the last of a
        group is the one with the highest stamp, and of equal stamps the one that came later. A group's messages have
        stamps all or none. Raises LimitError ``SOW-EXP-030`` if a pattern exceeds the match limit.
        """
        width = self.width
        # Stamps of single inputs are kept only where an aggregate depends on the order.
        ordered = [number for number, one in enumerate(self.ordered) if one] if stamps is not None else []
        made = self._read.compute_tuples(rows, env, headers)
        for key, places in self._group_places(made).items():
            group = groups.get(key)
            if group is None:
                group = groups[key] = GroupState(len(self.aggregates))
            group.size += len(places)
            last = places[-1]
            if stamps is not None:
                for number in ordered:
                    group.stamps.setdefault(number, []).extend(
                        [stamps[place] for place in places if made[place][width + number] is not None]
                    )
            # One message of the group in this batch, which is common with many groups: no lists are built for it.
            if len(places) == 1:
                for inputs, value in zip(group.inputs, made[last][width:], strict=True):
                    # Aggregates ignore NULLs.
                    if value is not None:
                        inputs.append(value)  # type: ignore[arg-type]  # loops append scalars
            else:
                for number, inputs in enumerate(group.inputs, width):
                    column = [made[place][number] for place in places]
                    inputs.extend([value for value in column if value is not None])  # type: ignore[misc]  # loops append scalars
                if stamps is not None:
                    # max() gives the first of equals: reversed, that is the message that came later.
                    last = max(reversed(places), key=stamps.__getitem__)
            if stamps is not None:
                # An earlier batch held a later update: the group's fields stay those of that one.
                if stamps[last] < group.stamp:
                    continue
                group.stamp = stamps[last]
            group.row = rows[last]
            if headers is not None:
                group.header = headers[last]

    def _group_places(self, made: Sequence[tuple[SlotValue, ...]]) -> dict[GroupKey, list[int]]:
        """Group the places of some messages by the keys read of them, groups in the order of appearance."""
        width = self.width
        found: dict[Any, list[int]] = defaultdict(list)
        keys: list[tuple[Any, ...]] = [values[:width] for values in made]
        # Strings find their group without conversion. A scalar is never the empty string, so no two of these keys have
        # one text.
        texts = _TEXT_TYPES.issuperset(map(type, chain.from_iterable(keys)))
        if not texts:
            # Numbers do not find their group as they are: of equal ones each may have another text.
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
        """The key of each message's group, for callers that bring the messages of a group together first.

        Raises LimitError as :meth:`add_messages`.
        """
        return [tuple(map(to_text, values[: self.width])) for values in self._read.compute_tuples(rows, env, headers)]

    def compute_fields(self, group: GroupState, env: Environment) -> list[SlotValue]:
        """The values of a group's fields, in the order of ``destinations``."""
        kept = tuple([group.row[place] for place in self.keeps])

        def results(delimiters: Sequence[SlotValue]) -> list[Scalar]:
            calls = enumerate(zip(self.aggregates, delimiters, strict=True))
            return [_group_result(number, call, group, text) for number, (call, text) in calls]

        return self.compute_kept_fields(kept, group.header, results, env)

    def compute_all_fields(self, groups: Sequence[GroupState], env: Environment) -> list[Sequence[SlotValue]]:
        """Compute the fields of several groups: the program runs once for all of them."""
        if any(call.delimiter is not None for call in self.aggregates):
            return [self.compute_fields(group, env) for group in groups]
        calls = list(enumerate(self.aggregates))
        rows = []
        for group in groups:
            results = [_group_result(number, call, group, b",") for number, call in calls]
            kept = map(group.row.__getitem__, self.keeps)
            rows.append(tuple([results[place] if result else next(kept) for result, place in self._needs]))
        return list(self._make.compute_tuples(rows, env, [group.header for group in groups]))

    def compute_kept_fields(
        self,
        kept: Sequence[SlotValue],
        header: Header,
        results: Callable[[Sequence[SlotValue]], Sequence[Scalar]],
        env: Environment,
    ) -> list[SlotValue]:
        """The values of a group's fields from what is kept of its last message (``keeps``), and its header.

        ``results`` is called once with a delimiter per aggregate (``,`` where none is given) and gives the results of
        all.
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


def _group_result(number: int, call: AggregateCall, group: GroupState, delimiter: SlotValue) -> Scalar:
    inputs = group.inputs[number]
    known = group.sums.get(number)
    if known is not None:
        if not inputs:
            return known.compute_result()
        # What stands beside the sums is few: it is added to a sum of its own, which leaves the group as it is.
        added = SUM_STATES[call.name](())
        added.merge(known)  # type: ignore[arg-type]  # of one aggregate call, so of one class
        added.update(inputs, 1)
        return added.compute_result()
    stamps = group.stamps.get(number) if len(inputs) > 1 else None
    return compute_aggregate(call.name, inputs, delimiter, stamps)  # type: ignore[arg-type]  # loops append scalars


def _extract_aggregates(node: n.Node, text: str, aggregates: list[AggregateCall]) -> n.Node:
    """The expression with a result field in the place of every aggregate, which is added to ``aggregates``."""

    def change(current: n.Node) -> n.Node | None:
        if not isinstance(current, n.Call) or current.name not in AGGREGATES:
            return None
        # The result is a field whose qualifier no topic can have and whose name is its number.
        number = str(len(aggregates))
        parts = [TextNode(argument, text) for argument in current.arguments]
        aggregates.append(AggregateCall(current.name, parts[0], parts[1] if len(parts) > 1 else None))
        return n.Field(Path((Step(number),)), (RESULT_QUALIFIER,), None, 0, span=current.span)

    return transform_tree(node, change)


def _emit_tuple(emitter: Emitter, parts: Iterable[TextNode]) -> str:
    """Emit all parts; the code that ends a row by appending the tuple of their scalars."""
    codes = []
    for node, text in parts:
        emitter.text = text
        operand: Operand = run_emission(emitter.emit_value(node, True))
        codes.append(emitter.code.make_repeatable(emitter.convert_to_scalar(operand)).code + ",")
    return f"append(({' '.join(codes)}))"


def _shared_slots(reader: Emitter, maker: Emitter) -> list[tuple[bool, int]]:
    """Make the reader ask for the maker's fields too: per slot of the maker, whether it is a result, and its place."""
    needs = []
    for key, (_, wanted) in maker.code.slots.items():
        field = wanted.field
        if field.qualifier == (RESULT_QUALIFIER,):
            needs.append((True, int(field.path.steps[0].name)))
        else:
            # Both programs share one row per message: the reader asks for everything that the maker reads from the last
            # message.
            reader.code.bind_slot(field, wanted.text, wanted.listed)
            needs.append((False, reader.code.slots[key][0]))
    return needs
