"""Topics that match a pattern and have no messages when the subscription begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.subscriptions.control import parse_control
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.targets import build_new_topic_resolver, resolve_followed_topics
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.subscribe import Subscription
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import MissingError
from tests.support.following import news, told
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
PARTS = (
    "<Topic><Name>parts</Name><Pattern>^part/</Pattern><MessageType>json</MessageType><Key>/id</Key>"
    "<FileName>sow/parts.sow</FileName></Topic>"
)


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A lab with topic a in a journal, b in none, Pattern topic parts; the log also records failed and ^dyn."""
    logged = ("a", "parts", "failed", "^dyn")
    made = make_lab(config_xml(topic_xml("a") + topic_xml("b") + PARTS, logged))
    made.publish("a", message(id=1))
    return made


def written(lab: Lab, topic: str, number: int) -> None:
    publish_messages(lab.open(), topic, [("m", ListSource([message(id=number).encode()], 1))], PublishOptions())


def told_of(events: list[Event]) -> list[tuple[Any, ...]]:
    return told([event for event in events if event.data is not None], "topic", "command", "id")


def test_a_topic_without_a_sow_is_followed_from_its_first_message(lab: Lab) -> None:
    with lab.open().subscribe("^(a|failed|dyn)", sow=False) as subscription:
        assert news(subscription) == []
        written(lab, "failed", 7)
        lab.publish("a", message(id=2))
        written(lab, "dyn1", 8)
        written(lab, "dyn2", 9)
        written(lab, "failed", 10)
        assert told_of(news(subscription)) == [
            ("failed", "publish", 7),
            ("a", "publish", 2),
            ("dyn1", "publish", 8),
            ("dyn2", "publish", 9),
            ("failed", "publish", 10),
        ]


def test_a_pattern_topic_without_records_is_followed_by_the_names_that_are_meant(lab: Lab) -> None:
    with lab.open().subscribe("^a$|^part/[12]", oof=True) as subscription:
        news(subscription)
        for number in (1, 2, 3):
            written(lab, f"part/{number}", number)
        lab.open().topic("part/2").delete(filter="/id = 2")
        assert told_of(news(subscription)) == [
            ("part/1", "publish", 1),
            ("part/2", "publish", 2),
            ("part/2", "oof", 2),
        ]


def test_a_replay_brings_them_too(lab: Lab) -> None:
    with lab.open().subscribe("^(a|failed)$", sow=False, bookmark="0|1|") as subscription:
        news(subscription)
        written(lab, "failed", 7)
        assert told_of(news(subscription)) == [("failed", "publish", 7)]


def test_what_cannot_be_followed_that_way_is_said_once_and_left_out(lab: Lab) -> None:
    with lab.open().subscribe("^(a|failed)$", oof=True) as subscription:
        news(subscription)
        written(lab, "failed", 7)
        written(lab, "failed", 8)
        lab.publish("a", message(id=2))
        assert told_of(news(subscription)) == [("a", "publish", 2)]
        written(lab, "failed", 9)
        assert told_of(news(subscription)) == []
    assert sum("topic 'failed'" in note for note in lab.notes) == 1


def test_a_replacement_brings_its_own(lab: Lab) -> None:
    def replace(subscription: Subscription, **members: str) -> None:
        line = parse_control(json.dumps({"command": "replace"} | members).encode())
        instance = lab.open()
        deliveries = subscription.control(
            line,
            lambda target: resolve_followed_topics(instance, target),
            lambda target: build_new_topic_resolver(instance, target),
        )
        assert [event for delivery in deliveries for event in delivery]

    with lab.open().subscribe("a") as subscription:
        news(subscription)
        written(lab, "failed", 7)
        assert told_of(news(subscription)) == []
        replace(subscription, topic="^(a|dyn)")
        written(lab, "dyn1", 8)
        assert told_of(news(subscription)) == [("dyn1", "publish", 8)]
        replace(subscription, filter="/id > 0")
        written(lab, "dyn2", 9)
        written(lab, "dyn1", 10)
        assert told_of(news(subscription)) == [("dyn2", "publish", 9), ("dyn1", "publish", 10)]


def test_a_pattern_is_no_name_though_the_log_records_what_it_looks_like(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("a"), (".*",)))
    with pytest.raises(MissingError, match=r"pattern '\^zz'") as caught:
        lab.open().subscribe("^zz")
    assert caught.value.exit_status == 10
    # Without a pattern, the text names a topic that only the log records.
    with lab.open().subscribe("zz", sow=False) as subscription:
        news(subscription)
        written(lab, "zz", 1)
        assert told_of(news(subscription)) == [("zz", "publish", 1)]


def test_a_replay_of_a_pattern_leaves_out_what_no_journal_records(lab: Lab) -> None:
    lab.publish("b", message(id=5))
    with lab.open().subscribe("^[ab]$", sow=False, bookmark="0") as subscription:
        assert told_of(news(subscription)) == [("a", "publish", 1)]
    assert any("'b'" in note for note in lab.notes)


def control(lab: Lab, subscription: Subscription, **members: str) -> list[Event]:
    line = parse_control(json.dumps({"command": "replace"} | members).encode())
    instance = lab.open()
    deliveries = subscription.control(
        line,
        lambda target: resolve_followed_topics(instance, target),
        lambda target: build_new_topic_resolver(instance, target),
    )
    return [event for delivery in deliveries for event in delivery]


def test_what_begins_before_the_instant_is_among_the_records(lab: Lab) -> None:
    with lab.open().subscribe("^(a|part/)", oof=True) as subscription:
        # The pattern was resolved, and nothing is read yet.
        written(lab, "part/1", 7)
        assert told_of(news(subscription)) == [("a", "sow", 1), ("part/1", "sow", 7)]
        lab.open().topic("part/1").delete(filter="/id = 7")
        assert told_of(news(subscription)) == [("part/1", "oof", 7)]


@pytest.mark.parametrize("looks", [False, True])
def test_a_replacement_tells_newcomers_that_only_the_new_filter_takes(lab: Lab, looks: bool) -> None:
    with lab.open().subscribe("^(a|part/)", "/id < 5", oof=True) as subscription:
        news(subscription)
        written(lab, "part/1", 3)
        written(lab, "part/1", 7)
        first = news(subscription) if looks else []
        events = first + control(lab, subscription, filter="/id > 5")
        assert told_of(events) == [
            ("part/1", "publish", 3),
            ("a", "oof", 1),
            ("part/1", "oof", 3),
            ("part/1", "sow", 7),
        ]
        written(lab, "part/2", 8)
        assert told_of(news(subscription)) == [("part/2", "publish", 8)]


def test_logical_topics_that_only_the_new_pattern_means_are_told(lab: Lab) -> None:
    for number in (1, 2):
        written(lab, f"part/{number}", number)
    with lab.open().subscribe("^part/1", oof=True) as subscription:
        assert told_of(news(subscription)) == [("part/1", "sow", 1)]
        assert told_of(control(lab, subscription, topic="^part/")) == [("part/2", "sow", 2)]
        events = control(lab, subscription, topic="^part/[12]", filter="/id > 5")
        assert sorted(told_of(events)) == [("part/1", "oof", 1), ("part/2", "oof", 2)]
