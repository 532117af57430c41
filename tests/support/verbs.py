"""Verbs under test: an instance in memory that is reset to a known state, a book of acknowledgements, the judgement.

A :class:`Plot` is a directory with an instance in it, and can be reset to its saved files. A :class:`Book` records
every submitted message, per log, and the number of acknowledged ones. The contents of a recovered instance must be
those of the book after some number of messages, at least the acknowledged ones, at the end of a group.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from sowctl.engine.api import InstanceHandle
from sowctl.engine.bulk.commit import commit_run
from sowctl.engine.bulk.limits import BULK_LIMITS
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.fold import limits
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.options import DeleteOptions, PublishOptions, ReplayOptions
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import DELETE_LIMITS, delete_records
from sowctl.engine.verbs.expire import expire_records
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.snapshot import write_snapshot
from sowctl.engine.writing.batches import ListSource
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.errors import MissingError
from sowctl.findings import Finding, Level
from sowctl.identity.keyspace import KEYSPACE_LIMITS
from sowctl.journal.check import check_journal
from sowctl.messages.framing.frames import FrameReader
from sowctl.seam import SEAM, Seam
from sowctl.store.examine import examine_store
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml
from tests.support.staged import SKIP, stage

TOPICS = {
    "j": topic_xml("j"),
    "h": topic_xml("h", "<History><Window>1h</Window><Granularity>10s</Granularity></History>"),
    "q": topic_xml("q", "<Expiration>30s</Expiration>"),
    "a": topic_xml("a"),
    "b": topic_xml("b"),
}
LOGGED = ("j", "h", "q")
ALONE = ("a", "b")
XML = config_xml("".join(TOPICS.values()), LOGGED)
JOURNAL = "journal"
State = dict[str, dict[int, str]]
"""Contents: topic, id, payload."""


@dataclass(frozen=True)
class Event:
    """One submitted message (or, without a payload, a deletion)."""

    topic: str
    id: int
    payload: str | None
    stamp: int = 0


def log_of(topic: str) -> str:
    """Return the log in which a topic's messages are acknowledged: the journal, or its own store."""
    return JOURNAL if topic in LOGGED else topic


@dataclass
class Book:
    """Per log: the submitted events, in order; the counts of events at which a group ends; the acknowledged count."""

    events: dict[str, list[Event]] = field(default_factory=lambda: {log: [] for log in (JOURNAL, *ALONE)})
    ends: dict[str, set[int]] = field(default_factory=lambda: {log: {0} for log in (JOURNAL, *ALONE)})
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys((JOURNAL, *ALONE), 0))

    def copy(self) -> Book:
        return Book(
            {log: list(events) for log, events in self.events.items()},
            {log: set(ends) for log, ends in self.ends.items()},
            dict(self.acknowledged),
        )

    def hand_in(self, group: Sequence[Event]) -> None:
        """Submit one group; events of different logs are separated as the engine does."""
        for event in group:
            self.events[log_of(event.topic)].append(event)
        for log in {log_of(event.topic) for event in group}:
            self.ends[log].add(len(self.events[log]))

    def acknowledge(self, log: str, count: int) -> None:
        self.acknowledged[log] += count

    def settle(self) -> None:
        """Mark everything submitted as acknowledged."""
        for log, events in self.events.items():
            self.acknowledged[log] = len(events)

    def state(self, log: str, count: int, now: int) -> State:
        """Return the contents after ``count`` events, at a time."""
        held: dict[str, dict[int, Event]] = {topic: {} for topic in TOPICS if log_of(topic) == log}
        for event in self.events[log][:count]:
            if event.payload is None:
                held[event.topic].pop(event.id, None)
            else:
                held[event.topic][event.id] = event
        return {
            topic: {e.id: str(e.payload) for e in events.values() if not 0 < e.stamp <= now}
            for topic, events in held.items()
        }

    def final(self, now: int) -> State:
        """Return the contents after all events."""
        return {k: v for log in self.events for k, v in self.state(log, len(self.events[log]), now).items()}

    def collapse(self, found: State, now: int) -> None:
        """Accept the found contents: remove the events that did not survive."""
        for log, events in self.events.items():
            part = {topic: rows for topic, rows in found.items() if log_of(topic) == log}
            for count in range(self.acknowledged[log], len(events) + 1):
                if count in self.ends[log] and self.state(log, count, now) == part:
                    del events[count:]
                    self.ends[log] = {end for end in self.ends[log] if end <= count}
                    self.acknowledged[log] = count
                    break

    def judge(self, found: State, now: int, *, exact: bool = True) -> str | None:
        """Return the fault in found contents, None if there is none. ``exact``: they must end with a group."""
        for log, events in self.events.items():
            part = {topic: rows for topic, rows in found.items() if log_of(topic) == log}
            allowed = [
                count
                for count in range(self.acknowledged[log], len(events) + 1)
                if not exact or count in self.ends[log]
            ]
            if not any(self.state(log, count, now) == part for count in allowed):
                best = self.state(log, self.acknowledged[log], now)
                return f"{log}: {self.acknowledged[log]} of {len(events)} acknowledged; {_difference(best, part)}"
        return None


def _difference(expected: State, found: State) -> str:
    rows = []
    for topic, records in expected.items():
        for key in sorted(set(records) | set(found[topic])):
            if records.get(key) != found[topic].get(key):
                rows.append(f"{topic}/{key}: {records.get(key)} acknowledged, {found[topic].get(key)} found")
    return "; ".join(rows[:5]) or "no group ends there"


class Start(NamedTuple):
    """The saved state of a plot, for use by another one."""

    files: dict[str, bytes]
    saved: tuple[Book, int, int]
    random_calls: int


class Plot:
    """An instance in a directory whose files can be restored."""

    def __init__(self, root: Path, journal_size: int | None = 3000) -> None:
        self.root = root
        shutil.rmtree(root, ignore_errors=True)
        self.lab = Lab(root, XML)
        self.lab.journal_size = journal_size
        (root / "sow").mkdir(exist_ok=True)
        self.book = Book()
        self.values = 0
        self._start = self.lab.clock.at
        self._instance: tuple[int | None, InstanceHandle] | None = None
        self.files: dict[str, bytes] = {}
        self.saved = self.book.copy(), 0, self._start

    def save(self) -> Start:
        """Save the current state for :meth:`restore`, and return it."""
        self.book.settle()
        self.files = read_files(self.root)
        self.saved = self.book.copy(), self.values, self.lab.clock.at
        return Start(self.files, self.saved, self.lab._random.calls)

    def take_over(self, start: Start) -> None:
        """Continue from the saved state of another plot."""
        self.files, self.saved, self.lab._random.calls = start
        self.restore()

    def restore(self) -> None:
        put_files(self.root, self.files)
        book, self.values, self.lab.clock.at = self.saved
        self.book = book.copy()

    def open(self, seam: Seam = SEAM) -> InstanceHandle:
        """Return the instance, read from its configuration once."""
        if self._instance is None or self._instance[0] != self.lab.journal_size:
            self._instance = self.lab.journal_size, self.lab.open()
        return replace(self._instance[1], seam=seam)

    def contents(self) -> State:
        """Return all topics as queries see them; a topic without a store is empty."""
        return contents(self.open())

    # operations, with every step in the book

    def fresh(self, topic: str, ids: Iterable[int], lifetime: int | None = None) -> list[Event]:
        """Return new messages for these ids."""
        events = []
        for number in ids:
            self.values += 1
            life = lifetime if lifetime is not None else 30 if topic == "q" else 0
            stamp = self.lab.clock.at + life * SECOND if life and topic == "q" else 0
            events.append(Event(topic, number, message(t=topic, id=number, v=self.values), stamp))
        return events

    def publish(
        self, topic: str, ids: Iterable[int], batch: int = 3, seam: Seam = SEAM, told: Callable[[], None] | None = None
    ) -> None:
        events = self.fresh(topic, ids)
        for start in range(0, len(events), batch):
            self.book.hand_in(events[start : start + batch])

        def acknowledged(what: AcknowledgedBatch) -> None:
            self.book.acknowledge(log_of(topic), len(what.payloads))
            if told is not None:
                told()

        source = ListSource([str(event.payload).encode() for event in events], batch)
        publish_messages(
            self.open(seam), topic, [("in", source)], PublishOptions(batch=batch), on_acknowledged=acknowledged
        )

    def load(self, topic: str, ids: Sequence[int], tasks: int = 1, seam: Seam = SEAM) -> None:
        """Load as a bulk load on Spark does: one group, in at least one block per task."""
        events = self.fresh(topic, ids)
        self.book.hand_in(events)
        instance = self.open(seam)
        size = -(-len(events) // tasks)
        with hold_staging_area(instance, instance.topic(topic).config) as area:
            plan = area.build_plan(SKIP)
            done = [
                stage(plan, f"t{number}", number, [str(event.payload) for event in events[start : start + size]])
                for number, start in enumerate(range(0, len(events), size))
            ]
            commit_run(area, plan, done)
        self.book.acknowledge(log_of(topic), len(events))

    def envelopes(
        self,
        plan: Sequence[tuple[str, int]],
        batch: int = 4,
        seam: Seam = SEAM,
        told: Callable[[], None] | None = None,
        first: int = 1,
    ) -> None:
        """Publish messages of several topics in turn, numbered by a publisher."""
        events = [event for topic, number in plan for event in self.fresh(topic, [number])]
        for start in range(0, len(events), batch):
            self.book.hand_in(events[start : start + batch])
        lines = [
            message(topic=event.topic, sequence=first + n, data=json.loads(str(event.payload)))
            for n, event in enumerate(events)
        ]

        def acknowledged(what: AcknowledgedBatch) -> None:
            self.book.acknowledge(log_of(json.loads(what.payloads[0])["t"]), len(what.payloads))
            if told is not None:
                told()

        source = FrameReader(io.BytesIO("".join(line + "\n" for line in lines).encode()), "envelope")
        options = PublishOptions(batch=batch, client="teller")
        publish_messages(self.open(seam), None, [("in", source)], options, on_acknowledged=acknowledged)

    def delete(self, topic: str, ids: Sequence[int], how: str = "filter", seam: Seam = SEAM) -> None:
        """Delete the existing messages of these ids; one group, in key order, whose parts are invisible."""
        instance = self.open(seam)
        self.book.hand_in([Event(topic, number, None) for number in ids])
        if how == "filter":
            options = DeleteOptions(filter=f"/id IN ({', '.join(map(str, ids))})")
        else:
            options = DeleteOptions(data=tuple(message(id=number).encode() for number in ids))
        delete_records(instance, [Target(topic=instance.topic(topic).config)], options)
        self.book.acknowledge(log_of(topic), len(ids))

    def expire(self, seam: Seam = SEAM) -> None:
        instance = self.open(seam)
        expire_records(instance, instance.topics)

    def replay(self, seam: Seam = SEAM, **options: object) -> None:
        instance = self.open(seam)
        replay_topics(instance, instance.topics, ReplayOptions(**options))  # type: ignore[arg-type]

    def snapshot(self, topic: str, seam: Seam = SEAM) -> None:
        instance = self.open(seam)
        target = Target(topic=instance.topic(topic).config)
        at = self.lab.clock.at - 5 * SECOND
        write_snapshot(instance, target, at, self.root / "out" / f"{topic}.sow", force=True)


def contents(instance: InstanceHandle) -> State:
    found: State = {}
    for topic in TOPICS:
        try:
            rows = [record.payload.decode() for record in instance.topic(topic).query().records()]
        except MissingError:
            rows = []
        found[topic] = {json.loads(row)["id"]: row for row in rows}
    return found


def problems(lab: Lab, level: Level = Level.WARNING) -> list[Finding]:
    """Return the findings of a check that reads in this process: for files expected to be intact."""
    found: list[Finding] = []
    paths = [path for path in (lab.store(topic) for topic in TOPICS) if path.exists()]
    paths += sorted((lab.directory / "out").glob("*.sow"))
    for path in paths:
        found += [item for item in examine_store(str(path), False, lambda _: None) if isinstance(item, Finding)]
    journal = lab.directory / "journal"
    if lab.journals():
        found += check_journal(journal, "test")
    return [finding for finding in found if finding.level >= level]


def rebuilt_is_live(lab: Lab) -> str | None:
    """Return the topic whose store differs from the fold of the journal, None if none does."""
    for topic in LOGGED:
        if lab.store(topic).exists():
            report = lab.open().topic(topic).replay(verify=True)
            if report.action != "verified":
                return f"{topic}: {report.note} {report.digest} {report.other_digest}"
    return None


def read_files(root: Path) -> dict[str, bytes]:
    """Return all files below a directory except LMDB's reader tables, which are recreated."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.endswith("-lock"):
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def put_files(root: Path, files: dict[str, bytes]) -> None:
    """Make ``root`` contain exactly these files (and a directory for stores)."""
    shutil.rmtree(root)
    (root / "sow").mkdir(parents=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


# Templates: the state of an instance before the verb


def new(plot: Plot) -> None:
    """Only the configuration."""


def grown(plot: Plot) -> None:
    """Several journal files, deletions, two versions of most records."""
    for topic in TOPICS:
        plot.publish(topic, range(8), batch=5)
    plot.lab.clock.tick(12)
    for topic in TOPICS:
        plot.publish(topic, range(4, 12), batch=5)
    plot.delete("j", [1, 5])
    plot.delete("h", [2])
    plot.delete("a", [3], how="data")
    plot.lab.clock.tick(3)


def behind(plot: Plot) -> None:
    """Stores that lack the journal's last groups, as after a killed publisher."""
    grown(plot)
    older = {path.name: path.read_bytes() for path in (plot.root / "sow").glob("*.sow") if path.name[0] in "jhq"}
    plot.publish("j", range(20, 30))
    plot.publish("h", [*range(6), 40])
    plot.delete("j", [6, 20])
    plot.publish("q", [3, 4, 50])
    for topic in LOGGED:
        plot.lab.forget(topic)
    for name, content in older.items():
        (plot.root / "sow" / name).write_bytes(content)


def missing(plot: Plot) -> None:
    """Deleted stores."""
    grown(plot)
    for topic in LOGGED:
        plot.lab.forget(topic)


def damaged(plot: Plot) -> None:
    """Unreadable stores."""
    behind(plot)
    for topic in LOGGED:
        plot.lab.store(topic).write_bytes(b"not a store" * 700)


def torn(plot: Plot) -> None:
    """A journal that ends in the middle of an unacknowledged block."""
    behind(plot)
    plot.book.settle()
    last = plot.lab.journals()[-1]
    whole = last.read_bytes()
    kept = plot.book.copy(), plot.values
    size = plot.lab.journal_size
    plot.lab.journal_size = 1 << 20
    stores = {path: path.read_bytes() for path in (plot.root / "sow").iterdir()}
    plot.publish("j", range(60, 70), batch=10)
    plot.lab.journal_size = size
    last.write_bytes(last.read_bytes()[: len(whole) + 150])
    (plot.root / "journal" / "test.topics").unlink(missing_ok=True)
    for path, content in stores.items():
        path.write_bytes(content)
    plot.book, plot.values = kept


@contextmanager
def small_folds() -> Iterator[None]:
    """Rebuilds, repairs and bulk loads whose memory is full after two values: every fold uses three files."""
    with (
        patch.multiple(
            FOLD_LIMITS,
            bucket_bytes=200,
            max_bucket_files=3,
            write_buffer_bytes=1,
            block_cache_bytes=1,
            compact_entries=5,
            fold_part_records=3,
            transaction_parts=2,
        ),
        patch.multiple(BULK_LIMITS, commit_fold_bytes=200, update_bucket_bytes=30, decided_keys_per_part=1),
        patch.object(KEYSPACE_LIMITS, "sort_batch_keys", 5),
    ):
        yield


@contextmanager
def small_memory(share: float = 1.0, fan: int = 8) -> Iterator[None]:
    """Writers whose memory is full after four keys: runs and merges in every session, as in a bulk load.

    They merge when runs have ``share`` times a store's records, and combine each ``fan`` runs into one. Two messages
    are enough for columns.
    """
    usual = limits.MEMTABLE_LIMITS
    limits.MEMTABLE_LIMITS = limits.Limits(
        changes=4,
        columned_changes=4,
        first_changes=4,
        columned=2,
        columned_after=0,
        runs_share=1000,
        history_share=1000,
        merge_share=share,
        fan=fan,
        small_records=0,
    )
    try:
        yield
    finally:
        limits.MEMTABLE_LIMITS = usual


@contextmanager
def by_columns() -> Iterator[None]:
    """Every batch is processed in columns, and is buffered as columns."""
    usual = limits.MEMTABLE_LIMITS
    limits.MEMTABLE_LIMITS = limits.Limits(columned=0, columned_after=0)
    try:
        yield
    finally:
        limits.MEMTABLE_LIMITS = usual


def flushed(plot: Plot) -> None:
    """Sorted runs next to two stores, and later entries only in the journal, as after killed bulk loads."""
    grown(plot)
    _broken_off(plot, "h", [*range(20, 31), 20, 3, 20])
    plot.open()
    _broken_off(plot, "j", [*range(20, 44), 20, 3])
    plot.delete("q", [3])


def _broken_off(plot: Plot, topic: str, ids: Sequence[int]) -> None:
    files: dict[str, bytes] = {}

    def told() -> None:
        # At the last batch: everything acknowledged by then is in the journal, and the end of the run has not started.
        files.clear()
        files.update(read_files(plot.root))

    with small_memory():
        plot.publish(topic, ids, batch=3, told=told)
    put_files(plot.root, files)


# Verbs: each with the template that it starts from


def publishing(plot: Plot, seam: Seam) -> None:
    plot.publish("j", [1, 2, 30, 31, 32, 33, 2], seam=seam)
    plot.publish("h", [1, 2, 2, 30], batch=2, seam=seam)


def mixing(plot: Plot, seam: Seam) -> None:
    plan = [(topic, number) for number in (3, 30, 31) for topic in ("j", "a", "h", "q", "b")]
    plot.envelopes(plan, batch=6, seam=seam)


def standing_alone(plot: Plot, seam: Seam) -> None:
    plot.publish("a", [1, 2, 30, 31, 2], batch=2, seam=seam)


def deleting(plot: Plot, seam: Seam) -> None:
    plot.delete("h", [0, 7], seam=seam)
    plot.delete("j", [0, 7, 8], how="data", seam=seam)
    plot.delete("a", [0, 7], seam=seam)


def deleting_in_parts(plot: Plot, seam: Seam) -> None:
    """Delete as a delete of many does: a group of several appends, with a store transaction for each of them."""
    with (
        patch.object(DELETE_LIMITS, "part_records", 1),
        patch("sowctl.engine.fold.limits.MEMTABLE_LIMITS.changes", 1),
    ):
        deleting(plot, seam)


def expiring(plot: Plot, seam: Seam) -> None:
    plot.lab.clock.tick(20)
    plot.expire(seam=seam)


def expiring_in_parts(plot: Plot, seam: Seam) -> None:
    """Expire as an expiry of many does: a store transaction for each part."""
    limits = ("max_piggyback_expired_records", "delete_part_records", "max_expired_records", "max_removed_versions")
    with patch.multiple(FOLD_LIMITS, **dict.fromkeys(limits, 1)):
        expiring(plot, seam)


def catching_up(plot: Plot, seam: Seam) -> None:
    plot.replay(seam=seam)


def rebuilding(plot: Plot, seam: Seam) -> None:
    plot.replay(seam=seam, rebuild=True)


def going_on(plot: Plot, seam: Seam) -> None:
    plot.publish("j", [1, 99], batch=1, seam=seam)
    plot.delete("q", [4], seam=seam)


def loading(plot: Plot, seam: Seam) -> None:
    with small_memory():
        plot.publish("j", [*range(60, 84), 60, 2], seam=seam)


def loading_history(plot: Plot, seam: Seam) -> None:
    with small_memory():
        plot.publish("h", [*range(60, 72), 60, 2, 2, *range(20, 26)], seam=seam)


def loading_much(plot: Plot, seam: Seam) -> None:
    """Load as a load many times larger than the store does: runs are combined, and all is merged at the end."""
    with small_memory(share=9.0, fan=2):
        plot.publish("j", [*range(60, 80), 60, 2, 3], seam=seam)
        plot.publish("h", [*range(60, 70), 60, 2], seam=seam)


def loading_in_bulk(plot: Plot, seam: Seam) -> None:
    """Load as a bulk load on Spark does: the group of 24 messages is in the journal before the first merge begins."""
    with small_memory():
        plot.load("j", [*range(60, 82), 60, 2], tasks=4, seam=seam)


def loading_history_in_bulk(plot: Plot, seam: Seam) -> None:
    with small_memory():
        plot.load("h", [*range(60, 72), 60, 2, 2], tasks=3, seam=seam)


def deleting_from_runs(plot: Plot, seam: Seam) -> None:
    with small_memory():
        plot.delete("j", [3, 20, 21, 22, 23, 24, 25], seam=seam)
        plot.publish("j", [20, 3], seam=seam)
        plot.delete("h", [3, 20, 21], seam=seam)
        plot.publish("h", [20, 22], seam=seam)


def looking_back(plot: Plot, seam: Seam) -> None:
    for topic in ("j", "h"):
        plot.snapshot(topic, seam=seam)


Verb = Callable[[Plot, Seam], None]
Template = Callable[[Plot], None]

CASES: list[tuple[str, Template, Verb]] = [
    ("publish", grown, publishing),
    ("publish-new", new, publishing),
    ("publish-envelopes", grown, mixing),
    ("publish-envelopes-new", new, mixing),
    ("publish-alone", grown, standing_alone),
    ("publish-behind", behind, going_on),
    ("publish-missing", missing, going_on),
    ("publish-torn", torn, going_on),
    ("delete", grown, deleting),
    ("delete-in-parts", grown, deleting_in_parts),
    ("expire", grown, expiring),
    ("expire-behind", behind, expiring),
    ("expire-in-parts", grown, expiring_in_parts),
    ("catch-up", behind, catching_up),
    ("catch-up-torn", torn, catching_up),
    ("rebuild", grown, rebuilding),
    ("rebuild-missing", missing, catching_up),
    ("rebuild-damaged", damaged, catching_up),
    ("snapshot", behind, looking_back),
    ("load-first", new, loading),
    ("load", grown, loading),
    ("load-flushed", flushed, loading),
    ("load-history", grown, loading_history),
    ("load-history-flushed", flushed, loading_history),
    ("load-joins", flushed, loading_much),
    ("load-in-bulk", grown, loading_in_bulk),
    ("load-in-bulk-flushed", flushed, loading_in_bulk),
    ("publish-flushed", flushed, going_on),
    ("delete-flushed", flushed, deleting_from_runs),
    ("expire-flushed", flushed, expiring),
    ("catch-up-flushed", flushed, catching_up),
    ("rebuild-flushed", flushed, rebuilding),
]
IDS = [case[0] for case in CASES]
