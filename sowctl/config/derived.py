"""Views, conflated topics and queues as typed values: SOW entries that have no store of their own.

Made by :mod:`sowctl.config.instance`, which imports this module only where a configuration has such entries. Texts of
expressions are kept as written; ``validate`` judges them. Ruled by ``sow-config(5)``, views, conflated topics, queues.
"""

from __future__ import annotations

from typing import Literal

from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.elements.sow import CONFLATED_TOPIC, VIEW
from sowctl.config.model import OtherEntry
from sowctl.config.reading import get, hash_indexes, microseconds, name_of, texts_of
from sowctl.values.paths import Path as FieldPath


class View(OtherEntry, frozen=True):
    """A view. ``underlying`` is the one source as written, None where ``joins`` name the sources."""

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
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Message type and name of each topic that is read, in order, each once.

        The message type is the view's own where none is written. Imports the expression language for a Join.
        """
        from sowctl.config.rules.sources import sources

        found = ((source.type or self.message_type, source.name) for source in sources(self.node))
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
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Message type and name of the topic that is read."""
        return ((self.message_type, self.underlying),)


class Queue(OtherEntry, frozen=True):
    """A queue; ``kind`` is Queue, LocalQueue or GroupLocalQueue.

    ``underlying`` is a name or an unanchored pattern of the topics it takes messages from (default: its own name).
    Counts and durations are None where they are unlimited or unset; ``max_deliveries`` and ``max_cancels`` 0 for no
    limit.
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


def derived_entry(node: ElementNode, row: Element) -> OtherEntry:
    """The typed entry of a node whose structure is right."""
    if row is VIEW:
        return _view(node)
    if row is CONFLATED_TOPIC:
        return _conflated(node)
    return _queue(node, row)


def _view(node: ElementNode) -> View:
    underlying = node.find("UnderlyingTopic")
    joins = () if underlying is None else tuple(join.text for join in underlying.all("Join"))
    name = name_of(node)
    return View(
        kind="View",
        name=name,
        message_type=node.value("MessageType") or "",
        node=node,
        place=node.place,
        underlying=None if joins or underlying is None else underlying.text,
        joins=joins,
        projection=texts_of(node, "Projection"),
        grouping=texts_of(node, "Grouping"),
        key_domain=node.value("KeyDomain") or name,
        conflation=get(node, VIEW, "Conflation"),
        filter=node.value("Filter") or None,
        hash_indexes=hash_indexes(node),
        join_null_equivalency=get(node, VIEW, "JoinNullEquivalency"),
    )


def _conflated(node: ElementNode) -> ConflatedTopic:
    return ConflatedTopic(
        kind="ConflatedTopic",
        name=name_of(node),
        message_type=node.value("MessageType") or "",
        node=node,
        place=node.place,
        underlying=node.value("UnderlyingTopic") or "",
        interval_us=get(node, CONFLATED_TOPIC, "Interval") // 1000,
        filter=node.value("Filter") or None,
        hash_indexes=hash_indexes(node),
        enrichment=texts_of(node, "Enrichment"),
        topic_format=node.value("TopicFormat") or None,
    )


def _queue(node: ElementNode, row: Element) -> Queue:
    name = name_of(node)
    # A queue without UnderlyingTopic reads the topic of its own name.
    underlying = node.value("UnderlyingTopic") or name
    semantics = get(node, row, "Semantics")
    return Queue(
        kind=row.tag,
        name=name,
        message_type=node.value("MessageType") or "",
        node=node,
        place=node.place,
        underlying=underlying,
        default_publish_target=node.value("DefaultPublishTarget") or underlying,
        lease_period_us=microseconds(node, row, "LeasePeriod"),
        semantics=semantics,
        max_backlog=get(node, row, "MaxBacklog"),
        max_per_subscription_backlog=get(node, row, "MaxPerSubscriptionBacklog"),
        expiration_us=microseconds(node, row, "Expiration"),
        expiration_model=get(node, row, "ExpirationModel"),
        filter=node.value("Filter") or None,
        recovery_point=get(node, row, "RecoveryPoint"),
        # The default depends on Semantics, so the table of elements has none.
        fairness=get(node, row, "FairnessModel") or ("proportional" if semantics == "at-least-once" else "round-robin"),
        leasing=get(node, row, "Leasing"),
        max_deliveries=get(node, row, "MaxDeliveries"),
        max_cancels=get(node, row, "MaxCancels"),
        priority=node.value("Priority") or None,
        barrier=node.value("BarrierExpression") or None,
        file_backed_metadata=bool(node.value("FileBackedMetadata")),
        target_queue_depth=get(node, row, "TargetQueueDepth"),
        deferred_ack_expiration_us=get(node, row, "DeferredAckExpiration") // 1000,
        initial_owner=node.value("InitialOwner") or None,
        group_domain=node.value("GroupLocalQueueDomain") or None,
    )
