"""Writing a store: a whole transaction or nothing, keys in order, and every count and index matches the records."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.store import codec
from sowctl.store.codec import build_history_key
from sowctl.store.env import Store
from sowctl.store.write import WriteTxn
from tests.support.examples import examples
from tests.support.stores import batch, contents, history_key, key_of, new_store, recomputed_digest, value_of


def test_what_the_function_raises_undoes_everything(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    before = contents(path)

    def fail(txn: WriteTxn) -> None:
        txn.put_records(*batch(range(10), 2))
        txn.set_sequence(1, 2)
        raise KeyError("stop")

    with Store.open(path, write=True) as store:
        with pytest.raises(KeyError):
            store.write(fail)
        assert store.write(lambda txn: txn.record_count) == 5
    assert contents(path) == before


def test_keys_must_ascend(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    keys, values = batch(range(10, 13), 2)
    with Store.open(path, write=True) as store:
        for wrong in ([keys[1], keys[0], keys[2]], [keys[0], keys[0], keys[1]], keys[:2]):
            with pytest.raises(ValueError, match="ascend"):
                store.write(lambda txn, wrong=wrong: txn.put_records(wrong, values))  # type: ignore[misc]
        with pytest.raises(ValueError, match="come after"):
            store.write(lambda txn: txn.append_records(*batch(range(3, 9), 2)))
        store.write(lambda txn: txn.append_records(keys, values))
    assert len(contents(path)[0]) == 8


def test_position_sequences_and_marks_are_part_of_the_transaction(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")

    def change(txn: WriteTxn) -> None:
        txn.set_applied_position(b"J" * 16, 42)
        txn.raise_last_time(500)
        txn.raise_last_time(400)
        txn.set_removal_mark(300)
        txn.set_removal_mark(200)
        txn.set_sequence(7, 10)
        txn.set_sequence((1 << 64) - 1, 11)
        txn.set_sequence(7, 12)

    with Store.open(path, write=True) as store:
        store.write(change)
        meta = store.read_meta()
        assert (meta.lineage, meta.applied, meta.last_time, meta.removal_mark, meta.sequences) == (
            b"J" * 16,
            42,
            500,
            300,
            2,
        )
        with store.open_snapshot() as snapshot:
            assert snapshot.read_sequence((1 << 64) - 1) == 11
            assert (snapshot.read_sequence(7), snapshot.read_sequence(8)) == (12, None)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sets(st.integers(0, 40), max_size=8), st.sampled_from([0, 50, 60])),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 40), max_size=8), st.just(0)),
        st.tuples(st.just("version"), st.sets(st.integers(0, 40), max_size=4), st.just(0)),
        st.tuples(st.just("prune"), st.sets(st.integers(0, 40), max_size=4), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=examples(60), deadline=None)
@given(operations, st.integers(1, 4))
def test_counts_digest_and_expiry_kept_equal_those_computed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, set[int], int]], per_transaction: int
) -> None:
    directory = tmp_path_factory.mktemp("digest")
    path = new_store(directory / "x.sow")
    records: dict[bytes, bytes] = {}
    versions: dict[bytes, bytes] = {}

    def run(txn: WriteTxn, txid: int, kind: str, numbers: set[int], expiration: int) -> None:
        keys = [key_of(number) for number in sorted(numbers)]
        values = [value_of(key, txid, b"x" * (txid * 37 % 200), expiration) for key in keys]
        if kind == "put":
            olds = txn.read_values(keys) if txid % 2 else None
            txn.put_records(keys, values, olds)
            records.update(zip(keys, values, strict=True))
        elif kind == "delete":
            assert txn.delete_records(keys) == {key: records.pop(key) for key in keys if key in records}
        elif kind == "version":
            txn.put_versions(list(zip(keys, values, strict=True)))
            versions.update((build_history_key(key, value), value) for key, value in zip(keys, values, strict=True))
        else:
            gone = [name for name in versions if name[:8] in keys]
            assert txn.delete_versions([*gone, history_key(bytes(8), 1, 1)]) == len(gone)
            for name in gone:
                del versions[name]

    with Store.open(path, write=True) as store:
        for start in range(0, len(steps), per_transaction):
            chunk = list(enumerate(steps[start : start + per_transaction], start + 1))
            store.write(lambda txn, chunk=chunk: [run(txn, txid, *step) for txid, step in chunk])  # type: ignore[misc]
        with store.open_snapshot() as snapshot:
            expected = sorted(
                (codec.read_expiration(value), key) for key, value in records.items() if codec.read_expiration(value)
            )
            assert list(snapshot.iter_expired_keys(1 << 60)) == [key for _, key in expected]
    assert contents(path)[:2] == (records, versions)
    meta = contents(path)[2]
    assert meta.digest == recomputed_digest(path)
    assert meta.payload_bytes == sum(len(codec.decode_record(key, value).payload) for key, value in records.items())
    assert meta.version_bytes == sum(
        len(codec.decode_record(key[:8], value).payload) for key, value in versions.items()
    )
    shutil.rmtree(directory)
