"""sowctl-types(7) describes the behaviour of the program: its examples are run."""

from __future__ import annotations

import io
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

import msgpack
from pyarrow import parquet

from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.engine.api import InstanceHandle
from sowctl.engine.tables.database import Database
from sowctl.engine.tables.results import NESTED_CELLS, RESULT_TYPES
from sowctl.output.exports import Export
from sowctl.output.formats import make_renderer
from sowctl.output.options import OutputOptions
from sowctl.output.records import OutputBatch, OutputRecord
from tests.support.instances import config_xml, topic_xml

PAGE = Path(__file__).parents[2] / "man" / "sowctl-types.7"
ESCAPES = {"\\-": "-", "\\(aq": "'", "\\(ha": "^", "\\e": "\\"}
KINDS = {
    "int": "integer",
    "float": "double",
    "str": "text",
    "bool": "boolean",
    "dict": "map",
    "list": "array",
    "NoneType": "nil",
}


def entries(section: str) -> list[tuple[str, dict[str, str]]]:
    """The examples of a section: the heading of each, and its lines by their first word."""
    text = PAGE.read_text(encoding="utf-8").partition(f".SH {section}\n")[2].partition(".nf\n")[2].partition(".fi\n")[0]
    for escape, letter in ESCAPES.items():
        text = text.replace(escape, letter)
    found = []
    for head, rest in re.findall(r"    (\S.*)\n((?:        .*\n)+)", text):
        lines = [re.split(r"  +", line.strip(), maxsplit=1) for line in rest.splitlines()]
        found.append((head, {line[0]: line[1] for line in lines}))
    return found


def test_every_type_of_results_has_an_example() -> None:
    assert {name for name, _ in entries("SQL RESULTS")} == {*RESULT_TYPES, *NESTED_CELLS}


@pytest.mark.parametrize(("name", "lines"), entries("SQL RESULTS"))
def test_results_are_as_the_page_says(tmp_path: Path, name: str, lines: dict[str, str]) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",), str(tmp_path)))
    with Database(InstanceHandle.open(tmp_path / "sowctl.xml")) as database:

        def ask() -> Any:
            return next(database.run_statements(f"SELECT {lines['SQL']} AS v"))

        (rows,) = ask().iterate_rows(format_non_finite)
        assert rows == [b'{"v":%b}' % lines["JSON"].encode()]
        assert str(ask().open_reader().read_all().schema.field("v").type) == lines["Arrow"]
        assert str(ask().open_reader("parquet").read_all().schema.field("v").type) == lines.get(
            "Parquet", lines["Arrow"]
        )


class Held:
    """One batch of messages that can be iterated repeatedly."""

    def __init__(self, batch: OutputBatch) -> None:
        self.batch = batch

    def __iter__(self) -> Iterator[OutputBatch]:
        return iter([self.batch])

    def iterate_again(self) -> Iterator[OutputBatch]:
        return iter([self.batch])


@pytest.mark.parametrize(("values", "lines"), entries("FROM MESSAGES TO TYPED TABLES"))
def test_messages_become_what_the_page_says(tmp_path: Path, values: str, lines: dict[str, str]) -> None:
    records = [OutputRecord(b'{"v":%b}' % value.encode()) for value in values.split(", ")]
    batch = OutputBatch("t", "json", lambda payload: payload, records)
    out = io.BytesIO()
    Export("x.parquet", "t", meta=False).write(Held(batch), out)
    assert str(parquet.read_table(io.BytesIO(out.getvalue())).schema.field("v").type) == lines["Parquet, Arrow"]
    with (tmp_path / "x.db").open("wb") as file:
        Export("x.db", "t", meta=False).write(Held(batch), file)
    database = sqlite3.connect(tmp_path / "x.db")
    assert ", ".join(row[0] for row in database.execute("select typeof(v) from t")) == lines["SQLite"]
    database.close()
    out = io.BytesIO()
    make_renderer("msgpack", OutputOptions()).write([batch], out)
    out.seek(0)
    assert ", ".join(KINDS[type(row["v"]).__name__] for row in msgpack.Unpacker(out)) == lines["MessagePack"]
