"""The filter of a view over one topic: its fields may name the topic of the view, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sowctl.config.validate import validate_config
from sowctl.errors import UsageError
from sowctl.expressions.syntax.errors import ExpressionError
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]


def view(filter: str) -> str:
    return f"""
<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/client</Field><Field>SUM(/qty) AS /total</Field></Projection>
<Grouping><Field>/client</Field></Grouping><Filter>{filter}</Filter></View>"""


def made(make_lab: MakeLab, filter: str) -> Lab:
    lab = make_lab(config_xml(topic_xml("orders") + topic_xml("others") + view(filter), ("orders",)))
    lab.publish("orders", *(message(id=n, client=f"c{n % 2}", qty=n, note={"x y": n}) for n in range(6)))
    return lab


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ("[orders]./qty &gt; 3", {"c0": 4, "c1": 5}),
        ("[json].[orders]./qty &gt; 3", {"c0": 4, "c1": 5}),
        ("[json].[orders].[/note/x y] &lt; 2 OR [orders]./qty = /id AND /id = 5", {"c0": 0, "c1": 6}),
    ],
)
def test_a_field_may_name_the_topic(make_lab: MakeLab, filter: str, wanted: dict[str, int]) -> None:
    lab = made(make_lab, filter)
    assert not validate_config(lab.config, environment={})
    for _ in range(2):
        assert {row["client"]: row["total"] for row in map(json.loads, lab.query("totals"))} == wanted
        lab.publish("orders", message(id=9, client="c9", qty=0, note={"x y": 7}))


@pytest.mark.parametrize("qualifier", ["[others]", "[fix].[orders]", "[json].[others]"])
def test_no_other_topic(make_lab: MakeLab, qualifier: str) -> None:
    lab = made(make_lab, f"{qualifier}./qty &gt; 3")
    assert [finding.id for finding in validate_config(lab.config, environment={})] == ["R018"]
    with pytest.raises((ExpressionError, UsageError)) as error:
        lab.query("totals")
    assert error.value.code == "SOW-EXP-028"


def test_a_name_without_brackets_is_told_how_to_be_written(make_lab: MakeLab) -> None:
    with pytest.raises(ExpressionError) as error:
        made(make_lab, "orders./qty &gt; 3").query("totals")
    assert error.value.code == "SOW-EXP-006" and "[orders]./" in str(error.value.hint)
