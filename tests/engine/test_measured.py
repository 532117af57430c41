"""Behaviour measured on a server: the rows M01 and so on of sowctl-behaviour(7), MEASURED ON A SERVER."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sowctl.config.validate import validate_config
from sowctl.engine.topics.positions import open_log
from sowctl.errors import SowError
from sowctl.identity.hashes import hash_client_name
from sowctl.messages.types import get_type
from tests.support.chains import MODULES
from tests.support.following import following, news, told
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
PAGE = Path(__file__).parents[2] / "man" / "sowctl-behaviour.7"
CHAIN = (
    "<KeyGenerator><Module>chain</Module><Options><Key>/11</Key><Key>/41</Key><FileName>sow/o.chain</FileName>"
    "</Options></KeyGenerator>"
)
ORDER = "[fix].[o]./"
"""Prefix of a field of the order topic in a view of another type."""


def view_xml(
    name: str, kind: str, source: str, fields: tuple[str, ...], grouping: tuple[str, ...], more: str = ""
) -> str:
    projection = "".join(f"<Field>{one}</Field>" for one in fields)
    groups = "".join(f"<Field>{one}</Field>" for one in grouping)
    return (
        f"<View><Name>{name}</Name><MessageType>{kind}</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>{more}"
        f"<Projection>{projection}</Projection><Grouping>{groups}</Grouping></View>"
    )


def exposure(name: str, condition: str) -> str:
    """Return a view of quantities by account, symbol and side of the matching orders."""
    fields = (
        f"{ORDER}1 AS /Account",
        f"{ORDER}55 AS /Symbol",
        f"{ORDER}54 AS /Side",
        f"COUNT({ORDER}11) AS /Orders",
        f"SUM({ORDER}151) AS /LeavesQty",
        f"SUM({ORDER}14) AS /CumQty",
        f"SUM({ORDER}14 * {ORDER}6) / SUM({ORDER}14) AS /AvgPx",
    )
    return view_xml(
        name, "json", "[fix].[o]", fields, (f"{ORDER}1", f"{ORDER}55", f"{ORDER}54"), f"<Filter>{condition}</Filter>"
    )


SIDES = ("Account", "Symbol", "Side")
RECONCILED = view_xml(
    "recon",
    "json",
    "".join(f"<Join>[parent]./{one} = [child]./{one}</Join>" for one in SIDES),
    (
        *(f"[parent]./{one} AS /{one}" for one in SIDES),
        "[parent]./CumQty AS /ParentCumQty",
        "[child]./CumQty AS /ChildCumQty",
        "[parent]./CumQty - [child]./CumQty AS /CumQtyDelta",
        "[parent]./LeavesQty - [child]./LeavesQty AS /LeavesQtyDelta",
    ),
    tuple(f"[parent]./{one}" for one in SIDES),
)
SUMS = view_xml("sums", "fix", "o", ("/55", "SUM(/14 * /6) AS /6", "SUM(/14) AS /14"), ("/55",))
MEANS = view_xml("means", "fix", "sums", ("/55", "SUM(/6) / SUM(/14) AS /7"), ("/55",))
VIEWS = exposure("parent", "/9000 IS NULL") + exposure("child", "/9000 IS NOT NULL") + RECONCILED + SUMS + MEANS


def orders_xml(key: str = CHAIN, views: str = VIEWS) -> str:
    topics_xml = (
        f"<Topic><Name>o</Name><MessageType>fix</MessageType>{key}<FileName>sow/%n.sow</FileName></Topic>{views}"
    )
    logged = "<Topic><Name>o</Name><MessageType>fix</MessageType></Topic>"
    log = f"<TransactionLog><JournalDirectory>journal</JournalDirectory>{logged}</TransactionLog>"
    return f"<AMPSConfig><Name>i</Name>{MODULES if key == CHAIN else ''}<SOW>{topics_xml}</SOW>{log}</AMPSConfig>"


@pytest.fixture
def orders(make_lab: MakeLab) -> Lab:
    """Orders of type fix, keyed by chains of 11 and 41, with views over them."""
    return make_lab(orders_xml())


def send(lab: Lab, *messages: str, topic: str = "o", delta: bool = True, **options: object) -> None:
    lab.publish(topic, *[one.replace("|", "\x01") for one in messages], delta=delta, **options)


def fields(lab: Lab, topic: str = "o", filter: str | None = None) -> list[dict[str, Any]]:
    """Return the records as JSON, ordered by their text."""
    kind = get_type("fix" if topic in ("o", "sums", "means") else "json")
    found = [json.loads(kind.view(record.payload)) for record in lab.records(topic, filter)]
    return sorted(found, key=json.dumps)


NEW = "35=D|11=C1|1=ACC|55=NVDA|54=1|38=4000|44=121.80|14=0|151=4000|6=0|39=0"


# Keys --------------------------------------------------------------------------------------------------------------


def test_m01_a_chain_is_one_record(orders: Lab) -> None:
    send(orders, NEW, "35=G|11=C2|41=C1|38=5000", "35=F|11=C3|41=C2", "35=D|11=X1|55=IBM")
    assert [(one["11"], one["55"]) for one in fields(orders)] == [("X1", "IBM"), ("C3", "NVDA")]


def test_m02_every_message_of_a_chain_has_the_key_of_the_first(orders: Lab) -> None:
    with following(orders, "o", until_now=False) as plain, following(orders, "o", delta=True, until_now=False) as delta:
        news(plain), news(delta)
        send(orders, NEW)
        send(orders, "35=G|11=C2|41=C1|38=5000")
        send(orders, "35=F|11=C3|41=C2")
        keys = {event.sow_key for stream in (plain, delta) for event in news(stream)}
    (record,) = orders.records("o")
    assert keys == {str(record.sow_key)}
    assert len(orders.query("o", sow_keys=[str(record.sow_key)])) == 1


def test_m03_the_key_of_a_chain_is_the_same_everywhere(make_lab: MakeLab) -> None:
    keys = set()
    for name, before in (("one", ()), ("other", ("35=D|11=X1|55=IBM",))):
        lab = make_lab(orders_xml(), name)
        send(lab, *before, NEW, "35=G|11=C2|41=C1|38=5000")
        keys |= {record.sow_key for record in lab.records("o", "/55 = 'NVDA'")}
    assert len(keys) == 1


def test_m04_keys_have_64_bits_without_a_sign(orders: Lab) -> None:
    send(orders, *[f"35=D|11=K{number}|55=IBM" for number in range(40)])
    keys = [int(record.sow_key) for record in orders.records("o")]
    assert max(keys) >= 1 << 63
    assert max(keys) < 1 << 64


def test_m05_an_older_member_of_a_chain_is_its_record(orders: Lab) -> None:
    send(orders, NEW, "35=G|11=C2|41=C1|38=6000|44=122.10", NEW)
    (one,) = fields(orders)
    # Fields that the older message lacks stay, including the reference to itself.
    assert (one["35"], one["11"], one["41"], one["38"]) == ("D", "C1", "C1", 4000)


def test_m06_without_its_link_a_message_begins_a_chain_of_its_own(orders: Lab) -> None:
    send(orders, NEW, "35=8|11=C2|39=5|14=0")
    assert len(fields(orders)) == 2


def test_m07_keys_of_tags_and_names(make_lab: MakeLab) -> None:
    lab = make_lab(orders_xml("<Key>/37</Key>", ""))
    send(lab, "37=A|14=1", "37=A|14=2", "37=B|14=3", delta=False)
    assert fields(lab) == [{"37": "A", "14": 2}, {"37": "B", "14": 3}]


def test_m08_a_message_without_its_key_field_is_not_stored(make_lab: MakeLab) -> None:
    lab = make_lab(orders_xml("<Key>/37</Key>", ""))
    with pytest.raises(SowError) as caught:
        send(lab, "35=D|11=C1", delta=False)
    assert caught.value.code.startswith("SOW-")
    assert fields(lab) == []


def test_m09_an_expression_in_a_name_is_only_a_name(make_lab: MakeLab) -> None:
    pattern = topic_xml("desk", "<Pattern>^desk\\.[a-z]+$</Pattern>", file="sow/%n.sow")
    lab = make_lab(config_xml(topic_xml("^shop\\.[a-z]+$") + pattern, ()))
    for topic in ("desk.a", "desk.b"):
        lab.publish(topic, message(id=1))
    with pytest.raises(SowError):
        lab.publish("shop.a", message(id=1))
    # The logical topics of a Pattern share one file.
    assert [path.name for path in sorted((lab.directory / "sow").glob("*.sow"))] == ["desk.json.sow"]
    assert (len(lab.query("desk")), len(lab.query("desk.a"))) == (2, 1)


# Views -------------------------------------------------------------------------------------------------------------


def test_m10_a_grouping_value_is_told_apart_from_others(orders: Lab) -> None:
    send(orders, NEW, "35=D|11=X1|1=00123|55=IBM|54=1|14=0")
    # A server writes "1" here. Both are the text 1; see sowctl-messages(7).
    assert [(one["Account"], one["Side"]) for one in fields(orders, "parent")] == [("00123", 1), ("ACC", 1)]


def test_m11_counts_and_sums(orders: Lab) -> None:
    send(orders, NEW, "35=D|11=X1|1=ACC|55=NVDA|54=1|14=9000")
    (text,) = orders.query("parent")
    # A server has the double 9000.0; the Integer is the same number.
    assert '"Orders":2' in text
    assert '"CumQty":9000,' in text


def test_m12_nothing_by_nothing(orders: Lab) -> None:
    send(orders, NEW)
    assert fields(orders, "parent")[0]["AvgPx"] is None
    assert fields(orders, "means") == [{"55": "NVDA", "7": 0}]


def test_m13_the_mean_price_of_slices(orders: Lab) -> None:
    slices = ("9000", "7000", "242.10", "242.085")
    send(orders, f"35=D|11=S1|9000=P|1=A|55=TSLA|54=1|14={slices[0]}|6={slices[2]}|151=0")
    send(orders, f"35=D|11=S2|9000=P|1=A|55=TSLA|54=1|14={slices[1]}|6={slices[3]}|151=0")
    (one,) = fields(orders, "child")
    assert (one["Orders"], one["CumQty"]) == (2, 16000)
    assert one["AvgPx"] == pytest.approx(242.0934375)
    assert fields(orders, "parent") == []


def test_m14_an_aggregate_within_if_follows_its_records(make_lab: MakeLab) -> None:
    price = f"IF(SUM({ORDER}14) &gt; 0, SUM({ORDER}14 * {ORDER}6) / SUM({ORDER}14), 0) AS /px"
    lab = make_lab(orders_xml(views=view_xml("v", "json", "[fix].[o]", (price,), (f"{ORDER}55",))))
    send(lab, NEW)
    for quantity, mean in (("1000", "121.75"), ("2000", "121.80"), ("4000", "121.90")):
        lab.query("v")
        send(lab, f"11=C1|14={quantity}|6={mean}")
    assert fields(lab, "v") == [{"px": 121.9}]


def test_m15_a_filter_of_a_view_of_another_type_needs_no_qualifier(orders: Lab) -> None:
    send(orders, NEW, "35=D|11=S1|9000=P|1=A|55=TSLA|54=1|14=1|6=1")
    assert [one["Symbol"] for one in fields(orders, "parent")] == ["NVDA"]
    assert [one["Symbol"] for one in fields(orders, "child")] == ["TSLA"]


def test_m16_a_division_of_a_view_over_a_view(orders: Lab) -> None:
    send(orders, "35=D|11=C1|55=MSFT|14=1500|6=410.2")
    # A server writes the sum as 615300, and the next view divides Integers: 410. Here a Double keeps its decimal point.
    assert orders.query("sums") == ["55=MSFT\x016=615300.0\x0114=1500\x01"]
    assert fields(orders, "means") == [{"55": "MSFT", "7": 410.2}]


def test_m17_a_view_is_not_journalled_and_not_published_to(orders: Lab) -> None:
    send(orders, NEW)
    orders.query("parent")
    with open_log(orders.open()) as log:
        assert {topic for topic, _ in log.read_topic_states()} == {"o"}
    with pytest.raises(SowError):
        orders.publish("parent", message(Account="x"))


def test_m18_a_join_of_views_follows_its_topic(orders: Lab) -> None:
    send(orders, NEW, "35=D|11=T1|1=A|55=TSLA|54=1|14=16000|151=0|6=242.0931")
    send(orders, "35=D|11=S1|9000=T1|1=A|55=TSLA|54=1|14=12000|151=0|6=242.1")
    send(orders, "35=D|11=S2|9000=T1|1=A|55=TSLA|54=1|14=4000|151=4000|6=242.1")
    broken = "/ChildCumQty IS NOT NULL AND /CumQtyDelta != 0"
    alone, sliced = sorted(fields(orders, "recon"), key=lambda one: str(one["Symbol"]))
    assert (alone["Symbol"], alone["ChildCumQty"], alone["CumQtyDelta"]) == ("NVDA", None, None)
    assert (sliced["ParentCumQty"], sliced["ChildCumQty"], sliced["CumQtyDelta"]) == (16000, 16000, 0)
    assert fields(orders, "recon", broken) == []
    send(orders, "35=8|11=S2|14=5000|151=3000")
    (row,) = fields(orders, "recon", broken)
    assert (row["ChildCumQty"], row["CumQtyDelta"], row["LeavesQtyDelta"]) == (17000, -1000, -3000)


@pytest.mark.parametrize(
    ("xml", "rule"),
    [
        (orders_xml().replace("<UnderlyingTopic><Join>", "<Filter>/a = 1</Filter><UnderlyingTopic><Join>"), "F006"),
        (orders_xml(views=RECONCILED + exposure("parent", "1=1") + exposure("child", "1=1")), "R005"),
    ],
)
def test_m19_what_a_view_of_several_topics_may_not_have(tmp_path: Path, xml: str, rule: str) -> None:
    (tmp_path / "sowctl.xml").write_text(xml)
    assert rule in {finding.id for finding in validate_config(tmp_path / "sowctl.xml", environment={})}


# Deltas ------------------------------------------------------------------------------------------------------------


def test_m20_fields_that_a_delta_does_not_have_stay(orders: Lab) -> None:
    send(orders, NEW, "35=G|11=C2|41=C1|60=t|38=6000|44=122.10|59=0")
    (one,) = fields(orders)
    assert (one["1"], one["55"], one["54"], one["38"], one["44"]) == ("ACC", "NVDA", 1, 6000, "122.10")


def test_m21_a_merge_asks_for_no_condition(orders: Lab) -> None:
    send(orders, NEW, "35=G|11=C2|41=C1|38=6000", "35=9|11=C2|41=C1|434=2", "35=8|11=C2|14=10", "35=8|11=C2|14=5")
    (one,) = fields(orders)
    # The proposal of a rejected request stays, and an older report overwrites a newer one.
    assert (one["38"], one["14"]) == (6000, 5)


def test_m22_a_merge_removes_no_field(orders: Lab) -> None:
    send(orders, NEW, "35=G|11=C2|41=C1|9013=REPLACE|9010=6000", "35=9|11=C2|9013=NONE|9010=0")
    (one,) = fields(orders)
    assert (one["9013"], one["9010"], one["41"]) == ("NONE", 0, "C1")


def test_m23_totals_that_are_restated_reach_the_views(orders: Lab) -> None:
    send(orders, NEW, "35=8|11=C1|14=3000|151=3000|6=209.98|39=1")
    send(orders, "35=8|11=C1|14=1000|151=5000|6=210.05|39=1")
    assert [(one["CumQty"], one["LeavesQty"], one["AvgPx"]) for one in fields(orders, "parent")] == [
        (1000, 5000, 210.05)
    ]
    send(orders, "35=8|11=C1|39=C|151=0")
    assert fields(orders, "parent")[0]["LeavesQty"] == 0


def test_m24_objects_are_merged_and_arrays_replaced(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1, quote={"bid": 1, "ask": 2}, book=[1, 2]))
    lab.publish("t", message(id=1, quote={"bid": 3}, book=[4]), delta=True)
    assert lab.query("t") == ['{"id":1,"quote":{"bid":3,"ask":2},"book":[4]}']


def test_m25_a_subscriber_gets_deltas_of_whole_messages(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1, name="x" * 50, bid=1))
    with following(lab, "t", delta=True, until_now=False) as subscription:
        assert [event.command for event in news(subscription)] == ["group_begin", "sow", "group_end"]
        lab.publish("t", message(id=1, name="x" * 50, bid=2))
        assert told(news(subscription), "data") == [({"id": 1, "bid": 2},)]


def test_m26_the_journal_holds_merged_messages(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1, name="x", bid=1))
    lab.publish("t", message(id=1, bid=2), delta=True)
    with open_log(lab.open()) as log:
        last = [entry.payload for block in log.iter_blocks() for entry in block.iter_entries()][-1]
    # Deltas are said to make a server's journals ten times smaller; sizes on disk did not settle it.
    assert last == b'{"id":1,"name":"x","bid":2}'


# Bookmarks, sequence numbers ---------------------------------------------------------------------------------------


def replayed(lab: Lab, bookmark: str, topic: str = "t") -> list[int]:
    with following(lab, topic, sow=False, bookmark=bookmark) as subscription:
        return [one for (one,) in told(news(subscription), "id") if one is not None]


def test_m27_a_topic_without_a_journal_has_no_past(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("alone"), ("t",)))
    lab.publish("alone", message(id=1))
    # A server replays nothing; sowctl reports an error.
    with pytest.raises(SowError) as caught:
        replayed(lab, "0", "alone")
    assert caught.value.code == "SOW-FOL-021"


def test_m28_a_subscription_goes_on_behind_what_it_has_processed(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    store = str(lab.directory / "a.bookmarks")
    lab.publish("t", *[message(id=number) for number in range(276)])
    for new in (276, 5):
        instance, count = lab.open(), 0
        with (
            instance.place(store, "c", "1") as place,
            instance.subscribe("t", sow=False, until_now=True, bookmark=place.recent) as subscription,
        ):
            for event in place.events(subscription):
                count += event.command == "publish" and place.acknowledge(event)
        assert count == new
        lab.publish("t", *[message(id=number) for number in range(5)])


def test_m29_a_new_subscriber_gets_everything_in_the_order_of_the_log(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *[message(id=number) for number in range(1000)])
    lab.publish("t", message(id=3))
    assert replayed(lab, "0") == [*range(1000), 3]


def test_m30_a_message_has_the_bookmark_of_its_publisher_everywhere(make_lab: MakeLab) -> None:
    bookmarks = set()
    for name, before in (("one", 0), ("other", 7)):
        lab = make_lab(config_xml(topic_xml("t"), ("t",), name), name)
        lab.publish("t", *[message(id=number) for number in range(before)])
        lab.publish("t", message(id=1), client="gateway", sequence=41)
        with following(lab, "t", sow=False, bookmark="0") as subscription:
            bookmarks.add([event.bookmark for event in news(subscription) if event.command == "publish"][-1])
    assert bookmarks == {f"{hash_client_name('gateway')}|41|"}


def test_m31_a_number_that_was_there_is_a_duplicate(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    for first in (1, 200, 150):
        lab.publish("t", *[message(id=number) for number in range(first, first + 100)], client="p", sequence=first)
    # A publisher that replays its store: 150 to 299 are duplicates.
    assert replayed(lab, "0") == [*range(1, 101), *range(200, 300)]


def test_m32_without_a_number_a_message_that_is_sent_again_is_there_twice(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1))
    lab.publish("t", message(id=1), client="p")
    lab.publish("t", message(id=1), client="p")
    assert replayed(lab, "0") == [1, 1, 1]


def test_m33_a_gap_is_filled_from_the_last_number_on(make_lab: MakeLab) -> None:
    lab = make_lab(orders_xml("<Key>/49</Key>", ""))
    send(lab, *[f"49=PUB|8888={number}" for number in range(1, 13)], delta=False)
    # The last message of the sender is its record, and gives the last sequence number.
    assert fields(lab, filter="/49 = 'PUB'") == [{"49": "PUB", "8888": 12}]
    send(lab, *[f"49=PUB|8888={number}" for number in range(13, 17)], delta=False)
    with open_log(lab.open()) as log:
        texts = [entry.payload for block in log.iter_blocks() for entry in block.iter_entries()]
    assert [int(text.rpartition(b"=")[2].rstrip(b"\x01")) for text in texts] == [*range(1, 17)]
    # A sender that repeats an older message resets the record; the journal has both.
    send(lab, "49=PUB|8888=3", delta=False)
    assert fields(lab) == [{"49": "PUB", "8888": 3}]


def test_m34_a_number_of_nanoseconds(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1), client="p", sequence=1_795_883_925_000_000_000)
    lab.publish("t", message(id=2), client="p")
    with following(lab, "t", sow=False, bookmark="0") as subscription:
        found = [event.bookmark for event in news(subscription) if event.command == "publish"]
    assert found[0] == f"{hash_client_name('p')}|1795883925000000000|"


# Removed records ---------------------------------------------------------------------------------------------------


def test_m35_what_expires_or_is_deleted_leaves(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t", "<Expiration>3s</Expiration>"), ("t",)))
    lab.publish("t", message(id=1, status="new"), message(id=2, status="new"), message(id=3, status="new"))
    with following(lab, "t", "/status = 'new'", oof=True, until_now=False) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, status="filled"))
        assert [(event.command, event.reason) for event in news(subscription)] == [("oof", "match")]
        lab.open().topic("t").delete(filter="/id = 2")
        assert [(event.command, event.reason) for event in news(subscription)] == [("oof", "deleted")]
        lab.clock.tick(4)
        assert [(event.command, event.reason) for event in news(subscription)] == [("oof", "expired")]
    assert lab.query("t") == []
    with open_log(lab.open()) as log:
        # A delete is an entry, too: the log has grown by it.
        assert sum(not entry.payload for block in log.iter_blocks() for entry in block.iter_entries()) >= 1


def test_every_row_of_the_page_has_its_test() -> None:
    rows = set(re.findall(r"^\.B (M\d\d)$", PAGE.read_text(), re.MULTILINE))
    tests = set(re.findall(r"^def test_(m\d\d)_", Path(__file__).read_text(), re.MULTILINE))
    assert rows == {test.upper() for test in tests}
