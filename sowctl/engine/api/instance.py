"""An instance as a program opens it, and the way from there to topics and queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Unpack

from sowctl.engine.api import keywords as words
from sowctl.engine.api.queue import QueueHandle
from sowctl.engine.api.topic import TopicHandle, publish_to_topic
from sowctl.engine.instance import Instance
from sowctl.engine.options import PublishOptions, SubscribeOptions
from sowctl.engine.topics.targets import WITHOUT_SOW, find_publish_topic, find_topic
from sowctl.errors import MissingError, convert_memory_errors

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.api.arguments import Message
    from sowctl.engine.reports import PublishReport
    from sowctl.engine.subscriptions.bookmark_stores.place import SubscriptionPlace
    from sowctl.engine.verbs.check import CheckRun
    from sowctl.engine.verbs.subscribe import Subscription


_MAX_SHOWN_TOPICS = 8
"""Names of topics that an instance tells when it is printed."""


class RowVerbs:
    """The verbs by which bookmark stores in topics write their rows; verbs stand above the room of the stores."""

    def publish(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Publish one message; durable when this returns."""
        TopicHandle(instance, topic).publish([payload])

    def delete(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Delete the record whose key a message has."""
        TopicHandle(instance, topic).delete(data=[payload])


@convert_memory_errors
class InstanceHandle(Instance, frozen=True):
    """An instance, and a way to its topics; :meth:`Instance.open` says how it is opened."""

    lasting: ClassVar[bool] = True

    def __repr__(self) -> str:
        if self.config is None:
            return "<instance without a configuration>"
        names = [entry.name for entry in self.config.sow]
        told = ", ".join(names[:_MAX_SHOWN_TOPICS]) + (
            f" and {len(names) - _MAX_SHOWN_TOPICS} more" if len(names) > _MAX_SHOWN_TOPICS else ""
        )
        return f"<instance {self.config.name!r} of {str(self.config.path)!r}: {told}>"

    def topic(self, name: str, message_type: str | None = None) -> TopicHandle:
        """The verbs of one topic, or of a view, which refuses those that write.

        Of a topic that only the transaction log names, publish, subscribe and ``versions(journal=True)``. Raises
        MissingError (exit 10) and UsageError (exit 2, ambiguous).
        """
        try:
            return TopicHandle(self, find_topic(self, name, message_type, derived=True))
        except MissingError as problem:
            if problem.code != WITHOUT_SOW:
                raise
            return TopicHandle(self, find_publish_topic(self, name, message_type))

    @words.add_signature(words.PublishKeywords, PublishOptions)
    def publish(
        self,
        topic: str,
        messages: Iterable[Message],
        options: PublishOptions | None = None,
        **keywords: Unpack[words.PublishKeywords],
    ) -> PublishReport:
        """Publish to a topic by its name: also one that only the transaction log names or a pattern of it covers.

        Everything else is that of :meth:`TopicHandle.publish`.
        """
        return publish_to_topic(self, topic, None, messages, options, keywords)

    def queue(self, name: str, message_type: str | None = None) -> QueueHandle:
        """A queue, to be closed after use or used in a ``with`` statement. Raises MissingError (exit 10)."""
        from sowctl.engine.queues.definition import find_queue
        from sowctl.engine.queues.queue import OpenQueue

        return QueueHandle(OpenQueue(self, find_queue(self, name, message_type)))

    @words.add_signature(words.SubscribeKeywords, SubscribeOptions)
    def subscribe(
        self, target: str, filter: str | None = None, **keywords: Unpack[words.SubscribeKeywords]
    ) -> Subscription:
        """Follow a topic, or all topics that a pattern matches; see :meth:`TopicHandle.subscribe`."""
        from sowctl.engine.topics.targets import build_new_topic_resolver, resolve_followed_topics
        from sowctl.engine.verbs.subscribe import subscribe_topics

        options = words.build_subscribe_options(filter, keywords)
        topics = resolve_followed_topics(self, target, replayed=options.bookmark is not None)
        return subscribe_topics(self, topics, options, joining=build_new_topic_resolver(self, target))

    def place(self, store: str, client: str, sub_id: str, *, every: float = 1.0) -> SubscriptionPlace:
        """Return a subscription's place in a bookmark store: a topic, or a file with the ending ``.bookmarks``.

        Subscribe with its ``recent`` for a bookmark, iterate over its ``events(subscription)``, and ``acknowledge``
        each event that is processed. It is written every so many seconds, and when it is closed.
        """
        from sowctl.engine.subscriptions.bookmark_stores.place import SubscriptionPlace
        from sowctl.engine.subscriptions.bookmark_stores.protocol import Subscriber
        from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store

        return SubscriptionPlace(open_bookmark_store(self, store, RowVerbs()), Subscriber(client, sub_id), self, every)

    def check(self) -> CheckRun:
        """Check all stores and the journal: iterate for findings, then ask for ``status``, ``report``, ``coverage``."""
        from sowctl.engine.verbs.check import check_instance

        return check_instance(self)
