"""expire: the number of records and versions removed per topic; a dry run reports it and removes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sowctl.engine.fold import removal
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.reports import ExpireReport
from sowctl.engine.verbs.expire import expire_records
from sowctl.store.write import WriteTxn
from tests.support.instances import Lab, message


def _expire(lab: Lab, *, dry_run: bool = False) -> dict[str, ExpireReport]:
    instance = lab.open()
    return {report.topic: report for report in expire_records(instance, instance.topics, dry_run=dry_run)}


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


@contextmanager
def transactions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record the number of records and versions that each transaction removes, at most 2 at a time."""
    seen: list[int] = []
    finish, delete, drop = WriteTxn.finish, WriteTxn.delete_records, WriteTxn.delete_versions
    removed: dict[int, int] = {}

    def note(txn: WriteTxn, count: int) -> None:
        assert count <= 2
        removed[id(txn)] = removed.get(id(txn), 0) + count

    def deleting(txn, keys):  # type: ignore[no-untyped-def]
        found = delete(txn, keys)
        note(txn, len(found))
        return found

    def dropping(txn, keys):  # type: ignore[no-untyped-def]
        note(txn, len(keys))
        return drop(txn, keys)

    def finishing(txn):  # type: ignore[no-untyped-def]
        seen.append(removed.pop(id(txn), 0))
        finish(txn)

    with monkeypatch.context() as patch:
        for name in ("delete_part_records", "version_batch_entries"):
            patch.setattr(FOLD_LIMITS, name, 2)
        patch.setattr(FOLD_LIMITS, "max_piggyback_expired_records", 6)
        patch.setattr(FOLD_LIMITS, "max_expired_records", 8)
        patch.setattr(FOLD_LIMITS, "max_removed_versions", 8)
        patch.setattr(WriteTxn, "delete_records", deleting)
        patch.setattr(WriteTxn, "delete_versions", dropping)
        patch.setattr(WriteTxn, "finish", finishing)
        yield seen


def test_many_records_leave_in_transactions_of_bounded_size(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish("quotes", *(message(id=n) for n in range(45)))
    lab.clock.tick(20)
    lab.publish("quotes", *(message(id=n) for n in range(40, 50)))
    lab.clock.tick(10)
    with transactions(monkeypatch) as seen:
        assert _expire(lab)["quotes"].expired == 40
    assert seen == [8] * 5
    assert sorted(lab.query("quotes")) == [message(id=n) for n in range(40, 50)]
    assert _expire(lab)["quotes"].expired == 0
    assert lab.open().topic("quotes").replay(verify=True).action == "verified"


def test_few_records_leave_in_one_transaction(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish("quotes", *(message(id=n) for n in range(5)))
    lab.clock.tick(30)
    with transactions(monkeypatch) as seen:
        assert _expire(lab)["quotes"].expired == 5
    assert seen == [5]


def test_many_versions_leave_in_transactions_of_bounded_size(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in range(2):
        lab.publish("past", *(message(id=n, v=value) for n in range(21)))
        lab.clock.tick(60)
    lab.clock.tick(7200)
    with transactions(monkeypatch) as seen:
        assert _expire(lab)["past"].versions == 21
    assert seen == [8, 8, 5]
    assert _expire(lab)["past"].versions == 0
    assert lab.open().topic("past").replay(verify=True).action == "verified"


def test_writers_remove_a_bounded_number_with_each_transaction(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish("quotes", *(message(id=n) for n in range(20)))
    lab.clock.tick(30)
    for left in (14, 8, 2, 0):
        with transactions(monkeypatch) as seen:
            lab.publish("quotes", message(id=99))
        assert seen == [min(6, left + 6 if left else 2)]
        row = lab.open().topic("quotes").info()
        assert (row.records, row.expired) == (1, left)
        assert lab.query("quotes") == [message(id=99)]


def test_a_long_session_goes_on_removing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sowctl.engine.fold.limits.MEMTABLE_LIMITS.changes", 2)
    monkeypatch.setattr("sowctl.engine.fold.limits.MEMTABLE_LIMITS.runs_share", 0)  # its changes are applied in place
    lab.publish("quotes", *(message(id=n) for n in range(20)))
    lab.clock.tick(30)
    with transactions(monkeypatch) as seen:
        lab.publish("quotes", *(message(id=n) for n in range(20, 26)), batch=2)
    assert seen == [6, 6, 6]
    assert lab.open().topic("quotes").info().expired == 2


def test_how_many_go_at_once_follows_from_the_pages_that_change(lab: Lab) -> None:
    class Pages:
        """A store with 15 records per page, and 130 entries of the expiry index per page."""

        def __init__(self, count: int) -> None:
            self.record_count = count

        def count_leaf_pages(self) -> tuple[int, int]:
            return self.record_count // 15, self.record_count // 130

    def at_once(count: int, expired: int) -> int:
        return removal._count_per_transaction(Pages(count), expired)  # type: ignore[arg-type]

    # all records expire: their pages are freed at once, and the index fits
    assert at_once(5_000_000, 5_000_000) == FOLD_LIMITS.max_expired_records
    # half of them expire: the pages stay
    assert 50_000 < at_once(5_000_000, 2_500_000) < FOLD_LIMITS.max_expired_records
    # an index of 300,000 pages, with every entry on a different page
    assert 30_000 < at_once(40_000_000, 40_000_000) < 100_000
