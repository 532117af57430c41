"""Every message type through the jobs: loaded, rebuilt, exported, looked at in the past, grouped, streamed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet
import pytest

from sowctl.cli.main import main
from tests.cli.test_types_end_to_end import EVERY, ROWS, Kind, Place, plain
from tests.spark.jobs.test_outputs import read_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = [{"n": 2, "a": "second", "f": 9.5}, {"n": 9, "a": "nine", "f": 1.5}]


READ_ONLY = ("global", "orders2", "orders3", "fixed")
"""Types whose messages are never written: neither a query nor a view can make any."""


def by_number(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: str(row["n"]))


def from_parquet(place: Place, *records: dict[str, object]) -> str:
    """A file with a column of messages."""
    path = place.root / f"in{place.now}.parquet"
    payloads = pyarrow.array([place.kind.encode(record) for record in records], pyarrow.binary())
    pyarrow.parquet.write_table(pyarrow.table({"payload": payloads}), path)
    return str(path)


@EVERY
def test_a_type_through_the_jobs(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    place, twin = Place(tmp_path / "one", kind), Place(tmp_path / "two", kind)
    for rows in (ROWS, LATER):
        twin.publish(*rows)
        place.now = twin.now - 1
        told = json.loads(place.run("pipeline", "load", "t", from_parquet(place, *rows), "--summary", "json"))
        assert (told["records"], told["rejected"]) == (len(rows), 0)
    assert place.digest() == twin.digest()
    (place.root / "sow" / "t.sow").unlink()
    place.run("pipeline", "rebuild")
    assert place.digest() == twin.digest()

    def lines(*words: str) -> list[dict[str, object]]:
        path = tmp_path / f"out{place.now}"
        place.run("pipeline", *words, "--output", str(path), "--output-format", "ndjson")
        return [json.loads(line) for line in read_lines(path)]

    assert by_number([plain(kind, row) for row in lines("export", "t")]) == by_number(place.rows())
    early = ("--at", f"{1_790_000_001}s")
    assert by_number([plain(kind, row) for row in lines("snapshot", "t", *early)]) == by_number(ROWS)
    field, number = kind.at("f"), kind.at("n")
    view = ("t", "--projection", f"{field}, COUNT({number}) AS {number}", "--grouping", field)
    if kind.name in READ_ONLY:
        refused = ("view", *view, "--output", str(tmp_path / "view"))
        place.run("query", *view, status=2)
        place.run("pipeline", *refused, status=2)
    else:
        wanted = [json.loads(line) for line in place.run("query", *view, "-F", "ndjson").splitlines()]
        assert sorted(map(json.dumps, lines("view", *view))) == sorted(map(json.dumps, wanted))
    entries = lines("export", "t", "--journal")
    assert entries == [json.loads(line) for line in place.run("journal", "dump", "-F", "ndjson").splitlines()]
    assert len(entries) == len(ROWS) + len(LATER)


@pytest.mark.parametrize("fields", ["infer", "n INT, a STRING, f DOUBLE"])
def test_what_was_exported_as_fields_is_loaded_again(spark: SparkSession, tmp_path: Path, fields: str) -> None:
    kind = Kind("json", lambda record: json.dumps(record, separators=(",", ":")).encode(), lines=True)
    place = Place(tmp_path / "one", kind)
    place.publish(*ROWS)
    before = place.rows()
    place.run("pipeline", "export", "t", "--output", str(tmp_path / "p"), "--fields", fields)
    place.run("delete", "t", "-f", "/n > 0", "--yes")
    place.run("pipeline", "load", "t", str(tmp_path / "p"), "--input-format", "parquet")
    assert by_number(place.rows()) == by_number(before)


BINARY = (
    "<AMPSConfig><Name>x</Name><SOW><Topic><Name>t</Name><MessageType>binary</MessageType>"
    "<FileName>sow/t.sow</FileName></Topic></SOW><TransactionLog><JournalDirectory>journal</JournalDirectory>"
    "<Topic><Name>t</Name><MessageType>binary</MessageType></Topic></TransactionLog></AMPSConfig>"
)


def test_bytes_under_keys_of_their_publisher_through_the_jobs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(BINARY)
    keys = [f"key{number % 7}" for number in range(20)]
    payloads = [bytes([number, 0, 10, 255]) for number in range(20)]
    table = pyarrow.table({"payload": pyarrow.array(payloads, pyarrow.binary()), "_user_key": keys})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    now = 1_790_000_000

    def call(*words: str) -> bytes:
        nonlocal now
        now += 1
        out, err = io.BytesIO(), io.BytesIO()
        argv = [*words, "-c", str(tmp_path / "sowctl.xml"), "--now", f"{now}s"]
        status = main(argv, environ={}, stdin=io.BytesIO(), stdout=out, stderr=err)
        assert status == 0, err.getvalue().decode()
        return out.getvalue()

    told = json.loads(call("pipeline", "load", "t", str(tmp_path / "in.parquet"), "--summary", "json"))
    assert (told["records"], told["rejected"]) == (20, 0)
    state = dict(zip(keys, payloads, strict=True))
    assert len(state) == 7
    for key, payload in state.items():
        assert call("get", "t", key, "-F", "raw").rstrip(b"\n") == payload
    digest = call("hash", "t")
    (tmp_path / "sow" / "t.sow").unlink()
    call("pipeline", "rebuild")
    assert call("hash", "t") == digest
    for job in ("export", "snapshot"):
        call("pipeline", job, "t", "--output", str(tmp_path / job), "--output-format", "parquet")
        rows = pyarrow.parquet.read_table(tmp_path / job).to_pylist()
        assert {row["_user_key"]: row["payload"] for row in rows} == state
