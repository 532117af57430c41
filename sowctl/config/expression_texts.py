"""Check the texts that are expressions or regular expressions, each at its own place in the XML.

Only ``validate`` uses this module: the expression language and the regular expression library are imported when the
first such text is met. ``Context`` of the package ``expressions`` defines what is allowed in each place. Ruled by
``sowctl-expressions(7)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.problems import build_node_finding
from sowctl.config.topic_patterns import is_pattern
from sowctl.findings import Finding, Place

if TYPE_CHECKING:
    from sowctl.expressions.functions.signature import Function
    from sowctl.expressions.remarks import FilterRemark
    from sowctl.expressions.syntax.actions import FieldDefinition
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.joins import Join
    from sowctl.expressions.syntax.nodes import Field
    from sowctl.expressions.syntax.nodes import Node as Tree

_RULES = {"SOW-EXP-012": "F018", "SOW-EXP-013": "F015", "SOW-EXP-014": "F016", "SOW-EXP-015": "F017"}
"""The rule for a construct that is not allowed in its place, by the code of the error."""
_MAX_EXPRESSION_CHARACTERS = 1 << 18
"""Maximum length of an expression in characters; parsing needs a hundred times its length in memory."""
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


def check_text(node: ElementNode, row: Element, functions: Mapping[str, Function]) -> Iterator[Finding]:
    """The findings of one text by the kind of its row; none for kinds without expressions or patterns.

    ``functions`` are those that the configuration's modules add, by upper-case name.
    """
    kind = row.kind
    if kind == "regex":
        yield from check_regex(node)
    elif kind == "join":
        yield from _check_parse(node, "S038", "join")
    elif kind == "grouping":
        yield from _check_grouping(node)
    elif kind in _CONTEXTS:
        yield from check_expression(node, kind, functions)


def check_expression(node: ElementNode, kind: str, functions: Mapping[str, Function]) -> Iterator[Finding]:
    """The first fault of a filter, a numeric expression or a constructed field; ``kind`` as in the element table."""
    from sowctl.expressions.checker import check_node
    from sowctl.expressions.context import Context
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.nodes import Pattern
    from sowctl.expressions.syntax.patterns import compile_pattern
    from sowctl.expressions.syntax.trees import walk_tree
    from sowctl.expressions.translation import add_suggestion

    constructed = kind.startswith(("preprocessing", "enrichment", "projection"))
    shape = "projection" if kind == "projection" else "field" if constructed else "expression"
    rule = "S036" if constructed else "S035"
    context = Context[_CONTEXTS[kind]]
    fault = _try_parse(node.text, shape)[1]
    if fault is not None:
        # A text that does not parse has no tree, so only its first fault is reported.
        yield _build_finding(node, rule, add_suggestion(fault, node.text, context, functions))
        return
    for tree in _parse_trees(node.text, shape):
        try:
            check_node(tree, node.text, context, functions)
            for part in walk_tree(tree):
                # Patterns are compiled here to find a faulty one before a query uses it.
                if isinstance(part, Pattern):
                    compile_pattern(part, node.text)
        except ExpressionError as error:
            add_suggestion(error, node.text, context, functions)
            yield _build_finding(node, _find_rule(error, kind) or rule, error)


def _find_rule(error: ExpressionError, kind: str) -> str | None:
    """The rule of a fault that depends on the place of the expression; None for any other fault."""
    if error.code == "SOW-EXP-012" and kind == "projection" and error.message.startswith("VALUE_LOOKUP"):
        return "F019"
    return _RULES.get(error.code)


def find_text_place(node: ElementNode, offset: int) -> Place:
    """The place in the file of an offset in the text of a node."""
    line = node.text.count("\n", 0, offset) + 1
    return node.find_place_in_text(line, offset - node.text.rfind("\n", 0, offset))


def _check_parse(node: ElementNode, rule: str, shape: str) -> Iterator[Finding]:
    error = _try_parse(node.text, shape)[1]
    if error is not None:
        yield _build_finding(node, rule, error)


def _build_finding(node: ElementNode, rule: str, error: ExpressionError) -> Finding:
    # Line and column within the expression mean nothing to a reader of the file; the place in the file replaces them.
    message = error.message.replace(f" at line {error.line}, column {error.column}", "")
    place = node.find_place_in_text(error.line, error.column)
    return build_node_finding(rule, node, f"{node.tag}: {message}", error.hint, place=place)


# Several rules look at one text, which is parsed once for all of them.
@lru_cache(maxsize=1024)
def _try_parse(text: str, shape: str) -> tuple[Any, ExpressionError | None]:
    from sowctl.expressions.syntax import parser
    from sowctl.expressions.syntax.errors import ExpressionError, build_expression_error
    from sowctl.expressions.syntax.joins import parse_join

    if len(text) > _MAX_EXPRESSION_CHARACTERS:
        what = f"the expression exceeds the maximum of {_MAX_EXPRESSION_CHARACTERS} characters"
        return None, build_expression_error("SOW-EXP-032", what, text, _MAX_EXPRESSION_CHARACTERS)
    read = {
        "expression": parser.parse_filter,
        "field": parser.parse_field,
        "projection": parser.parse_projection,
        "grouping": parser.parse_grouping,
        "join": parse_join,
    }[shape]
    try:
        return read(text), None
    except ExpressionError as error:
        return None, error


def _parse_trees(text: str, shape: str) -> tuple[Tree, ...]:
    found: Any = _try_parse(text, shape)[0]
    if shape == "projection":
        return tuple(definition.expression for definition in found)
    return () if found is None else (found.expression if shape == "field" else found,)


def parse_definition(node: ElementNode, projection: bool) -> FieldDefinition | None:
    """The constructed field of a node; None if it does not parse."""
    found: Any = _try_parse(node.text, "projection" if projection else "field")[0]
    return found[0] if projection and found else found or None


def list_filter_remarks(text: str) -> Sequence[FilterRemark]:
    """The remarks on a filter whose meaning differs from SQL."""
    from sowctl.expressions.remarks import list_remarks

    return list_remarks(text)


def parse_filter_tree(text: str) -> Tree | None:
    """The tree of a filter; None if it does not parse."""
    found: Any = _try_parse(text, "expression")[0]
    return found or None


def parse_join_condition(node: ElementNode) -> Join | None:
    """The condition of a Join; None if it does not parse."""
    found: Any = _try_parse(node.text, "join")[0]
    return found or None


def find_fields(tree: Tree) -> Iterator[Field]:
    """The identifiers in a tree."""
    from sowctl.expressions.syntax.nodes import Field
    from sowctl.expressions.syntax.trees import walk_tree

    return (node for node in walk_tree(tree) if isinstance(node, Field))


def find_filter_fields(node: ElementNode) -> Iterator[Field]:
    """The identifiers of a filter or a numeric expression; none if it does not parse."""
    for tree in _parse_trees(node.text, "expression"):
        yield from find_fields(tree)


def parse_grouping_fields(node: ElementNode) -> tuple[Field, ...]:
    """The identifiers of a Grouping field; none if it does not parse."""
    found: Any = _try_parse(node.text, "grouping")[0]
    return found or ()


def _check_grouping(node: ElementNode) -> Iterator[Finding]:
    error = _try_parse(node.text, "grouping")[1]
    if error is None:
        return
    if None in (_try_parse(node.text, "expression")[1], _try_parse(node.text, "projection")[1]):
        message = f"grouping field {node.text!r} is not a plain source field"
        yield build_node_finding(
            "F035", node, message, "project the expression in another view, read that view and group by its field"
        )
    else:
        from sowctl.expressions.syntax.parser import parse_grouping
        from sowctl.expressions.translation import add_list_suggestion

        yield _build_finding(node, "S034", add_list_suggestion(error, node.text, parse_grouping))


def check_regex(node: ElementNode) -> Iterator[Finding]:
    """The finding of a text that is a pattern of topic names."""
    if not is_pattern(node.text):
        return
    import pcre2

    try:
        pcre2.compile(node.text)
    except pcre2.PatternError as error:
        words = str(error.msg).split("; ", 1)[-1]
        position = min(int(error.pos), len(node.text))
        message = f"{node.tag}: {node.text!r} is not a valid regular expression: {words}"
        yield build_node_finding(
            "S063", node, message, "topic patterns are PCRE", place=find_text_place(node, max(0, position - 1))
        )
