"""The topics that views and conflated topics derive from, and the rules about them: existence, order, no cycles.

Other rules and :mod:`sowctl.config.derived_entries` call ``find_sources`` and ``resolve_source``; the rules are run
from :mod:`sowctl.config.rules.table`. Ruled by ``sow-config(5)``, View and ConflatedTopic.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.model import MAX_DERIVED_DEPTH
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import SubjectEntry, is_transient
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import find_nearest
from sowctl.values.topicref import TopicRef

_MAX_CYCLE_NAMES = 10
"""Maximum number of names of a cycle to show."""


class ViewSource(Struct, frozen=True):
    """A source topic of a view: its message type, if written, its name, and the element that names it."""

    type: str | None
    name: str
    node: ElementNode


def find_sources(view: ElementNode) -> Iterator[ViewSource]:
    """The sources of a view; none for a Join that does not parse."""
    underlying = view.find("UnderlyingTopic")
    if underlying is None:
        return
    joins = list(underlying.find_all("Join"))
    if not joins and underlying.text:
        yield ViewSource(*split_reference(underlying.text), underlying)
    for node in joins:
        condition = expression_texts.parse_join_condition(node)
        if condition is not None:
            yield ViewSource(condition.left.message_type, condition.left.topic, node)
            yield ViewSource(condition.right.message_type, condition.right.topic, node)


def split_reference(text: str) -> tuple[str | None, str]:
    """``[type].[topic]``, ``[topic]`` or a bare topic as message type and name."""
    if text.startswith("[") and text.endswith("]"):
        first, dot, second = text[1:-1].partition("].[")
        return (first, second) if dot else (None, first)
    return None, text


def resolve_source(source: ViewSource, entry: SubjectEntry, survey: Survey) -> SubjectEntry | None:
    """The entry that a source refers to, anywhere in the file; the view's own message type if none is written.

    If two entries have the name, it is the other one; an entry that is the only one of its name refers to itself.
    """
    found = [other for other in survey.find_entries(source.name, source.type or entry.type) if other is not entry]
    return found[0] if found else _resolve_itself(source, entry)


def _resolve_itself(source: ViewSource, entry: SubjectEntry) -> SubjectEntry | None:
    return entry if (source.name, source.type or entry.type) == (entry.name, entry.type) else None


def undefined_source(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: UnderlyingTopic names a topic that the SOW does not define with this message type.

    Why: there is nothing to derive from; names are case-sensitive.
    Example: ``<UnderlyingTopic>order</UnderlyingTopic>`` where the topic is ``orders``.
    Instead: write the name of the Topic exactly, and its message type if it differs from that of the view.
    """
    entry = survey.find_entry(node)
    underlying = node.find("UnderlyingTopic")
    if underlying is None or underlying.find("Join") is not None:
        return
    for source in find_sources(node):
        # F022 reports a topic of that name and another type.
        elsewhere = [] if source.type else [e for e in survey.find_entries(source.name) if e is not entry]
        if resolve_source(source, entry, survey) is None and not elsewhere and survey.has_all_names:
            close = find_nearest(source.name, (other.name for other in survey.entries if other is not entry))
            message = f"underlying topic '{source.name}' of type '{source.type or entry.type}' has not been defined"
            yield Problem(source.node, message, f"did you mean {close}?" if close else "define it before this entry")


def undefined_join_source(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Join names a topic that the SOW does not define.

    Why: there is nothing to join.
    Example: ``[ORDERS]./id = [COMPANY]./id`` where the topic is ``COMPANIES``.
    Instead: write the name of the Topic exactly.
    """
    entry = survey.find_entry(node)
    for source in find_sources(node):
        if source.node.tag == "Join" and survey.has_all_names and not survey.find_entries(source.name, source.type):
            close = find_nearest(source.name, (other.name for other in survey.entries if other is not entry))
            hint = f"did you mean {close}?" if close else "define it before this view"
            yield Problem(source.node, f"Join refers to '{source.name}', which is not defined in the SOW", hint)


def join_order(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Join of a topic with itself, or one whose first topic no Join before it names.

    Why: rows begin with the first topic of the first Join; each Join adds its second topic to a topic that was named
    before.
    Example: ``[notes]./order = [orders]./id`` after ``[orders]./customer = [customers]./id``.
    Instead: write ``[orders]./id = [notes]./order``, or begin with the topic whose records must all be in the result.
    """
    entry = survey.find_entry(node)
    found = list(find_sources(node))
    underlying = node.find("UnderlyingTopic")
    # If one Join does not parse, the attached topics are unknown.
    if underlying is None or len(found) != 2 * len(list(underlying.find_all("Join"))):
        return
    attached: set[TopicRef] = set()
    for left, right in zip(found[::2], found[1::2], strict=True):
        first, second = _resolve_reference(left, entry, survey), _resolve_reference(right, entry, survey)
        if first == second:
            yield Problem(left.node, f"Join of '{left.name}' with itself", "join a View of it instead")
        elif attached and first not in attached and survey.find_entries(left.name, left.type):
            message = f"Join begins with '{left.name}', which no Join before it names"
            yield Problem(left.node, message, "the first side of a Join must be a topic of an earlier Join")
        attached |= {first, second}


def _resolve_reference(source: ViewSource, entry: SubjectEntry, survey: Survey) -> TopicRef:
    """The topic of a source, even if its type is not written and is not the view's."""
    found = resolve_source(source, entry, survey)
    others = [] if source.type else [other for other in survey.find_entries(source.name) if other is not entry]
    if found is None and len(others) == 1:
        found = others[0]
    return TopicRef(source.name, source.type or entry.type) if found is None else found.ref


def defined_later(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the source of a view or conflated topic comes after it in the file.

    Why: entries are created in the file's order.
    Example: a View above the Topic that it reads.
    Instead: move the Topic before it.
    """
    below = _index_sources(survey)
    circle = find_cycles(below)
    for entry in (entry for entry in survey.entries if entry.number in below):
        for source in find_sources(entry.node):
            found = resolve_source(source, entry, survey)
            # R027 reports entries in a cycle: no order would help.
            again = found is not None and circle.get(found.number, -1) == circle[entry.number]
            if found is not None and found.number > entry.number and not again:
                message = f"'{source.name}' is defined after {entry.label}; move it before"
                yield Problem(source.node, message, f"it is at {found.node.place}")


def pattern_source(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a View over a topic with Pattern.

    Why: the records of a Pattern topic belong to many logical topics; a view reads one.
    Example: ``<UnderlyingTopic>regional</UnderlyingTopic>`` where ``regional`` has a Pattern.
    Instead: define the logical topic by its own name.
    """
    entry = survey.find_entry(node)
    for source in find_sources(node):
        found = resolve_source(source, entry, survey)
        if found is not None and found.node.find("Pattern") is not None:
            hint = "define the topic by name, before the Pattern topic"
            yield Problem(source.node, f"Pattern topic '{source.name}' cannot underlie a View", hint)


def derivation_cycle(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: views or conflated topics that derive from each other in a circle.

    Why: none of them could be created first.
    Example: view A over B and view B over A.
    Instead: let one of them read a Topic.
    """
    below = _index_sources(survey)
    circle = find_cycles(below)
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
            # Every member of a cycle reads another member, so the walk returns to a visited one.
            step = next(found for found in below[step.number] if circle.get(found.number, -1) == own)
            if step.number in seen:
                break
            seen[step.number] = len(path)
            path.append(step)
        names = [member.name for member in (*path[seen[step.number] :], step)]
        text = " -> ".join(names if len(names) <= _MAX_CYCLE_NAMES else [*names[:_MAX_CYCLE_NAMES], "...", names[-1]])
        yield Problem(entry.node, f"cycle among views or conflated topics: {text}", "let one read a Topic")


def derivation_too_deep(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: more than 50 views or conflated topics, each over the previous one.

    Why: each is read through its source, and sowctl opens no more than 50 at once.
    Example: a View over a View over a View, 51 of them.
    Instead: let one of them read a Topic, or combine two steps into one.
    """
    depth: dict[int, int] = {}
    below = _index_sources(survey)
    # One pass in file order is enough, because a source must precede its readers.
    for entry in survey.entries:
        if entry.number not in below:
            continue
        depth[entry.number] = 1 + max((depth.get(found.number, 0) for found in below[entry.number]), default=0)
        if depth[entry.number] > MAX_DERIVED_DEPTH:
            message = f"{entry.label} is based on a chain of {MAX_DERIVED_DEPTH} other views or conflated topics"
            yield Problem(entry.node, message, "let one of them read a Topic; longer chains cannot be read")
            return


def _index_sources(survey: Survey) -> dict[int, list[SubjectEntry]]:
    """Return the entries that each view and conflated topic reads, by its number."""
    return {
        entry.number: [
            found for s in find_sources(entry.node) if (found := resolve_source(s, entry, survey)) is not None
        ]
        for entry in survey.entries
        if entry.kind in ("View", "ConflatedTopic")
    }


def find_cycles(below: dict[int, list[SubjectEntry]]) -> dict[int, int]:
    """Return by entry one number for all entries that derive from each other: the strongly connected components, in one
    walk (Tarjan)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    part: dict[int, int] = {}
    kept: list[int] = []
    for root in below:
        # An explicit stack instead of recursion: thousands of views, each over the next, are a legal file.
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
                # This entry is the first of its component: all entries on the stack since then belong to it.
                if low[number] == order[number]:
                    while number not in part:
                        part[kept.pop()] = number
    return part


def starts_empty(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a view or conflated topic over a transient topic that the transaction log does not record.

    Why: after a restart the source is empty, and so are the topics derived from it.
    Example: a View over a Topic with ``<Durability>transient</Durability>`` and no TransactionLog.
    Instead: no change is needed if this is intended; otherwise journal the source, or make it persistent.
    """
    # One pass in file order is enough, because a source must precede its readers.
    empty: dict[int, str] = {}
    for entry in survey.entries:
        if entry.kind == "Topic":
            if is_transient(entry.node) and not survey.is_journaled(entry.name, entry.type):
                empty[entry.number] = entry.name
        elif entry.kind in ("View", "ConflatedTopic"):
            for source in find_sources(entry.node):
                found = resolve_source(source, entry, survey)
                topic = None if found is None else empty.get(found.number)
                if topic is not None:
                    empty[entry.number] = topic
                    message = f"{entry.label} derives from transient, unjournaled topic '{topic}' and starts empty"
                    hint = f"add {topic} to TransactionLog, or make it persistent"
                    yield Problem(source.node, f"{message} after a restart", hint)
                    break
