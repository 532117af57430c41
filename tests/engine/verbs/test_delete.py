"""delete: selectors, counts, journal entries, remaining records (behaviour C27-C33, section 1.4)."""

from __future__ import annotations

from functools import partial

import pytest

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.options import DeleteOptions
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.delete import DELETE_LIMITS, delete_records
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.errors import DamageError, InputError, MissingError, UsageError
from sowctl.journal.writer import JournalWriter
from sowctl.store.write import WriteTxn
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml


@pytest.fixture(params=["t", "alone", "past"])
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _five(lab: Lab, topic: str) -> None:
    lab.publish(topic, *(message(id=n, s="ab"[n % 2]) for n in range(1, 6)))


def _entries(lab: Lab, **wanted: object) -> list[tuple[int, str, bytes]]:
    found = dump_entries(lab.open(), EntryFilter(**wanted))  # type: ignore[arg-type]
    return [(r.txid, str(r.extra["operation"]), r.payload) for batch in found for r in batch.records]


def test_a_filter_deletes_what_it_matches(lab: Lab, topic: str) -> None:  # C27
    _five(lab, topic)
    report = lab.open().topic(topic).delete(filter="/s = 'a'")
    assert (report.examined, report.matched, report.deleted) == (5, 2, 2)
    assert len(lab.query(topic)) == 3
    assert lab.open().topic(topic).info().records == 3


def test_everything_goes_and_the_file_keeps_its_size(lab: Lab) -> None:  # C28
    _five(lab, "t")
    size = lab.store("t").stat().st_size
    assert lab.open().topic("t").delete(filter="1=1").deleted == 5
    assert lab.query("t") == []
    assert lab.store("t").stat().st_size >= size


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_filter_is_refused(lab: Lab, text: str) -> None:
    _five(lab, "t")
    with pytest.raises(UsageError):
        lab.open().topic("t").delete(filter=text)
    assert len(lab.query("t")) == 5


def test_data_deletes_the_record_with_its_key(lab: Lab, topic: str) -> None:  # C29
    _five(lab, topic)
    report = lab.open().topic(topic).delete(data=[b'{"id":1,"foo":9}', b'{"id":1}', b'{"id":77}'])
    assert (report.matched, report.deleted) == (1, 1)
    assert len(lab.query(topic)) == 4


def test_data_without_a_key_is_refused(lab: Lab) -> None:
    _five(lab, "t")
    for data in (b'{"x":1}', b"{bad"):
        with pytest.raises(InputError) as caught:
            lab.open().topic("t").delete(data=[b'{"id":1}', data])
        assert caught.value.code == "SOW-DEL-004"
    lab.publish("own", '{"x":1}', sow_key="AAA")
    with pytest.raises(UsageError):
        lab.open().topic("own").delete(data=[b'{"x":1}'])
    assert (len(lab.query("t")), len(lab.query("own"))) == (5, 1)


def test_unknown_keys_are_no_error(lab: Lab, topic: str) -> None:  # C30
    _five(lab, topic)
    key = lab.records(topic, "/id = 1")[0].sow_key
    report = lab.open().topic(topic).delete(sow_keys=[str(key), "12345", str(key)])
    assert (report.matched, report.deleted) == (1, 1)
    assert len(lab.query(topic)) == 4
    assert lab.open().topic(topic).delete(sow_keys=[str(key)]).deleted == 0


def test_user_keys_delete_by_their_own_text(lab: Lab) -> None:
    lab.publish("own", '{"x":1}', sow_key="AAA")
    lab.publish("own", '{"x":2}', sow_key="BBB")
    assert lab.open().topic("own").delete(sow_keys=["AAA", "CCC"]).deleted == 1
    assert lab.query("own") == ['{"x":2}']


def test_exactly_one_selector(lab: Lab) -> None:  # C31
    _five(lab, "t")
    handle = lab.open().topic("t")
    for selectors in ({}, {"filter": "1=1", "sow_keys": ["1"]}, {"filter": "1=1", "data": [b"{}"]}):
        with pytest.raises(UsageError) as caught:
            handle.delete(**selectors)  # type: ignore[arg-type]
        assert caught.value.code == "SOW-DEL-001"
    assert len(lab.query("t")) == 5


def test_a_pattern_names_several_topics(make_lab) -> None:  # type: ignore[no-untyped-def]  # C32
    names = ("T1", "T2", "T30")
    lab = make_lab(config_xml("".join(map(topic_xml, names)), names))
    for name in names:
        lab.publish(name, '{"id":1}', '{"id":2}')
    instance = lab.open()
    reports = delete_records(instance, resolve_targets(instance, "^T.$"), DeleteOptions(filter="/id = 1"))
    assert [(r.topic, r.deleted) for r in reports] == [("T1", 1), ("T2", 1)]
    assert [len(lab.query(name)) for name in names] == [1, 1, 2]


def test_the_journal_keeps_the_publish_and_gains_a_delete(lab: Lab) -> None:  # C33
    lab.publish("t", '{"id":1}')
    lab.clock.tick(5)
    lab.open().topic("t").delete(filter="/id = 1")
    assert _entries(lab) == [(1, "publish", b'{"id":1}'), (2, "delete", b"")]


def test_a_delete_of_many_is_one_group_of_keys(lab: Lab) -> None:
    _five(lab, "t")
    lab.open().topic("t").delete(filter="/s = 'b'")
    rows = _entries(lab, from_txid=6)
    assert [operation for _, operation, _ in rows] == ["delete"] * 3
    lab.publish("t", '{"id":6,"s":"b"}')
    lab.forget("t")
    assert len(lab.query("t")) == 3, "a replay deletes the keys, it does not filter again"


def test_deleting_nothing_writes_nothing(lab: Lab, topic: str) -> None:
    _five(lab, topic)
    before = lab.open().topic(topic).info().last_txid
    assert lab.open().topic(topic).delete(filter="/id = 77").deleted == 0
    assert lab.open().topic(topic).info().last_txid == before


def test_a_dry_run_counts_only(lab: Lab, topic: str) -> None:
    _five(lab, topic)
    report = lab.open().topic(topic).delete(filter="/s = 'a'", dry_run=True)
    assert (report.matched, report.deleted, report.dry_run) == (2, 0, True)
    key = lab.records(topic, "/id = 1")[0].sow_key
    assert lab.open().topic(topic).delete(sow_keys=[str(key), "5"], dry_run=True).matched == 1
    assert len(lab.query(topic)) == 5


def test_a_bad_filter_fails_before_anything_is_opened(lab: Lab) -> None:
    with pytest.raises(UsageError):
        lab.open().topic("t").delete(filter="/id = = 1")
    assert not lab.store("t").exists()


def test_a_bare_file_cannot_be_changed(lab: Lab) -> None:
    _five(lab, "t")
    instance = lab.open()
    with pytest.raises(UsageError):
        delete_records(instance, resolve_targets(instance, str(lab.store("t"))), DeleteOptions(filter="1=1"))
    with pytest.raises(MissingError):
        instance.topic("nowhere")


def test_a_deleted_record_is_new_when_it_comes_again(lab: Lab, topic: str) -> None:
    _five(lab, topic)
    lab.open().topic(topic).delete(filter="/id = 1")
    assert lab.publish(topic, '{"id":1,"s":"b"}').inserted == 1
    assert len(lab.query(topic)) == 5


def test_a_delete_at_an_earlier_clock_gets_the_topics_last_time(lab: Lab) -> None:
    _five(lab, "past")
    lab.clock.tick(-3600)
    lab.open().topic("past").delete(filter="/id = 1")
    assert len(lab.query("past")) == 4
    lab.clock.at = START + 10 * SECOND
    assert len(lab.query("past", at=START - 1)) == 0
    assert len(lab.query("past", at=START)) == 4


def test_a_delete_by_filter_takes_the_way_of_a_query(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from sowctl.engine.search import index_access
    from sowctl.engine.search.scan import open_access

    used: list[object] = []
    found = index_access.open_index_access
    monkeypatch.setattr(
        index_access, "open_index_access", lambda *given, **more: used.append(found(*given, **more)) or used[-1]
    )
    monkeypatch.setattr("sowctl.engine.verbs.delete.open_access", partial(open_access, index_from=0))
    lab.publish("t", *(message(id=n, v=n % 10) for n in range(200)))
    for dry in (True, False):
        report = lab.open().topic("t").delete(filter="/v = 3 AND /id > 100", dry_run=dry)
        assert (report.examined, report.matched) == (200, 10)
    assert all(isinstance(one, index_access.IndexAccess) for one in used)
    report = lab.open().topic("t").delete(filter="/v >= 9")
    assert (report.examined, report.matched, report.deleted) == (190, 20, 20)
    assert len(lab.query("t")) == 170
    assert len(used) == 3


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Delete in parts of 4 records; record the largest append, memtable, removal, and the transactions."""
    monkeypatch.setattr(DELETE_LIMITS, "part_records", 4)
    monkeypatch.setattr("sowctl.engine.fold.limits.MEMTABLE_LIMITS.changes", 4)
    monkeypatch.setattr(FOLD_LIMITS, "delete_part_records", 4)
    monkeypatch.setattr(FOLD_LIMITS, "spool_memory_bytes", 100)
    most = {"group": 0, "memtable": 0, "transaction": 0, "transactions": 0}
    append, added, removed, finish = (
        JournalWriter.append_group,
        Memtable.put_deletions,
        WriteTxn.delete_records,
        WriteTxn.finish,
    )

    def see(name: str, count: int) -> None:
        most[name] = max(most[name], count)

    def appending(writer, group, now, **options):  # type: ignore[no-untyped-def]
        see("group", len(group))
        return append(writer, group, now, **options)

    def adding(memtable, keys, tombstones):  # type: ignore[no-untyped-def]
        added(memtable, keys, tombstones)
        see("memtable", len(memtable))

    def removing(txn, keys):  # type: ignore[no-untyped-def]
        found = removed(txn, keys)
        see("transaction", len(found))
        return found

    def finishing(txn):  # type: ignore[no-untyped-def]
        most["transactions"] += 1
        finish(txn)

    monkeypatch.setattr(JournalWriter, "append_group", appending)
    monkeypatch.setattr(Memtable, "put_deletions", adding)
    monkeypatch.setattr(WriteTxn, "delete_records", removing)
    monkeypatch.setattr(WriteTxn, "finish", finishing)
    return most


@pytest.mark.parametrize("selector", ["filter", "sow_keys", "data"])
def test_many_are_deleted_in_bounded_parts(lab: Lab, topic: str, selector: str, largest: dict[str, int]) -> None:
    messages = [message(id=n, s="ab"[n % 2]) for n in range(51)]
    lab.publish(topic, *messages)
    keys = [str(record.sow_key) for record in lab.records(topic, "/s = 'b'")]
    selectors = {"filter": "/s = 'b'", "sow_keys": keys, "data": [one.encode() for one in messages[1::2]]}
    largest.update(dict.fromkeys(largest, 0))
    report = lab.open().topic(topic).delete(**{selector: selectors[selector]})  # type: ignore[arg-type]
    assert (report.matched, report.deleted) == (25, 25)
    # without a journal, a single transaction makes the delete all or nothing
    transactions, logged = (1, 0) if topic == "alone" else (7, 4)
    assert largest == {"group": logged, "memtable": 4, "transaction": 4, "transactions": transactions}
    assert sorted(lab.query(topic)) == sorted(messages[::2])
    assert lab.open().topic(topic).info().last_txid == 76


def test_a_delete_of_many_parts_is_one_group(lab: Lab, largest: dict[str, int]) -> None:
    lab.publish("t", *(message(id=n) for n in range(50)))
    lab.open().topic("t").delete(filter="/id < 48")
    with open_log(lab.open()) as log:
        blocks = [block.header for block in log.iter_blocks(after=50)]
    assert [(header.group, header.count, header.is_last) for header in blocks] == [
        (51, 4, number == 11) for number in range(12)
    ]
    lab.forget("t")
    assert len(lab.query("t")) == 2


def test_a_part_of_a_pattern_topic_goes_in_parts(make_lab, largest: dict[str, int]) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("all", "<Pattern>^day[0-9]$</Pattern>"), ("all",)))
    for name in ("day1", "day2"):
        lab.publish(name, *(message(id=n) for n in range(9)))
    assert lab.open().topic("day1").delete(filter="1=1").deleted == 9
    assert largest["memtable"] == 4
    assert (len(lab.query("day1")), len(lab.query("day2"))) == (0, 9)
    with open_log(lab.open()) as log:
        assert [entry.logical_topic for block in log.iter_blocks(after=18) for entry in block.iter_entries()] == [
            b"day1"
        ] * 9


@pytest.mark.usefixtures("largest")
def test_a_filter_that_fails_in_the_middle_deletes_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DELETE_LIMITS, "scan_batch_records", 10)
    lab.publish("t", *(message(id=n) for n in range(50)))
    path = lab.store("t")
    key = lab.records("t")[-1].sow_key.to_bytes(8, "big")
    content = path.read_bytes()
    path.write_bytes(content.replace(key, bytes(8)))
    size = sum(one.stat().st_size for one in lab.journals())
    with pytest.raises(DamageError):
        lab.open().topic("t").delete(filter="1=1")
    path.write_bytes(content)
    assert len(lab.query("t")) == 50
    assert sum(one.stat().st_size for one in lab.journals()) == size
