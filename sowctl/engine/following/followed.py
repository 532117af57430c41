"""One followed topic: its feed, and where its changes come from; and what else the options of a subscription make.

Called by :mod:`sowctl.engine.following.subscription`. Each kind of feed is imported by who needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.described import DescribedStruct
from sowctl.engine.following.feeds.feed import Feed
from sowctl.engine.following.interest import Interest, is_page
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.following.conflation import Conflation
    from sowctl.engine.following.derived import DerivedRows
    from sowctl.engine.following.replay import Replay
    from sowctl.engine.following.storetail import StoreTail
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions

Ref = tuple[str, str]
"""Name and message type of a topic."""


class Followed(DescribedStruct):
    """One topic: its feed, and where its changes come from if that is not the journal."""

    feed: Feed
    store: StoreTail | None = None
    rows: DerivedRows | None = None

    @property
    def files(self) -> list[Path]:
        """The stores whose changes stand in no journal."""
        if self.rows is not None:
            return self.rows.stores
        return [] if self.store is None or self.store.topic.file is None else [self.store.topic.file]


def followed_by(instance: Instance, wanted: Sequence[Interest]) -> dict[Ref, Followed]:
    """The topics, each with a feed that remembers as much as the options need."""
    found = {}
    for one in wanted:
        followed = found[one.ref] = Followed(_make_feed(instance, one))
        if one.config.derived is not None:
            from sowctl.engine.following.derived import DerivedRows

            followed.rows = DerivedRows(instance, one.config)
        elif one.stored_alone:
            from sowctl.engine.following.storetail import StoreTail

            followed.store = StoreTail(instance, one.config)
    return found


def _make_feed(instance: Instance, wanted: Interest) -> Feed:
    options = wanted.options
    if options.projection is not None:
        from sowctl.engine.following.feeds.aggregated import AggregatedFeed

        return AggregatedFeed(instance, wanted)
    if is_page(options):
        from sowctl.engine.following.feeds.page import PageFeed

        return PageFeed(instance, wanted)
    if options.oof or options.delta:
        from sowctl.engine.following.feeds.focus import FocusFeed

        return FocusFeed(instance, wanted)
    return Feed(instance, wanted)


def replay_of(instance: Instance, topics: Sequence[TopicConfig], options: SubscribeOptions) -> Replay | None:
    """What a bookmark asks for, where there is one."""
    if options.bookmark is None:
        return None
    from sowctl.engine.following.replay import Replay

    return Replay(instance, topics, options)


def conflation_of(options: SubscribeOptions) -> Conflation | None:
    """What holds messages back, where that is asked for."""
    from sowctl.engine.following.control import seconds_of

    seconds = seconds_of(options.conflation)
    if seconds is None:
        return None
    from sowctl.engine.following.conflation import Conflation
    from sowctl.engine.following.interest import paths_of

    # What is told of single records is conflated by their keys, which are the fields then; a delta may lack these.
    paths = [] if options.oof or options.delta else paths_of(options.conflation_key)
    return Conflation(round(seconds * MICROS_PER_SECOND), paths, oof=options.oof)
