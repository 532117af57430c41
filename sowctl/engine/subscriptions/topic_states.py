"""Several topics at one instant: their states up to a txid, so that changes continue with the next txid.

A state has every entry of its topic up to some txid, because first the store and then the memtable is read, to the end
of the log. The instant is the highest such txid of all topics and of the journal; a state read before a later entry is
brought up to it. So no entry is lost between the states and the changes, and none is delivered twice. Expiration is
evaluated at one time of the clock after all of these reads: the entries of the states are older. Called by
:mod:`sowctl.engine.subscriptions.subscription`. Specified in ``behaviour`` 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from sowctl.engine.sources.current import CurrentSource, open_current_source, read_overlay
from sowctl.engine.sources.logical_topics import narrow_source
from sowctl.engine.topics.positions import NO_STORE_CODE
from sowctl.errors import MissingError
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.subscriptions.journal_tail import JournalTail
    from sowctl.values.topicref import TopicRef


class TopicStates(DescribedStruct):
    """The states of topics up to ``txid``; None for a topic without records: nothing published yet, or no SOW.

    ``now``: the time at which expiration is evaluated, microseconds UTC. ``unknown``: the topics whose state at the
    txid is no longer in the journal; their sources are None. Must be closed.
    """

    txid: int
    now: int
    sources: list[Source | None]
    held: ExitStack
    unknown: frozenset[TopicRef] = frozenset()

    def close(self) -> None:
        """Close all snapshots."""
        self.held.close()


def open_topic_states(instance: Instance, topics: Sequence[TopicConfig], tail: JournalTail) -> TopicStates:
    """Open ``topics`` at one instant. Raises what opening a source raises."""
    with ExitStack() as held:
        # Read before any state: every state includes all entries up to here.
        least = tail.read_end_txid()
        opened = [_open_topic_snapshot(instance, topic, held) for topic in topics]
        logged = [(topic, found) for topic, found in zip(topics, opened, strict=True) if found and topic.journalled]
        txid = max((found.last_txid for _, found in logged), default=least)
        txid = max(least, txid)
        for topic, found in logged:
            # Another topic's state is later than this one: entries of this topic may be in between.
            if max(least, found.last_txid) < txid:
                path = found.path or topic.file
                assert path is not None
                found.memtable = read_overlay(instance, topic.whole_topic, found.meta, path, txid)
        now = instance.now
        for source in opened:
            if source is not None:
                source.set_clock(now)
        sources = [narrow_source(found, topic) if found else None for topic, found in zip(topics, opened, strict=True)]
        return TopicStates(txid, now, sources, held.pop_all())


def _open_topic_snapshot(instance: Instance, topic: TopicConfig, held: ExitStack) -> CurrentSource | None:
    if topic.key_mode == "none":
        return None
    try:
        found = open_current_source(instance, topic.whole_topic)
    except MissingError as error:
        # Nothing was published yet; a topic without a store and a journal cannot be followed either.
        if error.code != NO_STORE_CODE or (topic.file is None and not topic.journalled):
            raise
        return None
    held.enter_context(closing(found))
    return found
