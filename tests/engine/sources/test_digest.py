"""The digest of a state: it depends only on the records, not on their history, and includes unapplied entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.sources.digest import Digest, compute_digest, format_digest
from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.errors import MissingError
from sowctl.store.integrity import DIGEST_MODULUS
from tests.support.instances import SECOND, Lab, keep_store, message, numbered, put_back


def _digest(lab: Lab, topic: str = "t", at: int | None = None) -> Digest:
    return compute_digest(lab.open(), resolve_targets(lab.open(), topic)[0], at)


def test_what_it_says(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    found = _digest(lab)
    assert (found.topic, found.message_type, found.records, found.versions, found.txid) == ("t", "json", 3, 0, 3)
    assert (len(found.digest), found.note) == (32, None)
    assert compute_digest(lab.open(), Target(path=lab.store("t"))) == found


def test_entries_that_the_store_has_not_count_and_those_that_they_replace_do_not(lab: Lab, tmp_path: Path) -> None:
    numbered(lab, "t", 1, 3)
    keep_store(lab, "t", tmp_path / "kept")
    lab.publish("t", message(id=2, v=1), message(id=4))
    lab.open().topic("t").delete(filter="/id = 1")
    expected = _digest(lab)
    put_back(lab, "t", tmp_path / "kept")
    assert _digest(lab) == expected
    lab.forget("t")
    assert _digest(lab) == expected
    lab.open().topic("t").replay()
    assert _digest(lab) == expected


def test_what_has_expired_does_not_count_whether_it_was_removed_or_not(lab: Lab) -> None:
    lab.publish("quotes", message(id=1))
    lab.clock.tick(20)
    lab.publish("quotes", message(id=2))
    lab.clock.tick(10)
    hidden = _digest(lab, "quotes")
    assert hidden.records == 1
    lab.open().topic("quotes").expire()
    assert _digest(lab, "quotes") == hidden


def test_a_clock_before_the_latest_removal_is_said(lab: Lab) -> None:
    lab.publish("quotes", message(id=1))
    lab.clock.tick(30)
    lab.open().topic("quotes").expire()
    lab.clock.tick(-20)
    note = _digest(lab, "quotes").note
    assert note is not None
    assert "a rebuilt store" in note
    lab.clock.tick(20)


def test_retained_versions_count_now_and_not_as_of_an_instant(lab: Lab) -> None:
    lab.publish("past", message(id=1, v=1))
    lab.clock.tick(60)
    then = _digest(lab, "past")
    lab.publish("past", message(id=1, v=2))
    now = _digest(lab, "past")
    assert (now.records, now.versions) == (1, 1)
    earlier = _digest(lab, "past", lab.clock.at - 30 * SECOND)
    assert (earlier.digest, earlier.records, earlier.versions) == (then.digest, 1, 0)


def test_of_no_records_it_is_zero_and_of_no_topic_an_error(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.open().topic("t").delete(filter="/id = 1")
    assert _digest(lab).digest == "0" * 32
    with pytest.raises(MissingError):
        _digest(lab, "alone")


def test_a_sum_below_zero_is_taken_from_the_modulus() -> None:
    assert format_digest(-1) == "f" * 32
    assert format_digest(DIGEST_MODULUS + 10) == f"{10:032x}"
