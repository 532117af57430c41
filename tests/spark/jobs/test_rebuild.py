"""rebuild and the other jobs on any history: what Spark makes of it is what one process makes of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.engine.options import DeleteOptions, ReplayOptions
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.snapshot import write_snapshot
from sowctl.errors import RefusedError, SowError, UsageError
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.spark.jobs import rebuild as rebuilding
from sowctl.spark.jobs.export import export
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.load import LoadOptions, load
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.rebuild import rebuild
from sowctl.spark.jobs.snapshot import snapshot
from sowctl.spark.reading.limits import PARTITION_LIMITS
from tests.spark.jobs.test_outputs import read_lines
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("log", "past", "brief", "own")
TOPICS = (
    topic_xml("log"),
    topic_xml("past", "<History><Window>40s</Window><Granularity>3s</Granularity></History>"),
    topic_xml("brief", "<Expiration>30s</Expiration>"),
    topic_xml("own", key=None),
    topic_xml("alone"),
)
XML = config_xml("".join(TOPICS), NAMES)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["publish", "publish", "publish", "delete", "tick"]),
        st.integers(0, 30),
        st.integers(1, 25),
    ),
    min_size=10,
    max_size=40,
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many stretches and buckets though there is little."""
    monkeypatch.setattr(JOB_LIMITS, "min_task_bytes", 1)
    monkeypatch.setattr(PARTITION_LIMITS, "partition_bytes", 2000)
    monkeypatch.setattr(JOB_LIMITS, "fold_batch_bytes", 3000)
    monkeypatch.setattr(JOB_LIMITS, "part_bytes", 6000)
    monkeypatch.setattr(JOB_LIMITS, "min_separate_bytes", 0)


def play(lab: Lab, steps: list[tuple[str, str, int, int]]) -> None:
    """A history, in journals of several files."""
    for number, (topic, kind, first, count) in enumerate(steps):
        if kind == "tick":
            lab.clock.tick(count / 2)
        elif kind == "delete":
            target = Target(topic=lab.open().topic(topic).config)
            if topic != "own":
                delete_records(
                    lab.open(), [target], DeleteOptions(filter=f"/id >= {first} AND /id < {first + count // 3}")
                )
        elif topic == "own":
            lab.publish(topic, message(n=number), sow_key=f"k{first}")
        else:
            lab.publish(topic, *[message(id=n, v=number, pad="x" * n) for n in range(first, first + count)])


def digests(lab: Lab) -> dict[str, str]:
    found = {}
    for name in NAMES:
        if lab.store(name).exists():
            found[name] = lab.digest(name)
    return found


@given(STEPS)
@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink would take minutes
    suppress_health_check=list(HealthCheck),
)
def test_equals_a_replay(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int, int]]
) -> None:
    directory = tmp_path_factory.mktemp("rebuild")
    with verified(Lab(directory, XML, journal_size=6000)) as lab:
        lab.publish("log", *[message(id=n, v="first") for n in range(50)])
        play(lab, steps)
        wanted = digests(lab)
        instance = lab.open()
        told = rebuild(spark, instance, instance.topics)
        found = digests(lab)
        assert {name: found[name] for name in wanted} == wanted
        assert told.read == instance_entries(lab)
        for name in NAMES:
            assert lab.open().topic(name).replay().action in ("current", "skipped")
        until = told.read // 2
        for place, job in (("spark", rebuild), ("here", None)):
            options = ReplayOptions(until_txid=until, into=str(directory / place))
            topics = [instance.topic("log").config, instance.topic("past").config]
            if job is None:
                replay_topics(instance, topics, options)
            else:
                rebuild(spark, instance, topics, options)
        for name in ("log", "past"):
            files = [directory / place / f"{name}.json.sow" for place in ("spark", "here")]
            one, other = (lab_digest(lab, path) for path in files)
            assert one == other
        for name in ("log", "past", "brief"):
            same_past(spark, lab, name, (START + lab.clock.at) // 2)
        same_messages(spark, lab, "log")
        assert not list(directory.rglob("*.staging*"))


def same_past(spark: SparkSession, lab: Lab, name: str, at: int) -> None:
    """A snapshot of a topic at an instant, made both ways: the same store, or the same refusal."""
    instance = lab.open()
    config = instance.topic(name).config
    paths = [lab.directory / f"{name}-{who}.sow" for who in ("spark", "here")]
    refused = []
    for path in paths:
        try:
            if path is paths[0]:
                snapshot(spark, instance, config, at, Output(str(path)))
            else:
                write_snapshot(instance, Target(topic=config), at, path)
        except SowError as error:
            refused.append(error.code)
    assert len(refused) in (0, 2)
    if refused:
        assert refused[0] == refused[1]
    else:
        assert lab_digest(lab, paths[0]) == lab_digest(lab, paths[1])


def same_messages(spark: SparkSession, lab: Lab, name: str) -> None:
    """All records exported equal a query; loaded into an empty instance they equal a publish of the same lines."""
    instance = lab.open()
    config = instance.topic(name).config
    output = lab.directory / "lines"
    export(spark, instance, [config], Output(str(output), "ndjson"))
    lines = read_lines(output)
    assert lines == lab.query(name)
    with verified(Lab(lab.directory / "bulk", XML)) as bulk, verified(Lab(lab.directory / "plain", XML)) as plain:
        if lines:
            fresh = bulk.open()
            load(spark, fresh, fresh.topic(name).config, [str(output)], LoadOptions("ndjson", split_bytes=500))
            plain.publish(name, *lines)
            assert bulk.digest(name) == plain.digest(name)


def instance_entries(lab: Lab) -> int:
    from sowctl.engine.verbs.journal import EntryFilter, dump_entries

    return sum(len(batch.records) for batch in dump_entries(lab.open(), EntryFilter()))


@pytest.mark.parametrize("way", ["shuffled", "elsewhere"])
def test_a_record_under_another_key_is_refused_as_by_a_replay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Through a shuffle, and where tasks run on other machines; the error names the same record."""
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 40)
    monkeypatch.setattr(JOB_LIMITS, "min_task_bytes", 1500)
    if way == "shuffled":
        monkeypatch.setattr(JOB_LIMITS, "max_gather_txids", 0)
    else:
        monkeypatch.setattr(rebuilding, "is_local", lambda _: False)
    before, after = (config_xml(topic_xml("log", key=key), ("log",)) for key in ("/a", "/b"))
    lab = Lab(tmp_path, before)
    # Of what a block has left, every third record is looked at: the two that are found stand in different tasks, and
    # one that is not found is between them; one was looked at before a later message replaced it.
    wrong = {0: 9000, 120: 9120, 122: 9122, 240: 9240}
    lab.publish("log", *[message(a=n, b=wrong.get(n, n)) for n in range(320)])
    lab.publish("log", message(a=0, b=0))
    options = ReplayOptions(into=str(tmp_path / "new"))
    instance = Lab(tmp_path, after).open()
    told = []
    for made in (partial(rebuild, spark), replay_topics):
        with pytest.raises(RefusedError) as caught:
            made(instance, instance.topics, options)
        told.append((caught.value.code, str(caught.value), caught.value.place, caught.value.hint))
        assert not list((tmp_path / "new").glob("*.sow"))
    assert told[0] == told[1]
    assert told[0][0] == "SOW-RPL-010"
    lab = Lab(tmp_path, before)
    lab.publish("log", message(a=120, b=120), message(a=240, b=240))
    lab = Lab(tmp_path, after)
    # What a replay does not look at, it takes, and so does a rebuild.
    assert [one.records for one in replay_topics(lab.open(), lab.open().topics, options)] == [320]
    assert rebuild(spark, lab.open(), lab.open().topics, replace(options, force=True)).records == 320


def lab_digest(lab: Lab, path: Path) -> tuple[str, int, int]:
    from sowctl.engine.sources.digest import compute_digest

    found = compute_digest(replace(lab.open(), config=None), Target(path=path))
    return found.digest, found.records, found.txid


def test_until_an_instant(spark: SparkSession, tmp_path: Path) -> None:
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        for second in range(4):
            lab.publish("log", *[message(id=n, v=second) for n in range(second, 20)])
            lab.clock.tick(1)
        instance = lab.open()
        topic = instance.topic("log").config
        at = START + 1_500_000
        rebuild(spark, instance, [topic], ReplayOptions(until_time=at, into=str(tmp_path / "a")))
        replay_topics(instance, [topic], ReplayOptions(until_time=at, into=str(tmp_path / "b")))
        assert lab_digest(lab, tmp_path / "a" / "log.json.sow") == lab_digest(lab, tmp_path / "b" / "log.json.sow")


def test_what_a_replay_refuses_is_refused_before_the_work(spark: SparkSession, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", XML, journal_size=2000)
    for start in range(0, 200, 20):
        lab.publish("log", *[message(id=n % 5, v=n, pad="x" * 20) for n in range(start, start + 20)])
    instance = lab.open()
    with pytest.raises(UsageError):
        rebuild(spark, instance, instance.topics, ReplayOptions(until_txid=5))
    with pytest.raises(UsageError):
        rebuild(spark, instance, instance.topics, ReplayOptions(verify=True))
    before = lab.digest("log")
    lab.journals()[0].unlink()
    with pytest.raises(RefusedError) as caught:
        rebuild(spark, instance, [instance.topic("log").config])
    assert caught.value.code == "SOW-RPL-002"
    assert lab.digest("log") == before
    assert not list(lab.directory.rglob("*.staging*"))
    told = rebuild(spark, instance, [instance.topic("alone").config])
    assert told.details["topics"][0]["action"] == "skipped"
