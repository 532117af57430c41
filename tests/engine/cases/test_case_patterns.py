"""Pattern topics: cases C54 and C55 of sowctl-behaviour(7)."""

from __future__ import annotations

import pytest

from sowctl.engine.options import QueryOptions
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.query import start_query
from sowctl.errors import MissingError
from tests.support.instances import Lab, config_xml, message, topic_xml


@pytest.fixture
def orders(make_lab) -> Lab:  # type: ignore[no-untyped-def]
    topics_xml = topic_xml("/orders/special") + topic_xml("all-orders", "<Pattern>^/orders/</Pattern>")
    made: Lab = make_lab(config_xml(topics_xml, ("/orders/special", "all-orders")))
    return made


def test_c54_an_exact_topic_that_stands_earlier_takes_precedence(orders: Lab) -> None:
    exact = orders.publish("/orders/special", message(id=1, n="exact"))
    pattern = orders.publish("/orders/special/x", message(id=1, n="pattern"))
    assert [topic.topic for topic in exact.topics + pattern.topics] == ["/orders/special", "all-orders"]
    with pytest.raises(MissingError) as caught:
        orders.publish("/customer/orders/y", message(id=1))
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-012", 10)
    assert orders.query("/orders/special") == [message(id=1, n="exact")]
    assert orders.query("/orders/special/x") == orders.query("all-orders") == [message(id=1, n="pattern")]


def test_c55_a_pattern_topic_is_one_group_of_labelled_records(orders: Lab) -> None:
    names = ("/orders/a", "/orders/b", "/orders/c")
    for name in names:
        orders.publish(name, message(id=1, at=name), message(id=2, at=name))
    instance = orders.open()
    result = start_query(instance, resolve_targets(instance, "^/orders/[abc]"), QueryOptions())
    found = [(record.extra["topic"], record.payload.decode()) for record in result.iterate_records() if record.extra]
    assert sorted(found) == sorted((name, message(id=n, at=name)) for name in names for n in (1, 2))
    assert [(one.topic, one.examined, one.matched, one.returned) for one in result.statistics] == [
        ("all-orders", 6, 6, 6)
    ]
