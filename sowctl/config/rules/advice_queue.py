"""Advice on queues."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.measures import read_count
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Survey


def _uses_leases(node: ElementNode) -> bool:
    return (node.find_text("Semantics") or "at-least-once").lower() == "at-least-once"


def one_at_a_time(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a queue gives each subscription one message at a time, which is the default.

    Why: a consumer waits for a round trip after each message; with two or more, the next message is already there.
    Example: a Queue without MaxPerSubscriptionBacklog.
    Instead: write ``<MaxPerSubscriptionBacklog>2</MaxPerSubscriptionBacklog>`` or more; keep 1 if a message may be
    taken only when the previous one is done.
    """
    backlog = node.find("MaxPerSubscriptionBacklog")
    if _uses_leases(node) and (backlog is None or read_count(backlog) == 1):
        default = " (default)" if backlog is None else ""
        message = f"MaxPerSubscriptionBacklog 1{default} limits throughput: one round trip per message"
        yield Problem(backlog or node, message, "write 2 or more, unless messages must be taken one at a time")


def without_lease(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an at-least-once queue without LeasePeriod.

    Why: a consumer that hangs keeps its messages until it disconnects; no other consumer gets them.
    Example: a Queue with only Name and MessageType.
    Instead: add ``<LeasePeriod>30s</LeasePeriod>``, or the longest time that a message takes.
    """
    if _uses_leases(node) and node.find("LeasePeriod", "LeaseTimeout") is None:
        name = node.find_text("Name", "Topic") or ""
        message = f"queue '{name}' has no LeasePeriod: a hung consumer keeps its messages until it disconnects"
        yield Problem(node, message, "add <LeasePeriod>30s</LeasePeriod>, or the longest time that a message takes")


def two_ways_to_save_memory(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: TargetQueueDepth and FileBackedMetadata in one queue.

    Why: each limits the memory of a long queue; both together are usually unnecessary.
    Example: ``<TargetQueueDepth>100k</TargetQueueDepth>`` beside ``<FileBackedMetadata>enabled</FileBackedMetadata>``.
    Instead: keep TargetQueueDepth, which bounds the memory.
    """
    metadata = node.find("FileBackedMetadata")
    if metadata is not None and node.find("TargetQueueDepth") is not None:
        message = "TargetQueueDepth with FileBackedMetadata is usually unnecessary"
        yield Problem(metadata, message, "keep one of the two; TargetQueueDepth bounds the memory")
