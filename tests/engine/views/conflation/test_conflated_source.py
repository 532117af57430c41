"""Conflated topics of the configuration reference's samples, over Pattern topics, with enrichment, and under views."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.errors import MissingError, UsageError
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

SAMPLES = """
<AMPSConfig><Name>samples</Name><SOW>
<Topic><Name>FastPublishTopic</Name><MessageType>nvfix</MessageType><Key>/id</Key>
<FileName>sow/%n.sow</FileName></Topic>
<Topic><Name>FastPublishTopic</Name><MessageType>json</MessageType><Key>/id</Key>
<FileName>sow/%n.sow</FileName></Topic>
<Topic><Name>TheRegexTopic</Name><MessageType>bflat</MessageType><Key>/id</Key><Pattern>^rates/</Pattern>
<FileName>sow/%n.sow</FileName></Topic>
<ConflatedTopic>
    <Topic>FastPublishTopic-C</Topic>
    <MessageType>nvfix</MessageType>
    <UnderlyingTopic>FastPublishTopic</UnderlyingTopic>
    <Interval>5s</Interval>
    <Filter>/region = 'A'</Filter>
</ConflatedTopic>
<ConflatedTopic>
    <Topic>LongIntervalTopic-C</Topic>
    <MessageType>json</MessageType>
    <UnderlyingTopic>FastPublishTopic</UnderlyingTopic>
    <Interval>120s</Interval>
    <HashIndex>
       <Key>/order/status</Key>
    </HashIndex>
</ConflatedTopic>
<ConflatedTopic>
   <Topic>ConflateUnderlyingRegex</Topic>
   <MessageType>bflat</MessageType>
   <UnderlyingTopic>TheRegexTopic</UnderlyingTopic>
   <Interval>20s</Interval>
</ConflatedTopic>
</SOW>
<TransactionLog><JournalDirectory>journal</JournalDirectory>
<Topic><Name>.*</Name><MessageType>nvfix</MessageType></Topic>
<Topic><Name>.*</Name><MessageType>json</MessageType></Topic>
<Topic><Name>TheRegexTopic</Name><MessageType>bflat</MessageType></Topic></TransactionLog>
</AMPSConfig>
"""


@pytest.fixture
def samples(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lab", SAMPLES)


def shown(lab: Lab, name: str, seconds: float, filter: str | None = None) -> list[str]:
    lab.clock.at = START + round(seconds * SECOND)
    return sorted(payload.replace("\1", "|") for payload in lab.query(name, filter))


def test_a_filter_over_nvfix(samples: Lab) -> None:
    topic = samples.open().topic("FastPublishTopic", "nvfix")
    topic.publish([text.replace("|", "\1").encode() for text in ("id=1|region=A|p=1|", "id=2|region=B|p=2|")])
    assert shown(samples, "FastPublishTopic-C", 4.9) == []
    assert shown(samples, "FastPublishTopic-C", 5) == ["id=1|region=A|p=1|"]
    topic.publish([b"id=1\1region=B\1p=3\1", b"id=2\1region=A\1p=4\1"])
    assert shown(samples, "FastPublishTopic-C", 10) == ["id=2|region=A|p=4|"]


def test_a_long_interval_and_a_hash_index(samples: Lab) -> None:
    topic = samples.open().topic("FastPublishTopic", "json")
    for number, status in ((1, "new"), (2, "done"), (1, "done")):
        topic.publish([json.dumps({"id": number, "order": {"status": status}}).encode()])
    assert shown(samples, "LongIntervalTopic-C", 119.9) == []
    wanted = "/order/status = 'done'"
    assert shown(samples, "LongIntervalTopic-C", 120, wanted) == [
        '{"id": 1, "order": {"status": "done"}}',
        '{"id": 2, "order": {"status": "done"}}',
    ]
    assert shown(samples, "LongIntervalTopic-C", 120, "/order/status = 'new'") == []


def test_a_pattern_topic_without_a_format_keeps_its_names(samples: Lab) -> None:
    for name, value in (("rates/EUR", b"id=1\x01v=2"), ("rates/USD", b"id=1\x01v=3")):
        kind = samples.open().find_message_type("bflat")
        payload = kind.build_message([(("id",), 1), (("v",), value[-1] - 48)])
        samples.open().topic(name, "bflat").publish([payload])
    samples.clock.tick(20)
    found = samples.records("ConflateUnderlyingRegex")
    assert {record.logical_topic for record in found} == {"rates/EUR", "rates/USD"}


PATTERN = topic_xml("orders", "<Pattern>^orders/</Pattern>")
CONFLATED = (
    "<ConflatedTopic><Name>all-C</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>"
    "<TopicFormat>%n-C</TopicFormat></ConflatedTopic>"
    "<ConflatedTopic><Name>all-D</Name><MessageType>json</MessageType><UnderlyingTopic>all-C</UnderlyingTopic>"
    "<TopicFormat>slow/%n</TopicFormat></ConflatedTopic>"
)


def test_logical_topics_have_names_of_their_own(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(PATTERN + CONFLATED, ("orders",)))
    lab.publish("orders/eu", message(id=1, v=1), message(id=2, v=2))
    lab.publish("orders/us", message(id=1, v=3))
    lab.clock.tick(5)
    assert {record.logical_topic for record in lab.records("all-C")} == {"orders/eu-C", "orders/us-C"}
    assert sorted(lab.query("orders/eu-C")) == ['{"id":1,"v":1}', '{"id":2,"v":2}']
    assert lab.query("orders/us-C") == ['{"id":1,"v":3}']
    # The keys are those of the source, of the name under which the record was published.
    assert [record.payload for record in lab.open().topic("orders/us-C").get("1")] == [b'{"id":1,"v":3}']
    lab.clock.tick(5)
    assert lab.query("slow/orders/us-C") == ['{"id":1,"v":3}']
    assert [record.payload for record in lab.open().topic("slow/orders/eu-C").get("2")] == [b'{"id":2,"v":2}']
    with pytest.raises(MissingError):
        lab.query("orders-C")
    # A topic of this name comes before a logical topic.
    named = CONFLATED.replace("all-C", "orders/C")
    other = Lab(tmp_path / "other", config_xml(PATTERN + named, ("orders",)))
    other.publish("orders/eu", message(id=1))
    other.clock.tick(5)
    assert other.records("orders/C")[0].logical_topic == "orders/eu-C"


ENRICHED = (
    "<ConflatedTopic><Name>c</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Filter>/p &lt; 10</Filter><Enrichment><Field>/p * 2 AS /p</Field><Field>UNIX_TIMESTAMP() AS /seen</Field>"
    "<Field>UUID7() AS /u</Field><Field>/p OF CURRENT + 1 AS /q</Field></Enrichment></ConflatedTopic>"
)


def test_the_filter_looks_at_the_source_and_enrichment_builds_the_output(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + ENRICHED, ("t",)))
    lab.publish("t", message(id=1, p=9), message(id=2, p=10))
    lab.clock.tick(7)
    [first] = lab.query("c")
    found = json.loads(first)
    # The clock of an enrichment is the end of the interval, at any time of the query.
    assert (found["id"], found["p"], found["q"], found["seen"]) == (1, 18, 10, START / SECOND + 5)
    lab.clock.tick(100)
    assert lab.query("c") == [first]
    assert lab.open().topic("c").digest().digest == lab.open().topic("c").digest().digest


VIEW = (
    "<View><Name>sums</Name><MessageType>json</MessageType><UnderlyingTopic>c</UnderlyingTopic>"
    "<Projection><Field>SUM(/p) AS /sum</Field></Projection><Grouping><Field>/g</Field></Grouping></View>"
)
PLAIN = (
    "<ConflatedTopic><Name>c</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic></ConflatedTopic>"
)


def test_a_view_over_a_conflated_topic(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + PLAIN + VIEW, ("t",)))
    lab.publish("t", message(id=1, g=1, p=1), message(id=2, g=1, p=2))
    assert lab.query("sums") == []
    lab.clock.tick(5)
    assert lab.query("sums") == ['{"sum":3}']
    lab.clock.tick(1)
    lab.publish("t", message(id=2, g=1, p=20))
    lab.clock.tick(4)
    assert lab.query("sums") == ['{"sum":3}']
    lab.clock.tick(1)
    assert lab.query("sums") == ['{"sum":21}']
    assert lab.query("sums", at=START + 6 * SECOND) == ['{"sum":3}']


def test_what_no_journal_records_is_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + PLAIN, ()))
    lab.publish("t", message(id=1))
    with pytest.raises(UsageError) as caught:
        lab.query("c")
    assert caught.value.code == "SOW-VIW-002"
    assert "sowctl conflate c" in (caught.value.hint or "")
    with pytest.raises(UsageError) as refused:
        lab.open().topic("c").publish([b"{}"], PublishOptions())
    assert refused.value.code == "SOW-ENG-031"
