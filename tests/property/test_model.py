"""A topic of any definition against plain dictionaries: live, rebuilt and model agree, now and at every past instant.

A state machine draws a definition - keys, message type, lifetime, history, enrichment, with a journal or without, on
disk or transient - and then publishes, publishes deltas, deletes by filter, keys and messages, expires, moves the
clock, loses the store, lets it fall behind, rebuilds and checks it. The model keeps every write in a list and derives
everything else from the rules (behaviour 1.3, 1.5, 1.6, 2.2) anew, when asked.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sowctl.errors import MissingError
from sowctl.findings import Level
from sowctl.values.times import parse_time
from tests.support.instances import SECOND, START, Lab
from tests.support.verbs import by_columns

Fields = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Definition:
    """What a topic is like. ``lifetime`` None: no Expiration; 0: enabled; else seconds. ``history`` in seconds."""

    type: str
    keys: tuple[str, ...]
    lifetime: int | None
    disabled: bool
    history: tuple[int, int] | None
    enriched: bool
    logged: bool
    transient: bool

    @property
    def hides(self) -> bool:
        return self.lifetime is not None and not self.disabled

    def xml(self) -> str:
        """The configuration of an instance with this topic, t."""
        parts = [f"<Name>t</Name><MessageType>{self.type}</MessageType>"]
        parts += [f"<Key>/{name}</Key>" for name in self.keys]
        parts.append("<Durability>transient</Durability>" if self.transient else "<FileName>sow/%n.sow</FileName>")
        if self.lifetime is not None:
            words = "disabled" if self.disabled else f"{self.lifetime}s" if self.lifetime else "enabled"
            parts.append(f"<Expiration>{words}</Expiration>")
        if self.history is not None:
            window, granularity = self.history
            parts.append(f"<History><Window>{window}s</Window><Granularity>{granularity}s</Granularity></History>")
        if self.enriched:
            parts.append("<Enrichment><Field>COALESCE(/n OF PREVIOUS, 0) + 1 AS /n</Field></Enrichment>")
        named = f"<Topic><Name>t</Name><MessageType>{self.type}</MessageType></Topic>"
        log = f"<TransactionLog><JournalDirectory>journal</JournalDirectory>{named}</TransactionLog>"
        topic = f"<SOW><Topic>{''.join(parts)}</Topic></SOW>"
        return f"<AMPSConfig><Name>test</Name>{topic}{log if self.logged else ''}</AMPSConfig>"

    def encode(self, fields: Fields) -> bytes:
        if self.type == "json":
            return json.dumps(fields, separators=(",", ":")).encode()
        if self.type == "msgpack":
            return msgpack.packb(fields)  # type: ignore[no-any-return]
        return "".join(f"{name}={value}\x01" for name, value in fields.items()).encode()

    def decode(self, payload: bytes) -> Fields:
        if self.type == "json":
            return json.loads(payload)  # type: ignore[no-any-return]
        if self.type == "msgpack":
            return msgpack.unpackb(payload)  # type: ignore[no-any-return]
        return dict(part.split("=", 1) for part in payload.decode().split("\x01") if part)


class Write(NamedTuple):
    """One entry: the record's key, its time, its fields (None: deleted), its stamp."""

    key: Key
    time: int
    fields: Fields | None
    stamp: int


class Past(NamedTuple):
    """A retained version: its fields, when it came, when it stopped being current, whether others were dropped."""

    fields: Fields | None
    time: int
    until: int | None
    lossy: bool


@dataclass
class Model:
    """Every write of the topic, in order."""

    rules: Definition
    writes: list[Write] = field(default_factory=list)

    @property
    def last_time(self) -> int:
        return self.writes[-1].time if self.writes else 0

    def add(self, key: Key, fields: Fields | None, now: int, lifetime: float | None) -> None:
        time = max(now, self.last_time)
        seconds = lifetime if lifetime is not None else 0 if self.rules.disabled else self.rules.lifetime or 0
        self.writes.append(Write(key, time, fields, time + round(seconds * SECOND) if seconds and fields else 0))

    def state(self, now: int, upto: int | None = None) -> dict[Key, Fields]:
        """The visible records at a clock, of the writes not later than ``upto``."""
        newest = {write.key: write for write in self.writes if upto is None or write.time <= upto}
        gone = {write.key for write in newest.values() if self.rules.hides and 0 < write.stamp <= now}
        return {key: one.fields for key, one in newest.items() if one.fields is not None and key not in gone}

    def versions(self, now: int) -> dict[Key, list[Past]]:
        """What a topic with history retains of every key, by the letter of behaviour 2.2."""
        assert self.rules.history is not None
        window, granularity = (SECOND * seconds for seconds in self.rules.history)
        found = {}
        for key, group in groupby(sorted(self.writes, key=lambda one: one.key), key=lambda one: one.key):
            kept: list[Past] = []
            for write in group:
                kept = _pruned(kept, write.time, window)
                if kept:
                    kept[-1] = kept[-1]._replace(until=write.time)
                if len(kept) > 1:
                    anchor, current = kept[-2:]
                    exempt = current.fields is None or anchor.fields is None
                    if granularity and not exempt and current.time - anchor.time < granularity:
                        kept[-2:] = [anchor._replace(until=write.time, lossy=True)]
                kept.append(Past(write.fields, write.time, None, False))
            if kept := _pruned(kept, now, window):
                found[key] = kept
        return found

    def at(self, then: int, now: int) -> dict[Key, Fields]:
        """The state as of an instant, asked for at ``now``."""
        if self.rules.history is None:
            return self.state(min(then, now), then)
        if then < now - self.rules.history[0] * SECOND:
            return {}
        found = {}
        for key, kept in self.versions(now).items():
            current = [one for one in kept if one.time <= then][-1:]
            if current and current[0].fields is not None:
                found[key] = current[0].fields
        return found


def _pruned(kept: list[Past], now: int, window: int) -> list[Past]:
    if kept and kept[-1].fields is None and now - kept[-1].time > window:
        return []
    return [one for one in kept if one.until is None or now - one.until <= window]


def _empty(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, dict) and all(map(_empty, value.values())))


def _merged(old: Fields, new: Fields) -> Fields:
    """A delta over a record: members replace, objects are merged, nulls change nothing."""
    result = dict(old)
    for name, value in new.items():
        before = result.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            result[name] = _merged(before, value)
        elif not _empty(value):
            result[name] = _merged({}, value) if isinstance(value, dict) else value
    return result


HISTORIES = st.sampled_from([(60, 0), (60, 10), (30, 10), (300, 45)])


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Definitions that a configuration may have: history excludes lifetimes, and what is transient is logged."""
    history = draw(st.one_of(st.none(), HISTORIES))
    lifetime = None if history is not None else draw(st.sampled_from([None, 0, 20, 45]))
    transient = history is None and draw(st.integers(0, 4)) == 0
    return Definition(
        type=draw(st.sampled_from(["json", "nvfix", "msgpack"])),
        keys=draw(st.sampled_from([("id",), ("id",), ("id", "k"), ()])),
        lifetime=lifetime,
        disabled=lifetime is not None and draw(st.integers(0, 3)) == 0,
        history=history,
        enriched=draw(st.booleans()),
        logged=transient or draw(st.integers(0, 3)) > 0,
        transient=transient,
    )


SCALARS = st.one_of(st.integers(0, 3), st.sampled_from(["x", "yy"]))
TREES = st.one_of(st.none(), SCALARS, st.just(""), st.dictionaries(st.sampled_from("pq"), SCALARS, max_size=2))
BODIES = st.dictionaries(st.sampled_from(["v", "a", "o"]), TREES, max_size=3)
IDENTITIES = st.tuples(st.integers(1, 3), st.sampled_from("rs"))
MESSAGES = st.lists(st.tuples(IDENTITIES, BODIES), min_size=1, max_size=8)
LIFETIMES = st.sampled_from([None, None, 0, 7, 30, 0.5])


MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where syncing costs nothing: what a crash leaves is not the question here."""


class Topic(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="sowctl-test-", dir=MEMORY))
        self.held = ExitStack()
        self.removed = 0
        self.copy: bytes | None = None
        self.instants = [START]

    @initialize(definition=definitions(), first=st.one_of(MESSAGES, MESSAGES, st.none()), columns=st.booleans())
    def define(self, definition: Definition, first: list[tuple[tuple[int, str], Fields]] | None, columns: bool) -> None:
        if columns:
            self.held.enter_context(by_columns())
        self.rules = definition
        self.model = Model(definition)
        self.lab = Lab(self.place / "lab", definition.xml())
        self.lab.journal_size = 4000
        if first is not None:
            self.send(first, None)

    def teardown(self) -> None:
        try:
            if hasattr(self, "model") and self.model.writes:
                self.compare_past()
                self.compare_versions()
                self.rebuild_and_compare()
        finally:
            self.held.close()
            shutil.rmtree(self.place)

    # what happens

    @rule(messages=MESSAGES, lifetime=LIFETIMES, batch=st.sampled_from([1, 2, 1000]))
    def publish(self, messages: list[tuple[tuple[int, str], Fields]], lifetime: float | None, batch: int) -> None:
        self.send(messages, lifetime, batch=batch)

    @rule(messages=MESSAGES, lifetime=LIFETIMES, only=st.booleans(), batch=st.sampled_from([1, 1000]))
    def publish_delta(
        self, messages: list[tuple[tuple[int, str], Fields]], lifetime: float | None, only: bool, batch: int
    ) -> None:
        self.send(messages, lifetime, batch=batch, delta=True, update_only=only)

    def send(
        self,
        messages: Sequence[tuple[tuple[int, str], Fields]],
        lifetime: float | None,
        *,
        delta: bool = False,
        update_only: bool = False,
        **options: Any,
    ) -> None:
        rules, now = self.rules, self.lab.clock.at
        if not rules.keys:  # the publisher names one key for all of them
            messages = [(messages[0][0], body) for _, body in messages]
            options["sow_key"] = f"K{messages[0][0][0]}"
        sent = [self.whole(identity, body) for identity, body in messages]
        if update_only:
            options["on_error"] = "skip"
        options |= {"delta": delta, "update_only": update_only, "expiration": lifetime}
        report = self.lab.open().topic("t").publish(list(map(rules.encode, sent)), **options)
        taken = 0
        for (identity, _), fields in zip(messages, sent, strict=True):
            key = self.key(identity)
            before = self.model.state(now).get(key)
            if update_only and before is None:
                continue
            taken += 1
            if rules.enriched:
                count = int((before or {}).get("n", 0)) + 1
                fields = fields | {"n": str(count) if rules.type == "nvfix" else count}
            self.model.add(key, _merged(before, fields) if delta and before is not None else fields, now, lifetime)
        assert (report.published, report.messages) == (taken, len(sent))
        self.written()

    def whole(self, identity: tuple[int, str], body: Fields) -> Fields:
        number, letter = identity
        if self.rules.type == "nvfix":  # texts only, and no null
            flat = {name: str(value) for name, value in body.items() if not (isinstance(value, dict) or _empty(value))}
            return {"id": str(number), "k": letter} | flat
        return {"id": number, "k": letter} | body

    def key(self, identity: tuple[int, str]) -> Key:
        number, letter = identity
        return {0: (f"K{number}",), 1: (str(number),), 2: (str(number), letter)}[len(self.rules.keys)]

    @precondition(lambda self: self.model.writes)
    @rule(identities=st.lists(IDENTITIES, min_size=1, max_size=3), how=st.sampled_from(["filter", "keys", "data"]))
    def delete(self, identities: list[tuple[int, str]], how: str) -> None:
        there = self.model.state(self.lab.clock.at)
        topic = self.lab.open().topic("t")
        if how == "filter" or not (self.rules.keys or how == "keys"):
            numbers = sorted({number for number, _ in identities})
            gone = {key for key, fields in there.items() if int(fields["id"]) in numbers}
            topic.delete(filter=f"/id IN ({', '.join(map(str, numbers))})")
        elif how == "keys":
            wanted = {self.key(identity) for identity in identities}
            gone = wanted & set(there)
            rows = self.lab.records("t")
            texts = [r.user_key or str(r.sow_key) for r in rows if self.key_of(r) in wanted]
            topic.delete(sow_keys=[*texts, "1" if self.rules.keys else "nobody"])
        else:
            gone = {self.key(identity) for identity in identities} & set(there)
            topic.delete(data=[self.rules.encode(self.whole(identity, {})) for identity in identities])
        for key in sorted(gone):
            self.model.add(key, None, self.lab.clock.at, None)
        self.written()

    def key_of(self, record: Any) -> Key:
        if not self.rules.keys:
            return (record.user_key,)
        fields = self.rules.decode(record.payload)
        return tuple(str(fields[name]) for name in self.rules.keys)

    @precondition(lambda self: (self.rules.hides or self.rules.history) and self.model.writes)
    @rule()
    def expire(self) -> None:
        """Records that are over, or versions outside the window: either way it does not matter to any later reader."""
        foreseen = self.lab.open().topic("t").expire(dry_run=True)
        done = self.lab.open().topic("t").expire()
        assert (done.expired, done.versions) == (foreseen.expired, foreseen.versions)
        self.instants.append(self.lab.clock.at)
        self.removed = self.lab.clock.at
        if self.rules.transient:
            assert (done.expired, done.versions) == (0, 0)
        elif self.store.exists():
            row = self.lab.open().topic("t").info()
            assert row.expired == 0
            if self.rules.history:
                held = sum(len(versions) for versions in self.model.versions(self.lab.clock.at).values())
                assert row.versions + row.records == held

    @rule(seconds=st.sampled_from([0.000001, 1, 4, 11, 25, 70, 400]))
    def wait(self, seconds: float) -> None:
        self.lab.clock.tick(seconds)
        self.instants.append(self.lab.clock.at)

    @rule(seconds=st.sampled_from([1, 5, 30]))
    def step_back(self, seconds: int) -> None:
        """Not before a removal: what is gone may have been due."""
        self.lab.clock.at = max(self.lab.clock.at - seconds * SECOND, self.removed)

    @precondition(lambda self: self.on_disk)
    @rule()
    def lose(self) -> None:
        """Whoever comes next makes it anew."""
        self.forget()

    @precondition(lambda self: self.on_disk)
    @rule()
    def remember(self) -> None:
        self.copy = self.store.read_bytes()

    @precondition(lambda self: self.on_disk and self.copy is not None)
    @rule()
    def fall_behind(self) -> None:
        """As a writer leaves it that died before it applied what it had acknowledged."""
        assert self.copy is not None
        self.forget()
        self.store.write_bytes(self.copy)

    @precondition(lambda self: self.rules.logged and self.model.writes)
    @rule(anew=st.booleans())
    def replay(self, anew: bool) -> None:
        self.lab.open().topic("t").replay(rebuild=anew)

    @precondition(lambda self: self.on_disk)
    @rule()
    def verify(self) -> None:
        assert self.lab.open().topic("t").replay(verify=True).action == "verified"

    @rule()
    def check(self) -> None:
        assert [finding for finding in self.lab.findings() if finding.level >= Level.ERROR] == []

    # what must hold

    @invariant()
    def compare(self) -> None:
        if hasattr(self, "model"):
            assert self.found() == self.model.state(self.lab.clock.at)

    def compare_past(self) -> None:
        now = self.lab.clock.at
        for then in sorted({*self.instants, *(write.time for write in self.model.writes), START - 1, now + 1}):
            if self.rules.hides and min(then, now) < self.removed and not self.rules.logged:
                continue
            try:
                assert self.found(then) == self.model.at(then, now), then - START
            except MissingError as error:
                assert error.code == "SOW-ENG-050"
                assert not self.rules.logged and self.rules.history is None
                first = parse_time(str(error.facts["first_instant"]), self.lab.clock)
                assert then < first <= max(self.model.last_time, self.removed)

    def compare_versions(self) -> None:
        topic = self.lab.open().topic("t")
        names = {write.key: ",".join(write.key) for write in self.model.writes}
        fields = bool(self.rules.keys)
        if self.rules.history is not None:
            expected = self.model.versions(self.lab.clock.at)
            for key, text in names.items():
                found = [self.past(record) for record in topic.versions(text, fields=fields)]
                assert found == expected.get(key, []), text
        if self.rules.logged:
            for key, text in names.items():
                logged = [(r.timestamp, r.expiration) for r in topic.versions(text, fields=fields, journal=True)]
                assert logged == [(write.time, write.stamp) for write in self.model.writes if write.key == key]

    def past(self, record: Any) -> Past:
        fields = None if record.deleted else self.rules.decode(record.payload)
        return Past(fields, record.timestamp, record.until, record.lossy)

    def rebuild_and_compare(self) -> None:
        if not self.on_disk:
            return
        live = self.lab.digest("t")
        topic = self.lab.open().topic("t")
        assert topic.replay(verify=True).action == "verified"
        self.forget()
        assert self.lab.digest("t") == live  # read from the journal
        assert topic.replay().action == "rebuilt"
        assert self.lab.digest("t") == live
        self.compare()
        self.compare_past()
        self.compare_versions()
        self.check()

    # where things are

    @property
    def store(self) -> Path:
        return self.lab.directory / "sow" / f"t.{self.rules.type}.sow"

    @property
    def on_disk(self) -> bool:
        return self.rules.logged and not self.rules.transient and bool(self.model.writes) and self.store.exists()

    def forget(self) -> None:
        for path in self.store.parent.glob(f"{self.store.name}*"):
            path.unlink()

    def written(self) -> None:
        """Whoever writes removes what has expired."""
        self.instants.append(self.lab.clock.at)
        if self.rules.hides:
            self.removed = self.lab.clock.at

    def found(self, at: int | None = None) -> dict[Key, Fields]:
        try:
            rows = self.lab.records("t", at=at)
        except MissingError as error:
            if error.code != "SOW-ENG-010":
                raise
            return {}
        return {self.key_of(record): self.rules.decode(record.payload) for record in rows}


def test_live_rebuilt_and_model_agree(deep: bool) -> None:
    examples, steps = (1500, 50) if deep else (10, 20)
    run_state_machine_as_test(
        Topic,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )
