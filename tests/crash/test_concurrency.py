"""Concurrent processes: writers on the same topics, readers, a rebuild during both, a stopped process.

Every writer publishes transfers between the accounts of its topic's groups, so that no group of messages changes the
sum. A reader that ever sees another sum has seen a part of a group.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.instance import Instance
from sowctl.engine.options import PublishOptions, ReplayOptions
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.upkeep.compact import compact_stores
from sowctl.engine.writing.batches import ListSource
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.errors import LockedError
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import Lab, message
from tests.support.processes import Child
from tests.support.verbs import LOGGED, Plot, problems, rebuilt_is_live

ACCOUNTS = 6
TOTAL = 1000 * ACCOUNTS


def _system_clock() -> int:
    return time.time_ns() // 1000


def _instance(plot: Plot, wait: float = 20.0) -> Instance:
    return replace(plot.open(), clock=_system_clock, lock_wait=wait)


def _accounts(balances: list[int], owner: int, step: int) -> list[bytes]:
    return [
        message(id=owner * 100 + n, owner=owner, step=step, balance=amount).encode()
        for n, amount in enumerate(balances)
    ]


def _transfer(balances: list[int], chance: random.Random) -> None:
    giver, taker = chance.sample(range(ACCOUNTS), 2)
    amount = chance.randrange(100)
    balances[giver] -= amount
    balances[taker] += amount


def _write(plot: Plot, owner: int, topic_names: str, seconds: float, seed: int) -> Child:
    """A writer: groups of transfers to one topic after the other, each group one batch; reports the last step."""

    def work(child: Child) -> None:
        chance = random.Random(seed + owner)
        instance = _instance(plot)
        end = time.monotonic() + seconds
        step, slowest = 0, 0.0
        balances = {topic: [1000] * ACCOUNTS for topic in topic_names}
        while time.monotonic() < end:
            topic = chance.choice(topic_names)
            messages = []
            for _ in range(chance.randrange(1, 6)):
                step += 1
                _transfer(balances[topic], chance)
                messages += _accounts(balances[topic], owner, step)
            started = time.monotonic()
            publish_messages(instance, topic, [("w", ListSource(messages, ACCOUNTS))], PublishOptions(batch=ACCOUNTS))
            slowest = max(slowest, time.monotonic() - started)
            child.say(f"{topic} {step} {json.dumps(balances[topic])}")
        child.say(f"slowest {slowest}")

    return Child(work)


def _sums_are_right(rows: list[dict[str, int]]) -> str | None:
    by_owner: dict[int, list[dict[str, int]]] = {}
    for row in rows:
        by_owner.setdefault(row["owner"], []).append(row)
    for owner, accounts in by_owner.items():
        if len(accounts) != ACCOUNTS or sum(a["balance"] for a in accounts) != TOTAL:
            return f"owner {owner}: {len(accounts)} accounts, sum {sum(a['balance'] for a in accounts)}"
        if len({a["step"] for a in accounts}) != 1:
            return f"owner {owner}: steps {[a['step'] for a in accounts]}"
    return None


def _read(plot: Plot, topic_names: str, seconds: float) -> Child:
    """A reader: reports inconsistencies, and finally the number of its reads."""

    def work(child: Child) -> None:
        instance = _instance(plot)
        end = time.monotonic() + seconds
        looks = 0
        latest: dict[tuple[str, int], int] = {}
        while time.monotonic() < end:
            topic = topic_names[looks % len(topic_names)]
            result = instance.topic(topic).query(batch_size=3)
            rows = [json.loads(record.payload) for record in result.records()]
            if wrong := _sums_are_right(rows):
                child.say(f"wrong {topic}: {wrong}")
            for row in rows:
                if row["step"] < latest.get((topic, row["owner"]), 0):
                    child.say(f"wrong {topic}: owner {row['owner']} went back to step {row['step']}")
                latest[topic, row["owner"]] = row["step"]
            looks += 1
        child.say(f"looks {looks}")

    return Child(work)


def _opened(plot: Plot, topic_names: str, owners: int) -> None:
    """Publish every owner's accounts once."""
    for topic in topic_names:
        for owner in range(owners):
            plot.lab.open().topic(topic).publish(_accounts([1000] * ACCOUNTS, owner, 0))


def _txids(lab: Lab) -> list[int]:
    return [record.txid for batch in dump_entries(lab.open(), EntryFilter()) for record in batch.records]


def _final(plot: Plot, children: list[Child], topic_names: str) -> int:
    """Check that the last state reported by each writer is stored; return the number of groups."""
    said: dict[tuple[str, int], tuple[int, list[int]]] = {}
    count = 0
    for owner, child in enumerate(children):
        for line in child.lines:
            topic, step, *rest = line.decode().split(" ", 2)
            if topic in topic_names and rest:
                said[topic, owner] = int(step), json.loads(rest[0])
                count += 1
    for (topic, owner), (step, balances) in said.items():
        rows = plot.lab.query(topic, f"/owner = {owner}", order_by="/id")
        assert rows == [text.decode() for text in _accounts(balances, owner, step)], (topic, owner)
    return count


def test_four_writers_and_readers(memory: Path, seed: int, deep: bool) -> None:
    plot = Plot(memory / "lab", journal_size=200_000)
    topic_names = "jha"
    _opened(plot, topic_names, 4)
    seconds = 600.0 if deep else 2.0
    writers = [_write(plot, owner, topic_names, seconds, seed) for owner in range(4)]
    readers = [_read(plot, topic_names, seconds) for _ in range(2)]
    for child in (*writers, *readers):
        assert child.join(timeout=seconds + 40) == 0
        child.close()
    said = [line.decode() for child in (*writers, *readers) for line in child.lines]
    assert [line for line in said if line.startswith("wrong")] == []
    slowest = max(float(line.split()[1]) for line in said if line.startswith("slowest"))
    looks = sum(int(line.split()[1]) for line in said if line.startswith("looks"))
    groups = _final(plot, writers, topic_names)
    print(f"{groups} commits by 4 writers, {looks} looks, the longest publish took {slowest:.2f} s")
    assert slowest < 15
    assert groups > 4
    assert looks > 4
    txids = _txids(plot.lab)
    assert txids == list(range(1, len(txids) + 1))
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


def test_two_publishers_meet_topics_in_different_orders(memory: Path, seed: int) -> None:
    """Envelopes over topics with and without a journal, one publisher in order, one in reverse order: no deadlock."""
    plot = Plot(memory / "lab")

    def work(names: str, owner: int):  # type: ignore[no-untyped-def]
        def run(child: Child) -> None:
            instance = _instance(plot)
            for step in range(25):
                rows = [message(topic=t, data={"id": owner, "step": step, "t": t}) + "\n" for t in names]
                source = FrameReader(io.BytesIO("".join(rows).encode()), "envelope")
                publish_messages(instance, None, [("in", source)], PublishOptions(batch=3))
            child.say("done")

        return run

    with Child(work("jhqab", 1)) as one, Child(work("baqhj", 2)) as two, Child(work("ajbhq", 3)) as three:
        for child in (one, two, three):
            assert child.join(timeout=30) == 0
    for topic, rows in plot.contents().items():
        assert {key: json.loads(row)["step"] for key, row in rows.items()} == {1: 24, 2: 24, 3: 24}, topic
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


@pytest.mark.parametrize(("how", "topic_names"), [("rebuild", "jh"), ("compact", "jha")])
def test_stores_replaced_under_readers_and_writers(
    memory: Path, how: str, topic_names: str, seed: int, deep: bool
) -> None:
    """They are replaced repeatedly while others write, read, and hold a half-read snapshot."""
    plot = Plot(memory / "lab", journal_size=50_000)
    _opened(plot, topic_names, 2)
    seconds = 60.0 if deep else 2.0

    def hold(child: Child) -> None:
        """A slow reader: its snapshot does not change while the file is replaced."""
        instance = _instance(plot)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            result = iter(instance.topic("j").query(batch_size=1).records())
            rows = [json.loads(next(result).payload)]
            time.sleep(0.1)
            rows += [json.loads(record.payload) for record in result]
            if wrong := _sums_are_right(rows):
                child.say(f"wrong: {wrong}")

    def replace_all(child: Child) -> None:
        instance = _instance(plot)
        chosen = [instance.topic(topic).config for topic in topic_names]
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            if how == "rebuild":
                replay_topics(instance, chosen, ReplayOptions(rebuild=True))
            else:
                list(compact_stores(instance, [Target(topic=topic) for topic in chosen], always=True))
            count += 1
            time.sleep(0.02)
        child.say(f"replaced {count}")

    writers = [_write(plot, owner, topic_names, seconds, seed) for owner in range(2)]
    others = [_read(plot, topic_names, seconds), Child(hold), Child(replace_all)]
    for child in (*writers, *others):
        assert child.join(timeout=seconds + 40) == 0
        child.close()
    said = [line.decode() for child in (*writers, *others) for line in child.lines]
    assert [line for line in said if line.startswith("wrong")] == []
    assert sum(int(line.split()[1]) for line in said if line.startswith("replaced")) > 0
    groups = _final(plot, writers, topic_names)
    assert groups > 0
    txids = _txids(plot.lab)
    assert txids == list(range(1, len(txids) + 1))
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None
    assert [path.name for path in (plot.root / "sow").iterdir() if ".new-" in path.name] == []


def _stopped(child: Child) -> None:
    child.signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)


@pytest.mark.parametrize("topic", ["j", "a"])
def test_a_publisher_stopped_while_it_waits_holds_nothing(memory: Path, topic: str) -> None:
    plot = Plot(memory / "lab")

    def work(child: Child) -> None:
        def told(what: AcknowledgedBatch) -> None:
            child.say(f"told {what.end_offset}")

        source = FrameReader(child.inlet, "lines")
        publish_messages(_instance(plot), topic, [("in", source)], PublishOptions(linger=0.001), on_acknowledged=told)

    with Child(work) as child:
        child.write(b'{"id":1,"v":1}\n')
        child.wait_for(b"told")
        # Reported under the locks; the next owner of the locks knows that the publisher waits for input.
        assert replace(plot.open(), lock_wait=10.0).topic(topic).publish([b'{"id":2,"v":1}']).inserted == 1
        _stopped(child)
        other = replace(plot.open(), lock_wait=0.0)
        assert other.topic(topic).publish([b'{"id":2,"v":2}', b'{"id":1,"v":9}']).updated == 2
        assert other.topic(topic).delete(filter="/id = 2").deleted == 1
        assert plot.lab.query(topic) == ['{"id":1,"v":9}']
        if topic in LOGGED:
            assert other.topic(topic).replay(rebuild=True).action == "rebuilt"
        child.signal(signal.SIGCONT)
        child.write(b'{"id":3,"v":3}\n')
        assert child.join() == 0
    assert sorted(plot.lab.query(topic)) == ['{"id":1,"v":9}', '{"id":3,"v":3}']
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


@pytest.mark.parametrize("topic", ["j", "a"])
def test_a_publisher_stopped_with_the_lock_is_named(memory: Path, topic: str) -> None:
    """Others give up after their --lock-wait and name the owner; readers are not affected; a kill frees the lock."""
    plot = Plot(memory / "lab")
    plot.publish(topic, [1])

    def work(child: Child) -> None:
        def told(what: AcknowledgedBatch) -> None:
            child.say("inside")
            threading.Event().wait()  # between sync and store, with the locks of the batch held

        publish_messages(
            replace(_instance(plot), holder="sowctl publish slow"), topic, [("in", ListSource([b'{"id":7,"v":7}']))],
            PublishOptions(), on_acknowledged=told,
        )  # fmt: skip

    with Child(work) as child:
        child.wait_for(b"inside")
        _stopped(child)
        other = replace(plot.open(), lock_wait=0.2)
        for act in (
            lambda: other.topic(topic).publish([b'{"id":8,"v":8}']),
            lambda: other.topic(topic).delete(filter="1=1"),
        ):
            started = time.monotonic()
            with pytest.raises(LockedError) as caught:
                act()
            assert 0.15 < time.monotonic() - started < 8
            assert caught.value.exit_status == 11
            assert str(child.pid) in caught.value.message
            assert "sowctl publish slow" in caught.value.message
            assert "increase lock_wait of sowctl.open()" in str(caught.value.hint)
        assert '{"id":7,"v":7}' in plot.lab.query(topic), "acknowledged is visible, applied or not"
        child.kill()
    assert other.topic(topic).publish([b'{"id":8,"v":8}']).inserted == 1
    assert len(plot.lab.query(topic)) == 3
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


def test_writers_of_two_processes_alternate(memory: Path) -> None:
    """Each immediately sees what the other acknowledged, as the counts of inserted and updated show."""
    plot = Plot(memory / "lab")

    def work(child: Child) -> None:
        def told(what: AcknowledgedBatch) -> None:
            child.say(f"told {what.first_txid}")

        source = FrameReader(child.inlet, "lines")
        report = publish_messages(
            _instance(plot), "j", [("in", source)], PublishOptions(linger=0.0), on_acknowledged=told
        )
        child.say(f"counts {report.inserted} {report.updated} {report.unchanged}")

    with Child(work) as child:
        mine = plot.open()
        for turn in range(5):
            child.write(message(id=turn, v=0).encode() + b"\n")
            child.wait_for(f"told {3 * turn + 1}\n".encode())
            report = mine.topic("j").publish([message(id=turn, v=0).encode(), message(id=100 + turn).encode()])
            assert (report.inserted, report.unchanged, report.first_txid) == (1, 1, 3 * turn + 2)
        child.write(message(id=104).encode() + b"\n" + message(id=103, v=1).encode() + b"\n")
        assert child.join() == 0
        assert b"counts 5 1 1" in child.lines
    assert _txids(plot.lab) == list(range(1, 18))
    assert rebuilt_is_live(plot.lab) is None
