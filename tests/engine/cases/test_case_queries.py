"""Queries: cases C56-C65 of sowctl-behaviour(7), and C22 and C142; cases for subscribers only are not here."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sowctl.engine.options import PublishOptions, QueryOptions
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.query import start_query
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import MissingError, UsageError
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]


def _ids(payloads: list[str]) -> list[object]:
    return [json.loads(payload)["id"] for payload in payloads]


def test_c22_a_delta_to_a_topic_without_a_sow_is_the_literal_message(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    for text in (message(id=1, a=1), message(id=1, b=None)):
        publish_messages(lab.open(), "events", [("input", ListSource([text.encode()]))], PublishOptions(delta=True))
    with open_log(lab.open()) as log:
        found = [entry.payload.decode() for block in log.iter_blocks() for entry in block.iter_entries()]
    assert found == [message(id=1, a=1), message(id=1, b=None)]


def test_c56_a_topic_that_is_not_in_the_sow(lab: Lab) -> None:
    with pytest.raises(MissingError) as caught:
        lab.query("nowhere")
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-012", 10)


def test_c57_a_topic_without_a_sow_takes_messages(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    report = publish_messages(lab.open(), "events", [("input", ListSource([b'{"id":1}']))])
    assert (report.published, report.journalled) == (1, 1)
    with pytest.raises(MissingError) as caught:
        lab.query("events")
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-016", 10)


def test_c58_the_second_key_of_an_order_decides_ties(lab: Lab) -> None:
    rows = [(1, 1, "b"), (2, 2, "b"), (3, 2, "a"), (4, 1, "a"), (5, 10, "c")]
    lab.publish("t", *(message(id=i, d=d, c=c) for i, d, c in rows))
    assert _ids(lab.query("t", order_by="/d DESC, /c")) == [5, 3, 2, 4, 1]


def test_c59_pages_follow_the_order(lab: Lab) -> None:
    lab.publish("t", *(message(id=i, orderId=i) for i in (204, 194, 72, 102)))
    assert _ids(lab.query("t", order_by="/orderId", top_n=2, skip_n=0)) == [72, 102]
    assert _ids(lab.query("t", order_by="/orderId", top_n=2, skip_n=2)) == [194, 204]


def test_c60_text_orders_numbers_as_texts(lab: Lab) -> None:
    lab.publish("t", *(message(id=i, orderId=str(i)) for i in (204, 194, 72, 102)))
    assert _ids(lab.query("t", order_by="/orderId TEXT")) == [102, 194, 204, 72]
    lab.publish("t", *(message(id=i, orderId=i) for i in (204, 194, 72, 102)))
    assert _ids(lab.query("t", order_by="/orderId TEXT")) == [102, 194, 204, 72]
    assert _ids(lab.query("t", order_by="/orderId")) == [72, 102, 194, 204]


def test_c61_skip_needs_top(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with pytest.raises(UsageError) as caught:
        lab.query("t", skip_n=2)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-QRY-010", 2)


def test_c62_a_batch_has_a_largest_size(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    assert len(lab.query("t", batch_size=10_000)) == 1
    with pytest.raises(UsageError) as caught:
        lab.query("t", batch_size=10_001)
    assert caught.value.exit_status == 2


def test_c63_no_rows_and_the_numbers_all_the_same(lab: Lab) -> None:
    lab.publish("t", *(message(id=i, a=i % 2) for i in range(5)))
    result = lab.open().topic("t").query("/a = 0", top_n=0)
    assert list(result.records()) == []
    numbers = result.statistics[0]
    assert (numbers.examined, numbers.matched, numbers.returned) == (5, 3, 0)


def test_c64_names_are_searched_for_a_pattern(make_lab: MakeLab) -> None:
    names = ("order-na", "order_northamerica", "my-order-nx", "rollup-orders-northamerica")
    lab = make_lab(config_xml("".join(map(topic_xml, names)), names))
    for name in names:
        lab.publish(name, message(id=name))
    instance = lab.open()
    result = start_query(instance, resolve_targets(instance, "order.n"), QueryOptions())
    assert [record.payload.decode() for record in result.iterate_records()] == [message(id=name) for name in names[:3]]


def test_c65_topics_follow_one_another_as_they_are_configured(make_lab: MakeLab) -> None:
    names = ("Topic_C", "Topic_A", "Other", "Topic_B")
    lab = make_lab(config_xml("".join(map(topic_xml, names)), names))
    for name in sorted(names):
        lab.publish(name, *(message(id=f"{name}-{i}") for i in range(3)))
    instance = lab.open()
    result = start_query(instance, resolve_targets(instance, "^Topic_"), QueryOptions())
    found = [batch.topic for batch in result for _ in batch.records]
    assert found == ["Topic_C"] * 3 + ["Topic_A"] * 3 + ["Topic_B"] * 3


def test_c142_bytes_of_bflat_are_fields(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("b").replace(">json<", ">bflat<"), ()))
    lab.publish("b", bytes.fromhex("1a6964050973026869"))
    (record,) = lab.records("b", "/id = 5 AND /s = 'hi'")
    assert record.payload == bytes.fromhex("1a6964050973026869")
    assert json.loads(lab.open().find_message_type("bflat").view(record.payload)) == {"id": 5, "s": "hi"}
