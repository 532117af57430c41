"""Law: a subscription to SOW keys has the events of the filter ``SOW_KEY() IN (...)``; and rejected keys."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from sowctl.engine.subscriptions import changes as changes_module
from sowctl.engine.subscriptions.control import parse_control
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS
from sowctl.engine.topics.targets import resolve_followed_topics
from sowctl.engine.verbs.subscribe import Subscription
from sowctl.errors import UsageError
from tests.support.following import following, news, told
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
VIEW = (
    "<View><Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<FileName>sow/v.sow</FileName><Projection><Field>/id AS /id</Field><Field>SUM(/v) AS /v</Field></Projection>"
    "<Grouping><Field>/id</Field></Grouping></View>"
)
PARTS = (
    "<Topic><Name>parts</Name><Pattern>^part/</Pattern><MessageType>json</MessageType><Key>/id</Key>"
    "<FileName>sow/parts.sow</FileName></Topic>"
)
IDS = range(9)
PAGE = {"order_by": "/v, /id", "top_n": 2, "skip_n": 1, "oof": True}
SHAPES: list[dict[str, Any]] = [
    {},
    {"sow": False},
    {"oof": True},
    {"oof": True, "delta": True},
    {"delta": True, "no_empties": True, "conflation": "2s"},
    {"oof": True, "conflation": "2s"},
    {"order_by": "/v DESC", "top_n": 2},
    PAGE,
    PAGE | {"delta": True},
]
GROUPS = {"projection": "/w AS /w,COUNT(/id) AS /n", "grouping": "/w", "oof": True}
REPLAYS: list[dict[str, Any]] = [{"sow": False, "bookmark": "0"}, {"bookmark": "0"}]
TOPICS = {
    "t": [*SHAPES, GROUPS, *REPLAYS],
    "quotes": [*SHAPES, GROUPS],
    "own": SHAPES,
    "past": [*SHAPES, {"bookmark": "0"}],
    "alone": SHAPES,
    "part/1": SHAPES,
    "v": [shape for shape in SHAPES if "delta" not in shape],
}


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    topics_xml = (
        topic_xml("t"),
        topic_xml("quotes", "<Expiration>4s</Expiration>"),
        topic_xml("own", key=None),
        topic_xml("past", "<History><Window>1h</Window><Granularity>10s</Granularity></History>"),
        topic_xml("alone"),
        PARTS,
        VIEW,
    )
    return make_lab(config_xml("".join(topics_xml), ("t", "quotes", "own", "past", "parts", "log")))


def happen(lab: Lab, topic: str, chance: random.Random) -> None:
    topic = "t" if topic == "v" else topic
    for _ in range(chance.randrange(4)):
        row = {"id": chance.choice(IDS), "v": chance.randrange(10), "w": chance.randrange(3)}
        if chance.random() < 0.2:
            lab.open().topic(topic).delete(filter=f"/id = {row['id']}")
        elif topic == "own":
            lab.publish(topic, message(**row), sow_key=f"K{row['id']}")
        else:
            lab.publish(topic, message(**row))
    lab.clock.tick(chance.choice((0, 0.5, 3)))


def text_of(event: Event) -> str:
    """Return all fields of an event, for a view without the txid: rows change together, and it is the latest one."""
    names = [name for name in Event.__struct_fields__ if event.topic != "v" or name != "txid"]
    return str([getattr(event, name) for name in names])


def control(lab: Lab, subscription: Subscription, **members: str) -> list[Event]:
    line = parse_control(json.dumps({"command": "replace"} | members).encode())
    deliveries = subscription.control(line, lambda target: resolve_followed_topics(lab.open(), target))
    return [event for delivery in deliveries for event in delivery]


@pytest.mark.parametrize("topic", TOPICS)
def test_keys_are_the_filter_that_names_them(
    lab: Lab, topic: str, seed: int, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Recompute rows of views on each read, without a pause.
    monkeypatch.setattr(SUBSCRIPTION_LIMITS, "refresh_rest_factor", 0)
    chance = random.Random(f"{seed} {topic}")
    for _ in range(5):
        happen(lab, topic, chance)
    lab.publish(
        "t" if topic == "v" else topic, message(id=1, v=1, w=1), **({"sow_key": "K1"} if topic == "own" else {})
    )
    keys = sorted(record.user_key or str(record.sow_key) for record in lab.records(topic))
    for shape in TOPICS[topic] if deep else chance.sample(TOPICS[topic], (len(TOPICS[topic]) + 1) // 2):
        for _ in range(6 if deep else 1):

            def chosen() -> tuple[str, ...]:
                found = chance.sample(keys, min(len(keys), chance.randint(1, 4)))
                return (*found, "K77" if topic == "own" else "12345", *found[:1])

            def named(some: tuple[str, ...]) -> str:
                return f"SOW_KEY() IN ({', '.join(map(repr, some))})"

            some, text = chosen(), chance.choice((None, "/v > 3"))
            with (
                following(lab, topic, text, sow_keys=some, **shape) as one,
                following(lab, topic, named(some) + (f" AND {text}" if text else ""), **shape) as other,
            ):
                for _ in range(40 if deep else 8):
                    assert list(map(text_of, news(one))) == list(map(text_of, news(other))), shape
                    happen(lab, topic, chance)
                    # Replays that have ended and grouped subscriptions are not replaced.
                    if chance.random() < 0.2 and "projection" not in shape and "bookmark" not in shape:
                        some = chosen()
                        options = "top_n=2,skip_n=1,orderby=[/v,/id]" if "skip_n" in shape else ""
                        options = "top_n=2,orderby=[/v DESC]" if "top_n" in shape and not options else options
                        extra = {"options": options} if options else {}
                        mine = control(lab, one, filter="", sow_keys=", ".join(some), **extra)
                        others = control(lab, other, filter=named(some), **extra)
                        assert list(map(text_of, mine)) == list(map(text_of, others)), shape


def test_other_keys_are_passed_over_before_their_messages_are_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish("t", *(message(id=number) for number in IDS))
    key = str(lab.records("t", "/id = 3")[0].sow_key)
    read: list[int] = []
    values_at = changes_module.read_values_at
    monkeypatch.setattr(
        changes_module, "read_values_at", lambda block, at: read.append(len(at)) or values_at(block, at)
    )
    with following(lab, "t", sow_keys=(key,), oof=True) as subscription:
        assert told(news(subscription)[1:-1], "command", "id") == [("sow", 3)]
        lab.publish("t", *(message(id=number, v=1) for number in IDS))
        lab.open().topic("t").delete(filter="1=1")
        assert told(news(subscription), "command", "reason", "id") == [("publish", None, 3), ("oof", "deleted", 3)]
    assert sum(read) == 2


def test_empty_keys_of_a_control_line_take_them_away(lab: Lab) -> None:
    lab.publish("t", message(id=1), message(id=2))
    key = str(lab.records("t", "/id = 1")[0].sow_key)
    with following(lab, "t", sow_keys=(key,)) as subscription:
        assert told(news(subscription)[1:-1], "id") == [(1,)]
        assert told(control(lab, subscription, filter="/id > 0")[1:-1], "id") == []
        assert told(control(lab, subscription, sow_keys="")[1:-1], "id") == [(2,)]


def test_keys_of_a_program_are_texts_or_numbers(lab: Lab) -> None:
    lab.publish("t", message(id=1), message(id=2))
    key = lab.records("t", "/id = 2")[0].sow_key
    for keys in ([key], [str(key)]):
        with lab.open().topic("t").subscribe(sow_keys=keys, until_now=True) as subscription:
            assert [json.loads(event.data)["id"] for event in subscription if event.data] == [2]
    with pytest.raises(TypeError, match="sow_keys"):
        lab.open().topic("t").subscribe(sow_keys=str(key))  # type: ignore[arg-type]


@pytest.mark.parametrize(("topic", "key", "code"), [("t", "no-number", "SOW-QRY-001"), ("log", "1", "SOW-FOL-004")])
def test_keys_that_cannot_be_are_refused(lab: Lab, topic: str, key: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        following(lab, topic, sow_keys=(key,))
    assert caught.value.code == code
