"""Deleting: cases C27-C33 of sowctl-behaviour(7)."""

from __future__ import annotations

import pytest

from sowctl.engine.options import DeleteOptions
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.delete import delete_records
from sowctl.errors import UsageError
from sowctl.journal.format import DELETE, PUBLISH
from tests.support.instances import Lab, config_xml, message, topic_xml


def _five(lab: Lab) -> None:
    lab.publish("t", *(message(id=n, a=n % 3) for n in range(5)))


def test_c27_a_filter_deletes_what_matches(lab: Lab) -> None:
    _five(lab)
    report = lab.open().topic("t").delete(filter="/a = 0")
    assert (report.examined, report.matched, report.deleted) == (5, 2, 2)
    assert len(lab.query("t")) == 3


def test_c28_a_filter_that_is_always_true_empties_the_topic(lab: Lab) -> None:
    _five(lab)
    size = lab.store("t").stat().st_size
    assert lab.open().topic("t").delete(filter="1=1").deleted == 5
    assert lab.query("t") == []
    assert lab.store("t").stat().st_size >= size


def test_c29_data_deletes_the_record_of_its_key(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1), message(id=2, a=1))
    assert lab.open().topic("t").delete(data=[message(id=1, foo="bar").encode()]).deleted == 1
    assert lab.query("t") == [message(id=2, a=1)]


def test_c30_unknown_keys_match_nothing(lab: Lab) -> None:
    lab.publish("own", message(x=1), sow_key="k1")
    lab.publish("own", message(x=2), sow_key="k2")
    report = lab.open().topic("own").delete(sow_keys=["k1", "k3"])
    assert report.deleted == 1
    assert lab.query("own") == [message(x=2)]


def test_c31_two_selectors_are_a_mistake(lab: Lab) -> None:
    _five(lab)
    with pytest.raises(UsageError):
        lab.open().topic("t").delete(filter="/a = 0", sow_keys=["1"])
    assert len(lab.query("t")) == 5


def test_c32_a_pattern_deletes_in_every_topic_that_matches(make_lab) -> None:  # type: ignore[no-untyped-def]
    names = ("T1", "T2", "T30")
    lab = make_lab(config_xml("".join(map(topic_xml, names)), names))
    for name in names:
        lab.publish(name, message(id=1))
    instance = lab.open()
    reports = delete_records(instance, resolve_targets(instance, "^T.$"), DeleteOptions(filter="1=1"))
    assert [(report.topic, report.deleted) for report in reports] == [("T1", 1), ("T2", 1)]
    assert [len(lab.query(name)) for name in names] == [0, 0, 1]


def test_c33_the_journal_keeps_the_publish_and_tells_of_the_deletion(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.open().topic("t").delete(filter="1=1")
    with open_log(lab.open()) as log:
        operations = [entry for block in log.iter_blocks() for entry in bytes(block.decode_columns().operations)]
    assert operations == [PUBLISH, DELETE]
