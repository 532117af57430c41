"""Subscribers while publishers are killed, stopped and started, journals roll, and stores are replaced.

At every quiet point the folded events of a subscriber equal the store, and every recorded stream is ordered, unique,
atomic, complete and resumable at any bookmark (:mod:`tests.support.following`, one function each).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.options import DeleteOptions, PublishOptions, ReplayOptions
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.subscribe import Subscription
from sowctl.engine.writing.batches import ListSource
from sowctl.values.times import system_clock
from tests.support.following import (
    Holder,
    following,
    is_atomic,
    is_complete,
    is_ordered,
    is_reliable,
    is_unique,
    news,
    published,
)
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.processes import Child

TOPICS = ("a", "b")
KEYS = 30


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    archive = "</JournalDirectory><JournalArchiveDirectory>archive</JournalArchiveDirectory>"
    xml = config_xml("".join(map(topic_xml, TOPICS)), TOPICS).replace("</JournalDirectory>", archive)
    lab = Lab(tmp_path / "lab", xml)
    (lab.directory / "archive").mkdir(parents=True)
    lab.clock = system_clock  # type: ignore[assignment]
    lab.journal_size = 4_000
    for topic in TOPICS:
        lab.publish(topic, *(message(id=number, v=0) for number in range(KEYS)))
    return lab


def _publisher(lab: Lab, seed: int) -> Callable[[Child], None]:
    """Publish and delete until killed, or until the parent closes the input."""

    def work(child: Child) -> None:
        chance = random.Random(seed)
        instance = lab.open(lock_wait=60)
        while True:
            topic = chance.choice(TOPICS)
            if chance.random() < 0.15:
                targets = [Target(topic=instance.topic(topic).config)]
                delete_records(instance, targets, DeleteOptions(filter=f"/id % 7 = {chance.randrange(7)}"))
            else:
                rows = [
                    message(id=chance.randrange(KEYS), v=chance.randrange(100)).encode()
                    for _ in range(chance.choice((1, 2, 40)))
                ]
                publish_messages(
                    instance, topic, [("in", ListSource(rows))], PublishOptions(batch=chance.choice((1, 1000)))
                )
            child.say(".")

    return work


def _put_away(lab: Lab, chance: random.Random, *deeds: str) -> None:
    """Move finished files to the archive, or compress them in place, while they may be read."""
    for path in lab.journals()[:-1]:
        deed = chance.choice(deeds or ("stay", "move", "compress", "both"))
        place = path.parent if deed == "compress" else lab.directory / "archive"
        if deed == "move":
            path.rename(place / path.name)
        elif deed != "stay":
            part = place / (path.name + ".part")
            part.write_bytes(gzip.compress(path.read_bytes(), 1))
            # For a moment both files exist.
            part.rename(place / (path.name + ".gz"))
            path.unlink()


class Watched:
    """A subscription, its events, and the state of its subscriber."""

    def __init__(self, lab: Lab, topic: str, filter: str | None, **options: object) -> None:
        self.topic, self.filter, self.options = topic, filter, options
        self.subscription: Subscription = following(lab, topic, filter, oof=True, **options)
        self.holder, self.events = Holder(), list[Event]()

    def look(self) -> None:
        found = news(self.subscription)
        self.holder.take(found)
        self.events += found

    def is_exact(self, lab: Lab) -> bool:
        expected = lab.query(self.topic, self.filter, **self.options)
        return sorted(self.holder.held.values()) == sorted(map(str.encode, expected))


def test_subscribers_are_exact_at_every_quiet_point(lab: Lab, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    page = {"order_by": "/v DESC", "top_n": 5, "skip_n": 3}
    watched = [
        Watched(lab, topic, text, **options)
        for topic in TOPICS
        for text, options in ((None, {}), ("/v > 50", {}), (None, page))
    ]
    plain = {topic: (following(lab, topic), list[Event]()) for topic in TOPICS}
    publishers: list[Child] = []
    stopped: set[Child] = set()

    def look() -> None:
        for one in watched:
            one.look()
        for subscription, events in plain.values():
            events += news(subscription)

    try:
        for number in range(12 if deep else 3):
            publishers = [Child(_publisher(lab, seed + 10 * number + which)) for which in range(3)]
            end = time.monotonic() + (4 if deep else 1.2)
            while time.monotonic() < end:
                child = chance.choice(publishers)
                deed = chance.random()
                if deed < 0.1 and child not in stopped:
                    child.signal(signal.SIGSTOP)
                    stopped.add(child)
                elif deed < 0.25 and child in stopped:
                    child.signal(signal.SIGCONT)
                    stopped.discard(child)
                elif deed < 0.33:
                    # killed at any moment, even while it holds the lock or writes; another one replaces it
                    child.kill()
                    child.forget()
                    stopped.discard(child)
                    publishers[publishers.index(child)] = Child(_publisher(lab, chance.randrange(1 << 30)))
                elif deed < 0.38:
                    _put_away(lab, chance)
                if chance.random() < 0.7:
                    look()
                time.sleep(0.01)
            # On a slow machine no file may have been archived by chance.
            _put_away(lab, chance, "move", "both")
            look()
            for child in publishers:
                child.kill()
                child.forget()
            stopped.clear()
            # a quiet point: the next writer repairs what the killed processes left incomplete
            for topic in TOPICS:
                lab.publish(topic, message(id=0, v=number))
            look()
            for one in watched:
                assert one.is_exact(lab), (one.topic, one.filter, one.options)
            # a store is rebuilt during its subscriptions, and another one is lost
            replay_topics(lab.open(), [lab.open().topic("a").config], ReplayOptions(rebuild=True))
            lab.forget("b")
            look()
            for one in watched:
                assert one.is_exact(lab), (one.topic, one.filter, one.options)
        for topic, (subscription, events) in plain.items():
            txids, groups = published(lab, topic)
            assert is_ordered(events)
            assert is_unique(events)
            assert is_reliable(events, txids)
            assert is_complete(events, txids, subscription.txid)
            assert is_atomic(events, groups, [txid for txid in txids if txid > (events[0].txid or 0)])
            _is_resumable(lab, topic, events, chance)
        for one in watched:
            assert is_ordered(one.events)
        assert any((lab.directory / "archive").iterdir())
    finally:
        for one in watched:
            one.subscription.close()
        for subscription, _ in plain.values():
            subscription.close()
        for child in publishers:
            child.kill()
            child.forget()


def _is_resumable(lab: Lab, topic: str, events: list[Event], chance: random.Random) -> None:
    """A subscription resumed at any bookmark returns the messages after it."""
    messages = [event for event in events if event.command == "publish"]
    for _ in range(5):
        at = chance.randrange(len(messages))
        with following(lab, topic, sow=False, bookmark=messages[at].bookmark, until_now=True) as again:
            found = [event.txid for event in again if event.command == "publish"]
        assert found == [event.txid for event in messages[at + 1 :]]


def test_a_subscriber_that_is_stopped_catches_up(lab: Lab) -> None:
    def follow(child: Child) -> None:
        holder = Holder()
        with following(lab, "^[ab]$", oof=True) as subscription:
            for delivery in subscription.deliveries():
                holder.take(delivery)
                if delivery and any(b'"last"' in (event.data or b"") for event in delivery):
                    rows = sorted((topic, data.decode()) for (topic, _), data in holder.held.items())
                    child.say(json.dumps(rows))
                    return
                if not delivery:
                    child.say("group")

    child = Child(follow)
    try:
        child.wait_for(b"group\n")
        child.signal(signal.SIGSTOP)
        for number in range(30):
            for topic in TOPICS:
                lab.publish(topic, *(message(id=one, v=number) for one in range(0, KEYS, 3)))
        lab.open().topic("a").delete(filter="/id < 9")
        lab.publish("b", message(id="last"))
        child.signal(signal.SIGCONT)
        assert child.join(20) == 0
        found = [tuple(row) for row in json.loads(child.lines[-1])]
        assert found == sorted((topic, row) for topic in TOPICS for row in lab.query(topic))
        assert os.path.exists(lab.journals()[1])  # noqa: PTH110 - the log has rolled meanwhile
    finally:
        child.kill()
        child.forget()
