"""journal bisect: its report, and rejected requests."""

from __future__ import annotations

import re

import pytest

from sowctl.engine.verbs.upkeep.journal_bisect import BisectOptions, bisect_journal
from sowctl.errors import MissingError, NegativeError, SowError
from sowctl.values.times import format_time
from tests.engine.conftest import MakeLab
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml


@pytest.fixture
def filled(make_lab: MakeLab) -> Lab:
    """Forty entries of t, one per second; from the 21st on, a client writes 1 to n. One entry of u."""
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("u") + topic_xml("alone"), ("t", "u")))
    for number in range(1, 41):
        options = {"client": "late", "sequence": number} if number > 20 else {}
        lab.publish("t", message(id=number % 10, n=int(number > 20)), **options)
        lab.clock.tick(1)
    lab.publish("u", message(id=1))
    return lab


def test_the_entry_its_client_and_the_counts_are_said(filled: Lab) -> None:
    found = bisect_journal(filled.open(), "t", BisectOptions(filter="/n = 1"))
    at = format_time(START + 20 * SECOND)
    assert found.values == {
        "topic": "t",
        "txid": 21,
        "time": at,
        "client": "late",
        "operation": "publish",
        "before": {"txid": 20, "count": 0},
        "after": {"txid": 21, "count": 1},
        "steps": found.steps,
        "folded": found.folded,
    }
    assert found.steps <= 6
    # All of it once, and then halves of the rest.
    assert found.folded <= 2 * 40
    counts, steps = found.summary.removeprefix(f"txid 21, written at {at} by late: ").split(";")
    assert re.findall(r"\d+", counts) == ["0", "1"]
    assert re.findall(r"\d+", steps) == [str(found.steps), str(found.folded)]


def test_one_record(filled: Lab) -> None:
    assert bisect_journal(filled.open(), "t", BisectOptions(filter="/n = 1", keys=("5",))).after.txid == 25
    (record,) = bisect_journal(filled.open(), "t", BisectOptions(keys=("7",))).entry.records
    assert record.txid == 7
    key = str(record.sow_key)
    assert bisect_journal(filled.open(), "t", BisectOptions(filter="/n = 1", sow_keys=(key,))).after.txid == 27


def test_times_bound_it(filled: Lab) -> None:
    options = BisectOptions(filter="/n = 1", count=">= 3", from_time=START + 19 * SECOND, to_time=START + 30 * SECOND)
    assert bisect_journal(filled.open(), "t", options).after.txid == 23
    with pytest.raises(NegativeError) as caught:
        bisect_journal(filled.open(), "t", BisectOptions(filter="/n = 1", to_time=START + 19 * SECOND))
    assert "after txid 20" in caught.value.message
    with pytest.raises(NegativeError) as caught:
        bisect_journal(filled.open(), "t", BisectOptions(filter="/n = 1", from_time=START + 25 * SECOND))
    assert re.search(r"\btxid 26, .*\b6 records\b", caught.value.message)
    with pytest.raises(NegativeError) as caught:
        bisect_journal(filled.open(), "t", BisectOptions(filter="/n = 1", from_time=START + 20 * SECOND))
    assert caught.value.message.endswith("where 1 record matches")


@pytest.mark.parametrize(
    ("topic", "options", "code"),
    [
        ("t", BisectOptions(count="many"), "SOW-UPK-042"),
        (None, BisectOptions(), "SOW-UPK-043"),
        ("t", BisectOptions(from_txid=9, to_txid=9), "SOW-UPK-044"),
        ("alone", BisectOptions(), "SOW-UPK-041"),
        ("nope", BisectOptions(), "SOW-ENG-012"),
    ],
)
def test_refusals(filled: Lab, topic: str | None, options: BisectOptions, code: str) -> None:
    with pytest.raises(SowError) as caught:
        bisect_journal(filled.open(), topic, options)
    assert caught.value.code == code


def test_a_journal_whose_beginning_is_gone_is_refused(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.journal_size = 1100
    for number in range(12):
        lab.publish("t", message(id=number, text="x" * 60))
    lab.journals()[0].unlink()
    with pytest.raises(MissingError) as caught:
        bisect_journal(lab.open(), None, BisectOptions())
    assert caught.value.code == "SOW-UPK-041"
