"""Law: after any control lines, the subscriber holds exactly the records that a filter in Python selects.

Random publishes, deletes and replacements of filter, options and topic, with conflation, deltas and pages, are compared
with dictionaries. A replacement reports only the resulting changes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sowctl.engine.subscriptions.control import parse_control
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.targets import resolve_followed_topics
from sowctl.engine.verbs.subscribe import Subscription
from tests.support.following import following, news
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
Row = dict[str, Any]
FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    ("", lambda row: True),
    ("/v > 5", lambda row: row["v"] > 5),
    ("/v < 4", lambda row: row["v"] < 4),
    ("/w = 1", lambda row: row["w"] == 1),
    ("/v > 3 AND /w != 2", lambda row: row["v"] > 3 and row["w"] != 2),
    ("/id IN (1, 2, 3, 4)", lambda row: row["id"] in (1, 2, 3, 4)),
    ("/id > 100", lambda row: False),
]
TARGETS = {"t": ("t",), "u": ("u",), "^[tu]$": ("t", "u"), "^.$": ("s", "t", "u")}
"""Topics by target; topic s of the last target is not journalled."""


class Model:
    """The published records, and those held by the subscriber: records by topic and SOW key."""

    def __init__(self, lab: Lab, chance: random.Random) -> None:
        self.lab, self.chance = lab, chance
        self.rows: dict[str, dict[int, Row]] = {"s": {}, "t": {}, "u": {}}
        self.held: dict[tuple[str, str], Row] = {}

    def happen(self) -> None:
        chance, topic = self.chance, self.chance.choice("sttuu")
        if chance.random() < 0.8:
            rows = [
                {"id": chance.randrange(9), "v": chance.randrange(10), "w": chance.randrange(3)}
                for _ in range(chance.choice((1, 1, 3)))
            ]
            self.lab.publish(topic, *(message(**row) for row in rows))
            self.rows[topic].update((row["id"], row) for row in rows)
        elif self.rows[topic]:
            gone = chance.choice(sorted(self.rows[topic]))
            self.lab.open().topic(topic).delete(filter=f"/id = {gone}")
            del self.rows[topic][gone]
        self.lab.clock.tick(chance.choice((0, 0.3, 1.5)))

    def matching(self, target: str, number: int) -> list[tuple[str, Row]]:
        accepts = FILTERS[number][1]
        return [(topic, row) for topic in TARGETS[target] for row in self.rows[topic].values() if accepts(row)]

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.data is None:
                continue
            assert event.topic is not None
            assert event.sow_key is not None
            key = event.topic, event.sow_key
            if event.command == "oof":
                del self.held[key]  # the record must be held, or the test fails here
            elif event.command == "delta_publish":
                self.held[key] = self.held[key] | json.loads(event.data)
            else:
                self.held[key] = json.loads(event.data)

    def forget_others(self, target: str) -> None:
        self.held = {key: row for key, row in self.held.items() if key[0] in TARGETS[target]}

    def holds(self, expected: list[tuple[str, Row]], *, all_told: bool) -> None:
        order = str
        found = [(topic, row) for (topic, _), row in self.held.items()]
        if all_told:
            assert sorted(found, key=order) == sorted(expected, key=order)
        else:
            # Without oof, records that left are still held; those that match are correct.
            assert all(one in found for one in expected)

    def settle(self, subscription: Subscription) -> None:
        """End all intervals, and take all events."""
        self.take(news(subscription))
        self.lab.clock.tick(6)
        self.take(news(subscription))
        assert subscription.settled


def replaced(lab: Lab, subscription: Subscription, **members: str) -> list[Event]:
    line = parse_control(json.dumps({"command": "replace"} | members).encode())
    deliveries = subscription.control(line, lambda target: resolve_followed_topics(lab.open(), target))
    return [event for delivery in deliveries for event in delivery]


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    return make_lab(config_xml(topic_xml("s") + topic_xml("t") + topic_xml("u"), ("t", "u")))


def told_by_a_replacement(events: list[Event]) -> list[Event]:
    """Return the events from the first group_begin on; the events before it report earlier changes."""
    first = next(place for place, event in enumerate(events) if event.command == "group_begin")
    return [event for event in events[first:] if event.data is not None]


@pytest.mark.parametrize("oof", [True, False])
@pytest.mark.parametrize("start", ["none", "1s"])
def test_replacements_with_deltas_conflation_and_patterns(
    lab: Lab, seed: int, deep: bool, oof: bool, start: str
) -> None:
    chance = random.Random(seed)
    model = Model(lab, chance)
    for _ in range(8):
        model.happen()
    target, number = chance.choice(list(TARGETS)), chance.randrange(len(FILTERS))
    with following(lab, target, FILTERS[number][0] or None, oof=oof, conflation=start) as subscription:
        model.take(news(subscription))
        model.holds(model.matching(target, number), all_told=True)
        for _ in range(250 if deep else 40):
            for _ in range(chance.randrange(5)):
                model.happen()
                if chance.random() < 0.5:
                    model.take(news(subscription))
            if chance.random() < 0.5:
                before, known = dict(model.held), (target, number)
                members: dict[str, str] = {}
                if chance.random() < 0.7:
                    number = chance.randrange(len(FILTERS))
                    members["filter"] = FILTERS[number][0]
                if chance.random() < 0.3:
                    target = chance.choice(list(TARGETS))
                    members["topic"] = target
                if chance.random() < 0.5:
                    members["options"] = ",".join(
                        (
                            f"conflation={chance.choice(('none', '1s', '5s', 'auto'))}",
                            f"delta={chance.choice(('true', 'false'))}",
                            f"no_empties={chance.choice(('true', 'false'))}",
                        )
                    )
                events = replaced(lab, subscription, **members)
                group = told_by_a_replacement(events)
                # Events up to the instant belong to the old subscription, regardless of its interval.
                model.take(_front(events))
                model.holds(model.matching(*known), all_told=oof)
                assert {event.command for event in group} <= ({"oof", "sow"} if oof else {"sow"})
                old = {(topic, row["id"]) for topic, row in model.matching(*known)}
                new = {(topic, row["id"]) for topic, row in model.matching(target, number)}
                sow = [(event.topic, json.loads(event.data or b"")["id"]) for event in group if event.command == "sow"]
                left = [(event.topic, json.loads(event.data or b"")["id"]) for event in group if event.command == "oof"]
                assert sorted(sow, key=str) == sorted(new - old, key=str), (before, members)
                gone = {one for one in old - new if one[0] in TARGETS[target]}
                assert sorted(left, key=str) == sorted(gone if oof else (), key=str)
                model.forget_others(target)
                model.take(group)
                model.holds(model.matching(target, number), all_told=oof)
            if chance.random() < 0.4:
                model.settle(subscription)
                model.holds(model.matching(target, number), all_told=oof)


def _front(events: list[Event]) -> list[Event]:
    first = next(place for place, event in enumerate(events) if event.command == "group_begin")
    return events[:first]


@pytest.mark.parametrize("start", ["none", "1s"])
def test_replaced_pages(lab: Lab, seed: int, deep: bool, start: str) -> None:
    chance = random.Random(seed)
    model = Model(lab, chance)
    for _ in range(12):
        model.happen()

    def page() -> list[tuple[str, Row]]:
        rows = sorted(model.matching("t", number), key=lambda one: (sign * one[1]["v"], one[1]["id"]))
        return rows[skip : skip + size]

    def shape() -> tuple[int, int, int]:
        return chance.choice((1, 2, 3)), chance.choice((0, 1, 2)), chance.choice((1, -1))

    number, (size, skip, sign) = chance.randrange(len(FILTERS)), shape()
    order = {1: "/v, /id", -1: "/v DESC, /id"}
    options: dict[str, Any] = {"oof": True, "conflation": start, "order_by": order[sign], "top_n": size}
    with following(lab, "t", FILTERS[number][0] or None, skip_n=skip, **options) as subscription:
        model.take(news(subscription))
        model.holds(page(), all_told=True)
        for _ in range(250 if deep else 40):
            for _ in range(chance.randrange(5)):
                model.happen()
                if chance.random() < 0.5:
                    model.take(news(subscription))
            if chance.random() < 0.5:
                before = page()
                members: dict[str, str] = {}
                if chance.random() < 0.5:
                    number = chance.randrange(len(FILTERS))
                    members["filter"] = FILTERS[number][0]
                if chance.random() < 0.7:
                    size, skip, sign = shape()
                conflation = chance.choice(("none", "1s", "5s"))
                delta = chance.choice(("true", "false"))
                members["options"] = (
                    f"top_n={size},skip_n={skip},orderby=[{order[sign]}],conflation={conflation},delta={delta}"
                )
                events = replaced(lab, subscription, **members)
                model.take(_front(events))
                model.holds(before, all_told=True)
                model.take(told_by_a_replacement(events))
                model.holds(page(), all_told=True)
            if chance.random() < 0.4:
                model.settle(subscription)
                model.holds(page(), all_told=True)
