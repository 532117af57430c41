"""repair: keeps intact records, restores those in the journal, reports lost ones, and brings no deleted one back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sowctl.engine.maintenance import store_repair
from sowctl.engine.reports import RepairItem, RepairReport
from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.upkeep.repair import repair_stores
from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.journal.reader import MAX_REREADS
from sowctl.store.meta import META_KEY
from tests.support.damage import flip_bit, overwrite
from tests.support.instances import Lab, config_xml, message, topic_xml, verified
from tests.support.stores import tamper

HISTORY = "<History><Window>1h</Window><Granularity>0s</Granularity></History>"
TOPICS = ("logged", "alone", "past")


def made(place: Path, journal_size: int | None = None) -> Lab:
    """A journalled topic, one without a journal, one with History, each with updated and deleted records."""
    topics_xml = topic_xml("logged") + topic_xml("alone") + topic_xml("past", HISTORY)
    lab = Lab(place, config_xml(topics_xml, ("logged", "past")))
    lab.journal_size = journal_size
    for topic in TOPICS:
        lab.publish(topic, *(message(id=n, v=0, text="x" * 100) for n in range(400)), batch=50)
        lab.clock.tick(5)
        lab.publish(topic, *(message(id=n, v=1, text="y" * 100) for n in range(0, 400, 3)), batch=50)
        lab.open().topic(topic).delete(filter="/id >= 350")
        lab.publish(topic, message(id=399, v=2))
    return lab


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return made(tmp_path_factory.mktemp("template"))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return made(tmp_path)


def run(lab: Lab, text: str, **options: bool) -> tuple[RepairReport, list[RepairItem]]:
    instance = lab.open()
    (done,) = repair_stores(instance, resolve_targets(instance, text), **options)
    return done.report, list(done.items())


def rows(lab: Lab, topic: str) -> dict[int, str]:
    return {json.loads(row)["id"]: row for row in lab.query(topic)}


def key_of(lab: Lab, topic: str, number: int) -> int:
    return int(lab.records(topic, f"/id = {number}")[0].sow_key)


def spoiled(lab: Lab, topic: str, *numbers: int) -> list[int]:
    """Flip a bit in the payloads of some records; return their SOW keys."""
    keys = []
    path = lab.store(topic)
    for record in [lab.records(topic, f"/id = {number}")[0] for number in numbers]:
        keys.append(int(record.sow_key))
        at = 0
        content = path.read_bytes()
        while (at := content.find(record.value, at + 1)) > 0:
            flip_bit(path, 8 * (at + 45))
    return keys


@pytest.mark.parametrize("topic", TOPICS)
def test_a_sound_store_stays(lab: Lab, topic: str) -> None:
    before = lab.store(topic).read_bytes()
    report, items = run(lab, topic)
    assert (report.action, report.complete, items) == ("sound", True, [])
    assert lab.store(topic).read_bytes() == before


@pytest.mark.parametrize("topic", ["logged", "past"])
def test_damaged_records_come_back_from_their_entries(lab: Lab, topic: str) -> None:
    before, digest = rows(lab, topic), lab.digest(topic)
    txids = {int(record.sow_key): record.txid for record in lab.records(topic, "/id IN (7, 9, 200)")}
    keys = spoiled(lab, topic, 7, 9, 200)
    damaged = lab.store(topic).read_bytes()
    plan, planned = run(lab, topic, dry_run=True)
    assert plan.dry_run
    assert lab.store(topic).read_bytes() == damaged
    with verified(lab):
        report, items = run(lab, topic)
    assert planned == items
    assert {item.sow_key: item.txid for item in items} == txids
    assert {item.state for item in items} == {"restored"}
    assert set(keys) == set(txids)
    assert (report.action, report.restored, report.lost, report.complete) == ("repaired", 3, 0, True)
    assert (rows(lab, topic), lab.digest(topic)) == (before, digest)
    assert Path(str(report.moved)).read_bytes() == damaged
    assert lab.open().topic(topic).replay(verify=True).action == "verified"
    lab.publish(topic, message(id=7, v=9))
    assert rows(lab, topic)[7] == '{"id":7,"v":9}'


def test_files_that_are_pruned_meanwhile_cost_nothing_that_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = made(tmp_path, journal_size=8000)
    first, *between, _ = lab.journals()
    assert between
    before = rows(lab, "logged")
    # The last entry of this record is after the removed file.
    (key,) = spoiled(lab, "logged", 399)
    asked = store_repair.check_position

    def answered(*args: Any) -> int:
        found = asked(*args)
        first.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(store_repair, "check_position", answered)
    report, items = run(lab, "logged")
    assert [(item.state, item.sow_key) for item in items] == [("restored", key)]
    assert (report.restored, report.lost) == (1, 0)
    assert rows(lab, "logged") == before


def test_a_repair_ends_where_files_go_faster_than_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = made(tmp_path, journal_size=2000)
    spoiled(lab, "logged", 399)
    damaged = lab.store("logged").read_bytes()
    asked = store_repair.check_position

    def answered(*args: Any) -> int:
        found = asked(*args)
        lab.journals()[0].unlink()
        return found

    assert len(lab.journals()) > MAX_REREADS
    monkeypatch.setattr(store_repair, "check_position", answered)
    with pytest.raises(MissingError) as caught:
        run(lab, "logged")
    assert caught.value.code == "SOW-JRN-063"
    assert lab.store("logged").read_bytes() == damaged


def test_without_a_journal_the_rest_is_saved_and_the_lost_named(lab: Lab) -> None:
    before = rows(lab, "alone")
    keys = spoiled(lab, "alone", 7, 9)
    with verified(lab):
        report, items = run(lab, "alone")
    assert (report.records, report.lost, report.complete) == (len(before) - 2, 2, False)
    assert sorted((item.sow_key, item.state) for item in items) == sorted((key, "lost") for key in keys)
    assert rows(lab, "alone") == {number: row for number, row in before.items() if number not in (7, 9)}
    assert run(lab, "alone")[0].action == "sound"
    lab.publish("alone", message(id=7, v=9))
    assert len(rows(lab, "alone")) == len(before) - 1


@pytest.mark.parametrize("bit", [0, 63])
def test_a_damaged_key_is_named_by_its_bounds(lab: Lab, bit: int) -> None:
    record = lab.records("alone", "/id = 7")[0]
    key, path = int(record.sow_key), lab.store("alone")
    entry = key.to_bytes(8, "big") + record.value
    content = path.read_bytes()
    at = -1
    while (at := content.find(entry, at + 1)) >= 0:
        flip_bit(path, 8 * (at + 7 - bit // 8) + bit % 8)
    report, items = run(lab, "alone")
    assert (report.lost, report.complete) == (1, False)
    (item,) = items
    assert item.first_key is not None
    assert item.last_key is not None
    assert item.first_key <= key <= item.last_key
    # A key outside the bounds is certainly wrong.
    assert item.sow_key == (key ^ 1 if bit == 0 else None)


@pytest.mark.parametrize("topic", TOPICS)
def test_pages_destroyed_at_random(template: Lab, tmp_path: Path, topic: str, seed: int, deep: bool) -> None:
    """Compare with the records before the damage: no other record appears, and missing ones are reported."""
    chance = random.Random(seed)
    lab = Lab(tmp_path, template.xml, template.clock)
    files = {path.relative_to(template.directory): path for path in template.directory.rglob("*") if path.is_file()}
    before, digest = rows(template, topic), template.digest(topic)
    keys = {int(record.sow_key): json.loads(record.payload)["id"] for record in template.records(topic)}
    lost = restored = 0
    for number in range(60 if deep else 5):
        for name, path in files.items():
            target = tmp_path / name
            target.parent.mkdir(exist_ok=True)
            if not name.name.endswith("-lock"):
                target.write_bytes(path.read_bytes())
        for path in (tmp_path / "sow").glob("*-lock"):
            path.unlink()
        store = lab.store(topic)
        pages = store.stat().st_size // 4096
        for _ in range(chance.randrange(1, 4)):
            place = 4096 * chance.randrange(2, pages)
            if chance.random() < 0.5:
                overwrite(store, place, chance.randbytes(4096))
            else:
                flip_bit(store, 8 * (place + chance.randrange(4096)))
        problem = f"try {number}"
        try:
            report, items = run(lab, topic)
        except RefusedError as error:
            assert (error.code, topic) == ("SOW-STO-072", "alone"), problem
            continue
        found = rows(lab, topic)
        assert {key: row for key, row in found.items() if before.get(key) != row} == {}, problem
        restored += report.restored
        if topic != "alone":
            assert (found, lab.digest(topic)) == (before, digest), problem
            assert lab.open().topic(topic).replay(verify=True).action == "verified", problem
        missing = before.keys() - found.keys()
        lost += len(missing)
        assert report.lost >= len(missing), problem
        assert report.complete == (not missing) or topic == "alone", problem
        for key, name in keys.items():
            if name in missing:
                assert any(
                    item.sow_key == key or (item.first_key or 0) <= key <= (item.last_key or 0)
                    for item in items
                    if item.state == "lost" and item.what == "record"
                ), f"{problem}: {key} is missing, and not said"
        assert run(lab, topic)[0].action == "sound", problem
    print(f"{restored} restored, {lost} lost")
    assert (lost if topic == "alone" else restored) or not deep


@pytest.mark.parametrize("topic", TOPICS)
def test_a_meta_record_that_is_lost(lab: Lab, topic: str) -> None:
    before = rows(lab, topic)
    tamper(lab.store(topic), b"meta", META_KEY, b"SOWSTORE" + bytes(40))
    if topic == "alone":
        instance = lab.open()
        with pytest.raises(RefusedError) as caught:
            list(repair_stores(instance, [Target(path=lab.store(topic))]))
        assert caught.value.code == "SOW-STO-073"
    with verified(lab):
        run(lab, topic)
    assert rows(lab, topic) == before
    lab.publish(topic, message(id=1000))
    assert len(rows(lab, topic)) == len(before) + 1


@pytest.mark.parametrize("content", [b"", b"not a store" * 900])
def test_a_file_of_which_nothing_is_left(lab: Lab, content: bytes) -> None:
    for topic in TOPICS:
        before = rows(lab, topic)
        lab.store(topic).write_bytes(content)
        if topic == "alone":
            with pytest.raises(DamageError) as caught:
                run(lab, topic)
            assert caught.value.code == "SOW-STO-071"
            assert lab.store(topic).read_bytes() == content
        else:
            report, _ = run(lab, topic)
            assert report.complete
            assert rows(lab, topic) == before
            assert lab.open().topic(topic).replay(verify=True).action == "verified"


def test_what_the_journal_deleted_does_not_stay(lab: Lab) -> None:
    """Intact pages of an earlier state, as a disk leaves them after a lost write: the journal overrides them."""
    record = lab.records("logged", "/id = 5")[0]
    key, value = int(record.sow_key).to_bytes(8, "big"), record.value
    lab.open().topic("logged").delete(filter="/id = 5")
    before, digest = rows(lab, "logged"), lab.digest("logged")
    tamper(lab.store("logged"), b"records", key, value)
    report, items = run(lab, "logged")
    assert (report.removed, report.complete) == (1, True)
    assert [(item.sow_key, item.state) for item in items] == [(int(record.sow_key), "removed")]
    assert (rows(lab, "logged"), lab.digest("logged")) == (before, digest)


def test_what_has_expired_and_was_removed_does_not_come_back(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t", "<Expiration>10s</Expiration>"), ("t",)))
    lab.publish("t", *(message(id=n, text="z" * 90) for n in range(50)))
    lab.clock.tick(20)
    lab.publish("t", *(message(id=n, text="z" * 90) for n in range(50, 90)))
    instance = lab.open()
    instance.topic("t").expire()
    lab.publish("t", message(id=90))
    spoiled(lab, "t", 60)
    report, _ = run(lab, "t")
    assert (report.records, report.restored) == (41, 1)
    assert sorted(rows(lab, "t")) == list(range(50, 91))


def test_journals_that_do_not_reach_back(tmp_path: Path) -> None:
    """Records in the remaining files are restored; the others are lost, and reported."""
    lab = made(tmp_path, journal_size=3_000)
    before = rows(lab, "logged")
    keys = spoiled(lab, "logged", 1, 3, 399)
    lab.journals()[0].unlink()
    (tmp_path / "journal" / "test.topics").unlink(missing_ok=True)
    report, items = run(lab, "logged")
    assert report.restored + report.lost == 3
    assert {item.sow_key for item in items} == set(keys)
    states = {item.sow_key: item.state for item in items}
    assert states[keys[2]] == "restored"
    assert report.complete == (report.lost == 0)
    assert rows(lab, "logged").items() <= before.items()


def test_a_damaged_journal_restores_nothing(lab: Lab) -> None:
    spoiled(lab, "logged", 7)
    path = lab.journals()[0]
    flip_bit(path, 8 * (path.stat().st_size // 3))
    report, items = run(lab, "logged")
    assert (report.lost, report.restored, report.complete) == (1, 0, False)
    assert "which is damaged" in str(report.note)
    assert [item.state for item in items] == ["lost"]


def test_a_store_of_another_topic_is_left_alone(lab: Lab) -> None:
    """Its records must not be mixed with those of the topic at whose path it is."""
    spoiled(lab, "alone", 7)
    lab.forget("logged")
    lab.store("alone").rename(lab.store("logged"))
    before = lab.store("logged").read_bytes()
    with pytest.raises(RefusedError) as caught:
        run(lab, "logged")
    assert caught.value.code == "SOW-ENG-023"
    assert lab.store("logged").read_bytes() == before


def test_logical_topics_share_one_store(tmp_path: Path) -> None:
    pattern = topic_xml("orders", "<Pattern>^/orders/.*</Pattern>")
    lab = Lab(tmp_path, config_xml(pattern, ("orders",)))
    for name in ("/orders/a", "/orders/b"):
        instance = lab.open()
        instance.topic(name).publish([message(id=n, of=name).encode() for n in range(40)])
    instance = lab.open()
    done = list(
        repair_stores(instance, [*resolve_targets(instance, "/orders/a"), *resolve_targets(instance, "/orders/b")])
    )
    assert [(one.report.action, one.report.records) for one in done] == [("sound", 80)]
