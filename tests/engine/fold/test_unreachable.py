"""Versions outside the window, of keys that are never written again: expire drops them, and no query needs them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sowctl.errors import SowError
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

HOUR = 3600


@pytest.fixture(params=[True, False], ids=["journal", "alone"])
def lab(make_lab: Callable[..., Lab], request: pytest.FixtureRequest) -> Lab:
    """Key 1 has the versions a (12:00) and b (12:30) and is deleted (13:00); key 2 is never changed."""
    history = "<History><Window>1h</Window><Granularity>0s</Granularity></History>"
    lab = make_lab(config_xml(topic_xml("h", history), ("h",) if request.param else ()))
    lab.publish("h", message(id=1, v="a"), message(id=2, v="z"))
    lab.clock.tick(HOUR / 2)
    lab.publish("h", message(id=1, v="b"))
    lab.clock.tick(HOUR / 2)
    lab.open().topic("h").delete(filter="/id = 1")
    return lab


def _versions(lab: Lab) -> int:
    return lab.open().topic("h").info().versions


def test_versions_leave_one_after_the_other(lab: Lab) -> None:
    topic = lab.open().topic
    # a ends at 0:30 after the start, b and the deletion at 1:00
    for hours, left in ((1.5, 3), (1.6, 2), (2, 2), (2.001, 0), (9, 0)):
        lab.clock.at = START + round(hours * HOUR * SECOND)
        found = {at: sorted(lab.query("h", at=lab.clock.at - at * HOUR * SECOND // 4)) for at in range(6)}
        before = _versions(lab)
        assert topic("h").expire(dry_run=True).versions == before - left
        report = topic("h").expire()
        assert (report.versions, report.expired, _versions(lab)) == (before - left, 0, left)
        assert {at: sorted(lab.query("h", at=lab.clock.at - at * HOUR * SECOND // 4)) for at in range(6)} == found
        assert len(list(topic("h").versions("1", fields=True))) == left
    assert lab.query("h") == [message(id=2, v="z")]


def test_a_store_without_them_equals_a_rebuilt_one(make_lab: Callable[..., Lab], lab: Lab) -> None:
    lab.clock.tick(2 * HOUR)
    lab.open().topic("h").expire()
    digest = lab.digest("h")
    if not lab.journals():
        for options in ({"verify": True}, {}):
            with pytest.raises(SowError) as caught:
                lab.open().topic("h").replay(**options)
            assert caught.value.code == "SOW-ENG-020"
        assert lab.digest("h") == digest
        return
    assert lab.open().topic("h").replay(verify=True).action == "verified"
    lab.forget("h")
    assert lab.digest("h") == digest
    lab.open().topic("h").replay()
    assert (lab.digest("h"), _versions(lab)) == (digest, 3)
    assert lab.open().topic("h").expire().versions == 3
    assert lab.digest("h") == digest


def test_a_key_that_comes_again_begins_anew(lab: Lab) -> None:
    lab.clock.tick(2 * HOUR)
    lab.open().topic("h").expire()
    assert lab.publish("h", message(id=1, v="c")).inserted == 1
    assert [record.deleted for record in lab.open().topic("h").versions("1", fields=True)] == [False]
    assert lab.open().topic("h").expire().versions == 0


def test_a_clock_that_goes_back_does_not_make_a_state_up(lab: Lab) -> None:
    """A version dropped at a later clock counts as outside the window, not as an instant before the first publish."""
    lab.clock.tick(2 * HOUR)
    lab.open().topic("h").expire()
    lab.clock.tick(-1.5 * HOUR)
    assert lab.query("h", at=START + HOUR * SECOND) == []
    assert lab.query("h", at=lab.clock.at + 1) == [message(id=2, v="z")]
    lab.clock.tick(1.6 * HOUR)
    assert lab.query("h", at=lab.clock.at - HOUR * SECOND) == [message(id=2, v="z")]


def test_many_keys(make_lab: Callable[..., Lab]) -> None:
    history = "<History><Window>10s</Window><Granularity>0s</Granularity></History>"
    lab = make_lab(config_xml(topic_xml("h", history), ("h",)))
    for value in range(3):
        lab.publish("h", *(message(id=number, v=value) for number in range(1500)))
        lab.clock.tick(1)
    lab.open().topic("h").delete(filter="/id < 700")
    lab.clock.tick(9)  # versions 0 and 1 ended 11 and 10 seconds ago, the deleted ones 9
    assert lab.open().topic("h").expire().versions == 1500
    lab.clock.tick(1.5)
    assert lab.open().topic("h").expire().versions == 1500 + 2 * 700
    assert len(lab.query("h")) == 800
