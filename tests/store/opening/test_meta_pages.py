"""LMDB's meta pages after a failed write: readers see the state that LMDB would show; the next write repairs them."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import lmdb
import pytest

from sowctl.errors import DamageError, SowError
from sowctl.findings import Finding, Level
from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.examine import examine_store
from sowctl.store.lmdbfile.layout import META_TAIL_AT
from sowctl.store.opening.meta_pages import read_spare_meta, read_verified_meta
from tests.support.metawrites import (
    FAULTS,
    OLD,
    SIZE,
    FailsAtMeta,
    Fault,
    LmdbWrites,
    can_fail,
    failed_write,
    meta_page,
    mixed,
    newest,
)
from tests.support.stores import batch, contents, new_store

real = pytest.mark.skipif(not can_fail(), reason="LMDB's calls cannot be replaced here")


def found(path: Path) -> list[tuple[str, Level]]:
    items = examine_store(str(path), False, lambda _: None)
    return [(item.id, item.level) for item in items if isinstance(item, Finding)]


def put(path: Path, start: int, txid: int, size: int = 60) -> None:
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(start, start + 40), txid, size)))


def two_states(path: Path, *, odd: bool, grows: bool) -> tuple[bytes, bytes]:
    """Return a store's file before and after a transaction, which writes one of the meta pages and grows the file."""
    new_store(path, 100)
    put(path, 200, 2, 3000)
    if odd:
        put(path, 200, 3, 3000)
    before = path.read_bytes()
    put(path, *((900, 9, 4000) if grows else (0, 9, 60)))
    return before, path.read_bytes()


def state(path: Path, data: bytes) -> object:
    path.write_bytes(data)
    return contents(path)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("grows", [False, True])
def test_the_page_that_lmdb_leaves(tmp_path: Path, odd: bool, grows: bool) -> None:
    before, after = two_states(tmp_path / "x.sow", odd=odd, grows=grows)
    damaged = tmp_path / "y.sow"
    truth = state(tmp_path / "b.sow", before)
    assert state(damaged, failed_write(before, after)) == truth
    assert found(damaged) == [("SOW-STO-060", Level.WARNING)]
    put(damaged, 500, 11)
    assert found(damaged) == []
    put(tmp_path / "b.sow", 500, 11)
    assert contents(damaged)[:2] == contents(tmp_path / "b.sow")[:2]


@pytest.mark.parametrize("odd", [False, True])
def test_a_page_that_was_written_in_part(tmp_path: Path, odd: bool) -> None:
    """Both writes were incomplete: the first bytes are of the second write, the following ones of the first."""
    before, after = two_states(tmp_path / "x.sow", odd=odd, grows=True)
    old, new = state(tmp_path / "b.sow", before), state(tmp_path / "a.sow", after)
    page = newest(after)
    back = mixed(meta_page(before, page), meta_page(after, page))
    damaged = tmp_path / "y.sow"
    for cut in range(SIZE + 1):
        for second in (0, 10, 60, SIZE - OLD):

            def left(first: bytes, last: bytes, cut: int = cut, second: int = second) -> bytes:
                return back[:second] + (last[:cut] + first[cut:])[second:]

            whole = left(meta_page(before, page), meta_page(after, page)) == meta_page(after, page)
            damaged.unlink(missing_ok=True)
            assert state(damaged, failed_write(before, after, left)) == (new if whole else old), (cut, second)
            with lmdb.open(str(damaged), subdir=False, readonly=True, lock=False) as env:
                assert env.info()["last_txnid"] == read_verified_meta(damaged, SEAM).txnid


def test_any_other_number_is_damage(tmp_path: Path) -> None:
    """A page whose number is not adjacent to the other page's may have been the newest: its loss is reported."""
    before, after = two_states(tmp_path / "x.sow", odd=False, grows=True)
    page, damaged = newest(after), tmp_path / "y.sow"
    number = int.from_bytes(meta_page(after, page)[-8:], "little")
    for wrong in (0, 1, number - 4, number - 1, number + 1, number + 2, 1 << 60):
        if wrong == number - 2:
            continue

        def left(_: bytes, last: bytes, wrong: int = wrong) -> bytes:
            return last[:-8] + wrong.to_bytes(8, "little")

        damaged.write_bytes(failed_write(before, after, left))
        with pytest.raises(DamageError) as raised:
            contents(damaged)
        assert raised.value.code == "SOW-STO-021"


def test_a_damaged_number_that_looks_like_a_failed_write(tmp_path: Path) -> None:
    """The number of the page in use is 2 too small: the previous state is shown; the check names the transaction."""
    path = new_store(tmp_path / "x.sow", 100)
    states = []
    for txid in range(2, 9):
        put(path, 10 * txid, txid)
        states.append(contents(path))
        number = read_verified_meta(path, SEAM).txnid
        if len(states) > 1 and number & 2:
            break
    data = bytearray(path.read_bytes())
    data[4096 * (number % 2) + META_TAIL_AT + 8] ^= 2
    (tmp_path / "y.sow").write_bytes(data)
    assert contents(tmp_path / "y.sow") == states[-2]
    assert found(tmp_path / "y.sow") == [("SOW-STO-060", Level.WARNING)]


def test_the_page_in_use_must_be_sound(tmp_path: Path) -> None:
    _, after = two_states(tmp_path / "x.sow", odd=False, grows=True)
    torn = failed_write(after, after, lambda _, last: last[:60] + bytes((255,)) * 40 + last[100:])
    (tmp_path / "y.sow").write_bytes(torn)
    with pytest.raises(DamageError):
        read_verified_meta(tmp_path / "y.sow", SEAM)


def test_the_other_page_of_a_new_store_is_no_finding(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    for txid in range(2, 6):
        assert found(path) == []
        assert read_spare_meta(path, SEAM) is not None
        put(path, 0, txid)


def test_a_snapshot_does_not_follow_the_roots_of_a_failed_transaction(tmp_path: Path) -> None:
    """The page keeps the number of an older state with these roots, and a reader may still use that state."""
    path = new_store(tmp_path / "x.sow", 100)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(100), 2)))
        with store.open_snapshot() as snapshot:
            keys = b"".join(key for keys, _ in snapshot.scan_records() for key in keys)
            assert snapshot.locate_values(keys) is not None
            store.write(lambda txn: txn.put_records(*batch(range(100), 3)))
            before = path.read_bytes()
            store.write(lambda txn: txn.put_records(*batch(range(100), 4)))
            after = path.read_bytes()
            with path.open("r+b") as file:  # the number is that of the snapshot, the roots are not
                file.write(failed_write(before, after)[:8192])
            assert snapshot.locate_values(keys) is None


def test_by_a_seam(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 50)
    for n in (1, 2, 3):
        truth = contents(path)
        with Store.open(path, write=True, seam=FailsAtMeta(n, tmp_path)) as store:
            for step in range(1, 4):
                fresh = batch(range(100 * n + 20 * step, 100 * n + 20 * step + 20), 10 * n + step)
                if step < n:
                    store.write(lambda txn, fresh=fresh: txn.put_records(*fresh))  # type: ignore[misc]
                    truth = contents_of(store)
                    continue
                with pytest.raises(SowError) as raised:
                    store.write(lambda txn, fresh=fresh: txn.put_records(*fresh))  # type: ignore[misc]
                assert raised.value.facts["transaction_stored"] is False
                break
        assert contents(path) == truth


def contents_of(store: Store) -> object:
    with store.open_snapshot() as snapshot:
        records = {
            key: value for keys, values in snapshot.scan_records() for key, value in zip(keys, values, strict=True)
        }
        return records, {}, snapshot.meta.replace_parts(transaction=0)


@real
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_lmdb_itself(tmp_path: Path, faults: tuple[Fault, ...], durable: bool) -> None:
    """Every write of a meta page fails once. The error is right about the file, and the next process can continue."""
    path = new_store(tmp_path / "x.sow", 50)
    with LmdbWrites().in_place() as writes:
        put(path, 100, 2)
    assert writes.count == 1
    for n in range(1, 7):
        truth: object = None
        with LmdbWrites(n, faults).in_place() as writes, Store.open(path, write=True, durable=durable) as store:
            error: SowError | None = None
            for step in range(8):
                truth = contents_of(store)
                fresh = batch(range(20 * step, 20 * step + 35), 100 * n + step, 500 * step)
                try:
                    store.write(lambda txn, fresh=fresh: txn.put_records(*fresh))  # type: ignore[misc]
                except SowError as problem:
                    error = problem
                    break
        assert error is not None
        assert error.exit_status == 6
        stored = error.facts["transaction_stored"]
        assert (contents(path) == truth) is not stored
        assert set(found(path)) <= {("SOW-STO-060", Level.WARNING)}
        put(path, 1000, 100 * n + 50)
        assert found(path) == []


def test_the_hand_made_page_is_the_one_that_lmdb_leaves(tmp_path: Path) -> None:
    if not can_fail():
        pytest.skip("LMDB's calls cannot be replaced here")
    path = new_store(tmp_path / "x.sow", 50)
    before = path.read_bytes()
    with LmdbWrites(1, ((0, errno.EIO),)).in_place(), suppress(SowError):
        put(path, 100, 2)
    left = path.read_bytes()
    path.write_bytes(before)
    put(path, 100, 2)
    assert left[:8192] == failed_write(before, path.read_bytes())[:8192]
