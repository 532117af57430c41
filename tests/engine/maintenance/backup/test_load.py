"""Backups during continuous publishing: each can be restored, and equals the instance at its instant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target
from sowctl.values.times import system_clock
from tests.support.backups import NAMES, XML, BackupLab, checks_here
from tests.support.processes import Child

__all__ = ["checks_here"]
LOGGED = ("t", "past", "orders")


def publish_on(lab: BackupLab, child: Child) -> None:
    """Publish to all topics, in turn and in groups, until the inlet is closed."""
    import select

    number = 0
    child.say("began")
    while not select.select([child.inlet], [], [], 0)[0]:
        number += 1
        for name in NAMES:
            messages = [f'{{"id":{(number * 7 + k) % 500},"n":{number},"k":{k}}}' for k in range(number % 40 + 1)]
            lab.publish(name, *messages)
        if number % 10 == 0:
            lab.open().topic("t").delete(filter=f"/id = {number % 500}")


@pytest.fixture
def lab(tmp_path: Path, checks_here: None) -> Iterator[BackupLab]:
    made = BackupLab(tmp_path / "lab", XML, clock=system_clock, journal_size=200_000)  # type: ignore[arg-type]
    for name in NAMES:
        made.publish(name, *(f'{{"id":{number}}}' for number in range(500)))
    yield made


def test_each_backup_is_the_instance_at_its_instant(lab: BackupLab, tmp_path: Path) -> None:
    with Child(lambda child: publish_on(lab, child)) as child:
        child.wait_for(b"began")
        taken = []
        for turn in range(5):
            manifest, _ = lab.take()
            restored, report = lab.bring_back(f"restored{turn}")
            instance = restored.open()
            told = {topic.topic: topic for topic in manifest.topics}
            for topic in instance.topics:
                there = compute_digest(instance, Target(topic=topic))
                if topic.name != "quotes":  # quotes is left out: its records expire meanwhile
                    assert there.digest == told[topic.name].digest, (turn, topic.name)
                    assert there.records == told[topic.name].records
            assert report.undone == 0
            taken.append((manifest, restored))
        child.close_input()
        assert child.join() == 0
    # The journal up to the txid of each backup, folded again, gives the state of its instant.
    with open_log(lab.open()) as log:
        assert log.read_last_txid() > taken[-1][0].last_txid > taken[0][0].last_txid
    for manifest, restored in taken:
        for name in LOGGED:
            now = sorted(record.payload for record in restored.records(name))
            assert now == folded(lab, name, manifest.last_txid), (name, manifest.last_txid)


def folded(lab: BackupLab, name: str, until: int) -> list[bytes]:
    """Return the payloads of a topic after the entry ``until``: the last entry of each key, except deletions."""
    last: dict[bytes, bytes | None] = {}
    with open_log(lab.open()) as log:
        for block in log.iter_blocks(topic=(name, "json"), until=until):
            for entry in block.iter_entries():
                if entry.topic == (name, "json") and entry.txid <= until:
                    last[entry.key] = entry.payload if entry.operation == 1 else None
    return sorted(payload for payload in last.values() if payload is not None)
