"""replay: bounds, other targets, stores kept aside, rejected requests (behaviour 1.6, C48)."""

from __future__ import annotations

import shutil
from pathlib import Path

import lmdb
import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.query import start_query
from sowctl.errors import DamageError, MissingError, RefusedError, UsageError
from sowctl.store.check import check_store
from tests.support.damage import overwrite
from tests.support.instances import SECOND, START, Lab, message
from tests.support.replays import run, timeline
from tests.support.stores import tamper


@pytest.fixture(params=["t", "past"])
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _read(path: Path, at: int) -> list[str]:
    result = start_query(Instance(clock=lambda: at), [Target(path=path)])
    return sorted(record.payload.decode() for record in result.iterate_records())


def test_until_a_txid_and_until_an_instant(lab: Lab, topic: str, tmp_path: Path) -> None:
    timeline(lab, topic)
    live = lab.digest(topic)
    for txid in (0, 1, 5, 10, 11, 99):
        into = tmp_path / f"txid{txid}"
        (report,) = run(lab, topic, until_txid=txid, into=str(into))
        expected = {number % 4: number for number in range(min(txid, 10))}
        if txid >= 11:
            del expected[1]
        assert _read(into / f"{topic}.json.sow", START) == sorted(message(id=k, v=v) for k, v in expected.items())
        assert (report.action, report.records, report.applied) == ("rebuilt", len(expected), min(txid, 11))
        assert list(check_store(into / f"{topic}.json.sow")) == []
    into = tmp_path / "time"
    (report,) = run(lab, topic, until_time=START + 2 * SECOND, into=str(into))
    assert _read(into / f"{topic}.json.sow", START) == [message(id=n, v=n) for n in range(3)]
    assert report.entries == 3
    assert lab.digest(topic) == live


def test_until_needs_a_place(lab: Lab) -> None:
    timeline(lab, "t")
    for options in ({"until_txid": 3}, {"until_time": START}):
        with pytest.raises(UsageError) as caught:
            run(lab, "t", **options)
        assert caught.value.code == "SOW-RPL-001"
    with pytest.raises(UsageError):
        run(lab, "t", verify=True, into="x")
    with pytest.raises(UsageError):
        run(lab, "t", verify=True, until_txid=3)
    assert len(lab.query("t")) == 3


def test_into_does_not_replace_unless_forced(lab: Lab, tmp_path: Path) -> None:
    timeline(lab, "t")
    run(lab, "t", into=str(tmp_path / "x"))
    with pytest.raises(RefusedError) as caught:
        run(lab, "t", into=str(tmp_path / "x"))
    assert caught.value.code == "SOW-RPL-004"
    (report,) = run(lab, "t", into=str(tmp_path / "x"), force=True, until_txid=2)
    assert report.records == 2
    (report,) = run(lab, "t", into=str(tmp_path / "y"), dry_run=True)
    assert report.dry_run
    assert not (tmp_path / "y").exists()


def test_a_journal_elsewhere(lab: Lab, topic: str, tmp_path: Path) -> None:
    timeline(lab, topic)
    shutil.copytree(lab.directory / "journal", tmp_path / "copy")
    before = {path: path.read_bytes() for path in (tmp_path / "copy").iterdir()}
    run(lab, topic, journal=str(tmp_path / "copy"), into=str(tmp_path / "x"))
    assert _read(tmp_path / "x" / f"{topic}.json.sow", START) == sorted(lab.query(topic))
    assert {path: path.read_bytes() for path in (tmp_path / "copy").iterdir()} == before
    with pytest.raises(MissingError):
        run(lab, topic, journal=str(tmp_path / "nowhere"), into=str(tmp_path / "z"))


def test_a_rebuild_from_a_journal_elsewhere_needs_the_same_lineage(lab: Lab, tmp_path: Path) -> None:
    timeline(lab, "t")
    shutil.move(lab.directory / "journal", tmp_path / "away")
    with pytest.raises(MissingError):
        run(lab, "t")
    lab.forget("t")
    (report,) = run(lab, "t", journal=str(tmp_path / "away"))
    assert report.action == "rebuilt"
    shutil.move(tmp_path / "away", lab.directory / "journal")
    assert len(lab.query("t")) == 3


def test_a_damaged_record_is_found_and_the_file_kept_aside(lab: Lab, topic: str) -> None:
    timeline(lab, topic)
    expected, digest = sorted(lab.query(topic)), lab.digest(topic)
    data = bytearray(lab.store(topic).read_bytes())
    places = [at for at in range(len(data)) if data.startswith(b'"v":8}', at)]
    assert places
    for at in places:
        data[at + 4] ^= 1
    lab.store(topic).write_bytes(bytes(data))
    with pytest.raises(DamageError):
        lab.query(topic)
    (report,) = run(lab, topic)
    assert report.action == "rebuilt"
    assert Path(str(report.moved)).read_bytes() == bytes(data)
    assert (sorted(lab.query(topic)), lab.digest(topic)) == (expected, digest)
    lab.store(topic).write_bytes(b"again")
    (report,) = run(lab, topic)
    assert str(report.moved).endswith(".damaged-2")


def test_damage_in_meta_and_versions_is_found(lab: Lab) -> None:
    timeline(lab, "past")
    digest = lab.digest("past")
    tamper(lab.store("past"), b"meta", b"meta", b"nonsense")
    assert run(lab, "past")[0].action == "rebuilt"
    assert lab.digest("past") == digest
    with lmdb.open(str(lab.store("past")), subdir=False, max_dbs=8) as env:
        history = env.open_db(b"history")
        with env.begin(db=history) as txn:
            key, value = next(iter(txn.cursor()))
    tamper(lab.store("past"), b"history", bytes(key), bytes(value[:-1]) + b"x")
    (report,) = run(lab, "past")
    assert report.action == "rebuilt"
    assert lab.digest("past") == digest


def test_a_dry_run_says_what_would_be_done(lab: Lab) -> None:
    timeline(lab, "t")
    timeline(lab, "past")
    timeline(lab, "quotes")
    lab.forget("past")
    good = lab.store("quotes").read_bytes()
    overwrite(lab.store("quotes"), 0, bytes(8192))
    reports = {r.topic: (r.action, r.note) for r in run(lab, dry_run=True)}
    assert reports["t"] == ("current", "current")
    assert reports["past"] == ("rebuilt", "missing")
    assert reports["quotes"] == ("rebuilt", "damaged")
    assert reports["alone"][0] == "skipped"
    assert not lab.store("past").exists()
    lab.store("quotes").write_bytes(good)


def test_replaying_twice_gives_the_same_bytes_of_content(lab: Lab, topic: str) -> None:
    timeline(lab, topic)
    digests = set()
    for _ in range(3):
        assert run(lab, topic, rebuild=True)[0].action == "rebuilt"
        digests.add(lab.digest(topic))
    assert len(digests) == 1


def test_a_replay_of_everything_passes_over_what_no_journal_records(lab: Lab) -> None:
    timeline(lab, "t")
    lab.publish("alone", message(id=1))
    before = lab.store("alone").read_bytes()
    actions = {report.topic: report.action for report in run(lab)}
    assert actions["alone"] == "skipped"
    assert actions["t"] == "current"
    assert lab.store("alone").read_bytes() == before


def test_leftovers_of_a_killed_rebuild_are_cleared_away(lab: Lab) -> None:
    timeline(lab, "t")
    left = lab.store("t").with_name("t.json.sow.new-99999-0")
    left.write_bytes(b"half a store")
    run(lab, "t", rebuild=True)
    assert not left.exists()
    assert len(lab.query("t")) == 3


@pytest.mark.parametrize("topic", ["t", "past"])
def test_a_store_of_an_earlier_time_stands_where_it_ends_and_catches_up(lab: Lab, topic: str) -> None:
    lab.publish(topic, '{"id":1,"v":1}', '{"id":2}')
    then = lab.clock.at
    lab.clock.tick(20)
    lab.publish(topic, '{"id":1,"v":2}')
    lab.open().topic(topic).delete(filter="/id = 2")
    live = lab.digest(topic)
    aside = lab.directory / "aside"
    report = lab.open().topic(topic).replay(until_time=then, into=str(aside))
    assert (report.entries, report.records, report.applied) == (2, 2, 2)
    lab.forget(topic)
    (aside / lab.store(topic).name).rename(lab.store(topic))
    assert lab.query(topic) == ['{"id":1,"v":2}']
    assert lab.open().topic(topic).replay().action == "caught up"
    assert lab.digest(topic) == live
