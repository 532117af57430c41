"""Values of every DuckDB type are exported unchanged, or rejected."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

import duckdb
import pyarrow as pa
from pyarrow import ipc, parquet

from sowctl.arrow.files import ArrowStream, Parquet
from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.engine.api import InstanceHandle
from sowctl.engine.tables.database import Database
from sowctl.engine.tables.results import NESTED_CELLS, RESULT_TYPES
from sowctl.errors import InputError
from tests.support.examples import choose_pairs
from tests.support.instances import config_xml, topic_xml

ALL = "test_all_types(use_large_enum = false)"
DUCKS = "🦆" * 6
INTS, WORDS = [42, 999, None, None, -42], [DUCKS, "goose", None, ""]
NO_AB, AB = {"a": None, "b": None}, {"a": 42, "b": DUCKS}
JSON_ROWS: dict[str, tuple[Any, Any]] = {
    "date": ("5877642-06-25 (BC)", "5881580-07-10"),
    "time": ("00:00:00", "24:00:00"),
    "time_ns": ("00:00:00", "24:00:00"),
    "timestamp": ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806"),
    "timestamp_s": ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54"),
    "timestamp_ms": ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775"),
    "timestamp_ns": ("1677-09-22T00:00:00.000000Z", "2262-04-11T23:47:16.854775806Z"),
    "timestamp_tz": ("290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54.775806+00"),
    "timestamp_tz_ns": ("1677-09-22T00:00:00.000000Z", "2262-04-11T23:47:16.854775806Z"),
    "interval": ("PT0S", "P999M999DT999.999999S"),
    "int_array": ([], INTS),
    "double_array": ([], [42.0, "NaN", "Infinity", "-Infinity", None, -42.0]),
    "date_array": ([], ["1970-01-01", "infinity", "-infinity", None, "2022-05-12"]),
    "timestamp_array": (
        [],
        ["1970-01-01T00:00:00.000000Z", "infinity", "-infinity", None, "2022-05-12T16:23:45.000000Z"],
    ),
    "timestamptz_array": (
        [],
        ["1970-01-01T00:00:00.000000Z", "infinity", "-infinity", None, "2022-05-12T23:23:45.000000Z"],
    ),
    "varchar_array": ([], WORDS),
    "nested_int_array": ([], [[], INTS, None, [], INTS]),
    "struct": (NO_AB, AB),
    "empty_struct": ({}, {}),
    "struct_of_arrays": (NO_AB, {"a": INTS, "b": WORDS}),
    "array_of_structs": ([], [NO_AB, AB, None]),
    "map": ({}, {"key1": DUCKS, "key2": "goose"}),
    "union": ("Frank", 5),
    "fixed_int_array": ([None, 2, 3], [4, 5, 6]),
    "fixed_varchar_array": (["a", None, "c"], ["d", "e", "f"]),
    "fixed_nested_int_array": ([[None, 2, 3], None, [None, 2, 3]], [[4, 5, 6], [None, 2, 3], [4, 5, 6]]),
    "fixed_nested_varchar_array": (
        [["a", None, "c"], None, ["a", None, "c"]],
        [["d", "e", "f"], ["a", None, "c"], ["d", "e", "f"]],
    ),
    "fixed_struct_array": ([NO_AB, AB, NO_AB], [AB, NO_AB, AB]),
    "struct_of_fixed_array": ({"a": [None, 2, 3], "b": ["a", None, "c"]}, {"a": [4, 5, 6], "b": ["d", "e", "f"]}),
    "fixed_array_of_int_list": ([[], INTS, []], [INTS, [], INTS]),
    "list_of_fixed_int_array": ([[None, 2, 3], [4, 5, 6], [None, 2, 3]], [[4, 5, 6], [None, 2, 3], [4, 5, 6]]),
    "tuple": ({"element1": None, "element2": None}, {"element1": 42, "element2": DUCKS}),
}
"""The JSON values of columns whose JSON differs from DuckDB's text."""
REFUSED = {
    *("hugeint", "uhugeint", "time", "time_ns", "date_array", "timestamp_array", "timestamptz_array"),
}
"""Columns with a value that Parquet and Arrow cannot represent."""
TEXTS = {"bignum", "time_tz", "bit", "geometry"}
"""Columns that Parquet and Arrow store as DuckDB's text."""
WRAPPERS: dict[str, tuple[str, Any]] = {
    "list": ("[{0}, NULL]", lambda value: [value, None]),
    "array": ("[{0}, {0}]::{1}[2]", lambda value: [value, value]),
    "struct": ("{{'a': {0}, 'b': [{0}]}}", lambda value: {"a": value, "b": [value]}),
    "map": ("map{{'k': {0}}}", lambda value: {"k": value}),
    "nested": ("[[{{'a': {0}}}]]", lambda value: [[{"a": value}]]),
}
"""Ways to nest a value in another one, in SQL and in JSON."""


@contextmanager
def open_database(place: Path) -> Iterator[Database]:
    (place / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",), str(place)))
    with Database(InstanceHandle.open(place / "sowctl.xml")) as made:
        yield made


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database whose tables no test changes."""
    with open_database(tmp_path_factory.mktemp("results")) as made:
        yield made


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[Database]:
    """A database for one test: a result that ends with an error keeps its connection."""
    with open_database(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """Plain DuckDB, with times in UTC."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@cache
def columns() -> dict[str, str]:
    """Return the columns of test_all_types() and their types."""
    found = duckdb.sql(f"FROM {ALL}")
    return {name: kind.id for name, kind in zip(found.columns, found.types, strict=True)}


def rows(database: Database, text: str) -> list[Any]:
    (result,) = database.run_statements(text)
    lines = [line for some in result.iterate_rows(format_non_finite) for line in some]
    return [json.loads(line, parse_float=Decimal) for line in lines]


def expected_json(plain: duckdb.DuckDBPyConnection, column: str, kind: str) -> list[Any]:
    """Return the expected JSON values of a column."""
    if column in JSON_ROWS:
        return [*JSON_ROWS[column], None]
    shown = plain.sql(f'SELECT CAST("{column}" AS VARCHAR) FROM {ALL}').fetchall()
    found: list[Any] = [text for (text,) in shown]
    if kind == "blob":
        return [b"thisisalongblob\x00withnullbytes", b"\x00\x00\x00a", None]
    if kind == "boolean":
        return [text and text == "true" for text in found]
    if kind.endswith(("int", "integer")) or kind == "bignum":
        return [text and int(text) for text in found]
    if kind in ("float", "double", "decimal"):
        return [text and Decimal(text) for text in found]
    return found


def test_every_type_of_duckdb_has_a_line() -> None:
    """A type added by a new release of DuckDB fails here until its export is decided."""
    assert {*columns().values()} - {*RESULT_TYPES} - {*NESTED_CELLS} == set()
    assert not {*RESULT_TYPES} & {*NESTED_CELLS}


@pytest.mark.parametrize("column", columns())
def test_formats_of_text_have_every_value(database: Database, plain: duckdb.DuckDBPyConnection, column: str) -> None:
    kind = columns()[column]
    found = [row["v"] for row in rows(database, f'SELECT "{column}" AS v FROM {ALL}')]
    if kind == "blob":
        found = [value and b64decode(value) for value in found]
    expected = expected_json(plain, column, kind)
    assert found == expected
    assert [*map(type, found)] == [*map(type, expected)]


@pytest.mark.parametrize(("column", "wrapper"), choose_pairs(columns(), WRAPPERS, 2))
def test_values_within_others_are_the_same(database: Database, column: str, wrapper: str) -> None:
    sql, wrap = WRAPPERS[wrapper]
    kind = next(iter(duckdb.sql(f'SELECT "{column}" FROM {ALL}').types))
    if wrapper == "map" and columns()[column] == "union":
        pytest.skip("a union has no type that a map takes")
    values = rows(database, f'SELECT "{column}" AS v FROM {ALL}')
    wrapped = rows(database, f"SELECT {sql.format(chr(34) + column + chr(34), kind)} AS v FROM {ALL}")
    assert [row["v"] for row in wrapped] == [wrap(row["v"]) for row in values]


FORMS = [(wrapper, name) for wrapper in ("{}", "[{}]", "{{'a': {}}}") for name in ("arrow", "parquet")]
"""The nesting of a value, and the format of the file."""


def written(database: Database, text: str, name: str) -> pa.Table:
    """Write a columnar file and return its content, read back."""
    (result,) = database.run_statements(text)
    out = BytesIO()
    reader = result.open_reader(name)
    writer: Any = (Parquet if name == "parquet" else ArrowStream)(out, reader.schema)
    for batch in reader:
        writer.write(batch)
    writer.close()
    if name == "arrow":
        return ipc.open_stream(out.getvalue()).read_all()
    return parquet.read_table(BytesIO(out.getvalue()))


@pytest.mark.parametrize(("column", "form"), choose_pairs(columns(), FORMS, 2))
def test_formats_of_columns_have_every_value_or_refuse(
    request: pytest.FixtureRequest, plain: duckdb.DuckDBPyConnection, column: str, form: tuple[str, str]
) -> None:
    """DuckDB reads the same values from the file as from its own result."""
    wrapper, name = form
    value = wrapper.format(f'"{column}"')
    statement = f"SELECT {value} AS v FROM {ALL}"
    database = request.getfixturevalue("refusing" if column in REFUSED else "database")
    if column in REFUSED:
        with pytest.raises(InputError, match=r"row \d, column v") as problem:
            written(database, statement, name)
        assert problem.value.code == "SOW-EXC-022"
        return
    table = written(database, statement, name)
    plain.register("found", table)
    again = [row[0] for row in plain.sql("SELECT CAST(v AS VARCHAR) FROM found").fetchall()]
    plain.unregister("found")
    if column == "tuple":
        # Its members have names there.
        assert table.to_pylist() == rows(database, statement)
        return
    shown = f'CAST("{column}" AS VARCHAR)' if column in TEXTS else f'"{column}"'
    if name == "parquet" and column in ("union", "empty_struct", "interval"):
        # Parquet has no such types: the file has the JSON of the value, and intervals in ISO 8601.
        expected = [row["v"] for row in rows(database, statement)]
        kept = [row["v"] for row in table.to_pylist()]
        if column == "interval":
            assert kept == expected
        elif wrapper == "{}":
            assert [value and json.loads(value) for value in kept] == expected
        return
    statement = f"SELECT CAST({wrapper.format(shown)} AS VARCHAR) FROM {ALL}"
    assert again == [row[0] for row in plain.sql(statement).fetchall()]


def test_numbers_of_38_digits_are_decimals(database: Database) -> None:
    statement = "SELECT 99999999999999999999999999999999999999::{0} AS v UNION ALL SELECT NULL"
    for kind in ("hugeint", "uhugeint"):
        for name in ("arrow", "parquet"):
            table = written(database, statement.format(kind), name)
            assert table.column(0).to_pylist() == [Decimal("9" * 38), None]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("time '12:34:56.5'", "12:34:56.500000"),
        ("timetz '12:34:56+02'", "12:34:56+02"),
        ("timestamp_ns '2021-12-27 22:00:00.123456789'", "2021-12-27T22:00:00.123456789Z"),
        ("timestamptz '2021-12-27 22:00:00+01'", "2021-12-27T21:00:00.000000Z"),
        ("date '0001-01-01'", "0001-01-01"),
        ("date '9999-12-31'", "9999-12-31"),
        ("date '10000-01-01'", "10000-01-01"),
        ("date '0044-03-15 (BC)'", "0044-03-15 (BC)"),
        ("timestamp '0001-12-31 (BC) 23:59:59.9'", "0001-12-31 (BC) 23:59:59.9"),
        ("timestamp '9999-12-31 23:59:59.999999'", "9999-12-31T23:59:59.999999Z"),
        ("'-infinity'::timestamptz", "-infinity"),
        ("interval '-3 months -2 days 3 hours 4.5 seconds'", "P-3M-2DT10804.5S"),
        ("to_microseconds(9223372036854775807)", "PT9223372036854.775807S"),
        ("map{['a']: 1}", [{"key": ["a"], "value": 1}]),
        ("map{1.50: 'x'}", {"1.50": "x"}),
        ("map{true: NULL}", {"true": None}),
        ("map{timestamp '2026-01-05 10:00:00': 1}", {"2026-01-05T10:00:00.000000Z": 1}),
        ("map{'nan'::double: 1}", {"NaN": 1}),
        ("map{}", {}),
        ("0.1::float", 0.1),
        ("-0.0::double", -0.0),
        ("'{\"a\": 1}'::json", '{"a": 1}'),
        ("{'a': [1, NULL]}::variant", '{"a":[1,null]}'),
        ("NULL", None),
    ],
)
def test_one_value(database: Database, value: str, found: Any) -> None:
    assert [json.loads(json.dumps(row, default=float)) for row in rows(database, f"SELECT {value} AS v")] == [
        {"v": found}
    ]


def test_days_are_those_of_duckdb(database: Database) -> None:
    """Every 9,973,000th day in DuckDB's range."""
    days = "SELECT date '1970-01-01' + range::INTEGER AS d FROM range(-2147483646, 2147483646, 9973000)"
    found = rows(database, f"SELECT d, d::VARCHAR AS t FROM ({days})")
    assert len(found) > 400
    assert [row["d"] for row in found] == [row["t"] for row in found]


def test_a_refusal_names_row_and_column(refusing: Database) -> None:
    date = "CASE WHEN range = 30123 THEN 'infinity'::date ELSE date '2026-01-05' END"
    statement = f"SELECT range AS n, {date} AS d FROM range(40000)"
    for name in ("arrow", "parquet"):
        with pytest.raises(InputError, match="row 30124, column d"):
            written(refusing, statement, name)


def test_a_refusal_names_the_largest_interval(database: Database) -> None:
    with pytest.raises(InputError, match="more than 9223372036854775807 nanoseconds"):
        written(database, "SELECT to_microseconds(9223372036854775807) AS i", "arrow")


def test_columns_of_one_name_are_numbered(database: Database) -> None:
    assert rows(database, "SELECT 1 AS a, 2 AS a, 3 AS a_1") == [{"a": 1, "a_2": 2, "a_1": 3}]
    assert written(database, "SELECT 1 AS a, 2 AS a", "parquet").column_names == ["a", "a_1"]


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_no_rows_have_types(database: Database, name: str) -> None:
    everything = written(database, f"SELECT * FROM {ALL} WHERE false", name)
    assert everything.column_names == [*columns()]
    assert everything.num_rows == 0
    assert rows(database, "SELECT 1 AS a WHERE false") == []
