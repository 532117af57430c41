"""Bit flips and truncations: reported or without effect, never silently wrong, never a signal to the reader.

A child process reads every damaged copy: once through a snapshot, once as a check does.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from sowctl.errors import SowError
from sowctl.findings import Finding
from sowctl.store import codec
from sowctl.store.builder import create_store
from sowctl.store.codec import encode_expiry_key
from sowctl.store.env import Store
from sowctl.store.examine import examine_store
from sowctl.store.meta import SEQUENCE_PREFIX
from sowctl.store.snapshot import Snapshot
from sowctl.store.write import WriteTxn
from tests.support.damage import BROKEN, EQUAL, REPORTED, WRONG, Job, flipped, in_children
from tests.support.stores import DEFINITION, START, batch, key_of, new_store, value_of

State = tuple[object, ...]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all kinds of data: small and large records, versions, tombstones, expirations, sequences."""
    path = new_store(tmp_path_factory.mktemp("damage") / "x.sow", 300)

    def fill(txn: WriteTxn) -> None:
        txn.put_records(*batch(range(90), 3, expiration=1000))
        txn.put_records(*batch(range(400, 404), 3, size=9000))
        versions = [(key_of(n), value_of(key_of(n), txid, b"version")) for n in range(40) for txid in (1, 2)]
        versions += [(key_of(900 + n), value_of(key_of(900 + n), 3, b"", flags=codec.TOMBSTONE_FLAG)) for n in range(5)]
        txn.put_versions(versions)
        txn.set_sequence(5, 6)

    with Store.open(path, write=True) as store:
        store.write(fill)
        store.write(lambda txn: txn.delete_records(key_of(n) for n in range(280, 300)))
    return path


def read_all(path: Path) -> State:
    """Return everything that a reader can request."""
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        records = [pair for keys, values in snapshot.scan_records() for pair in zip(keys, values, strict=True)]
        versions = [pair for keys, values in snapshot.scan_history() for pair in zip(keys, values, strict=True)]
        keys = [key_of(number) for number in range(0, 410, 3)]
        single = [record and record.value for record in map(snapshot.read_record, keys)]
        of_key = [snapshot.read_versions(key_of(number)) for number in range(0, 50, 5)]
        return (
            snapshot.meta,
            records,
            versions,
            single,
            snapshot.read_values(keys),
            of_key,
            list(snapshot.iter_expired_keys(1 << 62)),
            [snapshot.read_sequence(publisher) for publisher in (5, 6)],
        )


def checked(path: Path) -> list[Finding]:
    return [item for item in examine_store(str(path), False, lambda _: None) if isinstance(item, Finding)]


def verdicts(path: Path, truth: State, makers: Sequence[Callable[[], bytes]]) -> Iterator[tuple[int, int]]:
    """Yield the results of a reader and of a check for the bytes of each of ``makers``.

    A result is EQUAL, REPORTED, WRONG, BROKEN, or a negative signal.
    """

    def read(make: Callable[[], bytes]) -> int:
        path.write_bytes(make())
        return EQUAL if read_all(path) == truth else WRONG

    jobs: list[Job] = []
    for make in makers:
        jobs += [partial(read, make), lambda: REPORTED if checked(path) else EQUAL]
    statuses = in_children(jobs)
    return zip(statuses[::2], statuses[1::2], strict=True)


def test_no_flipped_bit_is_silent(sample: Path, tmp_path: Path, deep: bool) -> None:
    truth, raw = read_all(sample), sample.read_bytes()
    used = [page for page in range(len(raw) // 4096) if raw[page * 4096 : page * 4096 + 4096].strip(b"\0")]
    chance = random.Random(20261120)
    reported = 0
    tries = 20_000 if deep else 300
    bits = [chance.choice(used) * 32_768 + chance.randrange(32_768) for _ in range(tries)]
    all_verdicts = verdicts(tmp_path / "x.sow", truth, [partial(flipped, raw, bit) for bit in bits])
    for bit, (reader, checker) in zip(bits, all_verdicts, strict=True):
        assert reader not in (WRONG, BROKEN), f"bit {bit}: a reader got {reader}"
        if reader != EQUAL:
            reported += 1
            assert checker != EQUAL, f"bit {bit}: a reader got {reader}, a check found nothing"
        assert checker != BROKEN, f"bit {bit}"
    assert reported > tries // 4


@pytest.mark.parametrize("page", [0, 1])
def test_every_bit_of_the_meta_pages(sample: Path, tmp_path: Path, page: int, deep: bool) -> None:
    """LMDB chooses its state by these; a wrong transaction number would show an older one."""
    truth, raw = read_all(sample), sample.read_bytes()
    path = tmp_path / "x.sow"

    def read(bit: int) -> int:
        path.write_bytes(flipped(raw, bit))
        return EQUAL if read_all(path) == truth else WRONG

    bits = range(page * 32_768, page * 32_768 + 152 * 8, 1 if deep else 2)
    for bit, reader in zip(bits, in_children([partial(read, bit) for bit in bits]), strict=True):
        assert reader in (EQUAL, REPORTED), f"bit {bit - page * 32_768} of meta page {page}: {reader}"


def test_a_sequence_that_is_not_found_is_not_taken_for_none(tmp_path: Path) -> None:
    """A bit flip in the offset of the node that holds it: the search misses it, and no checksum is verified."""
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.set_sequence(5, 6))
    raw = path.read_bytes()
    # The page's second node: the meta record is the first one, and the offsets of both start at byte 16.
    pages = [at for at in pages_of_kind(raw, 2) if SEQUENCE_PREFIX in raw[at : at + 4096]]

    def asked(bit: int, publisher: int) -> int:
        path.write_bytes(flipped(raw, bit))
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            return EQUAL if snapshot.read_sequence(publisher) == {5: 6}.get(publisher) else WRONG

    bits = [8 * (at + 18) + bit for at in pages for bit in range(16)]
    found = in_children([partial(asked, bit, publisher) for bit in bits for publisher in (5, 7)])
    assert not {WRONG, BROKEN} & set(found), found
    assert found.count(REPORTED) >= 4


def test_no_cut_end_ends_a_process(sample: Path, tmp_path: Path, deep: bool) -> None:
    truth, raw = read_all(sample), sample.read_bytes()
    chance = random.Random(7)
    sizes = {0, 1, 4095, 4096, 8191, 8192, 8193, len(raw) - 1, len(raw) - 4096}
    sizes |= {chance.randrange(len(raw)) for _ in range(3000 if deep else 80)}
    harmless = 0
    cuts = [partial(raw.__getitem__, slice(size)) for size in sorted(sizes)]
    for size, (reader, checker) in zip(sorted(sizes), verdicts(tmp_path / "x.sow", truth, cuts), strict=True):
        assert reader in (EQUAL, REPORTED), f"cut at {size}: {reader}"
        assert checker in (EQUAL, REPORTED)
        assert (reader == EQUAL) <= (checker == EQUAL)
        harmless += reader == EQUAL
    assert harmless < len(sizes) // 4


def test_garbled_pages(sample: Path, tmp_path: Path) -> None:
    """Whole pages of zeros, of noise, or swapped: the result of a bad disk or a wrong copy."""
    truth, raw = read_all(sample), sample.read_bytes()
    chance = random.Random(8)
    pages = len(raw) // 4096

    def garbled(number: int) -> bytes:
        data = bytearray(raw)
        one, two = chance.randrange(2, pages) * 4096, chance.randrange(2, pages) * 4096
        first, second = raw[one : one + 4096], raw[two : two + 4096]
        data[one : one + 4096] = (bytes(4096), chance.randbytes(4096), second)[number % 3]
        if number % 3 == 2:
            data[two : two + 4096] = first
        return bytes(data)

    all_verdicts = verdicts(tmp_path / "x.sow", truth, [partial(garbled, number) for number in range(60)])
    for number, (reader, checker) in enumerate(all_verdicts):
        assert reader != BROKEN
        # an older copy of the same page is valid in itself; only digest and transaction number reveal it
        assert reader != WRONG or number % 3 == 2
        assert reader == EQUAL or checker not in (EQUAL, BROKEN)


def ways_to_read(path: Path) -> dict[str, Callable[[], object]]:
    """Each reads by itself, so that it does not profit from what another one would find first."""

    def shown(read: Callable[[Snapshot], object]) -> Callable[[], object]:
        def run() -> object:
            with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
                return read(snapshot)

        return run

    ranges = {
        f"from {one} to {two}": shown(
            lambda it, one=one, two=two: list(it.scan_records(key_of(one), key_of(two), batch=4))
        )  # type: ignore[misc]
        for one, two in ((5, 20), (5, 80), (40, 120), (70, 139), (110, 900))
    }
    return ranges | {
        "scan": shown(lambda it: list(it.scan_records())),
        "runs": shown(lambda it: [run[:2] for run in it.scan_runs(batch=10)]),
        "present": shown(lambda it: [it.read_values([key_of(number)]) for number in range(0, 140, 9)]),
        "absent": shown(lambda it: it.read_values([bytes(8), b"\0\1" * 4, b"\0\0\1" + bytes(5), bytes([255] * 8)])),
        "history": shown(lambda it: list(it.scan_history())),
        "versions": shown(lambda it: [it.read_versions(key_of(number)) for number in (0, 39, 40, 99, 119, 120, 300)]),
        "expired": shown(lambda it: list(it.iter_expired_keys(1 << 62))),
        "sequences": shown(lambda it: [it.read_sequence(publisher) for publisher in (5, 6)]),
    }


def plain_store(path: Path) -> Path:
    """A store written in one transaction; the first of several leaf pages has as many entries as the expiry index."""
    create_store(path, DEFINITION, now=START)

    def fill(txn: WriteTxn) -> None:
        txn.put_records(*batch(range(33), 1, expiration=START))
        txn.put_records(*batch(range(33, 140), 1))
        keys = [key_of(number) for number in range(40, 120, 2)]
        txn.put_versions([(key, value_of(key, 1, b"version")) for key in keys])
        txn.set_sequence(5, 6)

    with Store.open(path, write=True) as store:
        store.write(fill)
    return path


def exchanged(raw: bytes, one: int, two: int) -> bytes:
    """Return ``raw`` with the pages at two offsets swapped."""
    data = bytearray(raw)
    data[one : one + 4096], data[two : two + 4096] = raw[two : two + 4096], raw[one : one + 4096]
    return bytes(data)


def test_no_two_pages_exchanged_are_silent(tmp_path: Path) -> None:
    """Entries of another sub-database may have valid checksums; every kind of read distinguishes them from its own.

    The store is written in one transaction, so that no page of it is an older copy of another one.
    """
    path = plain_store(tmp_path / "x.sow")
    raw = path.read_bytes()
    pages = pages_of_kind(raw, 2)
    truth = {name: read() for name, read in ways_to_read(path).items()}
    assert all(truth.values())
    couples = list(combinations(pages, 2))
    assert len(couples) > 60
    reported = dict.fromkeys(truth, 0)

    def compared(name: str, read: Callable[[], object]) -> int:
        return EQUAL if read() == truth[name] else WRONG

    for one, two in couples:
        path.write_bytes(exchanged(raw, one, two))
        jobs = [partial(compared, name, read) for name, read in ways_to_read(path).items()]
        for name, status in zip(truth, in_children(jobs), strict=True):
            assert status in (EQUAL, REPORTED), f"pages {one // 4096} and {two // 4096}: {name} got {status}"
            reported[name] += status == REPORTED
    assert all(reported.values()), reported


def searched(path: Path, key: bytes, write: bool) -> int:
    """Return the result of looking one key up, in a transaction of either kind."""

    def read() -> int:
        with Store.open(path, write=write) as store:
            if write:
                return EQUAL if store.write(lambda txn: txn.read_values([key])) else WRONG
            with store.open_snapshot() as snapshot:
                return EQUAL if snapshot.read_values([key]) else WRONG

    return in_children([read])[0]


@pytest.mark.parametrize("write", [False, True])
def test_a_wrong_key_in_a_branch_page_hides_no_record(tmp_path: Path, write: bool) -> None:
    path = plain_store(tmp_path / "x.sow")
    raw = path.read_bytes()
    [branch] = pages_of_kind(raw, 1)
    second = key_of(33)
    at = raw.index(second, branch, branch + 4096)
    # The page with keys of another position is reported, whichever of them is requested; the other page still works.
    for other, hidden, sound in ((40, (33, 34, 39, 40), 19), (20, (19, 20, 21, 32), 40)):
        path.write_bytes(raw[:at] + key_of(other) + raw[at + 8 :])
        found = [searched(path, key_of(number), write) for number in hidden]
        assert set(found) <= {EQUAL, REPORTED}
        assert found.count(REPORTED) >= 3
        assert searched(path, key_of(sound), write) == EQUAL


@pytest.mark.parametrize("write", [False, True])
def test_no_key_is_added_beside_those_of_another_kind(tmp_path: Path, write: bool) -> None:
    path = plain_store(tmp_path / "x.sow")
    raw = path.read_bytes()
    leaves = pages_of_kind(raw, 2)
    [one] = [at for at in leaves if key_of(0) + value_of(key_of(0), 1, b"")[:20] in raw[at : at + 4096]]
    [two] = [at for at in leaves if encode_expiry_key(START, key_of(0)) in raw[at : at + 4096]]
    path.write_bytes(exchanged(raw, one, two))
    for key in (bytes(8), b"\0\7" + bytes(6)):
        assert searched(path, key, write) == REPORTED


def test_what_stands_beside_a_key_that_is_not_there_has_to_be_sound(tmp_path: Path) -> None:
    path = plain_store(tmp_path / "x.sow")
    raw = bytearray(path.read_bytes())
    at = raw.index(value_of(key_of(50), 1, b"")[:12], raw.index(key_of(50)))
    raw[at + 60] ^= 1
    path.write_bytes(raw)
    absent = (int.from_bytes(key_of(50), "big") + 1).to_bytes(8, "big")
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        with pytest.raises(SowError, match=f"record {int.from_bytes(key_of(50), 'big')}, next") as raised:
            snapshot.read_record(absent)
        assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-023", 5)
        assert snapshot.read_record(key_of(60)[:7] + b"\0") is None


def test_a_page_of_another_sub_database_does_not_say_that_a_key_is_not_there(tmp_path: Path) -> None:
    path = plain_store(tmp_path / "x.sow")
    raw = path.read_bytes()
    leaf = raw.index(key_of(50)) // 4096 * 4096
    for size, value in ((16, bytes(4)), (8, bytes(40))):
        # One entry in the middle of the page's keys, as of the expiry index or the change list.
        node = struct.pack("=HHHH", len(value), 0, 0, size) + key_of(50).ljust(size, b"\0") + value
        head = struct.pack("=QHHHHH", leaf // 4096, 0, 2, 18, 4096 - len(node), 4096 - len(node))
        page = head.ljust(4096 - len(node), b"\0") + node
        path.write_bytes(raw[:leaf] + page + raw[leaf + 4096 :])
        assert searched(path, key_of(51), write=False) == REPORTED


def pages_of_kind(raw: bytes, flag: int) -> list[int]:
    """Return the offsets of pages whose flags declare them branch (1) or leaf (2) pages."""
    return [at for at in range(8192, len(raw), 4096) if int.from_bytes(raw[at + 10 : at + 12], "little") == flag]


def scanned(path: Path) -> int:
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        return sum(len(keys) for keys, _ in snapshot.scan_records())


def test_a_scan_that_loses_a_page_or_meets_keys_out_of_order_says_so(sample: Path, tmp_path: Path) -> None:
    raw = sample.read_bytes()
    path = tmp_path / "x.sow"
    lost = swapped = 0
    for at in pages_of_kind(raw, 1):
        lower = int.from_bytes(raw[at + 12 : at + 14], "little")
        path.write_bytes(raw[: at + 12] + (lower - 2).to_bytes(2, "little") + raw[at + 14 :])
        lost += in_children([lambda: EQUAL if scanned(path) == 284 else WRONG]) == [REPORTED]
    for at in pages_of_kind(raw, 2):
        path.write_bytes(raw[: at + 16] + raw[at + 18 : at + 20] + raw[at + 16 : at + 18] + raw[at + 20 :])
        swapped += in_children([lambda: EQUAL if scanned(path) == 284 else WRONG]) == [REPORTED]
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
            store.write(lambda txn: txn.put_records([key], [value_of(key, 9, b"x")]))
        assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-001", 5)
        assert raised.value.facts["sow_key"] == int.from_bytes(key, "big")
        store.write(lambda txn: txn.put_records([key_of(8)], [value_of(key_of(8), 9, b"x")]))
    assert [finding.id for finding in checked(path)] == ["SOW-STO-001", "SOW-STO-051"]
