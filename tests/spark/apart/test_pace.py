"""How much of a journal a batch of a stream has, and how far it is behind: asked of the reader, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import LongType, StructType

from sowctl.journal.blockcodec import unpack_block_header
from sowctl.journal.files import JournalFile
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.spark.errors import CarriedError, decode_error
from sowctl.spark.reading.journalstream import MAX_BATCH_ENTRIES, JournalStreamReader
from tests.spark.conftest import XML
from tests.spark.reading import journal, rows_of
from tests.support.instances import Lab, message


@pytest.fixture
def lab(tmp_path: object) -> Lab:
    """Twenty groups of ten entries each, in several files."""
    made = Lab(tmp_path, XML, journal_size=3000)  # type: ignore[arg-type]
    for group in range(20):
        made.publish("orders", *[message(id=i, text=f"{group:02}") for i in range(10)])
    return made


def stream(lab: Lab, **options: object) -> JournalStreamReader:
    reader = journal(lab, **options).streamReader(StructType().add("_txid", LongType()))
    assert isinstance(reader, JournalStreamReader)
    return reader


def ends(reader: JournalStreamReader) -> list[int]:
    """Where the batches end, from the first to the last."""
    at, found = reader.initialOffset(), []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        found.append(end["txid"])
        at = end
    return found


def stored(lab: Lab) -> int:
    return sum(path.stat().st_size for path in lab.journals())


def test_bytes_bound_a_batch_like_entries_and_end_it_where_a_group_does(lab: Lab) -> None:
    assert len(lab.journals()) > 3
    quarter = ends(stream(lab, maxBytesPerTrigger=stored(lab) // 4))
    assert quarter[-1] == 200 and 4 <= len(quarter) <= 6
    assert all(end % 10 == 0 for end in quarter)
    sizes = [end - before for before, end in zip([0, *quarter], quarter, strict=False)]
    assert max(sizes) - min(sizes[:-1]) <= 20
    # a group that is larger than the bound is a batch all the same
    assert ends(stream(lab, maxBytesPerTrigger=1)) == list(range(10, 201, 10))
    assert ends(stream(lab, maxBytesPerTrigger="1GB")) == [200]


def test_a_larger_group_is_split_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between blocks, and within a block that is larger; groups that fit stay whole."""
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 10)
    lab = Lab(tmp_path, XML)
    for size in (4, 4, 95, 3, 30):
        lab.publish("orders", *[message(id=i, text="x" * 50) for i in range(size)])
    whole = stream(lab, maxEntries=25)
    assert ends(whole) == [8, 103, 106, 136]
    split = stream(lab, maxEntries=25, splitGroups=True)
    assert ends(split) == [8, 28, 48, 68, 88, 106, 126, 136]
    assert ends(stream(lab, maxEntries=6, splitGroups=True))[:5] == [4, 8, 14, 18, 24]
    assert ends(stream(lab, maxEntries=1, splitGroups=True)) == list(range(1, 137))
    sizes = ends(stream(lab, maxBytesPerTrigger=stored(lab) // 4, splitGroups=True))
    assert 4 <= len(sizes) <= 7 and sizes[-1] == 136 and any(8 < end < 103 for end in sizes)
    assert ends(stream(lab, maxBytesPerTrigger=1, splitGroups=True, toTxid=20)) == [4, 8, 18, 20]
    # Every entry once, wherever a batch ends, also for the changes of records.
    for options in ({}, {"changes": True}):
        reader, at = stream(lab, maxEntries=7, splitGroups=True, topic="orders", **options), split.initialOffset()
        found: list[int] = []
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            found += [row["_txid"] for row in rows_of(reader, list(reader.partitions(at, end)))]  # type: ignore[arg-type]
            at = end
        assert sorted(set(found)) == list(range(1, 137))
        assert options or len(found) == 136


def test_of_two_bounds_the_nearer_one_counts(lab: Lab) -> None:
    assert ends(stream(lab, maxBytesPerTrigger="1GB", maxEntries=50)) == [50, 100, 150, 200]
    assert ends(stream(lab, maxBytesPerTrigger=1, maxEntries=50)) == list(range(10, 201, 10))
    assert ends(stream(lab, maxBytesPerTrigger=1, maxEntries=50, toTxid=35)) == [10, 20, 30, 35]


@pytest.mark.parametrize("journal_size", [3000, 1 << 26])
def test_a_trigger_costs_what_is_new_however_long_the_journal_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal_size: int
) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "offset_precision_bytes", 1000)
    monkeypatch.setattr(JOURNAL_LIMITS, "mark_interval_bytes", 1 << 40)
    looked, opened = [0], [0]

    def counted(raw: bytes, *rest: Any) -> Any:
        looked[0] += 1
        return unpack_block_header(raw, *rest)

    def opening(file: JournalFile) -> Any:
        opened[0] += 1
        return read_header(file)

    read_header = JournalFile._read_header
    monkeypatch.setattr("sowctl.journal.files.unpack_block_header", counted)
    monkeypatch.setattr(JournalFile, "_read_header", opening)
    lab, costs, last = Lab(tmp_path, XML, journal_size=journal_size), [], 0
    for groups in (30, 270):
        for _ in range(groups):
            lab.publish("orders", message(id=1, text="x" * 200), message(id=2))
        reader = stream(lab, maxEntries=10, maxBytesPerTrigger="1MB")
        last, cost = last + 2 * groups, []
        for start in (0, last // 4 * 2, last - 20, last):
            at = reader.initialOffset() | {"txid": start}
            looked[0] = opened[0] = 0
            end = reader.latestOffset(at, reader.getDefaultReadLimit())
            assert end["txid"] == min(start + 10, last)
            found = [looked[0], opened[0]]
            looked[0] = opened[0] = 0
            parts = reader.partitions(at, end)
            assert bool(parts) == (start < last)
            cost.append((*found, looked[0], opened[0]))
        costs.append(cost)
    for few, many in zip(*costs, strict=True):
        # Ten times as many groups are three or four looks more of a search that halves, and as many headers of files.
        assert all(more <= less + 16 for less, more in zip(few, many, strict=True)), costs


def test_spark_is_told_of_the_bound_and_the_first_batch_has_one_by_default(lab: Lab) -> None:
    assert stream(lab).getDefaultReadLimit() == ReadMaxRows(MAX_BATCH_ENTRIES)
    assert stream(lab, maxBytesPerTrigger="1MB").getDefaultReadLimit() == ReadMaxBytes(1 << 20)
    reader = stream(lab, maxBytesPerTrigger=1)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["txid"] == 200


def test_the_source_reports_how_far_it_is_behind(lab: Lab) -> None:
    reader = stream(lab, maxEntries=50)
    end, behind = reader.initialOffset(), []
    for _ in range(4):
        end = reader.latestOffset(end, reader.getDefaultReadLimit())
        said = reader.reportLatestOffset()
        assert said is not None and said["txid"] == 200
        behind.append((said["entriesBehind"], said["bytesBehind"]))
    assert [entries for entries, _ in behind] == [150, 100, 50, 0]
    sizes = [size for _, size in behind]
    assert stored(lab) > sizes[0] > sizes[1] > sizes[2] > sizes[3] == 0
    assert sizes[0] > 0.6 * stored(lab)
    # before any batch the whole journal is ahead
    said = stream(lab).reportLatestOffset()
    assert said is not None and said["entriesBehind"] == 200 and said["bytesBehind"] > sizes[0]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"topic": "ordres"}, "SOW-ENG-012"),
        ({"config": None, "path": "/nope"}, "SOW-ENG-013"),
        ({"start": "middle"}, "SOW-SPK-011"),
        ({"maxEntries": "zero"}, "SOW-SPK-011"),
        ({"maxBytesPerTrigger": "lots"}, "SOW-SPK-011"),
        ({"path": "/tmp"}, "SOW-SPK-012"),
        ({"filter": "/id ="}, "SOW-EXP-007"),
    ],
)
def test_what_is_wrong_is_said_by_the_first_answer(lab: Lab, options: dict[str, object], code: str) -> None:
    # What streamReader raises, Spark's runner loses: it ends a reader that was never made.
    reader = journal(lab, **options).streamReader(StructType().add("_txid", LongType()))
    at = {"txid": 0, "lineage": ""}
    for ask in (
        reader.initialOffset,
        reader.getDefaultReadLimit,
        lambda: reader.latestOffset(at, ReadAllAvailable()),
        lambda: reader.partitions(at, at),
    ):
        with pytest.raises(CarriedError) as caught:
            ask()
        found = decode_error(str(caught.value))
        assert found is not None and found.code == code
    reader.stop()
