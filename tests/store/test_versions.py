"""Reading versions and the expiry index."""

from __future__ import annotations

from pathlib import Path

from sowctl.store import codec
from sowctl.store.env import Store
from tests.support.stores import START, batch, history_key, key_of, new_store, value_of


def test_the_expiry_index_follows_the_records(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(3), 1, expiration=100)))
        store.write(lambda txn: txn.put_records(*batch(range(3, 5), 1, expiration=50)))
        store.write(lambda txn: txn.put_records(*batch(range(5, 9), 1)))
        with store.open_snapshot() as snapshot:
            assert list(snapshot.iter_expired_keys(49)) == []
            assert list(snapshot.iter_expired_keys(50)) == [key_of(3), key_of(4)]
            assert list(snapshot.iter_expired_keys(100)) == [key_of(number) for number in (3, 4, 0, 1, 2)]
            assert snapshot.meta.records == 9
        store.write(lambda txn: txn.put_records(*batch(range(2), 2, expiration=200)))
        store.write(lambda txn: txn.put_records(*batch(range(2, 4), 2)))
        assert set(store.write(lambda txn: txn.delete_records([key_of(0), key_of(77)]))) == {key_of(0)}
        with store.open_snapshot() as snapshot:
            assert list(snapshot.iter_expired_keys(1000)) == [key_of(4), key_of(1)]


def test_versions_of_a_key(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    one, two = key_of(1), b"\xff" * 8
    items = [(one, value_of(one, txid, b"v%d" % txid)) for txid in (5, 3, 4)]
    items += [(two, value_of(two, 9, b"", flags=codec.TOMBSTONE_FLAG))]
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_versions(items))
        with store.open_snapshot() as snapshot:
            assert [(time, txid) for time, txid, _ in snapshot.read_versions(one)] == [
                (START + n, n) for n in (3, 4, 5)
            ]
            assert [codec.decode_record(two, value).is_tombstone for _, _, value in snapshot.read_versions(two)] == [
                True
            ]
            assert snapshot.read_versions(key_of(2)) == []
            assert sum(len(keys) for keys, _ in snapshot.scan_history(one, history_key(one, START + 5, 0))) == 2
        assert store.write(lambda txn: txn.delete_versions([history_key(one, START + 4, 4)])) == 1
        assert (store.read_meta().versions, store.read_meta().version_bytes) == (3, 4)
