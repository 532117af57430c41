"""A power cut at any moment: acknowledged entries survive, none are invented, the next writer can continue."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

import pytest

from sowctl.errors import MissingError, SowError, StorageError
from sowctl.findings import Level
from sowctl.journal.blockcodec import CODEC_NONE, CODEC_ZSTD
from sowctl.journal.check import check_journal
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.writer import JournalWriter
from sowctl.seam import Seam
from tests.support.crashstates import CrashState, Recorder
from tests.support.journals import INSTANCE, NO_SYNC, contents, group, open_writer, publish, texts


class Workload:
    """Writes through a recorder and records, per acknowledgement, which entries must survive from then on."""

    def __init__(self, root: Path, codec: int, forget_syncs: bool = False) -> None:
        root.mkdir()
        self.codec = codec
        self.recorder = Recorder(root, forget_syncs=forget_syncs)
        self.directory = root / "log"
        self.entries: list[tuple[int, bytes]] = []
        self.ends: list[int] = [0]
        self.promised: list[int] = [0]

    def writer(self, size: int = 1 << 20, seam: Seam | None = None) -> JournalWriter:
        return open_writer(self.directory, seam or self.recorder, journal_size=size, codec=self.codec)

    def batch(self, writer, *sizes: int, width: int = 60) -> None:
        """Write some groups with one sync and one acknowledgement."""
        with writer.hold_lock():
            for size in sizes:
                payloads = texts(size, size=width)
                first, _ = writer.append_group(group(payloads, topic=size % 2), 1000)
                self.entries += [(first + index, payload) for index, payload in enumerate(payloads)]
                self.ends.append(len(self.entries))
            writer.sync()
            self.recorder.acknowledge()
            self.promised.append(len(self.entries))


def single(work: Workload) -> None:
    with work.writer() as writer:
        for _ in range(8):
            work.batch(writer, 2, width=500)


def several_groups_per_sync(work: Workload) -> None:
    with work.writer() as writer:
        work.batch(writer, 2, 1, 3)
        for count in range(1, 12):
            work.batch(writer, 4, count, 2, 3, 1, 4, 2, width=400)


def many_blocks_per_group(work: Workload) -> None:
    with work.writer() as writer:
        work.batch(writer, 13)
        work.batch(writer, 9, 6, 17, 5, width=400)
        work.batch(writer, 60, width=400)
        work.batch(writer, 9, 11, 7, width=500)


def rolling(work: Workload) -> None:
    with work.writer(1200) as writer:
        for count in (3, 4, 2, 6, 1, 5):
            work.batch(writer, count, 2, width=200)


def two_writers(work: Workload) -> None:
    with work.writer() as one, work.writer() as two:
        for count in (2, 3, 1, 4, 2):
            work.batch(one, count, 3, 2, width=300)
            work.batch(two, count, 1, width=300)


def abandoned_group(work: Workload) -> None:
    with work.writer() as writer:
        work.batch(writer, 2)
        with writer.hold_lock():
            writer.append_group(group(texts(3)), 1000, last=False)
            writer.sync()
        work.batch(writer, 2)


def reopened(work: Workload) -> None:
    for _ in range(3):
        with work.writer(1500) as writer:
            work.batch(writer, 4)


def die(writer: JournalWriter, held: AbstractContextManager[JournalWriter]) -> None:
    """Release everything as a killed process does: nothing is written, nothing is synced."""
    writer._ending.failed = StorageError("SOW-JRN-021", "dead")
    writer._release_lock()
    with suppress(ValueError, OSError):
        held.__exit__(None, None, None)


def adopted(work: Workload) -> None:
    """A writer dies between write and sync; the entries that the next one finds and builds on must survive."""
    with work.writer() as writer:
        work.batch(writer, 2)
    for size in (3, 9):
        victim = work.writer()
        held = victim.hold_lock()
        held.__enter__()
        payloads = texts(size, size=300)
        first, _ = victim.append_group(group(payloads), 1000)
        die(victim, held)
        work.entries += [(first + index, payload) for index, payload in enumerate(payloads)]
        work.ends.append(len(work.entries))
        with work.writer() as writer:
            assert writer.last_txid == len(work.entries)
            work.recorder.acknowledge()
            work.promised.append(len(work.entries))
            work.batch(writer, 1)


def repaired(work: Workload) -> None:
    """An unfinished group and a torn block, repaired by the next writer."""
    with work.writer() as writer:
        work.batch(writer, 3)
    victim = work.writer()
    held = victim.hold_lock()
    held.__enter__()
    victim.append_group(group(texts(40)), 1000, last=False)
    die(victim, held)
    file = work.directory / f"{INSTANCE}.0000000000.journal"
    file.write_bytes(file.read_bytes()[:-30])
    work.recorder = Recorder(work.recorder.root, forget_syncs=work.recorder._forget)
    work.recorder.acknowledge()
    with work.writer() as writer:
        work.batch(writer, 2)


def drawn(work: Workload, chance: random.Random) -> None:
    """Writers that start, end and die, files that are finished, groups that are aborted, in an order given by a
    seed."""
    size = chance.choice([900, 1500, 4000, 1 << 20])
    with ExitStack() as stack:
        writers = [stack.enter_context(work.writer(size))]
        for _ in range(chance.randint(4, 12)):
            what = chance.choices(("batch", "opens", "ends", "dies", "gives up"), (12, 1, 1, 2, 1))[0]
            groups = [chance.choice([1, 2, 3, 5, 8, 13, 21]) for _ in range(chance.choice([1, 1, 2, 3]))]
            width = chance.choice([0, 20, 60, 200, 450])
            if what == "batch":
                work.batch(chance.choice(writers), *groups, width=width)
            elif what == "opens":
                writers.append(stack.enter_context(work.writer(size)))
            elif what == "ends":
                writers.pop(chance.randrange(len(writers))).close()
                writers.append(stack.enter_context(work.writer(size)))
            elif what == "gives up":
                writer = chance.choice(writers)
                with writer.hold_lock():
                    writer.append_group(group(texts(groups[0], size=width)), 1000, last=False)
                    writer.sync()
            else:
                victim = work.writer(size)
                held = victim.hold_lock()
                held.__enter__()
                whole = chance.random() < 0.7
                payloads = texts(groups[0], size=width)
                first, _ = victim.append_group(group(payloads), 1000, last=whole)
                die(victim, held)
                if whole:
                    work.entries += [(first + index, payload) for index, payload in enumerate(payloads)]
                    work.ends.append(len(work.entries))
                with work.writer(size) as writer:
                    assert not work.entries or writer.last_txid >= work.entries[-1][0]
                work.recorder.acknowledge()
                work.promised.append(len(work.entries))


WORKLOADS = (
    single,
    several_groups_per_sync,
    many_blocks_per_group,
    rolling,
    two_writers,
    abandoned_group,
    adopted,
    reopened,
    repaired,
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 4)


STRIDE = 5
"""In the short form every ``STRIDE``-th state is read, starting at a random one."""


def verdict(work: Workload, state: CrashState, target: Path) -> str | None:
    """Return the fault found when reading a state, or None."""
    state.materialise(target)
    directory = target / "log"
    try:
        found = contents(directory)
    except MissingError:
        found = []
    except SowError as error:
        return f"not readable: {error}"
    if found != work.entries[: len(found)] or len(found) not in work.ends:
        return f"not a prefix of groups: {[txid for txid, _ in found]}"
    if len(found) < work.promised[state.acknowledged]:
        return f"lost: {len(found)} of {work.promised[state.acknowledged]}"
    return None


def recovery(work: Workload, state: CrashState, target: Path) -> str | None:
    """Return the fault found after the next writer has continued from a state, or None."""
    directory = target / "log"
    before = contents(directory) if (directory / f"{INSTANCE}.0000000000.journal").exists() else []
    with open_writer(directory, NO_SYNC, lineage=b"n" * 16) as writer:
        ((first, _),) = publish(writer, group([b"after"]))
    if contents(directory) != [*before, (first, b"after")]:
        return "the next writer changed what was there"
    problems = [finding for finding in check_journal(directory, INSTANCE) if finding.level > Level.INFO]
    return f"check: {problems}" if problems else None


def survey(
    workload, codec: int, root: Path, deep: bool, seed: int = 0, forget_syncs: bool = False
) -> tuple[int, list[str]]:
    """Return the number of states and the faults by state; without syncs only the first fault."""
    work = Workload(root / workload.__name__, codec, forget_syncs)
    workload(work)
    target = root / "state"
    count, wrong = 0, []
    for count, state in enumerate(work.recorder.states(), 1):
        if not deep and not forget_syncs and count % STRIDE != seed % STRIDE:
            continue
        problem = verdict(work, state, target)
        if problem is None and not forget_syncs and (deep or (count // STRIDE + seed) % 4 == 0):
            problem = recovery(work, state, target)
        if problem is not None:
            wrong.append(f"{workload.__name__}: {state.label}: {problem}")
            if forget_syncs and "lost" in problem:
                break
    return count, wrong


COUNTS: dict[tuple[str, int], int] = {}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory in memory if the system has one: states are created and discarded by the thousand."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as name:
        yield Path(name)


@pytest.mark.parametrize("codec", [CODEC_NONE, CODEC_ZSTD], ids=["plain", "zstd"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.__name__)
def test_every_state_holds_what_was_acknowledged(workload, codec: int, scratch: Path, seed: int, deep: bool) -> None:
    count, wrong = survey(workload, codec, scratch, deep, seed)
    COUNTS[workload.__name__, codec] = count
    assert wrong == []
    assert count > 20


PARTS = 8
STATES = 62_500
"""States of each part in the long form: 500,000 in total."""


@pytest.mark.parametrize("part", range(PARTS))
def test_every_state_of_workloads_that_a_seed_decides(part: int, scratch: Path, seed: int, deep: bool) -> None:
    chance = random.Random(f"{seed} {part}")
    count = workloads = recovered = 0
    while count < (STATES if deep else 60):
        workloads += 1
        work = Workload(scratch / f"work-{workloads}", chance.choice([CODEC_NONE, CODEC_ZSTD]))
        drawn(work, chance)
        states = list(work.recorder.states())
        for state in states if deep else chance.sample(states, min(len(states), 30)):
            count += 1
            problem = verdict(work, state, scratch / "state")
            if problem is None and chance.random() < 0.1:
                recovered += 1
                problem = recovery(work, state, scratch / "state")
            assert problem is None, f"workload {workloads} of part {part}: {state.label}: {problem}"
        shutil.rmtree(work.recorder.root)
    print(f"part {part}: {count} states of {workloads} workloads, {recovered} gone on with; 0 lost")


def test_a_cut_tail_is_on_the_disk_before_it_is_cut(scratch: Path) -> None:
    work = Workload(scratch / "cut", CODEC_ZSTD)
    repaired(work)
    name = f"log/{INSTANCE}.0000000000.journal"
    before = work.recorder._start.files()[name]
    copies = [path for path in work.directory.iterdir() if path.name.endswith(".torn-1")]
    torn = copies[0].read_bytes()
    assert before is not None
    assert before.endswith(torn)
    for state in work.recorder.states():
        now = state.files[name]
        assert now is not None
        if not now.startswith(before):
            assert state.files.get(f"{name}.torn-1") == torn


def test_there_are_enough_states() -> None:
    if len(COUNTS) == 2 * len(WORKLOADS):
        assert sum(COUNTS.values()) >= 5000


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.__name__)
def test_without_syncs_the_loss_is_seen(workload, scratch: Path) -> None:
    _, wrong = survey(workload, CODEC_ZSTD, scratch, False, forget_syncs=True)
    assert any("lost" in problem for problem in wrong)
