"""Output of ``export`` and ``query --format json``, published into a new topic: the same messages, by their fields.

Two messages are equal if their fields are: by name, in any order of different names, with the values of a field in
order. A field without a value is equivalent to an absent one. Values are compared as in the JSON view, so for fix,
nvfix and xml by their texts; 1 and 1.0 are equal, as a column of doubles has both.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bson
import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.messages.base import MessageType
from sowctl.messages.tagged.bflatcodec import encode_field
from sowctl.messages.types import UNCONSTRUCTIBLE_TYPES, get_type
from sowctl.output.exports import ENDINGS
from tests.cli.conftest import Cli
from tests.cli.test_message_types import config, framed
from tests.support.examples import examples
from tests.support.messagetypes import SAMPLES, Sample

FORMATS = [*(ending.names[0] for ending in ENDINGS), "csv.gz", "ndjson.zst", "query"]
"""File name endings for ``export``; ``query`` is ``query --format json``."""
UNREADABLE_FORMATS = {"duckdb": "SOW-EXC-002"}
"""Formats of ``export`` that ``publish`` does not read, because only ``sowctl sql`` reads DuckDB databases."""
NULL_FORMATS = ("ndjson", "json", "msgpack", "query")
"""Formats that distinguish a field without a value from an absent one."""
TEXT_TABLES = ("csv", "tsv", "csv.gz")
LISTS_AS_TEXT = ("fix", "nvfix", "bflat")
"""Flat types: a cell of csv and tsv may be a list or one value that looks like a list, as decided by --type json."""

TREES: list[dict[str, Any]] = [
    {"a": "x", "n": 1},
    {"a": "y", "n": 2.5, "l": ["u"], "o": {"p": [{"q": "r"}, {"q": "s"}]}},
    {"a": "z", "l": ["u", "[8]"]},
]
XML = (
    b"<m><a>x</a><n>1</n></m>",
    b"<m><a>y</a><n>2.5</n><l>u</l><g k='1'>text<h>3</h></g></m>",
    b"<m><a>z</a><l>u</l><l/><l>[8]</l><g k='2'><h>3</h><h>4</h></g><g><h>5</h></g></m>",
)
TAGGED = (b"a=x;n=1;", b"a=y;n=2.5;l=u;", b"a=z;l=u;l=;l=[8];e=;")
BFLAT = (
    b"\x09a\x01x\x19n\x01\x99m\x01\x07",
    b"\x09a\x01y\x19l\x07",
    b"\x09a\x01z\x19l\x07\x19l\x08\x99m\x02\x01\x02\x01e",
)


def build_messages(sample: Sample) -> list[bytes]:
    """Three messages: a field is absent, occurs once, and several times."""
    kind = sample.type()
    texts = [json.dumps(tree).encode() for tree in TREES]
    made: dict[str, Callable[[], list[bytes]]] = {
        "json": lambda: texts,
        "bson": lambda: [bson.encode(tree) for tree in TREES],
        "msgpack": lambda: [msgpack.packb(tree) for tree in TREES],
        "xml": lambda: [*XML],
        "bflat": lambda: [*BFLAT],
        "composite-local": lambda: [framed(text) + framed(b"\x00\xff") for text in texts],
    }
    if kind.kind == "fix":
        return [b"1=x\x012=1\x01", b"1=y\x012=2.5\x015=u\x01", b"1=z\x015=u\x015=[8]\x014=\x01"]
    if kind.kind == "nvfix":
        separator = b"\x01" if isinstance(sample.kind, str) else sample.kind.field_separator
        return [one.replace(b";", separator) for one in TAGGED]
    return made.get(kind.kind, lambda: [sample.message])()


def read_fields(line: str) -> Any:
    """The fields of a message's JSON view, for comparison."""
    return drop_nulls(json.loads(line))


def drop_nulls(value: Any, *, in_list: bool = False) -> Any:
    if isinstance(value, dict):
        found = {name: drop_nulls(inner) for name, inner in value.items()}
        return {name: inner for name, inner in found.items() if inner is not None}
    if isinstance(value, list):
        # A list of one is equivalent to the value, as for a field that occurs once.
        items = [drop_nulls(one) for one in value]
        return items[0] if len(items) == 1 else items or None
    return value


def write_config(folder: Path, sample: Sample) -> None:
    kind = sample.type()
    key = sample.path("a") if kind.filterable else None
    definition = None if isinstance(sample.kind, str) else sample.kind
    topics = [("t", kind.name, key), ("u", kind.name, key)]
    (folder / "sowctl.xml").write_text(config(*topics, definition=definition))


class Exchange:
    """A topic t, whose records are exported and published into u."""

    def __init__(self, cli: Cli, kind: MessageType) -> None:
        self._cli = cli
        self._kind = kind

    def run(self, *argv: str, stdin: bytes = b"", status: int = 0) -> str:
        done = self._cli(*argv, stdin=stdin)
        assert done.status == status, (argv, done.err)
        return done.err if status else done.out

    def publish(self, messages: list[bytes]) -> None:
        chosen = [] if self._kind.filterable else ["--sow-key", "AAA"]
        self.run("publish", "t", "--framing", "length", *chosen, stdin=b"".join(map(framed, messages)))

    def write(self, format: str) -> str:
        if format == "query":
            Path("t.json").write_text(self.run("query", "t", "--format", "json"))
            return "t.json"
        self.run("export", "t", f"t.{format}", "--overwrite")
        return f"t.{format}"

    def read_back(self, name: str, format: str, types: tuple[str, ...] = ()) -> list[Any]:
        self.run("delete", "u", "--filter", "1=1", "--yes")
        # The table has the name of the exported topic.
        options = ["--table", "t"] if format == "sqlite" else []
        self.run("publish", "u", "--from", name, *options, *types)
        return self.list_fields("u")

    def list_fields(self, topic: str) -> list[Any]:
        return sorted(map(read_fields, self.run("query", topic).splitlines()), key=repr_sorted)


def repr_sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def choose_types(kind: MessageType, format: str, fields: list[Any]) -> tuple[str, ...]:
    """The options that state which columns of a file have lists: none if the format does."""
    if kind.kind not in LISTS_AS_TEXT or format not in TEXT_TABLES:
        return ()
    names = dict.fromkeys(name for one in fields for name, value in one.items() if isinstance(value, list))
    return tuple(part for name in names for part in ("--type", f"{name}=json"))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_every_type_comes_back_from_every_format(cli: Cli, sample: Sample, tmp_path: Path) -> None:
    kind = sample.type()
    write_config(tmp_path, sample)
    exchange = Exchange(cli, kind)
    exchange.publish(build_messages(sample))
    expected = exchange.list_fields("t")
    for ending in FORMATS:
        name = exchange.write(ending)
        if kind.kind in UNCONSTRUCTIBLE_TYPES:
            # No message can be built from the fields: their layout, or their bytes, are in no column.
            cells = cli("publish", "u", "--from", name)
            assert cells.status in (2, 3) and ("SOW-EXC-010" in cells.err or "SOW-EXC-011" in cells.err), cells.err
            continue
        found = exchange.read_back(name, ending, choose_types(kind, ending, expected))
        assert found == expected, (ending, found)


@pytest.mark.parametrize(("format", "code"), UNREADABLE_FORMATS.items())
def test_formats_that_publish_does_not_read(cli: Cli, format: str, code: str, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "json"))
    exchange = Exchange(cli, get_type("json"))
    exchange.publish([b'{"a":1}'])
    assert code in exchange.run("publish", "u", "--from", exchange.write(format), status=2)


def test_a_text_that_looks_like_a_list_stays_a_text(cli: Cli, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "nvfix"))
    exchange = Exchange(cli, get_type("nvfix"))
    exchange.publish([b"a=x\x01v=[7,8]\x01", b"a=y\x01v=[9]\x01"])
    expected = exchange.list_fields("t")
    assert expected[0]["v"] == "[7,8]"
    for ending in FORMATS:
        assert exchange.read_back(exchange.write(ending), ending) == expected, ending


@pytest.mark.parametrize("format", ["parquet", "arrow", "arrows", "sqlite"])
def test_members_called_like_metadata_come_back(cli: Cli, format: str, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "json"))
    exchange = Exchange(cli, get_type("json"))
    odd = {"_sow_key": 5, "_txid": 6, "_topic": "x", "_correlation_id": "c", "__index_level_0__": 7, "payload": "p"}
    exchange.publish([json.dumps({"a": "x", **odd}).encode(), b'{"a":"y"}'])
    expected = exchange.list_fields("t")
    assert exchange.read_back(exchange.write(format), format) == expected
    # With --meta the columns of metadata that are not members are omitted.
    exchange.run("export", "t", f"t.{format}", "--overwrite", "--meta")
    assert exchange.read_back(f"t.{format}", format) == expected


@pytest.mark.parametrize("format", ["parquet", "arrow", "sqlite", "csv", "tsv"])
def test_correlation_ids_come_back(cli: Cli, format: str, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "json"))
    exchange = Exchange(cli, get_type("json"))
    given = {"x": "first", "y": None, "z": "5"}
    lines = [json.dumps({"topic": "t", "correlation_id": text, "data": {"a": key}}) for key, text in given.items()]
    assert cli("publish", "t", "--framing", "envelope", stdin="\n".join(lines).encode()).status == 0
    exchange.run("export", "t", f"t.{format}", "--meta")
    exchange.run("publish", "u", "--from", f"t.{format}")
    rows = map(json.loads, exchange.run("query", "u", "--meta", "--format", "ndjson").splitlines())
    assert {row["data"]["a"]: row["correlation_id"] for row in rows} == given


def test_texts_of_sqlite_that_look_like_json_stay_texts(cli: Cli, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "json"))
    exchange = Exchange(cli, get_type("json"))
    exchange.publish([b'{"a":"x","t":"[7]","/*":1}', b'{"a":"y","t":"{}","*/":2}'])
    expected = exchange.list_fields("t")
    assert exchange.read_back(exchange.write("sqlite"), "sqlite") == expected
    # A table among several, which is copied, is recognized, too.
    exchange.run("export", ".*", "all.sqlite")
    assert exchange.read_back("all.sqlite", "sqlite") == expected


def test_texts_in_columns_with_repeated_fields_come_back(cli: Cli, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "nvfix"))
    exchange = Exchange(cli, get_type("nvfix"))
    texts = ["{}", "[]", "[7]", '["a"]', "[1,2", "[", '{"a":1}', "[[]]", "[[1],[2]]", '["a",{}]', "[1e999999,2]", "7"]
    messages = [f"a={number}\x01v={text}\x01".encode() for number, text in enumerate(texts)]
    exchange.publish([*messages, b"a=x\x01v=7\x01v=u\x01", b"a=y\x01v=\x01v=\x01"])
    expected = exchange.list_fields("t")
    for ending in TEXT_TABLES:
        assert exchange.read_back(exchange.write(ending), ending, ("--type", "v=json")) == expected, ending


def test_names_of_tags_come_back_as_tags(cli: Cli, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "fix"))
    exchange = Exchange(cli, get_type("fix"))
    exchange.publish([b"1=x\x0155=IBM\x01448=A\x01448=B\x01"])
    Path("named.json").write_text(exchange.run("query", "t", "--format", "json", "--fix-names"))
    assert '"Symbol"' in Path("named.json").read_text()
    assert exchange.read_back("named.json", "query") == exchange.list_fields("t")


def test_lists_that_a_type_cannot_repeat_are_refused(cli: Cli, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == "nvfix"))
    exchange = Exchange(cli, get_type("nvfix"))
    for value in ([[1], [2]], [{"b": 1}]):
        Path("x.ndjson").write_text(json.dumps({"a": "x", "v": value}))
        said = exchange.run("publish", "u", "--from", "x.ndjson", status=3)
        assert "SOW-EXC-011" in said and "field v is a list" in said


VALUES = st.sampled_from(["", "7", "u", "[7]", "2.5", "007", "a,b", '"'])


def build_tagged(fields: list[tuple[str, str]], names: dict[str, str]) -> bytes:
    return b"".join(f"{names.get(name, name)}={value}\x01".encode() for name, value in fields)


def build_xml(fields: list[tuple[str, str]], names: dict[str, str]) -> bytes:
    return b"<m>" + b"".join(f"<{name}>{value}</{name}>".encode() for name, value in fields) + b"</m>"


def build_bflat(fields: list[tuple[str, str]], names: dict[str, str]) -> bytes:
    return b"".join(f"\x09{name}{chr(len(value))}{value}".encode() for name, value in fields)


BUILDERS = {"fix": build_tagged, "nvfix": build_tagged, "xml": build_xml, "bflat": build_bflat}
FIX_TAGS = {"a": "1", "v": "55", "w": "44"}


def iterate_messages(kind: str, rows: list[tuple[list[str], list[str]]]) -> Iterator[bytes]:
    for number, (first, second) in enumerate(rows):
        fields = [("a", f"k{number}"), *(("v", one) for one in first), *(("w", one) for one in second)]
        yield BUILDERS[kind](fields, FIX_TAGS if kind == "fix" else {})


@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.lists(VALUES, max_size=2), st.lists(VALUES, max_size=2)), min_size=1, max_size=3),
    kind=st.sampled_from([*BUILDERS]),
    format=st.sampled_from(["parquet", "arrow", "sqlite", "msgpack", "ndjson", "json", "csv", "tsv", "query"]),
)
def test_repeated_fields_come_back(
    cli: Cli,
    rows: list[tuple[list[str], list[str]]],
    kind: str,
    format: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path_factory.mktemp("exchange")
    monkeypatch.chdir(folder)
    write_config(folder, next(one for one in SAMPLES if str(one) == kind))
    exchange = Exchange(cli, get_type(kind))
    exchange.publish([*iterate_messages(kind, rows)])
    expected = exchange.list_fields("t")
    found = exchange.read_back(exchange.write(format), format, choose_types(get_type(kind), format, expected))
    assert found == expected
    if format in NULL_FORMATS:
        assert sorted(exchange.run("query", "u").splitlines()) == sorted(exchange.run("query", "t").splitlines())


@pytest.mark.parametrize("kind", ["nvfix", "fix"])
def test_bytes_that_are_no_text_are_told_of(cli: Cli, kind: str, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == kind))
    tag = "1" if kind == "fix" else "a"
    exchange = Exchange(cli, get_type(kind))
    exchange.publish([f"{tag}=".encode() + value + b"\x01" for value in (b"\xff", b"\xfe", "\ufffd".encode(), b"x")])
    exchange.run("export", "t", "meta.ndjson", "--meta")
    exchange.run("publish", "u", "--framing", "envelope", "meta.ndjson")
    exchange.run("diff", "t", "u")
    for ending in FORMATS:
        if ending == "query":
            continue
        done = cli("export", "t", f"t.{ending}")
        assert done.status == 3 and "[SOW-OUT-014]" in done.err and "in 2 records, the first" in done.err, ending
        assert len(exchange.read_back(f"t.{ending}", ending)) < 4, "no warning is needed"
    for shape in ("json", "ndjson", "csv", "msgpack"):
        asked = cli("query", "t", "--format", shape)
        assert asked.status == 0 and "[SOW-OUT-014]" in asked.err and "in 2 records, the first" in asked.err, shape
    for words in (("--format", "raw"), ("--format", "ndjson", "--meta"), ("--filter", f"/{tag} = 'x'")):
        assert "SOW-OUT-014" not in cli("query", "t", *words).err
    for ending in ("json", "msgpack"):
        exchange.run("export", "t", f"meta.{ending}", "--meta")
    # Told of only where it is shown.
    other = "2" if kind == "fix" else "b"
    for shown in (other, tag):
        for words in (
            ("query", "t", "--columns", f"sow_key,/{shown}", "--format", "csv"),
            ("query", "t", "--columns", f"/{shown}", "--format", "msgpack"),
            ("query", "t", "--template", f"{{length}} {{/{shown}}}"),
            ("get", "t", b"\xff".decode("utf-8", "surrogateescape"), "--columns", f"/{shown}", "--format", "csv"),
            ("query", "t", "--columns", f"sow_key,/{shown}", "--output", "columns.parquet", "--force"),
        ):
            done = cli(*words)
            assert ("SOW-OUT-014" in done.err) == (shown == tag), (words, done.err)
    done = cli("export", "t", "dir/", "--format", "csv")
    assert done.status == 3 and "[SOW-OUT-014]" in done.err
    exchange.run("delete", "t", "--filter", f"/{tag} != 'x'", "--yes")
    exchange.run("export", "t", "exact.csv")


@pytest.mark.parametrize("kind", ["bson", "msgpack", "bflat"])
def test_bytes_of_binary_types_are_base64_in_all_formats(cli: Cli, kind: str, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == kind))
    exchange = Exchange(cli, get_type(kind))
    builders: dict[str, Callable[[bytes], bytes]] = {
        "bson": lambda value: bson.encode({"a": value}),
        "msgpack": lambda value: msgpack.packb({"a": value}),
        "bflat": lambda value: b"\x11a\x01" + value,
    }
    exchange.publish([builders[kind](value) for value in (b"\xff", b"\xfe")])
    expected = [{"a": "/g=="}, {"a": "/w=="}]
    assert exchange.list_fields("t") == expected
    for ending in FORMATS:
        name = exchange.write(ending)
        if kind == "msgpack" and ending == "msgpack":
            continue
        assert exchange.read_back(name, ending) == expected, ending


SPELLED = ("1.0", "-0.0", "0.0", "1e2", "2.5", "7", "18446744073709551615", "0.1000000000000000000001", "1e400")


@pytest.mark.parametrize("format", ["ndjson", "json", "csv", "query"])
def test_numbers_of_json_parts_keep_their_text(cli: Cli, format: str, tmp_path: Path) -> None:
    sample = next(one for one in SAMPLES if one.type().kind == "composite-local")
    write_config(tmp_path, sample)
    exchange = Exchange(cli, sample.type())
    part = b'{"a":1,"n":[%b],"y":18446744073709551616}' % ",".join(SPELLED).encode()
    exchange.publish([framed(part) + framed(b"\x00")])
    exchange.read_back(exchange.write(format), format)
    exchange.run("diff", "t", "u")
    assert part.decode() in exchange.run("query", "u")


@pytest.mark.parametrize("format", ["ndjson", "json", "query"])
@pytest.mark.parametrize("kind", ["bson", "msgpack", "bflat"])
def test_doubles_come_back_as_doubles(cli: Cli, kind: str, format: str, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == kind))
    exchange = Exchange(cli, get_type(kind))
    values = [1.0, -0.0, 2.5, 1e300, 7, 0]
    builders: dict[str, Callable[[], bytes]] = {
        "bson": lambda: bson.encode({"a": 1, "n": values, "d": 1.0}),
        "msgpack": lambda: msgpack.packb({"a": 1, "n": values, "d": 1.0}),
        "bflat": lambda: b"\x19a\x01" + b"\x39d" + struct.pack("<d", -0.0) + b"\x39e" + struct.pack("<d", 3.0),
    }
    exchange.publish([builders[kind]()])
    exchange.read_back(exchange.write(format), format)
    exchange.run("diff", "t", "u")
    assert exchange.run("query", "u", "--format", "raw") == exchange.run("query", "t", "--format", "raw")


EMPTY_FIELDS = {
    "nvfix": [b"a=1\x01v=\x01", b"a=2\x01=x\x01w=1\x01", b"a=3\x01=\x01"],
    "fix": [b"1=1\x0155=\x0144=x\x01", b"1=2\x0155=\x0155=\x01"],
    "bflat": [b"\x19a\x01\x01v", b"\x19a\x02\x19v\x03"],
    "xml": [b'<m><a>1</a><b x="" y="1"/><c/></m>', b"<m><a>2</a><c><d/><d>1</d></c></m>"],
}


@pytest.mark.parametrize("kind", EMPTY_FIELDS)
def test_fields_without_a_value_come_back(cli: Cli, kind: str, tmp_path: Path) -> None:
    sample = next(one for one in SAMPLES if str(one) == kind)
    write_config(tmp_path, sample)
    exchange = Exchange(cli, sample.type())
    exchange.publish(EMPTY_FIELDS[kind])
    messages = exchange.run("query", "t")
    fields = exchange.list_fields("t")
    for ending in ("ndjson", "json", "msgpack", "query", "parquet", "arrow", "sqlite"):
        found = exchange.read_back(exchange.write(ending), ending)
        # Columns do not distinguish a field without a value from an absent one.
        if ending in NULL_FORMATS:
            assert sorted(exchange.run("query", "u").splitlines()) == sorted(messages.splitlines()), ending
        elif kind != "xml":
            assert found == fields, ending


def test_an_empty_root_element_is_no_reason_to_refuse_a_row(cli: Cli, tmp_path: Path) -> None:
    entries = "".join(
        f"<Topic><Name>{name}</Name><MessageType>{kind}</MessageType><Key>{key}</Key>"
        f"<FileName>sow/%n.sow</FileName></Topic>"
        for name, kind, key in [("t", "two", "/0/a"), ("u", "two", "/0/a")]
    )
    types = "<MessageType>json</MessageType><MessageType>xml</MessageType>"
    (tmp_path / "sowctl.xml").write_text(
        "<AMPSConfig><Name>n</Name><MessageTypes><MessageType><Name>two</Name><Module>composite-local</Module>"
        f"{types}</MessageType></MessageTypes><SOW>{entries}</SOW></AMPSConfig>"
    )
    exchange = Exchange(cli, get_type("xml"))
    roots = (b"<r></r>", b"<r/>", b"<r><b>1</b></r>", b"")
    exchange.publish([framed(b'{"a":%d}' % number) + framed(root) for number, root in enumerate(roots)])
    for ending in ("ndjson", "json", "msgpack", "csv", "parquet", "arrow", "sqlite"):
        assert len(exchange.read_back(exchange.write(ending), ending)) == 4, ending
        assert '{"r":{"b":1}}' in exchange.run("query", "u")
        if ending not in ("parquet", "arrow", "sqlite"):
            assert exchange.run("query", "u").count('{"r":null}') == 2, ending


@pytest.mark.parametrize("format", ["ndjson", "msgpack", "parquet", "arrow"])
@pytest.mark.parametrize("kind", ["msgpack", "bflat"])
def test_integers_of_64_bits_stay_integers(cli: Cli, kind: str, format: str, tmp_path: Path) -> None:
    write_config(tmp_path, next(one for one in SAMPLES if str(one) == kind))
    exchange = Exchange(cli, get_type(kind))
    values = [(1 << 64) - 1, 1 << 63, -(1 << 63), 7]
    exchange.publish(
        [
            msgpack.packb({"a": at, "n": value})
            if kind == "msgpack"
            else encode_field(b"a", at) + encode_field(b"n", value)
            for at, value in enumerate(values)
        ]
    )
    exchange.read_back(exchange.write(format), format)
    exchange.run("diff", "t", "u")
