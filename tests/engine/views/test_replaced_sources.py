"""A damaged store that was replaced: what was derived from it is made anew, though the new store has its digest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.views.instant import find_entry
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.view import plan_refresh
from sowctl.values.topicref import TopicRef
from tests.support.damage import lose_write
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
DERIVED = """
<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/client</Field><Field>SUM(/qty) AS /total</Field></Projection>
<Grouping><Field>/client</Field></Grouping></View>
<View><Name>over</Name><MessageType>json</MessageType><UnderlyingTopic>totals</UnderlyingTopic>
<Projection><Field>MAX(/total) AS /most</Field></Projection><Grouping><Field>/none</Field></Grouping></View>
<View><Name>joined</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[clients]./id = [orders]./client</Join></UnderlyingTopic>
<Projection><Field>[clients]./id AS /id</Field><Field>SUM([orders]./qty) AS /total</Field></Projection>
<Grouping><Field>[clients]./id</Field></Grouping></View>
<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>totals</UnderlyingTopic>
<Interval>1s</Interval></ConflatedTopic>
"""
TOPICS = topic_xml("orders") + topic_xml("clients")


@pytest.fixture(params=["columns", "messages"])
def lab(request: pytest.FixtureRequest, make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """An instance whose store of orders is damaged: a write of it is lost, so that order 1 is as it was first."""
    monkeypatch.setattr(VIEW_LIMITS, "min_column_records", 0 if request.param == "columns" else 1 << 60)
    made = make_lab(config_xml(TOPICS + DERIVED, ("orders", "clients")))
    made.publish("clients", message(id="a"))
    made.publish("orders", message(id=1, client="a", qty=5), message(id=2, client="a", qty=1))
    shutil.copy(made.store("orders"), made.directory / "before")
    made.publish("orders", message(id=1, client="a", qty=7))
    made.clock.tick(5)
    lose_write(made.store("orders"), made.directory / "before")
    return made


def rows(lab: Lab, topic: str, filter: str | None = None, **options: object) -> list[dict[str, object]]:
    return [json.loads(text) for text in lab.query(topic, filter, **options)]


def rebuild(lab: Lab) -> None:
    assert lab.open().topic("orders").replay(rebuild=True).action == "rebuilt"


def repair(lab: Lab) -> None:
    assert lab.open().topic("orders").repair().report.action == "repaired"


@pytest.mark.parametrize("replace", [rebuild, repair])
@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("totals", {"client": "a", "total": 6}, {"client": "a", "total": 8}),
        ("over", {"most": 6}, {"most": 8}),
        ("joined", {"id": "a", "total": 6}, {"id": "a", "total": 8}),
    ],
)
def test_a_view_of_a_replaced_store(
    lab: Lab, replace: Callable[[Lab], None], name: str, wrong: dict[str, object], right: dict[str, object]
) -> None:
    assert rows(lab, name) == [wrong]
    digest = lab.open().topic("orders").info().digest
    # The clock stands: the new store is told from the old one all the same.
    replace(lab)
    assert lab.open().topic("orders").info().digest == digest
    assert rows(lab, name) == [right]


def test_a_view_of_a_replaced_cache(lab: Lab) -> None:
    assert rows(lab, "over") == [{"most": 6}]
    rebuild(lab)
    assert rows(lab, "totals") == [{"client": "a", "total": 8}]
    assert rows(lab, "over") == [{"most": 8}]


def test_a_conflated_topic_over_a_view(lab: Lab) -> None:
    rebuild(lab)
    assert rows(lab, "slow") == [{"client": "a", "total": 8}]


@pytest.mark.parametrize("replace", [rebuild, repair])
def test_an_index_of_a_replaced_store(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, replace: Callable[[Lab], None]
) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_max_share", 1.0)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_requests", 1)
    assert rows(lab, "orders", "/qty = 7", index_from=0) == []
    replace(lab)
    assert rows(lab, "orders", "/qty = 7", index_from=0) == [{"id": 1, "client": "a", "qty": 7}]


def test_a_compacted_store_is_the_same_store(lab: Lab) -> None:
    rebuild(lab)
    lab.publish("orders", *(message(id=number, client="b", qty=1) for number in range(10, 900)))
    lab.open().topic("orders").delete(filter="/client = 'b'")
    assert rows(lab, "totals") == [{"client": "a", "total": 8}]
    assert lab.open().topic("orders").compact().action == "compacted"
    assert plan_refresh(lab.open(), find_entry(lab.open(), TopicRef("totals", "json"))).way == "use"
