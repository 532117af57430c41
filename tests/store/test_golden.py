"""Files of released format versions remain readable with exactly the same result.

``tests/formats/v1/store.sow`` was written by :func:`write_sample` of version 1 and never changes; ``store.json`` holds
every byte that a reader of it must return. ``block.sow`` is the same with the block of the journal in its meta record,
which older programs ignore.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sowctl.seam import SEAM
from sowctl.store import codec
from sowctl.store.builder import build_store
from sowctl.store.check import check_store
from sowctl.store.env import Store
from sowctl.store.meta import Definition, encode_meta

FORMATS = Path(__file__).parent.parent / "formats" / "v1"
GOLDEN = FORMATS / "store.sow"
EXPECTED = GOLDEN.with_suffix(".json")
BLOCK = (3, 4711, 0xFEDCBA98)
DEFINITION = Definition("Golden-1", "orders/é", "json", "fields", ("/id", "/venue"), "orders/é")
START = 1_767_225_600_000_000


def key_of(number: int) -> bytes:
    return (number * 0x1234_5678_9ABC_DEF1 % (1 << 64)).to_bytes(8, "big")


def write_sample(path: Path, block: tuple[int, int, int] | None = None) -> None:
    """Write everything that format version 1 can hold, from fixed inputs."""
    rows = []
    for number in range(40):
        key = key_of(number)
        payload = (b'{"id":%d}' % number).ljust(number * 9)
        user_key = b"user%d" % number if number % 3 == 0 else None
        correlation_id = b"corr" if number % 4 == 0 else None
        logical_topic = "/orders/ü".encode() if number % 5 == 0 else None
        parts = user_key, correlation_id, logical_topic
        flags = codec.LOSSY_FLAG if number % 7 == 0 else 0
        expiration = START + number * 1_000_000 if number % 2 else 0
        check = bytes([number]) * 8
        rows.append(
            (key, codec.encode_record(key, check, 100 + number, START + number, expiration, flags, payload, parts))
        )
    rows.sort()
    versions = [
        (
            key_of(number),
            codec.encode_record(key_of(number), bytes([number]) * 8, txid, START - 10 + txid, 0, flags, payload),
        )
        for number in sorted(range(0, 40, 8), key=key_of)
        for txid, flags, payload in ((1, codec.LOSSY_FLAG, b"first"), (2, codec.TOMBSTONE_FLAG, b""), (3, 0, b"third"))
    ]
    with build_store(path, DEFINITION, seam=SEAM, now=START, lineage=bytes(range(16)), applied=139) as builder:
        builder.append_records([key for key, _ in rows], [value for _, value in rows])
        builder.append_versions(versions)
        builder.flush()

        def finish(txn: object) -> None:
            assert hasattr(txn, "set_sequence")
            txn.raise_last_time(START + 39)  # type: ignore[attr-defined]
            txn.set_removal_mark(START - 1)  # type: ignore[attr-defined]
            txn.set_sequence((1 << 64) - 1, 12)
            txn.set_sequence(7, (1 << 64) - 1)
            txn.set_applied_position(bytes(range(16)), 139, block)

        builder.run_transaction(finish)
        builder.install()


def describe(path: Path) -> dict[str, object]:
    """Return everything that a reader returns, as plain text."""
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        return {
            "meta": encode_meta(snapshot.meta).hex(),
            "records": [
                [k.hex(), v.hex()]
                for keys, values in snapshot.scan_records()
                for k, v in zip(keys, values, strict=True)
            ],
            "versions": [
                [k.hex(), v.hex()]
                for keys, values in snapshot.scan_history()
                for k, v in zip(keys, values, strict=True)
            ],
            "expired": [key.hex() for key in snapshot.iter_expired_keys(1 << 62)],
            "sequences": [[str(publisher), str(snapshot.read_sequence(publisher))] for publisher in ((1 << 64) - 1, 7)],
        }


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy, as locks and gates are created next to the file."""
    return Path(shutil.copy(GOLDEN, tmp_path / "store.sow"))


def test_version_1_is_read_byte_exact(golden: Path) -> None:
    assert describe(golden) == json.loads(EXPECTED.read_text())
    run = check_store(golden)
    assert list(run) == []
    assert (run.coverage.records, run.coverage.versions, run.coverage.expiry_entries) == (40, 15, 20)


def test_version_1_can_be_written(golden: Path) -> None:
    with Store.open(golden, write=True, definition=DEFINITION) as store:
        store.write(lambda txn: txn.delete_records([key_of(3), key_of(4)]))
        assert store.read_meta().records == 38
    assert list(check_store(golden)) == []


def test_the_same_inputs_still_give_the_same_contents(tmp_path: Path) -> None:
    write_sample(tmp_path / "store.sow")
    assert describe(tmp_path / "store.sow") == json.loads(EXPECTED.read_text())


def test_a_record_of_the_golden_file_as_the_page_describes_it(golden: Path) -> None:
    with Store.open(golden, write=False) as store, store.open_snapshot() as snapshot:
        record = snapshot.read_record(key_of(0))
        assert record is not None
        assert (record.user_key, record.correlation_id, record.logical_topic) == (
            b"user0",
            b"corr",
            "/orders/ü".encode(),
        )
        assert (record.is_lossy, record.is_tombstone, record.txid, record.payload) == (True, False, 100, b'{"id":0}')
        assert snapshot.meta.definition == DEFINITION
        assert [
            (txid, codec.decode_record(key_of(8), value).payload)
            for _, txid, value in snapshot.read_versions(key_of(8))
        ] == [
            (1, b"first"),
            (2, b""),
            (3, b"third"),
        ]


def test_the_block_of_the_meta_record_is_read_byte_exact(tmp_path: Path) -> None:
    copy = Path(shutil.copy(FORMATS / "block.sow", tmp_path / "block.sow"))
    assert describe(copy) == json.loads((FORMATS / "block.json").read_text())
    write_sample(tmp_path / "again.sow", BLOCK)
    assert describe(tmp_path / "again.sow") == describe(copy)
    with Store.open(copy, write=False) as store:
        assert store.read_meta().block == BLOCK
    raw = bytes.fromhex(str(describe(copy)["meta"]))
    plain = bytes.fromhex(json.loads(EXPECTED.read_text())["meta"])
    assert raw[16:-24] == plain[16:-4], "an addition behind everything that older programs read"
    assert raw[-24:-4] == bytes.fromhex("0300000000000000671200000000000098badcfe")
    assert list(check_store(copy)) == []
