"""Envelopes that delete: among other messages of a batch, in every kind of topic, and where they are rejected."""

from __future__ import annotations

import io
import json

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import PublishReport
from sowctl.engine.verbs.publish import publish_messages
from sowctl.messages.framing.frames import FrameReader
from tests.engine.conftest import MakeLab
from tests.support.chains import chained
from tests.support.instances import Lab, config_xml, message, topic_xml


def sent(lab: Lab, topic: str, *rows: dict[str, object], **options: object) -> PublishReport:
    """Publish envelopes and return the report; rejected ones are skipped."""
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    asked = PublishOptions(**({"on_error": "skip"} | options))  # type: ignore[arg-type]
    refused: list[str] = []
    reader = FrameReader(io.BytesIO(lines), "envelope")
    report = publish_messages(
        lab.open(), topic, [("in", reader)], asked, on_reject=lambda one: refused.append(one.code)
    )
    lab.notes[:] = refused
    return report


def put(key: int, **more: object) -> dict[str, object]:
    return {"data": {"id": key} | more}


def gone(key: int, **more: object) -> dict[str, object]:
    return {"command": "sow_delete", "data": {"id": key}} | more


@pytest.mark.parametrize("topic", ["t", "alone", "past", "quotes"])
def test_messages_and_deletions_of_one_key_count_in_their_order(lab: Lab, topic: str) -> None:
    lab.publish(topic, message(id=1), message(id=2))
    rows = [gone(1), put(1, a=1), put(2, a=1), gone(2), put(3), gone(3), gone(3), gone(4)]
    report = sent(lab, topic, *rows)
    assert (report.deleted, report.missing, report.inserted, report.updated) == (3, 2, 2, 1)
    assert report.published == 6 and report.messages == 8
    assert lab.query(topic) == ['{"id": 1, "a": 1}']


def test_a_deletion_has_its_publisher_and_number(lab: Lab) -> None:
    lab.publish("t", message(id=1), message(id=2))
    assert sent(lab, "t", gone(1), client="oms", sequence=1).deleted == 1
    assert sent(lab, "t", gone(2), client="oms", sequence=1).duplicates == 1
    assert lab.query("t") == ['{"id":2}']


@pytest.mark.parametrize("batch", [1, 2])
def test_a_deletion_counts_at_its_own_time_however_late_it_is_published(lab: Lab, batch: int) -> None:
    # The record expires after 30 s: long ago at the clock, but the deletion has a time before that.
    times = ["2020-01-01T00:00:00Z", "2020-01-01T00:00:10Z"]
    rows = [put(1) | {"timestamp": times[0]}, gone(1, timestamp=times[1]), gone(1, timestamp=times[1])]
    report = sent(lab, "quotes", *rows, batch=batch)
    assert (report.inserted, report.deleted, report.missing) == (1, 1, 1)
    assert sent(lab, "quotes", put(1) | {"timestamp": times[1]}, batch=batch).inserted == 1
    assert sent(lab, "quotes", gone(1, timestamp="2020-01-01T00:00:40Z")).missing == 1


def test_publishers_name_the_keys_that_they_chose(lab: Lab) -> None:
    lab.publish("own", message(id=1), sow_key="k1")
    lab.publish("own", message(id=2), sow_key="k2")
    report = sent(lab, "own", gone(9, sow_key="k1"), put(3) | {"sow_key": "k3"})
    assert (report.deleted, report.inserted) == (1, 1)
    assert sorted(str(record.user_key) for record in lab.records("own")) == ["k2", "k3"]


def test_a_dry_run_deletes_nothing_and_knows_what_it_would(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    report = sent(lab, "t", gone(1), gone(1), dry_run=True)
    assert (report.deleted, report.missing) == (1, 1)
    assert lab.query("t") == ['{"id":1}']


def test_topics_without_records_or_with_chains_take_none(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "log")))
    assert sent(lab, "log", gone(1)).rejected == 1
    assert lab.notes == ["SOW-PUB-028"]
    named = chained(make_lab, name="chained")
    named.publish("c", message(id=1))
    assert sent(named, "c", gone(1), put(2)).rejected == 1
    assert named.notes == ["SOW-PUB-028"]
    assert len(named.query("c")) == 2


def test_any_other_command_is_refused(lab: Lab) -> None:
    assert sent(lab, "t", put(1) | {"command": "delete"}).rejected == 1
    assert lab.notes == ["SOW-PUB-019"]


def test_a_deletion_meets_no_record_that_a_flush_has_removed(lab: Lab) -> None:
    """The record had expired at the clock when its run ended, as sowctl-behaviour(7) says in 1.4."""
    times = ["2020-01-01T00:00:00Z", "2020-01-01T00:00:10Z"]
    assert sent(lab, "quotes", put(1) | {"timestamp": times[0]}).inserted == 1
    lab.open().topic("quotes").replay()
    lab.open().topic("quotes").expire()
    assert sent(lab, "quotes", gone(1, timestamp=times[1])).missing == 1
