"""Files moved, compressed and removed during publishers, readers and a subscription, by processes that are killed.

Every publisher moves amounts between accounts, so that the sum of its accounts is constant; and it numbers its
messages, so that the subscription notices a missing one. The process that maintains the files is killed repeatedly.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from sowctl.engine.maintenance.retention.archive import archive_files
from sowctl.engine.maintenance.retention.compression import compress_files
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.options import PublishOptions
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import LockedError, MissingError
from sowctl.findings import Level
from sowctl.values.times import system_clock
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.processes import Child

XML = config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")).replace(
    "</JournalDirectory>", "</JournalDirectory><JournalArchiveDirectory>old</JournalArchiveDirectory>"
)
ACCOUNTS, TOTAL = 6, 6000
Work = Callable[[Child], None]


def _lab(place: Path) -> Lab:
    lab = Lab(place, XML, journal_size=5000)
    lab.clock = system_clock  # type: ignore[assignment]
    return lab


def _until_told(child: Child) -> Callable[[], bool]:
    import select

    return lambda: not select.select([child.inlet], [], [], 0)[0]


def _publisher(lab: Lab, owner: int, seed: int) -> Work:
    def work(child: Child) -> None:
        chance, balances, step = random.Random(seed), [TOTAL // ACCOUNTS] * ACCOUNTS, 0
        instance, goes_on = lab.open(lock_wait=60), _until_told(child)
        while goes_on():
            step += 1
            giver, taker = chance.sample(range(ACCOUNTS), 2)
            amount = chance.randrange(100)
            balances[giver] -= amount
            balances[taker] += amount
            rows = [
                message(id=owner * 100 + n, owner=owner, n=step, balance=one).encode() for n, one in enumerate(balances)
            ]
            publish_messages(
                instance,
                chance.choice("tu") if step > 2 else "tu"[step - 1],
                [("in", ListSource(rows))],
                PublishOptions(),
            )
        child.say(f"published {step}")

    return work


def _reader(lab: Lab, topic: str) -> Work:
    """Read states and logs, opening everything each time."""

    def work(child: Child) -> None:
        looks, gone, goes_on = 0, 0, _until_told(child)
        while goes_on():
            sums: dict[int, int] = {}
            for text in lab.query(topic):
                row = json.loads(text)
                sums[row["owner"]] = sums.get(row["owner"], 0) + row["balance"]
            assert all(total == TOTAL for total in sums.values()), sums
            try:
                with open_log(lab.open()) as log:
                    txids = [entry.txid for block in log.iter_blocks() for entry in block.iter_entries()]
                assert txids == list(range(txids[0], txids[0] + len(txids)))
            except MissingError as error:
                assert error.code == "SOW-JRN-063", error
                gone += 1
            looks += 1
        child.say(f"looked {looks} {gone}")

    return work


def _follower(lab: Lab) -> Work:
    """Receive every message of every publisher, in order, whatever happens to the files; runs end and start again."""

    def work(child: Child) -> None:
        seen: dict[tuple[int, int], int] = {}
        told, goes_on, is_last = 0, _until_told(child), False
        while not is_last:
            # Asked before a run: the last run begins after all messages are published.
            is_last = not goes_on()
            with (
                lab.open() as instance,
                instance.place(str(lab.directory / "a.bookmarks"), "c", "1", every=0.05) as place,
                instance.subscribe("^[tu]$", sow=False, until_now=True, bookmark=place.recent) as subscription,
            ):
                for event in place.events(subscription):
                    if isinstance(event, Event) and event.data is not None:
                        row = json.loads(event.data)
                        known = seen.get((row["owner"], row["id"]), 0)
                        assert row["n"] in (known, known + 1), f"{row} after {known}"
                        seen[row["owner"], row["id"]] = row["n"]
                        told += 1
                        place.acknowledge(event)
        child.say(f"followed {told} " + " ".join(f"{owner}:{n}" for (owner, _), n in sorted(seen.items())))

    return work


def _upkeep(lab: Lab, seed: int) -> Work:
    def work(child: Child) -> None:
        chance = random.Random(seed)
        instance = lab.open(lock_wait=20)
        goes_on = _until_told(child)
        for turn in count(seed):
            if not goes_on():  # the test itself was ended
                return
            with suppress(LockedError):
                match turn % 3:
                    case 0:
                        list(archive_files(instance, keep=chance.randrange(3)))
                    case 1:
                        list(compress_files(instance, kind=chance.choice((".gz", ".zst")), keep=chance.randrange(4)))
                    case 2:
                        report = prune_files(instance, KeepRule(keep_size=chance.choice((0, 20_000))))
                        child.say(f"removed {report.removed} {sorted({held.holder for held in report.held})}")

    return work


def test_files_go_under_everybody(tmp_path: Path, seed: int, deep: bool) -> None:
    lab = _lab(tmp_path / "lab")
    publishers = [Child(_publisher(lab, owner, seed + owner)) for owner in (1, 2)]
    while not (lab.store("t").exists() and lab.store("u").exists()):
        time.sleep(0.01)
    others = [Child(_reader(lab, "t")), Child(_reader(lab, "u")), Child(_follower(lab))]
    # Files removed before the subscriber has a stored position are not kept for it.
    while not (lab.directory / "a.bookmarks").exists():
        time.sleep(0.01)
    chance, removed, killed = random.Random(seed), 0, 0
    least, round_, end = 60 if deep else 8, 0, time.monotonic() + (1000 if deep else 120)
    # However slow the machine is: some files must be removed while the others are at work.
    while round_ < least or (removed <= 5 and time.monotonic() < end):
        round_ += 1
        keeper = Child(_upkeep(lab, seed + round_))
        time.sleep(chance.choice((0.1, 0.4, 0.8, 1.2)) if round_ <= least else 3.0)
        keeper.hear()
        keeper.signal(signal.SIGKILL)
        killed += keeper.join() == -signal.SIGKILL
        said = keeper.lines
        removed += sum(int(line.split()[1]) for line in keeper.lines)
        assert not any(child.ended() for child in publishers + others), "a process ended early"
    for child in publishers:
        child.write(b"x")
        assert child.join() == 0
    steps = [int(child.lines[-1].split()[1]) for child in publishers if child.hear() or child.lines]
    for child in others:
        child.write(b"x")
        assert child.join(120) == 0
        child.hear()
    follower = others[2].lines[-1].decode()
    assert f"1:{steps[0]}" in follower and f"2:{steps[1]}" in follower, (steps, follower)
    assert killed and removed > 5, (killed, removed, said)
    prune_files(lab.open(), KeepRule(keep_size=0))
    assert [one for one in lab.findings() if one.level >= Level.ERROR] == []
    assert len(lab.journals()) == 1
    leftovers = [path.name for path in lab.directory.rglob(".*.new")]
    assert leftovers == [], leftovers
