"""Topics that a pattern means and that nothing was published to when it was looked up: followed as they come.

Only the transaction log names them, or they are logical topics of a Pattern topic, so nothing knows their names before
their first entry. Called by :mod:`sowctl.engine.subscriptions.subscription`. Ruled by ``behaviour`` 1.8 and 4.1.
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
    """``joining`` gives the definition of a topic that is meant; without it there are none."""

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
                # At the beginning this would have been refused; now others are followed, and go on.
                self._others.add(ref)
                self._instance.notify(f"new topic {topic.label!r} is not in the subscription: {error.message}")
        return found
