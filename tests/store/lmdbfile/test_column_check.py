"""The check of leaves in columns and the check of a single page: the same result on damaged pages."""

from __future__ import annotations

import mmap
import random
from itertools import pairwise
from pathlib import Path
from struct import unpack_from

import pytest

from sowctl.store.env import Store
from sowctl.store.lmdbfile import column_check as columns
from sowctl.store.lmdbfile.check import LeafPage, PageFault, probe_leaf, read_entries, read_leaf
from sowctl.store.lmdbfile.column_check import find_gaps, probe_leaves, read_leaves
from tests.support.stores import batch, history_key, key_of, new_store, value_of

PAGE = 4096
KEY_SIZES = 8, 24


def leaves_of(path: Path) -> list[bytes]:
    """The leaf pages of a store with records, versions and large values."""
    new_store(path, 400)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(0, 300, 7), 2, size=250)))
        store.write(lambda txn: txn.put_records(*batch(range(1, 90, 20), 3, size=5000)))
        store.write(
            lambda txn: txn.put_versions([(key_of(n), value_of(key_of(n), 4, b"version")) for n in range(0, 400, 3)])
        )
    return leaf_pages(path.read_bytes())


def leaf_pages(data: bytes) -> list[bytes]:
    """Return all leaf pages of a file, including free ones."""
    pages = [data[at : at + PAGE] for at in range(2 * PAGE, len(data), PAGE)]
    return [page for at, page in enumerate(pages, 2) if unpack_from("=QHH", page) == (at, 0, 2)]


def is_of_records(page: bytes, leaf: LeafPage) -> bool:
    return b'"id"' in page[leaf.places[0] : leaf.places[0] + leaf.sizes[0]]


def damaged_page(page: bytes, chance: random.Random) -> bytes:
    data = bytearray(page)
    count = (unpack_from("=H", data, 12)[0] - 16) // 2
    pointers = [unpack_from("=H", data, 16 + 2 * index)[0] for index in range(count)]
    pointer, other = 16 + 2 * chance.randrange(count), 16 + 2 * chance.randrange(count)
    place = chance.choice(
        (chance.randrange(16), pointer, chance.choice(pointers) + chance.randrange(16), chance.randrange(PAGE))
    )
    kind = chance.randrange(5)
    if kind == 0:
        data[place % PAGE] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[place % PAGE] = chance.choice((0, 255, chance.randrange(256)))
    elif kind == 2:
        data[pointer : pointer + 2] = data[other : other + 2]
    elif kind == 3:
        data[pointer : pointer + 2], data[other : other + 2] = data[other : other + 2], data[pointer : pointer + 2]
    return bytes(data)


def row_verdicts(page: bytes, number: int) -> tuple[int | None, tuple[bytes, bytes] | None]:
    """Return the number of entries found; also the first and the last key if the whole page is intact and plain."""
    try:
        count = probe_leaf(page, number)
    except PageFault:
        return 0, None
    try:
        found = read_leaf(page, number)
    except PageFault:
        return count, None
    plain = not any(found.flags) and len(set(map(len, found.keys))) == 1 and len(found.keys[0]) in KEY_SIZES
    ascends = all(one < other for one, other in pairwise(found.keys))
    return count, (found.keys[0], found.keys[-1]) if plain and ascends else None


@pytest.mark.parametrize("key_size", KEY_SIZES)
def test_both_forms_judge_damaged_pages_alike(key_size: int, tmp_path: Path, deep: bool) -> None:
    chance = random.Random(key_size)
    sound = [
        page
        for page in leaves_of(tmp_path / "x.sow")
        if len(read_leaf(page, unpack_from("=Q", page)[0]).keys[0]) == key_size
    ]
    pages = [damaged_page(chance.choice(sound), chance) for _ in range(20_000 if deep else 1500)]
    # Each page has the number of its position, unless that number is what was damaged.
    content = b"".join(
        number.to_bytes(8, "little") + page[8:] if chance.random() < 0.99 else page for number, page in enumerate(pages)
    )
    with mmap.mmap(-1, len(content)) as data:
        data[:] = content
        pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
        rows = [row_verdicts(page, number) for number, page in enumerate(pages)]
        counts = probe_leaves(data, PAGE, range(len(pages)))
        for number, (count, _) in enumerate(rows):
            # A page refused by itself may be accepted in columns, which do not require keys of equal length.
            assert count is None or counts.get(number, 0) == count
        # Pages one by one, as the keys of the first one determine the form of all of them.
        for number, (_, ends) in enumerate(rows):
            found = read_leaves(data, PAGE, [number])
            assert (ends is not None) == bool(found and found.numbers), number
            if found and found.numbers:
                assert (found.firsts[0], found.lasts[0]) == ends
        first = next(number for number, (_, ends) in enumerate(rows) if ends is not None)
        together = read_leaves(data, PAGE, range(first, len(pages)))
        assert together is not None
        assert dict(zip(together.numbers, zip(together.firsts, together.lasts, strict=True), strict=True)) == {
            number: ends for number, (_, ends) in enumerate(rows) if ends is not None and number >= first
        }


@pytest.mark.parametrize("key_size", KEY_SIZES)
def test_both_forms_read_the_same_entries(key_size: int, tmp_path: Path, deep: bool) -> None:
    chance = random.Random(key_size)
    sound = [
        page
        for page in leaves_of(tmp_path / "x.sow")
        if len(read_leaf(page, unpack_from("=Q", page)[0]).keys[0]) == key_size
    ]
    pages = [chance.choice(sound) for _ in range(20_000 if deep else 1500)]
    pages = [damaged_page(page, chance) if chance.random() < 0.8 else page for page in pages]
    content = b"".join(number.to_bytes(8, "little") + page[8:] for number, page in enumerate(pages))
    taken = 0
    with mmap.mmap(-1, len(content)) as data:
        data[:] = content
        for number in range(len(pages)):
            rows, found = read_entries(data, PAGE, [number]), columns.read_entries(data, PAGE, [number])
            # Keys of different lengths may be noticed by only one of the two; the caller checks their length.
            assert rows == found or None in (rows, found)
            try:
                page = read_leaf(content[number * PAGE : (number + 1) * PAGE], number)
            except PageFault:
                continue
            if not any(page.flags) and len(set(map(len, page.keys))) == 1:
                place = number * PAGE
                ends = zip(page.places, page.sizes, strict=True)
                values = [content[place + start : place + start + size] for start, size in ends]
                assert rows == found == (page.keys, values)
                taken += 1
    assert taken > len(pages) // 10


def test_gaps_are_those_between_which_keys_would_be(tmp_path: Path) -> None:
    new_store(tmp_path / "x.sow", 400)
    pages = leaf_pages((tmp_path / "x.sow").read_bytes())
    found = {page: read_leaf(page, unpack_from("=Q", page)[0]) for page in pages}
    records = sorted((page for page in pages if is_of_records(page, found[page])), key=lambda page: found[page].keys[0])
    content = b"".join(number.to_bytes(8, "little") + page[8:] for number, page in enumerate(records))
    keys = [key for page in records for key in found[page].keys]
    firsts = {found[page].keys[0] for page in records}
    wanted = [(int.from_bytes(key, "big") + 1).to_bytes(8, "big") for key in keys[:-1]]
    with mmap.mmap(-1, len(content)) as data:
        data[:] = content
        gaps = find_gaps(data, PAGE, range(len(records)), wanted)
        assert gaps is not None
        entries = {data[start : start + 8] for start in gaps.starts}
    edges = [one for one, above in zip(wanted, keys[1:], strict=True) if above in firsts]
    assert gaps.edges == edges
    inner = [(below, above) for below, above in pairwise(keys) if above not in firsts]
    assert entries == {key for pair in inner for key in pair}
    assert find_gaps(mmap.mmap(-1, PAGE), PAGE, [0], [history_key(keys[0], 1, 1)]) is None
