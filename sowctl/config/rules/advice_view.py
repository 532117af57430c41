"""Advice on views: the meaning of their values, and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.sources import find_sources
from sowctl.config.rules.survey import Survey
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.expressions.syntax.nodes import Call, Field
    from sowctl.expressions.syntax.nodes import Node as Tree


def _iterate_projected(view: ElementNode) -> Iterator[tuple[ElementNode, Tree]]:
    for section in view.find_all("Projection"):
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=True)
            if definition is not None:
                yield field, definition.expression


def neither_aggregated_nor_grouped(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a view projects a field that is neither in an aggregate nor determined by Grouping.

    Why: such a field has the value of the message that was processed last, and keeps it when that record is deleted.
    Determined fields are the grouping fields, fields that a Join makes equal to them, and every field of a topic whose
    Key is determined.
    Example: ``<Field>/price</Field>`` in a view grouped by ``/symbol``.
    Instead: put it into an aggregate such as ``MAX(/price) AS /price``, or add it to Grouping.
    """
    joined = len({source.name for source in find_sources(node)}) > 1
    grouped = {
        _qualify_name(f, joined)
        for part in node.find_all("Grouping")
        for field in part.find_all("Field")
        for f in _find_field_names(field)
    }
    if not grouped:
        return
    whole = _add_joined_fields(grouped, node, survey, joined)
    for field, tree in _iterate_projected(node):
        for name in _find_unaggregated_fields(tree):
            key = _qualify_name(name, joined)
            if key not in grouped and key[0] not in whole:
                message = (
                    f"View projects {name}, neither aggregated nor grouped: it has the last processed "
                    "value, which may be outdated"
                )
                hint = "aggregate it, for example with MAX, or add it to Grouping"
                yield Problem(field, message, hint, expression_texts.find_text_place(field, name.span[0]))
                break


def _find_field_names(field: ElementNode) -> tuple[Field, ...]:
    return expression_texts.parse_grouping_fields(field)


def _qualify_name(field: Field, joined: bool) -> tuple[str, str]:
    """A field as topic and path; the topic only if there are several."""
    return (field.qualifier[-1] if joined and field.qualifier else "", str(field.path))


def _add_joined_fields(grouped: set[tuple[str, str]], view: ElementNode, survey: Survey, joined: bool) -> set[str]:
    """Add to ``grouped`` the fields that joins make equal to it; return the topics with one record per group."""
    equal: dict[tuple[str, str], list[tuple[str, str]]] = {}
    fields: dict[str, set[tuple[str, str]]] = {}
    for underlying in view.find_all("UnderlyingTopic"):
        for node in underlying.find_all("Join"):
            condition = expression_texts.parse_join_condition(node)
            if condition is not None:
                left, right = ((side.topic, str(side.path)) for side in condition)
                for one, other in ((left, right), (right, left)):
                    equal.setdefault(one, []).append(other)
                    fields.setdefault(one[0], set()).add(one)
    missing: dict[str, set[str]] = {}
    for source in find_sources(view):
        for entry in survey.find_entries(source.name, source.type or survey.find_entry(view).type)[:1]:
            missing[source.name if joined else ""] = {key.text for key in entry.node.find_all("Key")}
    # Publishers choose these keys, so no fields determine a record.
    without_key = {topic for topic, keys in missing.items() if not keys}
    whole: set[str] = set()
    waiting = list(grouped)
    while waiting:
        name = waiting.pop()
        grouped.add(name)
        topic, path = name
        found = set(equal.pop(name, ()))
        missing.get(topic, set()).discard(path)
        if topic not in whole and topic in missing and not missing[topic] and topic not in without_key:
            # All fields of its Key are determined: a group has one record of this topic, which determines all other
            # fields, including those that other joins use.
            whole.add(topic)
            found |= fields.get(topic, set())
        waiting.extend(found - grouped)
    return whole


def _find_unaggregated_fields(tree: Tree) -> Iterator[Field]:
    from sowctl.expressions.aggregates.table import AGGREGATES
    from sowctl.expressions.syntax.nodes import Call, Field

    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Field):
            yield part
        # The fields inside an aggregate are computed over the whole group.
        elif not (isinstance(part, Call) and part.name in AGGREGATES):
            waiting.extend(reversed(part.list_children()))


def aggregate_inside_if(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an aggregate inside ``IF``.

    Why: on a server of version 5.3.5.135, live updates of such a field were observed to be wrong.
    Example: ``IF(SUM(/qty) > 0, SUM(/value) / SUM(/qty), 0) AS /average``.
    Instead: project the aggregates separately, and use IF in a view over this one.
    """
    for field, tree in _iterate_projected(node):
        found = _find_call_in_if(tree)
        if found is not None:
            message = f"aggregate {found.name} nested inside IF(): live updates were observed to be wrong"
            hint = "project the aggregate separately, and use IF in a view over this one"
            yield Problem(field, message, hint, expression_texts.find_text_place(field, found.span[0]))


def _find_call_in_if(tree: Tree) -> Call | None:
    from sowctl.expressions.aggregates.table import AGGREGATES
    from sowctl.expressions.syntax.nodes import Call
    from sowctl.expressions.syntax.trees import walk_tree

    for part in walk_tree(tree):
        if isinstance(part, Call) and part.name == "IF":
            for below in walk_tree(part):
                if isinstance(below, Call) and below.name in AGGREGATES:
                    return below
    return None


def fast_source(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a view is computed on every update of a topic for which the same file defines a ConflatedTopic.

    Why: a topic that is worth a ConflatedTopic changes often, and each change recalculates the view.
    Example: a View over ``quotes`` without Conflation, beside a ConflatedTopic over ``quotes``.
    Instead: write ``<Conflation>inline</Conflation>``, or read the ConflatedTopic.
    """
    conflated: dict[TopicRef, str] = {}
    for entry in survey.entries:
        if entry.kind == "ConflatedTopic":
            ref = TopicRef(entry.node.find_text("UnderlyingTopic") or "", entry.type)
            conflated.setdefault(ref, entry.name)
    if not conflated:
        return
    for entry in survey.entries:
        if entry.kind != "View" or (entry.node.find_text("Conflation") or "none").lower() == "inline":
            continue
        for source in find_sources(entry.node):
            other = conflated.get(TopicRef(source.name, source.type or entry.type))
            if other is not None:
                message = (
                    f"View '{entry.name}' is computed on every update of '{source.name}', which '{other}' conflates"
                )
                yield Problem(
                    entry.node, message, "consider <Conflation>inline</Conflation>, or read the conflated topic"
                )
                break


def join_fans_out(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Join whose left topic may have many rows for one row of the right.

    Why: an update on the right recalculates every matching row on the left; with many rows, that is slow.
    Example: ``[orders]./customer = [customers]./id``: a changed customer touches all of its orders.
    Instead: no change is needed; be aware of the cost, and publish the right side no more often than needed.
    """
    entry = survey.find_entry(node)
    pairs: dict[tuple[str, str], tuple[ElementNode, list[str], str]] = {}
    for underlying in node.find_all("UnderlyingTopic"):
        for join in underlying.find_all("Join"):
            condition = expression_texts.parse_join_condition(join)
            if condition is not None:
                left, right = condition
                kind = left.message_type or entry.type
                pairs.setdefault((left.topic, right.topic), (join, [], kind))[1].append(str(left.path))
    for (left_name, right_name), (join, paths, kind) in pairs.items():
        for found in survey.find_entries(left_name, kind)[:1]:
            keys = {key.text for key in found.node.find_all("Key")}
            if found.kind == "Topic" and keys and not keys <= set(paths):
                message = f"Join fan-out: an update of '{right_name}' touches every matching row of '{left_name}'"
                yield Problem(
                    join,
                    message,
                    f"the cost grows with the matching rows; publish '{right_name}' no more often than needed",
                )
