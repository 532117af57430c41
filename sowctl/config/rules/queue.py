"""Rules of Queue, LocalQueue and GroupLocalQueue."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import has_misspelled_child
from sowctl.config.topic_patterns import is_pattern


def priority_and_barrier(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Priority and BarrierExpression in one queue.

    Why: a barrier holds messages in order; a priority reorders them.
    Example: both elements in a Queue.
    Instead: keep one.
    """
    barrier = node.find("BarrierExpression")
    if barrier is not None and node.find("Priority") is not None:
        yield Problem(barrier, "Priority and BarrierExpression exclude each other", "keep one of the two")


def target_depth_excludes(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: TargetQueueDepth with Priority or BarrierExpression.

    Why: a queue that keeps only part of its messages in memory delivers in order.
    Example: ``<TargetQueueDepth>2000</TargetQueueDepth>`` beside ``<Priority>``.
    Instead: remove TargetQueueDepth, or the other.
    """
    depth, other = node.find("TargetQueueDepth"), node.find("Priority", "BarrierExpression")
    if depth is not None and other is not None:
        yield Problem(depth, f"TargetQueueDepth excludes {other.tag}", "keep one of the two")


def owner_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a GroupLocalQueue without InitialOwner.

    Why: the instances of the group must agree who owns the messages at first.
    Example: a GroupLocalQueue with only Name and MessageType.
    Instead: add the Name of one instance, the same on all.
    """
    if node.find("InitialOwner") is None and not has_misspelled_child(node, "InitialOwner"):
        yield Problem(node, "GroupLocalQueue requires InitialOwner", "add the Name of the owning instance")


def owner_elsewhere(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: InitialOwner or GroupLocalQueueDomain in a Queue or LocalQueue.

    Why: only a GroupLocalQueue has them.
    Example: ``<InitialOwner>one</InitialOwner>`` in a Queue.
    Instead: make it a GroupLocalQueue, or remove the element.
    """
    if node.tag == "GroupLocalQueue":
        return
    for child in node.find_all("InitialOwner", "GroupLocalQueueDomain"):
        yield Problem(child, f"{child.tag} is only for GroupLocalQueue", f"remove it from this {node.tag}")


def _find_underlying(node: ElementNode) -> tuple[ElementNode, str]:
    found = node.find("UnderlyingTopic")
    return (found, found.text) if found is not None else (node, node.find_text("Name", "Topic") or "")


def publish_target_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: UnderlyingTopic is a regular expression and there is no DefaultPublishTarget.

    Why: a message published to the queue itself would have no single topic to go to.
    Example: only ``<UnderlyingTopic>ORDERS_.*</UnderlyingTopic>``.
    Instead: add ``<DefaultPublishTarget>ORDERS_DIRECT</DefaultPublishTarget>``.
    """
    where, name = _find_underlying(node)
    # The topic of a queue without UnderlyingTopic is its own name, which is never a pattern.
    pattern = where is not node and _is_regex(name, survey) and survey.can_use_pattern(name)
    if pattern and node.find("DefaultPublishTarget") is None and not has_misspelled_child(node, "DefaultPublishTarget"):
        message = "DefaultPublishTarget is required when UnderlyingTopic is a regular expression"
        yield Problem(node, message, "add it, with the name of a topic that the expression matches")


def publish_target_outside(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: DefaultPublishTarget is not matched by UnderlyingTopic.

    Why: messages published to the queue would never appear in it.
    Example: target ``DIRECT`` with ``<UnderlyingTopic>ORDERS_.*</UnderlyingTopic>``.
    Instead: name a topic that UnderlyingTopic matches.
    """
    target = node.find("DefaultPublishTarget")
    _, name = _find_underlying(node)
    if (
        target is not None
        and target.text
        and not survey.matches_topic(name, target.text)
        and survey.can_use_pattern(name)
    ):
        message = f"DefaultPublishTarget '{target.text}' is not matched by UnderlyingTopic"
        yield Problem(target, message, f"UnderlyingTopic is {name!r}")


def unfair(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an at-most-once queue with a FairnessModel other than round-robin.

    Why: without leases there is no backlog to balance.
    Example: ``at-most-once`` with ``<FairnessModel>fast</FairnessModel>``.
    Instead: remove FairnessModel, or write round-robin.
    """
    model = node.find("FairnessModel")
    if model is not None and node.find_text("Semantics") == "at-most-once" and model.text.lower() != "round-robin":
        yield Problem(model, "at-most-once queues support only round-robin fairness", "remove FairnessModel")


def queue_not_journaled(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the topic of a queue is not in the transaction log.

    Why: a queue keeps its messages in the log.
    Example: a Queue over ``fills``, and no Topic ``fills`` in TransactionLog.
    Instead: add the topic to TransactionLog.
    """
    where, name = _find_underlying(node)
    # The source is misspelt, which S002 reports; the queue's own name was not intended as its topic.
    if where is node and has_misspelled_child(node, "UnderlyingTopic"):
        return
    if name and not _is_recorded(name, None, survey) and survey.can_use_pattern(name):
        hint = "add it as a Topic of TransactionLog"
        yield Problem(where, f"queue topic '{name}' is not in the transaction log", hint)


def queue_journaled_otherwise(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the topic of a queue is in the transaction log only with another message type.

    Why: name and message type together are the topic.
    Example: a json Queue over ``fills`` where TransactionLog records ``fills`` of type fix.
    Instead: add the topic with the queue's message type.
    """
    where, name = _find_underlying(node)
    kind = node.find_text("MessageType")
    if where is node and has_misspelled_child(node, "UnderlyingTopic"):
        return
    if (
        not name
        or not kind
        or not survey.can_use_pattern(name)
        or not survey.knows_types(kind, *(t for _, t in survey.journal_topics))
    ):
        return
    if _is_recorded(name, None, survey) and not _is_recorded(name, kind, survey):
        types = ", ".join(
            sorted({recorded for pattern, recorded in survey.journal_topics if survey.matches_topic(pattern, name)})
        )
        message = f"queue topic '{name}' is journaled only for type {types or 'other than ' + kind}"
        yield Problem(where, message, f"add it to TransactionLog with MessageType {kind}")


def _is_recorded(name: str, kind: str | None, survey: Survey) -> bool:
    """Return True if the log records a topic or, for a pattern, any topic that it may match."""
    if survey.is_journaled(name, kind):
        return True
    if not _is_regex(name, survey):
        return False
    return any(
        (kind is None or recorded == kind) and (_is_regex(pattern, survey) or survey.matches_topic(name, pattern))
        for pattern, recorded in survey.journal_topics
    )


def _is_regex(name: str, survey: Survey) -> bool:
    return survey.has_regex_topics and is_pattern(name)


def lease_without_effect(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: LeasePeriod, MaxCancels, MaxDeliveries or Leasing in an at-most-once queue.

    Why: such a queue removes a message when it sends it; nothing is leased, returned or delivered again.
    Example: ``<LeasePeriod>30s</LeasePeriod>`` beside ``<Semantics>at-most-once</Semantics>``.
    Instead: remove the element, or make the queue at-least-once.
    """
    if (node.find_text("Semantics") or "").lower() != "at-most-once":
        return
    for child in node.find_all("LeasePeriod", "MaxCancels", "MaxDeliveries", "Leasing"):
        message = f"{child.tag} has no effect with at-most-once"
        yield Problem(child, message, "remove it, or write <Semantics>at-least-once</Semantics>")


def queue_is_a_topic(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a queue with the name and message type of a Topic in SOW.

    Why: the two are one topic to the server; usually the queue should read the topic, which requires UnderlyingTopic.
    Example: a Topic and a Queue ``orders``, both json.
    Instead: give the queue a name of its own, and ``<UnderlyingTopic>orders</UnderlyingTopic>``.
    """
    entry = survey.find_entry(node)
    others = survey.find_entries(entry.name, entry.type) if entry.name and entry.type else ()
    if any(other.kind == "Topic" for other in others):
        message = f"queue name '{entry.name}' is also a SOW Topic of the same type"
        yield Problem(node, message, f"rename the queue and write <UnderlyingTopic>{entry.name}</UnderlyingTopic>")
