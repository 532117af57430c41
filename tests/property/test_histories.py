"""Random histories with everything that may happen to an instance, against a model of plain lists.

Publishes in batches of any size, envelopes over several topics with sequence numbers sent again, deletions, expiry,
clock steps, failing and dying writers, stores lost and damaged, the topics file lost and damaged, journals that roll
early and are pruned by hand, rebuilds. After every step the contents are the model's; at the end past instants are
answered rightly or refused, and a rebuild gives the same digest.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.options import PublishOptions, ReplayOptions
from sowctl.engine.topics.retention import Retention
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import DamageError, MissingError, RefusedError, StorageError
from sowctl.findings import Level
from sowctl.messages.framing.frames import FrameReader
from sowctl.seam import SEAM, Seam
from sowctl.values.times import parse_time
from tests.property.test_rebuild_equals_live import LIFETIME, RULES, Died, DiesAt, Model
from tests.support.examples import examples
from tests.support.faults import FailAt, ShortWriteAt
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml

HISTORY = "<History><Window>60s</Window><Granularity>10s</Granularity></History>"
TOPICS = {
    "plain": topic_xml("plain"),
    "quotes": topic_xml("quotes", "<Expiration>20s</Expiration>"),
    "past": topic_xml("past", HISTORY),
    "own": topic_xml("own", key=None),
    "alone": topic_xml("alone"),
    "lonely": topic_xml("lonely", "<Expiration>20s</Expiration>"),
}
LOGGED = ("plain", "quotes", "past", "own")
XML = config_xml("".join(TOPICS.values()), LOGGED)
LIFETIME.update(own=None, alone=None, lonely=20)
HIDES = ("quotes", "lonely")
assert {topic: rule for topic, rule in RULES.items() if topic == "past"} == {
    "past": Retention(60 * SECOND, 10 * SECOND)
}


def log_of(topic: str) -> str:
    return "journal" if topic in LOGGED else topic


class Sent(Struct):
    """A message as handed in."""

    topic: str
    key: int
    payload: bytes
    sequence: int = 0


@dataclass
class World:
    """A lab and what should be in it."""

    lab: Lab
    model: Model = field(default_factory=Model)
    highest: dict[str, int] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    counter: int = 0
    pruned: bool = False
    removed: dict[str, int] = field(default_factory=dict)
    instants: list[int] = field(default_factory=list)

    # what happens

    def publish(self, topic: str, keys: list[int], batch: int, seam: Seam = SEAM) -> None:
        messages = [self.message(topic, key) for key in keys]
        if topic == "own":
            messages = [replace(one, key=messages[0].key) for one in messages]
        options = PublishOptions(batch=batch, sow_key=f"K{messages[0].key}" if topic == "own" else None)

        def publish(instance, told):  # type: ignore[no-untyped-def]
            source = ListSource([one.payload for one in messages], batch)
            return publish_messages(instance, topic, [("in", source)], options, on_acknowledged=told)

        self.run(messages, publish, seam, groups=batch)

    def envelopes(self, plan: list[tuple[str, int]], batch: int, again: int, seam: Seam = SEAM) -> None:
        """Numbered messages over several topics; the last ``again`` of what was sent before come first, once more."""
        fresh = [self.message(topic, key) for topic, key in plan]
        first = self.sent[-1].sequence + 1 if self.sent else 1
        for number, one in enumerate(fresh):
            one.sequence = first + number
        everything = (self.sent[-again:] if again else []) + fresh
        rows = [
            message(
                topic=one.topic, sequence=one.sequence, data=json.loads(one.payload),
                **({"sow_key": f"K{one.key}"} if one.topic == "own" else {}),
            )
            for one in everything
        ]  # fmt: skip
        self.sent += fresh
        lines = "".join(row + "\n" for row in rows).encode()
        options = PublishOptions(batch=batch, client="teller")
        self.run(everything, lambda instance, told: publish_messages(
            instance, None, [("in", FrameReader(io.BytesIO(lines), "envelope"))], options, on_acknowledged=told
        ), seam, groups=batch)  # fmt: skip

    def run(self, messages, act, seam: Seam, groups: int) -> None:  # type: ignore[no-untyped-def]
        """Carry it out; what happened is what was acknowledged, and perhaps some groups behind that."""
        told: dict[str, int] = {}

        def acknowledged(what) -> None:  # type: ignore[no-untyped-def]
            log = log_of(json.loads(what.payloads[0])["t"])
            told[log] = told.get(log, 0) + len(what.payloads)

        before = {log: dict(self.highest) for log in ("journal", "alone", "lonely")}
        failed = False
        try:
            act(self.lab.open(seam), acknowledged)
        except StorageError as error:
            assert error.exit_status == 6
            failed = True
        except Died:
            failed = True
        for log, highest in before.items():
            mine = [one for one in messages if log_of(one.topic) == log]
            admitted = []
            last = highest.get(log, 0)
            for one in mine:
                if one.sequence and one.sequence <= last:
                    continue
                last = max(last, one.sequence)
                admitted.append(one)
            count = len(admitted)
            if failed:
                found = {topic: self.contents(topic) for topic in TOPICS if log_of(topic) == log}
                possible = [n for n in range(told.get(log, 0), count + 1) if self.after(admitted[:n], log) == found]
                assert possible, f"{log}: {told.get(log, 0)} of {count} acknowledged; {found}"
                count = possible[0]
            else:
                assert told.get(log, 0) == count
            for one in admitted[:count]:
                self.model.write(one.topic, one.key, one.payload, self.lab.clock.at, None)
                self.highest[log] = max(self.highest.get(log, 0), one.sequence)

    def after(self, messages: list[Sent], log: str) -> dict[str, dict[int, bytes]]:
        trial = Model(list(self.model.log), dict(self.model.last))
        for one in messages:
            trial.write(one.topic, one.key, one.payload, self.lab.clock.at, None)
        return {topic: self.visible(trial, topic) for topic in TOPICS if log_of(topic) == log}

    def delete(self, topic: str, keys: list[int], seam: Seam = SEAM) -> None:
        if not self.known(topic):
            return
        there = self.visible(self.model, topic)
        gone = sorted(set(keys) & set(there))
        try:
            self.lab.open(seam).topic(topic).delete(filter=f"/id IN ({', '.join(map(str, keys))})")
        except (StorageError, Died):
            found = self.contents(topic)
            if found == there:
                return
            assert found == {key: value for key, value in there.items() if key not in gone}
        for key in gone:
            self.model.write(topic, key, None, self.lab.clock.at, None)

    def expire(self, seam: Seam = SEAM) -> None:
        try:
            for topic in HIDES:
                self.lab.open(seam).topic(topic).expire()
        except (StorageError, Died):
            pass

    def lose_store(self, topic: str) -> None:
        if topic in LOGGED and self.known(topic) and not self.pruned:
            self.lab.forget(topic)

    def damage_store(self, topic: str, chance: random.Random) -> None:
        path = self.lab.store(topic)
        if topic not in LOGGED or not path.exists() or self.pruned:
            return
        data = bytearray(path.read_bytes())
        at = chance.randrange(len(data))
        data[at : at + 3000] = chance.randbytes(len(data[at : at + 3000]))
        path.write_bytes(bytes(data))
        try:
            assert self.contents(topic) == self.visible(self.model, topic)
        except DamageError:
            assert self.lab.open().topic(topic).replay().moved is not None
        else:
            self.lab.open().topic(topic).replay(rebuild=True)

    def harm_topics_file(self, how: int, chance: random.Random) -> None:
        path = self.lab.directory / "journal" / "test.topics"
        if not path.exists():
            return
        if how == 0:
            path.unlink()
        else:
            data = bytearray(path.read_bytes())
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(bytes(data[: len(data) - (how == 2)]))

    def prune(self) -> None:
        files = self.lab.journals()
        if len(files) > 1 and all(self.lab.store(topic).exists() for topic in LOGGED if self.known(topic)):
            for topic in LOGGED:
                if self.known(topic):
                    self.lab.open().topic(topic).replay()
            files[0].unlink()
            self.pruned = True

    def rebuild(self, topic: str, seam: Seam = SEAM) -> None:
        if topic not in LOGGED or not self.known(topic):
            return
        try:
            self.lab.open(seam).topic(topic).replay(rebuild=True)
        except RefusedError:
            assert self.pruned
        except (StorageError, Died):
            pass

    # what should be

    def message(self, topic: str, key: int) -> Sent:
        self.counter += 1
        return Sent(topic, key, message(id=key, t=topic, v=self.counter, pad="x" * (self.counter * 37 % 150)).encode())

    def known(self, topic: str) -> bool:
        return any(entry[0] == topic for entry in self.model.log)

    def visible(self, model: Model, topic: str) -> dict[int, bytes]:
        current: dict[int, tuple[bytes | None, int]] = {}
        for name, key, _, payload, stamp in model.log:
            if name == topic:
                current[key] = payload, stamp
        now = self.lab.clock.at
        hides = topic in HIDES
        return {k: p for k, (p, s) in current.items() if p is not None and not (hides and 0 < s <= now)}

    def contents(self, topic: str, at: int | None = None) -> dict[int, bytes]:
        """What a query gives; the key of topic own is the number in its publisher's key."""
        try:
            records = list(self.lab.open().topic(topic).query(at=at).records())
        except MissingError as error:
            if error.code != "SOW-ENG-010":
                raise
            return {}
        if topic == "own":
            return {int(str(record.user_key)[1:]): record.payload for record in records}
        return {json.loads(record.payload)["id"]: record.payload for record in records}

    def compare(self) -> None:
        for topic in TOPICS:
            if topic in HIDES and self.lab.clock.at < self.removed.get(topic, 0):
                continue  # the clock stands before a removal: what is gone may have been due
            assert self.contents(topic) == self.visible(self.model, topic), topic

    def compare_past(self) -> None:
        now = self.lab.clock.at
        for topic in TOPICS:
            if not self.known(topic):
                continue
            for then in sorted(set(self.instants)):
                if topic in HIDES and min(then, now) < self.removed.get(topic, 0):
                    continue
                try:
                    found = self.contents(topic, then)
                except MissingError as error:
                    assert error.code == "SOW-ENG-050", error
                    assert self.pruned or topic not in LOGGED
                    first = parse_time(str(error.facts["first_instant"]), self.lab.clock)
                    assert first > then
                    continue
                if topic == "past":
                    assert found == self.model.at(topic, then, now), (topic, then)
                else:
                    early = Model([entry for entry in self.model.log if entry[2] <= then])
                    at, self.lab.clock.at = self.lab.clock.at, min(then, now)
                    expected = self.visible(early, topic)
                    self.lab.clock.at = at
                    assert found == expected, (topic, then)


NAMES = st.sampled_from(sorted(TOPICS))
KEYS = st.lists(st.integers(1, 5), min_size=1, max_size=7)
BATCHES = st.sampled_from([1, 2, 3, 1000])
FAULT = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.sampled_from(["once", "forever", "short", "die"]), st.integers(1, 160)),
)
STEP = st.one_of(
    st.tuples(st.just("publish"), NAMES, KEYS, BATCHES, FAULT),
    st.tuples(
        st.just("envelopes"), st.lists(st.tuples(NAMES, st.integers(1, 5)), min_size=1, max_size=8), BATCHES,
        st.sampled_from([0, 0, 1, 3, 20]), FAULT,
    ),
    st.tuples(st.just("delete"), NAMES.filter("own".__ne__), KEYS, FAULT),
    st.tuples(st.just("expire"), FAULT),
    st.tuples(st.just("clock"), st.sampled_from([-15, -2, 1, 4, 11, 25, 70])),
    st.tuples(st.just("lose"), NAMES),
    st.tuples(st.just("damage"), NAMES, st.integers(0, 1 << 30)),
    st.tuples(st.just("topics"), st.integers(0, 2), st.integers(0, 1 << 30)),
    st.tuples(st.just("prune")),
    st.tuples(st.just("rebuild"), NAMES, FAULT),
)  # fmt: skip


def _seam(fault: tuple[str, int] | None) -> Seam:
    if fault is None:
        return SEAM
    how, n = fault
    if how == "short":
        return ShortWriteAt(1 + n % 8, keep=n % 3, then=errno.ENOSPC if n % 2 else None)
    if how == "die":
        return DiesAt(("lmdb.commit", "file.sync", "file.write", "lmdb.begin")[n % 4], n // 4 % 5)
    return FailAt(n, (errno.EIO, errno.ENOSPC, errno.EINTR)[n % 3], how == "forever")


def play(world: World, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    for verb, *rest in steps:
        fault = rest[-1] if verb in ("publish", "envelopes", "delete", "expire", "rebuild") else None
        seam = _seam(fault)
        if verb == "publish":
            world.publish(rest[0], rest[1], rest[2], seam)
        elif verb == "envelopes":
            world.envelopes(rest[0], rest[1], rest[2], seam)
        elif verb == "delete":
            world.delete(rest[0], rest[1], seam)
        elif verb == "expire":
            world.expire(seam)
        elif verb == "clock":
            world.lab.clock.tick(rest[0])
        elif verb == "lose":
            world.lose_store(rest[0])
        elif verb == "damage":
            world.damage_store(rest[0], random.Random(rest[1]))
        elif verb == "topics":
            world.harm_topics_file(rest[0], random.Random(rest[1]))
        elif verb == "prune":
            world.prune()
        else:
            world.rebuild(rest[0], seam)
        if verb not in ("clock", "prune", "topics"):
            # whoever writes removes what has expired; it does not come back when the clock does
            for topic in HIDES:
                world.removed[topic] = max(world.removed.get(topic, 0), world.lab.clock.at)
        world.compare()
        world.instants.append(max([world.lab.clock.at, *world.model.last.values()]))
        world.instants.append(world.lab.clock.at)


def finish(world: World) -> None:
    """The past, then: everything sound, rebuilt equal to live."""
    world.compare_past()
    lab = world.lab
    lab.clock.at = max([lab.clock.at, *world.removed.values()])
    for topic in LOGGED:
        if not world.known(topic):
            continue
        lab.open().topic(topic).replay()
        try:
            live = lab.digest(topic)
            report = replay_topics(lab.open(), [lab.open().topic(topic).config], ReplayOptions(verify=True))[0]
            assert report.action == "verified" or world.pruned
            lab.open().topic(topic).replay(rebuild=True)
            assert lab.digest(topic) == live
        except RefusedError:
            assert world.pruned
    world.compare()
    errors = [finding for finding in _findings(lab) if finding.level >= Level.ERROR]
    assert errors == []


def _findings(lab: Lab):  # type: ignore[no-untyped-def]
    from sowctl.journal.check import check_journal
    from sowctl.store.examine import examine_store

    for topic in TOPICS:
        if lab.store(topic).exists():
            yield from (
                item for item in examine_store(str(lab.store(topic)), False, lambda _: None) if hasattr(item, "level")
            )
    if lab.journals():
        yield from check_journal(lab.directory / "journal", "test")


def history(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = Path(tempfile.mkdtemp(prefix="sowctl-test-", dir=shared))
    try:
        lab = Lab(place / "lab", XML)
        lab.journal_size = 1024
        world = World(lab)
        play(world, steps)
        finish(world)
    finally:
        shutil.rmtree(place)


def _settings(count: int) -> settings:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=count, deadline=None, suppress_health_check=checks, database=None)


@_settings(examples(80))
@given(st.lists(STEP, min_size=1, max_size=14))
def test_any_history(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    history(steps)


def test_many_histories(deep: bool) -> None:
    """The long form; the short one only makes sure that it runs."""
    run = given(st.lists(STEP, min_size=1, max_size=40))(history)
    phases = (Phase.generate, Phase.shrink)
    settings(_settings(3000 if deep else 5), phases=phases)(run)()


def test_the_model_can_tell(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A store that forgets a deletion is noticed: the comparison compares."""
    place = Path(tempfile.mkdtemp(prefix="sowctl-test-"))
    try:
        world = World(Lab(place / "lab", XML))
        world.publish("plain", [1, 2], 1)
        world.model.write("plain", 2, None, world.lab.clock.at, None)
        try:
            world.compare()
        except AssertionError:
            return
        raise AssertionError("nothing was noticed")
    finally:
        shutil.rmtree(place)
