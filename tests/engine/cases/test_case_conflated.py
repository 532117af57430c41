"""Conformance cases C125 and C126, and the decisions on conflated topics (``behaviour`` 11.42 to 11.46)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml


def conflated_xml(name: str, source: str, *parts: str, interval: str = "5s") -> str:
    return (
        f"<ConflatedTopic><Name>{name}</Name><MessageType>json</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>"
        f"<Interval>{interval}</Interval>{''.join(parts)}</ConflatedTopic>"
    )


LIVES = "<Expiration>3s</Expiration>"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    topics_xml = [
        topic_xml("t"),
        topic_xml("brief", LIVES),
        conflated_xml("c", "t"),
        conflated_xml("open", "t", "<Filter>/state = 'open'</Filter>"),
        conflated_xml("brief-C", "brief"),
        conflated_xml("cc", "c", interval="2s"),
    ]
    return Lab(tmp_path / "lab", config_xml("".join(topics_xml), ("t", "brief")))


def at(lab: Lab, seconds: float) -> None:
    lab.clock.at = START + round(seconds * SECOND)


def shown(lab: Lab, name: str, seconds: float) -> list[object]:
    """Return the values shown at an instant: a query with ``at`` and one at the clock return the same."""
    when = START + round(seconds * SECOND)
    lab.clock.at = max(lab.clock.at, when)
    found = lab.query(name, at=when)
    if lab.clock.at == when:
        assert lab.query(name) == found
    return [json.loads(payload).get("v") for payload in found]


def publish(lab: Lab, seconds: float, value: object, topic: str = "t", **more: object) -> None:
    at(lab, seconds)
    lab.publish(topic, message(id=1, v=value, **more))


def delete(lab: Lab, seconds: float) -> None:
    at(lab, seconds)
    lab.open().topic("t").delete(filter="/id = 1")


def test_c125_what_is_deleted_before_it_was_shown_is_never_shown(lab: Lab) -> None:
    for second in (0, 1, 2):
        publish(lab, second, second)
    delete(lab, 3)
    for second in (0, 3, 4.999999, 5, 6, 60):
        assert shown(lab, "c", second) == []


def test_c126_later_changes_replace_what_is_pending(lab: Lab) -> None:
    publish(lab, 0, "first")
    publish(lab, 6, "second")
    publish(lab, 9, "last")
    assert shown(lab, "c", 4.999999) == []
    assert shown(lab, "c", 5) == shown(lab, "c", 10.999999) == ["first"]
    assert shown(lab, "c", 11) == shown(lab, "c", 1000) == ["last"]


def test_a_change_at_the_end_of_an_interval_belongs_to_it(lab: Lab) -> None:
    publish(lab, 0, "first")
    publish(lab, 5, "at the end")
    assert shown(lab, "c", 5) == ["at the end"]
    publish(lab, 5.000001, "behind it")
    assert shown(lab, "c", 10) == ["at the end"]
    assert shown(lab, "c", 10.000001) == ["behind it"]


def test_publish_delete_publish_within_an_interval_is_one_output(lab: Lab) -> None:
    publish(lab, 0, "first")
    delete(lab, 2)
    publish(lab, 3, "again")
    assert (shown(lab, "c", 4), shown(lab, "c", 5)) == ([], ["again"])
    delete(lab, 6)
    assert (shown(lab, "c", 10), shown(lab, "c", 11)) == (["again"], [])


def test_behind_a_silent_interval_a_publish_opens_a_new_one(lab: Lab) -> None:
    publish(lab, 0, "gone")
    delete(lab, 1)
    publish(lab, 6, "new")
    assert (shown(lab, "c", 10.9), shown(lab, "c", 11)) == ([], ["new"])


def test_what_leaves_the_filter_leaves_at_the_end_of_an_interval(lab: Lab) -> None:
    publish(lab, 0, 1, state="open")
    publish(lab, 6, 2, state="closed")
    publish(lab, 20, 3, state="closed")
    assert (shown(lab, "open", 10.9), shown(lab, "open", 11), shown(lab, "open", 30)) == ([1], [], [])
    publish(lab, 40, 4, state="open")
    publish(lab, 41, 5, state="closed")
    publish(lab, 42, 6, state="open")
    assert (shown(lab, "open", 44), shown(lab, "open", 45)) == ([], [6])


def test_expiry_is_a_change_at_its_instant(lab: Lab) -> None:
    publish(lab, 0, 1, "brief")
    assert shown(lab, "brief-C", 6) == []
    publish(lab, 10, 2, "brief")
    publish(lab, 12.5, 3, "brief")
    assert shown(lab, "brief-C", 15) == [3]
    # The record expires at 15.5, so it leaves at 20.5.
    assert (shown(lab, "brief-C", 20.4), shown(lab, "brief-C", 20.5)) == ([3], [])


def test_a_conflated_topic_over_another_one(lab: Lab) -> None:
    publish(lab, 0, 1)
    publish(lab, 1, 2)
    assert (shown(lab, "cc", 6.9), shown(lab, "cc", 7)) == ([], [2])
    delete(lab, 10)
    assert (shown(lab, "c", 15), shown(lab, "cc", 16.9), shown(lab, "cc", 17)) == ([], [2], [])


def test_records_have_the_keys_and_stamps_of_their_source(lab: Lab) -> None:
    publish(lab, 0, 1)
    publish(lab, 3, 2)
    at(lab, 5)
    [mine], [its] = lab.records("c"), lab.records("t")
    assert (mine.sow_key, mine.txid, mine.value) == (its.sow_key, 2, its.value)
    handle = lab.open().topic("c")
    assert [record.payload for record in handle.get("1")] == [its.payload]
