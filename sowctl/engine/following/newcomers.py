"""Topics that a pattern means and that nothing was published to when it was looked up: followed as they come.

Only the transaction log names them, or they are logical topics of a Pattern topic, so nothing knows their names before
their first entry. Called by :mod:`sowctl.engine.following.subscription`. Ruled by ``behaviour`` 1.8 and 4.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from sowctl.engine.following.followed import Followed, Ref, followed_by
from sowctl.engine.following.interest import compiled
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.engine.topics.targets import Joining


class Newcomers:
    """``joining`` gives the definition of a topic that is meant; without it there are none."""

    def __init__(self, instance: Instance, joining: Joining | None = None) -> None:
        self._instance = instance
        self._joining = joining
        self._others: set[Ref] = set()

    def among(self, refs: Iterable[Ref], followed: Collection[Ref], options: SubscribeOptions) -> dict[Ref, Followed]:
        """Those of ``refs``, which the journal has entries of, that are meant and are not among ``followed`` yet."""
        found: dict[Ref, Followed] = {}
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
                found |= followed_by(self._instance, compiled(self._instance, [topic], options))
            except UsageError as error:
                # At the beginning this would have been refused; now others are followed, and go on.
                self._others.add(ref)
                self._instance.notify(f"new topic {topic.label!r} is not in the subscription: {error.message}")
        return found
