"""subscribe: the records of topics at one instant, then their changes (``behaviour`` 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.options import SubscribeOptions
from sowctl.engine.subscriptions.subscription import Subscription
from sowctl.engine.topics.targets import NewTopicResolver, find_publish_topic, resolve_followed_topics
from sowctl.engine.views.openers import has_known_state

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance

DEFAULT_OPTIONS = SubscribeOptions()

__all__ = ["SubscribeOptions", "Subscription", "subscribe_topics"]


def subscribe_topics(
    instance: Instance,
    topics: Sequence[TopicConfig],
    options: SubscribeOptions = DEFAULT_OPTIONS,
    *,
    inputs: Collection[int] = (),
    output: int | None = None,
    direct: bool = False,
    joining: NewTopicResolver | None = None,
) -> Subscription:
    """Follow ``topics``, which :func:`~sowctl.engine.topics.targets.resolve_followed_topics` finds.

    ``joining``, from the module of that function, finds topics that match the pattern and have no message yet.

    ``inputs`` are descriptors that end a wait when they are readable; ``output`` is the one that events are written to,
    if any: a wait ends when its reader closes it. ``direct``: the caller writes to no followed topic while it consumes
    events; then records need not be read to the end before the first one is delivered.

    Nothing is opened before the first event is requested. Raises UsageError (exit 2) for invalid texts and options
    immediately; iterating raises what sources and journals raise, MissingError ``SOW-FOL-001`` (exit 10) if entries
    were removed before they were read, and DamageError ``SOW-FOL-002`` (exit 5) if the journal is not the one that was
    followed.
    """
    if len(topics) > 1:
        # Topics without any known state do not prevent following the others of a pattern.
        topics = [topic for topic in topics if has_known_state(instance, topic)] or topics
    if options.bookmark is not None:
        # A pattern may match a queue and its topics: each topic once.
        topics = list({topic.ref: topic for topic in _iterate_log_topics(instance, topics)}.values())
    return Subscription(instance, topics, options, inputs=inputs, output=output, direct=direct, joining=joining)


def _iterate_log_topics(instance: Instance, topics: Sequence[TopicConfig]) -> Iterator[TopicConfig]:
    """Yield the topics; for a queue, the topics that it takes messages from, whose entries are in the log (behaviour
    5.4)."""
    from sowctl.config.derived_entries import Queue

    for topic in topics:
        queue = topic.derived
        if not isinstance(queue, Queue):
            yield topic
            continue
        found = [
            one
            for one in resolve_followed_topics(instance, queue.underlying, queue.message_type)
            if one.derived is None
        ]
        # A queue may have the name of its topic, which then only the log names.
        yield from found or [find_publish_topic(instance, queue.underlying, queue.message_type)]
