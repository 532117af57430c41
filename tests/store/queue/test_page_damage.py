"""A state file with damaged pages: always a queue error, never a crash of the process."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from sowctl.errors import SowError
from sowctl.seam import SEAM
from sowctl.store.queue.file import QueueFile
from sowctl.store.queue.values import Holder, QueueState
from tests.support.damage import BROKEN, EQUAL, REPORTED, in_children

PAGE = 4096


def opened(path: Path) -> QueueFile:
    return QueueFile(path, SEAM, boot="aside", lock_wait=1.0)


def filled(path: Path) -> bytes:
    file = opened(path)
    with file.begin_change() as rows:
        rows.reset_state(QueueState("work", "json", b"d", "beginning", 1, holder=300))
        for number in range(1, 301):
            rows.add_holder(number, Holder(f"client {number}", False))
        rows.put_names([(7, number) for number in range(400)], list(range(1, 401)))
        for number in range(200):
            rows.put_deferral((9, number), 1000 + number)
    file.close()
    return path.read_bytes()


def used(path: Path) -> int:
    """Return the outcome of reading every row, and of a change."""
    file = opened(path)
    try:
        with file.open_rows() as rows:
            assert rows is not None
            for ask in (
                rows.list_holders,
                rows.collect_name_index,
                rows.collect_deferral_index,
                rows.collect_alarm_index,
                rows.list_dead_messages,
            ):
                ask()
        with file.begin_change() as rows:
            rows.verify_structure()
            rows.drop_expired_deferrals(1100)
            rows.drop_holder(5)
    except SowError as error:
        return REPORTED if error.code in ("SOW-QUE-002", "SOW-STO-021", "SOW-STO-022") else BROKEN
    finally:
        file.close()
    return EQUAL


def damaged(content: bytes, seed: int) -> bytes:
    chance, data = random.Random(seed), bytearray(content)
    one, other = (PAGE * page for page in chance.sample(range(2, len(data) // PAGE), 2))
    if seed % 3 == 0:
        data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]
        if seed % 2:
            data[one : one + 8], data[other : other + 8] = data[other : other + 8], data[one : one + 8]
    elif seed % 3 == 1:
        data[one + chance.randrange(64)] ^= 1 << chance.randrange(8)
    else:
        data[one : one + PAGE] = bytes(PAGE)
    return bytes(data)


def test_damage_has_the_code_of_queues(tmp_path: Path, deep: bool) -> None:
    path = tmp_path / "q.queue"
    content = filled(path)

    def job(seed: int) -> int:
        path.write_bytes(damaged(content, seed))
        return used(path)

    found = in_children([partial(job, seed) for seed in range(600 if deep else 60)])
    bad = [(seed, one) for seed, one in enumerate(found) if one not in (EQUAL, REPORTED)]
    assert not bad, bad
    assert found.count(REPORTED) > len(found) // 4
