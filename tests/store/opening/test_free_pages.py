"""A branch page that was replaced by an older copy of itself: writes report damage, and no signal ends the process.

Such a page is valid except for its children, which are free pages by now.
"""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path
from struct import pack, unpack_from

import pytest

from sowctl.errors import DamageError
from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.lmdbfile.check import read_branch
from sowctl.store.lmdbfile.layout import BRANCH_FLAG
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.opening.proof.freelist import FreePages
from sowctl.store.opening.proof.tree import PageFile
from tests.support.damage import EQUAL, REPORTED, Job, in_children
from tests.support.stores import batch, key_of, new_store, value_of

PAGE = 4096
RECORDS = 3000


def free_pages_of(path: Path) -> bytearray:
    """Return a byte for each page of a store, 1 if the page is free."""
    newest = read_verified_meta(path, SEAM)
    file, free = PageFile(path, newest.page_size, SEAM), FreePages()
    assert file.find_meta_page(newest.txnid) is not None
    free.update(file, newest)
    file.close()
    return free.marks


def states_of(path: Path, seed: int) -> list[bytes]:
    """The bytes of a store of three levels after each of some writes."""
    chance = random.Random(seed)
    new_store(path, RECORDS, size=130)
    states = []
    # While a reader may need them, pages are not taken from the free list, so they keep their content.
    with Store.open(path, write=True) as store, store.open_snapshot():
        for txid in range(2, 14):
            numbers = sorted(chance.sample(range(RECORDS), chance.choice((1, 1, 2, 6))))
            store.write(lambda txn, at=txid, some=numbers: txn.put_records(*batch(some, at, size=130)))  # type: ignore[misc]
            states.append(path.read_bytes())
    return states


def page_of(data: bytes, page: int) -> bytes:
    return data[page * PAGE : (page + 1) * PAGE]


def branches_of(data: bytes) -> dict[int, frozenset[int]]:
    """The branch pages of a file, free ones included, and their children."""
    found = {}
    for page in range(2, len(data) // PAGE):
        content = page_of(data, page)
        number, _, flags = unpack_from("=QHH", content)
        if (number, flags) == (page, BRANCH_FLAG):
            found[page] = frozenset(read_branch(content, page).children)
    return found


def older_branches(states: list[bytes], free: bytearray) -> list[tuple[int, bytes]]:
    """Return branch pages in use in the last state, each with older copies of itself, which have its number."""
    older: dict[tuple[int, bytes], None] = {}
    for page, children in branches_of(states[-1]).items():
        if free[page]:
            continue
        for data in states:
            for number, others in branches_of(data).items():
                if others != children and 2 * len(others & children) > len(children):
                    older[page, pack("=Q", page) + page_of(data, number)[8:]] = None
    return list(older)


def replace_page(data: bytes, page: int, content: bytes) -> bytes:
    return data[: page * PAGE] + content + data[(page + 1) * PAGE :]


def write_over(path: Path, data: bytes, page: int) -> int:
    """Write to a damaged store below branch ``page``, some records per transaction; return the outcome."""
    for old in path.parent.glob(path.name + "*"):
        old.unlink()
    path.write_bytes(data)
    keys = read_branch(page_of(data, page), page).starts
    chance = random.Random(page)
    with Store.open(path, write=True) as store:
        for txid in range(100, 130):
            some = sorted(chance.sample(keys, min(len(keys), chance.choice((1, 3, 20)))))
            values = [value_of(key, txid, b"new" * 40) for key in some]
            store.write(lambda txn, keys=some, values=values: txn.put_records(keys, values))  # type: ignore[misc]
    return EQUAL


@pytest.mark.parametrize("seed", range(4))
def test_an_older_branch_page_ends_no_writer(tmp_path: Path, seed: int) -> None:
    states = states_of(tmp_path / "sound.sow", seed)
    damages = older_branches(states, free_pages_of(tmp_path / "sound.sow"))
    random.Random(seed).shuffle(damages)
    jobs: list[Job] = [
        partial(write_over, tmp_path / "t.sow", replace_page(states[-1], page, content), page)
        for page, content in damages[:40]
    ]
    statuses = in_children([partial(write_over, tmp_path / "t.sow", states[-1], damages[0][0]), *jobs])
    # Each of the copies refers to free pages, and each write starts with the branches.
    assert statuses == [EQUAL, *[REPORTED] * len(jobs)]


def test_the_error_names_the_page(tmp_path: Path) -> None:
    states = states_of(tmp_path / "sound.sow", 0)
    free = free_pages_of(tmp_path / "sound.sow")
    for page, content in older_branches(states, free):
        with pytest.raises(DamageError, match=r"\bpage \d+\b") as caught:
            write_over(tmp_path / "t.sow", replace_page(states[-1], page, content), page)
        assert caught.value.hint
        number = re.search(r"\bpage (\d+)\b", str(caught.value))
        assert caught.value.code == "SOW-STO-023" and number is not None and free[int(number[1])]


def test_free_pages_follow_every_state(tmp_path: Path) -> None:
    path = tmp_path / "t.sow"
    chance = random.Random(5)
    new_store(path, RECORDS, size=130)
    free = FreePages()
    for txid in range(2, 40):
        numbers = sorted(chance.sample(range(RECORDS), chance.choice((1, 20, 900))))
        with Store.open(path, write=True) as store:
            store.write(lambda txn, at=txid, some=numbers: txn.put_records(*batch(some, at, size=at * 40)))  # type: ignore[misc]
            store.write(lambda txn, some=numbers: txn.delete_records(map(key_of, some[::3])))  # type: ignore[misc]
        newest = read_verified_meta(path, SEAM)
        file = PageFile(path, newest.page_size, SEAM)
        assert file.find_meta_page(newest.txnid) is not None
        free.update(file, newest)
        file.close()
        assert free.marks == free_pages_of(path)
        assert any(free.marks)
