"""Damaged LMDB pages: a right answer or an error with a code, never a wrong answer, never a crash of the process.

Headers, branch pointers, page numbers, offsets and sizes of nodes, flags, free lists, meta pages; pages zeroed, swapped
and copied. Every damaged copy is read and written through the store's own interface, in a child.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import iter_unpack, pack_into, unpack_from
from typing import TypeAlias

import pytest

from sowctl.errors import DamageError, SowError
from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.lmdbfile.walk import read_free_list
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.opening.proof import limits
from sowctl.store.read import Reader
from sowctl.store.repair.pagefile import PageFile
from sowctl.store.tables import Table
from sowctl.store.write import WriteTxn
from tests.support.damage import BROKEN, EQUAL, REPORTED, WRONG, Job, in_children
from tests.support.stores import batch, key_of, new_store, value_of

PAGE = 4096
HEAD = 16
Records = dict[bytes, bytes]
Damage: TypeAlias = "Callable[[Copy, random.Random], None]"


def small(path: Path) -> None:
    """A tree of two levels, and everything that a store may hold."""
    new_store(path, 300)

    def fill(txn: WriteTxn) -> None:
        txn.put_records(*batch(range(90), 3, expiration=1000))
        txn.put_versions([(key_of(n), value_of(key_of(n), txid, b"version")) for n in range(60) for txid in (1, 2)])
        for publisher in range(40):
            txn.set_sequence(publisher, 6)

    with Store.open(path, write=True) as store:
        store.write(fill)


def large_values(path: Path) -> None:
    """Values with overflow pages, some of them removed and replaced."""
    new_store(path, 100)
    with Store.open(path, write=True) as store:
        for txid in range(2, 12):
            store.write(lambda txn, at=txid: txn.put_records(*batch(range(at * 7, at * 7 + 20), at, size=900 * at)))  # type: ignore[misc]
            store.write(lambda txn, at=txid: txn.delete_records(map(key_of, range(at * 9, at * 9 + 4))))  # type: ignore[misc]


def deep_tree(path: Path) -> None:
    """A tree of three levels, written at random, with a long free list."""
    chance = random.Random(7)
    new_store(path, 6000, size=130)
    with Store.open(path, write=True) as store:
        for txid in range(2, 8):
            first = chance.randrange(5000)
            store.write(lambda txn, at=txid, n=first: txn.put_records(*batch(range(n, n + 900, 3), at, size=90)))  # type: ignore[misc]
            gone = sorted(chance.sample(range(6000), 150))
            store.write(lambda txn, keys=gone: txn.delete_records(map(key_of, keys)))  # type: ignore[misc]
        store.write(lambda txn: txn.put_records(*batch(range(200), 9, size=60, expiration=5000)))


def with_tables(path: Path) -> None:
    """A derived store: its tables have keys of several lengths, large values and several levels."""
    new_store(path, 200)
    with Store.open(path, write=True) as store:
        store.open_tables((ROWS, "empty"))
        store.write(lambda txn: txn.open_table(ROWS).put([(row_of(n), b"%d" % n * 30) for n in range(2500)]))
        store.write(lambda txn: txn.open_table(ROWS).put([(row_of(n), b"large" * 1500) for n in range(0, 2500, 300)]))
        store.write(lambda txn: txn.open_table(ROWS).delete(row_of(n) for n in range(900, 1100, 3)))


def row_of(number: int) -> bytes:
    """A key of a table."""
    return b"%d/%d" % (number % 7, number) + b"x" * (number % 5)


ROWS = "rows"
MAKERS = (small, large_values, deep_tree, with_tables)


class Copy(bytearray):
    """The bytes of a store to be damaged. Pages in ``free`` are not changed: they may contain an older and valid state
    of a page in use, and only the digest distinguishes the two."""

    free: frozenset[int] = frozenset()
    has_tables = False
    """Whether it has tables. Only its number distinguishes a page of a table from one of records with equal keys."""


def free_pages(path: Path) -> frozenset[int]:
    """Return the pages of an intact store that belong to no state in use."""
    newest = read_verified_meta(path, SEAM)
    with PageFile(path, newest.page_size, SEAM) as file:
        found = read_free_list(file, newest)
    assert found is not None
    return frozenset(page for pages in found.freed.values() for page in pages)


def kinds_of(data: Copy) -> dict[int, list[int]]:
    """Page numbers by their flags."""
    found: dict[int, list[int]] = {}
    for page in range(2, len(data) // PAGE):
        number, _, flags = unpack_from("=QHH", data, page * PAGE)
        if number == page and flags in (1, 2, 4) and page not in data.free:
            found.setdefault(flags, []).append(page)
    return found


def some_page(data: Copy, chance: random.Random, kinds: tuple[int, ...] = (1, 2, 4)) -> int:
    """Choose a page; branches and the first pages of large values as often as leaves."""
    there = {kind: pages for kind, pages in kinds_of(data).items() if kind in kinds}
    return chance.choice(there[chance.choice(sorted(there))]) if there else chance.randrange(2, len(data) // PAGE)


def number(limit: int, chance: random.Random) -> int:
    """Return a number as it may result from damage."""
    return chance.choice((0, 1, limit - 1, limit, limit + 1, chance.randrange(2 * limit + 1), chance.getrandbits(48)))


def head(data: Copy, chance: random.Random) -> None:
    page = some_page(data, chance)
    at = page * PAGE
    field = chance.randrange(4)
    if field == 0:
        pack_into("=Q", data, at, number(len(data) // PAGE, chance))
    elif field == 1:
        flags = unpack_from("=H", data, at + 10)[0]
        pack_into(
            "=H", data, at + 10, chance.choice((0, 1, 2, 4, 8, 16, 0x12, 0x22, 0x42, flags ^ 1 << chance.randrange(16)))
        )
    else:
        pack_into("=H", data, at + 8 + 2 * field, number(PAGE, chance) & 0xFFFF)


def node_place(data: Copy, chance: random.Random) -> int | None:
    page = some_page(data, chance, (1, 2))
    lower = unpack_from("=H", data, page * PAGE + 12)[0]
    count = (lower - HEAD) // 2
    return page * PAGE + HEAD + 2 * chance.randrange(count) if 0 < count < 2000 else None


def pointer(data: Copy, chance: random.Random) -> None:
    if (at := node_place(data, chance)) is not None:
        pack_into("=H", data, at, number(PAGE, chance) & 0xFFFF)


def node(data: Copy, chance: random.Random) -> None:
    """Change a field of a node: the page below a branch, the size of a value, flags, the size of a key; or its key."""
    if (at := node_place(data, chance)) is None:
        return
    begin = at // PAGE * PAGE + unpack_from("=H", data, at)[0]
    if begin + 24 > len(data):
        return
    field = chance.randrange(6)
    if field < 4:
        pack_into("=H", data, begin + 2 * field, number(chance.choice((4, 300, PAGE)), chance) & 0xFFFF)
    elif field == 4:
        data[begin + 8 + chance.randrange(8)] ^= 1 << chance.randrange(8)
    else:
        pack_into("=H", data, begin, chance.randrange(2, len(data) // PAGE))


def zeroed(data: Copy, chance: random.Random) -> None:
    page = some_page(data, chance)
    data[page * PAGE : page * PAGE + PAGE] = bytes(PAGE)


def swapped(data: Copy, chance: random.Random) -> None:
    one, other = (some_page(data, chance) * PAGE for _ in range(2))
    first, second = bytes(data[one : one + PAGE]), bytes(data[other : other + PAGE])
    data[one : one + PAGE], data[other : other + PAGE] = second, first
    if chance.random() < 0.5 and not data.has_tables:  # each with the number of the place in which it is now
        pack_into("=Q", data, one, one // PAGE)
        pack_into("=Q", data, other, other // PAGE)


def copied(data: Copy, chance: random.Random) -> None:
    one, other = (some_page(data, chance) * PAGE for _ in range(2))
    data[other : other + PAGE] = data[one : one + PAGE]
    if chance.random() < 0.5 and not data.has_tables:
        pack_into("=Q", data, other, other // PAGE)


def numbered(data: Copy, chance: random.Random) -> None:
    """Copy the number of one page to another one."""
    one, other = (some_page(data, chance) * PAGE for _ in range(2))
    data[other : other + 8] = data[one : one + 8]


def meta(data: Copy, chance: random.Random) -> None:
    """Change a number in a meta page: magic, version, roots, depths, flags, counts, last page, transaction."""
    at = chance.randrange(2) * PAGE + HEAD + 4 * chance.randrange(34)
    pack_into("=I", data, at, number(chance.choice((3, len(data) // PAGE)), chance) & 0xFFFFFFFF)


def bit(data: Copy, chance: random.Random) -> None:
    at = some_page(data, chance) * PAGE + chance.choice(
        (chance.randrange(HEAD), chance.randrange(256), chance.randrange(PAGE))
    )
    data[at] ^= 1 << chance.randrange(8)


def words(data: Copy, chance: random.Random) -> None:
    """Set eight bytes anywhere in a page in use to a number of pages: entries of the free list, roots."""
    page = some_page(data, chance, (2, 4))
    at = page * PAGE + chance.randrange(PAGE // 8) * 8
    pack_into("=Q", data, at, number(len(data) // PAGE, chance))


def small_trees(data: Copy, chance: random.Random) -> None:
    """Change some bytes of a page of the free list or of the main tree, as referred to by the newer meta page."""
    newer = max((0, PAGE), key=lambda start: unpack_from("=Q", data, start + 144)[0])
    root = unpack_from("=Q", data, newer + HEAD + 24 + 48 * chance.randrange(2) + 40)[0]
    if 2 <= root < len(data) // PAGE:
        at = root * PAGE + chance.choice((chance.randrange(64), chance.randrange(PAGE)))
        data[at] = chance.choice((0, 255, chance.randrange(256), data[at] ^ 1))


def cut(data: Copy, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


DAMAGES: tuple[Damage, ...] = (
    head, head, pointer, node, node, zeroed, swapped, copied, numbered, meta, bit, words, small_trees, small_trees, cut,
)  # fmt: skip


def damaged(content: Copy, seed: int) -> bytes:
    """Return ``content`` with a damage derived from ``seed``."""
    chance, data = random.Random(seed), Copy(content)
    data.free, data.has_tables = content.free, content.has_tables
    DAMAGES[seed % len(DAMAGES)](data, chance)
    return bytes(data)


def answers(records: Records) -> Iterator[tuple[Callable[[Reader], object], object]]:
    """Yield queries to a reader, and their right answers."""
    order = sorted(records)
    chance = random.Random(5)
    keys = chance.sample(order, min(60, len(order))) + [key_of(number) for number in range(20_000, 20_010)]
    keys += [
        (int.from_bytes(key, "big") + chance.choice((-1, 1)) & (1 << 64) - 1).to_bytes(8, "big") for key in keys[:30]
    ]
    for key in keys:
        value = records.get(key)
        yield lambda reader, key=key: (found := reader.read_record(key)) and found.value, value  # type: ignore[misc]
    yield lambda reader: reader.read_values(sorted(set(keys))), {key: records[key] for key in keys if key in records}
    yield lambda reader: {k: v for pair in reader.scan_records() for k, v in zip(*pair, strict=True)}, records
    for low, high in ((5, 30), (len(order) // 2, max(len(order) - 3, 0))):
        high = min(high, len(order) - 1)
        part = {key: records[key] for key in order[low:high]}
        yield (
            lambda reader, low=low, high=high: {  # type: ignore[misc]
                k: v for pair in reader.scan_records(order[low], order[high]) for k, v in zip(*pair, strict=True)
            },
            part,
        )


def row_answers(rows: Records) -> Iterator[tuple[Callable[[Table], object], object]]:
    """Yield queries to a table, and their right answers."""
    order = sorted(rows)
    chance = random.Random(6)
    keys = [*chance.sample(order, 12), *(key + b"y" for key in chance.sample(order, 6)), b"", b"9"]
    for key in keys[:-2]:
        yield lambda table, key=key: table.get(key), rows.get(key)  # type: ignore[misc]
    yield lambda table: table.get_many(sorted(keys[:-2])), {key: rows[key] for key in keys[:-2] if key in rows}
    for prefix in (b"", b"3/", b"3/1", b"9"):
        part = [(key, rows[key]) for key in order if key.startswith(prefix)]
        yield lambda table, prefix=prefix: list(table.walk(prefix)), part  # type: ignore[misc]
        yield lambda table, prefix=prefix: list(table.walk(prefix, descending=True)), part[::-1]  # type: ignore[misc]


def judge_rows(store: Store, rows: Records) -> int:
    """Return the worst result of all queries to a table."""
    worst = EQUAL
    for question, right in row_answers(rows):

        def ask(question: Callable[[Table], object] = question) -> object:
            with store.open_snapshot() as snapshot:
                table = snapshot.open_table(ROWS)
                # Derived data is rebuilt if one of its tables is missing.
                if table is None:
                    raise DamageError("SOW-STO-003", "a table is missing")
                return question(table)

        worst = max(worst, judge(ask, right))
    return worst


class Truth:
    """The answers of an intact store."""

    def __init__(self, path: Path) -> None:
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            self.records = {k: v for pair in snapshot.scan_records() for k, v in zip(*pair, strict=True)}
            self.others = [question(snapshot) for question in OTHERS]
            table = snapshot.open_table(ROWS)
            self.rows = None if table is None else dict(table.walk())


OTHERS: tuple[Callable[[Reader], object], ...] = (
    lambda reader: [pair for batch in reader.scan_history() for pair in zip(*batch, strict=True)],
    lambda reader: [reader.read_versions(key_of(number)) for number in range(0, 70, 5)],
    lambda reader: list(reader.iter_expired_keys(1 << 62)),
    lambda reader: reader.find_next_expiry(0),
    lambda reader: [reader.read_sequence(publisher) for publisher in (0, 17, 39, 77)],
)


def judge(question: Callable[[], object], right: object) -> int:
    try:
        return EQUAL if question() == right else WRONG
    except SowError as error:
        return REPORTED if error.exit_status in (5, 9) else BROKEN
    except BaseException:
        return BROKEN


def read(path: Path, truth: Truth) -> int:
    """Return the worst result of all queries, each in its own snapshot."""
    worst = EQUAL
    with Store.open(path, write=False) as store:
        for question, right in [*answers(truth.records), *zip(OTHERS, truth.others, strict=True)]:

            def ask(question: Callable[[Reader], object] = question) -> object:
                with store.open_snapshot() as snapshot:
                    return question(snapshot)

            worst = max(worst, judge(ask, right))
        if truth.rows is not None:
            worst = max(worst, judge_rows(store, truth.rows))
    return worst


def write(path: Path, truth: Truth, seed: int) -> int:
    """Make random changes; then the answers must be the previous ones with the successful changes."""
    chance, records = random.Random(seed), dict(truth.records)
    rows = None if truth.rows is None else dict(truth.rows)
    worst = EQUAL
    with Store.open(path, write=True) as store:
        if rows is not None and (worst := judge(lambda: store.open_tables((ROWS,)), None)) != EQUAL:
            return worst
        for txid in range(100, 104):
            keys = sorted({*chance.sample(sorted(records), 12), *(key_of(chance.randrange(9000)) for _ in range(6))})
            size = chance.choice((20, 200, 3000))
            values = [value_of(key, txid, b"w" * size, expiration=chance.choice((0, 7000))) for key in keys]
            gone = chance.sample(sorted(records), min(len(records) // 3, chance.choice((1, 15, 200))))
            fresh = [(row_of(chance.randrange(3000)), b"w" * size) for _ in range(20)] if rows is not None else []
            old = chance.sample(sorted(rows), chance.choice((1, 30, 400))) if rows is not None else []

            def change(
                txn: WriteTxn,
                txid: int = txid,
                keys: list[bytes] = keys,
                values: list[bytes] = values,
                gone: list[bytes] = gone,
                fresh: list[tuple[bytes, bytes]] = fresh,
                old: list[bytes] = old,
            ) -> None:
                txn.put_records(keys, values)
                txn.delete_records(gone)
                if fresh:
                    txn.open_table(ROWS).delete(old)
                    txn.open_table(ROWS).put(fresh)
                txn.put_versions([(key, value) for key, value in zip(keys, values, strict=True)][:5])
                list(txn.iter_expired_keys(6000))
                txn.read_versions(keys[0])
                txn.set_sequence(chance.randrange(60), txid)

            after = records | dict(zip(keys, values, strict=True))
            for key in gone:
                after.pop(key, None)
            result = judge(lambda change=change: store.write(change), None)  # type: ignore[misc]
            worst = max(worst, result)
            if result != EQUAL:
                break
            records = after
            if rows is not None:
                rows = {key: value for key, value in rows.items() if key not in old} | dict(fresh)
    # A failed transaction is not in the file, or the store reports that it may be: other answers are unchanged.
    for question, right in answers(records):

        def ask(question: Callable[[Reader], object] = question) -> object:
            with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
                return question(snapshot)

        worst = max(worst, judge(ask, right))
    if rows is not None:

        def ask_rows(rows: Records = rows) -> None:
            nonlocal worst
            with Store.open(path, write=False) as store:
                worst = max(worst, judge_rows(store, rows))

        worst = max(judge(ask_rows, None), worst)
    return worst


def outcomes(path: Path, content: Copy, truth: Truth, seeds: range) -> Iterator[tuple[int, str, int]]:
    def begin(seed: int) -> None:
        for old in path.parent.glob(path.name + "*"):
            old.unlink()
        path.write_bytes(damaged(content, seed))

    def reading(seed: int) -> int:
        begin(seed)
        return read(path, truth)

    def writing(seed: int) -> int:
        begin(seed)
        return write(path, truth, seed)

    jobs: list[Job] = [partial(job, seed) for seed in seeds for job in (reading, writing)]
    names = [(seed, name) for seed in seeds for name in ("read", "write")]
    for (seed, name), status in zip(names, in_children(jobs), strict=True):
        yield seed, name, status


def sample(make: Callable[[Path], None], directory: Path) -> tuple[Truth, Copy]:
    make(directory / "sound.sow")
    content = Copy((directory / "sound.sow").read_bytes())
    content.free = free_pages(directory / "sound.sow")
    truth = Truth(directory / "sound.sow")
    content.has_tables = truth.rows is not None
    return truth, content


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("make", MAKERS)
def test_damage_ends_no_process_and_gives_no_wrong_answer(
    make: Callable[[Path], None], form: str, tmp_path: Path, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "columns":  # as in a store with thousands of leaves
        monkeypatch.setattr(limits, "LIMITS", limits.Limits(column_leaves=0, walked_leaves=0, least_column_leaves=1))
    truth, content = sample(make, tmp_path)
    seeds = range(1500 if deep else 45)[form == "columns" :: 2]
    found = list(outcomes(tmp_path / "x.sow", content, truth, seeds))
    bad = [one for one in found if one[2] not in (EQUAL, REPORTED)]
    assert not bad, (bad, Counter(status for _, _, status in found))
    assert sum(status == REPORTED for _, _, status in found) > len(found) // 4


def children(data: bytes, page: int) -> list[int]:
    """Return the children of a branch page."""
    count = (unpack_from("=H", data, page * PAGE + 12)[0] - HEAD) // 2
    places = unpack_from(f"={count}H", data, page * PAGE + HEAD)
    return [unpack_from("=Q", data, page * PAGE + place)[0] & (1 << 48) - 1 for place in places]


def first_key(data: bytes, page: int) -> bytes:
    """Return the first key of a leaf."""
    place = page * PAGE + unpack_from("=H", data, page * PAGE + HEAD)[0]
    return bytes(data[place + 8 : place + 8 + unpack_from("=H", data, place + 6)[0]])


def test_a_fault_is_met_again_by_the_next_search(tmp_path: Path) -> None:
    _, content = sample(deep_tree, tmp_path)
    truth = Truth(tmp_path / "sound.sow")
    branches = kinds_of(content)[1]
    root = next(page for page in branches if set(children(content, page)) <= set(branches))
    # A leaf replaces the branch above it: a reader that remembers only the root would consider it the end of a search.
    branch = children(content, root)[1]
    leaf = children(content, branch)[3]
    content[branch * PAGE + 8 : branch * PAGE + PAGE] = content[leaf * PAGE + 8 : leaf * PAGE + PAGE]
    (tmp_path / "x.sow").write_bytes(content)
    keys = sorted(truth.records)[::50]

    def ask() -> int:
        found = []
        with Store.open(tmp_path / "x.sow", write=False) as store:
            for key in keys:
                with store.open_snapshot() as snapshot:
                    right = {key: truth.records[key]}
                    found.append(judge(lambda: snapshot.read_values([key]), right))  # noqa: B023
        return max(found) if found.count(REPORTED) > 1 else WRONG

    assert in_children([ask]) == [REPORTED]


def test_no_entry_in_the_middle_of_a_range_is_left_out(tmp_path: Path) -> None:
    _, content = sample(small, tmp_path)
    records = Truth(tmp_path / "sound.sow").records
    leaves = {first_key(content, page): page for page in kinds_of(content)[2]}
    order = sorted(leaves.keys() & records.keys())
    # One entry less, by the bounds of the page: its last one.
    page = leaves[order[len(order) // 2]]
    pack_into("=H", content, page * PAGE + 12, unpack_from("=H", content, page * PAGE + 12)[0] - 2)
    (tmp_path / "x.sow").write_bytes(content)
    with Store.open(tmp_path / "x.sow", write=False) as store, store.open_snapshot() as snapshot:
        with pytest.raises(SowError) as caught:
            list(snapshot.scan_records(order[0], order[-1]))
        assert caught.value.code == "SOW-STO-023"


@pytest.mark.parametrize("step", [-3, -1, 1, 3])
def test_a_leaf_of_another_place_does_not_end_a_range(tmp_path: Path, step: int) -> None:
    _, content = sample(small, tmp_path)
    records = Truth(tmp_path / "sound.sow").records
    branch = next(
        page
        for page in kinds_of(content)[1]
        if {first_key(content, child) for child in children(content, page)} <= records.keys()
    )
    below = children(content, branch)
    index = len(below) // 2
    place = unpack_from("=H", content, branch * PAGE + HEAD + 2 * index)[0]
    # The page number is the lower part of the node header; the size of the key follows.
    pack_into("=IH", content, branch * PAGE + place, below[index + step], 0)
    assert children(content, branch)[index] == below[index + step]
    # Up to a key of the leaf that is no longer referred to, or of the next one.
    ends = [first_key(content, below[index]), first_key(content, below[index + 1])]
    (tmp_path / "x.sow").write_bytes(content)
    with Store.open(tmp_path / "x.sow", write=False) as store, store.open_snapshot() as snapshot:
        for end in ends:
            with pytest.raises(SowError) as caught:
                list(snapshot.scan_records(first_key(content, below[0]), end))
            assert caught.value.code == "SOW-STO-023"


def test_nothing_is_written_to_a_leaf_of_another_tree(tmp_path: Path) -> None:
    _, content = sample(small, tmp_path)
    truth = Truth(tmp_path / "sound.sow")
    first_keys = {page: first_key(content, page) for page in kinds_of(content)[2]}
    last = max((page for page, key in first_keys.items() if key in truth.records), key=first_keys.__getitem__)
    # Keys of versions are longer. They are moved into the bounds of the leaf, in the same order.
    versions = max((page for page, key in first_keys.items() if len(key) == 24), key=first_keys.__getitem__)
    content[last * PAGE + 8 : last * PAGE + PAGE] = content[versions * PAGE + 8 : versions * PAGE + PAGE]
    (count,) = unpack_from("=H", content, last * PAGE + 12)
    for (place,) in iter_unpack("=H", content[last * PAGE + HEAD : last * PAGE + count]):
        (number,) = unpack_from(">H", content, last * PAGE + place + 8)
        pack_into(">H", content, last * PAGE + place + 8, number + 320)
    (tmp_path / "x.sow").write_bytes(content)
    fresh = [key_of(number) for number in range(400, 420)]
    with Store.open(tmp_path / "x.sow", write=True) as store, pytest.raises(SowError) as caught:
        store.write(lambda txn: txn.put_records(fresh, [value_of(key, 9, b"new") for key in fresh]))
    assert caught.value.exit_status == 5


def test_the_samples_are_of_the_kinds_that_they_are_for(tmp_path: Path) -> None:
    for make in MAKERS:
        make(tmp_path / f"{make.__name__}.sow")
    kinds = {make: kinds_of(Copy((tmp_path / f"{make.__name__}.sow").read_bytes())) for make in MAKERS}
    assert len(kinds[large_values][4]) > 20
    assert len(kinds[deep_tree][1]) > 4
    shutil.copy(tmp_path / "small.sow", tmp_path / "x.sow")
    truth = Truth(tmp_path / "small.sow")
    assert in_children([lambda: read(tmp_path / "x.sow", truth), lambda: write(tmp_path / "x.sow", truth, 1)]) == [0, 0]
