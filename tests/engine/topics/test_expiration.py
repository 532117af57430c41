"""Expiration: stamps and boundaries; expire, writers, replays and clock steps (behaviour C34-C41)."""

from __future__ import annotations

import pytest

from sowctl.config.model import Expiration
from sowctl.engine.options import PublishOptions, ReplayOptions
from sowctl.engine.topics.expiration import NO_EXPIRATION, can_expire, count_expired, find_unexpired, is_expired
from sowctl.engine.verbs.replay import replay_topics
from sowctl.store.codec import encode_record
from tests.support.instances import SECOND, START, Lab, config_xml, topic_xml

LIFE = "<Expiration>%s</Expiration>"


def _lab(make_lab, expiration: str, *, journalled: bool = True, name: str = "lab") -> Lab:  # type: ignore[no-untyped-def]
    parts = (LIFE % expiration,) if expiration else ()
    return make_lab(config_xml(topic_xml("e", *parts), ("e",) if journalled else ()), name)


def _reconfigure(lab: Lab, old: str, new: str) -> None:
    lab.config.write_text(lab.config.read_text().replace(old, new))


@pytest.mark.parametrize("kind", ["interval", "enabled", "disabled"])
@pytest.mark.parametrize("now", [9, 10, 11, 20])
@pytest.mark.parametrize("stamps", [[10], [NO_EXPIRATION], [NO_EXPIRATION, 10, 20], [20, 11], []])
def test_one_record_and_many_expire_at_the_same_instant(kind: str, now: int, stamps: list[int]) -> None:
    rule = Expiration(kind, 5 if kind == "interval" else 0)  # type: ignore[arg-type]
    gone = [is_expired(rule, stamp, now) for stamp in stamps]
    assert gone == [can_expire(rule) and stamp != NO_EXPIRATION and now >= stamp for stamp in stamps]
    assert count_expired(rule, stamps, now) == sum(gone)
    if can_expire(rule):
        values = [encode_record(bytes(8), bytes(8), 1, 1, stamp, 0, b"{}") for stamp in stamps]
        assert find_unexpired(values, now) == [place for place, one in enumerate(gone) if not one]


@pytest.fixture(params=[True, False], ids=["journal", "alone"])
def journalled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_an_update_restarts_the_clock(make_lab, journalled: bool) -> None:  # type: ignore[no-untyped-def]  # C34
    lab = _lab(make_lab, "45s", journalled=journalled)
    lab.publish("e", '{"id":1}')
    lab.clock.tick(15)
    lab.publish("e", '{"id":1}')
    lab.clock.tick(35)
    assert lab.query("e") == ['{"id":1}']
    lab.clock.tick(11)
    assert lab.query("e") == []


def test_a_record_is_gone_from_the_instant_of_its_stamp_on(make_lab, journalled: bool) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "45s", journalled=journalled)
    lab.publish("e", '{"id":1}')
    lab.clock.at = START + 45 * SECOND - 1
    assert lab.query("e") == ['{"id":1}']
    assert lab.open().topic("e").expire().expired == 0
    assert lab.publish("e", '{"id":2}', dry_run=True).inserted == 1
    lab.clock.at += 1
    assert lab.query("e") == []
    assert list(lab.open().topic("e").get("1", fields=True)) == []
    assert lab.open().topic("e").expire(dry_run=True).expired == 1
    assert lab.open().topic("e").expire().expired == 1
    assert lab.open().topic("e").expire().expired == 0


def test_a_publisher_may_ask_for_no_end(make_lab) -> None:  # type: ignore[no-untyped-def]  # C35
    lab = _lab(make_lab, "30s")
    lab.publish("e", '{"id":1}', expiration=0)
    lab.clock.tick(1000)
    assert lab.query("e") == ['{"id":1}']


def test_a_publisher_may_ask_for_another_end(make_lab) -> None:  # type: ignore[no-untyped-def]  # C36
    lab = _lab(make_lab, "30s")
    lab.publish("e", '{"id":1}', expiration=300)
    lab.clock.tick(100)
    assert lab.query("e") == ['{"id":1}']
    lab.clock.tick(201)
    assert lab.query("e") == []


def test_enabled_alone_gives_no_end(make_lab) -> None:  # type: ignore[no-untyped-def]  # C37
    lab = _lab(make_lab, "enabled")
    lab.publish("e", '{"id":1}')
    lab.clock.tick(1_000_000)
    assert lab.query("e") == ['{"id":1}']


def test_disabled_keeps_the_stamp_and_the_record(make_lab) -> None:  # type: ignore[no-untyped-def]  # C38
    lab = _lab(make_lab, "disabled")
    lab.publish("e", '{"id":1}', expiration=5)
    lab.clock.tick(60)
    record = lab.records("e")[0]
    assert record.expiration == START + 5 * SECOND
    assert lab.open().topic("e").expire().expired == 0
    assert len(lab.query("e")) == 1


def test_another_interval_in_the_configuration_moves_no_stamp(make_lab) -> None:  # type: ignore[no-untyped-def]  # C39
    lab = _lab(make_lab, "30s")
    lab.publish("e", '{"id":1}')
    lab.clock.tick(10)
    _reconfigure(lab, "30s", "300s")
    lab.clock.tick(21)
    assert lab.query("e") == []
    lab.publish("e", '{"id":2}')
    lab.clock.tick(299)
    assert lab.query("e") == ['{"id":2}']


def test_switching_expiration_off_shows_what_nobody_removed(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "30s")
    lab.publish("e", '{"id":1}')
    lab.clock.tick(31)
    assert lab.query("e") == []
    _reconfigure(lab, "30s", "disabled")
    assert lab.query("e") == ['{"id":1}']


@pytest.mark.parametrize("verb", ["publish", "delete", "expire"])
def test_a_writer_that_starts_removes_what_expired_meanwhile(make_lab, journalled: bool, verb: str) -> None:  # type: ignore[no-untyped-def]  # C40
    lab = _lab(make_lab, "30s", journalled=journalled)
    lab.publish("e", '{"id":1}', '{"id":2}')
    lab.publish("e", '{"id":3}', expiration=0)
    lab.clock.tick(100)
    topic = lab.open().topic("e")
    if verb == "publish":
        topic.publish([b'{"id":4}'])
    elif verb == "delete":
        topic.delete(filter="/id = 3")
    else:
        topic.expire()
    row = lab.open().topic("e").info()
    assert (row.expired, row.records) == (0, {"publish": 2, "delete": 0, "expire": 1}[verb])


def test_an_expired_record_counts_as_new_when_it_comes_again(make_lab, journalled: bool) -> None:  # type: ignore[no-untyped-def]  # section 11, 40
    lab = _lab(make_lab, "30s", journalled=journalled)
    lab.publish("e", '{"id":1}')
    lab.clock.tick(30)
    report = lab.publish("e", '{"id":1}', '{"id":1}')
    assert (report.inserted, report.updated, report.unchanged) == (1, 0, 1)


def test_what_expires_between_two_batches_of_one_run_is_gone_for_the_second(make_lab, journalled: bool) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "30s", journalled=journalled)

    def slowly():  # type: ignore[no-untyped-def]
        yield b'{"id":1}'
        lab.clock.tick(31)
        yield b'{"id":1}'

    report = lab.open().topic("e").publish(slowly(), PublishOptions(batch=1))
    assert (report.inserted, report.unchanged) == (2, 0)


def test_a_clock_that_goes_back_brings_only_unremoved_records_back(make_lab, journalled: bool) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "30s", journalled=journalled)
    lab.publish("e", '{"id":1}')
    lab.clock.tick(31)
    assert lab.query("e") == []
    lab.clock.tick(-10)
    assert lab.query("e") == ['{"id":1}']
    lab.clock.tick(10)
    lab.open().topic("e").expire()
    lab.clock.tick(-10)
    assert lab.query("e") == []
    assert lab.open().topic("e").digest().note is not None


def test_a_step_back_of_the_clock_does_not_shorten_a_life(make_lab) -> None:  # type: ignore[no-untyped-def]
    """The time is raised to the topic's last one, and the stamp counts from there."""
    lab = _lab(make_lab, "30s")
    lab.publish("e", '{"id":1}')
    lab.clock.tick(-3600)
    lab.publish("e", '{"id":2}')
    records = {r.payload: (r.timestamp, r.expiration) for r in lab.records("e")}
    assert records[b'{"id":2}'] == (START, START + 30 * SECOND)


def test_a_rebuild_at_a_later_clock_has_the_same_contents(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "30s")
    lab.publish("e", '{"id":1}')
    lab.clock.tick(20)
    lab.publish("e", '{"id":2}')
    lab.clock.tick(11)
    lab.open().topic("e").expire()
    live = lab.digest("e")
    assert replay_topics(lab.open(), [lab.open().topic("e").config], ReplayOptions(verify=True))[0].action == "verified"
    lab.forget("e")
    assert lab.query("e") == ['{"id":2}']
    lab.open().topic("e").replay()
    assert lab.digest("e") == live
    lab.clock.tick(-5)
    assert lab.query("e") == ['{"id":1}', '{"id":2}'] or lab.query("e") == ['{"id":2}', '{"id":1}']


def test_delete_does_not_see_or_log_what_has_expired(make_lab, journalled: bool) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "30s", journalled=journalled)
    lab.publish("e", '{"id":1}')
    lab.clock.tick(30)
    report = lab.open().topic("e").delete(filter="1=1")
    assert (report.examined, report.matched, report.deleted) == (0, 0, 0)


def test_expire_with_several_topics_and_none(lab: Lab) -> None:
    lab.publish("quotes", '{"id":1}')
    lab.publish("t", '{"id":1}')
    lab.clock.tick(31)
    from sowctl.engine.verbs.expire import expire_records

    reports = expire_records(lab.open(), lab.open().topics)
    assert {r.topic: r.expired for r in reports} == {
        "t": 0, "quotes": 1, "own": 0, "past": 0, "alone": 0, "fading": 0,
    }  # fmt: skip
    assert not lab.store("fading").exists()
