"""Staged runs: the output of the tasks is committed as one group, equal to a publish of the same messages in order."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.bulk import outcomes
from sowctl.engine.bulk.commit import RefusalReporting, commit_run
from sowctl.engine.bulk.limits import BULK_LIMITS
from sowctl.engine.bulk.segments import SegmentReader
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.bulk.task import StageTask
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import Rejected
from sowctl.engine.topics.log_places import LogPlace, find_log_place
from sowctl.errors import DamageError, InputError, LimitError, SowError
from sowctl.identity.hashes import hash_client_name
from sowctl.messages.framing.envelope import Envelope
from sowctl.values.times import format_time
from tests.support.examples import examples
from tests.support.faults import FailAt
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified
from tests.support.staged import SKIP, leftovers, make, run, stage


@pytest.mark.parametrize("topic", ["log", "alone", "past", "brief"])
def test_equals_a_publish(tmp_path: Path, topic: str) -> None:
    """Duplicate keys within and across tasks, and a second run over the first; digests include txids and times."""
    rounds = [
        [[message(id=1, v="a"), message(id=2, v="b"), message(id=1, v="c")], [message(id=2, v="b"), message(id=3)]],
        [[message(id=3), message(id=4, v="x" * 300)], [message(id=1, v="c")]],
    ]
    with verified(make(tmp_path / "one")) as bulk, verified(make(tmp_path / "two")) as plain:
        for tasks in rounds:
            report = run(bulk, topic, *tasks)
            told = plain.publish(topic, *[text for task in tasks for text in task])
            for name in ("inserted", "updated", "unchanged", "published", "bytes", "first_txid", "last_txid"):
                assert getattr(report, name) == getattr(told, name), name
            assert bulk.digest(topic) == plain.digest(topic)
            assert bulk.query(topic) == plain.query(topic)
            bulk.clock.tick(2)
            plain.clock.tick(2)
        assert not leftovers(bulk)
        if topic != "alone":
            bulk.forget(topic)
            bulk.open().topic(topic).replay()
            assert bulk.digest(topic) == plain.digest(topic)


@pytest.mark.parametrize("delta", [False, True])
def test_finishes_as_a_publish_does(tmp_path: Path, delta: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Preprocessing, enrichment from the previous record, and deltas: over stored records and within the run."""
    monkeypatch.setattr(BULK_LIMITS, "update_bucket_bytes", 30)
    rounds = [
        [[message(id=1, n=1), message(id=2, n=5), message(id=1, n=2)], [message(id=2, x=1), message(id=3)]],
        [[message(id=1, n=9)], [message(id=1, x=1), message(id=4, n="word"), message(id=1, n=3)]],
    ]
    options = PublishOptions(on_error="skip", delta=delta)
    with verified(make(tmp_path / "one")) as bulk, verified(make(tmp_path / "two")) as plain:
        for tasks in rounds:
            report = run(bulk, "rich", *tasks, options=options)
            told = plain.publish("rich", *[text for task in tasks for text in task], on_error="skip", delta=delta)
            assert (report.published, report.rejected) == (told.published, told.rejected)
            assert bulk.digest("rich") == plain.digest("rich")
            assert bulk.query("rich") == plain.query("rich")
        assert '"before":' in "".join(bulk.query("rich"))


KEYS = st.integers(0, 12)
EVENTS = st.lists(st.tuples(st.sampled_from(["publish", "delta", "delete"]), KEYS, st.integers(0, 3)), max_size=60)


@given(EVENTS, st.integers(1, 4), st.sampled_from(["log", "alone", "past", "kept"]), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_any_operations_in_any_split(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, int, int]],
    tasks: int,
    topic: str,
    small: bool,
) -> None:
    """Against a model, also with tiny buckets and with tasks whose messages interleave."""
    lab = make(tmp_path_factory.mktemp("any"))
    model = {1: {"id": 1, "a": "old"}, 2: {"id": 2, "b": 7}}
    lab.publish(topic, *[message(**row) for row in model.values()])
    counts = dict.fromkeys(("inserted", "updated", "deleted", "missing"), 0)
    for kind, key, value in events:
        known = key in model
        if kind == "delete":
            model.pop(key, None)
            counts["deleted" if known else "missing"] += 1
        else:
            base = model.get(key, {"id": key}) if kind == "delta" else {"id": key}
            model[key] = {**base, f"v{value % 2}": value}
            counts["updated" if known else "inserted"] += 1
    instance = lab.open()
    with pytest.MonkeyPatch.context() as patch, hold_staging_area(instance, instance.topic(topic).config) as area:
        if small:
            patch.setattr(BULK_LIMITS, "commit_fold_bytes", 40)
            patch.setattr(BULK_LIMITS, "update_bucket_bytes", 40)
            patch.setattr(outcomes, "decide_run", lambda *args: DECIDE(*args, bucket=4))
        plan = area.build_plan(SKIP)
        done = []
        for number in range(tasks):
            mine = [(place, *event) for place, event in enumerate(events) if place % tasks == number]
            with StageTask(plan, f"t{number}") as task:
                texts = [
                    message(**({"id": key} | ({} if kind == "delete" else {f"v{v % 2}": v})))
                    for _, kind, key, v in mine
                ]
                task.add_messages([t.encode() for t in texts], 0, [m[0] for m in mine], operations=[m[1] for m in mine])
                done.append(task.finish())
        report = commit_run(area, plan, done)
    held = {row["id"]: row for row in map(json.loads, lab.query(topic))}
    assert held == model
    assert report.updated + report.unchanged == counts["updated"]
    assert (report.inserted, report.deleted, report.missing) == (
        counts["inserted"],
        counts["deleted"],
        counts["missing"],
    )
    assert not [finding for finding in lab.findings() if finding.level.name == "ERROR"]


DECIDE = outcomes.decide_run


def test_overwrite_deletes_the_rest(tmp_path: Path) -> None:
    for topic in ("log", "alone", "past"):
        with verified(make(tmp_path / topic)) as lab:
            lab.publish(topic, *[message(id=n) for n in range(5)])
            report = run(lab, topic, [message(id=3, v=1)], [message(id=9)], overwrite=True)
            assert (report.deleted, report.inserted, report.updated) == (4, 1, 1)
            assert sorted(lab.query(topic)) == [message(id=3, v=1), message(id=9)]
            report = run(lab, topic, overwrite=True)
            assert report.deleted == 2
            assert lab.query(topic) == []


def test_a_repeated_batch_is_a_no_op(tmp_path: Path) -> None:
    for topic in ("log", "alone"):
        with verified(make(tmp_path / topic)) as lab:
            tasks = [message(id=1, v=1)], [message(id=2)]
            assert run(lab, topic, *tasks, publisher=("sink", 1)).published == 2
            before = lab.digest(topic)
            again = run(lab, topic, *tasks, publisher=("sink", 1))
            assert (again.published, again.duplicates) == (0, 2)
            assert lab.digest(topic) == before
            if topic == "log":
                lab.forget(topic)
                lab.open().topic(topic).replay()
                assert run(lab, topic, *tasks, publisher=("sink", 1)).published == 0
            assert run(lab, topic, [message(id=3)], publisher=("sink", 2)).published == 1
            assert run(lab, topic, [message(id=4)], publisher=("other", 1)).published == 1


def test_the_bookmark_of_a_commit_is_its_last_entry(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        lab.publish("log", message(id=1))
        run(lab, "log", [message(id=2), message(id=3)], [message(id=4)], publisher=("sink", 1))
        lab.clock.tick(1)
        lab.publish("log", message(id=5))
        assert find_log_place(lab.open(), f"{hash_client_name('sink')}|1|") == LogPlace(4, START)


def test_refused_messages(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        tasks = [message(id=1), "{bad"], [message(v=2), message(id=2)]
        with pytest.raises(InputError, match="Nothing was published") as caught:
            run(lab, "log", *tasks, options=PublishOptions())
        assert caught.value.facts["rejected"] == 2
        with pytest.raises(LimitError):
            run(lab, "log", *tasks, options=PublishOptions(on_error="skip", max_errors=1))
        report = run(lab, "log", *tasks)
        assert (report.messages, report.published, report.rejected) == (4, 2, 2)
        assert [(sample.offset, sample.payload) for sample in report.samples] == [(1, b"{bad"), (0, b'{"v":2}')]
        assert not leftovers(lab)


def test_messages_older_than_the_topic_are_refused_late(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        lab.publish("log", message(id=1))
        instance = lab.open()
        seen: list[Rejected] = []
        with hold_staging_area(instance, instance.topic("log").config) as area:
            plan = area.build_plan(SKIP)
            times = [START - 5, START + 7, START + 6, START + 8]
            envelopes = [Envelope(timestamp=format_time(time)) for time in times]
            done = [stage(plan, "t", 0, [message(id=n) for n in (1, 2, 2, 3)], envelopes=envelopes)]
            report = commit_run(
                area, plan, done, refusals=RefusalReporting(sources=["in.ndjson"], on_reject=seen.append)
            )
        assert (report.rejected, report.inserted, report.updated) == (2, 2, 0)
        assert [(one.source, one.offset, one.code) for one in seen] == [
            ("in.ndjson", 0, "SOW-PUB-006"),
            ("in.ndjson", 2, "SOW-PUB-006"),
        ]
        lab.clock.tick(1)
        assert {r.timestamp for r in lab.records("log")} == {START, START + 7, START + 8}


def test_expirations_and_user_keys(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        instance = lab.open()
        with hold_staging_area(instance, instance.topic("brief").config) as area:
            plan = area.build_plan(SKIP)
            lifetimes = [None, 0, 5, format_time(START + 9)]
            envelopes = [Envelope(expiration=lifetime, correlation_id=f"c{n}") for n, lifetime in enumerate(lifetimes)]
            commit_run(area, plan, [stage(plan, "t", 0, [message(id=n) for n in range(4)], envelopes=envelopes)])
        found = {record.correlation_id: record.expiration for record in lab.records("brief")}
        assert found == {"c0": START + 30_000_000, "c1": 0, "c2": START + 5_000_000, "c3": START + 9}
        with hold_staging_area(instance, instance.topic("own").config) as area:
            plan = area.build_plan(SKIP)
            envelopes = [Envelope(sow_key=key) for key in ("ab", "cd", "ab", "a b")]
            report = commit_run(area, plan, [stage(plan, "t", 0, ["{}", "1", "2", "3"], envelopes=envelopes)])
        assert (report.inserted, report.updated, report.rejected) == (2, 1, 1)
        assert sorted((r.user_key, r.payload) for r in lab.records("own")) == [("ab", b"2"), ("cd", b"1")]


def test_a_damaged_segment_is_noticed_before_anything_is_written(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        instance = lab.open()
        with hold_staging_area(instance, instance.topic("log").config) as area:
            plan = area.build_plan(SKIP)
            done = stage(plan, "t", 0, [message(id=n) for n in range(50)])
            path = area.directory / done.segments[0].name
            raw = bytearray(path.read_bytes())
            for at in (3, 20, 60, len(raw) - 3):
                path.write_bytes(raw[:at] + bytes((raw[at] ^ 64,)) + raw[at + 1 :])
                with pytest.raises(DamageError):
                    for batch in SegmentReader(area.directory, done.segments[0]).iterate_batches():
                        list(batch.entries.payloads)
            path.write_bytes(raw[:-3])
            with pytest.raises(DamageError):
                commit_run(area, plan, [done])
        assert lab.query("log") == []


@pytest.mark.parametrize("topic", ["log", "alone"])
def test_a_commit_that_fails_anywhere_leaves_all_or_nothing(tmp_path: Path, topic: str, deep: bool) -> None:
    """Every system or LMDB call fails once; the next run succeeds and duplicates nothing."""
    old = [message(id=n, v="old") for n in range(30)]
    new = [message(id=n, v="new", pad="x" * 50) for n in range(20, 60)]
    outcomes = set()
    for number in range(1, 200, 1 if deep else 3):
        lab = make(tmp_path / str(number))
        lab.publish(topic, *old)
        seam = FailAt(number, errno.EIO, points=("file.", "lmdb.", "dir."))
        instance = lab.open(seam=seam)
        with suppress(SowError), hold_staging_area(instance, instance.topic(topic).config) as area:
            plan = area.build_plan(SKIP)
            done = [stage(plan, "a", 0, new[:20]), stage(plan, "b", 1, new[20:])]
            commit_run(area, plan, done, publisher=("sink", 1))
        held = set(lab.query(topic))
        assert held in (set(old), set(old[:20]) | set(new)), number
        outcomes.add(len(held))
        run(lab, topic, new[:20], new[20:], publisher=("sink", 1))
        assert set(lab.query(topic)) == set(old[:20]) | set(new)
        assert len(lab.query(topic)) == 60
        assert not leftovers(lab)
        if not seam.failed:
            break
    assert outcomes == {30, 60}


KILLED = """
import os, signal, sys
from pathlib import Path
from sowctl.engine.bulk.commit import commit_run
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.journal.writer import JournalWriter
from tests.support.instances import message
from tests.support.staged import SKIP, make, stage

lab = make(Path(sys.argv[1]))
where = sys.argv[2]
append = JournalWriter.append_group
calls = []

def dying(self, *args, **kwargs):
    if where == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = append(self, *args, **kwargs)
    calls.append(done)
    if where == "between" and len(calls) == 2 or where == "after" and kwargs["last"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

JournalWriter.append_group = dying
instance = lab.open()
with hold_staging_area(instance, instance.topic("log").config) as area:
    plan = area.build_plan(SKIP)
    done = [stage(plan, f"t{n}", n, [message(id=100 * n + i) for i in range(20)]) for n in range(4)]
    commit_run(area, plan, done, publisher=("sink", 1))
"""


@pytest.mark.parametrize(("where", "visible"), [("before", 1), ("between", 1), ("after", 81)])
def test_a_driver_killed_during_commit(tmp_path: Path, where: str, visible: int) -> None:
    with verified(make(tmp_path)) as lab:
        lab.publish("log", message(id=-1))
        ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), where], cwd=Path.cwd(), check=False)
        assert ended.returncode == -signal.SIGKILL
        assert leftovers(lab)
        assert len(lab.query("log")) == visible
        tasks = [[message(id=100 * n + i) for i in range(20)] for n in range(4)]
        report = run(lab, "log", *tasks, publisher=("sink", 1))
        assert report.published == (80 if visible == 1 else 0)
        assert len(lab.query("log")) == 81
        assert not leftovers(lab)


def test_recovery_begins_behind_the_whole_group_of_a_bookmark(tmp_path: Path) -> None:
    point = f"<RecoveryPoint>{hash_client_name('sink')}|1|</RecoveryPoint>"
    lab = Lab(tmp_path, config_xml(topic_xml("log", point), ("log",)))
    run(lab, "log", [message(id=1), message(id=2)], publisher=("sink", 1))
    lab.publish("log", message(id=3))
    lab.forget("log")
    assert lab.query("log") == [message(id=3)]
