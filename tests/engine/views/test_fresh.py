"""``fresh``: a view or conflated topic is computed from its topics, whatever its cache contains."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sowctl.errors import UsageError
from sowctl.store.env import Store
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
DERIVED = """
<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/client</Field><Field>SUM(/qty) AS /total</Field></Projection>
<Grouping><Field>/client</Field></Grouping></View>
<View><Name>over</Name><MessageType>json</MessageType><UnderlyingTopic>totals</UnderlyingTopic>
<Projection><Field>MAX(/total) AS /most</Field></Projection><Grouping><Field>/none</Field></Grouping></View>
<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Interval>1s</Interval></ConflatedTopic>
<ConflatedTopic><Name>loose</Name><MessageType>json</MessageType><UnderlyingTopic>unlogged</UnderlyingTopic>
<Interval>1s</Interval></ConflatedTopic>
"""
XML = config_xml(topic_xml("orders") + topic_xml("unlogged") + DERIVED, ("orders",))


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    made = make_lab(XML)
    made.publish("orders", message(id=1, client="a", qty=5), message(id=2, client="b", qty=7))
    made.publish("unlogged", message(id=1))
    made.clock.tick(5)
    return made


def spoil(lab: Lab, name: str) -> None:
    """Delete all messages from a cache without a trace: only a computation can notice."""
    (path,) = (lab.directory / "sow" / "orders.json.sow-views").glob(f"{name}.json.sow")
    with Store.open(path, write=True) as store, store.open_snapshot() as snapshot:
        keys = [key for some, _ in snapshot.scan_records() for key in some]
        store.write(lambda txn: txn.delete_records(keys))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("totals", [{"client": "a", "total": 5}, {"client": "b", "total": 7}]),
        ("over", [{"most": 7}]),
        ("slow", [{"id": 1, "client": "a", "qty": 5}, {"id": 2, "client": "b", "qty": 7}]),
    ],
)
def test_what_a_cache_holds_does_not_count(lab: Lab, name: str, wanted: list[dict[str, object]]) -> None:
    def rows(**options: object) -> list[dict[str, object]]:
        found = [json.loads(text) for text in lab.query(name, **options)]
        return sorted(found, key=lambda row: json.dumps(row))

    wanted = sorted(wanted, key=lambda row: json.dumps(row))
    assert rows() == wanted
    spoil(lab, name)
    assert rows() == []
    assert rows(fresh=True) == wanted
    # The cache was rebuilt, not only bypassed.
    assert rows() == wanted


def test_what_is_below_is_computed_too(lab: Lab) -> None:
    assert lab.query("over") == ['{"most":7}']
    spoil(lab, "totals")
    assert lab.query("over", fresh=True) == ['{"most":7}']
    assert len(lab.query("totals")) == 2


def test_only_what_can_be_computed_again(lab: Lab) -> None:
    for name in ("orders", "loose"):
        with pytest.raises(UsageError, match=f"'{name}'") as error:
            lab.query(name, fresh=True)
        assert error.value.code == "SOW-QRY-019"
