"""Several topics at one instant: their states up to a txid, so that what follows begins with the next one.

A state holds every entry of its topic up to some txid, because store and memtable are read one behind the other and the
memtable to its end. The instant is the highest such txid of all topics and of the journal; a state that was read before
a later entry is brought up to it. So nothing is lost between the states and what follows, and nothing comes twice.
Lifetimes are judged at one time of the clock behind all of these readings: the entries of the states are older.
Called by :mod:`sowctl.engine.subscriptions.subscription`. Ruled by ``behaviour`` 4.1.
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

    ``now``: the time at which lifetimes are judged, microseconds UTC. ``unknown``: the topics whose state at the txid
    the journal does not have any more; their sources are None. To be closed.
    """

    txid: int
    now: int
    sources: list[Source | None]
    held: ExitStack
    unknown: frozenset[TopicRef] = frozenset()

    def close(self) -> None:
        """Let go of all snapshots."""
        self.held.close()


def open_topic_states(instance: Instance, topics: Sequence[TopicConfig], tail: JournalTail) -> TopicStates:
    """Open ``topics`` at one instant. Raises what opening a source raises."""
    with ExitStack() as held:
        # Before any state is read: an entry up to here is in every one of them.
        least = tail.read_end_txid()
        opened = [_open_topic_snapshot(instance, topic, held) for topic in topics]
        logged = [(topic, found) for topic, found in zip(topics, opened, strict=True) if found and topic.journalled]
        txid = max((found.last_txid for _, found in logged), default=least)
        txid = max(least, txid)
        for topic, found in logged:
            # Another topic's state is later than this one: entries of this topic may lie between.
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
        # Nothing was published yet; what keeps nothing at all cannot be followed either.
        if error.code != NO_STORE_CODE or (topic.file is None and not topic.journalled):
            raise
        return None
    held.enter_context(closing(found))
    return found
