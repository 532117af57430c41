"""Views, conflated topics and queues as typed values: SOW entries that have no store of their own.

Created by :mod:`sowctl.config.instance`, which imports this module only if a configuration has such entries. Texts of
expressions are kept as written; ``validate`` checks them. Ruled by ``sow-config(5)``, views, conflated topics, queues.
"""

from __future__ import annotations

from typing import Literal

from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.elements.sow import CONFLATED_TOPIC, VIEW
from sowctl.config.model import OtherEntry
from sowctl.config.node_values import (
    read_child_value,
    read_entry_name,
    read_hash_indexes,
    read_microseconds,
    read_section_texts,
)
from sowctl.values.paths import Path as FieldPath
from sowctl.values.topicref import TopicRef


class View(OtherEntry, frozen=True):
    """A view. ``underlying`` is its one source as written, None if ``joins`` name the sources."""

    underlying: str | None
    joins: tuple[str, ...]
    projection: tuple[str, ...]
    grouping: tuple[str, ...]
    key_domain: str
    conflation: Literal["none", "inline"]
    filter: str | None
    hash_indexes: tuple[tuple[FieldPath, ...], ...]
    join_null_equivalency: bool

    @property
    def sources(self) -> tuple[TopicRef, ...]:
        """The source topics, in order, without duplicates.

        A source without a message type has the view's own. Imports the expression language for a Join.
        """
        from sowctl.config.rules.sources import find_sources

        found = (TopicRef(source.name, source.type or self.message_type) for source in find_sources(self.node))
        return tuple(dict.fromkeys(found))


class ConflatedTopic(OtherEntry, frozen=True):
    """A conflated topic: a copy of ``underlying``, of the same message type, that changes once per interval."""

    underlying: str
    interval_us: int
    filter: str | None
    hash_indexes: tuple[tuple[FieldPath, ...], ...]
    enrichment: tuple[str, ...]
    topic_format: str | None

    @property
    def source(self) -> TopicRef:
        """The source topic."""
        return TopicRef(self.underlying, self.message_type)

    @property
    def sources(self) -> tuple[TopicRef, ...]:
        """The source topic as a tuple, as for views."""
        return (self.source,)


class Queue(OtherEntry, frozen=True):
    """A queue; ``kind`` is Queue, LocalQueue or GroupLocalQueue.

    ``underlying`` is a name or an unanchored pattern of the topics that it reads (default: its own name). Counts and
    durations are None if they are unlimited or unset; ``max_deliveries`` and ``max_cancels`` are 0 for no limit.
    """

    underlying: str
    default_publish_target: str
    lease_period_us: int | None
    semantics: Literal["at-least-once", "at-most-once"]
    max_backlog: int | None
    max_per_subscription_backlog: int
    expiration_us: int | None
    expiration_model: Literal["queue", "latest", "earliest", "default"]
    filter: str | None
    recovery_point: str
    fairness: Literal["fast", "round-robin", "proportional"]
    leasing: Literal["strict", "sublet"]
    max_deliveries: int
    max_cancels: int
    priority: str | None
    barrier: str | None
    file_backed_metadata: bool
    target_queue_depth: int | None
    deferred_ack_expiration_us: int
    initial_owner: str | None
    group_domain: str | None


def read_derived_entry(node: ElementNode, row: Element) -> OtherEntry:
    """The typed entry of a node whose structure is valid."""
    if row is VIEW:
        return _read_view(node)
    if row is CONFLATED_TOPIC:
        return _read_conflated_topic(node)
    return _read_queue(node, row)


def _read_view(node: ElementNode) -> View:
    underlying = node.find("UnderlyingTopic")
    joins = () if underlying is None else tuple(join.text for join in underlying.find_all("Join"))
    name = read_entry_name(node)
    return View(
        kind="View",
        name=name,
        message_type=node.find_text("MessageType") or "",
        node=node,
        place=node.place,
        underlying=None if joins or underlying is None else underlying.text,
        joins=joins,
        projection=read_section_texts(node, "Projection"),
        grouping=read_section_texts(node, "Grouping"),
        key_domain=node.find_text("KeyDomain") or name,
        conflation=read_child_value(node, VIEW, "Conflation"),
        filter=node.find_text("Filter") or None,
        hash_indexes=read_hash_indexes(node),
        join_null_equivalency=read_child_value(node, VIEW, "JoinNullEquivalency"),
    )


def _read_conflated_topic(node: ElementNode) -> ConflatedTopic:
    return ConflatedTopic(
        kind="ConflatedTopic",
        name=read_entry_name(node),
        message_type=node.find_text("MessageType") or "",
        node=node,
        place=node.place,
        underlying=node.find_text("UnderlyingTopic") or "",
        interval_us=read_child_value(node, CONFLATED_TOPIC, "Interval") // 1000,
        filter=node.find_text("Filter") or None,
        hash_indexes=read_hash_indexes(node),
        enrichment=read_section_texts(node, "Enrichment"),
        topic_format=node.find_text("TopicFormat") or None,
    )


def _read_queue(node: ElementNode, row: Element) -> Queue:
    name = read_entry_name(node)
    # A queue without UnderlyingTopic reads the topic of its own name.
    underlying = node.find_text("UnderlyingTopic") or name
    semantics = read_child_value(node, row, "Semantics")
    return Queue(
        kind=row.tag,
        name=name,
        message_type=node.find_text("MessageType") or "",
        node=node,
        place=node.place,
        underlying=underlying,
        default_publish_target=node.find_text("DefaultPublishTarget") or underlying,
        lease_period_us=read_microseconds(node, row, "LeasePeriod"),
        semantics=semantics,
        max_backlog=read_child_value(node, row, "MaxBacklog"),
        max_per_subscription_backlog=read_child_value(node, row, "MaxPerSubscriptionBacklog"),
        expiration_us=read_microseconds(node, row, "Expiration"),
        expiration_model=read_child_value(node, row, "ExpirationModel"),
        filter=node.find_text("Filter") or None,
        recovery_point=read_child_value(node, row, "RecoveryPoint"),
        # The default depends on Semantics, so the table of elements has none.
        fairness=read_child_value(node, row, "FairnessModel")
        or ("proportional" if semantics == "at-least-once" else "round-robin"),
        leasing=read_child_value(node, row, "Leasing"),
        max_deliveries=read_child_value(node, row, "MaxDeliveries"),
        max_cancels=read_child_value(node, row, "MaxCancels"),
        priority=node.find_text("Priority") or None,
        barrier=node.find_text("BarrierExpression") or None,
        file_backed_metadata=bool(node.find_text("FileBackedMetadata")),
        target_queue_depth=read_child_value(node, row, "TargetQueueDepth"),
        deferred_ack_expiration_us=read_child_value(node, row, "DeferredAckExpiration") // 1000,
        initial_owner=node.find_text("InitialOwner") or None,
        group_domain=node.find_text("GroupLocalQueueDomain") or None,
    )
