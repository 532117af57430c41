"""Durations of dictionaries come out of Parquet as they come out of Arrow files, wherever they are nested."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import pyarrow as pa
from pyarrow import parquet

from sowctl.arrow.inputs.columnfiles import open_columns

CODED = pa.array([1_000, 2_500, None, -1], pa.duration("ms")).dictionary_encode()
COUNTED = pa.array([1, 2, None, 3]).dictionary_encode()
STARTS = [0, 1, 2, 3, 4]
COLUMNS: dict[str, pa.Array] = {
    "alone": CODED,
    "list": pa.ListArray.from_arrays(STARTS, CODED),
    "large list": pa.LargeListArray.from_arrays(STARTS, CODED),
    "struct": pa.StructArray.from_arrays([CODED, COUNTED], ["d", "n"]),
    "list of structs": pa.ListArray.from_arrays(STARTS, pa.StructArray.from_arrays([CODED, COUNTED], ["d", "n"])),
    "map": pa.MapArray.from_arrays(STARTS, pa.array(["a", "b", "c", "d"]), CODED),
}


def read(table: pa.Table, **options: Any) -> pa.Table:
    out = BytesIO()
    parquet.write_table(table, out, **options)
    found = open_columns("x.parquet", BytesIO(out.getvalue()), parquet=True)
    return pa.Table.from_batches(list(found.batches), found.schema)


@pytest.mark.parametrize("name", COLUMNS)
def test_they_are_durations(name: str) -> None:
    table = pa.table({"c": COLUMNS[name], "n": COUNTED})
    found = read(table)
    assert found.to_pylist() == table.to_pylist()
    # Without the writer's types nothing says that they are any.
    assert "duration" not in str(read(table, store_schema=False).schema)


@pytest.mark.parametrize("text", [b"", b"?", b"AAAA", base64.b64encode(pa.schema([("x", pa.int8())]).serialize())])
def test_types_that_cannot_be_read_say_nothing(text: bytes) -> None:
    table = pa.table({"c": CODED}).replace_schema_metadata({"ARROW:schema": text})
    assert read(table, store_schema=False)["c"].to_pylist() == [1_000, 2_500, None, -1]
