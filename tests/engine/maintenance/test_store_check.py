"""store check: its report, and the record of the check beside the store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.check import CheckRun, check_instance
from sowctl.store.check import CheckScope
from sowctl.store.repair.checked_ranges import build_ranges_path
from sowctl.values.times import format_time
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.stores import tamper, value_of


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path, config_xml(topic_xml("t") + topic_xml("u") + topic_xml("none"), ("t",)))
    for topic in "tu":
        lab.publish(topic, *(message(id=n, text="x" * 100) for n in range(3000)))
    return lab


def run(lab: Lab, **how: object) -> tuple[list[str], CheckRun]:
    instance = lab.open()
    targets = [Target(topic=topic) for topic in instance.topics]
    done = check_instance(instance, targets, CheckScope(instance.now, **how))  # type: ignore[arg-type]
    return [finding.id for finding in done], done


def test_coverage_is_stated(lab: Lab) -> None:
    ids, done = run(lab)
    assert ids == []
    assert re.findall(r"[\d.]+%", done.coverage)[:2] == ["0.0%", "100.0%"]
    assert (done.report.stores, done.report.data_read, done.report.never_read, done.report.oldest_read) == (
        2,
        0,
        1,
        None,
    )
    assert done.status == 0
    assert not build_ranges_path(lab.store("t")).exists()
    ids, done = run(lab, share=0.5)
    assert ids == []
    assert 0.5 <= (done.report.data_read or 0) < 0.6
    assert done.report.never_read == pytest.approx(1 - (done.report.data_read or 0))
    assert done.report.oldest_read == lab.clock.at
    first = lab.clock.at
    lab.clock.tick(60)
    ids, done = run(lab, share=0.6)
    assert (done.report.never_read, done.report.oldest_read) == (0, first)
    assert format_time(first) in done.coverage
    assert "t.json.sow: 39.9% " in done.coverage.split("not verified")[1]


def test_damage_has_the_status_of_damage(lab: Lab) -> None:
    key = int(lab.records("t", "/id = 7")[0].sow_key).to_bytes(8, "big")
    tamper(lab.store("t"), b"records", key, value_of(bytes(8), 1, b"of another key"))
    assert run(lab)[1].status == 0, "the structure is sound"
    ids, done = run(lab, share=1.0)
    assert "SOW-STO-001" in ids
    assert done.status == 5


def test_time_is_shared(lab: Lab) -> None:
    done = run(lab, seconds=60.0)[1]
    assert (done.report.data_read, done.report.never_read) == (1, 0)
    assert run(lab, seconds=0.0)[1].report.data_read == 0
