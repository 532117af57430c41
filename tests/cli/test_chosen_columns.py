"""``--columns`` in files with types: the columns of csv, with the types of the whole table."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import msgpack
import pyarrow as pa
from pyarrow import ipc, parquet

from sowctl.output.projection import Projection
from sowctl.output.records import Batch
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

ROWS = [
    '{"id":1,"whole":9007199254740993,"mixed":1,"text":"a","nested":{"x":1,"l":[1,2.5]},"list":[{"y":1},{"y":2}]}',
    '{"id":2,"whole":-5,"mixed":"b","text":"\\ud800","nested":{"x":2.5},"only":1e400,"a b":5}',
    '{"id":3,"whole":18446744073709551615,"text":"","nested":7,"only":0.1,"flag":true,"none":null}',
    ' {"id": 4, "list" : [], "topic": "field", "_topic": "other", "nested": {"x": null}}',
]
MEMBERS = ["list", "id", "only", "nested", "text", "whole", "none", "mixed", "flag"]


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    assert cli("publish", "t", stdin="".join(row + "\n" for row in ROWS).encode()).status == 0
    return cli


def written(shop: Cli, name: str, *options: str) -> Path:
    done = shop("query", "t", "--order-by", "/id", *options, "--output", name, "--force")
    assert done.status == 0, done.err
    return Path(name)


def table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return parquet.ParquetFile(path).read()
    return (ipc.open_file if path.suffix == ".arrow" else ipc.open_stream)(path.read_bytes()).read_all()


def in_database(path: Path) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    with sqlite3.connect(path) as database:
        types = [(row[1], row[2]) for row in database.execute("PRAGMA table_info(t)")]
        return types, database.execute("SELECT * FROM t").fetchall()


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
def test_fields_are_those_of_the_whole_table(ending: str, shop: Cli) -> None:
    whole = table(written(shop, f"whole.{ending}"))
    chosen = table(written(shop, f"some.{ending}", "--columns", ",".join("/" + name for name in MEMBERS)))
    assert chosen.schema.names == MEMBERS
    for name in MEMBERS:
        assert (chosen.schema.field(name).type, chosen[name].to_pylist()) == (
            whole.schema.field(name).type,
            whole[name].to_pylist(),
        )


def test_metadata_are_those_of_the_whole_table(shop: Cli) -> None:
    whole = table(written(shop, "whole.parquet", "--meta"))
    names = ["txid", "sow_key", "topic", "timestamp", "expiration", "message_type", "bookmark", "client"]
    others = ["length", "data", "/topic", "/_topic"]
    chosen = table(written(shop, "some.parquet", "--columns", ",".join((*names, *others))))
    assert chosen.schema.names == [*names, "length", "data", "/topic", "_topic"]
    for name in names:
        if f"_{name}" in whole.schema.names and name != "topic":
            assert chosen[name].equals(whole[f"_{name}"]), name
    assert chosen["topic"].to_pylist() == ["t"] * 4
    assert chosen["data"].to_pylist() == [row.encode() for row in ROWS]
    assert chosen["length"].to_pylist() == list(map(len, ROWS))
    assert (chosen["/topic"].to_pylist(), chosen["_topic"].to_pylist()) == (
        [None, None, None, "field"],
        [None, None, None, "other"],
    )


def test_a_database_has_them_too(shop: Cli) -> None:
    types, rows = in_database(written(shop, "whole.sqlite", "--select", "+/id,+/whole,+/mixed,+/nested,+/text,+/flag"))
    chosen = "/flag,/text,/nested,/id,/whole,/mixed"
    found, some = in_database(written(shop, "some.db", "--columns", chosen))
    at = [[name for name, _ in types].index(name[1:]) for name in chosen.split(",")]
    assert (found, some) == ([types[one] for one in at], [tuple(row[one] for one in at) for row in rows])


@pytest.mark.parametrize("ending", ["parquet", "arrow", "db", "msgpack"])
def test_paths_and_absent_fields_are_as_in_csv(ending: str, shop: Cli) -> None:
    columns = "/nested/x,/list[1]/y,/list/y,/absent,/absent/deep,[/a b],/id"
    lines = list(csv.reader(io.StringIO(shop("query", "t", "--order-by", "/id", "--columns", columns).out)))
    path = written(shop, f"x.{ending}", "--columns", columns)
    if ending == "msgpack":
        found = list(msgpack.Unpacker(path.open("rb")))
        assert all(list(row) == lines[0] for row in found)
        rows = [list(row.values()) for row in found]
    elif ending == "db":
        types, stored = in_database(path)
        assert [name for name, _ in types] == lines[0]
        rows = list(map(list, stored))
    else:
        read = table(path)
        assert read.schema.names == lines[0]
        rows = [list(row.values()) for row in read.to_pylist()]
    assert [[None if cell is None else float(cell) for cell in row] for row in rows] == [
        [float(text) if text else None for text in line] for line in lines[1:]
    ]


def test_message_pack_has_the_values_of_the_whole_map(shop: Cli) -> None:
    whole = list(msgpack.Unpacker(written(shop, "whole.msgpack").open("rb")))
    columns = ",".join("/" + name for name in MEMBERS) + ",txid,data"
    some = list(msgpack.Unpacker(written(shop, "some.msgpack", "--columns", columns).open("rb")))
    assert some == [
        {name: one.get(name) for name in MEMBERS} | {"txid": number, "data": row.encode()}
        for number, (one, row) in enumerate(zip(whole, ROWS, strict=True), 1)
    ]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "db"])
def test_no_record_leaves_the_columns(ending: str, shop: Cli) -> None:
    path = written(shop, f"x.{ending}", "--filter", "/id = 99", "--columns", "/id,sow_key,data")
    names = [name for name, _ in in_database(path)[0]] if ending == "db" else table(path).schema.names
    assert names == ["id", "sow_key", "data"]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "db", "msgpack"])
def test_two_columns_of_one_name_are_refused(ending: str, shop: Cli) -> None:
    done = shop("query", "t", "--columns", "/id,/text,/id", "--output", f"x.{ending}")
    assert (done.status, "SOW-OUT-001" in done.err, Path(f"x.{ending}").exists()) == (2, True, False)


def test_a_pipe_and_rows_that_are_no_records(shop: Cli) -> None:
    packed = shop("info", "--columns", "records,topic", "--format", "msgpack").out.encode("utf-8", "surrogateescape")
    assert packed == msgpack.packb({"records": 4, "topic": "t"})
    assert "SOW-OUT-012" in shop("sql", "SELECT id FROM t", "--columns", "/id", "--output", "x.parquet").err
    assert not Path("x.parquet").exists()


def test_words_for_numbers_are_kept(cli: Cli, tmp_path: Path) -> None:
    xml = config_xml(topic_xml("t"), ("t",)).replace(">json<", ">msgpack<")
    (tmp_path / "sowctl.xml").write_text(xml)
    rows = [{"id": 1, "f": float("inf")}, {"id": 2, "f": 0.5}]
    stdin = b"".join(len(one).to_bytes(4, "big") + one for one in map(msgpack.packb, rows))
    assert cli("publish", "t", stdin=stdin).status == 0
    assert cli("query", "t", "--order-by", "/id", "--columns", "/f", "--output", "x.parquet").status == 0
    assert table(Path("x.parquet"))["f"].to_pylist() == [float("inf"), 0.5]
    assert cli("query", "t", "--order-by", "/id", "--columns", "/f", "--output", "x.msgpack").status == 0
    assert [row["f"] for row in msgpack.Unpacker(io.BytesIO(Path("x.msgpack").read_bytes()))] == [float("inf"), 0.5]


def test_records_of_one_shape_are_read_by_columns(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    rows = [f'{{"id":{number},"s":"\\u00e9{number}","n":{{"x":{number}.5,"y":[{number}]}}}}' for number in range(50)]
    assert cli("publish", "t", stdin="\n".join(rows).encode()).status == 0
    ways: list[bool] = []
    by_columns = Projection._build_views_by_columns

    def noted(self: Projection, batch: Batch) -> list[bytes] | None:
        found = by_columns(self, batch)
        ways.append(found is not None)
        return found

    monkeypatch.setattr(Projection, "_build_views_by_columns", noted)
    chosen = ("--columns", "/n/x,/s,/n,/absent,/id")
    assert cli("query", "t", *chosen, "--output", "x.parquet").status == 0
    assert all(ways) and ways
    monkeypatch.setattr(Projection, "_build_views_by_columns", lambda *_: None)
    assert cli("query", "t", *chosen, "--output", "y.parquet").status == 0
    assert table(Path("x.parquet")).equals(table(Path("y.parquet")))


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("query", "t", "--output"), "--columns"),
        (("query", "t", "--columns", "/id,/ID", "--output"), "--columns"),
        (("get", "t", "1", "--columns", "/id,/ID", "--output"), "--columns"),
        (("export", "t"), "--select"),
        (("sql", 'SELECT id, 1 AS "ID" FROM t', "--output"), "AS"),
    ],
)
def test_the_hint_about_columns_names_what_the_command_has(words: tuple[str, ...], option: str, shop: Cli) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    assert shop("publish", "t", stdin=b'{"id":9,"ID":1}\n').status == 0
    done = shop(*words, "o.db", "--error-format", "json")
    error = next(row for row in map(json.loads, done.err.splitlines()) if row["level"] == "error")
    assert (done.status, error["code"]) == (3, "SOW-EXC-025")
    assert [one for one in ("--columns", "--select", "AS") if one in error["hint"].split(",")[0]] == [option]
    assert not Path("o.db").exists()
