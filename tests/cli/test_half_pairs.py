"""Half a surrogate pair in a JSON text: every output has its escape, and none has U+FFFD."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

import msgpack
from pyarrow import ipc, parquet

from sowctl.output.display import escape_surrogates
from sowctl.output.options import unescape_text
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

MESSAGES = [
    rb'{"id":1,"half":"\uD800","part":{"x":"a\udfffb","\ud801":"y"},"list":["\ud83d\udc00\udc00"],"\ud802":"v","\ud803":"w"}',
    rb'{"id":2,"half":"\\ud800","part":{"x":"\ud83d\ude00"},"list":[],"\ud802":null}',
    rb'{"id":3,"half":-0,"part":{"\ud801":"\n\u0041"}}',
]
EXPECTED = [
    {
        "id": "1",
        "half": "\\ud800",
        "part": {"x": "a\\udfffb", "\\ud801": "y"},
        "list": ["\U0001f400\\udc00"],
        "\\ud802": "v",
        "\\ud803": "w",
    },
    {"id": "2", "half": "\\ud800", "part": {"x": "\U0001f600"}, "list": [], "\\ud802": None},
    {"id": "3", "half": "-0", "part": {"\\ud801": "\nA"}},
]
Rows = list[dict[str, Any]]


def read_delimited(data: bytes) -> Rows:
    return list(csv.DictReader(io.StringIO(data.decode())))


def read_tabs(data: bytes) -> Rows:
    head, *rows = [list(map(unescape_text, line.split("\t"))) for line in data.decode().splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


def read_database(data: bytes) -> Rows:
    database = sqlite3.connect(":memory:")
    database.deserialize(data)
    (name,) = database.execute("SELECT name FROM sqlite_master").fetchone()
    found = database.execute(f'SELECT * FROM "{name}"')
    rows = [dict(zip([one[0] for one in found.description], row, strict=True)) for row in found]
    database.close()
    return rows


READERS: dict[str, Callable[[bytes], Rows]] = {
    "ndjson": lambda data: [json.loads(line, parse_int=str) for line in data.splitlines()],
    "json": lambda data: json.loads(data, parse_int=str),
    "csv": read_delimited,
    "tsv": read_tabs,
    "msgpack": lambda data: list(msgpack.Unpacker(io.BytesIO(data))),
    "parquet": lambda data: parquet.read_table(io.BytesIO(data)).to_pylist(),
    "arrow": lambda data: ipc.open_file(data).read_all().to_pylist(),
    "arrows": lambda data: ipc.open_stream(data).read_all().to_pylist(),
    "db": read_database,
}


def plain(value: Any) -> Any:
    """A value without format-specific differences: JSON in cells, numbers, and members that are null or missing."""
    if isinstance(value, str):
        if value[:1] in ("{", "["):
            return plain(json.loads(value))
        return escape_surrogates(value)
    if isinstance(value, dict):
        found = {escape_surrogates(name): plain(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if one not in (None, "")}
    if isinstance(value, list):
        return [plain(one) for one in value]
    # Integers in MessagePack have no negative zero.
    return value if value is None else "-0" if str(value) == "-0.0" else str(value)


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    assert cli("publish", "t", stdin=b"".join(one + b"\n" for one in MESSAGES)).status == 0
    return cli


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.parametrize(
    "words",
    [
        ("query", "t", "--order-by", "/id"),
        ("query", "t", "--order-by", "/id", "--columns", "/id,/half,/part,/list"),
        ("get", "t", "1", "2", "3", "--fields"),
        ("export", "t"),
        ("sql", "SELECT * FROM t ORDER BY id"),
        ("sql", 'SELECT id, half, part, list, "\\ud802", "\\ud803" FROM "t@history" ORDER BY id'),
    ],
    ids=["query", "columns", "get", "export", "sql", "history"],
)
def test_every_output_has_the_escape(words: tuple[str, ...], ending: str, shop: Cli) -> None:
    target = (f"o.{ending}",) if words[0] == "export" else ("--output", f"o.{ending}")
    done = shop(*words, *target)
    assert done.status == 0, done.err
    # JSON output has no selection of columns, so the output is csv.
    reader = READERS["csv" if "--columns" in words and "json" in ending else ending]
    rows = [plain(row) for row in reader(Path(f"o.{ending}").read_bytes())]
    rows.sort(key=lambda row: str(row["id"]))
    expected = [plain(row) for row in EXPECTED]
    if "--columns" in words:
        expected = [{name: one for name, one in row.items() if name[0] != "\\"} for row in expected]
    assert rows == expected
