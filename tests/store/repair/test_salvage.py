"""Salvage of a damaged store: everything intact is kept unchanged, and nothing is added."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import pytest

from sowctl.store.env import Store
from sowctl.store.lmdbfile.walk import parse_leaf
from sowctl.store.repair.salvage import MAX_SOW_KEY, Salvage
from tests.support.damage import flip_bit, flipped, overwrite, truncate
from tests.support.stores import batch, contents, key_of, new_store, tamper, value_of

Found = tuple[dict[bytes, bytes], dict[bytes, bytes]]


def saved(path: Path) -> tuple[Found, Salvage]:
    with Salvage(path) as salvage:
        records = {key: value for part in salvage.iter_records() for key, value in zip(*part, strict=True)}
        versions = {key: value for part in salvage.iter_versions() for key, value in zip(*part, strict=True)}
    return (records, versions), salvage


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with several levels, large values, versions, lifetimes; some records and older states are deleted."""
    path = new_store(tmp_path_factory.mktemp("sample") / "x.sow", 900, size=150)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(100, 140), 2, size=5000)))
        store.write(lambda txn: txn.put_records(*batch(range(200, 260), 3, expiration=99)))
        store.write(lambda txn: txn.put_versions([(key_of(n), value_of(key_of(n), 1, b"old" * 9)) for n in range(300)]))
        store.write(lambda txn: txn.set_sequence(5, 6))
        store.write(lambda txn: txn.delete_records([key_of(number) for number in range(0, 900, 9)]))
        store.write(lambda txn: txn.put_records(*batch(range(1, 900, 150), 4)))
    return path


def copied(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sample, tmp_path / "x.sow"))


def test_all_of_a_sound_store(sample: Path) -> None:
    found, salvage = saved(sample)
    records, versions, meta = contents(sample)
    assert found == (records, versions)
    assert salvage.is_exact
    assert (salvage.losses, salvage.notes, salvage.earlier, salvage.sequences) == ([], [], False, {5: 6})
    assert salvage.meta is not None
    assert salvage.meta.replace_parts(transaction=0) == meta


def test_of_a_damaged_record_the_key_is_told(sample: Path, tmp_path: Path) -> None:
    path = copied(sample, tmp_path)
    tamper(path, b"records", key_of(4), value_of(key_of(5), 1, b"x"))
    (records, versions), salvage = saved(path)
    expected = contents(sample)
    assert {key for key in expected[0] if key not in records} == {key_of(4)}
    assert versions == expected[1]
    (loss,) = salvage.losses
    number = int.from_bytes(key_of(4), "big")
    assert (loss.key, loss.low, loss.high) == (
        number,
        int.from_bytes(key_of(3), "big") + 1,
        int.from_bytes(key_of(5), "big") - 1,
    )
    assert not salvage.is_exact


def pages_of(path: Path) -> int:
    return path.stat().st_size // 4096


def judge(path: Path, sample: Path, problem: str) -> tuple[int, Salvage]:
    """Check that no entry is changed and each missing one is in a loss; return the number of missing ones."""
    (records, versions), salvage = saved(path)
    if salvage.earlier:
        return 1, salvage  # the state before the last transaction, and it says so
    expected = contents(sample)
    for found, there, of_versions in ((records, expected[0], False), (versions, expected[1], True)):
        extra = {key for key, value in found.items() if there.get(key) != value}
        assert not extra, f"{problem}: {len(extra)} that were not there, {salvage.earlier}, {salvage.notes}"
        for key in there.keys() - found.keys():
            number = int.from_bytes(key[:8], "big")
            assert any(loss.low <= number <= loss.high for loss in salvage.losses if loss.versions == of_versions), (
                f"{problem}: {number} is missing, and nobody says so: {salvage.losses[:3]}"
            )
    missing = len(expected[0]) + len(expected[1]) - len(records) - len(versions)
    assert salvage.is_exact == (missing == 0 and salvage.meta is not None and salvage.sequences == {5: 6}), problem
    return missing, salvage


def test_every_page_destroyed(sample: Path, tmp_path: Path) -> None:
    """If one page is lost, only its own entries are missing: pages below a lost branch are found again."""
    most = whole = 0
    for page in range(2, pages_of(sample)):
        path = copied(sample, tmp_path)
        overwrite(path, page * 4096, random.Random(page).randbytes(4096))
        missing, _ = judge(path, sample, f"page {page}")
        most, whole = max(most, missing), whole + (missing == 0)
    assert most < 40, "no more than one leaf holds"
    assert whole > 20, "free pages, branches and indexes cost no record"


@pytest.mark.parametrize("kind", ["header", "anywhere"])
def test_flipped_bits(sample: Path, tmp_path: Path, kind: str, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    for number in range(3000 if deep else 150):
        page = chance.randrange(2, pages_of(sample))
        bit = 8 * 4096 * page + chance.randrange(8 * (64 if kind == "header" else 4096))
        path.write_bytes(content)
        flip_bit(path, bit)
        missing, _ = judge(path, sample, f"bit {bit} of page {page}, try {number}")
        assert missing < 40, bit


def test_one_bit_in_the_size_of_a_large_value_costs_that_record_alone(sample: Path, tmp_path: Path) -> None:
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    # The header of a node: the size of its value (4 bytes), flags (1: on overflow pages) and the size of the key.
    heads = [at for at in range(8192, len(content), 2) if content[at + 1 : at + 8] == b"\x13\0\0\1\0\x08\0"]
    lost = []
    for at in heads[::8]:
        path.write_bytes(content)
        flip_bit(path, 8 * (at + 3) + 4)
        lost.append(judge(path, sample, f"node at {at}")[0])
    # Pages of earlier states contain some of these headers, too, and nothing depends on them.
    assert set(lost) <= {0, 1} and sum(lost) > 2


def _pages(content: bytes, kind: int) -> list[int]:
    """Return the pages of a kind: 1 branches, 2 leaves, 4 the first ones of large values."""
    heads = [(page, *struct.unpack_from("=QHH", content, 4096 * page)) for page in range(2, len(content) // 4096)]
    return [page for page, number, _, flags in heads if (number, flags) == (page, kind)]


@pytest.mark.parametrize("bit", [4, 6, 8])
def test_a_large_value_that_claims_too_many_pages_hides_no_leaves(sample: Path, tmp_path: Path, bit: int) -> None:
    """Without their branch, leaves are searched page by page, and large values are skipped."""
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    for branch in _pages(content, 1):
        spoiled = content[: 4096 * branch] + bytes(4096) + content[4096 * (branch + 1) :]
        path.write_bytes(spoiled)
        assert judge(path, sample, f"branch {branch}")[0] == 0
        for head in _pages(content, 4)[::3]:
            path.write_bytes(flipped(spoiled, 8 * (4096 * head + 12) + bit))
            assert judge(path, sample, f"branch {branch}, value in page {head}")[0] == 0


def test_an_index_entry_that_claims_too_many_pages_hides_no_leaves(sample: Path, tmp_path: Path) -> None:
    """The change list has large values as well, and their sizes have no checksum."""
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    # All large values of records have one size; these have another one.
    heads = [
        (page, struct.pack("=IHH", node.size, 1, len(node.key)))
        for page in _pages(content, 2)
        for node in parse_leaf(content[4096 * page : 4096 * (page + 1)])
        if node is not None and node.value is None and node.size > 6000
    ]
    entries = [content.index(head, 4096 * page, 4096 * (page + 1)) for page, head in heads]
    assert entries
    for branch in _pages(content, 1):
        for at in entries:
            for bit in (15, 17):
                spoiled = content[: 4096 * branch] + bytes(4096) + content[4096 * (branch + 1) :]
                path.write_bytes(flipped(spoiled, 8 * at + bit))
                assert judge(path, sample, f"branch {branch}, entry at {at}")[0] == 0


def test_one_bit_in_the_name_of_a_tree_costs_nothing(sample: Path, tmp_path: Path) -> None:
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    for name in (b"records", b"history"):
        places = [at for at in range(len(content)) if content.startswith(name, at)]
        assert places
        for at in places:
            path.write_bytes(content)
            flip_bit(path, 8 * (at + 1) + 3)
            missing, _ = judge(path, sample, f"{name!r} at {at}")
            assert missing == 0


def test_every_bit_of_the_meta_pages(sample: Path, tmp_path: Path, deep: bool, seed: int) -> None:
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    earlier = 0
    for page in (0, 1):
        for bit in range(seed % (1 if deep else 5), 8 * 152, 1 if deep else 5):
            path.write_bytes(content)
            flip_bit(path, 8 * 4096 * page + bit)
            (records, versions), salvage = saved(path)
            if salvage.earlier:
                earlier += 1  # the state before the last transaction, and it says so
                continue
            expected = contents(sample)
            assert not {key for key, value in records.items() if expected[0].get(key) != value}, (page, bit)
            assert not {key for key, value in versions.items() if expected[1].get(key) != value}, (page, bit)
    assert earlier < 30


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_cut_end(sample: Path, tmp_path: Path, share: float) -> None:
    path = copied(sample, tmp_path)
    truncate(path, int(path.stat().st_size * share))
    missing, _ = judge(path, sample, f"cut at {share}")
    assert missing > 0


def test_nothing_of_what_is_no_store(tmp_path: Path) -> None:
    for content in (b"", b"no store", bytes(9000), random.Random(1).randbytes(50_000)):
        path = tmp_path / "x.sow"
        path.write_bytes(content)
        found, salvage = saved(path)
        assert (found, salvage.has_content) == (({}, {}), False)
        assert all(loss.high == MAX_SOW_KEY for loss in salvage.losses)


def test_a_leaf_whose_list_of_entries_was_cut(sample: Path, tmp_path: Path) -> None:
    """The entries that the list lacks are intact but invisible: their absence must be reported."""
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    missing = 0
    for page in range(2, pages_of(sample), 3):
        flags, lower = content[page * 4096 + 10], int.from_bytes(content[page * 4096 + 12 : page * 4096 + 14], "little")
        if flags == 2 and lower > 24:
            path.write_bytes(content)
            overwrite(path, page * 4096 + 12, (lower - 4).to_bytes(2, "little"))
            missing += judge(path, sample, f"page {page}")[0]
    assert missing > 10


def test_lists_of_entries_that_reach_into_what_a_split_left_behind(sample: Path, tmp_path: Path) -> None:
    path = copied(sample, tmp_path)
    content = path.read_bytes()
    for page in range(2, pages_of(sample)):
        # The end of a page's list is in byte 12: four bytes more or less are two entries.
        path.write_bytes(content)
        flip_bit(path, 8 * (4096 * page + 12) + 2)
        judge(path, sample, f"page {page}")
