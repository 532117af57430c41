"""Whatever the size and number of partitions, the sources read what the engine reads, on random histories."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from sowctl.engine.maintenance.retention.archive import archive_to_url
from sowctl.engine.options import QueryOptions
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.query import start_query
from sowctl.errors import DamageError, SowError
from sowctl.journal.archive import manifest
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.maintenance.file_compression import compress_file
from sowctl.journal.reader import Journal
from sowctl.remote import remote_files
from sowctl.remote.place import parse_url
from sowctl.seam import SEAM
from sowctl.spark.errors import CarriedError
from sowctl.spark.origin import Origin
from sowctl.spark.reading.bounds import NumberRange
from sowctl.spark.reading.journalbatches import JournalQuery
from sowctl.spark.reading.journalplan import (
    PlannedStretch,
    build_origin,
    open_journal,
    plan_stretches,
    warn_unsplittable,
)
from sowctl.spark.reading.journalreader import JournalReader
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.storereader import StoreQuery, StoreReader
from tests.spark.apart.test_folding import XML, play
from tests.support.faraway import far_away
from tests.support.instances import START, Lab

COLUMNS = StructType([StructField("_txid", LongType()), StructField("payload", BinaryType())])
Rows = list[tuple[int, bytes | None]]


def rows(reader: DataSourceReader) -> tuple[Rows, int]:
    """What tasks read, each with a reader and a partition that have travelled; and how many there are."""
    parts = reader.partitions()
    found: Rows = []
    for part in pickle.loads(pickle.dumps(list(parts))):
        task: Any = pickle.loads(pickle.dumps(reader))
        for batch in task.read(part):
            found += [(row["_txid"], row["payload"]) for row in batch.to_pylist()]
    return found, len(parts)


def engine(lab: Lab, topic: str, at: int | None) -> Rows:
    records: Any = start_query(
        lab.open(), [Target(topic=lab.open().topic(topic).config)], QueryOptions(at=at)
    ).iterate_records()
    return sorted((record.txid, record.payload) for record in records)


@pytest.mark.parametrize("seed", range(30))
def test_any_partitions_read_what_the_engine_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deep: bool, seed: int
) -> None:
    if seed >= 2 and not deep:
        pytest.skip("--deep runs these")
    rng = random.Random(seed)
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", rng.choice((3, 20, 1024)))
    monkeypatch.setattr(PARTITION_LIMITS, "records_per_partition", rng.choice((3, 10, 100_000)))
    lab = Lab(tmp_path, XML, journal_size=rng.choice((3000, 20_000, 1 << 20)))
    play(lab, rng)
    instance = lab.open()
    origin = Origin(instance.config, None, None, None, lab.clock.at)
    entries = [record for batch in dump_entries(instance, EntryFilter(), data=True) for record in batch.records]
    whole = [(record.txid, record.payload if record.has_data else None) for record in entries]
    for size in (None, 1, 1500, rng.randrange(1024, 30_000), 1 << 30):
        low, high = sorted(rng.sample(range(1, len(whole) + 1), 2))
        for txids in (NumberRange(), NumberRange(low, high)):
            found, _ = rows(JournalReader(JournalQuery(origin, txids=txids, partition_bytes=size), COLUMNS))
            assert found == [row for row in whole if (txids.low or 0) <= row[0] <= (txids.high or 1 << 62)]
    for topic in ("log", "past", "brief", "all"):
        if not lab.store(topic).exists():
            continue
        one = Origin(instance.config, instance.topic(topic).config, None, None, lab.clock.at)
        for missing in (False, True):
            for at in (None, rng.randrange(START, lab.clock.at + 1), lab.clock.at + 10):
                count = rng.choice((None, 1, 7))
                try:
                    expected: Rows | str = engine(lab, topic, at)
                except SowError as error:
                    expected = error.code
                try:
                    found, made = rows(StoreReader(StoreQuery(one, at, None, count), COLUMNS))
                except CarriedError as error:
                    assert isinstance(expected, str) and expected in str(error)
                else:
                    assert sorted(found) == expected
                    # Before the window of a topic with History there is nothing to be cut.
                    assert count in (None, made) or (not found and made == 1)
            if not missing:
                lab.forget(topic)


def test_a_process_reads_a_manifest_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many partitions it reads, and although the journal goes on behind the archive."""
    lab = Lab(tmp_path / "lab", XML, journal_size=1500)
    play(lab, random.Random(3))
    with far_away(tmp_path / "far") as far:
        url = parse_url(far.url("journal"))
        files = list(archive_to_url(lab.open(), url))
        for one in files[:-1]:
            one.path.unlink()
        lab.publish("log", '{"id":1}')
        instance = lab.open().with_archive(url)
        with open_log(instance) as log:
            stretches = plan_stretches(log, 0, None, 1)
            wanted = [entry.txid for block in log.iter_blocks() for entry in block.iter_entries()]
        assert len(stretches) > len(files)
        asked: list[str] = []
        read = remote_files.read_file
        monkeypatch.setattr(remote_files, "read_file", lambda place: (asked.append(place.name), read(place))[1])
        manifest._REMOTE_MANIFESTS.clear()
        found: list[int] = []
        for one in stretches:
            with open_journal(Origin(instance.config, None, None, None, START), task=one) as log:
                found += [entry.txid for block in one.read_blocks(log, 0, wanted[-1]) for entry in block.iter_entries()]
        assert found == wanted and asked == ["test.manifest"]


def test_an_archive_that_was_made_anew_is_read_anew(tmp_path: Path) -> None:
    """By a process that has read the manifest of the one before; and a plan of that one is not read from it."""
    labs = {name: Lab(tmp_path / name, XML, journal_size=700) for name in ("one", "two")}
    for name, lab in labs.items():
        for start in range(0, 40, 8):
            lab.publish("log", *[json.dumps({"id": number, "of": name}) for number in range(start, start + 8)])
    far = tmp_path / "far"
    url = parse_url(str(far))

    def planned() -> tuple[Origin, list[PlannedStretch]]:
        with Journal.open(url, "test") as log:
            return build_origin(log, START), plan_stretches(log, 0, None, 1)

    def read(origin: Origin, parts: list[PlannedStretch]) -> list[bytes]:
        found: list[bytes] = []
        for part in parts:
            with open_journal(origin, task=part) as log:
                found += [
                    entry.payload for block in part.read_blocks(log, 0, part.until) for entry in block.iter_entries()
                ]
        return found

    def remade(lab: Lab) -> None:
        shutil.rmtree(far, ignore_errors=True)
        list(archive_to_url(lab.open(), url))

    remade(labs["one"])
    first = planned()
    begun = read(*first)
    assert len(begun) > 20 and all(b'"one"' in payload for payload in begun)
    held = dict(manifest._REMOTE_MANIFESTS)
    # the same journal, compressed meanwhile: other files of the same entries
    for file in sorted((tmp_path / "one").rglob("*.journal"))[:-1]:
        compress_file(file, ".zst", SEAM)
    remade(labs["one"])
    manifest._REMOTE_MANIFESTS.clear()
    assert list(far.glob("*.zst")) and read(*first) == begun
    remade(labs["two"])
    second = planned()
    # as in a process that has read tasks of the first one and now gets one of the second
    manifest._REMOTE_MANIFESTS.update(held)
    found = read(*second)
    assert len(found) > 20 and all(b'"two"' in payload for payload in found)
    with pytest.raises(DamageError, match="recreated") as caught:
        read(*first)
    assert caught.value.code == "SOW-JRN-084" and caught.value.hint is not None


def test_files_that_one_task_has_to_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PARTITION_LIMITS, "partition_bytes", 100)
    lab = Lab(tmp_path, XML, journal_size=1500)
    play(lab, random.Random(1))
    for path, suffix in zip(lab.journals(), (".gz", ".zst"), strict=False):
        compress_file(path, suffix, SEAM)
        path.unlink(missing_ok=True)
    instance = lab.open()
    for _ in range(2):
        with open_log(instance, whole=True) as log:
            warn_unsplittable(instance, log)
    (told,) = lab.notes
    assert " 0000000000 " in told and "compressed" in told
