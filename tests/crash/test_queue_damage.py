"""Damaged files of a queue: an error that reports damage or the right answer; never a signal, an endless run or a wrong
answer that a check does not detect.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from sowctl.engine.queues.definition import find_queue
from sowctl.engine.queues.verification import verify_queue_state
from sowctl.errors import DamageError
from sowctl.identity.hashes import hash_client_name
from tests.support.damage import EQUAL, REPORTED, WRONG, flipped, in_children
from tests.support.instances import message
from tests.support.queues import QueueLab, id_of, ids, lab_xml, queue_xml
from tests.support.verbs import put_files, read_files

PAGE = 4096
SECONDS = 30
"""A job that takes longer is ended by SIGALRM, and so counts as killed by a signal."""
PARTS = (
    "<LeasePeriod>10s</LeasePeriod>",
    "<MaxDeliveries>2</MaxDeliveries>",
    "<Priority>/p</Priority>",
    "<BarrierExpression>/sync = 1</BarrierExpression>",
    "<DeferredAckExpiration>1h</DeferredAckExpiration>",
)
CLIENT = hash_client_name("feed")
Answer = tuple[object, ...]


class Sample(NamedTuple):
    """A lab with queues in use: its files, the used pages of the state file, and its answers at an instant.

    ``rebuilt``: its answers after the state was rebuilt from the journal.
    """

    lab: QueueLab
    files: dict[str, bytes]
    name: str
    pages: list[int]
    truth: Answer
    rebuilt: Answer
    at: int

    @property
    def state(self) -> bytes:
        """The state file."""
        return self.files[self.name]


Damage: TypeAlias = Callable[[Sample, random.Random], dict[str, bytes]]
"""Returns the contents of files that replace others."""


@pytest.fixture
def sample(memory: Path) -> Sample:
    """Messages in every state, bookmarks of clients, pending acknowledgements, owners, and a second queue."""
    lab = QueueLab(memory / "lab", lab_xml(queue_xml(*PARTS), queue_xml(name="other")))
    lab.put(1, 2)
    for _ in range(2):
        lab.lease(2)
        lab.clock.tick(10)
    lab.publish("orders", *[message(id=number, p=number % 3) for number in range(3, 20)])
    lab.publish("orders", *[message(id=number) for number in (20, 21)], client="feed", sequence=1)
    lab.ack(*lab.lease(2, "a"))
    lab.cancel(lab.lease(1, "b")[0], delay=5.0, client="b")
    lab.lease(2, "c")
    for sequence in (30, 31):
        lab.ack_bookmark(f"{CLIENT}|{sequence}|")
    lab.publish("orders", message(id=22, sync=1), message(id=23))
    lab.lease(2, name="other")
    files = read_files(lab.directory) | {
        str(path.relative_to(lab.directory)): path.read_bytes() for path in lab.directory.rglob("*.queue-lock")
    }
    name = str(lab.state_file().relative_to(lab.directory))
    raw = files[name]
    pages = [page for page in range(len(raw) // PAGE) if raw[page * PAGE : page * PAGE + PAGE].strip(b"\0")]
    assert {state for _, state in lab.states()} >= {"ready", "leased", "delayed", "blocked", "dead"}
    at, truth = lab.clock.at, ask(lab)
    put_files(lab.directory, {one: content for one, content in files.items() if one != name})
    return Sample(lab, files, name, pages, truth, ask(lab), at)


def ask(lab: QueueLab) -> Answer:
    """Return a queue's answers to reads and changes, without tokens."""
    found: list[object] = [[(id_of(one), one.state, one.priority) for one in lab.peek()], lab.depth()]
    info = lab.info()
    found.append((info.oldest_txid, info.entered, info.delivered, info.acknowledged, info.expired, info.blocked_by))
    leased = lab.lease(3, "d")
    found += [ids(leased), lab.ack(*leased[:1], client="d"), lab.ack_bookmark(f"{CLIENT}|1|")]
    lab.put(40, client="feed", sequence=30)
    found.append(lab.states())
    at = lab.clock.at
    lab.clock.tick(20)
    found += [lab.states(), ids(lab.lease(50, "e")), lab.depth()]
    lab.clock.at = at
    return tuple(found)


def is_found(lab: QueueLab) -> bool:
    """Return whether a check finds anything."""
    instance = lab.open()
    try:
        return bool(verify_queue_state(instance, find_queue(instance, "work"))[0])
    except DamageError:
        return True


def judge(sample: Sample, damage: Damage, seed: int) -> int:
    """Return the result of a queue with some files replaced: EQUAL, REPORTED, or WRONG if a check finds nothing."""
    signal.alarm(SECONDS)
    try:
        sample.lab.clock.at = sample.at
        put_files(sample.lab.directory, sample.files | damage(sample, random.Random(seed)))
        seen = is_found(sample.lab)
        answer = ask(sample.lab)
        # The mark of another boot of the machine: leases are lost, as after a crash of the machine.
        if damage is mark and answer == sample.rebuilt:
            return EQUAL
        return EQUAL if answer == sample.truth else REPORTED if seen else WRONG
    finally:
        signal.alarm(0)


def flip(sample: Sample, chance: random.Random) -> dict[str, bytes]:
    """Flip one bit of a byte that is not zero in a page."""
    start = PAGE * chance.choice(sample.pages)
    used = [at for at in range(start, start + PAGE) if sample.state[at]]
    return {sample.name: flipped(sample.state, 8 * chance.choice(used) + chance.randrange(8))}


def cut(sample: Sample, chance: random.Random) -> dict[str, bytes]:
    """Truncate the file."""
    size = chance.choice((0, 1, PAGE, 2 * PAGE, len(sample.state) - PAGE, chance.randrange(len(sample.state))))
    return {sample.name: sample.state[:size]}


def swap(sample: Sample, chance: random.Random) -> dict[str, bytes]:
    """Swap two pages, with their numbers or without; or overwrite one with zeros."""
    data = bytearray(sample.state)
    one, other = (PAGE * page for page in chance.sample(sample.pages, 2))
    data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]
    if chance.randrange(2):
        data[one : one + 8], data[other : other + 8] = data[other : other + 8], data[one : one + 8]
    if not chance.randrange(3):
        data[one : one + PAGE] = bytes(PAGE)
    return {sample.name: bytes(data)}


def scribble(sample: Sample, chance: random.Random) -> dict[str, bytes]:
    """Write random bytes, of any length, anywhere."""
    at, size = PAGE * chance.choice(sample.pages) + chance.randrange(PAGE), chance.choice((1, 8, 64, 4096))
    return {sample.name: (sample.state[:at] + chance.randbytes(size) + sample.state[at + size :])[: len(sample.state)]}


def mark(sample: Sample, chance: random.Random) -> dict[str, bytes]:
    """Write another mark to the lock file."""
    name = f"{sample.name}-lock"
    raw = sample.files[name]
    return {name: chance.choice([flipped(raw, chance.randrange(8 * len(raw))), raw[: chance.randrange(1, len(raw))]])}


DAMAGES = [flip, cut, swap, scribble, mark]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_state_files(sample: Sample, damage: Damage, seed: int, deep: bool) -> None:
    tries = 1000 if deep else 30
    seeds = range(seed, seed + tries)
    jobs = [partial(judge, sample, damage, one) for one in seeds]
    found = dict(zip(seeds, in_children(jobs), strict=True))
    bad = {one: status for one, status in found.items() if status not in (EQUAL, REPORTED)}
    assert not bad, bad
    assert REPORTED in found.values()
