"""The views of the configuration reference's samples, over handwritten records, with their expected rows.

The first topic is made transient: it has no FileName, which a persistent topic needs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.instances import Lab

XML = """
<AMPSConfig><Name>samples</Name><SOW>
<Topic><Topic>/ett/order</Topic><MessageType>fix</MessageType><Key>/orderId</Key>
<Durability>transient</Durability></Topic>
<View>
    <MessageType>nvfix</MessageType>
    <Topic>TOTAL_VALUE</Topic>
    <UnderlyingTopic>/ett/order</UnderlyingTopic>
    <Projection><Field>/109</Field><Field>SUM(/14 * /6) AS /71406</Field></Projection>
    <Grouping><Field>/109</Field></Grouping>
</View>
<Topic><Name>orders</Name><MessageType>json</MessageType><Key>/orderId</Key><FileName>./sow/%n.sow</FileName></Topic>
<View>
    <Name>CompleteByRegion</Name>
    <UnderlyingTopic>orders</UnderlyingTopic>
    <MessageType>json</MessageType>
    <Projection>
        <Field>COUNT(/orderId) AS /completedOrders</Field>
        <Field>/region AS /region</Field>
    </Projection>
    <Grouping><Field>/region</Field></Grouping>
    <Filter>/status = 'complete'</Filter>
</View>
<Topic>
    <Name>source-for-hash-sample</Name><MessageType>json</MessageType><Key>/id</Key>
    <FileName>./sow/%n.sow</FileName>
</Topic>
<View>
    <Name>hash-sample-view</Name>
    <MessageType>json</MessageType>
    <UnderlyingTopic>source-for-hash-sample</UnderlyingTopic>
    <Projection>
        <Field>SUM(/qty) as /quantity</Field>
        <Field>/customerName</Field>
        <Field>/orderType</Field>
    </Projection>
    <Grouping><Field>/customerName</Field><Field>/orderType</Field></Grouping>
    <HashIndex><Key>/name</Key></HashIndex>
    <HashIndex><Key>/orderType</Key></HashIndex>
</View>
<Topic><Name>example</Name><MessageType>json</MessageType><Key>/id</Key><FileName>./sow/%n.sow</FileName></Topic>
<View>
    <Name>example</Name>
    <MessageType>nvfix</MessageType>
    <UnderlyingTopic>[json].[example]</UnderlyingTopic>
    <Projection><Field>[json].[example]./id AS /id</Field></Projection>
    <Grouping><Field>[json].[example]./id</Field></Grouping>
</View>
<Topic><Name>ORDERS</Name><MessageType>nvfix</MessageType><Key>/OrderID</Key><FileName>./sow/%n.sow</FileName></Topic>
<Topic>
    <Name>COMPANIES</Name><MessageType>nvfix</MessageType><Key>/CompanyId</Key><FileName>./sow/%n.sow</FileName>
</Topic>
<View>
    <Name>TOTAL_COMPANY_VOLUME</Name>
    <UnderlyingTopic><Join>[ORDERS]./Tick = [COMPANIES]./Tick</Join></UnderlyingTopic>
    <MessageType>nvfix</MessageType>
    <Projection>
        <Field>[COMPANIES]./CompanyId</Field>
        <Field>[COMPANIES]./Tick</Field>
        <Field>[COMPANIES]./Name</Field>
        <Field>SUM([ORDERS]./Shares) AS /TotalVolume</Field>
    </Projection>
    <Grouping><Field>[ORDERS]./Tick</Field></Grouping>
</View>
</SOW>
<TransactionLog><JournalDirectory>journal</JournalDirectory>
<Topic><Name>.*</Name><MessageType>fix</MessageType></Topic>
<Topic><Name>.*</Name><MessageType>json</MessageType></Topic>
<Topic><Name>.*</Name><MessageType>nvfix</MessageType></Topic></TransactionLog>
</AMPSConfig>
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lab", XML)


def publish(lab: Lab, name: str, message_type: str, *messages: str) -> None:
    topic = lab.open().topic(name, message_type)
    topic.publish([text.replace("|", "\1").encode() for text in messages])


def rows(lab: Lab, name: str, message_type: str, filter: str | None = None) -> list[str]:
    found = lab.open().topic(name, message_type).query(filter)
    return sorted(record.payload.decode().replace("\1", "|") for record in found.records())


def test_a_view_of_another_type_over_a_topic_without_a_file(lab: Lab) -> None:
    """TOTAL_VALUE names no type for its topic, whose type differs from that of the view."""
    assert rows(lab, "TOTAL_VALUE", "nvfix") == []
    publish(lab, "/ett/order", "fix", "orderId=1|109=ACME|14=100|6=2.5|", "orderId=2|109=ACME|14=10|6=1.0|")
    publish(lab, "/ett/order", "fix", "orderId=3|109=BOLT|14=3|6=7|")
    assert rows(lab, "TOTAL_VALUE", "nvfix") == ["109=ACME|71406=260.0|", "109=BOLT|71406=21|"]


def test_a_view_with_a_filter(lab: Lab) -> None:
    for number, region, status in (
        (1, "EU", "complete"),
        (2, "EU", "open"),
        (3, "US", "complete"),
        (4, "EU", "complete"),
    ):
        publish(lab, "orders", "json", json.dumps({"orderId": number, "region": region, "status": status}))
    assert rows(lab, "CompleteByRegion", "json") == [
        '{"completedOrders":1,"region":"US"}',
        '{"completedOrders":2,"region":"EU"}',
    ]


def test_a_view_with_hash_indexes(lab: Lab) -> None:
    for number, name, kind, quantity in (
        (1, "Ann", "buy", 5),
        (2, "Ann", "sell", 2),
        (3, "Bob", "buy", 1),
        (4, "Ann", "buy", 7),
    ):
        text = json.dumps({"id": number, "customerName": name, "orderType": kind, "qty": quantity})
        publish(lab, "source-for-hash-sample", "json", text)
    assert rows(lab, "hash-sample-view", "json", "/orderType = 'buy'") == [
        '{"quantity":1,"customerName":"Bob","orderType":"buy"}',
        '{"quantity":12,"customerName":"Ann","orderType":"buy"}',
    ]
    both = "/customerName = 'Ann' AND /orderType = 'sell'"
    assert rows(lab, "hash-sample-view", "json", both) == ['{"quantity":2,"customerName":"Ann","orderType":"sell"}']


def test_a_view_with_the_name_of_its_topic_and_another_type(lab: Lab) -> None:
    publish(lab, "example", "json", '{"id":7}', '{"id":"x"}')
    assert rows(lab, "example", "nvfix") == ["id=7|", "id=x|"]
    assert rows(lab, "example", "json") == ['{"id":"x"}', '{"id":7}']


def test_a_view_over_joined_topics(lab: Lab) -> None:
    publish(lab, "ORDERS", "nvfix", "OrderID=1|Tick=IBM|Shares=100|", "OrderID=2|Tick=IBM|Shares=50|")
    publish(lab, "ORDERS", "nvfix", "OrderID=3|Tick=MSFT|Shares=7|", "OrderID=4|Shares=1|")
    publish(lab, "COMPANIES", "nvfix", "CompanyId=9|Tick=IBM|Name=Big Blue|", "CompanyId=8|Tick=GE|Name=General|")
    found = rows(lab, "TOTAL_COMPANY_VOLUME", "nvfix")
    assert found[0] == "CompanyId=9|Tick=IBM|Name=Big Blue|TotalVolume=150|"
    assert len(found) == 3
