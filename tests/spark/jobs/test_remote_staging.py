"""Jobs whose executors share no file system with the driver: staging at a URL, archives there, the tail from here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from sowctl.engine.instance import Instance
from sowctl.engine.maintenance.retention.archive import archive_to_url
from sowctl.engine.options import ReplayOptions
from sowctl.engine.verbs.replay import replay_topics
from sowctl.errors import ConfigError, DamageError, StorageError, UsageError
from sowctl.remote.place import Place, RemotePath, parse_url
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs import visibility
from sowctl.spark.jobs.folds import distributed_fold
from sowctl.spark.jobs.load import LoadOptions, load
from sowctl.spark.jobs.outputs import delivery
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.rebuild import rebuild
from sowctl.spark.jobs.snapshot import snapshot
from sowctl.spark.jobs.view import AdHocView, view
from tests.spark.conftest import stock
from tests.spark.jobs.test_rebuild import lab_digest
from tests.spark.test_remote import with_key
from tests.support.instances import Lab, message
from tests.support.objectstore import ObjectStore, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOURNALLED = ("orders", "chosen", "past")


@pytest.fixture(scope="module")
def shore(spark: SparkSession) -> Iterator[ObjectStore]:
    with serving() as store:
        yield store


@pytest.fixture(scope="module")
def split(shore: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Lab, str]:
    """An instance whose oldest files lie at a URL alone, its like with all files here, and the URL."""
    whole = stock(tmp_path_factory.mktemp("whole"), 3000)
    lab = Lab(tmp_path_factory.mktemp("split") / "lab", whole.xml, clock=whole.clock)
    shutil.copytree(whole.directory, lab.directory, dirs_exist_ok=True)
    url = with_key(shore, "journal")
    sent = list(archive_to_url(lab.open(), parse_url(url)))
    assert len(sent) > 4
    for one in sent[:-2]:
        one.path.unlink()
    return lab, whole, url


@pytest.fixture
def stage(shore: ObjectStore) -> Iterator[RemotePath]:
    yield parse_url(with_key(shore, "stage"))
    # nothing but the marks of directories is left
    assert [name for name in shore.names("stage/") if shore.objects["lake/stage/" + name]] == []


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a cluster whose executors see nothing of this machine."""
    probes_of = visibility.list_probes

    def elsewhere(instance: Instance, shared: Place | None = None) -> list[visibility.Probe]:
        found = probes_of(instance, shared)
        return [replace(one, place=tmp_path / "no") if isinstance(one.place, Path) else one for one in found]

    monkeypatch.setattr(visibility, "is_local", lambda master: False)
    monkeypatch.setattr(visibility, "list_probes", elsewhere)


def topics(instance: Instance, *names: str):  # type: ignore[no-untyped-def]
    return [one for one in instance.topics if one.name in names]


def digests(lab: Lab, into: Path) -> dict[str, tuple[str, int, int]]:
    return {name: lab_digest(lab, into / f"{name}.json.sow") for name in JOURNALLED}


def rebuilt(
    spark: SparkSession, lab: Lab, url: str, into: Path, stage: RemotePath | None = None
) -> dict[str, tuple[str, int, int]]:
    instance = lab.open().with_archive(parse_url(url))
    options = ReplayOptions(into=str(into))
    report = rebuild(spark, instance, topics(instance, *JOURNALLED), options, staging_directory=stage)
    assert "secret" not in json.dumps(report.details, default=str)
    return digests(lab, into)


def test_a_rebuild_of_what_is_there_and_here(
    spark: SparkSession, split: tuple[Lab, Lab, str], stage: RemotePath, tmp_path: Path
) -> None:
    lab, whole, url = split
    instance = whole.open()
    replay_topics(instance, topics(instance, *JOURNALLED), ReplayOptions(into=str(tmp_path / "engine")))
    wanted = digests(whole, tmp_path / "engine")
    assert rebuilt(spark, lab, url, tmp_path / "spark", stage) == wanted
    joined = lab.open().with_archive(parse_url(url))
    replay_topics(joined, topics(joined, *JOURNALLED), ReplayOptions(into=str(tmp_path / "joined")))
    assert digests(lab, tmp_path / "joined") == wanted


def test_executors_that_see_the_url_alone(
    spark: SparkSession,
    split: tuple[Lab, Lab, str],
    stage: RemotePath,
    apart: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deep: bool,
) -> None:
    if not deep:
        pytest.skip("--deep runs this")
    lab, whole, url = split
    told: list[tuple[object, int, int]] = []
    shuffled = distributed_fold._shuffle_runs

    def watched(spark, plan, stretches, mapper, own):  # type: ignore[no-untyped-def]
        told.append((plan.origin, len(stretches), len(own)))
        return shuffled(spark, plan, stretches, mapper, own)

    monkeypatch.setattr(distributed_fold, "_shuffle_runs", watched)
    instance = whole.open()
    replay_topics(instance, topics(instance, *JOURNALLED), ReplayOptions(into=str(tmp_path / "engine")))
    assert rebuilt(spark, lab, url, tmp_path / "spark", stage) == digests(whole, tmp_path / "engine")
    ((origin, there, here),) = told
    assert isinstance(origin, distributed_fold.Origin) and origin.path == parse_url(url) and origin.archive is None
    assert there > 0 and here > 0
    frame = spark.read.format("sow").options(config=str(lab.config), topic="past", archive=url, columns="payload")
    lab.forget("past")
    assert sorted(bytes(row[0]).decode() for row in frame.load().collect()) == sorted(whole.query("past"))
    # states and views come from files that the driver has read
    instance = lab.open().with_archive(parse_url(url))
    (orders,) = topics(instance, "orders")
    at = lab.clock.at - 700_000_000
    for when in (None, at):
        output = Output(str(tmp_path / f"state-{when}"), "ndjson")
        snapshot(spark, instance, orders, when, output, staging_directory=stage)
        lines = b"".join(sorted(path.read_bytes() for path in Path(output.path).glob("part-*")))
        assert sorted(lines.decode().splitlines()) == sorted(whole.query("orders", at=when))
    counted = Output(str(tmp_path / "view"), "ndjson")
    asked = AdHocView("orders", ("/step", "COUNT(/id) AS /n"), ("/step",))
    view(spark, instance, asked, counted, staging_directory=stage)
    rows = [json.loads(line) for path in Path(counted.path).glob("part-*") for line in path.read_text().splitlines()]
    assert sum(row["n"] for row in rows) == len(whole.query("orders"))
    notes = [note for note in lab.notes if "executors do not see" in note]
    assert notes and "a journal file and a store" in notes[0]
    # with a directory that is to be shared they are refused, as before
    with pytest.raises(ConfigError) as caught:
        snapshot(spark, instance, orders, None, Output(str(tmp_path / "no")), staging_directory=tmp_path / "stage")
    assert caught.value.code == "SOW-SPK-141" and "--staging" in str(caught.value.hint)


def test_a_load_and_the_sink(spark: SparkSession, lab: Lab, stage: RemotePath, tmp_path: Path) -> None:
    rows = [message(id=number, price=number / 4) for number in range(300)] + ["no message"]
    (tmp_path / "in.ndjson").write_text("\n".join(rows))
    instance = lab.open()
    (past,) = topics(instance, "past")
    options = LoadOptions(
        split_bytes=2000, rejects=str(tmp_path / "bad"), publish=replace(LoadOptions().publish, on_error="skip")
    )
    report = load(spark, instance, past, [str(tmp_path / "in.ndjson")], options, staging_directory=stage)
    assert (report.records, report.rejected) == (300, 1) and b"no message" in (tmp_path / "bad").read_bytes()
    frame = spark.range(40).selectExpr("id", "'x' AS name")
    write = frame.write.format("sow").options(config=str(lab.config), topic="past", operation="delta")
    with translate_errors():
        write.option("staging", stage.url).mode("append").save()
    assert sum('"name":"x"' in row for row in lab.query("past")) == 40 and len(lab.query("past")) == 300


def test_faults_of_the_store(
    spark: SparkSession, split: tuple[Lab, Lab, str], shore: ObjectStore, stage: RemotePath, tmp_path: Path, deep: bool
) -> None:
    lab, _, url = split
    name = next(name for name in shore.names("journal/") if name.endswith(".journal"))
    key = "lake/journal/" + name
    kept = shore.objects[key]
    spoiled = {
        "SOW-JRN-083": None,
        "SOW-JRN-084": kept[:-9],
        "SOW-JRN-010": kept[:-9] + bytes(9),
    }
    for code, content in spoiled.items() if deep else [("SOW-JRN-084", kept[:-9])]:
        del shore.objects[key]
        if content is not None:
            shore.objects[key] = content
        with pytest.raises(DamageError) as caught:
            rebuilt(spark, lab, url, tmp_path / code, stage)
        assert caught.value.code == code and name in str(caught.value.place) and "secret" not in str(caught.value)
        assert not list(tmp_path.glob(f"{code}/*.sow"))
        shore.objects[key] = kept
    shore.refused.add(key)
    with pytest.raises(StorageError) as refused:
        rebuilt(spark, lab, url, tmp_path / "refused", stage)
    assert refused.value.code == "SOW-RMT-004"
    shore.refused.clear()


def test_the_local_file_system_as_a_remote_one(
    spark: SparkSession, split: tuple[Lab, Lab, str], tmp_path: Path, deep: bool
) -> None:
    """Hadoop's through the virtual machine for data sets, Arrow's for archive and staging."""
    if not deep:
        pytest.skip("--deep runs this")
    _, whole, _ = split
    far, out = parse_url(str(tmp_path / "far")), tmp_path / "out dir"
    lab = Lab(tmp_path / "lab", whole.xml, clock=whole.clock, journal_size=3000)
    shutil.copytree(whole.directory, lab.directory, dirs_exist_ok=True)
    instance = lab.open().with_archive(far)
    for one in list(archive_to_url(instance, far))[:-1]:
        one.path.unlink()
    (past,) = topics(instance, "past")
    lab.forget("past")
    wanted = whole.query("past")
    snapshot(spark, instance, past, None, Output(out.as_uri(), "parquet"), staging_directory=far / "stage")
    assert spark.read.parquet(str(out)).count() == len(wanted)
    store = tmp_path / "a store.sow"
    snapshot(spark, instance, past, None, Output(store.as_uri()), staging_directory=far / "stage")
    assert lab_digest(lab, store)[1] == len(wanted) and not list(Path.cwd().glob("file:*"))
    (orders,) = topics(instance, "orders")
    report = load(spark, lab.open(), orders, [out.as_uri()], staging_directory=far / "stage")
    assert report.records == len(wanted) and list((tmp_path / "far" / "stage").iterdir()) == []


def test_an_input_that_needs_a_directory(
    spark: SparkSession, lab: Lab, shore: ObjectStore, stage: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    shore.objects["lake/in/rows.parquet"] = b"PAR1"
    monkeypatch.setattr(delivery, "is_local", lambda master: False)
    instance = lab.open()
    (orders,) = topics(instance, "orders")
    with pytest.raises(UsageError) as caught:
        load(spark, instance, orders, [with_key(shore, "in/rows.parquet")], staging_directory=stage)
    assert caught.value.code == "SOW-SPK-159" and "secret" not in caught.value.message
