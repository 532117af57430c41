"""Topics that match a pattern, but had no message when it was resolved: they are followed from their first entry.

Only the transaction log names them, or they are logical topics of a Pattern topic, so their names are unknown before
their first entry. Called by :mod:`sowctl.engine.subscriptions.subscription`. Specified in ``behaviour`` 1.8 and 4.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from sowctl.engine.subscriptions.followed_topics import FollowedTopic, build_followed_topics
from sowctl.engine.subscriptions.interest import compile_interests
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.engine.topics.targets import NewTopicResolver
    from sowctl.values.topicref import TopicRef


class NewTopics:
    """``joining`` returns the definition of a matching topic; without it, no topic is added."""

    def __init__(self, instance: Instance, joining: NewTopicResolver | None = None) -> None:
        self._instance = instance
        self._joining = joining
        self._others: set[TopicRef] = set()

    def resolve_refs(
        self, refs: Iterable[TopicRef], followed: Collection[TopicRef], options: SubscribeOptions
    ) -> dict[TopicRef, FollowedTopic]:
        """Return the topics of ``refs``, which have journal entries, that match and are not in ``followed`` yet."""
        found: dict[TopicRef, FollowedTopic] = {}
        if self._joining is None:
            return found
        for ref in refs:
            if ref in followed or ref in self._others:
                continue
            topic = self._joining(*ref)
            if topic is None:
                self._others.add(ref)
                continue
            try:
                found |= build_followed_topics(self._instance, compile_interests(self._instance, [topic], options))
            except UsageError as error:
                # At the start this would have been an error; now other topics are followed, and continue.
                self._others.add(ref)
                self._instance.notify(f"new topic {topic.label!r} is not in the subscription: {error.message}")
        return found
