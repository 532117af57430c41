"""replay: bounds, other places, verification, what is kept aside, what is refused (semantics 1.6, C48)."""

from __future__ import annotations

import shutil
from pathlib import Path

import lmdb
import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.options import ReplayOptions
from sowctl.engine.query import query
from sowctl.engine.replay import replay
from sowctl.engine.reports import ReplayReport
from sowctl.engine.targets import Target
from sowctl.errors import DamageError, MissingError, RefusedError, UsageError
from sowctl.store.check import check_store
from tests.support.damage import overwrite
from tests.support.instances import SECOND, START, Lab, message
from tests.support.stores import tamper


@pytest.fixture(params=["t", "past"])
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _run(lab: Lab, *names: str, **options: object) -> list[ReplayReport]:
    instance = lab.open()
    chosen = [instance.topic(name).config for name in names] if names else instance.topics
    return replay(instance, chosen, ReplayOptions(**options))  # type: ignore[arg-type]


def _timeline(lab: Lab, topic: str) -> None:
    """Ten messages, one second apart, then a deletion: txids 1 to 11."""
    for number in range(10):
        lab.publish(topic, message(id=number % 4, v=number))
        lab.clock.tick(1)
    lab.open().topic(topic).delete(filter="/id = 1")


def _read(path: Path, at: int) -> list[str]:
    result = query(Instance(clock=lambda: at), [Target(path=path)])
    return sorted(record.payload.decode() for record in result.records())


def test_until_a_txid_and_until_an_instant(lab: Lab, topic: str, tmp_path: Path) -> None:
    _timeline(lab, topic)
    live = lab.digest(topic)
    for txid in (0, 1, 5, 10, 11, 99):
        into = tmp_path / f"txid{txid}"
        (report,) = _run(lab, topic, until_txid=txid, into=str(into))
        expected = {number % 4: number for number in range(min(txid, 10))}
        if txid >= 11:
            del expected[1]
        assert _read(into / f"{topic}.json.sow", START) == sorted(message(id=k, v=v) for k, v in expected.items())
        assert (report.action, report.records, report.applied) == ("rebuilt", len(expected), min(txid, 11))
        assert list(check_store(into / f"{topic}.json.sow")) == []
    into = tmp_path / "time"
    (report,) = _run(lab, topic, until_time=START + 2 * SECOND, into=str(into))
    assert _read(into / f"{topic}.json.sow", START) == [message(id=n, v=n) for n in range(3)]
    assert report.entries == 3
    assert lab.digest(topic) == live


def test_until_needs_a_place(lab: Lab) -> None:
    _timeline(lab, "t")
    for options in ({"until_txid": 3}, {"until_time": START}):
        with pytest.raises(UsageError) as caught:
            _run(lab, "t", **options)
        assert caught.value.code == "SOW-RPL-001"
    with pytest.raises(UsageError):
        _run(lab, "t", verify=True, into="x")
    with pytest.raises(UsageError):
        _run(lab, "t", verify=True, until_txid=3)
    assert len(lab.query("t")) == 3


def test_into_does_not_replace_unless_forced(lab: Lab, tmp_path: Path) -> None:
    _timeline(lab, "t")
    _run(lab, "t", into=str(tmp_path / "x"))
    with pytest.raises(RefusedError) as caught:
        _run(lab, "t", into=str(tmp_path / "x"))
    assert caught.value.code == "SOW-RPL-004"
    (report,) = _run(lab, "t", into=str(tmp_path / "x"), force=True, until_txid=2)
    assert report.records == 2
    (report,) = _run(lab, "t", into=str(tmp_path / "y"), dry_run=True)
    assert report.dry_run
    assert not (tmp_path / "y").exists()


def test_a_journal_elsewhere(lab: Lab, topic: str, tmp_path: Path) -> None:
    _timeline(lab, topic)
    shutil.copytree(lab.directory / "journal", tmp_path / "copy")
    before = {path: path.read_bytes() for path in (tmp_path / "copy").iterdir()}
    _run(lab, topic, journal=str(tmp_path / "copy"), into=str(tmp_path / "x"))
    assert _read(tmp_path / "x" / f"{topic}.json.sow", START) == sorted(lab.query(topic))
    assert {path: path.read_bytes() for path in (tmp_path / "copy").iterdir()} == before
    with pytest.raises(MissingError):
        _run(lab, topic, journal=str(tmp_path / "nowhere"), into=str(tmp_path / "z"))


def test_a_rebuild_from_a_journal_elsewhere_needs_the_same_lineage(lab: Lab, tmp_path: Path) -> None:
    _timeline(lab, "t")
    shutil.move(lab.directory / "journal", tmp_path / "away")
    with pytest.raises(MissingError):
        _run(lab, "t")
    lab.forget("t")
    (report,) = _run(lab, "t", journal=str(tmp_path / "away"))
    assert report.action == "rebuilt"
    shutil.move(tmp_path / "away", lab.directory / "journal")
    assert len(lab.query("t")) == 3


def test_verify_agrees_and_writes_nothing(lab: Lab, topic: str) -> None:
    _timeline(lab, topic)
    before = lab.store(topic).read_bytes()
    (report,) = _run(lab, topic, verify=True)
    assert report.action == "verified"
    assert report.digest == lab.digest(topic)
    assert lab.store(topic).read_bytes() == before


@pytest.mark.parametrize("harm", ["changed", "lost", "older"])
def test_verify_notices_what_checksums_cannot(lab: Lab, harm: str, tmp_path: Path) -> None:
    """A record replaced, removed or put back by somebody who knows the format: sums agree, the journal does not."""
    from sowctl.store.codec import encode, stamps
    from sowctl.store.env import Store

    _timeline(lab, "t")
    good = lab.store("t").read_bytes()
    with Store.open(lab.store("t"), write=True) as store:
        with store.snapshot() as snapshot:
            keys, values = next(iter(snapshot.scan()))
        key, value = keys[0], values[0]
        txid, time = stamps(value)

        def change(txn) -> None:  # type: ignore[no-untyped-def]
            if harm == "lost":
                txn.delete([key])
            else:
                at = (txid, time) if harm == "changed" else (txid - 4, time - 4 * SECOND)
                txn.put([key], [encode(key, value[28:36], *at, 0, 0, b'{"id":0,"v":777}')])

        store.write(change)
    assert list(check_store(lab.store("t"))) == []
    (report,) = _run(lab, "t", verify=True)
    assert report.action == "differs"
    assert report.digest != report.other_digest
    assert _run(lab, "t")[0].action == "current", "a sound store at its position is not replaced unasked"
    assert _run(lab, "t", rebuild=True)[0].action == "rebuilt"
    assert _run(lab, "t", verify=True)[0].action == "verified"
    assert good


def test_verify_of_a_damaged_or_missing_store_says_that_it_differs(lab: Lab) -> None:
    _timeline(lab, "t")
    good = lab.store("t").read_bytes()
    overwrite(lab.store("t"), 0, bytes(8192))
    assert _run(lab, "t", verify=True)[0].action == "differs"
    lab.store("t").write_bytes(good)
    _timeline(lab, "quotes")
    assert _run(lab, "quotes", "t", verify=True)[1].action == "verified"


def test_a_damaged_record_is_found_and_the_file_kept_aside(lab: Lab, topic: str) -> None:
    _timeline(lab, topic)
    expected, digest = sorted(lab.query(topic)), lab.digest(topic)
    data = bytearray(lab.store(topic).read_bytes())
    places = [at for at in range(len(data)) if data.startswith(b'"v":8}', at)]
    assert places
    for at in places:
        data[at + 4] ^= 1
    lab.store(topic).write_bytes(bytes(data))
    with pytest.raises(DamageError):
        lab.query(topic)
    (report,) = _run(lab, topic)
    assert report.action == "rebuilt"
    assert Path(str(report.moved)).read_bytes() == bytes(data)
    assert (sorted(lab.query(topic)), lab.digest(topic)) == (expected, digest)
    lab.store(topic).write_bytes(b"again")
    (report,) = _run(lab, topic)
    assert str(report.moved).endswith(".damaged-2")


def test_damage_in_meta_and_versions_is_found(lab: Lab) -> None:
    _timeline(lab, "past")
    digest = lab.digest("past")
    tamper(lab.store("past"), b"meta", b"meta", b"nonsense")
    assert _run(lab, "past")[0].action == "rebuilt"
    assert lab.digest("past") == digest
    with lmdb.open(str(lab.store("past")), subdir=False, max_dbs=8) as env:
        history = env.open_db(b"history")
        with env.begin(db=history) as txn:
            key, value = next(iter(txn.cursor()))
    tamper(lab.store("past"), b"history", bytes(key), bytes(value[:-1]) + b"x")
    (report,) = _run(lab, "past")
    assert report.action == "rebuilt"
    assert lab.digest("past") == digest


def test_a_dry_run_says_what_would_be_done(lab: Lab) -> None:
    _timeline(lab, "t")
    _timeline(lab, "past")
    _timeline(lab, "quotes")
    lab.forget("past")
    good = lab.store("quotes").read_bytes()
    overwrite(lab.store("quotes"), 0, bytes(8192))
    reports = {r.topic: (r.action, r.note) for r in _run(lab, dry_run=True)}
    assert reports["t"] == ("current", "current")
    assert reports["past"] == ("rebuilt", "missing")
    assert reports["quotes"] == ("rebuilt", "damaged")
    assert reports["alone"][0] == "skipped"
    assert not lab.store("past").exists()
    lab.store("quotes").write_bytes(good)


def test_replaying_twice_gives_the_same_bytes_of_content(lab: Lab, topic: str) -> None:
    _timeline(lab, topic)
    digests = set()
    for _ in range(3):
        assert _run(lab, topic, rebuild=True)[0].action == "rebuilt"
        digests.add(lab.digest(topic))
    assert len(digests) == 1


def test_a_replay_of_everything_passes_over_what_no_journal_records(lab: Lab) -> None:
    _timeline(lab, "t")
    lab.publish("alone", message(id=1))
    before = lab.store("alone").read_bytes()
    actions = {report.topic: report.action for report in _run(lab)}
    assert actions["alone"] == "skipped"
    assert actions["t"] == "current"
    assert lab.store("alone").read_bytes() == before


def test_leftovers_of_a_killed_rebuild_are_cleared_away(lab: Lab) -> None:
    _timeline(lab, "t")
    left = lab.store("t").with_name("t.json.sow.new-99999-0")
    left.write_bytes(b"half a store")
    _run(lab, "t", rebuild=True)
    assert not left.exists()
    assert len(lab.query("t")) == 3


def test_verify_tells_a_missing_store_from_a_topic_that_was_never_used(lab: Lab) -> None:
    lab.publish("t", '{"id":1}')
    assert lab.open().topic("quotes").replay(verify=True).action == "skipped"
    lab.forget("t")
    report = lab.open().topic("t").replay(verify=True)
    assert (report.action, report.note) == ("differs", "the store is missing")


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
