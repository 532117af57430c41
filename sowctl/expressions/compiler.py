"""Parses, checks and compiles texts to objects that evaluate them (``sowctl-expressions(7)``).

A row is a tuple of slot values, one per slot of the compiled expression. The loop over rows is generated code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from sowctl.expressions.checker import NO_FUNCTIONS, check_node
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.functions import Function
from sowctl.expressions.rows.code import Emission, Operand, run_emission
from sowctl.expressions.rows.emitter import LONG_CHAIN_GROUPS, Emitter
from sowctl.expressions.rows.program import CompiledExpression, CompiledValue, compile_checked_value
from sowctl.expressions.syntax.errors import ExpressionError, build_expression_error
from sowctl.expressions.syntax.nodes import Field, Logic, Node
from sowctl.expressions.syntax.parser import (
    find_destination,
    parse_expression,
    parse_field,
    parse_filter,
    parse_grouping,
    parse_projection,
)
from sowctl.expressions.syntax.trees import walk_tree
from sowctl.values.fields import Row

if TYPE_CHECKING:
    from sowctl.expressions.rows.constructedfields import ConstructedFields
    from sowctl.expressions.rows.projection import Projection

MAX_CACHED_FILTER_CHARACTERS = 10_000
"""Maximum length of a cached filter, in characters."""


class Filter(CompiledExpression):
    """A compiled filter; the empty one matches everything."""

    __slots__ = ("_conjuncts", "_extra", "_single")

    def __init__(
        self, text: str, node: Node | None, emitter: Emitter | None, extra: Mapping[str, Function] = NO_FUNCTIONS
    ) -> None:
        # A row that reaches the end of the loop's body has passed all tests.
        super().__init__(text, node, emitter, "append(i)")
        self._extra = extra
        self._conjuncts: Sequence[Node] | None = None
        # A condition is compiled separately if an index may evaluate it.
        self._single: dict[int, Filter] = {}

    @property
    def conjuncts(self) -> Sequence[Node]:
        """The conditions that must all be TRUE (:func:`sowctl.expressions.rewrites.rewriter.list_conjuncts`)."""
        if self._conjuncts is None:
            from sowctl.expressions.rewrites.rewriter import list_conjuncts  # not for filters that are only applied

            self._conjuncts = list_conjuncts(self.node)
        return self._conjuncts

    def compile_conjunct(self, number: int) -> Filter:
        """One of :attr:`conjuncts`, compiled separately."""
        found = self._single.get(number)
        if found is None:
            found = self._single[number] = _compile_checked_condition(self.conjuncts[number], self.text, self._extra)
        return found

    def find_matches(self, rows: Iterable[Row], env: Environment, headers: Sequence[Header] | None = None) -> list[int]:
        """The indexes of the rows for which the filter is true; every row is read once.

        Raises LimitError ``SOW-EXP-030``, which contains the index, if a pattern exceeds the match limit.
        """
        if self.node is None:
            return [index for index, _ in enumerate(rows)]
        return self._run_loop(rows, env, headers, None)


def compile_filter(
    text: str, context: Context = Context.QUERY_FILTER, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> Filter:
    """Compile a filter for its context; ``extra`` are functions of loaded modules.

    A process caches some compiled filters with their generated loops. Raises ExpressionError.
    """
    # Functions of modules differ between instances, and a long text would use much memory.
    if extra or len(text) > MAX_CACHED_FILTER_CHARACTERS:
        return _find_cached_filter(text, context, extra)
    return _compile_filter_cached(text, context)


# By text and context: the same text may be allowed in one context and refused in another.
@lru_cache(maxsize=32)
def _compile_filter_cached(text: str, context: Context) -> Filter:
    return _find_cached_filter(text, context, NO_FUNCTIONS)


@contextmanager
def _suggest_on_error(text: str, context: Context, extra: Mapping[str, Function]) -> Iterator[None]:
    """For a text that is valid in another language, add to its error a suggestion that compiles."""
    try:
        yield
    except ExpressionError as error:
        from sowctl.expressions.translation import add_suggestion  # for faulty texts alone

        raise add_suggestion(error, text, context, extra) from None


def _find_cached_filter(text: str, context: Context, extra: Mapping[str, Function]) -> Filter:
    with _suggest_on_error(text, context, extra):
        node = parse_filter(text)
        if node is None:
            return Filter(text, None, None)
        check_node(node, text, context, extra)
    return _compile_checked_condition(node, text, extra)


def _compile_checked_condition(node: Node, text: str, extra: Mapping[str, Function]) -> Filter:
    """One condition of a checked filter; ``text`` is the text of the filter."""
    emitter = Emitter(text, extra)
    run_emission(_emit_conditions(emitter, node))
    return Filter(text, node, emitter, extra)


def _emit_conditions(emitter: Emitter, node: Node) -> Emission:
    """A row is rejected at the first operand of AND that is not true."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        # The operands are tests of the loop itself; groups of a longer chain become functions (see LONG_CHAIN_GROUPS).
        if isinstance(current, Logic) and current.operator == "AND" and len(current.operands) <= LONG_CHAIN_GROUPS:
            waiting.extend(reversed(current.operands))
            continue
        # A row matches only if the filter is TRUE. FALSE and NULL both reject it, so these tests need no third state.
        operand: Operand = yield emitter.emit_truth(current)
        emitter.code.add_line(f"if not {operand.code}: continue")


def compile_value(
    text: str, context: Context = Context.QUERY_FILTER, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> CompiledValue:
    """Compile a value for its context; ``extra`` are functions of loaded modules.

    Raises ExpressionError.
    """
    with _suggest_on_error(text, context, extra):
        node = parse_expression(text)
        check_node(node, text, context, extra)
    return compile_checked_value(node, text, extra)


def compile_node(
    node: Node, text: str, context: Context = Context.QUERY_FILTER, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> CompiledValue:
    """Compile a parsed value; ``text`` is its source text."""
    check_node(node, text, context, extra)
    return compile_checked_value(node, text, extra)


def compile_fields(
    texts: Sequence[str], context: Context = Context.ENRICHMENT, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> ConstructedFields:
    """Compile the fields of one phase. Raises ExpressionError, also for two fields with one destination."""
    from sowctl.expressions.rows.constructedfields import (
        ConstructedFields,  # for publishing with preprocessing or enrichment alone
    )

    definitions = []
    seen: set[tuple[str, ...]] = set()
    for text in texts:
        with _suggest_on_error(text, context, extra):
            field = parse_field(text)
            check_node(field.expression, text, context, extra)
        assert field.destination is not None
        if (field.optional or field.set_current) and not context.rules.hints:
            what = f"HINT is not allowed in {context.rules.words}"
            raise build_expression_error("SOW-EXP-024", what, text, field.place)
        # The result must not depend on the order of two fields with one destination.
        if field.destination.names in seen:
            what = f"two fields have the destination {field.destination}"
            raise build_expression_error("SOW-EXP-022", what, text, field.place)
        seen.add(field.destination.names)
        definitions.append((field, compile_checked_value(field.expression, text, extra)))
    return ConstructedFields(definitions)


def compile_view_filter(
    text: str, sources: Collection[tuple[str, ...]], extra: Mapping[str, Function] = NO_FUNCTIONS
) -> Filter:
    """Compile the filter of a view over ``sources`` (message type and name); each qualifier must name one of them.

    Raises ExpressionError.
    """
    found = compile_filter(text, Context.VIEW_FILTER, extra)
    if found.node is not None:
        _check_qualified(found.node, text, False, sources)
    return found


def compile_projection(
    projection: str | Sequence[str],
    grouping: str | Sequence[str] | None,
    *,
    joined: bool = False,
    sources: Collection[tuple[str, ...]] = (),
    extra: Mapping[str, Function] = NO_FUNCTIONS,
) -> Projection:
    """Compile a projection and its grouping, each one text or several; ``joined``: every field needs its topic.

    A grouping of None puts all messages into one group.

    ``sources``: the qualifiers that name a source of the view; if there are none, none is checked. Raises
    ExpressionError, also if there is no grouping.
    """
    from sowctl.expressions.rows.projection import Projection, TextNode  # for views and aggregated queries alone

    # Each field keeps its own source text, because its errors show a position in that text.
    fields = []
    for text in _check_texts(projection):
        with _suggest_on_error(text, Context.PROJECTION, extra):
            fields += [(field, text) for field in parse_projection(text)]
    grouped = () if grouping is None else _check_texts(grouping)
    keys = [TextNode(field, text) for text in grouped for field in _parse_grouping_or_suggest(text)]
    seen: set[tuple[str, ...]] = set()
    for field, text in fields:
        with _suggest_on_error(text, Context.PROJECTION, extra):
            check_node(field.expression, text, Context.PROJECTION, extra)
        # After the check, so that an error in the field itself is reported first.
        names = find_destination(field)
        if names in seen:
            what = f"two fields have the destination /{'/'.join(names)}"
            raise build_expression_error("SOW-EXP-022", what, text, field.place)
        seen.add(names)
    # Qualifiers last: they are checked against the sources of the view, and errors in the text itself come first.
    for node, text in [*((field.expression, text) for field, text in fields), *keys]:
        _check_qualified(node, text, joined, sources)
    return Projection(fields, keys, extra)


def _parse_grouping_or_suggest(text: str) -> tuple[Field, ...]:
    try:
        return parse_grouping(text)
    except ExpressionError as error:
        from sowctl.expressions.translation import add_list_suggestion  # for faulty texts alone

        raise add_list_suggestion(error, text, parse_grouping) from None


def _check_texts(given: str | Sequence[str]) -> Sequence[str]:
    # A missing text is parsed as the empty one, whose error describes what is missing.
    return [given] if isinstance(given, str) else given or [""]


def _check_qualified(node: Node, text: str, joined: bool, sources: Collection[tuple[str, ...]]) -> None:
    for current in walk_tree(node):
        if not isinstance(current, Field):
            continue
        # In a join several topics may have a field of this name.
        if joined and not current.qualifier:
            hint = f"write [topic].{current.path}"
            raise build_expression_error(
                "SOW-EXP-023", "a field of a join requires its topic", text, current.span[0], hint=hint
            )
        # A misspelled topic would be NULL in every row without any error.
        if current.qualifier and sources and not any(_matches_source(current.qualifier, source) for source in sources):
            what = f"{'.'.join(f'[{name}]' for name in current.qualifier)} is not a source of the view"
            raise build_expression_error("SOW-EXP-028", what, text, current.span[0])


def _matches_source(qualifier: tuple[str, ...], source: tuple[str, ...]) -> bool:
    """Return whether a qualifier names a source: the same topic, and the same type if both include it."""
    return qualifier[-1] == source[-1] and (len(qualifier) < 2 or len(source) < 2 or qualifier == source)
