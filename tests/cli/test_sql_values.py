"""SQL values without a JSON form: each is distinguishable from NULL."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

import msgpack

from sowctl.output.formats import FORMATS
from sowctl.output.members import convert_numbers, format_value
from sowctl.values.jsontree import parse_json
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml


def test_not_a_number_and_intervals_are_texts(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    statement = (
        "select 'nan'::double a, 'inf'::double b, ['-inf'::float] c, null::double d, interval 1 month e,"
        " interval '-1.5 seconds' f, interval 0 day g, interval '14 months 2 days 1 minute' h"
    )
    done = cli("sql", "--format", "ndjson", statement)
    assert done.status == 0
    assert json.loads(done.out) == {
        "a": "NaN",
        "b": "Infinity",
        "c": ["-Infinity"],
        "d": None,
        "e": "P1M",
        "f": "PT-1.5S",
        "g": "PT0S",
        "h": "P14M2DT60S",
    }


EVERYTHING = "SELECT * FROM test_all_types(use_large_enum = false)"
EVERY_FORMAT = ("table", "ndjson", "json", "csv", "tsv", "raw", "template", "msgpack", "parquet", "arrow")


def test_every_format_is_tried() -> None:
    assert {line.name for line in FORMATS} == {*EVERY_FORMAT}


def test_formats_of_text_say_the_same_of_every_type(cli: Cli) -> None:
    """The other formats have the values of JSON lines: whole rows of every type of DuckDB."""
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    lines = cli("sql", "--format", "ndjson", EVERYTHING).out.splitlines()
    rows = [parse_json(line) for line in lines]
    assert len(rows) == 3
    assert cli("sql", "--format", "raw", EVERYTHING).out.splitlines() == lines
    assert cli("sql", "--format", "json", EVERYTHING).out == "[\n" + ",\n".join(lines) + "\n]\n"
    texts = [[format_value(value) for value in row.values()] for row in rows]
    heading, *found = csv.reader(io.StringIO(cli("sql", "--format", "csv", EVERYTHING).out, newline=""))
    assert heading == [*rows[0]]
    assert found == [[text or "" for text in row] for row in texts]
    names = [*rows[0]]
    template = "\t".join("{/" + name + "}" for name in names)
    done = cli("sql", "--format", "template", "--template", template, EVERYTHING)
    assert [line.split("\t") for line in done.out.splitlines()] == [[text or "" for text in row] for row in texts]
    tsv = cli("sql", "--format", "tsv", EVERYTHING).out.splitlines()
    assert [line.split("\t") for line in tsv] == [names, *([text or "" for text in row] for row in texts)]
    table = cli("sql", "--format", "table", EVERYTHING).out
    assert all(text in table for row in texts for text in row if text and "\0" not in text)


def test_msgpack_has_every_type(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    rows = [parse_json(line) for line in cli("sql", "--format", "ndjson", EVERYTHING).out.splitlines()]
    assert cli("sql", "--output", "x.msgpack", "--format", "msgpack", EVERYTHING).status == 0
    found = list(msgpack.Unpacker(io.BytesIO(Path("x.msgpack").read_bytes())))
    odd = found[1].pop("double_array")
    assert str(odd) == "[42.0, nan, inf, -inf, None, -42.0]"
    for row, expected in zip(found, rows, strict=True):
        assert row == {name: convert_numbers(expected[name]) for name in row}
        big = {name: row[name] for name in ("hugeint", "uhugeint", "bignum", "dec38_10")}
        # A text if neither 64 bits nor a double can represent the number.
        assert {name: format_value(expected[name]) for name in big} == {
            name: None if value is None else str(value) for name, value in big.items()
        }


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_value_that_columns_cannot_hold_has_a_code(cli: Cli, name: str) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    done = cli("sql", "--format", name, "--output", "x", EVERYTHING)
    assert done.status == 3
    assert "SOW-EXC-022" in done.err
    assert not Path("x").exists()
    assert cli("sql", "--format", name, "--output", "x", "SELECT interval 1 day AS i, row(1) AS s").status == 0
