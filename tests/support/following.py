"""Subscribers under test: events of a lab without waiting, and what a subscriber holds after them."""

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
    """A subscription, begun at its first :func:`news`."""
    instance = lab.open()
    return subscribe_topics(
        instance, resolve_followed_topics(instance, target), SubscribeOptions(filter=filter, **options)
    )


def news(subscription: Subscription) -> list[Event]:
    """The events that there are now."""
    return [event for delivery in subscription.ready() for event in delivery]


def told(events: Iterable[Event], *members: str) -> list[tuple[Any, ...]]:
    """Some members of events, the data as values: command and data unless others are named."""
    names = members or ("command", "data")
    return [tuple(value_of(event, name) for name in names) for event in events]


def value_of(event: Event, name: str) -> Any:
    """A member of an event; ``id`` that of its data."""
    if name == "id":
        return json.loads(event.data)["id"] if event.data is not None else None
    value = getattr(event, name)
    return json.loads(value) if name == "data" and value is not None else value


class Holder:
    """What a subscriber holds: payloads by topic and SOW key, as it is told."""

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


# What every recorded stream of messages must be, one function each; ``txids`` of a topic's publishes in the journal
# are what it is held against.


def is_ordered(events: Iterable[Event]) -> bool:
    """Positions never go back."""
    txids = [event.txid for event in events if event.txid is not None and event.command != "sow"]
    return txids == sorted(txids)


def is_unique(events: Iterable[Event]) -> bool:
    """No message is told twice."""
    told = [(event.topic, event.txid) for event in events if event.command == "publish"]
    return len(told) == len(set(told))


def is_reliable(events: Sequence[Event], txids: Sequence[int]) -> bool:
    """Between the first and the last message that were told none is missing, and none is invented."""
    found = [event.txid for event in events if event.command == "publish" and event.txid is not None]
    return not found or found == [txid for txid in txids if found[0] <= txid <= found[-1]]


def is_complete(events: Sequence[Event], txids: Sequence[int], upto: int) -> bool:
    """Behind the instant of the group everything was told, up to a position."""
    begin = next(event.txid for event in events if event.command == "group_begin")
    assert begin is not None
    found = [event.txid for event in events if event.command == "publish"]
    return found == [txid for txid in txids if begin < txid <= upto]


def is_atomic(events: Sequence[Event], groups: Sequence[tuple[int, int]], topic_txids: Sequence[int]) -> bool:
    """Of a group of the journal all messages are told, or none: a position between them is never the last."""
    found = {event.txid for event in events if event.command == "publish"}
    for first, last in groups:
        wanted = {txid for txid in topic_txids if first <= txid <= last}
        if found & wanted and not wanted <= found:
            return False
    return True


def published(lab: Lab, topic: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The txids of a topic's publishes, and first and last txid of every group, as the journal has them."""
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
