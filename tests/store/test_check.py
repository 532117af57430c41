"""A check reads everything, in a process of its own, and never passes if it did not complete."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any
from zlib import crc32

import lmdb
import pytest

from sowctl.errors import DamageError, MissingError, StorageError
from sowctl.findings import Level
from sowctl.store import check, codec
from sowctl.store.check import check_store
from sowctl.store.codec import encode_expiry_key, encode_expiry_value
from sowctl.store.env import Store
from sowctl.store.meta import META_KEY, encode_meta
from tests.support.damage import truncate
from tests.support.stores import batch, history_key, key_of, new_store, tamper, value_of


def ids(path: Path) -> list[str]:
    return [finding.id for finding in check_store(path)]


def test_a_sound_store(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5000)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(10), 2, expiration=5)))
        store.write(lambda txn: txn.put_versions([(key_of(3), value_of(key_of(3), 1, b"v"))]))
        store.write(lambda txn: txn.set_sequence(1, 2))
        run = check_store(path)
        assert list(run) == []
        assert (run.coverage.records, run.coverage.versions, run.coverage.expiry_entries) == (5000, 1, 10)
        assert run.coverage.is_complete
        assert run.coverage.bytes_read > 5000 * 100


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        check_store(tmp_path / "x.sow")


def test_a_changed_record_is_named(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 20)
    tamper(path, b"records", key_of(4), value_of(key_of(5), 1, b"under a wrong key"))
    findings = list(check_store(path))
    assert [finding.id for finding in findings] == ["SOW-STO-001", "SOW-STO-051", "SOW-STO-051"]
    assert findings[0].place.element == f"record {int.from_bytes(key_of(4), 'big')}"
    assert findings[0].level is Level.ERROR


def test_a_sound_record_that_was_not_counted(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 20)
    tamper(path, b"records", key_of(4), value_of(key_of(4), 1, b"another payload"))
    findings = list(check_store(path))
    assert [finding.message.split(" ")[0] for finding in findings] == [str(60 * 19 + 15), "the"]
    assert ids(path) == ["SOW-STO-051", "SOW-STO-051"]


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (encode_expiry_key(50, key_of(4)), None),
        (encode_expiry_key(51, key_of(4)), encode_expiry_value(encode_expiry_key(51, key_of(4)))),
    ],
)
def test_the_expiry_index_is_compared(tmp_path: Path, entry: bytes, value: bytes | None) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(10), 2, expiration=50)))
    tamper(path, b"expiry", entry, value)
    assert ids(path) == ["SOW-STO-052"]


def test_versions_are_compared_with_their_keys_and_with_the_record(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    key = key_of(1)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_versions([(key, value_of(key, 1, b"v"))]))
        assert ids(path) == []
        store.write(lambda txn: txn.put_versions([(key, value_of(key, 9, b"v"))]))
    assert ids(path) == ["SOW-STO-053"]
    tamper(path, b"history", history_key(key, 1, 1), value_of(key, 2, b"v"))
    assert "SOW-STO-004" in ids(path)


def test_txids_beyond_the_position(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(3), 8)))
        store.write(lambda txn: txn.set_applied_position(b"L" * 16, 8))
        assert ids(path) == []
        store.write(lambda txn: txn.set_applied_position(b"L" * 16, 7))
    assert ids(path) == ["SOW-STO-051"]


def test_a_tombstone_is_no_record(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    key = key_of(1)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records([key], [value_of(key, 1, b"", flags=codec.TOMBSTONE_FLAG)]))
    assert ids(path) == ["SOW-STO-053"]


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    key = key_of(1)
    body = value_of(key, 1, b"payload")[:-4]
    body = b"\1" + body[1:]
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records([key], [body + crc32(body, crc32(key)).to_bytes(4, "little")]))
    assert ids(path) == ["SOW-STO-002"]


@pytest.mark.parametrize("body", [b"\xff" * 6, b"\0\0\x10\x27" + bytes(40)], ids=["header", "optional parts"])
def test_a_value_that_is_too_short_has_no_payload_bytes(tmp_path: Path, body: bytes) -> None:
    path = new_store(tmp_path / "x.sow", 20)
    key = key_of(4)
    tamper(path, b"records", key, body + crc32(body, crc32(key)).to_bytes(4, "little"))
    counters = [finding.message for finding in check_store(path) if finding.id == "SOW-STO-051"]
    assert counters[0].split(" ")[0] == str(60 * 19)  # the others have 60 bytes each


def test_a_damaged_meta_record_still_lets_the_records_be_checked(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 30)
    tamper(path, b"meta", META_KEY, b"SOWSTORE" + bytes(30))
    run = check_store(path)
    assert [finding.id for finding in run] == ["SOW-STO-012"]
    assert run.coverage.records == 30
    assert not run.coverage.is_complete


def test_damaged_sequences(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.set_sequence(1, 2))
    tamper(path, b"meta", b"seq:" + bytes(8), b"\1" * 12)
    assert ids(path) == ["SOW-STO-013"]


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 300)
    truncate(path, 20_000)
    run = check_store(path)
    assert [finding.id for finding in run] == ["SOW-STO-022"]
    assert not run.coverage.is_complete


def test_a_digest_that_was_counted_wrongly(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=False) as store:
        meta = store.read_meta()
    tamper(
        path,
        b"meta",
        META_KEY,
        encode_meta(meta.replace_parts(digest=meta.digest ^ 1, transaction=meta.transaction + 1)),
    )
    assert ids(path) == ["SOW-STO-051"]


def test_a_state_that_the_last_transaction_did_not_write(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    tamper(path, b"index:other", b"key", b"value")
    assert ids(path) == ["SOW-STO-054"]
    for write in (False, True):
        with pytest.raises(DamageError) as raised:
            Store.open(path, write=write)
        assert raised.value.code == "SOW-STO-054"


def test_lmdbs_own_copies_are_sound(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 300)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(10), 2)))
    for compact in (False, True):
        copy = tmp_path / f"copy{compact}.sow"
        with lmdb.open(str(path), subdir=False, readonly=True) as env, copy.open("wb") as file:
            env.copyfd(file.fileno(), compact=compact)
        assert ids(copy) == []
        with Store.open(copy, write=True) as store:
            store.write(lambda txn: txn.put_records(*batch(range(10), 3)))
            store.write(lambda txn: txn.put_records(*batch(range(10), 4)))
        assert ids(copy) == []


def test_a_reading_process_that_dies_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    for signal_number in (signal.SIGBUS, signal.SIGABRT):
        program = (
            "import os, sys; print('{\"at\": \"records after 5\"}', flush=True); print('MDB: bad', file=sys.stderr);"
        )
        monkeypatch.setattr(
            check, "_CHECK_PROGRAM", f"{program} sys.stderr.flush(); os.kill(os.getpid(), {int(signal_number)}) "
        )
        run = check_store(path)
        (finding,) = run
        assert finding.id == "SOW-STO-050"
        assert signal_number.name in finding.message
        assert "records after 5" in finding.message
        assert "MDB: bad" in finding.message
        assert not run.coverage.is_complete


def test_a_reading_process_that_ends_early_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    monkeypatch.setattr(check, "_CHECK_PROGRAM", "pass")
    assert ids(path) == ["SOW-STO-050"]


def test_a_check_can_be_left_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    path = new_store(tmp_path / "x.sow", 20)
    for number in range(10):
        tamper(path, b"records", key_of(number), b"x" * 50)
    run = check_store(path)
    next(run)
    run.close()
    assert list(run) == []
    assert [child.returncode is None for child in started] == [False]


def test_a_program_that_may_not_be_run_is_the_place_of_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    (barred := tmp_path / "python").write_bytes(b"")
    monkeypatch.setattr(check.sys, "executable", str(barred))
    with pytest.raises(StorageError) as caught:
        ids(path)
    assert (caught.value.code, caught.value.place) == ("SOW-STO-042", str(barred))


def test_one_damaged_page_is_one_finding(tmp_path: Path) -> None:
    """LMDB refuses everything in a transaction that has met a damaged page: this is not reported for each part."""
    path = new_store(tmp_path / "x.sow", 2000)
    raw = path.read_bytes()
    damaged = 0
    for number, page in enumerate(range(2, len(raw) // 4096, 7)):
        other = tmp_path / f"{number}.sow"
        content = bytearray(raw)
        # The flags of a page specify its kind.
        content[page * 4096 + 10 : page * 4096 + 12] = b"\x77\x77"
        other.write_bytes(content)
        found = list(check_store(other))
        assert [finding.id for finding in found].count("SOW-STO-023") <= 1, found
        damaged += any(finding.id == "SOW-STO-023" for finding in found)
    assert damaged
