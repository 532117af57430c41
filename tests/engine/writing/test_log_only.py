"""Topics that only the transaction log names: published to the journal, and nowhere else (behaviour 11.32, C57)."""

from __future__ import annotations

import json

import pytest

from sowctl.engine.options import PublishOptions, ReplayOptions
from sowctl.engine.reports import PublishReport
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import find_publish_topic, resolve_targets
from sowctl.engine.verbs.history import read_key_versions
from sowctl.engine.verbs.info import find_topic_info, list_topic_info
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.key import KeyFinder
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import InputError, MissingError, UsageError
from sowctl.journal.entries import Entry
from sowctl.journal.format import UNKEYED_FLAG
from sowctl.output.records import build_metadata
from tests.support.instances import Lab, config_xml, message, topic_xml


@pytest.fixture
def lab(make_lab) -> Lab:  # type: ignore[no-untyped-def]
    made: Lab = make_lab(config_xml(topic_xml("t") + topic_xml("alone"), ("t", "events", "^news/")))
    return made


def _publish(lab: Lab, topic: str | None, *messages: str, **options: object) -> PublishReport:
    source = ListSource([text.encode() for text in messages])
    return publish_messages(lab.open(), topic, [("input", source)], PublishOptions(**options))  # type: ignore[arg-type]


def _entries(lab: Lab) -> list[Entry]:
    with open_log(lab.open()) as log:
        return [entry for block in log.iter_blocks() for entry in block.iter_entries()]


def test_c57_a_publish_is_journalled_and_a_query_says_that_there_is_no_sow(lab: Lab) -> None:
    with pytest.raises(MissingError) as caught:
        resolve_targets(lab.open(), "events")
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-016", 10)
    report = _publish(lab, "events", message(id=1), message(id=1), "not even a message")
    assert (report.published, report.inserted, report.updated, report.first_txid, report.last_txid) == (3, 0, 0, 1, 3)
    assert (report.journalled, report.topics[0].journalled) == (3, 3)
    assert [topic.topic for topic in report.topics] == ["events"]
    entries = _entries(lab)
    assert [(e.topic, e.payload.decode(), e.flags) for e in entries] == [
        (("events", "json"), text, UNKEYED_FLAG) for text in (message(id=1), message(id=1), "not even a message")
    ]
    assert {entry.key + entry.check for entry in entries} == {bytes(16)}
    with pytest.raises(MissingError) as caught:
        lab.query("events")
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-016", 10)
    assert not list(lab.directory.rglob("*.sow"))


def test_a_topic_that_nothing_names_is_an_error(lab: Lab) -> None:
    with pytest.raises(MissingError) as caught:
        _publish(lab, "event", message(id=1))
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-012", 10)


def test_a_name_that_the_log_matches_is_enough(lab: Lab) -> None:
    assert _publish(lab, "news/today", message(id=1)).published == 1
    with pytest.raises(MissingError) as caught:
        lab.query("news/today")
    assert caught.value.code == "SOW-ENG-016"
    with pytest.raises(MissingError) as caught:
        lab.query("news/never")
    assert caught.value.code == "SOW-ENG-012"


def test_dump_shows_entries_without_keys(lab: Lab) -> None:
    _publish(lab, "events", message(id=1), expiration=5, client="c")
    lab.publish("t", message(id=1))
    (batch,) = dump_entries(lab.open(), EntryFilter(topic_names=("events",)))
    row = build_metadata(batch, batch.records[0])
    assert (row["topic"], row["sow_key"], row["operation"], row["client"]) == ("events", None, "publish", "c")
    assert row["expiration"] == "2026-01-05T08:00:05.000000Z"
    assert list(dump_entries(lab.open(), EntryFilter(keys=frozenset({0})))) == []


def test_numbers_of_publishers_are_kept(lab: Lab) -> None:
    assert _publish(lab, "events", message(id=1), message(id=2), client="c", sequence=1).published == 2
    again = _publish(lab, "events", message(id=2), message(id=3), client="c", sequence=2)
    assert (again.published, again.duplicates) == (1, 1)
    assert [entry.sequence for entry in _entries(lab)] == [1, 2, 3]


def test_time_does_not_go_back(lab: Lab) -> None:
    _publish(lab, "events", message(id=1), timestamp="2026-01-05T09:00:00Z")
    with pytest.raises(InputError) as caught:
        _publish(lab, "events", message(id=1), timestamp="2026-01-05T08:59:00Z")
    assert caught.value.code == "SOW-PUB-006"
    _publish(lab, "events", message(id=2))
    assert len({entry.time for entry in _entries(lab)}) == 1


def test_c22_a_delta_is_the_literal_message(lab: Lab) -> None:
    _publish(lab, "events", message(id=1, a=1))
    _publish(lab, "events", message(id=1, b=None), message(id=1), delta=True)
    assert [entry.payload.decode() for entry in _entries(lab)][1:] == [message(id=1, b=None), message(id=1)]
    with pytest.raises(InputError) as caught:
        _publish(lab, "events", message(id=1), delta=True, update_only=True)
    assert caught.value.code == "SOW-PUB-018"


def test_messages_have_no_keys(lab: Lab) -> None:
    with pytest.raises(UsageError) as caught:
        _publish(lab, "events", message(id=1), sow_key="A")
    assert caught.value.code == "SOW-PUB-024"


def test_there_is_no_key_to_ask_for(lab: Lab) -> None:
    with pytest.raises(UsageError) as caught:
        KeyFinder(lab.open(), find_publish_topic(lab.open(), "events"), PublishOptions())
    assert caught.value.code == "SOW-PUB-024"


def test_a_dry_run_leaves_nothing(lab: Lab) -> None:
    assert _publish(lab, "events", message(id=1), dry_run=True).published == 1
    assert not lab.journals()


def test_one_group_holds_messages_of_both_kinds(lab: Lab) -> None:
    lines = [json.dumps({"topic": name, "data": {"id": n}}) for n, name in enumerate(("t", "events", "alone", "t"))]
    from io import BytesIO

    from sowctl.messages.framing.frames import FrameReader

    source = FrameReader(BytesIO("\n".join(lines).encode()), "envelope")
    report = publish_messages(lab.open(), None, [("input", source)], PublishOptions())
    assert (report.published, report.inserted) == (4, 3)
    assert [(e.topic[0], bool(e.flags & UNKEYED_FLAG)) for e in _entries(lab)] == [
        ("t", False), ("events", True), ("t", False),
    ]  # fmt: skip
    lab.forget("t")
    assert len(lab.query("t")) == 2


def test_info_names_such_topics(lab: Lab) -> None:
    _publish(lab, "news/today", message(id=1), message(id=2))
    found = {row.topic: row for row in list_topic_info(lab.open()) if row.kind == "journal only"}
    assert sorted(found) == ["events", "news/today"]
    assert (found["news/today"].last_txid, found["events"].last_txid) == (2, 0)
    assert found["events"].key_mode == "none"
    assert [row.last_txid for row in find_topic_info(lab.open(), "news/today")] == [2]
    assert [row.kind for row in find_topic_info(lab.open(), "[json].[events]")] == ["journal only"]
    with pytest.raises(MissingError):
        find_topic_info(lab.open(), "news/never")


def test_a_sow_that_comes_later_holds_what_comes_after_it(make_lab) -> None:  # type: ignore[no-untyped-def]
    before = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    _publish(before, "events", message(id=1), message(id=2))
    later = make_lab(config_xml(topic_xml("t") + topic_xml("events"), ("t", "events")))
    assert later.query("events") == []
    later.publish("events", message(id=1, n=1))
    assert later.query("events") == [message(id=1, n=1)]
    digest = later.digest("events")
    later.forget("events")
    assert replay_topics(later.open(), [later.open().topics[1]], ReplayOptions())[0].records == 1
    assert later.digest("events") == digest
    assert later.query("events", at=later.clock.at) == [message(id=1, n=1)]
    batch, missing = read_key_versions(
        later.open(), resolve_targets(later.open(), "events")[0], ["1", "0"], journal=True
    )
    assert ([record.payload.decode() for record in batch.records], missing) == ([message(id=1, n=1)], ["0"])
