"""Compare the meaning of two elements: values by their type, expressions by their trees, and order.

Called by :mod:`sowctl.config.difference`. The expression language is imported when the first expression is met. Ruled
by ``sow-config(5)``, values, and ``sowctl-expressions(7)``.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Hashable
from operator import attrgetter
from typing import Any

from sowctl.config.items import Item

ORDERED_ELEMENTS = frozenset(
    {
        ("Topic", "Key"),
        ("Preprocessing", "Field"),
        ("Enrichment", "Field"),
        ("Projection", "Field"),
        ("Grouping", "Field"),
        ("UnderlyingTopic", "Join"),
        ("MessageType", "MessageType"),
        ("MessageType", "ProtoPath"),
        ("MessageType", "Field"),
        ("Transport", "InetAddr"),
        ("Transport", "TransportFilter"),
        ("Destination", "Transport"),
    }
)
"""Repeated elements, each with its parent, whose order has a meaning."""
SEQUENCE_ELEMENTS = frozenset({"Action"})
"""Elements whose children together form one sequence."""
IDENTITY_TAGS: dict[tuple[str, str], tuple[str, ...]] = {
    **{("SOW", kind): ("Name", "MessageType") for kind in ("Topic", "View", "ConflatedTopic")},
    **{("SOW", kind): ("Name", "MessageType") for kind in ("Queue", "LocalQueue", "GroupLocalQueue")},
    ("TransactionLog", "Topic"): ("Name", "MessageType"),
    ("Destination", "Topic"): ("Name", "MessageType"),
    ("Replication", "Destination"): ("Name", "Group"),
    ("Transports", "Transport"): ("Name",),
    ("Protocols", "Protocol"): ("Name",),
    ("MessageTypes", "MessageType"): ("Name",),
    ("Modules", "Module"): ("Name",),
    ("UserDefinedFunctions", "Function"): ("Name",),
}
"""Repeated elements that have a name: the children that identify them."""
_SAME_WORDS = {("Protocol", "json"): "amps", ("Level", "debug"): "info", ("Levels", "debug"): "info"}


def compute_meaning(item: Item) -> Hashable:
    """A value that is equal for two items if and only if their texts mean the same."""
    kind = item.row.kind
    word = _SAME_WORDS.get((item.tag, item.text))
    if word is not None:
        return word
    # ``:memory:`` and similar values are no file names, so they are not normalised.
    if kind == "path" and not item.text.startswith(":"):
        return posixpath.normpath(item.text)
    if kind.startswith(("filter", "priority", "preprocessing", "enrichment", "projection", "grouping", "join")):
        return _normalize_expression(item.text, kind.partition(":")[0])
    # The type is included, because True equals 1 in Python.
    if isinstance(item.value, bool | int | float):
        return (type(item.value).__name__, item.value)
    return item.text


def compute_fingerprint(item: Item) -> Hashable:
    """A value that is equal for two items if they and all descendants mean the same; order counts only where it has a
    meaning."""
    if not item.children:
        return (item.tag, compute_meaning(item) if item.value is not None else None)
    parts = [compute_fingerprint(child) for child in item.children if not is_empty_section(child)]
    if item.tag in SEQUENCE_ELEMENTS:
        return (item.tag, tuple(parts))
    listed = [
        child for child in item.children if (item.tag, child.tag) in ORDERED_ELEMENTS and not is_empty_section(child)
    ]
    # Order counts only among elements of one name; the stable sort keeps it.
    ordered = tuple(compute_fingerprint(child) for child in sorted(listed, key=attrgetter("tag")))
    # Counted, not only collected: two equal entries differ in meaning from one.
    return (item.tag, ordered, frozenset(Counter(parts).items()))


def is_empty_section(item: Item) -> bool:
    """Return True for an empty section, which means the same as an absent one."""
    return not item.children and item.value is None


def _normalize_expression(text: str, kind: str) -> Hashable:
    """The canonical form of an expression; its words if it does not parse."""
    from sowctl.expressions.syntax import parser
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.joins import parse_join
    from sowctl.expressions.syntax.nodes import format_field, format_node

    def constructed(field: Any) -> Hashable:
        return format_node(field.expression), parser.find_destination(field), field.optional, field.set_current

    try:
        if kind in ("filter", "priority"):
            tree = parser.parse_filter(text)
            return "" if tree is None else format_node(tree)
        if kind in ("preprocessing", "enrichment"):
            return constructed(parser.parse_field(text))
        if kind == "projection":
            return tuple(constructed(field) for field in parser.parse_projection(text))
        if kind == "grouping":
            return tuple(format_field(field) for field in parser.parse_grouping(text))
        join = parse_join(text)
        return tuple((side.message_type, side.topic, str(side.path)) for side in (join.left, join.right))
    except ExpressionError:
        return " ".join(text.split())
