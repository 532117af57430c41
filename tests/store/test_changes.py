"""The change list: every difference between two states is listed, or the list reports that it is incomplete."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.seam import SEAM
from sowctl.store import changes, integrity
from sowctl.store.builder import build_store
from sowctl.store.check import check_store
from sowctl.store.env import Store
from sowctl.store.write import WriteTxn
from tests.support.examples import examples
from tests.support.stores import DEFINITION, START, batch, contents, key_of, new_store, tamper, value_of

CHANGES = b"changes"


def _digest(path: Path) -> int:
    return contents(path)[2].digest


def _since(path: Path, digest: int) -> set[bytes] | None:
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        return snapshot.find_changed_keys(snapshot.meta.number_state(digest))


def _put(path: Path, numbers: range, txid: int) -> None:
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(numbers, txid)))


def test_puts_and_deletes_are_listed_since_every_earlier_state(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 100)
    first = _digest(path)
    _put(path, range(3, 5), 2)
    second = _digest(path)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.delete_records([key_of(7), key_of(5000)]))
    assert _since(path, first) == {key_of(3), key_of(4), key_of(7)}
    assert _since(path, second) == {key_of(7)}
    assert _since(path, _digest(path)) == set()
    assert _since(path, 12345) is None


def test_a_transaction_that_fails_lists_nothing(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    before = _digest(path)

    def fails(txn: WriteTxn) -> None:
        txn.put_records(*batch(range(3), 2))
        raise KeyError

    with Store.open(path, write=True) as store, pytest.raises(KeyError):
        store.write(fails)
    assert _since(path, before) == set()


def test_versions_alone_change_the_digest_and_no_record(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    before = _digest(path)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_versions([(key_of(1), value_of(key_of(1), 1, b"{}"))]))
    assert _digest(path) != before
    assert _since(path, before) == set()


def test_a_change_of_most_records_forgets_the_list(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 6000)
    before = _digest(path)
    _put(path, range(5000), 2)
    assert _since(path, before) is None
    after = _digest(path)
    _put(path, range(2), 3)
    assert _since(path, after) == {key_of(0), key_of(1)}


def test_many_transactions_become_one_entry_and_stay_complete(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 50)
    marks = []
    with Store.open(path, write=True) as store:
        for number in range(changes.MAX_CHANGE_ENTRIES + 80):
            store.write(
                lambda txn, number=number: txn.put_records(*batch(range(number % 50, number % 50 + 1), number + 2))
            )
            marks.append(store.read_meta().digest)
    last = changes.MAX_CHANGE_ENTRIES + 79
    assert _since(path, 0) == {key_of(number) for number in range(50)}
    assert _since(path, marks[-3]) == {key_of((last - 1) % 50), key_of(last % 50)}
    assert _since(path, marks[5]) is None, "a state in the middle of a merged entry"


def test_the_list_does_not_outgrow_the_records(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3000)
    start = _digest(path)
    with Store.open(path, write=True) as store:
        for number in range(60):
            store.write(lambda txn, number=number: txn.put_records(*batch(range(3000), number + 2, 20)))
        last = store.read_meta().digest
        store.write(lambda txn: txn.put_records(*batch(range(1), 99)))
    assert _since(path, start) is None
    assert _since(path, last) == {key_of(0)}


def test_a_store_that_was_built_begins_without_entries(tmp_path: Path) -> None:
    path = tmp_path / "x.sow"

    with build_store(path, DEFINITION, seam=SEAM, now=START) as builder:
        builder.append_records(*batch(range(20), 1))
        builder.flush()
        builder.install(new=True)
    built = _digest(path)
    assert _since(path, 0) is None
    _put(path, range(1), 2)
    assert _since(path, built) == {key_of(0)}


def test_damage_is_found_by_checks_and_means_not_knowing(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    before = _digest(path)
    _put(path, range(2), 2)
    number = (2).to_bytes(8, "big")
    _, value = changes.encode_change(2, before, _digest(path), key_of(0) + key_of(1))
    tamper(path, CHANGES, number, bytes([value[0] ^ 1]) + value[1:])
    assert _since(path, before) is None
    assert [finding.id for finding in check_store(path)] == ["SOW-STO-055"]
    with pytest.raises(DamageError) as caught:
        _put(path, range(3), 3)
    assert (caught.value.code, caught.value.place) == ("SOW-STO-055", str(path))
    tamper(path, CHANGES, number, value)
    assert _since(path, before) == {key_of(0), key_of(1)}


_CHANGE = st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 6))


@settings(max_examples=examples(25), deadline=None)
@given(steps=st.lists(st.lists(_CHANGE, min_size=1, max_size=3), min_size=1, max_size=12))
def test_every_difference_is_listed(
    steps: list[list[tuple[bool, int, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = new_store(tmp_path_factory.mktemp("s") / "x.sow", 20)
    states = [contents(path)]
    with Store.open(path, write=True) as store:
        for at, step in enumerate(steps):

            def change(txn: WriteTxn, step: list[tuple[bool, int, int]] = step, at: int = at) -> None:
                for puts, first, count in step:
                    numbers = range(first, first + count)
                    if puts:
                        txn.put_records(*batch(numbers, at + 2))
                    else:
                        txn.delete_records([key_of(number) for number in numbers])

            store.write(change)
            with store.open_snapshot() as snapshot:
                records = {k: v for keys, values in snapshot.scan_records() for k, v in zip(keys, values, strict=True)}
                states.append((records, {}, snapshot.meta))
                for earlier, _, meta in states:
                    listed = snapshot.find_changed_keys(meta.state_number)
                    differing = {key for key in earlier.keys() | records.keys() if earlier.get(key) != records.get(key)}
                    assert listed is not None
                    assert differing <= listed


def test_an_entry_is_not_a_record() -> None:
    """Pages of a damaged file may be swapped, and the keys of both have the same length."""
    for keys in (b"", key_of(0), key_of(0) + key_of(1)):
        key, value = changes.encode_change(1, 2, 3, keys)
        assert changes.decode_change(key, value) == (2, 3, keys)
        assert integrity.find_damaged_values([key], [value]) == [0]


def test_a_page_of_something_else_is_no_list(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    tamper(path, CHANGES, b"\xff" * 8, b"")
    with pytest.raises(DamageError, match="change list"):
        _put(path, range(1), 2)
    tamper(path, CHANGES, b"\xff" * 24, b"another key")
    with pytest.raises(DamageError, match="change list"):
        _put(path, range(1), 2)


def test_an_entry_belongs_to_its_number() -> None:
    """A page of another state may hold valid entries under numbers that belong to other entries now."""
    key, value = changes.encode_change(7, 1, 2, b"k" * 8)
    assert changes.decode_change(key, value) == (1, 2, b"k" * 8)
    other, _ = changes.encode_change(8, 1, 2, b"k" * 8)
    assert changes.decode_change(other, value) is None


def test_a_list_with_a_gap_leads_nowhere(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    first = _digest(path)
    digests = [first]
    for number in range(3):
        _put(path, range(number, number + 1), number + 2)
        digests.append(_digest(path))
    assert _since(path, first) == {key_of(0), key_of(1), key_of(2)}
    tamper(path, CHANGES, (3).to_bytes(8, "big"), None)
    assert _since(path, digests[2]) == {key_of(2)}
    assert _since(path, first) is None


def test_a_store_that_replaces_another_one_has_other_states(tmp_path: Path) -> None:
    """Both have one digest and were created at one instant of the clock."""
    path = new_store(tmp_path / "x.sow", 10)
    before = contents(path)[2]
    with build_store(path, DEFINITION, seam=SEAM, now=START) as builder:
        builder.append_records(*batch(range(10), 1))
        builder.install()
    after = contents(path)[2]
    assert after.digest == before.digest
    assert after.created > before.created
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert snapshot.find_changed_keys(after.state_number) == set()
        assert snapshot.find_changed_keys(before.state_number) is None
