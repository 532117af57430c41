"""Replaced subscriptions: cases C94 and C95, control lines, and copies that stay exact across replacements."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from sowctl.engine.options import SubscribeOptions
from sowctl.engine.subscriptions.control import apply_subscription_text, parse_control
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.targets import resolve_followed_topics
from sowctl.engine.verbs.subscribe import Subscription
from sowctl.errors import UsageError
from tests.support.following import Holder, following, news, told
from tests.support.instances import Clock, Lab, message

MakeLab = Callable[..., Lab]
OOF = ("command", "reason", "id")


def _control(lab: Lab, subscription: Subscription, **members: Any) -> list[Event]:
    line = parse_control(json.dumps({"command": "replace"} | members).encode())
    deliveries = subscription.control(line, lambda target: resolve_followed_topics(lab.open(), target))
    return [event for delivery in deliveries for event in delivery]


def test_c94_a_wider_filter_sends_only_what_is_new(lab: Lab) -> None:
    lab.publish("t", *(message(id=number, kind="AB"[number % 2]) for number in range(4)))
    with following(lab, "t", "/kind = 'A'") as subscription:
        assert sorted(told(news(subscription)[1:-1], "id")) == [(0,), (2,)]
        events = _control(lab, subscription, filter="/kind IN ('A', 'B')")
        assert (events[0].command, events[-1].command) == ("group_begin", "group_end")
        assert sorted(told(events[1:-1], "command", "id")) == [("sow", 1), ("sow", 3)]
        lab.publish("t", message(id=1, kind="B"), message(id=9, kind="C"))
        assert told(news(subscription), "command", "id") == [("publish", 1)]


def test_c95_what_the_new_filter_leaves_out_goes_out_of_focus(lab: Lab) -> None:
    lab.publish("t", *(message(id=number, kind="AB"[number % 2]) for number in range(4)))
    with following(lab, "t", "/kind = 'A'", oof=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=8, kind="A"))
        events = _control(lab, subscription, filter="/kind = 'B'")
        # messages published before the replacement belong to the old subscription (decision 55)
        assert told(events[:2], "command", "id") == [("publish", 8), ("group_begin", None)]
        assert sorted(told(events[2:5], *OOF)) == [("oof", "match", number) for number in (0, 2, 8)]
        assert sorted(told(events[5:-1], "command", "id")) == [("sow", 1), ("sow", 3)]
        assert events[-1].command == "group_end"
        assert events[-1].txid == subscription.txid == 5


def test_another_topic_sends_all_of_its_records(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.publish("past", message(id=2))
    with following(lab, "t", oof=True) as subscription:
        news(subscription)
        events = _control(lab, subscription, topic="past")
        assert told(events, "command", "topic", "id") == [
            ("group_begin", "past", None), ("sow", "past", 2), ("group_end", "past", None)
        ]  # fmt: skip
        lab.publish("t", message(id=3))
        lab.publish("past", message(id=4))
        assert told(news(subscription), "topic", "id") == [("past", 4)]


def test_a_page_is_turned(lab: Lab) -> None:
    lab.publish("t", *(message(id=number) for number in range(6)))
    with following(lab, "t", order_by="/id", top_n=2, skip_n=0, oof=True) as subscription:
        assert told(news(subscription)[1:-1], "id") == [(0,), (1,)]
        events = _control(lab, subscription, options="top_n=2,skip_n=1,orderby=[/id]")
        assert told(events[1:-1], *OOF) == [("oof", "match", 0), ("sow", None, 2)]
        lab.open().topic("t").delete(filter="/id = 1")
        assert told(news(subscription), *OOF) == [("oof", "deleted", 1), ("publish", None, 3)]


def test_what_makes_a_page_is_given_again(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", order_by="/id", top_n=2, skip_n=0, oof=True) as subscription:
        news(subscription)
        for members in ({"filter": "/id > 5"}, {"options": "top_n=2,skip_n=1"}):
            with pytest.raises(UsageError) as caught:
                _control(lab, subscription, **members)
            assert caught.value.code == "SOW-FOL-008"
        with pytest.raises(UsageError) as caught:
            _control(lab, subscription, topic="past", options="top_n=2,skip_n=0,orderby=/id")
        assert caught.value.code == "SOW-FOL-009"


def test_the_hint_for_a_page_is_an_option_text_that_is_taken(lab: Lab) -> None:
    lab.publish("t", *(message(id=number) for number in range(6)))
    with following(lab, "t", order_by="/id DESC, /v", top_n=2, skip_n=1, oof=True) as subscription:
        news(subscription)
        with pytest.raises(UsageError) as caught:
            _control(lab, subscription, filter="/id < 3")
        assert caught.value.hint is not None
        text = caught.value.hint.rpartition(": ")[2]
        events = _control(lab, subscription, filter="/id < 3", options=text)
        assert [row[-1] for row in told(events[1:-1], *OOF) if row[0] == "sow"] == [1, 0]


def test_what_cannot_be_changes_nothing(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", "/id = 1") as subscription:
        news(subscription)
        with pytest.raises(UsageError):
            _control(lab, subscription, filter="/id = = 1")
        lab.publish("t", message(id=1, v=1), message(id=2))
        assert told(news(subscription), "id") == [(1,)]


def test_pause_resume_and_stop(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t") as subscription:
        news(subscription)
        assert _control(lab, subscription, command="pause") == []
        lab.publish("t", message(id=2))
        assert news(subscription) == []
        _control(lab, subscription, command="resume")
        assert told(news(subscription), "id") == [(2,)]
        _control(lab, subscription, command="stop")
        assert subscription.finished


@pytest.mark.parametrize(
    "options", [{"progress_every": 0.001}, {"sow": False, "bookmark": "0", "rate": "1"}], ids=["progress", "pace"]
)
def test_nothing_that_is_due_ends_a_wait_while_it_is_paused(lab: Lab, options: dict[str, Any]) -> None:
    lab.publish("t", message(id=1), message(id=2), message(id=3))
    with following(lab, "t", lasting=0.3, **options) as subscription:
        news(subscription)
        _control(lab, subscription, command="pause")
        time.sleep(0.01)
        waits = 0
        while not subscription.finished:
            subscription.wait()
            waits += 1
        # its own end, and changes announced before the pause
        assert waits <= 3


@pytest.mark.parametrize(
    "line", [b"", b"[]", b'{"command":"jump"}', b'{"command":"replace","filtre":"/a"}', b'{"filter":"/a"}', b"\xff"]
)
def test_control_lines_that_are_none(line: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        parse_control(line)
    assert caught.value.code == "SOW-FOL-006"


def test_the_option_text(lab: Lab) -> None:
    found = apply_subscription_text(
        SubscribeOptions(), "top_n=10,skip_n=2,oof,conflation=1s,conflation_key=[/a,/b],no_empties=false"
    )
    assert (found.top_n, found.skip_n, found.oof, found.no_empties) == (10, 2, True, False)
    assert (found.conflation, found.conflation_key) == ("1s", "/a,/b")
    # every event has its timestamp, so the option changes nothing
    assert apply_subscription_text(found, "timestamp") == found
    for text in ("topn=1", "top_n=x", "oof=maybe", "timestamp=maybe"):
        with pytest.raises(UsageError) as caught:
            apply_subscription_text(SubscribeOptions(), text)
        assert caught.value.code == "SOW-FOL-007"


def test_copies_stay_exact_across_replacements(lab: Lab, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    for topic in ("t", "alone"):
        lab.publish(topic, *(message(id=number, v=chance.randrange(100)) for number in range(10)))
    running = {topic: (following(lab, topic, oof=True), Holder()) for topic in ("t", "alone")}
    texts: dict[str, str | None] = dict.fromkeys(running)
    try:
        for _ in range(300 if deep else 30):
            for topic, (subscription, holder) in running.items():
                lab.publish(topic, *(message(id=chance.randrange(12), v=chance.randrange(100)) for _ in range(3)))
                if chance.random() < 0.3:
                    lab.open().topic(topic).delete(filter=f"/id = {chance.randrange(12)}")
                if chance.random() < 0.4:
                    texts[topic] = f"/v {chance.choice('<>')} {chance.randrange(100)}"
                    holder.take(_control(lab, subscription, filter=texts[topic]))
                if chance.random() < 0.7:
                    holder.take(news(subscription))
                    assert sorted(holder.held.values()) == sorted(map(str.encode, lab.query(topic, texts[topic])))
    finally:
        for subscription, _ in running.values():
            subscription.close()


def test_a_lifetime_that_ends_in_the_course_of_it_is_told_once(make_lab: MakeLab) -> None:
    class Going(Clock):
        pace = 0.0

        def __call__(self) -> int:
            self.tick(self.pace)
            return self.at

    for start in range(20):
        lab = make_lab(name=f"lab{start}")
        clock = lab.clock = Going()
        lab.publish("fading", message(id=1), expiration=5)
        with following(lab, "fading", oof=True) as subscription:
            news(subscription)
            # The lifetime ends during the replacement, each time at another read of the clock.
            clock.tick(4.95 - start / 10)
            clock.pace = 0.1
            events = _control(lab, subscription, filter="/id < 5")
            clock.pace = 0.0
            clock.tick(5)
            events += news(subscription)
            assert told([event for event in events if event.data], *OOF) == [("oof", "expired", 1)]


def test_what_a_limit_left_out_is_told_by_the_next(lab: Lab) -> None:
    lab.publish("t", *(message(id=number, v=1) for number in range(5)))
    for oof in (False, True):
        with following(lab, "t", order_by="/id", top_n=2, delta=True, oof=oof) as subscription:
            assert told(news(subscription)[1:-1], "id") == [(0,), (1,)]
            # The first event of a record has all its fields.
            lab.publish("t", message(id=4, v=2 + oof))
            assert told(news(subscription)) == [("publish", {"id": 4, "v": 2 + oof})]
            events = _control(lab, subscription, options="top_n=4,orderby=/id", filter="/id >= 0")
            assert told(events[1:-1], "command", "id") == [("sow", 2), ("sow", 3)]
            lab.publish("t", message(id=4, v=4 + oof))
            assert told(news(subscription)) == [("delta_publish", {"id": 4, "v": 4 + oof})]
            events = _control(lab, subscription, options="top_n=100,orderby=/id")
            assert told(events[1:-1], "command", "id") == []


def test_messages_before_the_change_count_for_the_last_one(lab: Lab) -> None:
    with following(lab, "t", most=2) as subscription:
        news(subscription)
        lab.publish("t", *(message(id=number) for number in range(5)))
        events = _control(lab, subscription, filter="/id > 3")
        assert told(events, "command", "id") == [("publish", 0), ("publish", 1)]
        assert subscription.finished
