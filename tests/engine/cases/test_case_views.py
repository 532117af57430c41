"""Views: cases C118-C124 of sowctl-behaviour(7), checked by a query of the view after each change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]


def view_xml(name: str, source: str, fields: list[str], grouping: str, *parts: str, type: str = "json") -> str:
    """Return a View element; ``source`` is the content of UnderlyingTopic."""
    shown = "".join(f"<Field>{field.replace('<', '&lt;')}</Field>" for field in fields)
    return (
        f"<View><Name>{name}</Name><MessageType>{type}</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>"
        f"<Projection>{shown}</Projection><Grouping><Field>{grouping}</Field></Grouping>{''.join(parts)}</View>"
    )


def shown(lab: Lab, name: str) -> list[dict[str, Any]]:
    """Return the rows of a view, sorted by their JSON text."""
    return sorted(map(json.loads, lab.query(name)), key=lambda row: json.dumps(row, sort_keys=True))


TOTALS = view_xml("totals", "orders", ["/client", "SUM(/qty) AS /total"], "/client")


def test_c118_an_update_that_changes_the_group_touches_two_groups(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("orders") + TOTALS, ("orders",)))
    lab.publish("orders", message(id=1, client="A", qty=10), message(id=2, client="A", qty=5))
    lab.publish("orders", message(id=3, client="B", qty=1))
    assert shown(lab, "totals") == [{"client": "A", "total": 15}, {"client": "B", "total": 1}]
    lab.publish("orders", message(id=1, client="B", qty=10))
    assert shown(lab, "totals") == [{"client": "A", "total": 5}, {"client": "B", "total": 11}]
    lab.publish("orders", message(id=2, client="B", qty=5))
    assert shown(lab, "totals") == [{"client": "B", "total": 16}]


def test_c119_a_record_that_leaves_the_filter_leaves_its_group(make_lab: MakeLab) -> None:
    view = view_xml(
        "done", "orders", ["/region", "COUNT(/id) AS /n"], "/region", "<Filter>/status = 'complete'</Filter>"
    )
    lab = make_lab(config_xml(topic_xml("orders") + view, ("orders",)))
    lab.publish("orders", *(message(id=n, region="EU", status="complete") for n in (1, 2)))
    assert shown(lab, "done") == [{"region": "EU", "n": 2}]
    lab.publish("orders", message(id=1, region="EU", status="open"))
    assert shown(lab, "done") == [{"region": "EU", "n": 1}]
    lab.publish("orders", message(id=2, region="EU", status="open"))
    assert shown(lab, "done") == []


def test_c120_a_field_of_no_group_after_a_delete_is_that_of_the_latest_update_left(make_lab: MakeLab) -> None:
    """The offline answer of decision 50: the result of a rebuild, not the one that a live server still shows."""
    view = view_xml("last", "orders", ["/client", "/note AS /note", "COUNT(/id) AS /n"], "/client")
    lab = make_lab(config_xml(topic_xml("orders") + view, ("orders",)))
    for number, note in ((1, "first"), (2, "second"), (3, "third")):
        lab.publish("orders", message(id=number, client="A", note=note))
    assert shown(lab, "last") == [{"client": "A", "note": "third", "n": 3}]
    lab.publish("orders", message(id=1, client="A", note="first again"))
    assert shown(lab, "last") == [{"client": "A", "note": "first again", "n": 3}]
    lab.open().topic("orders").delete(filter="/id = 1")
    assert shown(lab, "last") == [{"client": "A", "note": "third", "n": 2}]


def test_c121_a_join_keeps_what_has_no_partner_on_its_left_side_alone(make_lab: MakeLab) -> None:
    """The worked example of section 5.2, with its delete and insert on the right side."""
    view = view_xml("sums", "<Join>[A]./c=[B]./c</Join>", ["[A]./c", "[B]./n", "SUM([A]./p) AS /sum"], "[A]./c")
    lab = make_lab(config_xml(topic_xml("A") + topic_xml("B", key="/c") + view, ("A", "B")))
    lab.publish("A", message(id=1, c="X", p=10), message(id=2, c="X", p=5), message(id=3, c="Z", p=1))
    lab.publish("B", message(c="X", n="Acme"))
    assert shown(lab, "sums") == [{"c": "X", "n": "Acme", "sum": 15}, {"c": "Z", "n": None, "sum": 1}]
    lab.open().topic("B").delete(filter="/c = 'X'")
    lab.publish("B", message(c="Q", n="Quux"))
    assert shown(lab, "sums") == [{"c": "X", "n": None, "sum": 15}, {"c": "Z", "n": None, "sum": 1}]


def test_c122_join_values_are_compared_as_texts(make_lab: MakeLab) -> None:
    view = view_xml("named", "<Join>[A]./c=[B]./c</Join>", ["[A]./id", "[B]./n"], "[A]./id")
    lab = make_lab(config_xml(topic_xml("A") + topic_xml("B", key="/c") + view, ("A", "B")))
    lab.publish("A", '{"id":1,"c":12345}', '{"id":2,"c":12345.00}', '{"id":3,"c":"12345"}')
    lab.publish("B", '{"c":"12345","n":"whole"}')
    assert shown(lab, "named") == [{"id": 1, "n": "whole"}, {"id": 2, "n": None}, {"id": 3, "n": "whole"}]


def test_c123_nulls_meet_only_where_the_view_says_so(make_lab: MakeLab) -> None:
    fields = ["[A]./id", "COUNT([B]./n) AS /n"]
    join = "<Join>[A]./c=[B]./c</Join>"
    enabled = "<JoinNullEquivalency>enabled</JoinNullEquivalency>"
    views = view_xml("apart", join, fields, "[A]./id") + view_xml("together", join, fields, "[A]./id", enabled)
    lab = make_lab(config_xml(topic_xml("A") + topic_xml("B") + views, ("A", "B")))
    lab.publish("A", '{"id":1}', '{"id":2,"c":""}', '{"id":3,"c":null}', '{"id":4,"c":"x"}')
    lab.publish("B", '{"id":1,"n":1}', '{"id":2,"n":1,"c":""}', '{"id":3,"n":1,"c":"x"}')
    assert [row["n"] for row in shown(lab, "apart")] == [0, 0, 0, 1]
    assert [row["n"] for row in shown(lab, "together")] == [2, 2, 2, 1]


def test_c124_a_destination_may_lie_within_others(make_lab: MakeLab) -> None:
    view = view_xml(
        "nested",
        "orders",
        ["/orderId", "/detail/product", "SUM(/detail/qty) AS /detail/qty"],
        "/orderId",
    )
    lab = make_lab(config_xml(topic_xml("orders") + view, ("orders",)))
    for number, quantity in ((1, 40.0), (2, 60.0)):
        lab.publish("orders", message(id=number, orderId=42, detail={"product": "AAPL", "qty": quantity}))
    assert shown(lab, "nested") == [{"detail": {"product": "AAPL", "qty": 100.0}, "orderId": 42}]
