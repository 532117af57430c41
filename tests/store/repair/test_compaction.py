"""A compacted store holds the same data, whatever writers and readers do during the compaction; damage stops it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError, LockedError, SowError
from sowctl.findings import Finding
from sowctl.seam import SEAM, Seam
from sowctl.store.env import Store
from sowctl.store.examine import examine_store
from sowctl.store.repair.compaction import CopyResult, compact_file
from sowctl.store.repair.leftovers import list_leftovers, remove_leftovers
from sowctl.store.repair.space import measure_space_at
from sowctl.store.write import WriteTxn
from tests.support.examples import examples
from tests.support.faults import CountingSeam, FailAt, KillAt, choose_kills
from tests.support.stores import (
    STEPS,
    Step,
    apply_steps,
    batch,
    contents,
    key_of,
    new_store,
    recomputed_digest,
    tamper,
    value_of,
)


def run(path: Path, seam: Seam = SEAM) -> CopyResult:
    with Store.open(path, write=False, seam=seam, lock_wait=5.0) as store:
        return compact_file(store, seam=seam, wait=5.0, command="test", always=True)


def findings(path: Path) -> list[str]:
    return [item.id for item in examine_store(str(path), False, lambda _: None) if isinstance(item, Finding)]


def emptied(path: Path, records: int = 3000, left: int = 900) -> Path:
    """A store with mostly free pages, versions, lifetimes, sequences and a position."""
    new_store(path, records, size=100)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.delete_records(key_of(number) for number in range(left, records)))
        store.write(lambda txn: txn.put_records(*batch(range(40), 2, expiration=5)))
        store.write(lambda txn: txn.put_versions([(key_of(n), value_of(key_of(n), 1, b"old" * n)) for n in range(90)]))
        store.write(lambda txn: txn.put_records([key_of(7)], [value_of(key_of(7), 3, b"large" * 4000)]))
        store.write(lambda txn: txn.set_sequence(11, 12))
        store.write(lambda txn: txn.set_sequence(2**64 - 1, 13))
        store.write(lambda txn: txn.set_applied_position(b"L" * 16, 3, (4, 5, 6)))
        store.write(lambda txn: txn.raise_last_time(77))
        store.write(lambda txn: txn.set_removal_mark(66))
    return path


def test_what_it_holds_stays_and_its_free_pages_go(tmp_path: Path) -> None:
    path = emptied(tmp_path / "x.sow")
    before = contents(path)
    done = run(path)
    assert contents(path) == before
    assert recomputed_digest(path) == before[2].digest == done.digest
    assert done.before > 2 * done.after == 2 * path.stat().st_size
    assert (done.records, done.versions, done.copies, done.changes) == (900, 90, 1, 0)
    space = measure_space_at(path)
    assert space is not None
    assert space.free_pages <= 10
    assert findings(path) == []
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert snapshot.read_sequences() == {11: 12, 2**64 - 1: 13}


def test_indexes_can_catch_up_across_it(tmp_path: Path) -> None:
    """The change list connects states before the exchange with those after it."""
    path = emptied(tmp_path / "x.sow")
    with Store.open(path, write=True) as store:
        earlier = store.read_meta().state_number
        store.write(lambda txn: txn.put_records(*batch(range(5), 9)))
    run(path)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(5, 8), 10)))
        with store.open_snapshot() as snapshot:
            assert snapshot.find_changed_keys(earlier) == {key_of(number) for number in range(8)}


def test_tables_of_derived_stores_come_along(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    pairs = [(b"%d" % number, b"value" * number) for number in range(10)]
    with Store.open(path, write=True) as store:
        store.open_tables(("groups", "none"))
        store.write(lambda txn: txn.open_table("groups").put(pairs))
    run(path)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert snapshot.list_tables() == ["groups", "none"]
        table = snapshot.open_table("groups")
        assert table is not None
        assert list(table.walk()) == pairs


class Other:
    """Another process, started before this one opens the store; it works on request."""

    def __init__(self, work: Callable[[], object]) -> None:
        go, self._go = os.pipe()
        self._answer, answer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.close(self._go)
                if os.read(go, 1):
                    os.write(answer, b"1" if self._done(work) else b"0")
            finally:
                os._exit(0)
        os.close(go)
        os.close(answer)

    @staticmethod
    def _done(work: Callable[[], object]) -> bool:
        try:
            work()
        except LockedError:
            return False
        return True

    def __call__(self) -> bool:
        """Have the work done; return whether that succeeded."""
        os.write(self._go, b"1")
        return os.read(self._answer, 1) == b"1"

    def end(self) -> None:
        os.close(self._go)
        os.close(self._answer)
        os.waitpid(self._child, 0)


class Meanwhile(CountingSeam):
    """Other processes work at the given calls of one kind; ``undone`` are those that failed or did not run."""

    def __init__(self, point: str, works: dict[int, Callable[[], object]]) -> None:
        super().__init__((point,))
        self._others = {number: Other(work) for number, work in works.items()}
        self.undone = set(works)

    def reached(self, number: int, point: str, function: Any, args: Any, kwargs: Any) -> Any:
        if number in self._others and self._others[number]():
            self.undone.remove(number)
        return function(*args, **kwargs)

    def __enter__(self) -> Meanwhile:
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._others.values():
            other.end()


def writing(path: Path, fn: Callable[[WriteTxn], object]) -> Callable[[], None]:
    def work() -> None:
        with Store.open(path, write=True) as store:
            store.write(fn)

    return work


def test_what_writers_add_meanwhile_is_brought_over(tmp_path: Path) -> None:
    path = emptied(tmp_path / "x.sow")

    def change(txn: WriteTxn) -> None:
        txn.delete_records([key_of(3), key_of(200)])
        txn.put_records(*batch(range(890, 990), 20))
        txn.put_versions([(key_of(895), value_of(key_of(895), 1, b"older"))])
        txn.set_applied_position(b"L" * 16, 21)
        txn.set_sequence(11, 14)

    with Meanwhile("lmdb.commit", {2: writing(path, change)}) as seam:
        done = run(path, seam)
    assert not seam.undone
    assert done.copies == 1
    assert done.changes == 102
    records, versions, meta = contents(path)
    assert (len(records), len(versions), meta.applied) == (900 - 2 + 90, 91, 21)
    assert findings(path) == []


def test_more_changes_than_the_list_tells_begin_it_again(tmp_path: Path) -> None:
    path = emptied(tmp_path / "x.sow", 9000, 8000)
    first = writing(
        path, lambda txn: (txn.put_records(*batch(range(7000), 20)), txn.set_applied_position(b"L" * 16, 20))
    )
    second = writing(path, lambda txn: txn.delete_records(key_of(number) for number in range(6000)))
    with Meanwhile("lmdb.commit", {2: first, 5: second}) as seam:
        done = run(path, seam)
    assert not seam.undone
    assert done.copies > 1
    records, _, meta = contents(path)
    assert len(records) == 2000
    assert recomputed_digest(path) == meta.digest
    assert findings(path) == []


def test_versions_that_go_alone_begin_it_again(tmp_path: Path) -> None:
    """The change list contains records: it does not show removed versions, as by ``expire``."""
    path = emptied(tmp_path / "x.sow")
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        gone = [key for keys, _ in snapshot.scan_history() for key in keys][:50]
    with Meanwhile("lmdb.commit", {3: writing(path, lambda txn: txn.delete_versions(gone))}) as seam:
        done = run(path, seam)
    assert not seam.undone
    assert done.copies == 2
    assert len(contents(path)[1]) == 40
    assert findings(path) == []


def test_a_reader_goes_on_in_its_state(tmp_path: Path) -> None:
    path = emptied(tmp_path / "x.sow")
    compacting, deleting = Other(lambda: run(path)), Other(writing(path, lambda txn: txn.delete_records([key_of(5)])))
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        before = {
            key: value for keys, values in snapshot.scan_records() for key, value in zip(keys, values, strict=True)
        }
        scan = snapshot.scan_records(batch=10)
        first = next(scan)
        assert compacting()
        assert deleting()
        rest = [first, *scan]
        assert {key: value for keys, values in rest for key, value in zip(keys, values, strict=True)} == before
        with store.open_snapshot() as now:
            assert now.record_count == 899
    compacting.end()
    deleting.end()


@pytest.mark.parametrize("how", ["value", "count"])
def test_damage_stops_it_and_changes_nothing(tmp_path: Path, how: str) -> None:
    path = new_store(tmp_path / "x.sow", 50)
    other = value_of(key_of(4 if how == "count" else 5), 1, b"another payload")
    tamper(path, b"records", key_of(4), other)
    before = path.read_bytes()
    with pytest.raises(DamageError):
        run(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if ".new-" in one.name] == []


@given(st.lists(STEPS, min_size=1, max_size=6), st.lists(STEPS, max_size=3), st.integers(1, 12))
@settings(max_examples=examples(25), deadline=None)
def test_against_a_model(
    tmp_path_factory: pytest.TempPathFactory, before: list[Step], meanwhile: list[Step], at: int
) -> None:
    path = new_store(tmp_path_factory.mktemp("model") / "x.sow")
    twin = new_store(path.with_name("twin.sow"))
    apply_steps(path, before, 1)
    apply_steps(twin, before + meanwhile, 1)
    with Meanwhile("lmdb.commit", {at: lambda: apply_steps(path, meanwhile, 1 + len(before))}) as seam:
        run(path, seam)
    if seam.undone:  # there were fewer calls, or the lock was held
        apply_steps(path, meanwhile, 1 + len(before))
    assert contents(path)[:2] == contents(twin)[:2]
    assert findings(path) == []


# Faults


def small(path: Path) -> Path:
    new_store(path, 60)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_versions([(key_of(3), value_of(key_of(3), 1, b"v"))]))
        store.write(lambda txn: txn.delete_records(key_of(number) for number in range(30, 60)))
    return path


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_call(tmp_path: Path, after: bool) -> None:
    path = small(tmp_path / "x.sow")
    before = contents(path)
    counting = CountingSeam()
    run(path, counting)
    assert counting.count > 15
    for n in choose_kills(counting.count, after=after):
        child = os.fork()
        if child == 0:
            try:
                run(path, KillAt(n, after=after))
            finally:
                os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), (n, counting.points[n - 1])
        assert contents(path) == before, (n, counting.points[n - 1])
        assert findings(path) == []
        left = list_leftovers(path)
        assert len(left) <= 1
        assert len(remove_leftovers(path)) == len(left)
        assert list_leftovers(path) == []
        with Store.open(path, write=True) as store:
            store.write(lambda txn: txn.set_removal_mark(1 + txn.meta.removal_mark))
        before = contents(path)


@pytest.mark.parametrize(("code", "forever"), [(errno.EIO, False), (errno.ENOSPC, True), (errno.EIO, True)])
def test_every_call_fails(tmp_path: Path, code: int, forever: bool) -> None:
    path = small(tmp_path / "x.sow")
    before = contents(path)
    counting = CountingSeam()
    run(path, counting)
    reported = 0
    for n in range(1, counting.count + 1):
        try:
            run(path, FailAt(n, code, forever))
        except SowError as error:
            reported += 1
            assert error.exit_status == 6, (n, counting.points[n - 1], error)
        assert contents(path) == before, (n, counting.points[n - 1])
        assert list_leftovers(path) == []
        assert not [one for one in tmp_path.iterdir() if ".new-" in one.name], (n, counting.points[n - 1])
    assert reported > counting.count * 3 // 4
