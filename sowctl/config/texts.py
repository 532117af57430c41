"""Check the texts that are expressions or regular expressions, each at its own place in the XML.

Only ``validate`` comes here: the expression language and the regular expression library are imported when the first
such text is met. What each place allows is the Context of the expression room. Ruled by ``sowctl-expressions(7)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sowctl.config.document import Node
from sowctl.config.elements.element import Element
from sowctl.config.matching import is_pattern
from sowctl.config.problems import at_node
from sowctl.findings import Finding, Place

if TYPE_CHECKING:
    from sowctl.expressions.actions import FieldDefinition
    from sowctl.expressions.context import Context
    from sowctl.expressions.errors import ExpressionError
    from sowctl.expressions.joins import Join
    from sowctl.expressions.nodes import Field
    from sowctl.expressions.nodes import Node as Tree

AGGREGATES = frozenset(
    {
        "COUNT",
        "COUNT_DISTINCT",
        "SUM",
        "AVG",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "MIN",
        "MAX",
        "UNIQUE",
        "ANY",
        "GROUP_CONCAT",
    }
)
CHANGING = frozenset({"UNIX_TIMESTAMP", "LAST_READ", "VALUE_LOOKUP", "UUID7"})
"""Functions whose value changes without the message changing."""
_CONTEXTS = {
    "filter:view": "VIEW_FILTER",
    "filter:conflated": "CONFLATED_FILTER",
    "filter:queue": "QUEUE_FILTER",
    "filter:barrier": "BARRIER",
    "filter:replication": "REPLICATION_FILTER",
    "filter": "QUERY_FILTER",
    "priority": "QUEUE_PRIORITY",
    "preprocessing": "PREPROCESSING",
    "enrichment": "ENRICHMENT",
    "enrichment:conflated": "CONFLATED_ENRICHMENT",
    "projection": "PROJECTION",
}


class Fault(NamedTuple):
    """A broken rule at an offset of a text."""

    rule: str
    offset: int
    message: str
    hint: str | None = None


def check_text(node: Node, row: Element) -> Iterator[Finding]:
    """The findings of one text by the kind of its row; kinds that are no texts of these languages have none."""
    kind = row.kind
    if kind == "regex":
        yield from _regex(node)
    elif kind == "join":
        yield from _parsed(node, "S038", "join")
    elif kind == "grouping":
        yield from _grouping(node)
    elif kind in _CONTEXTS:
        yield from check_expression(node, kind)


def check_expression(node: Node, kind: str) -> Iterator[Finding]:
    """The findings of a filter, a numeric expression or a constructed field; ``kind`` as in the element table."""
    from sowctl.expressions.context import Context

    constructed = kind.startswith(("preprocessing", "enrichment", "projection"))
    shape = "projection" if kind == "projection" else "field" if constructed else "expression"
    faults = list(_parsed(node, "S036" if constructed else "S035", shape))
    yield from faults
    tree = None if faults else _tree(node.text, shape)
    if tree is not None:
        for fault in _judge(tree, Context[_CONTEXTS[kind]]):
            yield at_node(fault.rule, node, f"{node.tag}: {fault.message}", fault.hint, place=at(node, fault.offset))


def at(node: Node, offset: int) -> Place:
    """The place in the file of an offset in the text of a node."""
    line = node.text.count("\n", 0, offset) + 1
    return node.place_in_text(line, offset - node.text.rfind("\n", 0, offset))


def _parsed(node: Node, rule: str, shape: str) -> Iterator[Finding]:
    error = _attempt(node.text, shape)[1]
    if error is not None:
        yield _finding(node, rule, error)


def _finding(node: Node, rule: str, error: ExpressionError) -> Finding:
    message = error.message.replace(f" at line {error.line}, column {error.column}", "")
    place = node.place_in_text(error.line, error.column)
    return at_node(rule, node, f"{node.tag}: {message}", error.hint, place=place)


@lru_cache(maxsize=1024)
def _attempt(text: str, shape: str) -> tuple[object, ExpressionError | None]:
    from sowctl.expressions import parse
    from sowctl.expressions.errors import ExpressionError

    read = {
        "expression": parse.parse_filter,
        "field": parse.parse_field,
        "projection": parse.parse_projection,
        "grouping": parse.parse_grouping,
        "join": parse.parse_join,
    }[shape]
    try:
        return read(text), None
    except ExpressionError as error:
        return None, error


def _tree(text: str, shape: str) -> Tree | None:
    found = _attempt(text, shape)[0]
    if shape == "field":
        definition: FieldDefinition = found  # type: ignore[assignment]
        return definition.expression
    if shape == "projection":
        definitions: tuple[FieldDefinition, ...] = found  # type: ignore[assignment]
        return definitions[0].expression if len(definitions) == 1 else None
    return found  # type: ignore[return-value]


def definition(node: Node, projection: bool) -> FieldDefinition | None:
    """The constructed field of a node; None where it does not parse."""
    found, error = _attempt(node.text, "projection" if projection else "field")
    if error is not None:
        return None
    return found[0] if projection else found  # type: ignore[index,return-value]


def join(node: Node) -> Join | None:
    """The condition of a Join; None where it does not parse."""
    return _attempt(node.text, "join")[0]  # type: ignore[return-value]


def fields(tree: Tree) -> Iterator[Field]:
    """The identifiers in a tree."""
    from sowctl.expressions.nodes import Field, walk

    return (node for node in walk(tree) if isinstance(node, Field))


def grouping(node: Node) -> tuple[Field, ...]:
    """The identifiers of a Grouping field; none where it does not parse."""
    return _attempt(node.text, "grouping")[0] or ()  # type: ignore[return-value]


def _grouping(node: Node) -> Iterator[Finding]:
    error = _attempt(node.text, "grouping")[1]
    if error is None:
        return
    if _attempt(node.text, "expression")[1] is None:
        message = f"grouping field {node.text!r} is not a plain source field"
        yield at_node("F035", node, message, "project the expression in a view below and group by its field")
    else:
        yield _finding(node, "S034", error)


def _regex(node: Node) -> Iterator[Finding]:
    if not is_pattern(node.text):
        return
    import pcre2

    try:
        pcre2.compile(node.text)
    except pcre2.PatternError as error:
        words = str(error.msg).split("; ", 1)[-1]
        position = min(int(error.pos), len(node.text))
        message = f"{node.tag}: {node.text!r} is not a valid regular expression: {words}"
        yield at_node("S063", node, message, "topic patterns are PCRE", place=at(node, max(0, position - 1)))


def _judge(tree: Tree, context: Context) -> Iterator[Fault]:
    """What the place of an expression forbids; a function inside an aggregate is judged by the aggregate's rules."""
    from sowctl.expressions.nodes import Call, Field, walk

    rules = context.rules
    inside = {id(below) for node in walk(tree) if _aggregate(node) for below in walk(node) if below is not node}
    for node in walk(tree):
        offset = node.span[0]
        if isinstance(node, Call) and node.name in AGGREGATES and not rules.aggregates:
            hint = "aggregates are for the projection of a view"
            yield Fault("F017", offset, f"aggregate function {node.name} cannot be used in {rules.words}", hint)
        if isinstance(node, Call) and node.name in CHANGING:
            if node.name == "VALUE_LOOKUP" and context.name == "PROJECTION":
                yield Fault("F019", offset, "VALUE_LOOKUP cannot be used in a view")
            elif id(node) in inside or not rules.nondeterministic:
                words = "an aggregate" if id(node) in inside else rules.words
                yield Fault("F018", offset, f"non-deterministic function {node.name} cannot be used in {words}")
        if isinstance(node, Field):
            yield from _judge_field(node, context)


def _aggregate(node: Tree) -> bool:
    from sowctl.expressions.nodes import Call

    return isinstance(node, Call) and node.name in AGGREGATES


def _judge_field(node: Field, context: Context) -> Iterator[Fault]:
    rules = context.rules
    if node.qualifier and not rules.qualifiers:
        hint = "one message is looked at here; write the path alone"
        yield Fault("F016", node.span[0], f"a topic or type qualifier cannot be used in {rules.words}", hint)
    allowed = {"CURRENT": rules.current, "PREVIOUS": rules.previous}
    if node.modifier is not None and not allowed[node.modifier]:
        yield Fault("F015", node.modifier_at, f"OF {node.modifier} is not available in {rules.words}")
