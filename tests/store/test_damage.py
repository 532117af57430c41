"""Wrong bits and missing ends: reported or without effect, never silently wrong, never a signal to who asked.

A child process reads every damaged copy: once through a snapshot, once as a check does.
"""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.errors import SowError
from sowctl.findings import Finding
from sowctl.store import codec
from sowctl.store.env import Store
from sowctl.store.examine import examine
from sowctl.store.write import WriteTxn
from tests.support.damage import copy_flipped
from tests.support.stores import batch, key_of, new_store, value_of

EQUAL, REPORTED, WRONG, BROKEN = 0, 10, 20, 30
State = tuple[object, ...]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with everything in it: small and large records, versions, tombstones, expirations, sequences."""
    path = new_store(tmp_path_factory.mktemp("damage") / "x.sow", 300)

    def fill(txn: WriteTxn) -> None:
        txn.put(*batch(range(90), 3, expiration=1000))
        txn.put(*batch(range(400, 404), 3, size=9000))
        versions = [(key_of(n), value_of(key_of(n), txid, b"version")) for n in range(40) for txid in (1, 2)]
        versions += [(key_of(900 + n), value_of(key_of(900 + n), 3, b"", flags=codec.TOMBSTONE)) for n in range(5)]
        txn.put_versions(versions)
        txn.set_sequence(5, 6)

    with Store.open(path, write=True) as store:
        store.write(fill)
        store.write(lambda txn: txn.delete(key_of(n) for n in range(280, 300)))
    return path


def read_all(path: Path) -> State:
    """Everything that a reader can ask for."""
    with Store.open(path, write=False) as store, store.snapshot() as snapshot:
        records = [pair for keys, values in snapshot.scan() for pair in zip(keys, values, strict=True)]
        versions = [pair for keys, values in snapshot.scan_history() for pair in zip(keys, values, strict=True)]
        keys = [key_of(number) for number in range(0, 410, 3)]
        single = [record and record.value for record in map(snapshot.get, keys)]
        of_key = [snapshot.versions(key_of(number)) for number in range(0, 50, 5)]
        return (
            snapshot.meta,
            records,
            versions,
            single,
            snapshot.get_many(keys),
            of_key,
            list(snapshot.expired(1 << 62)),
            snapshot.sequences(),
        )


def checked(path: Path) -> list[Finding]:
    return [item for item in examine(str(path), False, lambda _: None) if isinstance(item, Finding)]


def in_child(function: Callable[[], int]) -> int:
    """The status of ``function`` run in a forked child; a signal is a negative number."""
    pid = os.fork()
    if pid == 0:
        status = BROKEN
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            status = function()
        except SowError as error:
            status = REPORTED if error.exit_status in (5, 9) else BROKEN
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def verdicts(path: Path, truth: State) -> tuple[int, int]:
    """How a reader and a check fare: EQUAL, REPORTED, WRONG, BROKEN, or a negative signal."""
    reader = in_child(lambda: EQUAL if read_all(path) == truth else WRONG)
    checker = in_child(lambda: REPORTED if checked(path) else EQUAL)
    return reader, checker


def test_no_flipped_bit_is_silent(sample: Path, tmp_path: Path, deep: bool) -> None:
    truth, raw = read_all(sample), sample.read_bytes()
    used = [page for page in range(len(raw) // 4096) if raw[page * 4096 : page * 4096 + 4096].strip(b"\0")]
    chance = random.Random(20261120)
    path = tmp_path / "x.sow"
    reported = 0
    tries = 20_000 if deep else 300
    for _ in range(tries):
        bit = chance.choice(used) * 32_768 + chance.randrange(32_768)
        copy_flipped(raw, path, bit)
        reader, checker = verdicts(path, truth)
        assert reader not in (WRONG, BROKEN), f"bit {bit}: a reader got {reader}"
        if reader != EQUAL:
            reported += 1
            assert checker != EQUAL, f"bit {bit}: a reader got {reader}, a check found nothing"
        assert checker != BROKEN, f"bit {bit}"
    assert reported > tries // 4


@pytest.mark.parametrize("page", [0, 1])
def test_every_bit_of_the_meta_pages(sample: Path, tmp_path: Path, page: int, deep: bool) -> None:
    """LMDB picks its state by these; a wrong transaction number would show an older one."""
    truth, raw = read_all(sample), sample.read_bytes()
    path = tmp_path / "x.sow"
    for bit in range(page * 32_768, page * 32_768 + 152 * 8, 1 if deep else 2):
        copy_flipped(raw, path, bit)
        reader = in_child(lambda: EQUAL if read_all(path) == truth else WRONG)
        assert reader in (EQUAL, REPORTED), f"bit {bit - page * 32_768} of meta page {page}: {reader}"


def test_no_cut_end_ends_a_process(sample: Path, tmp_path: Path, deep: bool) -> None:
    truth, raw = read_all(sample), sample.read_bytes()
    path = tmp_path / "x.sow"
    chance = random.Random(7)
    sizes = {0, 1, 4095, 4096, 8191, 8192, 8193, len(raw) - 1, len(raw) - 4096}
    sizes |= {chance.randrange(len(raw)) for _ in range(3000 if deep else 80)}
    harmless = 0
    for size in sorted(sizes):
        path.write_bytes(raw[:size])
        reader, checker = verdicts(path, truth)
        assert reader in (EQUAL, REPORTED), f"cut at {size}: {reader}"
        assert checker in (EQUAL, REPORTED)
        assert (reader == EQUAL) <= (checker == EQUAL)
        harmless += reader == EQUAL
    assert harmless < len(sizes) // 4


def test_garbled_pages(sample: Path, tmp_path: Path) -> None:
    """Whole pages of zeros, of noise, or swapped: what a bad disk or a wrong copy leaves."""
    truth, raw = read_all(sample), sample.read_bytes()
    path = tmp_path / "x.sow"
    chance = random.Random(8)
    pages = len(raw) // 4096
    for number in range(60):
        data = bytearray(raw)
        one, two = chance.randrange(2, pages) * 4096, chance.randrange(2, pages) * 4096
        first, second = raw[one : one + 4096], raw[two : two + 4096]
        data[one : one + 4096] = (bytes(4096), chance.randbytes(4096), second)[number % 3]
        if number % 3 == 2:
            data[two : two + 4096] = first
        path.write_bytes(data)
        reader, checker = verdicts(path, truth)
        assert reader != BROKEN
        # an older copy of the same page is sound in itself; only digest and transaction number tell
        assert reader != WRONG or number % 3 == 2
        assert reader == EQUAL or checker not in (EQUAL, BROKEN)


def pages_of_kind(raw: bytes, flag: int) -> list[int]:
    """Offsets of the pages that say they are branch (1) or leaf (2) pages."""
    return [at for at in range(8192, len(raw), 4096) if int.from_bytes(raw[at + 10 : at + 12], "little") == flag]


def scanned(path: Path) -> int:
    with Store.open(path, write=False) as store, store.snapshot() as snapshot:
        return sum(len(keys) for keys, _ in snapshot.scan())


def test_a_scan_that_loses_a_page_or_meets_keys_out_of_order_says_so(sample: Path, tmp_path: Path) -> None:
    raw = sample.read_bytes()
    path = tmp_path / "x.sow"
    lost = swapped = 0
    for at in pages_of_kind(raw, 1):
        lower = int.from_bytes(raw[at + 12 : at + 14], "little")
        path.write_bytes(raw[: at + 12] + (lower - 2).to_bytes(2, "little") + raw[at + 14 :])
        lost += in_child(lambda: EQUAL if scanned(path) == 284 else WRONG) == REPORTED
    for at in pages_of_kind(raw, 2):
        path.write_bytes(raw[: at + 16] + raw[at + 18 : at + 20] + raw[at + 16 : at + 18] + raw[at + 20 :])
        swapped += in_child(lambda: EQUAL if scanned(path) == 284 else WRONG) == REPORTED
    assert lost >= 1
    assert swapped > 5


def test_writing_to_a_damaged_store_is_refused_and_makes_nothing_worse(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.sow"
    shutil.copy(sample, path)
    raw = bytearray(path.read_bytes())
    value = read_all(path)[1][7][1]  # type: ignore[index]
    at = raw.rindex(value)
    raw[at + 50] ^= 1
    path.write_bytes(raw)
    key = key_of(7)
    with Store.open(path, write=True) as store:
        with pytest.raises(SowError) as raised:
            store.write(lambda txn: txn.put([key], [value_of(key, 9, b"x")]))
        assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-001", 5)
        assert raised.value.facts["sow_key"] == int.from_bytes(key, "big")
        store.write(lambda txn: txn.put([key_of(8)], [value_of(key_of(8), 9, b"x")]))
    assert [finding.id for finding in checked(path)] == ["SOW-STO-001", "SOW-STO-051"]
