"""expire: how many records and versions are removed, topic by topic; a dry run says so and removes nothing."""

from __future__ import annotations

from sowctl.engine.reports import ExpireReport
from sowctl.engine.verbs.expire import expire
from tests.support.instances import Lab, message


def _expire(lab: Lab, *, dry_run: bool = False) -> dict[str, ExpireReport]:
    instance = lab.open()
    return {report.topic: report for report in expire(instance, instance.topics, dry_run=dry_run)}


def test_every_topic_is_reported_in_the_order_of_the_configuration(lab: Lab) -> None:
    found = _expire(lab)
    assert list(found) == [topic.name for topic in lab.open().topics]
    assert all((one.expired, one.versions, one.now) == (0, 0, lab.clock.at) for one in found.values())


def test_records_are_removed_once(lab: Lab) -> None:
    lab.publish("quotes", message(id=1), message(id=2))
    lab.clock.tick(20)
    lab.publish("quotes", message(id=2))
    lab.clock.tick(10)
    assert (_expire(lab, dry_run=True)["quotes"].expired, lab.open().topic("quotes").info().records) == (1, 1)
    assert [_expire(lab)["quotes"].expired for _ in range(2)] == [1, 0]
    assert lab.query("quotes") == [message(id=2)]


def test_versions_outside_of_the_window_are_removed_and_records_stay(lab: Lab) -> None:
    for value in range(3):
        lab.publish("past", message(id=1, v=value))
        lab.clock.tick(60)
    lab.clock.tick(7200)
    said = _expire(lab, dry_run=True)["past"]
    assert (said.expired, said.dry_run) == (0, True)
    assert said.versions > 0
    assert [_expire(lab)["past"].versions for _ in range(2)] == [said.versions, 0]
    assert lab.query("past") == [message(id=1, v=2)]


def test_a_topic_of_which_nothing_expires_is_not_opened(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    before = lab.store("t").read_bytes()
    assert _expire(lab)["t"].expired == 0
    assert lab.store("t").read_bytes() == before
