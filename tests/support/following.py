"""Subscribers under test: events of a lab without waiting, and the resulting state of a subscriber."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sowctl.engine.options import SubscribeOptions
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import resolve_followed_topics
from sowctl.engine.verbs.subscribe import Subscription, subscribe_topics
from sowctl.journal.format import PUBLISH
from tests.support.instances import Lab


def following(lab: Lab, target: str, filter: str | None = None, **options: Any) -> Subscription:
    """Return a subscription that starts at its first :func:`news`."""
    instance = lab.open()
    return subscribe_topics(
        instance, resolve_followed_topics(instance, target), SubscribeOptions(filter=filter, **options)
    )


def news(subscription: Subscription) -> list[Event]:
    """Return the events available now."""
    return [event for delivery in subscription.ready() for event in delivery]


def told(events: Iterable[Event], *members: str) -> list[tuple[Any, ...]]:
    """Return some members of events, the data as values; by default command and data."""
    names = members or ("command", "data")
    return [tuple(value_of(event, name) for name in names) for event in events]


def value_of(event: Event, name: str) -> Any:
    """Return a member of an event; ``id`` is that of its data."""
    if name == "id":
        return json.loads(event.data)["id"] if event.data is not None else None
    value = getattr(event, name)
    return json.loads(value) if name == "data" and value is not None else value


class Holder:
    """The state of a subscriber: payloads by topic and SOW key, according to the events."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], bytes] = {}

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.sow_key is None or event.topic is None or event.data is None:
                continue
            place = event.topic, event.sow_key
            if event.command in ("sow", "publish"):
                self.held[place] = event.data
            elif event.command == "oof":
                del self.held[place]  # of a record that it holds, or the test fails here


# The requirements for every recorded stream of messages, one function each; ``txids`` of a topic's publishes in the
# journal are the reference.


def is_ordered(events: Iterable[Event]) -> bool:
    """Return whether positions never decrease."""
    txids = [event.txid for event in events if event.txid is not None and event.command != "sow"]
    return txids == sorted(txids)


def is_unique(events: Iterable[Event]) -> bool:
    """Return whether no message is delivered twice."""
    told = [(event.topic, event.txid) for event in events if event.command == "publish"]
    return len(told) == len(set(told))


def is_reliable(events: Sequence[Event], txids: Sequence[int]) -> bool:
    """Return whether no message is missing or invented between the first and the last delivered one."""
    found = [event.txid for event in events if event.command == "publish" and event.txid is not None]
    return not found or found == [txid for txid in txids if found[0] <= txid <= found[-1]]


def is_complete(events: Sequence[Event], txids: Sequence[int], upto: int) -> bool:
    """Return whether everything after the instant of the group was delivered, up to a position."""
    begin = next(event.txid for event in events if event.command == "group_begin")
    assert begin is not None
    found = [event.txid for event in events if event.command == "publish"]
    return found == [txid for txid in txids if begin < txid <= upto]


def is_atomic(events: Sequence[Event], groups: Sequence[tuple[int, int]], topic_txids: Sequence[int]) -> bool:
    """Return whether each group of the journal was delivered completely or not at all: no stream ends within one."""
    found = {event.txid for event in events if event.command == "publish"}
    for first, last in groups:
        wanted = {txid for txid in topic_txids if first <= txid <= last}
        if found & wanted and not wanted <= found:
            return False
    return True


def published(lab: Lab, topic: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the txids of a topic's publishes, and first and last txid of every group, as in the journal."""
    with open_log(lab.open()) as log:
        blocks = list(log.iter_blocks())
    txids = [
        entry.txid
        for block in blocks
        for entry in block.iter_entries()
        if entry.topic[0] == topic and entry.operation == PUBLISH
    ]
    groups: dict[int, int] = {}
    for block in blocks:
        groups[block.header.group] = block.last_txid
    return txids, list(groups.items())
