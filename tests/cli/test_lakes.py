"""``publish`` of directories: every file below, in order, with the columns of its partitions."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sowctl.cli.main import main
from sowctl.errors import UsageError
from tests.support.instances import config_xml, topic_xml


class Shop:
    """An instance with one topic, and a lake beside it."""

    def __init__(self, root: Path) -> None:
        self.config = root / "shop" / "sowctl.xml"
        self.config.parent.mkdir()
        self.config.write_text(config_xml(topic_xml("t"), ("t",)))
        self.notes = ""

    def run(self, *argv: str, status: int = 0) -> str:
        out, err = io.BytesIO(), io.BytesIO()
        found = main([*argv, "-c", str(self.config)], environ={}, stdin=io.BytesIO(), stdout=out, stderr=err)
        self.notes = err.getvalue().decode()
        assert found == status, self.notes
        return out.getvalue().decode()

    def records(self) -> list[dict[str, Any]]:
        return sorted(map(json.loads, self.run("query", "t").splitlines()), key=lambda row: str(row["id"]))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path)


def write(path: str, *rows: dict[str, Any]) -> None:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.suffix == ".csv":
        text = "".join(",".join(str(row[name]) for name in rows[0]) + "\n" for row in rows)
        place.write_text(",".join(rows[0]) + "\n" + text)
    elif place.suffix == ".ndjson":
        place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        import pyarrow as pa
        from pyarrow import feather, parquet

        table = pa.Table.from_pylist(list(rows))
        (parquet.write_table if place.suffix == ".parquet" else feather.write_feather)(table, place)


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("words", [("--from", "lake"), ("lake/",), ("--from", "shop/../lake"), ("./lake",)])
def test_a_lake(shop: Shop, ending: str, words: tuple[str, ...]) -> None:
    for number, place in enumerate(("day=2026-01-01/hour=9", "day=2026-01-01/hour=10", "day=x%2Fy/hour=1")):
        write(f"lake/{place}/part-0.{ending}", {"id": number, "v": number}, {"id": 9, "v": number})
    Path("lake/_SUCCESS").touch()
    shop.run("publish", "t", *words)
    assert shop.records() == [
        {"id": 0, "v": 0, "day": "2026-01-01", "hour": 9},
        {"id": 1, "v": 1, "day": "2026-01-01", "hour": 10},
        {"id": 2, "v": 2, "day": "x/y", "hour": 1},
        {"id": 9, "v": 2, "day": "x/y", "hour": 1},
    ]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_partition_and_one_file(shop: Shop, ending: str) -> None:
    write(f"lake/day=5/a.{ending}", {"id": 1})
    for way in ("lake/day=5", f"lake/day=5/a.{ending}"):
        shop.run("publish", "t", "--from", way)
        assert shop.records() == [{"id": 1, "day": 5}]
    shop.run("publish", "t", "--from", "lake", "--type", "day=text")
    assert shop.records() == [{"id": 1, "day": "5"}]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_null_is_left_out_and_columns_of_the_file_count(shop: Shop, ending: str) -> None:
    write(f"lake/day=__HIVE_DEFAULT_PARTITION__/v=7/a.{ending}", {"id": 1, "v": 8})
    shop.run("publish", "t", "--from", "lake")
    assert shop.records() == [{"id": 1, "v": 8}]


def test_rows_that_are_messages_get_no_columns(shop: Shop) -> None:
    write("lake/day=1/a.parquet", {"payload": '{"id":1}'})
    write("lake/day=1/b.ndjson", {"id": 2})
    shop.run("publish", "t", "--from", "lake")
    assert "day" in shop.notes
    assert shop.records() == [{"id": 1}, {"id": 2}]


def test_directories_that_cannot_be_read(shop: Shop) -> None:
    Path("empty/.hidden").mkdir(parents=True)
    shop.run("publish", "t", "--from", "empty", status=10)
    assert "SOW-CLI-062" in shop.notes
    write("lake/a.csv", {"id": 1})
    Path("lake/README").touch()
    shop.run("publish", "t", "--from", "lake", status=2)
    assert "SOW-EXC-002" in shop.notes and "README" in shop.notes
    assert shop.records() == []
    shop.run("publish", "lake", status=10)
    assert "sowctl publish TOPIC lake" in shop.notes


def test_the_rest_of_many_files_is_told_briefly(shop: Shop) -> None:
    for number in range(40):
        write(f"lake/{number}.csv", {"id": number if number != 5 else "", "v": 1})
    shop.run("publish", "t", "--from", "lake", status=3)
    assert "lake/6.csv" in shop.notes and "lake/39.csv" not in shop.notes
    assert len(shop.records()) == 5


def test_envelopes_of_a_directory(shop: Shop) -> None:
    write("dump/a.ndjson", {"topic": "t", "data": {"id": 1}})
    shop.run("publish", "--framing", "envelope", "dump")
    assert shop.records() == [{"id": 1}]


@pytest.mark.parametrize("name", [b"m=\xff", b"m=%FF", b"m="])
@pytest.mark.parametrize("command", ["publish", "pipeline load"])
def test_a_partition_without_a_text_is_refused_before_anything_is_published(
    shop: Shop, name: bytes, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("lake/m=1/a.csv", {"id": 1})
    directory = Path(os.fsdecode(b"lake/" + name))
    directory.mkdir()
    shutil.copy("lake/m=1/a.csv", directory)
    if command == "pipeline load":
        pytest.importorskip("pyspark")
        monkeypatch.setattr("sowctl.cli.commands.bodies.pipeline.open_job_session", None)
    shop.run(*command.split(), "t", "lake", status=3)
    assert "SOW-EXC-012" in shop.notes and "hint" in shop.notes
    assert shop.records() == []


def test_types_of_columns_that_not_every_file_has(shop: Shop) -> None:
    write("lake/a.csv", {"id": 1, "v": 5})
    write("lake/b.csv", {"id": 2, "w": 6})
    Path("lake/c.csv").touch()
    shop.run("publish", "t", "lake", "--type", "v=text", "--type", "x=integer", status=2)
    assert "SOW-EXC-010" in shop.notes and "id, v, w" in shop.notes
    assert shop.records() == []
    for words in (("lake",), ("--from", "lake/a.csv", "--from", "lake/b.csv")):
        shop.run("publish", "t", *words, "--type", "v=text")
        assert shop.records() == [{"id": 1, "v": "5"}, {"id": 2, "w": 6}]
    shop.run("publish", "t", "lake/b.csv", "--type", "v=text", status=2)


@pytest.mark.parametrize("command", ["publish", "pipeline load"])
def test_what_is_no_file_is_noted(shop: Shop, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write("lake/day=1/a.csv", {"id": 1})
    Path("lake/day=1/gone.csv").symlink_to("nowhere")
    os.mkfifo("lake/pipe.csv")
    os.mkfifo("lake/.hidden")
    if command == "publish":
        shop.run("publish", "t", "lake")
        assert shop.records() == [{"id": 1, "day": 1}]
        shop.run("publish", "t", "lake")
    else:
        pytest.importorskip("pyspark")

        def refuse(*_: object, **__: object) -> None:
            raise UsageError("SOW-EXC-010", "no Spark here")

        monkeypatch.setattr("sowctl.cli.commands.bodies.pipeline.open_job_session", refuse)
        shop.run(*command.split(), "t", "lake", status=2)
    shown = " ".join(shop.notes.split())
    assert "lake/day=1/gone.csv" in shown and "lake/pipe.csv" in shown and ".hidden" not in shown
    assert shown.count("skipped") == 1
