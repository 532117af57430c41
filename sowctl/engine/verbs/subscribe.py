"""subscribe: the records of topics at one instant, then everything that happens to them (``behaviour`` 4)."""

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
    """Follow ``topics`` (:func:`~sowctl.engine.topics.targets.resolve_followed_topics` finds them).

    ``joining``, of the module of that function, says what a pattern means of topics that nobody has published to yet.

    ``inputs`` are descriptors that end a wait when they can be read; ``output`` is the one that events are written to,
    if any: a wait ends when nobody reads it any more. ``direct``: the caller writes to no topic that is followed while
    it takes events; then records need not be read to the end before the first one is given.

    Nothing is opened before the first event is asked for. Raises UsageError (exit 2) for texts and options at once;
    iterating raises what sources and journals raise, MissingError ``SOW-FOL-001`` (exit 10) where entries were removed
    before they were read, and DamageError ``SOW-FOL-002`` (exit 5) where the journal is not the one that was followed.
    """
    if len(topics) > 1:
        # What nothing is known of yet does not spoil the others of a pattern.
        topics = [topic for topic in topics if has_known_state(instance, topic)] or topics
    if options.bookmark is not None:
        # A pattern may match a queue and its topics: each topic once.
        topics = list({topic.ref: topic for topic in _iterate_log_topics(instance, topics)}.values())
    return Subscription(instance, topics, options, inputs=inputs, output=output, direct=direct, joining=joining)


def _iterate_log_topics(instance: Instance, topics: Sequence[TopicConfig]) -> Iterator[TopicConfig]:
    """The topics, for a queue those that it takes messages from: the log has these (behaviour 5.4)."""
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
        # A queue may have the name of its topic, which only the log names then.
        yield from found or [find_publish_topic(instance, queue.underlying, queue.message_type)]
