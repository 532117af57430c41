"""Results: gone through once, looked at without loss, and never markup in a notebook."""

from __future__ import annotations

from typing import Any

import pytest

from sowctl.engine.api import TopicHandle
from sowctl.engine.api.result import SHOWN
from tests.support.instances import Lab, message


@pytest.fixture
def topic(lab: Lab) -> TopicHandle:
    """A topic of 45 records."""
    lab.publish("t", *(message(id=number, v=str(number)) for number in range(45)))
    return lab.open().topic("t")


def test_messages_as_dicts(topic: TopicHandle) -> None:
    assert topic.query("/id < 2", order_by="/id").to_dicts() == [{"id": 0, "v": "0"}, {"id": 1, "v": "1"}]


def test_a_loop_that_is_left_loses_only_what_it_has_taken(topic: TopicHandle) -> None:
    result = topic.query(batch_size=10)
    for batch in result:
        assert len(batch) == 10
        break
    assert sum(1 for _ in result.records()) == 35
    assert result.statistics[0].returned == 45


def test_looking_at_a_result_takes_nothing_from_it(topic: TopicHandle) -> None:
    result = topic.query(order_by="/id", batch_size=8)
    shown = result._repr_html_()
    assert shown == result._repr_html_()
    assert shown.count("<tr>") == SHOWN + 1
    assert "<caption>t: the first 20 records</caption>" in shown
    assert [row["id"] for row in result.to_dicts()] == list(range(45))
    assert "<caption>t: 0 records</caption>" in topic.query("/id = 99")._repr_html_()
    with topic.query() as closed:
        pass
    assert list(closed) == []


@pytest.mark.parametrize(
    ("fields", "cells"),
    [
        ({"v": "<script>alert('x')</script>"}, "<td>&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;</td>"),
        ({"v": "a&amp;b"}, "<td>a&amp;amp;b</td>"),
        ({"v": {"w": ["<b>"]}}, "<td>{&quot;w&quot;: [&quot;&lt;b&gt;&quot;]}</td>"),
        ({"v": "a\u202eb\x1b[31m\n"}, "<td>a\\u202eb\\x1b[31m\\n</td>"),
        ({"v": "\ud800"}, "<td>\\ud800</td>"),
        ({"v": "x" * 300}, f"<td>{'x' * 200}…</td>"),
        ({"<i>": 1}, "<th>&lt;i&gt;</th>"),
        ({"v": None}, "<td>null</td>"),
    ],
)
def test_nothing_in_a_message_is_markup(fields: dict[str, Any], cells: str, lab: Lab) -> None:
    lab.publish("t", message(id=1, **fields))
    assert cells in lab.open().topic("t").query()._repr_html_()


def test_counting_and_planning(topic: TopicHandle) -> None:
    assert topic.query("/id < 3").count() == 3
    (plan,) = topic.query("/id < 3").plans()
    assert plan.topic == "t"
