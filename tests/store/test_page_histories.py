"""Intact stores are never reported as damaged, whatever was written before and is written meanwhile.

Processes write, read, compact and reopen one store at the same time, each with its own part of the keys. A page that
was checked and replaced since, or a check that is too strict, would show here.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.errors import LockedError, RefusedError
from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.opening.proof import limits
from sowctl.store.read import Reader
from sowctl.store.repair.compaction import compact_file
from sowctl.store.write import WriteTxn
from tests.support.stores import batch, key_of, new_store

KEYS = 3000
"""Numbers of keys of each writer."""
WAIT = 60.0


def scanned(reader: Reader) -> dict[bytes, bytes]:
    return {key: value for pair in reader.scan_records() for key, value in zip(*pair, strict=True)}


def write(path: Path, number: int, steps: int) -> None:
    """Make random changes to one writer's keys, and check each of them by reading."""
    chance, mine = random.Random(number), dict[bytes, bytes]()
    numbers = range(number * KEYS, (number + 1) * KEYS)
    store = Store.open(path, write=True, lock_wait=WAIT, durable=False)
    for step in range(steps):
        if chance.random() < 0.2:
            store.close()
            store = Store.open(path, write=True, lock_wait=WAIT, durable=False)
        first, count = chance.choice(numbers), chance.choice((1, 5, 60, 600))
        part = range(first, min(first + count, numbers.stop), chance.choice((1, 1, 7)))
        size, expiration = chance.choice((10, 60, 60, 700, 3000 if count < 100 else 60)), chance.choice((0, 5000))
        keys, values = batch(part, step + 2, size, expiration)
        gone = chance.sample(sorted(mine), min(len(mine), chance.choice((0, 1, 30, 400, 2000))))

        def change(
            txn: WriteTxn,
            keys: list[bytes] = keys,
            values: list[bytes] = values,
            gone: list[bytes] = gone,
            step: int = step,
            there: dict[bytes, bytes] = {key: mine[key] for key in keys if key in mine},  # noqa: B006
        ) -> None:
            assert txn.read_values(keys) == there
            if step % 2:
                txn.put_records(keys, values)
                txn.delete_records(gone)
            else:
                txn.delete_records(gone)
                txn.put_records(keys, values)
            txn.put_versions(list(zip(keys, values, strict=True))[:40])
            if step % 3 == 0:
                txn.delete_records(keys[::2])

        store.write(change, pending=sum(map(len, values)))
        for key in gone:
            mine.pop(key, None)
        after = dict(zip(keys, values, strict=True))
        if step % 2:
            after = {key: value for key, value in after.items() if key not in gone}
        mine |= after
        for key in keys[::2] if step % 3 == 0 else ():
            mine.pop(key, None)
        with store.open_snapshot() as snapshot:
            asked = [key_of(one) for one in numbers]
            assert snapshot.read_values(asked) == mine
    store.close()


def read(path: Path, number: int, steps: int) -> None:
    chance = random.Random(number)
    with Store.open(path, write=False, lock_wait=WAIT) as store:
        for _ in range(3 * steps):
            with store.open_snapshot() as snapshot:
                first = scanned(snapshot)
                keys = [key_of(chance.randrange(3 * KEYS)) for _ in range(chance.choice((1, 20, 900)))]
                assert snapshot.read_values(sorted(set(keys))) == {key: first[key] for key in keys if key in first}
                for key in keys[:5]:
                    found = snapshot.read_record(key)
                    assert (found and found.value) == first.get(key)
                    snapshot.read_versions(key)
                low, high = sorted(keys[:2]) if len(keys) > 1 else (keys[0], keys[0])
                part = {k: v for pair in snapshot.scan_records(low, high) for k, v in zip(*pair, strict=True)}
                assert part == {key: value for key, value in first.items() if low <= key < high}
                assert all(key in first for key in snapshot.iter_expired_keys(1 << 62))
                for _ in snapshot.scan_history():
                    pass


def copy(path: Path, number: int, steps: int) -> None:
    for _ in range(steps // 6):
        try:
            with Store.open(path, write=False, lock_wait=WAIT) as store:
                compact_file(store, seam=SEAM, wait=WAIT, command="test", always=True)
        except (LockedError, RefusedError):
            pass


def in_processes(jobs: list[Callable[[], None]]) -> list[int]:
    """Run ``jobs`` at the same time, each in its own process, and return their exit statuses."""
    children = []
    for job in jobs:
        pid = os.fork()
        if pid == 0:
            try:
                job()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_no_sound_store_is_called_damaged(
    form: str, tmp_path: Path, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "columns":
        monkeypatch.setattr(limits, "LIMITS", limits.Limits(column_leaves=0, walked_leaves=0, least_column_leaves=1))
    path = new_store(tmp_path / "x.sow")
    steps = 150 if deep else 12
    jobs: list[Callable[[], None]] = [
        lambda: write(path, 0, steps),
        lambda: write(path, 1, steps),
        lambda: read(path, 2, steps),
        lambda: copy(path, 3, steps),
    ]
    assert in_processes(jobs) == [0] * len(jobs)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert len(scanned(snapshot)) == snapshot.record_count
