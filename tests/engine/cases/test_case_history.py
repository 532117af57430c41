"""History: cases C75-C81 of sowctl-behaviour(7), for every way in which a store gets versions, on every read path."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sowctl.engine.options import QueryOptions
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.query import start_query
from sowctl.engine.verbs.snapshot import write_snapshot
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
MINUTE = 60 * SECOND


@pytest.fixture(params=["live", "rebuilt", "behind", "alone", "transient", "expired"])
def kind(request: pytest.FixtureRequest) -> str:
    """Storage of the topic's versions when they are read."""
    return str(request.param)


class Played:
    """A topic with History after some changes of record 1, given as (minute, value); None is a deletion."""

    def __init__(self, make_lab: MakeLab, kind: str, window: str, granularity: str) -> None:
        parts = [f"<History><Window>{window}</Window><Granularity>{granularity}</Granularity></History>"]
        if kind == "transient":
            parts.append("<Durability>transient</Durability>")
        topic = topic_xml("h", *parts, file=None if kind == "transient" else "sow/%n.sow")
        self.kind = kind
        self.lab = make_lab(config_xml(topic, () if kind == "alone" else ("h",)))

    def play(self, *changes: tuple[float, str | None]) -> None:
        for minute, value in changes:
            self.now(minute)
            if value is None:
                self.lab.open().topic("h").delete(filter="/id = 1")
            else:
                self.lab.publish("h", message(id=1, v=value))

    def now(self, minute: float) -> None:
        self.lab.clock.at = START + round(minute * MINUTE)

    def settle(self) -> None:
        if self.kind in ("rebuilt", "behind"):
            self.lab.forget("h")
        if self.kind == "rebuilt":
            assert self.lab.open().topic("h").replay().action == "rebuilt"
        if self.kind == "expired":
            self.lab.open().topic("h").expire()

    def at(self, minute: float) -> str:
        """Return the value as of a minute, "" for no record; it is the same on every read path."""
        lab, instant = self.lab, START + round(minute * MINUTE)
        topic = lab.open().topic("h")
        copy = lab.directory / "then.sow"
        write_snapshot(lab.open(), topic.target, instant, copy, force=True)
        copied = start_query(lab.open(), [Target(path=copy)], QueryOptions()).iterate_records()
        found = {
            "query": lab.query("h", at=instant),
            "filter": lab.query("h", "/id = 1 AND /v IS NOT NULL", at=instant),
            "page": lab.query("h", order_by="/v", top_n=5, at=instant),
            "groups": lab.query("h", projection="/id AS /id, MAX(/v) AS /v", grouping="/id", at=instant),
            "get": [record.payload.decode() for record in topic.get("1", fields=True, at=instant)],
            "copy": [record.payload.decode() for record in copied],
        }
        values = {name: "".join(json.loads(row)["v"] for row in rows) for name, rows in found.items()}
        assert len(set(values.values())) == 1, values
        assert topic.query(at=instant).count() == len(found["query"]) <= 1
        return values["query"]


def test_c75_timeline_a(make_lab: MakeLab, kind: str) -> None:
    """Also seed example 31: a granularity of ten minutes."""
    topic = Played(make_lab, kind, "1h", "10m")
    topic.play((0, "a"), (4, "b"), (8, "c"))
    topic.now(9)
    assert topic.at(9) == "c"
    topic.play((12, "d"), (25, "e"))
    topic.now(30)
    topic.settle()
    asked = {0: "a", 3: "a", 9: "a", 11: "a", 12: "d", 24: "d", 25: "e", 30: "e"}
    assert {minute: topic.at(minute) for minute in asked} == asked


def test_c76_granularity_zero_keeps_every_update(make_lab: MakeLab, kind: str) -> None:
    topic = Played(make_lab, kind, "1h", "0s")
    topic.play((0, "a"), (4, "b"), (8, "c"), (12, "d"), (25, "e"))
    topic.now(30)
    topic.settle()
    asked = {0: "a", 3: "a", 4: "b", 9: "c", 12: "d", 24.99: "d", 25: "e"}
    assert {minute: topic.at(minute) for minute in asked} == asked


def test_c77_a_deletion_is_part_of_the_past(make_lab: MakeLab, kind: str) -> None:
    topic = Played(make_lab, kind, "1h", "10m")
    topic.play((0, "a"), (30, None))
    topic.now(40)
    topic.settle()
    assert [topic.at(minute) for minute in (29, 30, 31, 40)] == ["a", "", "", ""]


def test_c78_before_the_window_there_is_nothing(make_lab: MakeLab, kind: str) -> None:
    topic = Played(make_lab, kind, "1h", "0s")
    topic.play((0, "a"), (90, "b"))
    topic.now(200)
    topic.settle()
    assert (topic.at(80), topic.at(139), topic.at(140)) == ("", "", "b")


def test_c79_the_current_version_has_no_age(make_lab: MakeLab, kind: str) -> None:
    topic = Played(make_lab, kind, "1h", "10m")
    topic.play((0, "a"))
    topic.now(600)
    topic.settle()
    assert (topic.at(600), topic.at(541), topic.at(539)) == ("a", "a", "")


def test_c80_a_delete_leaves_the_past_alone(make_lab: MakeLab, kind: str) -> None:
    topic = Played(make_lab, kind, "1h", "0s")
    topic.play((0, "a"), (10, "b"), (20, None), (30, "c"))
    topic.now(31)
    topic.settle()
    assert [topic.at(minute) for minute in (0, 10, 19, 20, 25, 30)] == ["a", "b", "b", "", "", "c"]


def test_c81_a_topic_without_history(make_lab: MakeLab) -> None:
    """Section 11, 34: the journal gives the exact answer; a server would return the present state for every instant."""
    lab = make_lab(config_xml(topic_xml("h"), ("h",)))
    for minute, value in enumerate("abc"):
        lab.clock.at = START + minute * MINUTE
        lab.publish("h", message(id=1, v=value))
    assert [lab.query("h", at=START + minute * MINUTE) for minute in (-1, 0, 1, 2, 9)] == [
        [], [message(id=1, v="a")], [message(id=1, v="b")], [message(id=1, v="c")], [message(id=1, v="c")],
    ]  # fmt: skip


def test_timeline_c(make_lab: MakeLab, kind: str) -> None:
    """A window of an hour from 7:00 on, queried at 10:31; a second key is never written again."""
    topic = Played(make_lab, kind, "1h", "0s")
    topic.lab.publish("h", message(id=2, v=""))
    topic.play((60, "1"), (150, "2"))
    topic.now(211)
    topic.settle()
    assert (topic.at(140), topic.lab.query("h", at=START + 140 * MINUTE)) == ("", [])
    assert topic.lab.query("h", "/id = 1", at=START + 165 * MINUTE) == [message(id=1, v="2")]
    assert len(topic.lab.query("h", at=START + 165 * MINUTE)) == 2
