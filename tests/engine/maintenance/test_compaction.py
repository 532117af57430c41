"""compact: which stores it compacts, what it reports of them, and which files it removes with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.maintenance.compaction import NO_SMALLER_REASON, SPARE_PAGES
from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.upkeep.compact import compact_stores
from sowctl.errors import DamageError
from sowctl.memo.directory import MemoDirectory
from tests.support.instances import Lab, config_xml, message, topic_xml, verified
from tests.support.stores import tamper, value_of


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path, config_xml(topic_xml("t") + topic_xml("u") + topic_xml("none"), ("t",)))
    for topic in "tu":
        lab.publish(topic, *(message(id=n, text="x" * 200) for n in range(2000)))
        lab.open().topic(topic).delete(filter="/id >= 400")
    return lab


def test_all_stores_that_there_are(lab: Lab) -> None:
    before = {topic: (lab.digest(topic), lab.query(topic, order_by="/id")) for topic in "tu"}
    instance = lab.open()
    with verified(lab):
        reports = list(compact_stores(instance, [Target(topic=topic) for topic in instance.topics]))
    assert [(report.topic, report.action, report.records) for report in reports] == [
        ("t", "compacted", 400),
        ("u", "compacted", 400),
    ]
    for report in reports:
        assert 0.5 < report.free_before < 1
        assert report.bytes_after < report.bytes_before / 2
        assert report.bytes_after == lab.store(report.topic).stat().st_size
        assert (report.digest, lab.query(report.topic, order_by="/id")) == before[report.topic]
    assert lab.open().topic("t").replay(verify=True).action == "verified"
    lab.publish("t", message(id=1, text="new"))
    assert lab.query("t", "/id = 1") == ['{"id":1,"text":"new"}']


def test_a_dry_run_says_how_large_at_most(lab: Lab) -> None:
    instance = lab.open()
    content = lab.store("t").read_bytes()
    (plan,) = compact_stores(instance, resolve_targets(instance, "t"), dry_run=True)
    assert plan.dry_run
    assert lab.store("t").read_bytes() == content
    (done,) = compact_stores(instance, [Target(path=lab.store("t"))])
    assert done.bytes_after <= plan.bytes_after < plan.bytes_before


def test_only_stores_with_many_free_pages(lab: Lab) -> None:
    instance = lab.open()
    list(compact_stores(instance, resolve_targets(instance, "t")))
    done = [report.action for report in compact_stores(instance, resolve_targets(instance, "[tu]"), min_free=0.5)]
    assert done == ["left", "compacted"]


def test_a_store_whose_copy_is_no_smaller_is_left(lab: Lab) -> None:
    instance, small = lab.open(), Lab(lab.directory / "small", config_xml(topic_xml("t"), ("t",)))
    small.publish("t", *(message(id=n) for n in range(7)))
    before = small.store("t").stat()
    targets = resolve_targets(small.open(), "t")
    (plan,) = compact_stores(small.open(), targets, dry_run=True)
    assert (plan.action, plan.note, plan.bytes_after) == ("left", NO_SMALLER_REASON, plan.bytes_before)
    (left,) = compact_stores(small.open(), targets)
    assert (left.action, left.note) == ("left", NO_SMALLER_REASON)
    assert left.bytes_before == left.bytes_after == before.st_size
    assert small.store("t").stat().st_ino == before.st_ino
    assert not [path for path in small.store("t").parent.iterdir() if ".new-" in path.name]
    (done,) = compact_stores(small.open(), targets, always=True)
    assert done.action == "compacted" and small.store("t").stat().st_ino != before.st_ino
    list(compact_stores(instance, resolve_targets(instance, "t")))
    assert next(compact_stores(instance, resolve_targets(instance, "t"))).action == "left"


def test_a_dry_run_looks_into_half_full_pages(tmp_path: Path) -> None:
    """No page is free: only a copy shows that the store gets smaller; the copy is removed."""
    lab = Lab(tmp_path / "loose", config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=n, text="x" * 900) for n in range(600)))
    targets = resolve_targets(lab.open(), "t")
    list(compact_stores(lab.open(), targets))
    # Each of these splits a page that was full.
    for first in range(600, 700, 2):
        lab.publish("t", *(message(id=n, text="x" * 900) for n in range(first, first + 2)))
    (plan,) = compact_stores(lab.open(), targets, dry_run=True)
    (done,) = compact_stores(lab.open(), targets)
    assert (plan.action, done.action) == ("compacted", "compacted")
    assert done.free_before * done.bytes_before / 4096 <= SPARE_PAGES
    assert done.bytes_before - done.bytes_after > 100_000
    assert abs(plan.bytes_after - done.bytes_after) <= 65536


def test_indexes_stay_and_places_go(lab: Lab) -> None:
    lab.query("t", "/id > 5", index_from=0)
    directory = MemoDirectory(lab.store("t"))
    names = directory.list_columns()
    assert names
    instance = lab.open()
    list(compact_stores(instance, resolve_targets(instance, "t")))
    assert directory.list_columns() == names
    assert not (directory.path / "spots.memo").exists()
    assert len(lab.query("t", "/id > 395", index_from=0)) == 4


def test_damage_names_what_helps(lab: Lab) -> None:
    record = lab.records("t", "/id = 7")[0]
    key = int(record.sow_key).to_bytes(8, "big")
    tamper(lab.store("t"), b"records", key, value_of(bytes(8), 1, b"of another key"))
    instance, done = lab.open(), []
    with pytest.raises(DamageError) as caught:
        for report in compact_stores(instance, resolve_targets(instance, "[tu]")):
            done.append((report.topic, report.action))
    assert "store repair" in str(caught.value.hint)
    assert done == [("u", "compacted")], "the other stores are done before the error"


def test_what_killed_builders_left_goes(lab: Lab) -> None:
    left = lab.store("t").with_name("t.json.sow.new-999999999-0")
    left.write_bytes(b"half a store")
    instance = lab.open()
    (report,) = compact_stores(instance, resolve_targets(instance, "t"))
    assert report.leftovers == 1
    assert not left.exists()
