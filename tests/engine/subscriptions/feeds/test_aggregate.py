"""Aggregated subscriptions: case C70 step by step, and groups that equal an aggregated query after every message."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from sowctl.errors import UsageError
from tests.support.following import following, news, told
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
FIELDS = "/who AS /who, SUM(/v) AS /sum, MIN(/v) AS /min, MAX(/v) AS /max, COUNT(/v) AS /n, /w AS /last"


def test_c70_the_greatest_price_as_ticks_come(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("ticks"), ("ticks",)))
    options = {"projection": "MAX(/price) AS /max, /ticker AS /ticker", "grouping": "/ticker"}
    with following(lab, "ticks", **options) as subscription:
        assert len(news(subscription)) == 2
        for number, price in enumerate((150.34, 149.76, 149.32, 151.10)):
            lab.publish("ticks", message(id=number, ticker="IBM", price=price))
        found = [row["max"] for (row,) in told(news(subscription), "data")]
        assert found == [150.34, 150.34, 150.34, 151.10]
    with following(lab, "ticks", **options) as subscription:
        assert told(news(subscription)[1:-1]) == [("sow", {"max": 151.10, "ticker": "IBM"})]


def test_a_record_that_moves_touches_two_groups(lab: Lab) -> None:
    lab.publish("t", message(id=1, who="a", v=1), message(id=2, who="a", v=2))
    options = {"projection": "/who AS /who, SUM(/v) AS /sum", "grouping": "/who", "oof": True}
    with following(lab, "t", **options) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, who="b", v=5))
        found = news(subscription)
        assert told(found) == [("publish", {"who": "a", "sum": 2}), ("publish", {"who": "b", "sum": 5})]
        assert {event.bookmark for event in found} == {found[0].bookmark}
        lab.open().topic("t").delete(filter="/who = 'a'")
        assert told(news(subscription), "command", "reason", "data") == [("oof", "deleted", {"who": "a", "sum": 2})]


def test_only_what_has_changed_of_a_group(lab: Lab) -> None:
    lab.publish("t", message(id=1, who="a", v=1, w=1))
    options = {"projection": "/who AS /who, SUM(/v) AS /sum, COUNT(/v) AS /n", "grouping": "/who", "delta": True}
    with following(lab, "t", no_empties=True, **options) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, who="a", v=3), message(id=1, who="a", v=3, w=2))
        assert told(news(subscription)) == [("delta_publish", {"sum": 3})]


def test_what_does_not_go_together(lab: Lab) -> None:
    wrong: tuple[tuple[dict[str, object], str], ...] = (
        ({"projection": "/id"}, "SOW-QRY-015"),
        ({"projection": "/id", "grouping": "/id", "select": "-/a"}, "SOW-QRY-015"),
        ({"projection": "/id", "grouping": "/id", "order_by": "/id"}, "SOW-FOL-012"),
        ({"projection": "/id", "grouping": "/id", "top_n": 1, "skip_n": 0}, "SOW-FOL-012"),
    )
    for options, code in wrong:
        with pytest.raises(UsageError) as caught:
            following(lab, "t", **options)
        assert caught.value.code == code


@pytest.mark.parametrize("topic", ["t", "quotes", "alone"])
def test_groups_are_those_of_a_query_after_every_message(lab: Lab, seed: int, deep: bool, topic: str) -> None:
    chance = random.Random(seed)

    def row(number: int) -> str:
        value = chance.choice((None, chance.randrange(10), 0.1, 2.5, "x"))
        return message(id=number, who=chance.choice("abc"), v=value, w=chance.randrange(5))

    lab.publish(topic, *(row(number) for number in range(10)))
    options = {"projection": FIELDS, "grouping": "/who"}
    held: dict[str, object] = {}
    with following(lab, topic, "/w < 4", oof=True, **options) as subscription:
        for _ in range(300 if deep else 25):
            for event in news(subscription):
                if event.sow_key is not None and event.command == "oof":
                    del held[event.sow_key]
                elif event.sow_key is not None and event.data is not None:
                    held[event.sow_key] = json.loads(event.data)
            expected = [json.loads(one) for one in lab.query(topic, "/w < 4", **options)]
            assert sorted(held.values(), key=str) == sorted(expected, key=str)
            lab.publish(topic, *(row(chance.randrange(14)) for _ in range(chance.randrange(1, 4))))
            if chance.random() < 0.3:
                lab.open().topic(topic).delete(filter=f"/id = {chance.randrange(14)}")
            lab.clock.tick(chance.choice((0, 1, 6)))
