"""Rules of View and ConflatedTopic: the sources they refer to, and what a derived topic can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sowctl.config import texts
from sowctl.config.document import Node
from sowctl.config.matching import is_pattern
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Entry, Survey, is_transient
from sowctl.config.spelling import nearest
from sowctl.tuples import NamedTuple

if TYPE_CHECKING:
    from sowctl.expressions.nodes import Node as Tree

_SHOWN = 10
"""So many names of a cycle are shown."""
NOT_OUTPUT = frozenset({"binary", "protobuf", "struct", "composite-global"})


class Source(NamedTuple):
    """A topic that a view reads: its message type where one is written, its name, and the element that names it."""

    type: str | None
    name: str
    node: Node


def sources(view: Node) -> Iterator[Source]:
    """The sources of a view; of a Join that does not parse, none."""
    underlying = view.find("UnderlyingTopic")
    if underlying is None:
        return
    joins = list(underlying.all("Join"))
    if not joins and underlying.text:
        yield Source(*split_reference(underlying.text), underlying)
    for node in joins:
        condition = texts.join(node)
        if condition is not None:
            yield Source(condition.left.message_type, condition.left.topic, node)
            yield Source(condition.right.message_type, condition.right.topic, node)


def split_reference(text: str) -> tuple[str | None, str]:
    """``[type].[topic]``, ``[topic]`` or a bare topic as message type and name."""
    if text.startswith("[") and text.endswith("]"):
        first, dot, second = text[1:-1].partition("].[")
        return (first, second) if dot else (None, first)
    return None, text


def _resolve(source: Source, entry: Entry, survey: Survey) -> Entry | None:
    """The entry that a source means, wherever it stands; the view's own message type where none is written.

    Of two of one name it is the other one; an entry that reads its own name alone reads itself.
    """
    found = [other for other in survey.named(source.name, source.type or entry.type) if other is not entry]
    return found[0] if found else _itself(source, entry)


def _itself(source: Source, entry: Entry) -> Entry | None:
    return entry if (source.name, source.type or entry.type) == (entry.name, entry.type) else None


def undefined_source(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: UnderlyingTopic names a topic that the SOW does not define with this message type.

    Why: there is nothing to derive from; names are case-sensitive.
    Example: ``<UnderlyingTopic>order</UnderlyingTopic>`` where the topic is ``orders``.
    Instead: write the name as the Topic has it, and its message type if it is another than the view's.
    """
    entry = survey.entry(node)
    underlying = node.find("UnderlyingTopic")
    if underlying is None or underlying.find("Join") is not None:
        return
    for source in sources(node):
        elsewhere = [] if source.type else [e for e in survey.named(source.name) if e is not entry]
        if _resolve(source, entry, survey) is None and not elsewhere and survey.all_named:
            close = nearest(source.name, (other.name for other in survey.entries if other is not entry))
            message = f"underlying topic '{source.name}' of type '{source.type or entry.type}' has not been defined"
            yield Problem(source.node, message, f"did you mean {close}?" if close else "define it before this entry")


def undefined_join_source(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a Join names a topic that the SOW does not define.

    Why: there is nothing to join.
    Example: ``[ORDERS]./id = [COMPANY]./id`` where the topic is ``COMPANIES``.
    Instead: write the name as the Topic has it.
    """
    entry = survey.entry(node)
    for source in sources(node):
        if source.node.tag == "Join" and survey.all_named and not survey.named(source.name, source.type):
            close = nearest(source.name, (other.name for other in survey.entries if other is not entry))
            hint = f"did you mean {close}?" if close else "define it before this view"
            yield Problem(source.node, f"Join refers to '{source.name}', which is not defined in the SOW", hint)


def defined_later(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: the source of a view or conflated topic comes after it in the file.

    Why: entries are created in the file's order.
    Example: a View above the Topic that it reads.
    Instead: move the Topic before it.
    """
    below = _below(survey)
    circle = _circles(below)
    for entry in (entry for entry in survey.entries if entry.number in below):
        for source in sources(entry.node):
            found = _resolve(source, entry, survey)
            # Of entries in a circle R027 tells: no order would help.
            again = found is not None and circle.get(found.number, -1) == circle[entry.number]
            if found is not None and found.number > entry.number and not again:
                message = f"'{source.name}' is defined after {entry.label}; move it before"
                yield Problem(source.node, message, f"it stands at {found.node.place}")


def pattern_source(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a View over a topic with Pattern.

    Why: the records of a Pattern topic belong to many logical topics; a view reads one.
    Example: ``<UnderlyingTopic>regional</UnderlyingTopic>`` where ``regional`` has a Pattern.
    Instead: define the logical topic by its own name.
    """
    entry = survey.entry(node)
    for source in sources(node):
        found = _resolve(source, entry, survey)
        if found is not None and found.node.find("Pattern") is not None:
            hint = "define the topic by its own name, before the Pattern topic"
            yield Problem(source.node, f"Pattern topic '{source.name}' cannot underlie a View", hint)


def cross_type(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a view over a topic of another message type that does not write the type everywhere.

    Why: an unqualified name is looked up with the view's own message type.
    Example: an nvfix View with ``<UnderlyingTopic>orders</UnderlyingTopic>`` over json orders.
    Instead: write ``[json].[orders]`` in UnderlyingTopic and before every field.
    """
    entry = survey.entry(node)
    foreign = False
    if not survey.typed(entry.type) or survey.types[entry.type] in NOT_OUTPUT:
        return
    for source in sources(node):
        others = [e for e in survey.named(source.name) if e is not entry]
        if source.type is None and others and _resolve(source, entry, survey) is None:
            kind = others[0].type
            if not survey.typed(kind):
                continue
            message = f"'{source.name}' is of type {kind}, not {entry.type}; a cross-type view must name the type"
            yield Problem(source.node, message, f"write [{kind}].[{source.name}] here and in every field")
        elif source.type not in (None, entry.type):
            foreign = True
    if foreign:
        yield from _unqualified(node, 2, entry.type)


def _unqualified(node: Node, wanted: int, own: str) -> Iterator[Problem]:
    """Fields whose qualifier is shorter than the view needs."""
    known = {source.name: source.type for source in sources(node)}
    for field, tree in _fields(node):
        for name in texts.fields(tree):
            topic = name.qualifier[-1] if name.qualifier else None
            if len(name.qualifier) >= wanted or (topic in known and known[topic] in (None, own)):
                continue
            place = texts.at(field, name.span[0])
            yield Problem(field, f"{field.tag}: {name} names no message type", "write [type].[topic]./field", place)


def _fields(view: Node) -> Iterator[tuple[Node, Tree]]:
    for section in view.all("Projection"):
        for field in section.all("Field"):
            definition = texts.definition(field, projection=True)
            if definition is not None:
                yield field, definition.expression
    for section in view.all("Grouping"):
        for field in section.all("Field"):
            for name in texts.grouping(field):
                yield field, name


def join_unqualified(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a field of a Join view without its topic.

    Why: several topics could have it.
    Example: ``SUM(/qty) AS /total`` in a view with Join.
    Instead: write ``SUM([orders]./qty) AS /total``.
    """
    underlying = node.find("UnderlyingTopic")
    if underlying is None or underlying.find("Join") is None:
        return
    for field, tree in _fields(node):
        for name in texts.fields(tree):
            if not name.qualifier:
                place = texts.at(field, name.span[0])
                message = f"identifier {name} in a Join view has no topic qualifier"
                yield Problem(field, message, "write [topic] and a point before it", place)


def unreachable_field(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a field refers to a topic that UnderlyingTopic does not name.

    Why: the view never reads that topic.
    Example: ``[customers]./name`` in a view over ``orders`` alone.
    Instead: add a Join with that topic, or remove the field.
    """
    read = {source.name for source in sources(node)}
    if not read:
        return
    for field, tree in _fields(node):
        for name in texts.fields(tree):
            if name.qualifier and name.qualifier[-1] not in read:
                message = f"field refers to topic '{name.qualifier[-1]}' that is not in UnderlyingTopic"
                hint = f"the view reads {', '.join(sorted(read))}"
                yield Problem(field, message, hint, texts.at(field, name.span[0]))


def output_type(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a View whose message type cannot be written field by field.

    Why: a view constructs its messages; binary, protobuf, struct and composite-global cannot be constructed.
    Example: ``<MessageType>binary</MessageType>`` in a View.
    Instead: let the view be json, or another type with fields.
    """
    kind = node.find("MessageType")
    if kind is not None and survey.types.get(kind.text) in NOT_OUTPUT:
        yield Problem(kind, f"message type {kind.text} cannot be the output of a View", "use json or another text type")


def filter_with_join(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: Filter in a View with Join.

    Why: a filter looks at one message; a join has several.
    Example: ``<Filter>/status = 'open'</Filter>`` beside ``<Join>``.
    Instead: filter in a view of one topic and join that.
    """
    underlying, condition = node.find("UnderlyingTopic"), node.find("Filter")
    if condition is not None and underlying is not None and underlying.find("Join") is not None:
        yield Problem(condition, "View Filter is not allowed with Join", "filter in a view below this one")


def join_and_text(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: UnderlyingTopic has both a name and Join.

    Why: it is either one topic or a join of topics.
    Example: ``<UnderlyingTopic>orders<Join>...</Join></UnderlyingTopic>``.
    Instead: keep one of the two.
    """
    underlying = node.find("UnderlyingTopic")
    if underlying is not None and underlying.text and underlying.find("Join") is not None:
        yield Problem(underlying, "View uses Join and plain text in UnderlyingTopic", "keep one of the two")


def other_type(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a ConflatedTopic over a topic of another message type.

    Why: conflation passes messages on as they are.
    Example: a json ConflatedTopic over an nvfix topic.
    Instead: give it the message type of its source, or put a View between.
    """
    entry = survey.entry(node)
    underlying, kind = node.find("UnderlyingTopic"), node.find("MessageType")
    if underlying is None or kind is None:
        return
    types = sorted({other.type for other in survey.named(underlying.text) if other is not entry})
    if types and entry.type not in types and survey.typed(entry.type, *types):
        message = f"MessageType must equal that of the underlying topic ({', '.join(types)})"
        yield Problem(kind, message, f"write <MessageType>{types[0]}</MessageType>")


def topic_format(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: TopicFormat is missing over a Pattern topic, given over another, or not usable.

    Why: each logical topic needs a conflated name of its own, made from ``%n``; it is a name, not a pattern.
    Example: a ConflatedTopic over a Pattern topic without TopicFormat.
    Instead: add ``<TopicFormat>%n-C</TopicFormat>``.
    """
    entry = survey.entry(node)
    underlying, form = node.find("UnderlyingTopic"), node.find("TopicFormat")
    found = None if underlying is None else _resolve(Source(None, underlying.text, underlying), entry, survey)
    pattern = found is not None and found.node.find("Pattern") is not None
    if form is None:
        if pattern:
            yield Problem(node, "TopicFormat is required over a Pattern topic", "add <TopicFormat>%n-C</TopicFormat>")
        return
    if found is not None and not pattern:
        yield Problem(form, "TopicFormat is only for a source with Pattern", "remove it")
    if "%n" not in form.text:
        yield Problem(form, "TopicFormat must contain %n", "%n stands for the logical topic name")
    if is_pattern(form.text.replace("%n", "")):
        yield Problem(form, "TopicFormat must not contain regular expression characters", "it makes one topic name")


def index_not_projected(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a HashIndex of a View names a field that the view does not project.

    Why: no record has the field, so the index can never be used.
    Example: ``<Key>/name</Key>`` where the view projects ``/customerName``.
    Instead: name a field of the Projection.
    """
    projected: set[str] = set()
    for section in node.all("Projection"):
        for field in section.all("Field"):
            definition = texts.definition(field, projection=True)
            if definition is None:
                return
            path = definition.destination or next(iter(texts.fields(definition.expression))).path
            projected.add(str(path))
    for index in node.all("HashIndex"):
        for key in index.all("Key"):
            if projected and key.text.startswith("/") and key.text not in projected:
                hint = f"the view has {', '.join(sorted(projected))}"
                yield Problem(key, f"HashIndex names {key.text}, which the view does not project", hint)


def cycle(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: views or conflated topics that derive from each other in a circle.

    Why: none of them could be made first.
    Example: view A over B and view B over A.
    Instead: let one of them read a Topic.
    """
    below = _below(survey)
    circle = _circles(below)
    told: set[int] = set()
    for entry in (entry for entry in survey.entries if entry.number in below):
        own = circle[entry.number]
        if own in told or not any(
            found.number in circle and circle[found.number] == own for found in below[entry.number]
        ):
            continue
        told.add(own)
        path, step, seen = [entry], entry, {entry.number: 0}
        while True:
            step = next(found for found in below[step.number] if circle.get(found.number, -1) == own)
            if step.number in seen:
                break
            seen[step.number] = len(path)
            path.append(step)
        names = [member.name for member in (*path[seen[step.number] :], step)]
        text = " -> ".join(names if len(names) <= _SHOWN else [*names[:_SHOWN], "...", names[-1]])
        yield Problem(entry.node, f"cycle among views or conflated topics: {text}", "let one read a Topic")


def _below(survey: Survey) -> dict[int, list[Entry]]:
    """By the number of each view and conflated topic, the entries that it reads."""
    return {
        entry.number: [found for s in sources(entry.node) if (found := _resolve(s, entry, survey)) is not None]
        for entry in survey.entries
        if entry.kind in ("View", "ConflatedTopic")
    }


def _circles(below: dict[int, list[Entry]]) -> dict[int, int]:
    """By entry, one number for all that derive from each other: the strongly connected parts, in one walk (Tarjan)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    part: dict[int, int] = {}
    kept: list[int] = []
    for root in below:
        waiting = [] if root in order else [(root, iter(below[root]))]
        while waiting:
            number, rest = waiting[-1]
            if number not in order:
                order[number] = low[number] = len(order)
                kept.append(number)
            for found in rest:
                other = found.number
                if other in below and other not in order:
                    waiting.append((other, iter(below[other])))
                    break
                if other in below and other not in part:
                    low[number] = min(low[number], order[other])
            else:
                waiting.pop()
                if waiting:
                    low[waiting[-1][0]] = min(low[waiting[-1][0]], low[number])
                if low[number] == order[number]:
                    while number not in part:
                        part[kept.pop()] = number
    return part


def starts_empty(node: Node, survey: Survey) -> Iterator[Problem]:
    """What: a view or conflated topic over a transient topic that the transaction log does not record.

    Why: after a restart the source is empty, and so is what derives from it.
    Example: a View over a Topic with ``<Durability>transient</Durability>`` and no TransactionLog.
    Instead: nothing, where that is meant; else journal the source, or make it persistent.
    """
    empty: dict[int, str] = {}
    for entry in survey.entries:
        if entry.kind == "Topic":
            if is_transient(entry.node) and not survey.journalled(entry.name, entry.type):
                empty[entry.number] = entry.name
        elif entry.kind in ("View", "ConflatedTopic"):
            for source in sources(entry.node):
                found = _resolve(source, entry, survey)
                topic = None if found is None else empty.get(found.number)
                if topic is not None:
                    empty[entry.number] = topic
                    message = f"{entry.label} derives from transient, unjournaled topic '{topic}' and starts empty"
                    hint = f"add {topic} to TransactionLog, or make it persistent"
                    yield Problem(source.node, f"{message} after a restart", hint)
                    break
