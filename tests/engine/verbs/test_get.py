"""get: records by key in the requested order; keys without a record are returned."""

from __future__ import annotations

import pytest

from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.get import get_records
from sowctl.errors import UsageError
from tests.support.instances import SECOND, Lab, message


def _got(lab: Lab, *texts: str, topic: str = "t", fields: bool = False, at: int | None = None) -> list[str]:
    batch, missing = get_records(lab.open(), resolve_targets(lab.open(), topic)[0], texts, fields=fields, at=at)
    return [record.payload.decode() for record in batch.records] + [f"no {text}" for text in missing]


def test_records_come_as_asked_and_as_often_and_the_missing_are_named(lab: Lab) -> None:
    lab.publish("t", message(id=1), message(id=2), message(id=3))
    assert _got(lab, "3", "9", "1", "3", "x") == [message(id=3), message(id=1), message(id=3), "no 9", "no x"]
    assert _got(lab) == []


def test_a_sow_key_and_the_text_of_a_key_field_mean_the_same_record(lab: Lab) -> None:
    lab.publish("t", message(id="a"), message(id="b"))
    key = str(lab.records("t", "/id = 'b'")[0].sow_key)
    assert _got(lab, key, "b") == [message(id="b")] * 2
    assert _got(lab, key, "b", fields=True) == [message(id="b"), f"no {key}"]


def test_fields_are_refused_where_publishers_choose_the_keys(lab: Lab) -> None:
    lab.publish("own", message(v=1), sow_key="k")
    assert _got(lab, "k", "l", topic="own") == [message(v=1), "no l"]
    with pytest.raises(UsageError) as caught:
        _got(lab, "k", topic="own", fields=True)
    assert caught.value.code == "SOW-QRY-005"


def test_a_record_has_its_stamps(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.clock.tick(3)
    lab.publish("t", message(id=1, v=2))
    batch, _ = get_records(lab.open(), resolve_targets(lab.open(), "t")[0], ["1"])
    assert (batch.topic, batch.message_type) == ("t", "json")
    (record,) = batch.records
    assert (record.txid, record.timestamp) == (2, lab.clock.at)


def test_records_as_of_an_instant(lab: Lab) -> None:
    lab.publish("past", message(id=1, v=1))
    lab.clock.tick(60)
    lab.publish("past", message(id=1, v=2))
    assert _got(lab, "1", topic="past", at=lab.clock.at - 30 * SECOND) == [message(id=1, v=1)]
    assert _got(lab, "1", topic="past") == [message(id=1, v=2)]


def test_what_has_expired_is_missing(lab: Lab) -> None:
    lab.publish("quotes", message(id=1))
    lab.clock.tick(30)
    assert _got(lab, "1", topic="quotes") == ["no 1"]


def test_a_store_file_is_asked_like_its_topic(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    batch, missing = get_records(lab.open(), Target(path=lab.store("t")), ["1", "2"])
    assert ([record.payload.decode() for record in batch.records], missing) == ([message(id=1)], ["2"])


def test_a_topic_without_a_store_has_no_records(lab: Lab) -> None:
    assert _got(lab, "1", topic="alone") == ["no 1"]
    assert any("alone" in note for note in lab.notes)
