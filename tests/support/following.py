"""Subscribers under test: events of a lab without waiting, and what a subscriber holds after them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sowctl.engine.following.events import Event
from sowctl.engine.options import SubscribeOptions
from sowctl.engine.topics.targets import followed
from sowctl.engine.verbs.subscribe import Subscription, subscribe
from tests.support.instances import Lab


def following(lab: Lab, target: str, filter: str | None = None, **options: Any) -> Subscription:
    """A subscription, begun at its first :func:`news`."""
    instance = lab.open()
    return subscribe(instance, followed(instance, target), SubscribeOptions(filter=filter, **options))


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
