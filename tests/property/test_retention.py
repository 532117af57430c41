"""Random publishing, archiving, compressing and pruning, with readers that go on meanwhile, against lists and dicts.

The model knows every entry by its txid. Whatever is asked of the instance is either what the model says or, where the
journal was pruned, an error that names what is left; a subscription with a bookmark store loses nothing at all.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from sowctl.engine.api import InstanceHandle
from sowctl.engine.maintenance.retention.archive import archive_files
from sowctl.engine.maintenance.retention.compression import compress_files
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.options import DeleteOptions
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import delete_records
from sowctl.errors import MissingError
from sowctl.findings import Level
from sowctl.journal.reader import Journal
from sowctl.values.times import format_time, parse_time
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml

TOPICS = ("t", "u", "h")
XML = config_xml(
    topic_xml("t")
    + topic_xml("u")
    + topic_xml("h", "<History><Window>1h</Window><Granularity>0s</Granularity></History>"),
    TOPICS,
).replace("</JournalDirectory>", "</JournalDirectory><JournalArchiveDirectory>old</JournalArchiveDirectory>")
IDS = 8


class Entry:
    """One entry of the log: a record's new payload, or None for its deletion."""

    def __init__(self, topic: str, number: int, payload: str | None, time: int) -> None:
        self.topic, self.number, self.payload, self.time = topic, number, payload, time


class Model:
    """An instance, everything that was done to it, and readers that were there all the time."""

    def __init__(self, place: Path, rng: random.Random, stack: ExitStack) -> None:
        self.rng = rng
        self.lab = Lab(place, XML, journal_size=1100)
        self.entries: list[Entry] = []
        self.first = 1
        self.values = 0
        self.publish()
        self.instance: InstanceHandle = stack.enter_context(self.lab.open())
        self.journal: Journal = stack.enter_context(open_log(self.instance))
        self.taken = 0
        self.processed = 0
        self.follow()

    # what is done ----------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        topic = self.rng.choice(TOPICS)
        payloads = []
        for _ in range(self.rng.randint(1, 12)):
            self.values += 1
            number = self.rng.randrange(IDS)
            payloads.append(message(id=number, v=self.values, w="x" * self.rng.choice((0, 10, 80))))
            self.entries.append(Entry(topic, number, payloads[-1], self.lab.clock.at))
        report = self.lab.publish(topic, *payloads)
        assert report.last_txid == len(self.entries)

    def delete(self) -> None:
        topic, number = self.rng.choice(TOPICS), self.rng.randrange(IDS)
        if number in self.state(topic):
            instance = self.lab.open()
            config = next(one for one in instance.topics if one.name == topic)
            options = DeleteOptions(filter=f"/id = {number}")
            assert delete_records(instance, [Target(topic=config)], options)[0].deleted == 1
            self.entries.append(Entry(topic, number, None, self.lab.clock.at))

    def tick(self) -> None:
        self.lab.clock.tick(self.rng.choice((1, 5, 60)))

    def archive(self) -> None:
        age = self.rng.choice((None, 10 * SECOND))
        list(archive_files(self.lab.open(), keep=self.rng.randrange(3), older_than=age))

    def compress(self) -> None:
        list(compress_files(self.lab.open(), kind=self.rng.choice((".gz", ".zst")), keep=self.rng.randrange(4)))

    def prune(self) -> None:
        rule = self.rng.choice(
            (
                KeepRule(keep_size=self.rng.choice((0, 1500, 6000))),
                KeepRule(keep_for=self.rng.choice((0, 20, 200)) * SECOND),
                KeepRule(before_txid=self.rng.randint(1, len(self.entries) + 1)),
                KeepRule(before_time=self.lab.clock.at - self.rng.choice((0, 30)) * SECOND),
            )
        )
        report = prune_files(self.lab.open(), rule)
        with open_log(self.lab.open()) as log:
            assert log.first_txid == report.first_txid >= self.first
        self.first = report.first_txid
        # The subscription with a store has not had what is behind its last acknowledgement; deletions are not for it.
        assert all(entry.payload is None for entry in self.entries[self.processed : self.first - 1])

    def rebuild(self) -> None:
        """A store is lost; it comes back where the journal has all of its topic, and is missed where it has not."""
        topic = self.rng.choice(("t", "u"))
        kept = self.lab.directory / "kept"
        if not self.lab.store(topic).exists():
            return
        shutil.copy(self.lab.store(topic), kept)
        self.lab.forget(topic)
        whole = not any(entry.topic == topic for entry in self.entries[: self.first - 1])
        held = prune_files(self.lab.open(), KeepRule(keep_size=0), dry_run=True)
        for file in held.files:
            if file.removed:
                assert not any(entry.topic == topic for entry in self.entries[: file.last_txid])
        if whole:
            self.read(topic)
            self.lab.open().topic(topic).replay()
        else:
            with pytest.raises(MissingError) as caught:
                self.lab.query(topic)
            assert caught.value.code == "SOW-ENG-011"
            shutil.copy(kept, self.lab.store(topic))

    # what is asked ---------------------------------------------------------------------------------------------------

    def state(self, topic: str, at: int | None = None) -> dict[int, str]:
        found: dict[int, str] = {}
        for entry in self.entries:
            if entry.topic == topic and (at is None or entry.time <= at):
                if entry.payload is None:
                    found.pop(entry.number, None)
                else:
                    found[entry.number] = entry.payload
        return found

    def read(self, topic: str | None = None) -> None:
        for name in (topic,) if topic else TOPICS:
            if any(entry.topic == name for entry in self.entries):
                assert sorted(self.lab.query(name)) == sorted(self.state(name).values())

    def read_past(self) -> None:
        topic = self.rng.choice(TOPICS)
        if not any(entry.topic == topic for entry in self.entries):
            return
        at = self.lab.clock.at - self.rng.randrange(120) * SECOND
        try:
            found = self.lab.query(topic, at=format_time(at))
        except MissingError as error:
            assert error.code == "SOW-ENG-050" and topic != "h"
            assert any(entry.topic == topic for entry in self.entries[: self.first - 1])
            first = parse_time(str(error.facts["first_instant"]), self.lab.clock)
            assert first > at
            assert sorted(self.lab.query(topic, at=format_time(first))) == sorted(self.state(topic, first).values())
        else:
            assert sorted(found) == sorted(self.state(topic, at).values())

    def read_log(self) -> None:
        """The reader that has been there all the time, from anywhere on."""
        after = self.rng.randrange(len(self.entries) + 1)
        found = {
            entry.txid: (entry.topic[0], entry.payload.decode())
            for block in self.journal.iter_blocks(after=after)
            for entry in block.iter_entries()
            if entry.txid > after
        }
        behind = max(after, self.first - 1)
        assert found == {
            txid: (entry.topic, entry.payload or "") for txid, entry in enumerate(self.entries[behind:], behind + 1)
        }

    def follow(self) -> None:
        """The subscription with a bookmark store goes on, and processes some of what there is."""
        store = str(self.lab.directory / "places.bookmarks")
        most = self.rng.choice((1, 5, 1000))
        expected = [entry for entry in self.entries[self.processed :] if entry.payload is not None][:most]
        with self.lab.open() as instance, instance.place(store, "c", "1", every=0.0) as place:
            found = []
            options = {"sow": False, "until_now": True, "most": most}
            with instance.subscribe(".*", bookmark=place.recent, **options) as subscription:
                for event in place.events(subscription):
                    if isinstance(event, Event) and event.command == "publish":
                        assert event.data is not None
                        found.append(event.data.decode())
                        place.acknowledge(event)
                        assert event.txid is not None
                        self.processed = event.txid
        assert found == [entry.payload for entry in expected]

    def check(self) -> None:
        assert [one for one in self.lab.findings() if one.level >= Level.ERROR] == []

    def end(self) -> None:
        self.read()
        self.read_log()
        self.check()


STEPS: dict[str, int] = {
    "publish": 10, "delete": 2, "tick": 5, "archive": 3, "compress": 2, "prune": 3, "rebuild": 1,
    "read": 2, "read_past": 4, "read_log": 3, "follow": 3,
}  # fmt: skip


def test_random_histories(tmp_path: Path, seed: int, deep: bool) -> None:
    pruned = moved = 0
    for number in range(100 if deep else 6):
        rng = random.Random(f"{seed} {number}")
        with ExitStack() as stack:
            model = Model(tmp_path / str(number), rng, stack)
            done: list[str] = []
            try:
                for name in rng.choices(list(STEPS), list(STEPS.values()), k=120 if deep else 70):
                    done.append(name)
                    act: Callable[[], None] = getattr(model, name)
                    act()
                model.end()
            except BaseException as error:
                raise AssertionError(f"seed {seed}, history {number}, behind {done[-12:]}") from error
            pruned += model.first > 1
            moved += len(list((model.lab.directory / "old").glob("*")))
        shutil.rmtree(tmp_path / str(number))
    # The histories are what they are meant to be.
    assert pruned > 2 and moved > 2
