"""Historical subscriptions while the journal rolls, is compressed, archived and pruned: nothing behind a place is lost.

A subscriber goes on from the place it kept, however much of the journal has moved since; only where entries behind it
were removed it ends, and names the first one that is left.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.api import RowVerbs
from sowctl.engine.subscriptions.bookmark_stores.progress import FlushProgress
from sowctl.engine.subscriptions.bookmark_stores.protocol import Subscriber
from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store
from sowctl.engine.subscriptions.events import EventBatch
from sowctl.engine.topics.positions import open_log
from sowctl.errors import MissingError
from tests.support.instances import Lab, message, topic_xml

WHO = Subscriber("c", "1")
TOPICS = ("t", "past")
HISTORY = "<History><Window>1h</Window><Granularity>20s</Granularity></History>"


def config() -> str:
    logged = "".join(f"<Topic><Name>{name}</Name><MessageType>json</MessageType></Topic>" for name in TOPICS)
    log = (
        "<TransactionLog><JournalDirectory>journal</JournalDirectory>"
        f"<JournalArchiveDirectory>archive</JournalArchiveDirectory>{logged}</TransactionLog>"
    )
    sow = topic_xml("t") + topic_xml("past", HISTORY)
    return f"<AMPSConfig><Name>test</Name><SOW>{sow}</SOW>{log}</AMPSConfig>"


class World:
    """An instance, what was published to it, and what a subscriber with a store got."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.chance = chance
        self.lab = Lab(directory, config())
        self.lab.journal_size = 2000
        self.published: dict[str, list[int]] = defaultdict(list)
        self.got: dict[str, list[int]] = defaultdict(list)
        self.count = 0
        self.gone = 0
        """The highest txid that was removed."""

    def publish(self) -> None:
        for _ in range(self.chance.choice([1, 3, 12])):
            topic = self.chance.choice(TOPICS)
            client = self.chance.choice([None, "p", "q"])
            self.count += 1
            self.published[topic].append(self.count)
            payload = message(id=self.count % 5, n=self.count, pad="x" * self.chance.choice([5, 300]))
            self.lab.publish(topic, payload, client=client)
            self.lab.clock.tick(self.chance.choice([0, 1, 30]))

    def files(self) -> list[Path]:
        """All files of the journal but the last, oldest first."""
        both = [*self.lab.directory.glob("journal/*.journal*"), *self.lab.directory.glob("archive/*.journal*")]
        return sorted(both, key=lambda path: path.name)[:-1]

    def compress(self) -> None:
        for path in self.files():
            if path.suffix != ".gz" and self.chance.random() < 0.5:
                with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb") as packed:
                    shutil.copyfileobj(plain, packed)
                path.unlink()

    def archive(self) -> None:
        (self.lab.directory / "archive").mkdir(exist_ok=True)
        # The oldest files first, as an action does it.
        for path in self.files()[: self.chance.randrange(3)]:
            if path.parent.name != "archive":
                path.rename(self.lab.directory / "archive" / path.name)

    def prune(self) -> None:
        for path in self.files()[: self.chance.randrange(2)]:
            path.unlink()
        with open_log(self.lab.open()) as log:
            self.gone = log.first_txid - 1

    def follow(self, *, whole: bool = False) -> None:
        """A run of the subscriber: it takes some of what there is, and is cut off anywhere, unless it is ``whole``."""
        instance = self.lab.open()
        store = open_bookmark_store(instance, str(self.lab.directory / "a.bookmarks"), RowVerbs())
        progress = FlushProgress(store, WHO, instance.publisher_id)
        before = progress.resume_bookmark
        if before == "0":
            # Who has no place yet begins with what there is.
            self.lost()
        try:
            with instance.subscribe("^(t|past)$", bookmark=before, sow=False, until_now=True) as subscription:
                for delivery in subscription.deliveries():
                    if isinstance(delivery, EventBatch):
                        assert delivery.publishers is not None
                        assert delivery.sequences is not None
                        self.got[delivery.topic] += [json.loads(payload)["n"] for payload in delivery.payloads]
                        progress.note_delivered(delivery.publishers, delivery.sequences)
                    else:
                        assert delivery.txid is not None
                        progress.note_reached(delivery.txid, move=True)
                    if self.chance.random() < 0.3:
                        progress.note_flushed()
                        progress.commit()
                    if not whole and self.chance.random() < 0.05:
                        return
            progress.note_flushed()
            progress.commit()
        except MissingError as error:
            # Only where entries behind its place are gone; then it begins with what is left, and knows that.
            assert error.code == "SOW-ENG-071"
            assert error.facts["first_txid"] == self.gone + 1
            store.set_place(WHO, str(self.gone))
            self.lost()

    def lost(self) -> None:
        """What was removed before it was delivered."""
        with open_log(self.lab.open()) as log:
            left = {json.loads(entry.payload)["n"] for block in log.iter_blocks() for entry in block.iter_entries()}
        for topic in TOPICS:
            self.got[topic] += [n for n in self.published[topic] if n not in left]


@pytest.mark.parametrize("number", range(4))
def test_a_subscriber_gets_everything_that_is_there(tmp_path: Path, seed: int, deep: bool, number: int) -> None:
    world = World(tmp_path / "lab", random.Random(f"{seed} {number}"))
    world.publish()
    steps: list[Callable[[], None]] = [world.publish, world.publish, world.follow, world.compress, world.archive]
    for _ in range(150 if deep else 30):
        world.chance.choice([*steps, world.prune] if number % 2 else steps)()
    world.follow(whole=True)
    # It may have begun anew with what is left.
    world.follow(whole=True)
    for topic in TOPICS:
        assert set(world.got[topic]) == set(world.published[topic])
        if not number % 2:
            # A place never goes back further than what was not stored: runs repeat the end of one another.
            firsts = list(dict.fromkeys(world.got[topic]))
            assert firsts == world.published[topic]
