"""info: its report on a topic's configuration (``sow-config(5)``, intervals), and the record count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.instances import Lab, config_xml, keep_store, message, put_back, topic_xml


@pytest.mark.parametrize(
    ("parts", "expiration", "history"),
    [
        ((), "disabled", None),
        (("<Expiration>45s</Expiration>",), "45s", None),
        (("<Expiration>600s</Expiration>",), "10m", None),
        (("<Expiration>enabled</Expiration>",), "enabled", None),
        (
            ("<History><Window>3650d</Window><Granularity>1500ms</Granularity></History>",),
            "disabled",
            "window 3650d, granularity 1500ms",
        ),
    ],
)
def test_intervals_are_written_as_a_configuration_writes_them(
    tmp_path: Path, parts: tuple[str, ...], expiration: str, history: str | None
) -> None:
    info = Lab(tmp_path, config_xml(topic_xml("t", *parts), ("t",))).open().topic("t").info()
    assert (info.expiration, info.history) == (expiration, history)


def _counts(lab: Lab) -> tuple[int, int]:
    """Return the counts of info after comparing them with a query."""
    info = lab.open().topic("t").info()
    assert info.records == lab.open().topic("t").query().count()
    return info.records, info.expired


EXPIRING = "<Expiration>30s</Expiration>"


def test_what_has_expired_since_it_was_journalled_is_not_counted(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t", EXPIRING), ("t",)))
    lab.publish("t", *[message(id=number) for number in range(4)])
    keep_store(lab, "t", tmp_path / "kept")
    lab.clock.tick(20)
    lab.publish("t", message(id=3), *[message(id=number) for number in range(10, 13)])
    put_back(lab, "t", tmp_path / "kept")
    assert _counts(lab) == (7, 0)
    assert lab.open().topic("t").info().lag == 4
    lab.clock.tick(15)
    assert _counts(lab) == (4, 3)
    lab.clock.tick(20)
    assert _counts(lab) == (0, 7)


@pytest.mark.parametrize("lost", [False, True])
def test_records_of_a_topic_without_a_store_are_those_of_the_journals(tmp_path: Path, lost: bool) -> None:
    part = "" if lost else "<Durability>transient</Durability>"
    lab = Lab(tmp_path, config_xml(topic_xml("t", EXPIRING + part, file="sow/%n.sow" if lost else None), ("t",)))
    if lost:
        lab.publish("t", message(id=1))
        lab.forget("t")
    else:
        lab.publish("t", message(id=1))
    lab.clock.tick(20)
    lab.publish("t", *[message(id=number) for number in range(5, 9)])
    if lost:
        lab.forget("t")
    lab.open().topic("t").delete(filter="/id = 8")
    if lost:
        lab.forget("t")
    assert _counts(lab) == (4, 0)
    lab.clock.tick(15)
    assert _counts(lab) == (3, 1)
    assert lab.open().topic("t").info().state == ("no store" if lost else "transient")
