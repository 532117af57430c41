"""Transient topics: only the journal keeps them on disk (behaviour 1.6, C46, C47)."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.publish import publish_messages
from sowctl.errors import RefusedError
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import Lab, config_xml, topic_xml

TRANSIENT = "<Durability>transient</Durability>"


@pytest.fixture
def lab(make_lab) -> Lab:  # type: ignore[no-untyped-def]
    topics_xml = (
        topic_xml("logged", TRANSIENT, file=None)
        + topic_xml("fresh", TRANSIENT, "<RecoveryPoint>now</RecoveryPoint>", file=None)
        + topic_xml("gone", TRANSIENT, file=None)
    )
    made: Lab = make_lab(config_xml(topics_xml, ("logged", "fresh")))
    return made


def test_a_logged_one_is_made_again_from_the_journal(lab: Lab) -> None:  # C46
    assert lab.publish("logged", '{"id":1,"a":1}', '{"id":2}').inserted == 2
    assert lab.publish("logged", '{"id":1,"a":2}').updated == 1
    assert sorted(lab.query("logged")) == ['{"id":1,"a":2}', '{"id":2}']
    assert lab.open().topic("logged").delete(filter="/id = 2").deleted == 1
    assert lab.query("logged") == ['{"id":1,"a":2}']
    assert not list(lab.directory.glob("**/*.sow"))


def test_one_that_recovers_from_now_begins_empty(lab: Lab) -> None:
    lab.publish("fresh", '{"id":1}')
    assert lab.query("fresh") == []
    assert lab.publish("fresh", '{"id":1}').inserted == 1


@pytest.mark.parametrize("topic", ["logged", "fresh"])
def test_there_is_no_store_to_verify(lab: Lab, topic: str) -> None:
    lab.publish(topic, '{"id":1}')
    report = lab.open().topic(topic).replay(verify=True)
    assert report.action == "skipped" and "transient" in str(report.note)


def test_one_that_nothing_retains_takes_messages_only_when_told(lab: Lab) -> None:  # C47
    with pytest.raises(RefusedError) as caught:
        lab.publish("gone", '{"id":1}')
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-021", 8)
    assert lab.publish("gone", '{"id":1}', allow_volatile=True).published == 1
    assert lab.query("gone") == []


def test_nothing_is_left_behind_in_the_temporary_directory(lab: Lab, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    lab.publish("logged", '{"id":1}')
    lab.query("logged")
    assert set(tmp_path.iterdir()) == before


def test_volatile_messages_are_not_said_to_be_durable(lab: Lab) -> None:
    report = lab.publish("gone", '{"id":1}', allow_volatile=True)
    assert (report.published, report.durable) == (1, False)
    assert lab.publish("logged", '{"id":1}').durable
    assert lab.query("gone") == []
    assert "transient" in lab.notes[-1]


def test_a_dry_run_refuses_what_the_run_would_refuse(lab: Lab) -> None:
    with pytest.raises(RefusedError) as caught:
        lab.publish("gone", '{"id":1}', dry_run=True)
    assert caught.value.code == "SOW-ENG-021"
    assert lab.publish("gone", '{"id":1}', dry_run=True, allow_volatile=True).inserted == 1


def test_there_is_no_store_to_miss_and_nothing_to_remove(make_lab) -> None:  # type: ignore[no-untyped-def]
    """check finds nothing wrong, expire removes nothing, and info reports what the journal contains."""
    lab = make_lab(config_xml(topic_xml("t", TRANSIENT, "<Expiration>5s</Expiration>", file=None), ("t",)))
    lab.publish("t", '{"id":1}', '{"id":2}')
    lab.clock.tick(10)
    examination = check_instance(lab.open())
    assert list(examination) == []
    assert "no store" not in examination.coverage
    for dry_run in (True, False):
        assert lab.open().topic("t").expire(dry_run=dry_run).expired == 0
    row = lab.open().topic("t").info()
    assert (row.state, row.last_txid, row.last_update) == ("transient", 2, lab.clock.at - 10_000_000)


def test_a_late_entry_of_another_topic_does_not_end_the_search_for_a_recovery_point(make_lab) -> None:  # type: ignore[no-untyped-def]
    point = "<RecoveryPoint>2026-02-01T00:00:00Z</RecoveryPoint>"
    topics_xml = topic_xml("t", TRANSIENT, point, file=None) + topic_xml("other")
    lab: Lab = make_lab(config_xml(topics_xml, ("t", "other")))
    line = '{"topic":"%s","timestamp":"2026-%sT00:00:00Z","data":{"id":%d}}'
    for batch in ([("t", "01-10", 1), ("other", "03-01", 1)], [("t", "01-11", 2)], [("t", "03-01", 3)]):
        raw = "\n".join(line % one for one in batch).encode()
        publish_messages(lab.open(), None, [("in", FrameReader(io.BytesIO(raw), "envelope"))])
    assert lab.query("t") == ['{"id":3}']
