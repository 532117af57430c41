"""A followed topic with its feed and the source of its changes; and the other objects that subscription options
require.

Called by :mod:`sowctl.engine.subscriptions.subscription`. Each kind of feed is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.subscriptions.feeds.feed import Feed
from sowctl.engine.subscriptions.interest import Interest, is_page
from sowctl.structs import DescribedStruct
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.engine.subscriptions.conflation import Conflation
    from sowctl.engine.subscriptions.derived_rows import DerivedRows
    from sowctl.engine.subscriptions.replay import Replay
    from sowctl.engine.subscriptions.storetail import StoreTail
    from sowctl.values.topicref import TopicRef


class FollowedTopic(DescribedStruct):
    """One topic: its feed, and the source of its changes if that is not the journal."""

    feed: Feed
    store: StoreTail | None = None
    rows: DerivedRows | None = None

    @property
    def store_files(self) -> list[Path]:
        """The stores whose changes are in no journal."""
        if self.rows is not None:
            return self.rows.stores
        return [] if self.store is None or self.store.topic.file is None else [self.store.topic.file]


def build_followed_topics(instance: Instance, wanted: Sequence[Interest]) -> dict[TopicRef, FollowedTopic]:
    """Return the topics, each with the simplest feed that supports the options."""
    found = {}
    for one in wanted:
        followed = found[one.ref] = FollowedTopic(_make_feed(instance, one))
        if one.config.derived is not None:
            from sowctl.engine.subscriptions.derived_rows import DerivedRows

            followed.rows = DerivedRows(instance, one.config)
        elif one.is_store_only:
            from sowctl.engine.subscriptions.storetail import StoreTail

            followed.store = StoreTail(instance, one.config)
    return found


def _make_feed(instance: Instance, wanted: Interest) -> Feed:
    options = wanted.options
    if options.projection is not None:
        from sowctl.engine.subscriptions.feeds.aggregate import AggregatedFeed

        return AggregatedFeed(instance, wanted)
    if is_page(options):
        from sowctl.engine.subscriptions.feeds.page import PageFeed

        return PageFeed(instance, wanted)
    if options.oof or options.deletes or options.delta:
        from sowctl.engine.subscriptions.feeds.focus import FocusFeed

        return FocusFeed(instance, wanted)
    return Feed(instance, wanted)


def build_replay(instance: Instance, topics: Sequence[TopicConfig], options: SubscribeOptions) -> Replay | None:
    """Return the replay from the bookmark, None without a bookmark."""
    if options.bookmark is None:
        return None
    from sowctl.engine.subscriptions.replay import Replay

    return Replay(instance, topics, options)


def build_conflation(options: SubscribeOptions) -> Conflation | None:
    """Return the conflation of the options, None without conflation."""
    from sowctl.engine.subscriptions.control import parse_conflation_seconds

    seconds = parse_conflation_seconds(options.conflation)
    if seconds is None:
        return None
    from sowctl.engine.subscriptions.conflation import Conflation
    from sowctl.engine.subscriptions.interest import parse_field_paths

    # Events of single records are conflated by SOW key, which equals the key fields here; a delta may lack these
    # fields.
    paths = [] if options.oof or options.delta else parse_field_paths(options.conflation_key)
    return Conflation(round(seconds * MICROS_PER_SECOND), paths, oof=options.oof)
