"""The commit of a batch: one group for all journalled topics, a transaction for each other one, visible at once."""

from __future__ import annotations

import pytest

from sowctl.engine.topics.positions import open_log
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml


def test_a_batch_is_one_group_with_txids_in_the_order_of_topics(lab: Lab) -> None:
    report = lab.publish("t", *(message(id=n) for n in range(5)))
    assert (report.first_txid, report.last_txid, report.durable) == (1, 5, True)
    lab.publish("past", message(id=1))
    with open_log(lab.open()) as log:
        assert log.find_topic_state(("t", "json")).last_txid == 5
        assert log.find_topic_state(("past", "json")).last_txid == 6


def test_messages_of_a_run_meet_those_before_them_applied_or_not(lab: Lab) -> None:
    for topic in ("t", "alone"):
        report = lab.publish(topic, *(message(id=n % 3, v=n) for n in range(9)), batch=2)
        assert (report.inserted, report.updated) == (3, 6)
        assert lab.query(topic, order_by="/id") == [message(id=n % 3, v=n) for n in (6, 7, 8)]


def test_a_dry_run_meets_its_own_messages_and_writes_none(lab: Lab) -> None:
    report = lab.publish("t", *(message(id=n % 3, v=n) for n in range(9)), batch=2, dry_run=True)
    assert (report.inserted, report.updated) == (3, 6)
    assert not lab.store("t").exists()
    assert lab.journals() == []


def test_a_topic_without_a_journal_counts_its_own_txids(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    report = lab.publish("alone", message(id=1), message(id=2))
    assert (report.first_txid, report.last_txid) == (1, 2)
    assert [record.txid for record in lab.records("alone", by_time=True)] == [1, 2]


@pytest.mark.parametrize("logged", [("own",), ()], ids=["journal", "alone"])
def test_the_parts_of_an_entry_reach_the_record(make_lab, logged: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("own", "<Expiration>enabled</Expiration>", key=None), logged))
    lab.publish("own", message(v=1), sow_key="k", expiration=60)
    (record,) = lab.records("own")
    assert (record.user_key, record.payload, record.timestamp) == ("k", message(v=1).encode(), lab.clock.at)
    assert record.expiration == lab.clock.at + 60 * SECOND
