"""Typed tables to messages: every type of Arrow, by every way that a table comes in, compared exactly with samples."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import msgpack
import pyarrow as pa
from pyarrow import ipc, lib, parquet

from sowctl.arrow.inputs.columnvalues import EXTENSION_RULES, PARQUET_RULES, TYPE_RULES
from sowctl.arrow.inputs.delimited_source import RowTarget
from sowctl.arrow.inputs.rowmessages import MessageMaker, build_struct_array
from sowctl.arrow.inputs.rows import TEXT_KINDS
from sowctl.arrow.inputs.table_source import iterate_column_chunks
from sowctl.errors import InputError
from sowctl.messages.types import get_type
from tests.arrow.samples import (
    FIRST,
    JSON_NULL,
    LAST,
    MOST,
    NULL,
    Degrees,
    Number,
    Refused,
    Sample,
    foreign_type,
    held,
    raw,
    samples,
)
from tests.support.examples import choose_pairs

PAGE = Path(__file__).parents[3] / "man" / "sowctl-types.7"
SAMPLES = samples()
NAMES = [one.name for one in SAMPLES]
NO_TYPES = {"Type_MAX_ID"}


def test_every_type_of_pyarrow_has_a_rule_and_samples() -> None:
    known = {name.removeprefix("Type_") for name in vars(lib) if name.startswith("Type_")} - NO_TYPES
    assert known - TYPE_RULES.keys() == set()
    tried = {one.array.type.id for one in SAMPLES} | {lib.Type_INTERVAL_MONTHS, lib.Type_INTERVAL_DAY_TIME}
    assert {name for name in known if getattr(lib, f"Type_{name}") not in tried} == set()


def test_every_extension_type_of_pyarrow_has_a_rule_and_samples() -> None:
    tried = {type(one.array.type): one.array.type.extension_name for one in SAMPLES if is_extension(one.array.type)}
    own = {kind for kind in subclasses(pa.BaseExtensionType) if kind.__module__ == "pyarrow.lib"}
    assert own - {pa.ExtensionType, pa.UnknownExtensionType} - tried.keys() == set()
    assert EXTENSION_RULES.keys() == {tried[kind] for kind in own & tried.keys()}


def test_the_page_has_the_rows_of_the_code() -> None:
    """sowctl-types(7): what each type becomes."""
    text = PAGE.read_text().replace("\\-", "-")
    # A cell of more than one line stands between T{ and T}.
    text = re.sub(r"T\{\n(.*)\nT\}", r"\1", text)
    tables = dict[str, list[list[tuple[str, ...]]]]()
    for head, table in re.findall(r"\.TS\n[^\n]+\n\\fB([^\n]+)\\fR\t\\fBbecomes\\fR\n(.*?)\n\.TE", text, re.DOTALL):
        tables.setdefault(head, []).append([tuple(row.split("\t")) for row in table.splitlines()])
    for rules, rows in zip((TYPE_RULES, EXTENSION_RULES, PARQUET_RULES), tables["type"], strict=True):
        assert [row for row in rows if row[0] != "all others"] == list(
            dict.fromkeys((rule.page, rule.becomes) for rule in rules.values())
        )
    (cells,) = tables["--type"]
    assert [row[0] for row in cells] == list(TEXT_KINDS)


@pytest.mark.parametrize("code", [b"tiM", b"tiD"])
def test_a_file_with_a_type_that_pyarrow_does_not_read_is_refused(code: bytes) -> None:
    kind = foreign_type(code)
    for schema in (pa.schema([("v", kind)]), pa.schema([("s", pa.struct([("v", pa.list_(kind))]))])):
        out = io.BytesIO()
        ipc.new_stream(out, schema).close()
        with pytest.raises(InputError) as caught:
            rows_of(out.getvalue(), "stream")
        assert (caught.value.code, caught.value.place) == ("SOW-EXC-012", "x")


def is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


@pytest.fixture(autouse=True)
def known_types() -> Iterator[None]:
    """The extension type of the tests, as programs know theirs."""
    pa.register_extension_type(Degrees())
    yield
    pa.unregister_extension_type("test.degrees")


def test_an_extension_that_nobody_knows_is_read_as_it_is_stored() -> None:
    data = as_stream(pa.table({"v": pa.ExtensionArray.from_storage(Degrees(), pa.array([1.5]))}))
    pa.unregister_extension_type("test.degrees")
    try:
        assert rows_of(data, "stream") == [b'{"v":1.5}']
    finally:
        pa.register_extension_type(Degrees())


# --- Ways in


def as_parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def as_file(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def as_stream(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


WAYS: dict[str, Callable[[pa.Table], bytes]] = {"parquet": as_parquet, "file": as_file, "stream": as_stream}


def rows_of(data: bytes, way: str, kind: str = "json", root: str | None = None) -> list[bytes | Refused]:
    """What ``publish --from`` makes of a file: for each row a message, or why there is none."""
    made = RowTarget(get_type(kind), root, by_user=False)
    found: dict[int, bytes | Refused] = {}
    for chunk in iterate_column_chunks("x", io.BytesIO(data), made, parquet=way == "parquet"):
        found |= {chunk.find_line(place): payload for place, payload in enumerate(chunk.payloads)}
        found |= {one.line: Refused(one.message) for one in chunk.refused}
        assert all(one.code == "SOW-EXC-011" for one in chunk.refused)
    assert sorted(found) == list(range(1, len(found) + 1))
    return [found[row] for row in sorted(found)]


def holds(table: pa.Table, way: str) -> bytes | None:
    """A table in a file; None where the format cannot have it, or would change its types."""
    try:
        data = WAYS[way](table)
    except (pa.ArrowException, OSError):
        return None
    try:
        if way == "parquet":
            back = parquet.read_table(io.BytesIO(data))
        else:
            back = (ipc.open_file if way == "file" else ipc.open_stream)(io.BytesIO(data)).read_all()
        # Not compared by its values: NaN is none that equals itself.
        return data if back.schema.equals(table.schema) and len(back) == len(table) else None
    except (pa.ArrowException, OSError):
        return None


# --- What is expected


def check(found: bytes | Refused, expected: Any, name: str = "v") -> None:
    """Compare a row exactly: numbers by their digits, where these are given, others as the same double."""
    if isinstance(expected, Refused):
        assert isinstance(found, Refused), (found, expected)
        assert expected.words in found.words, found
        assert "column " in found.words
        return
    assert isinstance(found, bytes), (found, expected)
    whole = json.loads(found, parse_float=Number, parse_int=lambda text: Number(text))
    if expected is JSON_NULL:
        assert whole == {name: None}
    elif expected is NULL:
        assert whole == {}
    else:
        assert set(whole) == {name}
        assert same(whole[name], expected), (whole[name], expected)


def same(found: Any, expected: Any) -> bool:
    if expected is JSON_NULL:
        return found is None
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(expected)
            and all(same(found[name], one) for name, one in expected.items())
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return isinstance(found, Number) and repr(float(found.text)) == repr(expected)
    if isinstance(expected, int) and not isinstance(expected, bool):
        return found == Number(str(expected))
    return type(found) is type(expected) and bool(found == expected)


# --- Each sample by itself, and within others


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_a_column_of_every_type(sample: Sample) -> None:
    ways = 0
    for way in WAYS:
        data = holds(pa.table({"v": sample.array}), way)
        if data is not None:
            ways += 1
            found = rows_of(data, way)
            assert len(found) == len(sample.expected)
            for one, expected in zip(found, sample.expected, strict=True):
                check(one, expected)
    assert ways >= 2


def items(array: pa.Array) -> list[int]:
    return list(range(len(array) + 1))


WRAPS: dict[str, tuple[Callable[[pa.Array], pa.Array], Callable[[Any], Any]]] = {
    "list": (lambda array: pa.ListArray.from_arrays(items(array), array), lambda one: [one]),
    "large_list": (lambda array: pa.LargeListArray.from_arrays(items(array), array), lambda one: [one]),
    "fixed_size_list": (lambda array: pa.FixedSizeListArray.from_arrays(array, 1), lambda one: [one]),
    "list_view": (
        lambda array: pa.ListViewArray.from_arrays(items(array)[:-1], [1] * len(array), array),
        lambda one: [one],
    ),
    "struct": (
        lambda array: pa.StructArray.from_arrays([pa.nulls(len(array)), array], ["n", "a"]),
        lambda one: {} if one is NULL else {"a": one},
    ),
    "map": (
        lambda array: pa.MapArray.from_arrays(items(array), pa.array(["k"] * len(array)), array),
        lambda one: {} if one is NULL else {"k": one},
    ),
    "dictionary": (
        lambda array: pa.DictionaryArray.from_arrays(pa.array(range(len(array)), pa.int32()), array),
        lambda one: one,
    ),
    "run_end_encoded": (
        # The other way to make one looks at all values.
        lambda array: pa.Array.from_buffers(
            pa.run_end_encoded(pa.int32(), array.type),
            len(array),
            [None],
            children=[pa.array(range(1, len(array) + 1), pa.int32()), array],
        ),
        lambda one: one,
    ),
    "dense union": (
        lambda array: pa.UnionArray.from_dense(
            pa.array([0] * len(array), pa.int8()), pa.array(range(len(array)), pa.int32()), [array]
        ),
        lambda one: one,
    ),
    "sparse union": (
        lambda array: pa.UnionArray.from_sparse(pa.array([0] * len(array), pa.int8()), [array]),
        lambda one: one,
    ),
}


def _name_case(value: int | str) -> str:
    return NAMES[value] if isinstance(value, int) else value


def is_refused(expected: Any) -> bool:
    return isinstance(expected, Refused)


@pytest.mark.parametrize(("number", "wrap"), choose_pairs(range(len(SAMPLES)), WRAPS, 2), ids=_name_case)
def test_a_value_of_every_type_within_every_other(number: int, wrap: str) -> None:
    sample = SAMPLES[number]
    make, around = WRAPS[wrap]
    array = make(sample.array)
    expected = [Refused("") if is_refused(one) else around(one) for one in sample.expected]
    tried = 0
    for way in WAYS:
        data = holds(pa.table({"v": array}), way)
        if data is not None:
            tried += 1
            found = rows_of(data, way)
            assert len(found) == len(expected)
            for one, wanted in zip(found, expected, strict=True):
                check(one, wanted)
    # A part of an array has the same values as the whole.
    if len(array) > 1:
        for first, count in ((1, len(array) - 1), (0, len(array) - 1), (len(array) - 1, 1)):
            batch = pa.record_batch([array], ["v"]).slice(first, count)
            maker = MessageMaker(list(batch.schema), get_type("json"))
            messages = maker.encode_rows(build_struct_array(batch, ["v"]))
            for made, wanted in zip(messages, expected[first : first + count], strict=True):
                check(made if isinstance(made, bytes) else Refused(str(made)), wanted)
    assert tried or wrap == "dictionary"


# --- Parquet's own types


def test_timestamps_of_96_bits() -> None:
    """Spark and Impala write them; beyond 2262 pyarrow's nanoseconds begin anew."""
    seconds = [FIRST, LAST, 0, NULL]
    expected = ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.000000Z", "1970-01-01T00:00:00.000000Z", NULL]
    check_96_bits(raw(seconds, pa.timestamp("s")), expected)
    check_96_bits(raw([1, -1, NULL], pa.timestamp("us")), [at("1970", "00.000001"), at("1969", "59.999999"), NULL])
    numbers = [1_640_642_400_123_456_789, MOST]
    texts = ["2021-12-27T22:00:00.123456789Z", "2262-04-11T23:47:16.854775807Z"]
    check_96_bits(raw(numbers, pa.timestamp("ns")), texts)


def at(year: str, seconds: str) -> str:
    return f"{year}-01-01T00:00:{seconds}Z" if year == "1970" else f"{year}-12-31T23:59:{seconds}Z"


def check_96_bits(array: pa.Array, expected: list[Any]) -> None:
    lists = pa.ListArray.from_arrays(list(range(len(array) + 1)), array)
    structs = pa.StructArray.from_arrays([lists], ["x"])
    for column, around in (
        (array, lambda one: one),
        (lists, lambda one: [one]),
        (structs, lambda one: {"x": [one]}),
    ):
        out = io.BytesIO()
        parquet.write_table(pa.table({"v": column}), out, use_deprecated_int96_timestamps=True)
        for made, one in zip(rows_of(out.getvalue(), "parquet"), expected, strict=True):
            check(made, around(one))


@pytest.mark.parametrize(
    ("leaf", "array", "expected"),
    [
        ("ENUM", pa.array([b"a", "ü".encode(), b"\xff", NULL]), ["a", "ü", Refused("UTF-8"), NULL]),
        ("JSON", pa.array(['{"a":1}', "{", NULL]), [{"a": 1}, Refused("JSON"), NULL]),
        ("UUID", pa.array([bytes(16), NULL], pa.binary(16)), ["00000000-0000-0000-0000-000000000000", NULL]),
        ("INTERVAL", pa.array([bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])], pa.binary(12)), ["P1M2DT0.003S"]),
    ],
)
def test_logical_types_of_parquet_that_pyarrow_keeps(leaf: str, array: pa.Array, expected: list[Any]) -> None:
    struct = pa.StructArray.from_arrays([pa.array(["t"] * len(array)), array], ["first", "v"])
    fields = [pa.field("before", struct.type), pa.field("v", array.type)]
    leaves = ["STRING", leaf, leaf]
    maker = MessageMaker(fields, get_type("json"), leaves=leaves)
    made = maker.encode_rows(pa.StructArray.from_arrays([struct, array], fields=fields))
    for one, wanted in zip(made, expected, strict=True):
        if is_refused(wanted):
            check(Refused(str(one)), wanted)
        else:
            assert isinstance(one, bytes)
            whole = json.loads(one)
            assert whole.get("v") == whole["before"].get("v") == wanted
    assert PARQUET_RULES.keys() == {"ENUM", "JSON", "UUID", "INTERVAL"}


# --- Messages of other types


def unpacked(expected: Any, kind: str) -> Any:
    """A value as the readers of MessagePack and BSON give it back."""
    if isinstance(expected, Number):
        return held(expected.text, 2**63 if kind == "bson" else 2**64)
    if isinstance(expected, dict):
        return {name: unpacked(one, kind) for name, one in expected.items()}
    return [unpacked(one, kind) for one in expected] if isinstance(expected, list) else expected


@pytest.mark.parametrize(("number", "kind"), choose_pairs(range(len(SAMPLES)), ["msgpack", "bson"], 1), ids=_name_case)
def test_a_column_of_every_type_in_messages_of_binary_types(number: int, kind: str) -> None:
    sample = SAMPLES[number]
    read = msgpack.unpackb if kind == "msgpack" else pytest.importorskip("bson").decode
    for made, expected in zip(
        rows_of(as_stream(pa.table({"v": sample.array})), "stream", kind), sample.binary, strict=True
    ):
        if kind == "bson" and isinstance(expected, int) and expected > 2**63 - 1:
            expected = Refused("column v: ")
        if isinstance(expected, Refused):
            check(made, expected)
            continue
        assert isinstance(made, bytes), (made, expected)
        assert repr(read(made)) == repr({} if expected is NULL else {"v": unpacked(expected, kind)})


@pytest.mark.parametrize(
    ("number", "kind"), choose_pairs(range(len(SAMPLES)), ["nvfix", "fix", "xml"], 1), ids=_name_case
)
def test_a_column_of_every_type_in_messages_of_text(number: int, kind: str) -> None:
    sample = SAMPLES[number]
    texts = len(sample.array)
    columns: dict[str, pa.Array] = {"1": pa.array(["k"] * texts), "55": sample.array}
    if kind == "xml":
        inner = pa.StructArray.from_arrays([pa.array(["k"] * texts), sample.array], ["a", "v"])
        columns = {"r": inner}
    for made, expected in zip(rows_of(as_stream(pa.table(columns)), "stream", kind), sample.expected, strict=True):
        text = expected if sample.name != "json" or isinstance(expected, str) else JSON_NULL
        if kind == "xml" and isinstance(text, str) and "\0" in text:
            text = Refused("")
        if isinstance(text, list) and not any(isinstance(one, dict | list) for one in text):
            check_repeated(made, text, kind)
            continue
        if (isinstance(text, list) or (isinstance(text, dict) and text)) and kind != "xml":
            text = Refused("column ")
        if text is JSON_NULL:
            continue
        if isinstance(text, Refused):
            check(made, text)
            continue
        if isinstance(text, list) or (isinstance(text, dict) and text):
            # Which names XML can have is a matter of its own.
            assert isinstance(made, bytes | Refused)
            continue
        assert isinstance(made, bytes), (made, text)
        check_text(made, text, kind)


def check_repeated(made: bytes | Refused, expected: list[Any], kind: str) -> None:
    """A list is as many fields, in its order; the NULLs in it are fields without a value."""
    assert isinstance(made, bytes), (made, expected)
    if kind == "xml":
        found = [one.text or "" for one in ElementTree.fromstring(made).findall("v")]
    else:
        found = [one[3:] for one in made.decode().split("\1") if one.startswith("55=")]
    assert len(found) == len(expected)
    assert [not one for one in found] == [one in (None, JSON_NULL, "") for one in expected]


def check_text(made: bytes, expected: Any, kind: str) -> None:
    """Compare the value of a message of texts; an object of nothing is nothing there."""
    if kind == "xml":
        element = ElementTree.fromstring(made).find("v")
        found = None if element is None else element.text or ""
    else:
        fields = dict(one.split("=", 1) for one in made.decode().split("\1") if one)
        found = fields.get("55")
    if expected is NULL or expected == {}:
        assert found is None
    elif isinstance(expected, bool):
        assert found == str(int(expected))
    elif isinstance(expected, float):
        assert found is not None and repr(float(found)) == repr(expected)
    elif isinstance(expected, Number):
        assert found == expected.text
    else:
        assert found == str(expected)
