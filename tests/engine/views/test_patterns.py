"""For reads, a pattern as TARGET also matches views, conflated topics and queues, in configuration order."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sowctl.engine.options import QueryOptions
from sowctl.engine.topics.targets import resolve_followed_topics, resolve_targets
from sowctl.engine.verbs.info import find_topic_info
from sowctl.engine.verbs.query import start_query
from sowctl.errors import MissingError, RefusedError
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
DERIVED = """
<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/client</Field><Field>SUM(/qty) AS /total</Field></Projection>
<Grouping><Field>/client</Field></Grouping></View>
<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Interval>1s</Interval></ConflatedTopic>
<ConflatedTopic><Name>loose</Name><MessageType>json</MessageType><UnderlyingTopic>unlogged</UnderlyingTopic>
<Interval>1s</Interval></ConflatedTopic>
<ConflatedTopic><Name>copies</Name><MessageType>json</MessageType><UnderlyingTopic>many</UnderlyingTopic>
<Interval>1s</Interval><TopicFormat>%n-C</TopicFormat></ConflatedTopic>
<Queue><Name>work</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic></Queue>
"""
TOPICS = topic_xml("orders") + topic_xml("unlogged") + topic_xml("many", "<Pattern>^/m/</Pattern>")
XML = config_xml(TOPICS + DERIVED, ("orders", "^/m/", "many"))


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    made = make_lab(XML)
    made.publish("orders", message(id=1, client="a", qty=5))
    made.publish("unlogged", message(id=2))
    made.clock.tick(5)
    return made


def names(lab: Lab, pattern: str, *, derived: bool = True) -> list[str]:
    return [
        target.topic.name
        for target in resolve_targets(lab.open(), pattern, derived=derived)
        if target.topic is not None
    ]


def found(lab: Lab, pattern: str) -> list[tuple[str, dict[str, object]]]:
    instance = lab.open()
    result = start_query(instance, resolve_targets(instance, pattern, derived=True), QueryOptions())
    return [(batch.topic, json.loads(record.payload)) for batch in result for record in batch.records]


def test_names_of_all_kinds_in_configuration_order(lab: Lab) -> None:
    assert names(lab, "^(totals|orders|work|slow|loose)$") == ["orders", "totals", "slow", "loose", "work"]
    assert names(lab, "^t") == ["totals"]
    assert [row.topic for row in find_topic_info(lab.open(), "^(w|t)")] == ["totals", "work"]
    # Commands that write or inspect stores match only topics.
    assert names(lab, "^(totals|orders|work)$", derived=False) == ["orders"]
    with pytest.raises(MissingError, match="matches no topic") as error:
        resolve_targets(lab.open(), "^tot")
    assert (error.value.code, "is a View" in str(error.value.hint)) == ("SOW-ENG-014", True)


def test_a_query_reads_them_all_and_leaves_out_what_nothing_is_known_of(lab: Lab) -> None:
    order = {"id": 1, "client": "a", "qty": 5}
    assert found(lab, "^(totals|orders|work|slow|loose)$") == [
        ("orders", order),
        ("totals", {"client": "a", "total": 5}),
        ("slow", order),
        ("work", order),
    ]


def test_conflated_names_of_logical_topics(lab: Lab) -> None:
    with pytest.raises(MissingError):
        resolve_targets(lab.open(), "^/m/.*-C$", derived=True)
    lab.publish("/m/one", message(id=7))
    lab.publish("/m/two", message(id=8))
    lab.clock.tick(5)
    assert found(lab, "^/m/.*e-C$") == [("copies", {"id": 7})]


def test_a_subscription_follows_them_and_a_replay_does_not(lab: Lab) -> None:
    with lab.open().subscribe("^(totals|orders|slow|loose)$", until_now=True) as subscription:
        shown = [event.topic for event in subscription if event.command == "sow"]
    assert shown == ["orders", "totals", "slow"]
    with lab.open().subscribe("^(totals|orders)$", bookmark="0", sow=False, until_now=True) as subscription:
        assert [event.topic for event in subscription if event.command == "publish"] == ["orders"]
    with pytest.raises(RefusedError) as error, lab.open().subscribe("totals", bookmark="0", sow=False) as subscription:
        list(subscription)
    assert error.value.code == "SOW-FOL-021"
    # an entry in the TransactionLog would not help: lint reports that it records nothing
    assert "--at" in (error.value.hint or "")
    assert [topic.name for topic in resolve_followed_topics(lab.open(), "^(work|totals)$")] == ["totals", "work"]
