"""Small stores for tests: one definition, records derived from a number, reading everything back."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import lmdb
from hypothesis import strategies as st

from sowctl.seam import SEAM, Seam
from sowctl.store import codec, integrity
from sowctl.store.builder import create_store
from sowctl.store.env import Store
from sowctl.store.meta import META_KEY, Definition, StoreMeta, decode_meta, encode_meta
from sowctl.store.write import WriteTxn

DEFINITION = Definition("instance", "orders", "json", "fields", ("/id",), "orders")
START = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z in microseconds."""
Contents = tuple[dict[bytes, bytes], dict[bytes, bytes], StoreMeta]


def key_of(number: int) -> bytes:
    """The SOW key of record ``number``: spread over the range, ascending with the number."""
    return (number * 0x0001_0000_0001_0001 % (1 << 64)).to_bytes(8, "big")


def history_key(key: bytes, time: int, txid: int) -> bytes:
    """Return the key of a version with this time and txid, whether it exists or not."""
    return codec.build_history_key(key, codec.encode_record(key, bytes(8), txid, time, 0, 0, b""))


def value_of(key: bytes, txid: int, payload: bytes, expiration: int = 0, flags: int = 0) -> bytes:
    """Return a value whose time is derived from its txid."""
    return codec.encode_record(key, b"checkwrd", txid, START + txid, expiration, flags, payload)


def batch(numbers: range, txid: int, size: int = 60, expiration: int = 0) -> tuple[list[bytes], list[bytes]]:
    """Keys and values of some records, payloads of about ``size`` bytes."""
    keys = [key_of(number) for number in numbers]
    payloads = [(b'{"id":%d,"txid":%d}' % (number, txid)).ljust(size) for number in numbers]
    return keys, [value_of(key, txid, payload, expiration) for key, payload in zip(keys, payloads, strict=True)]


def new_store(path: Path, records: int = 0, *, seam: Seam = SEAM, size: int = 60) -> Path:
    """Create a store with ``records`` records of txid 1."""
    create_store(path, DEFINITION, seam=seam, now=START)
    if records:
        with Store.open(path, write=True) as store:
            store.write(lambda txn: txn.put_records(*batch(range(records), 1, size)))
    return path


Step = tuple[bool, int, int, int]
"""Whether records are deleted, the number of the first, their count, and the approximate size of their payloads."""
STEPS: st.SearchStrategy[Step] = st.tuples(
    st.booleans(), st.integers(0, 900), st.integers(1, 120), st.sampled_from([0, 60, 3000])
)
"""Steps that overlap each other and the records of a store of some hundreds."""


def apply_steps(path: Path, steps: Iterable[Step], txid: int) -> None:
    """Put or delete records, a transaction for each step; the first one has ``txid``."""
    for number, (deleting, first, count, size) in enumerate(steps, txid):
        fresh = batch(range(first, first + count), number, size)

        def write(txn: WriteTxn, fresh: tuple[list[bytes], list[bytes]] = fresh, gone: bool = deleting) -> None:
            if gone:
                txn.delete_records(fresh[0])
            else:
                txn.put_records(*fresh)

        with Store.open(path, write=True) as store:
            store.write(write)


def contents(path: Path) -> Contents:
    """Return all records, all versions (by history key), and the meta record without its transaction; all verified."""
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        records = {
            key: value for keys, values in snapshot.scan_records() for key, value in zip(keys, values, strict=True)
        }
        pairs = (zip(keys, values, strict=True) for keys, values in snapshot.scan_history())
        return (
            records,
            {key: value for chunk in pairs for key, value in chunk},
            snapshot.meta.replace_parts(transaction=0),
        )


def recomputed_digest(path: Path) -> int:
    """Return the digest as the sum over the entries that a reader sees."""
    records, versions, _ = contents(path)
    terms = [integrity.compute_digest_term(key, value) for key, value in records.items()]
    terms += [integrity.compute_digest_term(key[:8], value) for key, value in versions.items()]
    return sum(terms) % integrity.DIGEST_MODULUS


def tamper(path: Path, database: bytes, key: bytes, value: bytes | None) -> None:
    """Change one entry without the store, as damage that LMDB itself would not notice."""
    with lmdb.open(str(path), subdir=False, max_dbs=8) as env:
        handle = env.open_db(database)
        with env.begin(write=True) as txn:
            if value is None:
                assert txn.delete(key, db=handle)
            else:
                txn.put(key, value, db=handle)
            if key != META_KEY and not database.startswith(b"index:"):
                meta = env.open_db(b"meta", txn=txn)
                known = decode_meta(txn.get(META_KEY, db=meta), "x.sow")
                txn.put(META_KEY, encode_meta(known.replace_parts(transaction=txn.id())), db=meta)


def opened(path: Path) -> int:
    """Return how often this process has a file open, including replaced files of that path."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(link.readlink()).removesuffix(" (deleted)") == str(path)
    return found
