"""Files that DuckDB writes of its own types, published: every column of ``test_all_types()``, compared exactly."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")
pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

import duckdb
import pyarrow as pa

from sowctl.errors import InputError
from tests.arrow.inputs.test_columnvalues import as_file, as_stream, check, rows_of
from tests.arrow.samples import Number, Refused

YEARS = Refused("outside the years 1 to 9999")
DUCKS = "\U0001f986" * 6
INTS, TEXTS = [42, 999, None, None, -42], [DUCKS, "goose", None, ""]
ABC, DEF = ["a", None, "c"], ["d", "e", "f"]
FEW, MORE = [None, 2, 3], [4, 5, 6]
PAIR = {"a": 42, "b": DUCKS}
LONG_BLOB = "dGhpc2lzYWxvbmdibG9iAHdpdGhudWxsYnl0ZXM="
WHOLE: dict[str, tuple[Any, Any]] = {
    "bool": (False, True),
    "tinyint": (-128, 127),
    "smallint": (-32768, 32767),
    "int": (-2147483648, 2147483647),
    "bigint": (-9223372036854775808, 9223372036854775807),
    # DuckDB hands these on as decimals of 38 digits, which the largest ones do not fit: they are not taken for others.
    "hugeint": (Refused("more digits"), Refused("more digits")),
    "utinyint": (0, 255),
    "usmallint": (0, 65535),
    "uint": (0, 4294967295),
    "ubigint": (0, 18446744073709551615),
    "date": (YEARS, YEARS),
    "time": ("00:00:00", "24:00:00"),
    "timestamp": (YEARS, YEARS),
    "timestamp_s": (YEARS, YEARS),
    "timestamp_ms": (YEARS, YEARS),
    "timestamp_ns": ("1677-09-22T00:00:00.000000Z", "2262-04-11T23:47:16.854775806Z"),
    "timestamp_tz": (YEARS, YEARS),
    "timestamp_tz_ns": ("1677-09-22T00:00:00.000000Z", "2262-04-11T23:47:16.854775806Z"),
    "float": (-3.4028235e38, 3.4028235e38),
    "double": (-1.7976931348623157e308, 1.7976931348623157e308),
    "dec_4_1": (Number("-999.9"), Number("999.9")),
    "dec_9_4": (Number("-99999.9999"), Number("99999.9999")),
    "dec_18_6": (Number("-999999999999.999999"), Number("999999999999.999999")),
    "dec38_10": (
        Number("-9999999999999999999999999999.9999999999"),
        Number("9999999999999999999999999999.9999999999"),
    ),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "interval": ("PT0S", "P999M999DT999.999999S"),
    "varchar": (DUCKS, "goo\0se"),
    "blob": (LONG_BLOB, "AAAAYQ=="),
    "small_enum": ("DUCK_DUCK_ENUM", "GOOSE"),
    "medium_enum": ("enum_0", "enum_299"),
    "large_enum": ("enum_0", "enum_69999"),
    "int_array": ([], INTS),
    "double_array": ([], [42.0, "NaN", "Infinity", "-Infinity", None, -42.0]),
    "date_array": ([], YEARS),
    "timestamp_array": ([], YEARS),
    "timestamptz_array": ([], YEARS),
    "varchar_array": ([], TEXTS),
    "nested_int_array": ([], [[], INTS, None, [], INTS]),
    "struct": ({}, PAIR),
    "empty_struct": ({}, {}),
    "struct_of_arrays": ({}, {"a": INTS, "b": TEXTS}),
    "array_of_structs": ([], [{}, PAIR, None]),
    "map": ({}, {"key1": DUCKS, "key2": "goose"}),
    "union": ("Frank", 5),
    "fixed_int_array": (FEW, MORE),
    "fixed_varchar_array": (ABC, DEF),
    "fixed_nested_int_array": ([FEW, None, FEW], [MORE, FEW, MORE]),
    "fixed_nested_varchar_array": ([ABC, None, ABC], [DEF, ABC, DEF]),
    "fixed_struct_array": ([{}, PAIR, {}], [PAIR, {}, PAIR]),
    "struct_of_fixed_array": ({"a": FEW, "b": ABC}, {"a": MORE, "b": DEF}),
    "fixed_array_of_int_list": ([[], INTS, []], [INTS, [], INTS]),
    "list_of_fixed_int_array": ([FEW, MORE, FEW], [MORE, FEW, MORE]),
    "time_ns": ("00:00:00", "24:00:00"),
    "tuple": ({}, {"element1": 42, "element2": DUCKS}),
}
ARROW: dict[str, tuple[Any, Any]] = {
    # What DuckDB hands on is no longer what it was: a decimal of 38 digits begins anew, a time of day has lost its
    # offset, and the two others are bytes that only DuckDB reads.
    "uhugeint": (0, -1),
    "time_tz": ("00:00:00", "24:00:00"),
    "bit": ("AZEuKtc=", "A/U="),
}
PARQUET: dict[str, tuple[Any, Any]] = {
    "hugeint": (-1.7014118346046923e38, 1.7014118346046923e38),
    "uhugeint": (0.0, 3.402823669209385e38),
    "time_tz": ("08:00:01", "15:59:59"),
    "bit": ("0010001001011100010101011010111", "10101"),
    # Parquet has milliseconds.
    "interval": ("PT0S", "P999M999DT999.999S"),
    "union": ({"element1": 0, "name": "Frank"}, {"element1": 1, "age": 5}),
}
LOSSLESS: dict[str, tuple[Any, Any]] = {
    # Types that only DuckDB knows, as the bytes that they are stored as.
    "hugeint": ("AAAAAAAAAAAAAAAAAAAAgA==", "////////////////////fw=="),
    "uhugeint": ("AAAAAAAAAAAAAAAAAAAAAA==", "/////////////////////w=="),
    "time_tz": ("AAAAAAAAAAA=", "/sEBAGDXHRQ="),
}
OPEN = {"bignum", "geometry"}
"""Bytes of hundreds of digits and shapes: compared with what DuckDB has of them."""


@pytest.fixture(scope="module")
def database() -> Any:
    return duckdb.connect()


def columns() -> list[str]:
    return list(duckdb.connect().sql("SELECT * FROM test_all_types() LIMIT 0").columns)


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("name", columns())
def test_a_column_by_way_of_arrow(name: str, lossless: bool, database: Any) -> None:
    database.sql(f"SET arrow_lossless_conversion = {lossless}")
    found = database.sql(f'SELECT "{name}" FROM test_all_types()').arrow()
    table = found if isinstance(found, pa.Table) else found.read_all()
    more = ARROW | (LOSSLESS if lossless else {})
    if name in OPEN:
        # The bytes themselves, which pyarrow has as they are.
        column = table.column(0)
        storage = [one.as_py() for one in column]
        wanted: list[Any] = [None if one is None else base64_of(one) for one in storage]
    else:
        wanted = [*(more.get(name) or WHOLE[name]), None]
    for data, way in ((as_stream(table), "stream"), (as_file(table), "file")):
        for made, one in zip(rows_of(data, way), wanted, strict=True):
            check(made, one, name)


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("name", columns())
def test_a_column_by_way_of_parquet(name: str, database: Any, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    if name == "empty_struct":
        pytest.skip("Parquet has no structs without fields")
    database.sql(f"COPY (SELECT \"{name}\" FROM test_all_types()) TO '{file}'")
    data = file.read_bytes()
    if "fixed" in name and name != "list_of_fixed_int_array":
        # pyarrow itself does not read what DuckDB writes for a NULL there.
        with pytest.raises(InputError) as caught:
            rows_of(data, "parquet")
        assert caught.value.code == "SOW-EXC-012"
        return
    if name == "bignum":
        wanted: list[Any] = [one for (one,) in database.sql("SELECT bignum::VARCHAR FROM test_all_types()").fetchall()]
    elif name == "geometry":
        rows = database.sql("SELECT geometry FROM test_all_types()").arrow()
        table = rows if isinstance(rows, pa.Table) else rows.read_all()
        wanted = [None if one.as_py() is None else base64_of(one.as_py()) for one in table.column(0)]
    else:
        wanted = [*(PARQUET.get(name) or WHOLE[name]), None]
    for made, one in zip(rows_of(data, "parquet"), wanted, strict=True):
        check(made, one, name)
