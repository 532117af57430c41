"""Rules of View and ConflatedTopic: their fields, their message types, and the abilities of a derived topic.

Run from :mod:`sowctl.config.rules.table`; :mod:`sowctl.config.rules.sources` finds the topics that an entry derives
from. Ruled by ``sow-config(5)``, View and ConflatedTopic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.sources import ViewSource, find_sources, resolve_source
from sowctl.config.rules.survey import Survey
from sowctl.config.topic_patterns import is_pattern
from sowctl.findings import Level
from sowctl.messages.types import UNCONSTRUCTIBLE_TYPES

if TYPE_CHECKING:
    from sowctl.expressions.syntax.nodes import Node as Tree


def cross_type_unqualified(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a view over a topic of another message type that does not state the type everywhere.

    Why: an unqualified name is looked up with the view's own message type. If only one topic has the name, it is used
    (a warning); if several have it, none is used.
    Example: an nvfix View with ``<UnderlyingTopic>orders</UnderlyingTopic>`` over json orders.
    Instead: write ``[json].[orders]`` in UnderlyingTopic and before every field.
    """
    entry = survey.find_entry(node)
    foreign = False
    if not survey.knows_types(entry.type) or survey.types[entry.type] in UNCONSTRUCTIBLE_TYPES:
        return
    for source in find_sources(node):
        others = [e for e in survey.find_entries(source.name) if e is not entry]
        if source.type is None and others and resolve_source(source, entry, survey) is None:
            kind = others[0].type
            if not survey.knows_types(kind):
                continue
            message = f"'{source.name}' is of type {kind}, not {entry.type}; a cross-type view must name the type"
            hint = f"write [{kind}].[{source.name}] here and in every field"
            yield Problem(source.node, message, hint, level=Level.WARNING if len(others) == 1 else None)
        elif source.type not in (None, entry.type):
            foreign = True
    if foreign:
        yield from _find_unqualified_fields(node, 2, entry.type)


def _find_unqualified_fields(node: ElementNode, wanted: int, own: str) -> Iterator[Problem]:
    """Fields whose qualifier is shorter than the view needs."""
    known = {source.name: source.type for source in find_sources(node)}
    for field, tree in _iterate_fields(node):
        for name in expression_texts.find_fields(tree):
            topic = name.qualifier[-1] if name.qualifier else None
            # A name alone is enough if the view states the type of the topic, and it is the view's own.
            if len(name.qualifier) >= wanted or (topic in known and known[topic] in (None, own)):
                continue
            place = expression_texts.find_text_place(field, name.span[0])
            yield Problem(field, f"{field.tag}: {name} has no message type", "write [type].[topic]./field", place)


def _iterate_fields(view: ElementNode) -> Iterator[tuple[ElementNode, Tree]]:
    for section in view.find_all("Projection"):
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=True)
            if definition is not None:
                yield field, definition.expression
    for section in view.find_all("Grouping"):
        for field in section.find_all("Field"):
            for name in expression_texts.parse_grouping_fields(field):
                yield field, name


def join_unqualified(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a field of a Join view without its topic.

    Why: several topics could have it.
    Example: ``SUM(/qty) AS /total`` in a view with Join.
    Instead: write ``SUM([orders]./qty) AS /total``.
    """
    underlying = node.find("UnderlyingTopic")
    if underlying is None or underlying.find("Join") is None:
        return
    for field, tree in _iterate_fields(node):
        for name in expression_texts.find_fields(tree):
            if not name.qualifier:
                place = expression_texts.find_text_place(field, name.span[0])
                message = f"identifier {name} in a Join view has no topic qualifier"
                yield Problem(field, message, "write [topic]. before it", place)


def unreachable_field(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a field refers to a topic that UnderlyingTopic does not name.

    Why: the view never reads that topic.
    Example: ``[customers]./name`` in a view over only ``orders``.
    Instead: add a Join with that topic, or remove the field.
    """
    entry = survey.find_entry(node)
    read: dict[str, set[str]] = {}
    for source in find_sources(node):
        found = resolve_source(source, entry, survey)
        others = [other for other in survey.find_entries(source.name) if other is not entry]
        meant = [found] if found is not None else others if source.type is None else []
        read.setdefault(source.name, set()).update(other.type for other in meant)
    if not read:
        return
    condition = [(part, tree) for part in node.find_all("Filter") for tree in expression_texts.find_filter_fields(part)]
    for field, tree in [*_iterate_fields(node), *condition]:
        for name in expression_texts.find_fields(tree):
            topic = name.qualifier[-1] if name.qualifier else None
            # Only the name of an undefined topic is known.
            known = read.get(topic or "")
            if topic is None or (
                known is not None and (len(name.qualifier) < 2 or name.qualifier[0] in known or not known)
            ):
                continue
            what = ".".join(f"[{part}]" for part in name.qualifier) if topic in read else f"topic '{topic}'"
            message = f"field refers to {what}, which is not in UnderlyingTopic"
            hint = f"the sources of the view are {', '.join(sorted(read))}"
            yield Problem(field, message, hint, expression_texts.find_text_place(field, name.span[0]))


def not_an_output_type(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a View whose message type cannot be written field by field.

    Why: a view constructs its messages; binary, protobuf, struct and composite-global cannot be constructed.
    Example: ``<MessageType>binary</MessageType>`` in a View.
    Instead: let the view be json, or another type with fields.
    """
    kind = node.find("MessageType")
    if kind is not None and survey.types.get(kind.text) in UNCONSTRUCTIBLE_TYPES:
        yield Problem(kind, f"message type {kind.text} cannot be the output of a View", "use json or another text type")


def filter_with_join(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Filter in a View with Join.

    Why: a filter looks at one message; a join has several.
    Example: ``<Filter>/status = 'open'</Filter>`` beside ``<Join>``.
    Instead: filter in a view of one topic and join that.
    """
    underlying, condition = node.find("UnderlyingTopic"), node.find("Filter")
    if condition is not None and underlying is not None and underlying.find("Join") is not None:
        yield Problem(
            condition, "View Filter is not allowed with Join", "filter in a view of one topic, and join that view"
        )


def join_and_text(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: UnderlyingTopic has both a name and Join.

    Why: it is either one topic or a join of topics.
    Example: ``<UnderlyingTopic>orders<Join>...</Join></UnderlyingTopic>``.
    Instead: keep one of the two.
    """
    underlying = node.find("UnderlyingTopic")
    if underlying is not None and underlying.text and underlying.find("Join") is not None:
        yield Problem(underlying, "View uses Join and plain text in UnderlyingTopic", "keep one of the two")


def conflated_other_type(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a ConflatedTopic over a topic of another message type.

    Why: conflation does not change messages.
    Example: a json ConflatedTopic over an nvfix topic.
    Instead: give it the message type of its source, or put a View in between.
    """
    entry = survey.find_entry(node)
    underlying, kind = node.find("UnderlyingTopic"), node.find("MessageType")
    if underlying is None or kind is None:
        return
    types = sorted({other.type for other in survey.find_entries(underlying.text) if other is not entry})
    if types and entry.type not in types and survey.knows_types(entry.type, *types):
        message = f"MessageType must equal that of the underlying topic ({', '.join(types)})"
        yield Problem(kind, message, f"write <MessageType>{types[0]}</MessageType>")


def topic_format(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: TopicFormat is missing over a Pattern topic, present over another topic, or invalid.

    Why: each logical topic needs a conflated name of its own, made from ``%n``; it is a name, not a pattern.
    Example: a ConflatedTopic over a Pattern topic without TopicFormat.
    Instead: add ``<TopicFormat>%n-C</TopicFormat>``.
    """
    entry = survey.find_entry(node)
    underlying, form = node.find("UnderlyingTopic"), node.find("TopicFormat")
    found = None if underlying is None else resolve_source(ViewSource(None, underlying.text, underlying), entry, survey)
    pattern = found is not None and found.node.find("Pattern") is not None
    if form is None:
        if pattern:
            yield Problem(node, "TopicFormat is required over a Pattern topic", "add <TopicFormat>%n-C</TopicFormat>")
        return
    if found is not None and not pattern:
        yield Problem(form, "TopicFormat is only for a source with Pattern", "remove it")
    if "%n" not in form.text:
        yield Problem(form, "TopicFormat must contain %n", "%n is replaced by the logical topic name")
    if is_pattern(form.text.replace("%n", "")):
        yield Problem(form, "TopicFormat must not contain regular expression characters", "it is the name of one topic")


def index_not_projected(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a HashIndex of a View names a field that the view does not project.

    Why: no record has the field, so the index can never be used.
    Example: ``<Key>/name</Key>`` where the view projects ``/customerName``.
    Instead: name a field of the Projection.
    """
    projected: set[str] = set()
    for section in node.find_all("Projection"):
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=True)
            if definition is None:
                return
            path = definition.destination or next(iter(expression_texts.find_fields(definition.expression))).path
            projected.add(str(path))
    for index in node.find_all("HashIndex"):
        for key in index.find_all("Key"):
            if projected and key.text.startswith("/") and key.text not in projected:
                hint = f"the fields of the view are {', '.join(sorted(projected))}"
                yield Problem(key, f"HashIndex names {key.text}, which the view does not project", hint)
