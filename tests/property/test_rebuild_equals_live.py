"""The law that everything rests on: a store grown live and the one rebuilt from the journal are the same.

Random histories: publishes to topics of every kind, deletes, expiry, clock steps in both directions, reopening, and
runs that die between acknowledging and applying. Against a plain model: digests, contents now, contents at every past
instant.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.options import PublishOptions, ReplayOptions
from sowctl.engine.topics.retention import Retention, Version, append_version, find_version_at
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.writing.batches import ListSource
from sowctl.seam import Seam
from tests.support.examples import examples
from tests.support.instances import SECOND, Lab, config_xml, topic_xml, verified
from tests.support.verbs import by_columns, small_folds, small_memory

TOPICS = {
    "plain": topic_xml("plain"),
    "quotes": topic_xml("quotes", "<Expiration>20s</Expiration>"),
    "asked": topic_xml("asked", "<Expiration>enabled</Expiration>"),
    "past": topic_xml("past", "<History><Window>60s</Window><Granularity>10s</Granularity></History>"),
    "every": topic_xml("every", "<History><Window>90s</Window><Granularity>0s</Granularity></History>"),
}
XML = config_xml("".join(TOPICS.values()), tuple(TOPICS))
LIFETIME = {"plain": None, "quotes": 20, "asked": 0, "past": None, "every": None}
RULES = {"past": Retention(60 * SECOND, 10 * SECOND), "every": Retention(90 * SECOND, 0)}


class Died(Exception):
    """The process is gone."""


class DiesAt(Seam):
    """Dies at the n-th call of a kind and fails everything after it, as a killed process would."""

    def __init__(self, point: str, count: int) -> None:
        self.point, self.left, self.dead = point, count, False

    def call(self, point: str, function: Callable[..., object], /, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        if self.dead:
            raise Died(point)
        if point == self.point:
            self.left -= 1
            if self.left < 0:
                self.dead = True
                raise Died(point)
        return function(*args, **kwargs)


@dataclass
class Model:
    """What should be there, from the rules alone."""

    log: list[tuple[str, int, int, bytes | None, int]] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)

    def write(self, topic: str, key: int, payload: bytes | None, now: int, asked: int | None) -> None:
        time = self.last[topic] = max(now, self.last.get(topic, 0))
        lifetime = asked if asked is not None else LIFETIME[topic]
        stamp = time + lifetime * SECOND if lifetime and payload is not None else 0
        self.log.append((topic, key, time, payload, stamp))

    def visible(self, topic: str, now: int) -> dict[int, bytes]:
        """The records at the clock ``now``."""
        current: dict[int, tuple[bytes | None, int]] = {}
        for name, key, _, payload, stamp in self.log:
            if name == topic:
                current[key] = payload, stamp
        hides = topic in ("quotes", "asked")
        return {k: p for k, (p, s) in current.items() if p is not None and not (hides and 0 < s <= now)}

    def at(self, topic: str, then: int, now: int) -> dict[int, bytes]:
        """The records as of ``then``, asked at ``now``."""
        if topic in RULES:
            if then < now - RULES[topic].window:
                return {}
            timelines: dict[int, list[Version]] = {}
            for txid, (name, key, time, payload, _) in enumerate(self.log):
                if name == topic:
                    update = Version(time, txid, payload or b"", tombstone=payload is None)
                    timelines[key] = append_version(timelines.get(key, []), update, RULES[topic])
            found = {key: find_version_at(versions, then) for key, versions in timelines.items()}
            return {key: version.value for key, version in found.items() if version is not None}
        early = Model([entry for entry in self.log if entry[2] <= then])
        return early.visible(topic, min(then, now))


NAMES = st.sampled_from(sorted(TOPICS))
KEYS = st.integers(1, 5)
PAIRS = st.lists(st.tuples(KEYS, st.integers(0, 3)), min_size=1, max_size=6)
PUBLISH = st.tuples(st.just("publish"), NAMES, PAIRS, st.sampled_from([None, None, 0, 5, 30]))
STEP = st.one_of(
    PUBLISH,
    PUBLISH,
    st.tuples(st.just("delete"), NAMES, st.lists(KEYS, min_size=1, max_size=3), st.none()),
    st.tuples(st.just("expire"), NAMES, st.none(), st.none()),
    st.tuples(st.just("clock"), NAMES, st.sampled_from([-15, -2, 1, 4, 11, 25, 70]), st.none()),
    st.tuples(st.just("die"), NAMES, PAIRS, st.integers(0, 3)),
)


def payload(key: int, value: int) -> bytes:
    return json.dumps({"id": key, "v": value}).encode()


def play(lab: Lab, steps: list[tuple]) -> tuple[Model, list[int], int]:  # type: ignore[type-arg]
    """Carry the steps out; returns the model, the instants worth asking about, and the highest clock of a removal."""
    model, instants, removed = Model(), [lab.clock.at], 0
    for verb, topic, what, extra in steps:
        if verb == "publish":
            for key, value in what:
                model.write(topic, key, payload(key, value), lab.clock.at, extra)
            lab.publish(topic, *(payload(*pair) for pair in what), expiration=extra)
            removed = max(removed, lab.clock.at)
        elif verb == "delete":
            handle = lab.open().topic(topic)
            there = model.visible(topic, lab.clock.at)
            handle.delete(filter=f"/id IN ({', '.join(map(str, what))})") if _has_store(lab, topic) else None
            for key in sorted(set(what) & set(there)):
                model.write(topic, key, None, lab.clock.at, None)
            removed = max(removed, lab.clock.at)
        elif verb == "expire":
            lab.open().topic(topic).expire()
            removed = max(removed, lab.clock.at)
        elif verb == "clock":
            lab.clock.tick(what)
        else:
            _die(lab, model, topic, what, extra)
            removed = max(removed, lab.clock.at)
        instants.append(max(lab.clock.at, model.last.get(topic, 0)))
    return model, instants, removed


def _has_store(lab: Lab, topic: str) -> bool:
    return lab.store(topic).exists()


def _die(lab: Lab, model: Model, topic: str, what: list[tuple[int, int]], at: int) -> None:
    """A publisher that dies at its at-th sync of the journal's file, or before a store's commit."""
    seam = DiesAt("file.sync", 100) if at == 3 else DiesAt("lmdb.commit", at)
    acknowledged: list[int] = []
    try:
        publish_messages(
            lab.open(seam=seam), topic, [("dying", ListSource([payload(*pair) for pair in what]))],
            PublishOptions(), on_acknowledged=lambda batch: acknowledged.append(len(batch.payloads)),
        )  # fmt: skip
    except Died:
        pass
    if acknowledged:
        for key, value in what:
            model.write(topic, key, payload(key, value), lab.clock.at, None)


def contents(lab: Lab, topic: str, at: int | None = None) -> dict[int, bytes]:
    result = lab.open().topic(topic).query(at=at)
    return {json.loads(record.payload)["id"]: record.payload for record in result.records()}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, min_size=1, max_size=14), st.sampled_from([nullcontext, small_memory, by_columns, small_folds]))
def test_rebuilt_is_live_and_both_are_the_model(
    steps: list[tuple],  # type: ignore[type-arg]
    room: Callable[[], AbstractContextManager[None]],
) -> None:
    place = Path(tempfile.mkdtemp(prefix="sowctl-test-"))
    try:
        with room(), verified(Lab(place / "lab", XML)) as lab:
            model, instants, removed = play(lab, steps)
            published = sorted({entry[0] for entry in model.log if _has_store(lab, entry[0])})
            for topic in published:
                assert contents(lab, topic) == model.visible(topic, lab.clock.at)
                for then in instants:
                    assert contents(lab, topic, then) == model.at(topic, then, lab.clock.at), (topic, then)
            lab.clock.at = max(lab.clock.at, removed)
            for topic in published:
                live = lab.digest(topic)
                assert (
                    replay_topics(lab.open(), [lab.open().topic(topic).config], ReplayOptions(verify=True))[0].action
                    == "verified"
                )
                lab.forget(topic)
                rebuilt = lab.open().topic(topic).replay()
                assert rebuilt.action == "rebuilt"
                assert lab.digest(topic) == live
                assert contents(lab, topic) == model.visible(topic, lab.clock.at)
    finally:
        shutil.rmtree(place)
