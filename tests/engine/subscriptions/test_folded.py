"""Law: the fold of the events that a subscriber gets equals the output of a new query, after any replacement.

The model (:mod:`tests.support.folded`) folds the printed lines, and uses nothing else. The first tests run in a single
process, with a clock that advances on each read: a replacement that evaluates records at two different times fails.
In the other tests, publishers in separate processes are active at the same time.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from sowctl.engine.options import PublishOptions, SubscribeOptions
from sowctl.engine.subscriptions.control import parse_control
from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS
from sowctl.engine.topics.targets import build_new_topic_resolver, resolve_followed_topics
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.subscribe import Subscription, subscribe_topics
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import MissingError
from sowctl.values.times import system_clock
from tests.support.folded import Folded, Row, lines_of
from tests.support.instances import Clock, Lab, config_xml, message, topic_xml
from tests.support.processes import Child

MakeLab = Callable[..., Lab]
VIEW = (
    "<View><Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<FileName>sow/v.sow</FileName><Projection><Field>/w AS /id</Field><Field>SUM(/v) AS /v</Field>"
    "<Field>MAX(/n) AS /w</Field></Projection><Grouping><Field>/w</Field></Grouping></View>"
)
PARTS = (
    "<Topic><Name>parts</Name><Pattern>^part/</Pattern><MessageType>json</MessageType><Key>/id</Key>"
    "<FileName>sow/parts.sow</FileName></Topic>"
)
XML = config_xml(
    topic_xml("t")
    + topic_xml("u")
    + topic_xml("s")
    + topic_xml("q", "<Expiration>1s</Expiration>")
    + topic_xml("z", "<Expiration>1s</Expiration>")
    + PARTS
    + VIEW,
    ("t", "u", "q", "parts"),
)
"""Topics t, u, q and those of parts are journalled, s and z are not; records of q and z expire."""
FILTERS = ("", "/v > 5", "/v < 4", "/w = 1", "/v > 3 AND /w != 2", "/id IN (1, 2, 3, 4)", "/id > 100")
TARGETS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in "tusqzv"},
    "^[tu]$": ("t", "u"),
    "^[tqsz]$": ("t", "q", "s", "z"),
    "^[tuv]$": ("t", "u", "v"),
    "^(u$|part/[01])": ("u", "part/0", "part/1"),
    "^(q$|part/)": ("q", "part/0", "part/1", "part/2"),
}
"""The topics of each target."""
ORDERS = "/v, /id", "/v DESC, /id", "/n"
IDS = 9


class TickingClock(Clock):
    """A clock that advances by ``pace`` seconds on each read."""

    pace = 0.0

    def __call__(self) -> int:
        self.tick(self.pace)
        return self.at


@dataclass
class Watched:
    """A subscription, its current request, and the fold of its output."""

    lab: Lab
    chance: random.Random
    target: str
    oof: bool
    page: bool
    pace: float = 0.0

    def __post_init__(self) -> None:
        self.instance = self.lab.open()
        self.filter = self.chance.choice(FILTERS)
        self.shape: dict[str, Any] = self.page_shape() if self.page else {}
        self.conflation = "none"
        self.folded = Folded(oof=self.oof)
        # Records that limits of groups have left out, until an event of another cause reports them.
        self.excused: set[tuple[str, str]] = set()
        self.replacements = 0
        self.subscription: Subscription | None = None

    def page_shape(self) -> dict[str, Any]:
        chance = self.chance
        return {
            "top_n": chance.choice((1, 2, 3, 5)),
            "skip_n": chance.choice((0, 0, 1, 2)),
            "order_by": chance.choice(ORDERS),
        }

    def begin(self, **options: Any) -> Subscription:
        asked = SubscribeOptions(filter=self.filter or None, oof=self.oof, **self.shape, **options)
        topics = resolve_followed_topics(self.instance, self.target)
        self.subscription = subscribe_topics(
            self.instance, topics, asked, joining=build_new_topic_resolver(self.instance, self.target)
        )
        return self.subscription

    def look(self) -> None:
        assert self.subscription is not None
        self.folded.take(lines_of(self.subscription.ready()))

    def chosen(self, targets: Sequence[str], *, limited: bool = False) -> dict[str, str]:
        """Return a control line that changes some of filter, target, page, conflation and deltas."""
        chance, members = self.chance, {}
        self.replacements += 1
        if chance.random() < 0.8:
            self.filter = members["filter"] = chance.choice(FILTERS)
        if not self.page and chance.random() < 0.3:
            self.target = members["topic"] = chance.choice(targets)
        words = []
        if self.page:
            self.shape = self.page_shape()
            words += [f"top_n={self.shape['top_n']}", f"skip_n={self.shape['skip_n']}"]
            words.append(f"orderby=[{self.shape['order_by']}]")
        elif limited:
            self.shape = {"top_n": chance.choice((1, 3, 100)), "order_by": chance.choice(ORDERS)}
            words += [f"top_n={self.shape['top_n']}", f"orderby=[{self.shape['order_by']}]"]
        if chance.random() < 0.5:
            self.conflation = chance.choice(("none", "none", "50ms", "auto"))
            words.append(f"conflation={self.conflation}")
            words += [f"{name}={chance.choice(('true', 'false'))}" for name in ("delta", "no_empties")]
        if words:
            members["options"] = ",".join(words)
        return members

    def replace(self, targets: Sequence[str], *, limited: bool = False) -> None:
        members = self.chosen(targets, limited=limited)
        assert self.subscription is not None
        line = parse_control(json.dumps({"command": "replace"} | members).encode())
        find, join = (
            lambda text: resolve_followed_topics(self.instance, text),
            lambda text: build_new_topic_resolver(self.instance, text),
        )
        self.folded.take(lines_of(self.subscription.control(line, find, join)))
        self.folded.forget_others(TARGETS[self.target])
        if limited:
            self.folded.partial = True
            first, held = self.queried(**self.shape), self.folded.held
            self.excused = {key for key, row in self.queried().items() if key not in first and held.get(key) != row}
            self.folded.told.clear()

    def queried(self, **shape: Any) -> dict[tuple[str, str], Row]:
        """Return the result of a new query; each topic of a pattern is ordered and limited separately."""
        found = {}
        for name in TARGETS[self.target]:
            try:
                records = list(self.instance.topic(name).query(self.filter or None, **shape).records())
            except MissingError:
                continue
            found |= {(name, str(record.sow_key)): json.loads(record.payload) for record in records}
        return found

    def differences(self) -> list[str]:
        self.excused -= self.folded.told
        shape = self.shape if self.page else {}
        expected = {key: row for key, row in self.queried(**shape).items() if key not in self.excused}
        return self.folded.wrong + self.folded.differences(expected)


def happen(lab: Lab, chance: random.Random, numbers: Iterator[int], topic_names: Sequence[str]) -> None:
    """Publish a few messages, whole or deltas, or delete records."""
    topic = chance.choice(topic_names)
    rows = [
        message(id=chance.randrange(IDS), v=chance.randrange(10), w=chance.randrange(3), n=next(numbers))
        for _ in range(chance.choice((1, 1, 3, 6)))
    ]
    kind = chance.random()
    if kind < 0.15:
        gone = chance.sample(range(IDS), chance.randint(1, 4))
        try:
            lab.open().topic(topic).delete(filter=f"/id IN ({', '.join(map(str, gone))})")
        except MissingError:
            return
    elif kind < 0.3:
        lab.publish(topic, message(id=chance.randrange(IDS), v=chance.randrange(10)), delta=True, update_only=False)
    else:
        publish_messages(lab.open(), topic, [("in", ListSource([row.encode() for row in rows]))], PublishOptions())


def counted() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


@pytest.fixture
def at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recompute rows of views on each read, without a pause."""
    monkeypatch.setattr(SUBSCRIPTION_LIMITS, "refresh_rest_factor", 0)
    monkeypatch.setattr(SUBSCRIPTION_LIMITS, "min_recheck_seconds", 0.0)


GROUPS: dict[str, tuple[list[str], list[str]]] = {
    "journal": (["t", "u", "^[tu]$"], ["t", "u"]),
    "stores": (["s", "t", "^[tqsz]$"], ["s", "t", "q", "z"]),
    "lifetimes": (["q"], ["q"]),
    "lifetimes without a journal": (["z"], ["z"]),
    "views": (["v", "t", "^[tuv]$"], ["t", "u"]),
    "newcomers": (["u", "^(u$|part/[01])", "^(q$|part/)"], ["u", "q", "part/0", "part/1", "part/2"]),
}
"""Targets, and the topics with publishers."""


@pytest.mark.usefixtures("at_every_look")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("form", ["oof", "plain", "page", "limited", "limited oof"])
def test_a_fold_of_events_is_a_query(make_lab: MakeLab, group: str, form: str, seed: int, deep: bool) -> None:
    chance, numbers = random.Random(f"{seed} {group} {form}"), counted()
    targets, topic_names = GROUPS[group]
    if form.startswith("limited") and group == "newcomers":
        return  # for a Pattern topic, the limit applies to all its logical topics together
    if form == "page":
        targets = [target for target in targets if len(TARGETS[target]) == 1]
    for number in range(12 if deep else 1):
        lab = make_lab(XML, f"lab{number}")
        clock = lab.clock = TickingClock()
        for topic in "tusqz":
            lab.publish(topic, message(id=0, v=1, w=1, n=0))
        watched = Watched(lab, chance, chance.choice(targets), form in ("oof", "page", "limited oof"), form == "page")
        with watched.begin():
            for _ in range(60 if deep else 15):
                clock.pace = chance.choice((0.0, 0.003, 0.03))
                for _ in range(chance.randrange(4)):
                    happen(lab, chance, numbers, topic_names)
                    clock.tick(chance.choice((0, 0.02, 0.4)))
                    if chance.random() < 0.4:
                        watched.look()
                if form.startswith("limited"):
                    # The records left out by a limit are known only if the clock does not advance.
                    clock.pace = 0.0
                if chance.random() < 0.6:
                    watched.replace(targets, limited=form.startswith("limited"))
                clock.pace = 0.0
                watched.look()
                found = watched.differences()
                for _ in range(15 if watched.conflation != "none" else 0):
                    # Delayed events are sent at the end of their interval, in which other lifetimes may end.
                    clock.tick(0.11)
                    watched.look()
                    found = watched.differences()
                    if not found:
                        break
                assert found == [], (watched.target, watched.filter, watched.shape)


@pytest.mark.usefixtures("at_every_look")
@pytest.mark.parametrize("topic", ["q", "z"])
def test_pages_move_as_the_paging_query_says(make_lab: MakeLab, topic: str, seed: int, deep: bool) -> None:
    """After each single change, a record leaves or enters exactly if the query lost or gained it."""
    chance, numbers = random.Random(f"{seed} {topic}"), counted()
    checks = 0
    for number in range(40 if deep else 3):
        lab = make_lab(XML, f"lab{number}")
        lab.publish(topic, *(message(id=number, v=chance.randrange(5), n=next(numbers)) for number in range(6)))
        watched = Watched(lab, chance, topic, oof=True, page=True)
        watched.filter = chance.choice(("", "/v > 1"))
        with watched.begin(delta=chance.random() < 0.3):
            watched.look()
            for _ in range(60 if deep else 25):
                before = watched.queried(**watched.shape)
                # Either a message or a deletion follows, or the clock advances to one instant at which lifetimes end.
                ends = sorted({(record.expiration or 0) for record in lab.records(topic)} - {0})
                if ends and chance.random() < 0.5:
                    lab.clock.at = ends[0]
                else:
                    happen_once(lab, chance, numbers, topic, before=ends[0] if ends else None)
                assert watched.subscription is not None
                told = [json.loads(line) for line in lines_of(watched.subscription.ready())]
                watched.folded.take(json.dumps(event) for event in told)
                after = watched.queried(**watched.shape)
                left = {(event["topic"], event["sow_key"]) for event in told if event["command"] == "oof"}
                entered = {(event["topic"], event["sow_key"]) for event in told if event["command"] == "publish"}
                assert left == set(before) - set(after)
                assert set(after) - set(before) <= entered <= set(after)
                there = {str(record.sow_key) for record in lab.records(topic)}
                for event in told:
                    if event["command"] == "oof":
                        assert (event["sow_key"] in there) == (event["reason"] == "match"), event
                assert watched.differences() == []
                checks += 1
    assert checks


def happen_once(lab: Lab, chance: random.Random, numbers: Iterator[int], topic: str, before: int | None) -> None:
    """Publish or delete once, at a new or the same time, ``before`` the next lifetime ends."""
    later = lab.clock.at + chance.choice((0, 0, 10_000, 200_000))
    if before is None or later < before:
        lab.clock.at = later
    if chance.random() < 0.2:
        lab.open().topic(topic).delete(filter=f"/id = {chance.randrange(IDS)}")
    else:
        lab.publish(topic, message(id=chance.randrange(IDS), v=chance.randrange(5), n=next(numbers)))


# with publishers in separate processes


def publisher(lab: Lab, seed: int, topic_names: Sequence[str]) -> Callable[[Child], None]:
    """Publish some messages and deletions for every byte read, and report when they are published."""

    def work(child: Child) -> None:
        chance, numbers = random.Random(seed), counted()
        patient = lab.open(lock_wait=60)
        lab.open = lambda **_: patient  # type: ignore[assignment, method-assign, misc]
        while os.read(child.inlet, 1) == b"x":
            for _ in range(chance.randint(1, 4)):
                happen(lab, chance, numbers, topic_names)
            child.say("done")

    return work


@contextmanager
def publishers(lab: Lab, seed: int, topic_names: Sequence[str]) -> Iterator[Callable[[], Callable[[], None]]]:
    """Run three publishers; the yielded function starts a round and returns one that waits until the round is over."""
    children = [Child(publisher(lab, seed + number, topic_names)) for number in range(3)]
    rounds = 0

    def go_on() -> Callable[[], None]:
        nonlocal rounds
        rounds += 1
        for child in children:
            assert child.write(b"x")

        def wait() -> None:
            end = time.monotonic() + 60
            while any(child.lines.count(b"done") < rounds for child in children):
                assert time.monotonic() < end
                for child in children:
                    child.hear(0.01)

        return wait

    try:
        yield go_on
        for child in children:
            assert child.join() == 0
    finally:
        for child in children:
            child.kill()
            child.forget()


def told_in_time(watched: Watched, look: Callable[[], None]) -> list[str]:
    """Return the differences from a query that remain after publishers, lifetimes and intervals have ended."""
    end = time.monotonic() + 20
    while True:
        look()
        found = watched.differences()
        if not found or watched.folded.wrong or time.monotonic() > end:
            return found
        time.sleep(0.02)


@pytest.mark.usefixtures("at_every_look")
@pytest.mark.parametrize("group", GROUPS)
def test_a_fold_of_events_is_a_query_beside_publishers(make_lab: MakeLab, group: str, seed: int, deep: bool) -> None:
    targets, topic_names = GROUPS[group]
    lab = make_lab(XML)
    lab.clock = system_clock  # type: ignore[assignment]
    lab.journal_size = 30_000
    for topic in "tusqz":
        lab.publish(topic, message(id=0, v=1, w=1, n=0))
    replacements = 0
    with publishers(lab, seed, topic_names) as go_on:
        for number in range(30 if deep else 2):
            chance = random.Random(f"{seed} {group} {number}")
            page = chance.random() < 0.3
            known = [target for target in targets if len(TARGETS[target]) == 1] if page else targets
            watched = Watched(
                lab, chance, chance.choice(known or targets), oof=page or chance.random() < 0.7, page=page
            )
            with watched.begin():
                for _ in range(8 if deep else 3):
                    wait = go_on()
                    for _ in range(chance.randrange(4)):
                        if chance.random() < 0.5:
                            watched.look()
                        watched.replace(known)
                    wait()
                    assert told_in_time(watched, watched.look) == [], (watched.target, watched.filter, watched.shape)
            replacements += watched.replacements
    print(f"{group}: {replacements} replacements")


def test_the_command_line_is_replaced_beside_publishers(make_lab: MakeLab, seed: int, deep: bool) -> None:
    """``subscribe --control`` in a separate process, and its output."""
    lab = make_lab(XML)
    lab.clock = system_clock  # type: ignore[assignment]
    lab.publish("t", message(id=0, v=1, w=1, n=0))
    with publishers(lab, seed, ["t", "q"]) as go_on:
        for number in range(6 if deep else 1):
            chance = random.Random(f"{seed} {number}")
            watched = Watched(lab, chance, "t", oof=True, page=number % 2 == 1)
            shape = {"--order-by": "order_by", "--top-n": "top_n", "--skip-n": "skip_n"} if watched.page else {}
            words = [word for name, field in shape.items() for word in (name, str(watched.shape[field]))]
            command = [sys.executable, "-m", "sowctl", "subscribe", "-c", str(lab.config), "t", "--control", "--oof"]
            command += [*words, "--filter", watched.filter] if watched.filter else words
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                printed = Printed(process)
                try:
                    printed.until_group_end(watched.folded)
                    for _ in range(20 if deep else 4):
                        wait = go_on()
                        for _ in range(chance.randrange(4)):
                            printed.control(watched.chosen(["t"]))
                            printed.until_group_end(watched.folded)
                        wait()
                        found = told_in_time(
                            watched, lambda printed=printed, watched=watched: printed.look(watched.folded)
                        )
                        assert found == [], (watched.filter, watched.shape)
                finally:
                    process.kill()


class Printed:
    """The output of a process so far, and its input."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self._out, self._in, self._rest = process.stdout, process.stdin, b""

    def control(self, members: dict[str, str]) -> None:
        self._in.write(json.dumps({"command": "replace"} | members).encode() + b"\n")
        self._in.flush()

    def look(self, folded: Folded, seconds: float = 0.0) -> bool:
        """Take the complete lines; return whether a group ended among them."""
        found = False
        while select.select([self._out], [], [], seconds)[0]:
            data = os.read(self._out.fileno(), 1 << 16)
            assert data, "it has ended"
            *lines, self._rest = (self._rest + data).split(b"\n")
            folded.take(lines)
            found = found or any(b'"group_end"' in line for line in lines)
            seconds = 0.0
        return found

    def until_group_end(self, folded: Folded) -> None:
        end = time.monotonic() + 30
        while not self.look(folded, 0.1):
            assert time.monotonic() < end
