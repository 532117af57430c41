"""A check of a part: its structure, then the ranges not checked for longest; several checks cover everything."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sowctl.findings import Finding, Level
from sowctl.seam import SEAM
from sowctl.store.check import CheckScope, StoreCoverage, check_store
from sowctl.store.env import Store
from sowctl.store.repair.checked_ranges import write_checked_ranges
from sowctl.store.repair.partial import examine_part
from tests.support.damage import flip_bit, overwrite
from tests.support.stores import batch, contents, key_of, new_store, tamper, value_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = new_store(tmp_path / "x.sow", 4000, size=100)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(100), 2, expiration=9)))
        store.write(lambda txn: txn.put_versions([(key_of(n), value_of(key_of(n), 1, b"old" * 9)) for n in range(700)]))
        store.write(lambda txn: txn.delete_records([key_of(number) for number in range(0, 4000, 7)]))
    return path


def run(path: Path, now: int = 1, **how: object) -> tuple[list[Finding], StoreCoverage]:
    """Run in this process, and store the record of checked ranges."""
    found: list[Finding] = []
    for item in examine_part(str(path), False, lambda _: None, CheckScope(now, **how)):  # type: ignore[arg-type]
        if isinstance(item, StoreCoverage):
            if item.record:
                write_checked_ranges(path, list(item.record), SEAM)
            return found, item
        found.append(item)
    raise AssertionError("a check without its end")


def test_the_structure_alone(path: Path) -> None:
    found, covered = run(path)
    assert found == []
    assert (covered.records, covered.bytes_read, covered.share, covered.never, covered.oldest) == (0, 0, 0, 1, 0)
    assert covered.pages > 3
    assert covered.record == ()


def test_shares_come_to_all(path: Path) -> None:
    records, versions, _ = contents(path)
    seen = found = 0
    for night in range(1, 8):
        findings, covered = run(path, night, share=0.2)
        assert findings == []
        seen += covered.records
        found += covered.versions
        assert 0.2 <= covered.share < 0.25
        if covered.never == 0:
            break
    assert night in (4, 5)
    assert (covered.oldest, covered.never) == (1, 0)
    assert seen >= len(records)
    assert found >= len(versions)
    assert run(path, 9, share=0.2)[1].oldest in (1, 2)


def test_parts_come_to_all(path: Path) -> None:
    records, versions, _ = contents(path)
    covered = [run(path, number, part=(number, 3))[1] for number in (1, 2, 3)]
    assert sum(one.records for one in covered) == len(records)
    assert sum(one.versions for one in covered) == len(versions)
    assert sum(one.share for one in covered) == pytest.approx(1)
    assert [round(one.never, 1) for one in covered] == [0.7, 0.3, 0.0]


def test_as_long_as_there_is_time(path: Path) -> None:
    assert run(path, seconds=0.0)[1].share == 0
    covered = run(path, seconds=60.0)[1]
    assert (covered.share, covered.never) == (1, 0)


def test_what_is_damaged_is_found_once_its_part_is_read_and_read_again_first(path: Path) -> None:
    tamper(path, b"records", key_of(3001), value_of(key_of(3), 1, b"of another key"))
    found = [run(path, night, share=0.25)[0] for night in range(1, 5)]
    assert [len(one) for one in found].count(0) == 3
    covered = run(path, 9, share=0.001)
    assert [finding.id for finding in covered[0]] == ["SOW-STO-001"]
    assert covered[1].never > 0


def test_an_entry_of_the_expiry_index_that_is_missing(path: Path) -> None:
    from sowctl.store.codec import encode_expiry_key

    tamper(path, b"expiry", encode_expiry_key(9, key_of(3)), None)
    assert [finding.id for finding in run(path, share=1.0)[0]] == ["SOW-STO-052"]


def test_every_branch_and_root_destroyed(path: Path) -> None:
    """The check of the structure alone notices it."""
    content = path.read_bytes()
    branches = [
        n for n in range(2, len(content) // 4096) if content[n * 4096 + 10] == 1 and content[n * 4096] == n % 256
    ]
    assert len(branches) >= 3
    for page in branches[:3]:
        path.write_bytes(content)
        overwrite(path, page * 4096 + 16, random.Random(page).randbytes(4080))
        found, _ = run(path)
        if not found:  # a branch of an earlier state: its page is free
            assert run(path, share=1.0)[0] == []
    assert found or len(branches) > 3


def test_flips_are_noticed_when_all_is_read(path: Path, seed: int, deep: bool) -> None:
    """If a check of all parts finds no damage, readers see no change."""
    chance = random.Random(seed)
    content, expected = path.read_bytes(), contents(path)
    silent, tries = 0, 1000 if deep else 12
    for number in range(tries):
        path.write_bytes(content)
        bit = chance.randrange(8 * 8192, 8 * len(content))
        flip_bit(path, bit)
        run_of = check_store(path, reading=CheckScope(1, share=1.0))
        if not [finding for finding in run_of if finding.level is Level.ERROR]:
            silent += 1
            assert contents(path) == expected, f"bit {bit}, try {number}"
    assert silent < tries


def test_in_a_process_of_its_own(path: Path) -> None:
    check = check_store(path, reading=CheckScope(5, share=0.5))
    assert list(check) == []
    assert 0.5 <= check.coverage.share < 0.6
    assert max(time for _, time in check.coverage.record) == 5
    path.write_bytes(path.read_bytes()[: 4096 * 20])
    assert [finding.id for finding in check_store(path, reading=CheckScope(5, share=0.5))] == ["SOW-STO-022"]
