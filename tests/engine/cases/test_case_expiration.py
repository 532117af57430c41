"""Expiration: cases C34-C41 of sowctl-behaviour(7), checked on every read path (behaviour 1.5)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sowctl.engine.options import ReplayOptions
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.replay import replay_topics
from sowctl.errors import MissingError
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
KINDS = ("journal", "alone", "behind", "transient")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Storage of the topic; ``behind``: the store is missing, and reads use the journal instead."""
    return str(request.param)


def _lab(make_lab: MakeLab, kind: str, expiration: str) -> Lab:
    parts = [f"<Expiration>{expiration}</Expiration>"]
    if kind == "transient":
        parts.append("<Durability>transient</Durability>")
    topic = topic_xml("t", *parts, file=None if kind == "transient" else "sow/%n.sow")
    return make_lab(config_xml(topic, () if kind == "alone" else ("t",)))


def _seconds(lab: Lab, seconds: float) -> None:
    lab.clock.at = START + round(seconds * SECOND)


def _ids(lab: Lab, kind: str = "journal") -> list[int]:
    """Return the ids of the records, which are the same on every read path."""
    if kind == "behind":
        lab.forget("t")
    topic = lab.open().topic("t")
    everywhere = {
        "query": sorted(json.loads(row)["id"] for row in lab.query("t")),
        "filter": sorted(json.loads(row)["id"] for row in lab.query("t", "/id > 0")),
        "indexed": sorted(json.loads(row)["id"] for row in lab.query("t", "/id > 0", index_from=0)),
        "ordered": sorted(json.loads(row)["id"] for row in lab.query("t", order_by="/id", top_n=99)),
        "get": [number for number in range(1, 10) if list(topic.get(str(number), fields=True))],
        "groups": sorted(json.loads(row)["g"] for row in lab.query("t", projection="/id AS /g", grouping="/id")),
        "at": sorted(json.loads(row)["id"] for row in lab.query("t", at=lab.clock.at)),
        "delete": sorted(n for n in range(1, 10) if topic.delete(filter=f"/id = {n}", dry_run=True).matched),
    }
    keys = tuple(str(record.sow_key) for record in lab.records("t"))
    everywhere["keys"] = sorted(json.loads(row)["id"] for row in lab.query("t", sow_keys=keys)) if keys else []
    counted = topic.query().count()
    assert len({tuple(ids) for ids in everywhere.values()}) == 1, everywhere
    assert counted == topic.digest().records == len(everywhere["query"])
    return everywhere["query"]


def test_c34_an_update_restarts_the_clock(make_lab: MakeLab, kind: str) -> None:
    """Also seed example 41: 45 seconds, reset after 15."""
    lab = _lab(make_lab, kind, "45s")
    lab.publish("t", message(id=1))
    _seconds(lab, 15)
    lab.publish("t", message(id=1))
    for second, expected in ((45, [1]), (50, [1]), (59.999999, [1]), (60, []), (61, [])):
        _seconds(lab, second)
        assert _ids(lab, kind) == expected, second


def test_c35_zero_is_no_end(make_lab: MakeLab, kind: str) -> None:
    """Also seed example 40, with five minutes."""
    lab = _lab(make_lab, kind, "5m")
    lab.publish("t", message(id=1), expiration=0)
    lab.publish("t", message(id=2))
    _seconds(lab, 1000)
    assert _ids(lab, kind) == [1]


def test_c36_a_message_may_have_an_end_of_its_own(make_lab: MakeLab, kind: str) -> None:
    lab = _lab(make_lab, kind, "30s")
    lab.publish("t", message(id=1), expiration=300)
    lab.publish("t", message(id=2), expiration=1)
    for second, expected in ((100, [1]), (299.999999, [1]), (300, []), (301, [])):
        _seconds(lab, second)
        assert _ids(lab, kind) == expected, second


def test_c37_enabled_gives_an_end_only_to_messages_that_have_one(make_lab: MakeLab, kind: str) -> None:
    lab = _lab(make_lab, kind, "enabled")
    lab.publish("t", message(id=1))
    lab.publish("t", message(id=2), expiration=5)
    assert _ids(lab, kind) == [1, 2]
    _seconds(lab, 1_000_000)
    assert _ids(lab, kind) == [1]


def test_c38_disabled_keeps_the_stamp_and_the_record(make_lab: MakeLab, kind: str) -> None:
    lab = _lab(make_lab, kind, "disabled")
    lab.publish("t", message(id=1), expiration=5)
    _seconds(lab, 60)
    assert _ids(lab, kind) == [1]
    assert [record.expiration for record in lab.records("t")] == [START + 5 * SECOND]
    assert lab.open().topic("t").expire().expired == 0
    assert _ids(lab, kind) == [1]


def test_c39_another_interval_moves_no_stamp(make_lab: MakeLab, kind: str) -> None:
    lab = _lab(make_lab, kind, "30s")
    lab.publish("t", message(id=1))
    _seconds(lab, 10)
    lab.config.write_text(lab.xml.replace("30s", "300s"))
    lab.publish("t", message(id=2))
    _seconds(lab, 31)
    assert _ids(lab, kind) == [2]
    _seconds(lab, 311)
    assert _ids(lab, kind) == []


@pytest.mark.parametrize("verb", ["publish", "expire"])
def test_c40_what_expired_meanwhile_leaves_the_file_on_open(make_lab: MakeLab, verb: str) -> None:
    for name in ("journal", "alone"):
        lab = make_lab(
            config_xml(topic_xml("t", "<Expiration>30s</Expiration>"), ("t",) if name == "journal" else ()), name
        )
        _seconds(lab, 10)
        lab.publish("t", message(id=1), message(id=2))
        lab.publish("t", message(id=3), expiration=0)
        _seconds(lab, 100)
        assert _ids(lab) == [3]
        assert lab.open().topic("t").info().expired == 2
        if verb == "publish":
            lab.publish("t", message(id=3))
        else:
            assert lab.open().topic("t").expire().expired == 2
        row = lab.open().topic("t").info()
        assert (row.expired, row.records) == (0, 1)
        assert _ids(lab) == [3]


def test_c41_a_delta_restarts_the_clock(make_lab: MakeLab, kind: str) -> None:
    lab = _lab(make_lab, kind, "30s")
    lab.publish("t", message(id=1, a=1))
    _seconds(lab, 20)
    lab.publish("t", message(id=1, b=2), delta=True)
    for second, expected in ((31, [1]), (49, [1]), (50, [])):
        _seconds(lab, second)
        assert _ids(lab, kind) == expected, second
    # an expired record is never merged with a delta (section 11, 40)
    report = lab.publish("t", message(id=1, c=3), delta=True)
    assert (report.inserted, lab.query("t")) == (1, [message(id=1, c=3)])


def test_an_expired_record_is_no_previous_one(make_lab: MakeLab, kind: str) -> None:
    lab = _lab(make_lab, kind, "30s")
    lab.config.write_text(
        lab.xml.replace("</Topic></SOW>", "<Enrichment><Field>/v OF PREVIOUS AS /w</Field></Enrichment></Topic></SOW>")
    )
    lab.publish("t", message(id=1, v=1))
    _seconds(lab, 29)
    lab.publish("t", message(id=1, v=2))
    assert [json.loads(row)["w"] for row in lab.query("t")] == [1]
    _seconds(lab, 59)
    lab.publish("t", message(id=1, v=3))
    assert [json.loads(row)["w"] for row in lab.query("t")] == [None]


def test_expiry_is_never_journalled_and_a_replay_at_the_same_clock_agrees(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, "journal", "30s")
    for number in range(1, 7):
        lab.publish("t", message(id=number), expiration=[None, 0, 5, 100][number % 4])
        lab.clock.tick(4)
    entries = [
        record.txid for batch in dump_entries(lab.open(), EntryFilter(topic_names=("t",))) for record in batch.records
    ]
    for second in (20, 24, 34, 38, 60, 130, 1000):
        _seconds(lab, second)
        before = lab.digest("t")
        lab.open().topic("t").expire()
        assert lab.digest("t") == before
        [report] = replay_topics(lab.open(), [lab.open().topic("t").config], ReplayOptions(verify=True))
        assert report.action == "verified"
        lab.forget("t")
        assert lab.digest("t") == before
        lab.open().topic("t").replay()
        assert lab.digest("t") == before
    after = [
        record.txid for batch in dump_entries(lab.open(), EntryFilter(topic_names=("t",))) for record in batch.records
    ]
    assert after == entries


def test_the_past_shows_what_had_not_expired_then(make_lab: MakeLab, kind: str) -> None:
    lab = _lab(make_lab, kind, "30s")
    lab.publish("t", message(id=1))
    _seconds(lab, 20)
    lab.publish("t", message(id=2))
    _seconds(lab, 100)
    if kind != "transient":
        lab.open().topic("t").expire()
    if kind == "alone":
        for second in (0, 29.9):
            with pytest.raises(MissingError) as caught:
                lab.query("t", at=START + round(second * SECOND))
            assert caught.value.code == "SOW-ENG-050", "nothing remembers"
        return
    if kind == "behind":
        lab.forget("t")
    for second, expected in ((-1, []), (0, [1]), (19, [1]), (20, [1, 2]), (29.9, [1, 2]), (30, [2]), (50, [])):
        found = sorted(json.loads(row)["id"] for row in lab.query("t", at=START + round(second * SECOND)))
        assert found == expected, second
    [version] = lab.open().topic("t").versions("1", fields=True, journal=True)
    assert version.until == START + 30 * SECOND
