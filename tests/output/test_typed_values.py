"""Values of typed messages in typed files: every value, or its digits, and nothing that became NULL or another one."""

from __future__ import annotations

import io
import json
import math
import sqlite3
import struct
from base64 import b64encode
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from sowctl.engine.api import InstanceHandle
from sowctl.engine.options import QueryOptions
from sowctl.engine.verbs.query import start_query
from sowctl.messages.nested.msgpack import MsgpackType
from sowctl.output.exports import Export
from sowctl.output.formats import make_renderer
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch
from tests.support.examples import examples

NAN, INF = math.nan, math.inf
FLOATS = (NAN, INF, -INF, -0.0, 0.1, 5e-324, 1.7976931348623157e308)


def config(message_type: str) -> str:
    """An instance with the topic t of a message type."""
    return (
        f"<AMPSConfig><Name>i</Name><SOW><Topic><Name>t</Name><MessageType>{message_type}</MessageType><Key>/id</Key>"
        f"<FileName>sow/%n.sow</FileName></Topic></SOW></AMPSConfig>"
    )


def instance_of(place: Path, message_type: str, messages: Sequence[bytes]) -> InstanceHandle:
    """An instance whose topic has these messages."""
    place.mkdir(exist_ok=True)
    (place / "sowctl.xml").write_text(config(message_type))
    instance = InstanceHandle.open(place / "sowctl.xml")
    instance.topic("t").publish(list(messages))
    return instance


def packed(message_type: str, message: dict[str, Any]) -> bytes:
    """A message of one of the types."""
    if message_type == "bson":
        return bytes(pytest.importorskip("bson").encode(message))
    return bytes(msgpack.packb(message))


def exported(instance: InstanceHandle, name: str) -> bytes:
    """What a file of this name holds."""
    out = io.BytesIO()
    found = start_query(instance, [instance.topic("t").target], QueryOptions(order_by="/id"))
    Export(name, "t", meta=False).write(found, out)
    return out.getvalue()


def rows_of(instance: InstanceHandle, name: str, place: Path) -> list[tuple[Any, ...]]:
    """The rows of the file, in the order of ids."""
    data = exported(instance, name)
    if name.endswith("db"):
        (place / name).write_bytes(data)
        database = sqlite3.connect(place / name)
        found = database.execute("select * from t order by id").fetchall()
        database.close()
        return found
    table = parquet.read_table(io.BytesIO(data)) if name.endswith("parquet") else ipc.open_file(data).read_all()
    return [tuple(row.values()) for row in sorted(table.to_pylist(), key=lambda row: row["id"])]


def same(left: Any, right: Any) -> bool:
    """Whether two values are one value: NaN is itself, and zeros have signs."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("d", left) == struct.pack("d", right) or (left != left and right != right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return type(left) is type(right) and bool(left == right)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.db"])
@pytest.mark.parametrize("message_type", ["msgpack", "bson"])
def test_doubles_are_kept(tmp_path: Path, message_type: str, name: str) -> None:
    messages = [{"id": at, "f": value, "l": [value, 0.5], "o": {"x": value}} for at, value in enumerate(FLOATS)]
    instance = instance_of(tmp_path / "i", message_type, [packed(message_type, one) for one in messages])
    found = rows_of(instance, name, tmp_path)
    if name != "x.db":
        assert same(found, [tuple(one.values()) for one in messages])
        return
    # SQLite stores NaN as NULL, so it is the text; infinities are numbers there, and a zero has no sign.
    assert same([row[1] for row in found], ["NaN", INF, -INF, 0.0, *FLOATS[4:]])
    assert [json.loads(row[2]) for row in found[:3]] == [["NaN", 0.5], ["Infinity", 0.5], ["-Infinity", 0.5]]
    assert json.loads(found[1][3]) == {"x": "Infinity"}


@pytest.mark.parametrize("message_type", ["msgpack", "bson"])
def test_msgpack_has_nan_and_infinities(tmp_path: Path, message_type: str) -> None:
    messages = [{"id": at, "f": value, "l": [value], "t": "NaN"} for at, value in enumerate(FLOATS)]
    instance = instance_of(tmp_path / "i", message_type, [packed(message_type, one) for one in messages])
    out = io.BytesIO()
    found = start_query(instance, [instance.topic("t").target], QueryOptions(order_by="/id"))
    make_renderer("msgpack", OutputOptions()).write(found, out)
    out.seek(0)
    assert same(list(msgpack.Unpacker(out)), messages)


def test_sql_finds_nan(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    from sowctl.engine.tables.database import Database

    messages = [msgpack.packb({"id": at, "f": value}) for at, value in enumerate(FLOATS)]
    instance = instance_of(tmp_path / "i", "msgpack", messages)
    with Database(instance) as database:
        result = next(
            database.run_statements("SELECT id, f FROM t WHERE isnan(f) OR isinf(f) OR f > 1e308 ORDER BY id")
        )
        assert same(result.open_reader().read_all().column("f").to_pylist(), [NAN, INF, -INF, 1.7976931348623157e308])


def test_bytes_that_are_no_text_have_their_base64_form(tmp_path: Path) -> None:
    values = [b"text", b"\xff\x00"]
    instance = instance_of(tmp_path / "i", "msgpack", [msgpack.packb({"id": n, "b": b}) for n, b in enumerate(values)])
    assert rows_of(instance, "x.parquet", tmp_path) == [(0, "text"), (1, b64encode(values[1]).decode())]


def test_dates_of_bson_beyond_those_of_python_are_kept(tmp_path: Path) -> None:
    bson = pytest.importorskip("bson")
    from bson.datetime_ms import DatetimeMS

    times = (-(2**63), 2**63 - 1, 253402300800000, 1)
    messages = [bson.encode({"id": at, "d": DatetimeMS(time)}) for at, time in enumerate(times)]
    instance = instance_of(tmp_path / "i", "bson", messages)
    texts = [str(time) for time in times[:3]] + ["1970-01-01T00:00:00.001000Z"]
    assert [row[1] for row in rows_of(instance, "x.parquet", tmp_path)] == texts


NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.integers(-(2**63), 2**64 - 1), st.integers(-9, 9), st.none()
)


def kept(value: Any, found: Any) -> bool:
    """Whether a column has a number: as a number of its type, or as the digits."""
    if isinstance(found, str):
        try:
            found = type(value)(found)
        except ValueError:
            return False
    if isinstance(value, float) and not isinstance(found, float):
        # A decimal has no negative zero, and is not chosen for what it does not have.
        return math.isfinite(value) and Decimal(repr(value)) == Decimal(found)
    if isinstance(value, int) and isinstance(found, float):
        return found.is_integer() and int(found) == value
    return same(value, found) or (isinstance(value, int) and value == found)


class Held:
    """One batch of messages that can be asked for again."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __iter__(self) -> Any:
        return iter([self.batch])

    def iterate_again(self) -> Any:
        return iter([self.batch])


@given(st.lists(NUMBERS, min_size=1, max_size=6))
@settings(max_examples=examples(200), deadline=None)
def test_every_number_is_kept(values: list[Any]) -> None:
    """Whatever stands beside it in its column, against the message's own reader."""
    from sowctl.engine.records import RecordBatch

    payloads = [msgpack.packb({"f": value}) for value in values]
    keys = [bytes(8)] * len(payloads)
    out = io.BytesIO()
    Export("x.parquet", "t", meta=False).write(Held(RecordBatch("t", MsgpackType(), keys, payloads, payloads)), out)
    found = parquet.read_table(io.BytesIO(out.getvalue())).column("f").to_pylist()
    assert [value is None for value in values] == [one is None for one in found]
    assert all(kept(value, one) for value, one in zip(values, found, strict=True) if value is not None)


@given(
    st.one_of(
        st.integers(-(10**30), 10**30).map(str),
        st.decimals(allow_nan=False, allow_infinity=False).map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.sampled_from(["1e400", "-0", "0.1000000000000000000001", "1E+2", "-0.0", "123456789012345678901234567890"]),
    )
)
@settings(max_examples=examples(300), deadline=None)
def test_numbers_of_json_are_kept_in_msgpack(text: str) -> None:
    from sowctl.output.records import OutputBatch, OutputRecord

    text = text.replace("E", "e").replace("e+", "e+")
    if text.lstrip("-")[:1] not in "0123456789":
        return
    out = io.BytesIO()
    record = OutputRecord(b'{"n":%b}' % text.encode())
    make_renderer("msgpack", OutputOptions()).write([OutputBatch("t", "json", lambda payload: payload, [record])], out)
    number = msgpack.unpackb(out.getvalue())["n"]
    digits = repr(number) if isinstance(number, float) else str(number)
    assert Decimal(digits) == Decimal(text)
    assert digits.startswith("-") == text.startswith("-")


def test_objects_without_members_are_texts_in_parquet(tmp_path: Path) -> None:
    messages = [
        b'{"id":1,"a":{},"b":[{},null,{}],"c":{"x":{},"y":9007199254740993}}',
        b'{"id":2,"c":{"y":0.5}}',
        b'{"id":3,"a":null,"b":[],"c":{"x":null}}',
    ]
    instance = instance_of(tmp_path / "i", "json", messages)
    rows = parquet.read_table(io.BytesIO(exported(instance, "o.parquet"))).sort_by("id").to_pylist()
    assert [row["a"] for row in rows] == ["{}", None, None]
    assert [row["b"] for row in rows] == [["{}", None, "{}"], None, []]
    large, half = Decimal(9007199254740993), Decimal("0.5")
    assert [row["c"] for row in rows] == [{"x": "{}", "y": large}, {"x": None, "y": half}, {"x": None, "y": None}]
