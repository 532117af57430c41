"""The fold, without a virtual machine: what it makes of any history, however it is cut, is what a replay makes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from msgspec.structs import replace

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.keys.limits import KEY_LIMITS
from sowctl.engine.keys.presentkeys import SAMPLE_RECORDS
from sowctl.engine.maintenance.retention.journal_repair import repair_journal
from sowctl.engine.options import DeleteOptions, ReplayOptions
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.snapshot import write_snapshot
from sowctl.errors import DamageError, RefusedError, SowError
from sowctl.journal.block import Gap
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.remote.place import parse_url
from sowctl.spark.jobs import rebuild as rebuilding
from sowctl.spark.jobs import state
from sowctl.spark.jobs.folds import distributed_fold, fold_layout, key_sample, two_pass_fold
from sowctl.spark.jobs.folds.distributed_fold import prepare_fold
from sowctl.spark.jobs.folds.fold_layout import MAX_REDUCE_TASKS, MAX_SHUFFLE_BLOCKS, FoldLayout, choose_layout
from sowctl.spark.jobs.folds.run_spool import RunSpool
from sowctl.spark.jobs.folds.runs import Run, RunFacts, encode_stream
from sowctl.spark.jobs.folds.two_pass_fold import can_gather, gather_records
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.outputs import storefile
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.rebuild import rebuild
from sowctl.spark.jobs.snapshot import snapshot
from sowctl.spark.jobs.view_groups import count_buckets
from sowctl.spark.jobs.visibility import FileVisibility
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.store.codec import extract_payloads
from tests.support.examples import choose_cases
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified
from tests.support.rdds import Session, numbers
from tests.support.staged import run

NAMES = ("log", "past", "brief", "all")
TOPICS = (
    topic_xml("log"),
    topic_xml("past", "<History><Window>40s</Window><Granularity>3s</Granularity></History>"),
    topic_xml("brief", "<Expiration>30s</Expiration>"),
    topic_xml("all", "<Pattern>^/[ab]</Pattern>"),
)
XML = config_xml("".join(TOPICS), NAMES)


def play(lab: Lab, rng: random.Random) -> None:
    """A history: publishes of one message and of many, bulk loads, deletions, time."""
    for step in range(rng.randrange(15, 40)):
        topic = rng.choice(("log", "log", "past", "brief", "/a", "/b"))
        first, count = rng.randrange(30), rng.choice((1, 5, 25, 60))
        kind = rng.random()
        if kind < 0.15:
            lab.clock.tick(rng.randrange(20) / 2)
        elif kind < 0.3 and not topic.startswith("/"):
            target = Target(topic=lab.open().topic(topic).config)
            delete_records(lab.open(), [target], DeleteOptions(filter=f"/id >= {first} AND /id < {first + 7}"))
        else:
            pads = ["x" * rng.randrange(90) for _ in range(count)]
            payloads = [message(id=first + n, v=step, pad=pad) for n, pad in enumerate(pads)]
            if rng.random() < 0.2 and not topic.startswith("/"):
                run(lab, topic, payloads[: count // 2], payloads[count // 2 :])
            else:
                lab.publish(topic, *payloads)


def cut_small(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Any sizes of stretches, handfuls, parts; one shuffle or two; spools that use their file or need not."""
    names = iter(numbers())
    for module in (distributed_fold, two_pass_fold, rebuilding, storefile):
        monkeypatch.setattr(module, "format_attempt_name", lambda: next(names))
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", rng.choice((3, 20, 1024)))
    monkeypatch.setattr(JOB_LIMITS, "min_task_bytes", rng.choice((1, 1 << 20)))
    monkeypatch.setattr(JOB_LIMITS, "fold_batch_bytes", rng.choice((1, 2000, 1 << 25)))
    monkeypatch.setattr(PARTITION_LIMITS, "partition_bytes", rng.choice((1, 1100, 5000, 1 << 25)))
    monkeypatch.setattr(PARTITION_LIMITS, "max_partitions", 1 << 20)
    monkeypatch.setattr(JOB_LIMITS, "part_bytes", rng.choice((500, 6000, 1 << 25)))
    monkeypatch.setattr(JOB_LIMITS, "spool_buffer_bytes", rng.choice((1, 1000, 1 << 25)))
    monkeypatch.setattr(JOB_LIMITS, "min_separate_bytes", rng.choice((0, 1 << 20)))
    monkeypatch.setattr(JOB_LIMITS, "max_gather_txids", rng.choice((0, 100, 1 << 20)))
    monkeypatch.setattr(JOB_LIMITS, "range_bytes", rng.choice((300, 5000, 1 << 20)))
    monkeypatch.setattr(JOB_LIMITS, "max_ranges", rng.choice((2, 256)))
    monkeypatch.setattr(JOB_LIMITS, "piece_buffer_bytes", rng.choice((1, 2000, 1 << 20)))
    monkeypatch.setattr(FOLD_LIMITS, "bucket_bytes", rng.choice((200, 1 << 25)))
    monkeypatch.setattr(FOLD_LIMITS, "max_bucket_files", rng.choice((3, 64)))
    blocks = rng.choice((10, 100, MAX_SHUFFLE_BLOCKS))
    monkeypatch.setattr(
        distributed_fold, "choose_layout", lambda maps, size, parallel: choose_layout(maps, size, parallel, blocks)
    )


def digest_of(lab: Lab, path: Path) -> tuple[str, int, int]:
    found = compute_digest(replace(lab.open(), config=None), Target(path=path))
    return found.digest, found.records, found.txid


@pytest.mark.parametrize("seed", choose_cases(range(60), 20))
def test_a_fold_is_a_replay_however_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deep: bool, seed: int
) -> None:
    if seed >= 4 and not deep:
        pytest.skip("--deep runs these")
    rng = random.Random(seed)
    cut_small(monkeypatch, rng)
    spark = cast(Any, Session(rng.choice((1, 2, 7)), seed))
    with verified(Lab(tmp_path, XML, journal_size=rng.choice((3000, 20_000, 1 << 20)))) as lab:
        lab.publish("log", message(id=0))
        play(lab, rng)
        instance = lab.open()
        # A topic with History sends all of them through a shuffle.
        left_out = rng.choice(("past", ""))
        topics = [topic for topic in instance.topics if topic.journalled and topic.name != left_out]
        before = {topic.name: lab.digest(topic.name) for topic in topics if lab.store(topic.name).exists()}
        told = rebuild(spark, instance, topics)
        assert {name: lab.digest(name) for name in before} == before
        assert told.partitions == spark.sparkContext.tasks
        for topic in topics:
            assert lab.open().topic(topic.name).replay().action in ("current", "skipped")
        until = rng.randrange(1, told.read + 1)
        options = ReplayOptions(until_txid=until, into=str(tmp_path / "spark"))
        rebuild(spark, instance, topics, options)
        replay_topics(instance, topics, replace(options, into=str(tmp_path / "here")))
        files = [sorted(path.name for path in (tmp_path / place).glob("*.sow")) for place in ("spark", "here")]
        assert files[0] == files[1]
        for name in files[0]:
            assert digest_of(lab, tmp_path / "spark" / name) == digest_of(lab, tmp_path / "here" / name)
        for name in ("log", "past", "brief", "all", "/a"):
            same_past(spark, lab, name, rng.randrange(START, lab.clock.at + 1))
        assert not list(tmp_path.rglob("*.staging*"))


def same_past(spark: Any, lab: Lab, name: str, at: int | None) -> None:
    """A snapshot of a topic at an instant, made both ways: the same store, or the same refusal."""
    instance = lab.open()
    try:
        config = instance.topic(name).config
    except SowError:
        return
    found: list[object] = []
    for who in ("spark", "here"):
        path = lab.directory / f"{who}.sow"
        try:
            if who == "spark":
                snapshot(spark, instance, config, at, Output(str(path), force=True))
            else:
                write_snapshot(instance, Target(topic=config), instance.now if at is None else at, path)
            found.append(digest_of(lab, path))
            path.unlink()
        except SowError as error:
            found.append(error.code)
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(2))
def test_a_missing_store_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    cut_small(monkeypatch, rng)
    spark = cast(Any, Session())
    lab = Lab(tmp_path, XML, journal_size=5000)
    play(lab, rng)
    for name in ("log", "past", "brief"):
        lab.publish(name, *[message(id=n) for n in range(5)])
        path = tmp_path / "whole.sow"
        write_snapshot(lab.open(), Target(topic=lab.open().topic(name).config), lab.clock.at, path)
        wanted = digest_of(lab, path)
        path.unlink()
        lab.forget(name)
        before = spark.sparkContext.shuffle_blocks
        snapshot(spark, lab.open(), lab.open().topic(name).config, None, Output(str(path)))
        assert spark.sparkContext.shuffle_blocks > before
        assert digest_of(lab, path) == wanted
        path.unlink()


def test_gaps_are_told_once_by_whoever_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, random.Random(1))
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 5)
    lab = Lab(tmp_path, XML, journal_size=5000)
    for step in range(20):
        lab.publish("log", *[message(id=n, v=step, pad="x" * n) for n in range(30)])
    for path in lab.journals()[:-1:2]:
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    instance = lab.open()
    repair_journal(instance)
    topic = instance.topic("log").config
    with open_log(instance) as log:
        gaps, entries = list(log.iter_gaps()), sum(map(len, log.iter_blocks()))
        told: list[Gap] = []
        log.on_gap = told.append
        spark = cast(Any, Session())
        result = prepare_fold(spark, log, [topic], until=log.read_last_txid(), at=None).write_files(tmp_path)
        assert told == gaps and len(gaps) > 1
        told.clear()
        gathered = gather_records(spark, log, [topic], tmp_path, until=log.read_last_txid(), at=None)
    assert told == gaps
    assert gathered.entries == result.entries == (entries,)
    assert gathered.last_txid == result.last_txid
    assert gathered.latest == result.latest


def test_a_rebuild_shuffles_nothing_that_the_driver_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, random.Random(3))
    monkeypatch.setattr(JOB_LIMITS, "max_gather_txids", 90)
    lab = Lab(tmp_path, XML)
    lab.publish("log", *[message(id=n % 40) for n in range(90)])
    lab.publish("brief", message(id=1))
    instance = lab.open()
    one, other, past = (instance.topic(name).config for name in ("log", "brief", "past"))
    with open_log(instance) as log:
        assert can_gather(log, [one, other], 90)
        assert not can_gather(log, [one], 91)
        assert not can_gather(log, [one, past], 1)
        # Of few entries that are large, a range of keys would be larger than a task holds.
        monkeypatch.setattr(JOB_LIMITS, "max_gather_bytes", 5000)
        assert not can_gather(log, [one], 90)
        monkeypatch.setattr(JOB_LIMITS, "max_gather_bytes", 20_000)
        assert can_gather(log, [one], 90)
    shuffled = []
    for limit in (90, 91):
        monkeypatch.setattr(JOB_LIMITS, "max_gather_txids", limit)
        spark = cast(Any, Session())
        told = rebuild(spark, instance, [one])
        assert (told.read, told.records) == (90, 40)
        shuffled.append(spark.sparkContext.shuffle_blocks)
    assert shuffled[0] > 0 and shuffled[1] == 0


def test_a_staged_piece_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, random.Random(3))
    lab = Lab(tmp_path, XML)
    lab.publish("log", *[message(id=n) for n in range(90)])
    instance = lab.open()
    with open_log(instance) as log:
        topic = instance.topic("log").config
        found = gather_records(cast(Any, Session()), log, [topic], tmp_path, until=log.read_last_txid(), at=None)
    assert sum(len(keys) for keys, _ in found.read_records(0)) == 90
    path = next(tmp_path.glob("records-*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamageError) as caught:
        list(found.read_records(0))
    assert (caught.value.code, caught.value.place) == ("SOW-SPK-061", str(path))
    path.unlink()
    with pytest.raises(DamageError) as caught:
        list(found.read_records(0))
    assert (caught.value.code, caught.value.place) == ("SOW-SPK-158", str(path))


def test_pieces_of_many_tasks_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, random.Random(3))
    monkeypatch.setattr(JOB_LIMITS, "min_task_bytes", 1)
    monkeypatch.setattr(PARTITION_LIMITS, "partition_bytes", 1)
    monkeypatch.setattr(JOB_LIMITS, "range_bytes", 300)
    monkeypatch.setattr(JOB_LIMITS, "max_open_files", 2)
    lab = Lab(tmp_path, XML)
    for start in range(0, 300, 30):
        lab.publish("log", *[message(id=n, pad="x" * 40) for n in range(start, start + 30)])
    instance = lab.open()
    with open_log(instance) as log:
        topic = instance.topic("log").config
        found = gather_records(cast(Any, Session()), log, [topic], tmp_path, until=log.read_last_txid(), at=None)
    files: list[Any] = []
    most = 0

    def opened(path: Path) -> Any:
        nonlocal most
        files.append(path.open("rb"))
        most = max(most, sum(not file.closed for file in files))
        return files[-1]

    monkeypatch.setattr(two_pass_fold, "open_staged_file", opened)
    assert sum(len(keys) for keys, _ in found.read_records(0)) == 300
    assert len({piece.path for bucket in found.pieces[0] for piece in bucket}) > 3
    assert most == 3 and all(file.closed for file in files)


def test_a_record_under_another_key_is_found_in_whatever_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "format_attempt_name", lambda: "1")
    monkeypatch.setattr(two_pass_fold, "format_attempt_name", lambda: "1")
    with Lab(tmp_path, config_xml(topic_xml("log", key="/a"), ("log",))).open() as before:
        # One message in a hundred has another key under the definition that comes.
        for start in range(0, 200, 50):
            before.topic("log").publish(message(a=n, b=n) for n in range(start, start + 50))
        before.topic("log").publish([message(a=200, b=-1)])
    instance = Lab(tmp_path, config_xml(topic_xml("log", key="/b"), ("log",))).open()
    for apart in (0, 1 << 20):
        monkeypatch.setattr(JOB_LIMITS, "min_separate_bytes", apart)
        options = ReplayOptions(into=str(tmp_path / "new"))
        with pytest.raises(RefusedError, match="keys from the fields /b"):
            rebuild(cast(Any, Session()), instance, instance.topics, options)
        assert not list((tmp_path / "new").glob("*.sow"))


@pytest.mark.parametrize("seed", range(30))
def test_of_every_block_the_records_are_chosen_that_a_replay_sees(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    import numpy as np

    rng = random.Random(seed)
    monkeypatch.setattr(JOB_LIMITS, "window_txids", rng.choice((8, 64, 1 << 20)))
    first, share = rng.randrange(1, 1000), rng.random()
    starts, winners, wanted, txid = [], [], [], first
    for _ in range(rng.randrange(12)):
        txid += rng.choice((0, 0, 100))
        count = rng.choice((1, 3, 17, 200))
        left = [one for one in range(txid, txid + count) if rng.random() < share]
        starts.append(txid)
        winners += left
        # What KeyCheck.see() takes of a block.
        wanted += left[:: -(-len(left) // SAMPLE_RECORDS) or 1]
        txid += count
    sample, begun, won = (key_sample.TxidSet(first, txid) for _ in range(3))
    begun.add(np.array(starts, dtype=np.uint64))
    won.add(np.array(winners, dtype=np.uint64))
    key_sample.choose_sample(sample, begun, won)
    assert [one for window in sample.iterate_windows() for one in window.tolist()] == wanted
    everything = np.arange(first, txid, dtype=np.uint64)
    assert everything[sample.mask_members(everything) != 0].tolist() == wanted


QUICK_SEEDS = (6, 18, 56, 108, 144, 155)
"""Histories of which five are refused."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The histories of keys that are refused: 400 in the deep form."""
    if "history" in metafunc.fixturenames:
        metafunc.parametrize("history", range(400) if metafunc.config.getoption("--deep") else QUICK_SEEDS)


def test_a_fold_refuses_the_keys_that_a_replay_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: int
) -> None:
    rng = random.Random(history)
    cut_small(monkeypatch, rng)
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", rng.choice((1, 3, 20, 90, 1024)))
    monkeypatch.setattr(JOB_LIMITS, "window_txids", rng.choice((8, 64, 1 << 20)))
    monkeypatch.setattr(FOLD_LIMITS, "compared_key_entries", rng.choice((2, 8, 64)))
    monkeypatch.setattr(KEY_LIMITS, "check_batch_records", rng.choice((1, 10, 1000)))
    monkeypatch.setattr(rebuilding, "is_local", lambda _: here)
    versions = "<History><Window>40s</Window><Granularity>3s</Granularity></History>"
    size = rng.choice((3000, 20_000, 1 << 20))

    def lab_of(key: str) -> Lab:
        topics_xml = topic_xml("log", key=key), topic_xml("past", versions, key=key), topic_xml("other", key=key)
        return Lab(tmp_path, config_xml("".join(topics_xml), ("log", "past", "other")), journal_size=size)

    # A record has another key under the definition that comes where its b is not its a: mostly one in a run, or a few.
    lab, planted = lab_of("/a"), rng.choice((0, 1, 1, 1, 2, 6))
    steps = rng.randrange(5, 15)
    for step in range(steps):
        name, first, count = rng.choice(("log", "log", "past", "other")), rng.randrange(60), rng.choice((1, 8, 40, 150))
        if rng.random() < 0.25:
            lab.clock.tick(rng.randrange(10) / 2)
            target = Target(topic=lab.open().topic(name).config)
            delete_records(lab.open(), [target], DeleteOptions(filter=f"/a >= {first} AND /a < {first + 7}"))
            continue
        wrong = {first + rng.randrange(count) for _ in range(planted)} if rng.random() < 2 / steps else set()
        rows = [(number, number + 1000 * (number in wrong)) for number in range(first, first + count)]
        lab.publish(name, *[message(a=a, b=b, v=step) for a, b in rows])
    instance = lab_of("/b").open()
    topics_xml = [topic for topic in instance.topics if rng.random() < 0.8] or list(instance.topics)
    rng.shuffle(topics_xml)
    into = tmp_path / "new"
    until = rng.choice((None, None, rng.randrange(1, 300)))
    options = ReplayOptions(into=str(into), until_txid=until)

    def outcome(made: Callable[[], object]) -> tuple[object, list[object]]:
        """How it ended, and the stores that were put in place."""
        told = None
        try:
            made()
        except RefusedError as error:
            told = error.code, str(error), error.place, error.hint
        stores: list[object] = [(path.name, digest_of(lab, path)) for path in sorted(into.glob("*.sow"))]
        shutil.rmtree(into, ignore_errors=True)
        return told, stores

    wanted = outcome(lambda: replay_topics(instance, topics_xml, options))
    for here, gathered in ((True, 0), (True, 1 << 20), (False, 0), (False, 1 << 20)):
        monkeypatch.setattr(JOB_LIMITS, "max_gather_txids", gathered)
        spark = cast(Any, Session(rng.choice((1, 2, 7)), history))
        assert outcome(lambda: rebuild(spark, instance, topics_xml, options)) == wanted, (here, gathered)  # noqa: B023


def test_a_topic_that_is_named_twice_is_rebuilt_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, random.Random(3))
    monkeypatch.setattr(JOB_LIMITS, "min_separate_bytes", 0)
    lab = Lab(tmp_path, XML)
    for name in ("log", "brief"):
        lab.publish(name, *[message(id=n) for n in range(20)])
    instance = lab.open()
    one, other = (instance.topic(name).config for name in ("log", "brief"))
    assert rebuild(cast(Any, Session()), instance, [one, other, one]).records == 40


def test_shapes_keep_to_the_bound() -> None:
    giga, tera = 1 << 30, 1 << 40
    assert choose_layout(4, 1 << 20, 2) == FoldLayout(4, 1)
    assert choose_layout(4, giga, 2) == FoldLayout(4, 16)
    assert choose_layout(3, 10 << 20, 8) == FoldLayout(3, 8)
    for size, ratio in ((giga, 1), (100 * giga, 5), (tera, 5), (3 * tera, 1), (10 * tera, 5), (50 * tera, 5)):
        for maps in (size // (256 << 20), min(size // (64 << 20), fold_layout.MAX_MAP_TASKS)):
            for parallel in (2, 400, 4000):
                shape = choose_layout(maps, size * ratio, parallel)
                assert shape.shuffle_blocks <= MAX_SHUFFLE_BLOCKS
                assert shape.buckets * shape.parts * JOB_LIMITS.part_bytes >= size * ratio
                assert shape.buckets % shape.coarse == 0
    assert choose_layout(40_000, 48 * tera, 400).slices > 1
    assert choose_layout(40_000, 48 * tera, 400).buckets >= MAX_REDUCE_TASKS
    assert choose_layout(2_000, 10 * tera, 400).slices == 1


@pytest.mark.parametrize("held", [1, 3000, 1 << 25])
def test_a_spool_gives_back_what_it_took_by_parts(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    import pyarrow as pa

    monkeypatch.setattr(JOB_LIMITS, "spool_buffer_bytes", held)
    rng = random.Random(held)
    txids = list(range(1, 2000))
    keys = [rng.randrange(1 << 63, 1 << 64) for _ in range(300)]
    rows = [(rng.choice(keys), txid) for txid in txids]
    runs = []
    for start in range(0, len(rows), 100):
        some = sorted(rows[start : start + 100])
        columns = {"key": pa.array([key for key, _ in some], pa.uint64()), "txid": pa.array([txid for _, txid in some])}
        runs.append(Run(start + 1, RunFacts(1, 1, 1), encode_stream(pa.table(columns)), start // 100 % 2))
    rng.shuffle(runs)
    # The upper half of the key space, in 8 parts of 16.
    with RunSpool(8, 8, 16) as spool:
        for run in runs:
            spool.add(run)
        for topic in (0, 1):
            parts = list(spool.read_parts(topic))
            wanted = [row for row in rows if (row[1] - 1) // 100 % 2 == topic]
            found = [(key, txid) for _, one in parts for key, txid in zip(*one.to_pydict().values(), strict=True)]
            assert sorted(found) == sorted(wanted)
            for key in keys:
                assert [txid for one, txid in found if one == key] == [txid for one, txid in wanted if one == key]
            if held == 1:
                assert len(parts) == 8
                edges = [(min(one["key"].to_pylist()), max(one["key"].to_pylist())) for _, one in parts]
                assert edges == sorted(edges)
            assert list(spool.read_parts(topic)) == []


def test_views_keep_to_the_bound_too() -> None:
    assert count_buckets([1], 2) == 2
    assert count_buckets([7, 3], 2) == 7
    assert count_buckets([1000], 8) == 1000
    for parts in ([state.MAX_PARTS], [state.MAX_PARTS] * 4, [40_000], [3, 400_000]):
        assert sum(parts) * count_buckets(parts, 400) * len(parts) <= MAX_SHUFFLE_BLOCKS
    assert count_buckets([3_000_000], 8) == 1


def test_a_topic_without_entries_where_this_process_reads_for_the_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_small(monkeypatch, random.Random(3))
    lab = Lab(tmp_path, XML)
    lab.publish("log", message(id=1), message(id=2))
    instance = lab.open()
    found = []
    with open_log(instance) as log:
        for name in ("log", "brief"):
            topic = instance.topic(name).config
            done = prepare_fold(cast(Any, Session()), log, [topic], until=log.read_last_txid(), at=None, seen=False)
            found.append(done.write_files(tmp_path).entries)
    assert found == [(2,), (0,)]


def test_a_copy_of_the_past_is_sent_to_a_url_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, random.Random(3))
    lab = Lab(tmp_path / "lab", XML, journal_size=1)
    for step in range(3):
        lab.publish("log", *[message(id=n, v=step) for n in range(step, 5)])
        lab.clock.tick(1)
    at = lab.clock.at - 500_000
    lab.publish("log", message(id=4, v=9))
    wanted = lab.query("log", at=at)
    lab.journals()[0].unlink()
    stage = tmp_path / "stage"
    topic = lab.open().topic("log").config
    found = state.plan_state(
        cast(Any, Session()), lab.open(), topic, at, parse_url(str(stage)), FileVisibility(stores=False)
    )
    assert not isinstance(found, state.FoldedState)
    assert len(list(stage.iterdir())) == len(found)
    held = [value for part in found for _, values in part.iterate_pairs() for value in values]
    assert sorted(bytes(one).decode() for one in extract_payloads(held)) == sorted(wanted)
