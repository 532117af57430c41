"""Files of columns: every record with every value, whatever types its neighbours have."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import pyarrow as pa
from pyarrow import ipc, parquet

from sowctl.arrow import requirements
from sowctl.arrow.column_passes import SAMPLE_MESSAGES
from sowctl.arrow.inference import Inference
from sowctl.errors import ConfigError, InputError, UsageError
from sowctl.output.exports import Export
from sowctl.output.formats import RenderResult, make_renderer
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch, OutputBatch, OutputRecord

AT = 1_767_323_045_678_901


def batch(*payloads: bytes, extra: dict[str, Any] | None = None) -> OutputBatch:
    """Records with these payloads."""
    records = [OutputRecord(payload, 2**64 - 1 - n, AT, 0, 7 + n, extra=extra) for n, payload in enumerate(payloads)]
    return OutputBatch("orders", "json", lambda payload: payload, records)


class Twice:
    """Batches that can be asked for again."""

    def __init__(self, *batches: OutputBatch) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def iterate_again(self) -> Iterator[Batch]:
        return iter(self.batches)


def table(*batches: OutputBatch, name: str = "parquet", meta: bool = False) -> pa.Table:
    """What a format wrote, read again."""
    out = io.BytesIO()
    make_renderer(name, OutputOptions(meta=meta)).write(iter(batches), out)
    if name == "arrow":
        return ipc.open_stream(out.getvalue()).read_all()
    return parquet.read_table(io.BytesIO(out.getvalue()))


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_members_become_columns(name: str) -> None:
    found = table(batch(b'{"id":1,"price":1.5,"t":{"x":[1,2]}}', b'{"id":2,"late":"x"}'), name=name)
    assert [str(field.type) for field in found.schema] == [
        *("int64", "double", "struct<x: list<element: int64>>", "string")
    ]
    assert found.to_pylist() == [
        {"id": 1, "price": 1.5, "t": {"x": [1, 2]}, "late": None},
        {"id": 2, "price": None, "t": None, "late": "x"},
    ]


LATE = {
    "a text where a number was": (b"1", b'"text"', pa.string(), "1", "text"),
    "a fraction": (b"1", b"2.5", pa.float64(), 1.0, 2.5),
    "a fraction behind what no double has": (
        *(b"9007199254740993", b"2.5", pa.decimal128(17, 1)),
        *(Decimal("9007199254740993.0"), Decimal("2.5")),
    ),
    "a number of many digits": (
        *(b"0.5", b"0.10000000000000000001", pa.decimal128(21, 20)),
        *(Decimal("0.50000000000000000000"), Decimal("0.10000000000000000001")),
    ),
    "a whole number that no double has": (
        *(b"0.5", b"9007199254740993", pa.decimal128(17, 1)),
        *(Decimal("0.5"), Decimal("9007199254740993.0")),
    ),
    "more than 64 bits": (b"1", b"9223372036854775808", pa.decimal128(19, 0), 1, 2**63),
    "more digits of a decimal": (
        *(b"9223372036854775808", b"0.25", pa.decimal128(21, 2)),
        *(Decimal(2**63), Decimal("0.25")),
    ),
    "a number after nothing but null": (b"null", b"5", pa.int64(), None, 5),
    "an object where a text was": (b'"x"', b'{"a":1.50}', pa.string(), "x", '{"a":1.50}'),
    "a short form of a double": (b"0.5", b"1.25e2", pa.float64(), 0.5, 125.0),
    "a double with all its digits": (b"0.5", b"0.30000000000000004", pa.float64(), 0.5, 0.30000000000000004),
    "too large for a double": (b"0.5", b"1e400", pa.string(), "0.5", "1e400"),
}


@pytest.mark.parametrize("what", LATE)
@pytest.mark.parametrize("again", [False, True], ids=["kept", "asked again"])
def test_what_comes_late_widens_its_column(what: str, again: bool) -> None:
    early, late, kind, first, last = LATE[what]
    some = batch(*[b'{"v":%b}' % early] * 1000)
    batches = [some] * (SAMPLE_MESSAGES // 1000 + 2) + [batch(b'{"v":%b,"new":true}' % late)]
    out = io.BytesIO()
    make_renderer("parquet", OutputOptions()).write(Twice(*batches) if again else iter(batches), out)
    found = parquet.read_table(io.BytesIO(out.getvalue()))
    assert found.schema.names == ["v", "new"]
    assert found.schema.field("v").type == kind
    seen = found.to_pylist()
    assert len(seen) == SAMPLE_MESSAGES + 2001
    assert seen[0] == {"v": first, "new": None}
    assert seen[-1] == {"v": last, "new": True}
    # the types are those of a look at every value, which is what the pipeline takes
    looked = Inference()
    for one in batches:
        looked.add(one.payloads)
    assert found.schema == pa.schema(list(looked.build_struct()))


def test_payloads_that_are_no_objects_have_columns_of_their_own() -> None:
    found = table(batch(b"[1]", b'{"a":1', b'{"a": 1}', b"\xff", b"null"))
    assert found.to_pylist() == [
        {"a": None, "data": [1], "data_base64": None},
        {"a": None, "data": None, "data_base64": "eyJhIjox"},
        {"a": 1, "data": None, "data_base64": None},
        {"a": None, "data": None, "data_base64": "/w=="},
        {"a": None, "data": None, "data_base64": None},
    ]


def test_metadata_are_the_columns_of_the_data_source() -> None:
    found = table(batch(b'{"a":1,"_txid":"mine"}', extra={"operation": "publish", "sequence": 5}), meta=True)
    (row,) = found.to_pylist()
    assert str(row.pop("_timestamp")) == "2026-01-02 03:04:05.678901+00:00"
    assert row == {
        "a": 1,
        "_txid": "mine",
        "_sow_key": Decimal(2**64 - 1),
        "_expiration": None,
        "_topic": "orders",
        "_message_type": "json",
        "_logical_topic": None,
        "_user_key": None,
        "_correlation_id": None,
        "_operation": "publish",
        "_sequence": 5,
    }


def test_metadata_without_a_column_are_told() -> None:
    rendered: RenderResult = make_renderer("parquet", OutputOptions(meta=True)).write(
        iter([batch(b'{"_txid":1}')]), io.BytesIO()
    )
    (note,) = rendered.notes
    assert note.endswith(": _txid")


def test_no_records_are_a_file_without_rows() -> None:
    assert table().num_rows == 0
    assert table(name="arrow").num_columns == 0


def test_columns_do_not_go_to_a_terminal() -> None:
    from sowctl.output.options import Terminal

    with pytest.raises(UsageError) as raised:
        make_renderer("parquet", OutputOptions(terminal=Terminal()))
    assert raised.value.code == "SOW-OUT-011"


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as raised:
        make_renderer("parquet", OutputOptions())
    assert raised.value.code == "SOW-EXC-001" and str(raised.value.hint).endswith("'sowctl[arrow]'")


ROWS = batch(
    b'{"id":1,"big":12345678901234567890,"t":{"x":[1.50,"a"]},"ok":true,"p":1.10}', b'{"id":2,"more":"a,b","p":2}'
)


def exported(name: str, path: Path, *, meta: bool = False) -> None:
    with path.open("wb") as out:
        Export(name, "orders", meta=meta).write(Twice(ROWS), out)


def test_sqlite_has_one_table(tmp_path: Path) -> None:
    exported("x.db", tmp_path / "x.db", meta=True)
    database = sqlite3.connect(tmp_path / "x.db")
    cursor = database.execute("select * from orders")
    assert [column[0] for column in cursor.description][:6] == ["id", "big", "t", "ok", "p", "more"]
    first, second = cursor.fetchall()
    assert first[:9] == (
        *(1, "12345678901234567890", '{"x":["1.50","a"]}', 1, 1.1, None),
        *("18446744073709551615", 7, "2026-01-02T03:04:05.678901Z"),
    )
    assert second[:6] == (2, None, None, None, 2.0, "a,b")
    database.close()


@pytest.mark.parametrize(
    "payload",
    [
        b'{"id":1,"ID":2}',
        b'{"a\\u0000b":1}',
        json.dumps({f"m{number}": number for number in range(2001)}).encode(),
    ],
)
def test_what_a_table_of_sqlite_cannot_have_is_refused(payload: bytes) -> None:
    with pytest.raises(InputError) as raised:
        Export("x.db", "orders", meta=False).write(Twice(batch(payload)), io.BytesIO())
    assert raised.value.code == "SOW-EXC-025"
    assert raised.value.hint is not None


def test_sqlite_has_2000_columns(tmp_path: Path) -> None:
    wide = {f"m{number}": number for number in range(2000)}
    with (tmp_path / "x.db").open("wb") as out:
        Export("x.db", "orders", meta=False).write(Twice(batch(json.dumps(wide).encode())), out)
    database = sqlite3.connect(tmp_path / "x.db")
    assert database.execute("select * from orders").fetchone() == (*range(2000),)
    database.close()


@pytest.mark.parametrize(("packing", "unpack"), [("", bytes), (".gz", "gzip"), (".zst", "zstd")])
def test_texts_have_the_members_of_all_records(tmp_path: Path, packing: str, unpack: Any) -> None:
    import gzip

    import zstandard

    def read(name: str) -> bytes:
        exported(name + packing, tmp_path / "file")
        data = (tmp_path / "file").read_bytes()
        if unpack == "gzip":
            return gzip.decompress(data)
        return zstandard.ZstdDecompressor().decompressobj().decompress(data) if unpack == "zstd" else data

    assert read("x.csv") == (
        b'id,big,t,ok,p,more\n1,12345678901234567890,"{""x"":[1.50,""a""]}",true,1.10,\n2,,,,2,"a,b"\n'
    )
    assert read("x.tsv").splitlines()[2] == b"2\t\t\t\t2\ta,b"
    assert read("x.ndjson").splitlines() == ROWS.payloads
    assert [json.dumps(one) for one in json.loads(read("x.json"))] == [json.dumps(json.loads(p)) for p in ROWS.payloads]


def test_arrow_files(tmp_path: Path) -> None:
    for name in ("x.arrow", "x.feather", "x.arrows", "x.parquet"):
        exported(name, tmp_path / name)
    kept = ipc.open_file(str(tmp_path / "x.arrow")).read_all()
    assert kept == ipc.open_file(str(tmp_path / "x.feather")).read_all()
    assert kept == ipc.open_stream(str(tmp_path / "x.arrows")).read_all()
    assert kept == parquet.read_table(tmp_path / "x.parquet")


@pytest.mark.parametrize("name", ["orders", "orders.txt", "x.parquet.gz", ".csv.d", "dir.csv/x"])
def test_a_file_of_no_known_format_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        Export(name, "orders", meta=False)
    assert raised.value.code == "SOW-EXC-002"
