"""Examples of the behaviour from the server's documentation, numbered as "seed example": 25-47.

28 and 38 are in test_publish and test_explain; 40 and 41 are cases C35 and C34, 31 is C75; 32 belongs to subscriptions.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sowctl.engine.api import InstanceHandle
from sowctl.errors import InputError, MissingError, UsageError
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
MINUTE, HOUR, DAY = 60, 3600, 86400
MARKS = "/sample/bookmarkStore"


@pytest.fixture
def marks(make_lab: MakeLab) -> Lab:
    """The topic of the bookmark store, configured with the element names of that time."""
    topic = (
        f"<TopicDefinition><Topic>{MARKS}</Topic><FileName>./data/sow/bookmark.sow</FileName>"
        "<MessageType>json</MessageType><Key>/clientName</Key><Key>/subId</Key></TopicDefinition>"
    )
    return make_lab(config_xml(topic, (MARKS,)))


def _mark(client: str, sub: str, number: int) -> str:
    return message(clientName=client, subId=sub, bookmark=f"13948331409633568391|{number}|")


def test_seed_example_25_the_bookmark_message(marks: Lab) -> None:
    text = '{"clientName":"trackedClient",\n "subId":"1",\n "bookmark":"13948331409633568391|1465596069899000013|"}'
    marks.publish(MARKS, text)
    assert marks.query(MARKS) == [text]
    assert (marks.directory / "data" / "sow" / "bookmark.sow").exists()


def test_seed_example_26_the_filter_of_one_client(marks: Lab) -> None:
    rows = [_mark(client, sub, 7) for client in ("trackedClient", "other") for sub in ("1", "2")]
    marks.publish(MARKS, *rows)
    assert sorted(marks.query(MARKS, "/clientName = 'trackedClient'")) == rows[:2]


def test_seed_example_27_the_flow_of_the_store_class(marks: Lab) -> None:
    """Discarded bookmarks are published; a query returns the most recent one, or else "0", the log's beginning."""

    def recent(sub: str) -> str:
        rows = marks.query(MARKS, "/clientName = 'c'")
        return {row["subId"]: row["bookmark"] for row in map(json.loads, rows)}.get(sub, "0")

    assert marks.publish(MARKS, _mark("x", "1", 1)).inserted == 1
    assert recent("1") == "0"
    for number in range(1, 6):
        marks.publish(MARKS, _mark("c", "1" if number % 2 else "2", number))
    assert (recent("1"), recent("2"), recent("3")) == ("13948331409633568391|5|", "13948331409633568391|4|", "0")
    marks.open().topic(MARKS).delete(filter="/clientName = 'c' AND /subId = '1'")
    assert (recent("1"), recent("2")) == ("0", "13948331409633568391|4|")


@pytest.mark.parametrize("transient", [True, False])
def test_seed_example_29_recovery_begins_24_hours_ago(make_lab: MakeLab, transient: bool) -> None:
    """An environment variable holds the timestamp."""
    parts = ["<RecoveryPoint>${YESTERDAY}</RecoveryPoint>"]
    if transient:
        parts.append("<Durability>transient</Durability>")
    xml = config_xml(topic_xml("t", *parts, file=None if transient else "sow/%n.sow"), ("t",))
    lab = make_lab(xml.replace("${YESTERDAY}", "epoch"))
    for hour in (0, 10, 23, 24, 30, 47):
        lab.clock.at = START + hour * HOUR * SECOND
        lab.publish("t", message(id=hour))
    lab.clock.at = START + 48 * HOUR * SECOND
    if not transient:
        lab.forget("t")
    lab.config.write_text(xml)
    environment = {"YESTERDAY": "2026-01-06T08:00:00Z"}
    instance = InstanceHandle.open(lab.config, environment=environment, clock=lab.clock)
    found = [json.loads(record.payload)["id"] for record in instance.topic("t").query(order_by="/id").records()]
    assert found == [24, 30, 47]
    lab.config.write_text(lab.xml)


def test_seed_example_30_descending_dates_and_ascending_names(lab: Lab) -> None:
    orders = [("2026-01-03", "b"), ("2026-01-05", "c"), ("2026-01-03", "a"), ("2026-01-04", "z"), ("2026-01-05", "b")]
    lab.publish("t", *(message(id=n, orderDate=day, customerName=who) for n, (day, who) in enumerate(orders)))
    rows = map(json.loads, lab.query("t", order_by="/orderDate DESC, /customerName ASC"))
    assert [row["id"] for row in rows] == [4, 1, 3, 2, 0]


def test_seed_example_33_a_page_and_what_a_publish_makes_of_it(lab: Lab) -> None:
    lab.publish("t", *(message(id=n) for n in (1, 2, 5, 7)))
    page = {"order_by": "/id", "top_n": 2, "skip_n": 1}
    assert lab.query("t", **page) == [message(id=2), message(id=5)]
    lab.publish("t", message(id=4))
    assert lab.query("t", **page) == [message(id=2), message(id=4)]


def test_seed_example_34_one_message_per_description(make_lab: MakeLab) -> None:
    history = "<History><Window>1d</Window><Granularity>0s</Granularity></History>"
    lab = make_lab(config_xml(topic_xml("t", history), ("t",)))
    lab.publish("t", *(message(id=n, description="ab"[n % 2], qty=n) for n in range(5)))
    lab.clock.tick(60)
    lab.publish("t", message(id=0, description="c", qty=9))

    def groups(**options: object) -> list[tuple[str, int]]:
        projection = "/description AS /description, SUM(/qty) AS /sum"
        rows = lab.query("t", projection=projection, grouping="/description", **options)
        return sorted((row["description"], row["sum"]) for row in map(json.loads, rows))

    assert groups() == [("a", 6), ("b", 4), ("c", 9)]
    assert groups(at=START) == [("a", 6), ("b", 4)], "with a bookmark: the historical state"
    with pytest.raises(UsageError):
        lab.query("t", grouping="/description")
    with pytest.raises(UsageError):
        lab.query("t", projection="SUM(/qty) AS /sum")


def test_seed_example_35_the_largest_batch(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    assert len(lab.query("t", batch_size=10_000)) == 1
    with pytest.raises(UsageError) as caught:
        lab.query("t", batch_size=10_001)
    assert caught.value.exit_status == 2


def test_seed_example_36_a_query_needs_a_sow(make_lab: MakeLab) -> None:
    """A subscription would be allowed."""
    lab = make_lab(config_xml(topic_xml("t"), ("t", "logged")))
    for name in ("logged", "unknown"):
        with pytest.raises(MissingError) as caught:
            lab.query(name)
        assert caught.value.exit_status == 10


@pytest.mark.parametrize(
    ("number", "names", "path"),
    [(37, ("ShippingStatus", "OpenOrders"), "/orderId"), (44, ("ShippingAddress", "CreditRating"), "/customerID")],
)
def test_seed_examples_37_and_44_one_key_domain(
    make_lab: MakeLab, number: int, names: tuple[str, str], path: str
) -> None:
    keys = []
    for domain in ("", f"<KeyDomain>shared{number}</KeyDomain>"):
        lab = make_lab(
            config_xml("".join(topic_xml(name, domain, key=path) for name in names), names), f"lab{domain[:3]}"
        )
        for name in names:
            lab.publish(name, message(**{path[1:]: 8, "n": name}))
        keys.append([next(iter(lab.records(name))).sow_key for name in names])
    own, shared = keys
    assert own[0] != own[1]
    assert shared[0] == shared[1]


def test_seed_example_39_the_filter_for_every_message(lab: Lab) -> None:
    lab.publish("t", *(message(id=n) for n in range(4)))
    assert len(lab.query("t", "1=1")) == 4
    assert lab.open().topic("t").delete(filter="1=1").deleted == 4
    assert lab.query("t") == []


def test_seed_example_42_quotes_for_ten_minutes(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("quotes", "<Expiration>10m</Expiration>", key="/symbol"), ("quotes",)))
    lab.publish("quotes", message(symbol="IBM", bid=1))
    lab.clock.tick(9 * MINUTE)
    lab.publish("quotes", message(symbol="SAP", bid=2))
    lab.clock.tick(MINUTE - 0.000001)
    assert len(lab.query("quotes")) == 2
    lab.clock.tick(0.000001)
    assert lab.query("quotes") == [message(symbol="SAP", bid=2)]
    lab.clock.tick(9 * MINUTE)
    assert lab.query("quotes") == []


def test_seed_example_43_two_topics_of_one_name(make_lab: MakeLab) -> None:
    flat = topic_xml("Orders").replace("json", "nvfix")
    lab = make_lab(config_xml(topic_xml("Orders") + flat, ("Orders",)))
    with pytest.raises(UsageError, match="several message types"):
        lab.query("Orders")
    instance = lab.open()
    instance.topic("Orders", "json").publish([b'{"id":1}', b'{"id":2}'])
    instance.topic("Orders", "nvfix").publish([b"id=1\x01x=5\x01"])
    assert [r.payload for r in lab.open().topic("Orders", "nvfix").query("/x = 5").records()] == [b"id=1\x01x=5\x01"]
    assert lab.open().topic("Orders", "json").query().count() == 2
    assert {path.name for path in (lab.directory / "sow").glob("*.sow")} == {"Orders.json.sow", "Orders.nvfix.sow"}


def test_seed_example_45_messages_of_2_mb(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t", "<SlabSize>8MB</SlabSize>"), ("t",)))
    text = message(id=1, x="y" * (2 << 20))
    lab.publish("t", text, message(id=2))
    assert lab.query("t", "/id = 1") == [text]
    with pytest.raises(InputError):
        lab.publish("t", message(id=3, x="y" * (8 << 20)))


def test_seed_example_46_a_hint_of_half_a_billion_keys(make_lab: MakeLab) -> None:
    """The hint reserves no space: the file is as small as any other."""
    lab = make_lab(config_xml(topic_xml("t", f"<ExpectedKeyCountHint>{2**29}</ExpectedKeyCountHint>"), ("t",)))
    assert lab.open().topic("t").config.expected_key_count_hint == 2**29
    lab.publish("t", message(id=1))
    assert lab.query("t") == [message(id=1)]
    assert lab.store("t").stat().st_size < 1 << 20


def test_seed_example_47_a_week_by_minutes(make_lab: MakeLab) -> None:
    history = "<History><Window>1w</Window><Granularity>1m</Granularity></History>"
    lab = make_lab(config_xml(topic_xml("t", history), ("t",)))
    config = lab.open().topic("t").config
    assert config.history is not None
    assert (config.history.window_us, config.history.granularity_us) == (7 * DAY * SECOND, MINUTE * SECOND)
    for second, value in ((0, "a"), (30, "b"), (60, "c"), (2 * DAY, "d"), (8 * DAY, "e")):
        lab.clock.at = START + second * SECOND
        lab.publish("t", message(id=1, v=value))
    lab.clock.tick(10)

    def value(second: float) -> str:
        rows = lab.query("t", at=START + round(second * SECOND))
        return "".join(json.loads(row)["v"] for row in rows)

    assert [value(second) for second in (1.0e5, 2 * DAY - 1, 2 * DAY, 8 * DAY - 1, 8 * DAY)] == [
        "c",
        "c",
        "d",
        "d",
        "e",
    ]
    assert value(DAY) == "", "outside the window"
    assert [record.timestamp - START for record in lab.open().topic("t").versions("1", fields=True)] == [
        second * SECOND for second in (60, 2 * DAY, 8 * DAY)
    ]
