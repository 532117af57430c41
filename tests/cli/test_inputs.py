"""Inputs of publish: rows of every format from files, pipes and standard input, JSON arrays, and exported files."""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

import sowctl
from sowctl.arrow.inputs import input_formats
from sowctl.cli.parsing.options import INPUT_FORMATS
from sowctl.engine.api import InstanceHandle
from sowctl.messages.framing.input_files import copy_unseekable
from sowctl.output.exports import ENDINGS
from tests.cli.conftest import Cli
from tests.support.examples import examples
from tests.support.instances import config_xml, topic_xml

MORE = "".join(
    f"<Topic><Name>{name}</Name><MessageType>{kind}</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>"
    for name, kind in (("tags", "nvfix"), ("packed", "msgpack"), ("docs", "bson"))
) + (
    "<Topic><Name>mine</Name><MessageType>json</MessageType><FileName>sow/%n.sow</FileName></Topic>"
    "<Topic><Name>raw</Name><MessageType>binary</MessageType><FileName>sow/%n.sow</FileName></Topic>"
)
CSV = b'id,qty,zip,ok,note,price\n1,5,007,true,"a, ""b""",1.50\n2,,10115,false,,2\n'
TYPED = [
    {"id": 1, "qty": 5, "zip": "007", "ok": True, "note": 'a, "b"', "price": 1.5},
    {"id": 2, "zip": "10115", "ok": False, "price": 2},
]


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """Topics t and u of JSON, tags of NVFIX, packed of MessagePack, docs of BSON, mine with publisher-provided keys."""
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u") + MORE, ("t", "u")))
    return cli


def messages(cli: Cli, topic: str = "t") -> list[Any]:
    """The messages of a topic, by key."""
    return sorted((json.loads(line) for line in cli("query", topic).out.splitlines()), key=lambda one: str(one["id"]))


def run(*argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A separate process whose standard input is a pipe."""
    return subprocess.run([sys.executable, "-m", "sowctl", *argv], input=stdin, capture_output=True, check=False)


def test_the_formats_of_the_command_line_are_those_that_are_read() -> None:
    assert INPUT_FORMATS == input_formats.INPUT_FORMATS
    # publish reads everything that export writes.
    assert {name for one in ENDINGS for name in one.names} == set(input_formats.ENDINGS)


@pytest.mark.parametrize(
    "argv",
    [
        ["t", "--format", "csv"],
        ["t", "-", "--format", "csv"],
        ["t", "--from", "-"],
        ["t", "--from", "-", "--format", "csv"],
        ["t", "/dev/stdin", "--format", "csv"],
        ["t", "--from", "/dev/stdin"],
    ],
)
def test_csv_from_a_pipe(argv: list[str], shop: Cli) -> None:
    done = run("publish", *argv, stdin=CSV)
    assert done.returncode == 0, done.stderr
    assert messages(shop) == TYPED
    assert b"id, qty integer; ok boolean; price number" in done.stderr


def test_csv_by_name_and_redirected(shop: Cli) -> None:
    Path("x.csv").write_bytes(CSV)
    for argv in (["x.csv"], ["--from", "x.csv"], ["x.csv", "--format", "csv"]):
        assert shop("publish", "t", *argv).status == 0
        assert messages(shop) == TYPED
    with Path("x.csv").open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "sowctl", "publish", "u", "--format", "csv"], stdin=file, check=False
        )
    assert (done.returncode, messages(shop, "u")) == (0, TYPED)


def test_the_report_says_what_was_detected(shop: Cli) -> None:
    done = shop("publish", "t", "--format", "csv", "--type", "zip=integer", "--json", stdin=CSV.replace(b",", b";"))
    (facts,) = json.loads(done.out)["inputs"]
    assert (facts["format"], facts["delimiter"], facts["headers"]) == ("csv", ";", True)
    types = {one["name"]: (one["type"], one["detected"]) for one in facts["columns"]}
    assert "csv with delimiter ';'; " in shop("publish", "t", "--format", "csv", stdin=CSV.replace(b",", b";")).err
    assert types["zip"] == ("integer", False) and types["price"] == ("number", True)
    assert json.loads(shop("publish", "t", "--json", stdin=b'{"id":1}').out)["inputs"] == []


def test_a_type_that_is_given_and_all_text(shop: Cli) -> None:
    assert shop("publish", "t", "--format", "csv", "--all-text", "--type", "qty=integer", stdin=CSV).status == 0
    assert messages(shop)[0] == TYPED[0] | {"id": "1", "ok": "true", "price": "1.50"}
    done = shop("publish", "u", "--format", "csv", "--type", "zip=boolean", stdin=CSV)
    assert done.status == 3 and "SOW-EXC-011" in done.err and "zip" in done.err


def test_a_header_that_is_not_there(shop: Cli) -> None:
    rows = CSV.partition(b"\n")[2]
    names = "id,qty,/zip,ok,note,price"
    assert shop("publish", "t", "--format", "csv", "--columns", names, stdin=rows).status == 0
    assert messages(shop) == TYPED
    refused = shop("publish", "u", "--format", "csv", stdin=rows)
    assert refused.status == 3 and "SOW-EXC-012" in refused.err and "--columns" in refused.err
    assert "SOW-EXC-010" in shop("publish", "u", "--format", "csv", "--columns", "id,qty", stdin=rows).err
    done = shop("publish", "mine", "--format", "csv", "--no-headers", "--sow-key", "k", stdin=b"1,x\n")
    assert (done.status, shop("get", "mine", "k").out) == (0, '{"column1":1,"column2":"x"}\n')


def test_values_that_come_later_in_a_pipe_are_never_rejected(shop: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sowctl.arrow.inputs.delimited_source.SAMPLE_BYTES", 200)
    data = b"id,n,m\n" + b"".join(b"%d,%d,%d.5\n" % (one, one, one) for one in range(100)) + b"100,n/a,7\n101,007,1\n"

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def read1(self, size: int | None = -1) -> bytes:
            return super().read1(min(size or 0, 100))

    from sowctl.arrow.inputs.row_inputs import open_row_input
    from sowctl.engine.writing.row_target import build_row_target

    instance = InstanceHandle.open(Path("sowctl.xml"))
    target = build_row_target(instance, "t")
    with open_row_input("-", target, input_formats.InputOptions("csv"), stream=Pipe(data)) as found:
        payloads: list[bytes] = []
        while not found.source.ended:
            chunk = found.source.poll()
            if chunk is not None:
                assert not chunk.refused
                payloads += chunk.payloads
    assert payloads[99:] == [b'{"id":99,"n":99,"m":99.5}', b'{"id":100,"n":"n/a","m":7}', b'{"id":101,"n":"007","m":1}']
    exceptions = {one.name: (one.exceptions, one.first_exception) for one in found.facts.columns}
    assert exceptions == {"id": (0, None), "n": (2, 102), "m": (0, None)}


def test_a_late_value_of_a_pipe_is_a_warning(shop: Cli) -> None:
    rows = b"".join(b"%d,%d\n" % (one, one) for one in range(120_000))
    done = run("publish", "t", "--format", "csv", stdin=b"id,n\n" + rows + b"120000,x\n")
    assert done.returncode == 0
    assert b"warning: " in done.stderr and b"column n" in done.stderr and b"120002" in done.stderr
    assert shop("query", "t", "/id = 120000").out == '{"id":120000,"n":"x"}\n'


def late_quotes() -> bytes:
    """Rows of numbers, and after the rows used for type detection two more, one of them in quotes."""
    return b"".join(b"%d,%d,[1]\n" % (one, one) for one in range(120_000)) + b'"120000","5","[2]"\n120001,6,[3]\n'


@pytest.mark.parametrize("options", [[], ["--null-text", "NA"]])
def test_a_late_value_in_quotes_is_a_text(options: list[str], shop: Cli) -> None:
    done = run("publish", "t", "--format", "csv", *options, stdin=b"id,n,j\n" + late_quotes())
    assert done.returncode == 0
    assert b"warning: " in done.stderr and b"column n" in done.stderr and b"120002" in done.stderr
    assert shop("query", "t", "/n = 5 and /id > 10").out == '{"id":"120000","n":"5","j":[2]}\n'
    assert shop("query", "t", "/id = 120001").out == '{"id":120001,"n":6,"j":[3]}\n'


@pytest.mark.parametrize(("head", "more"), [(b"id,n,j", ["--type", "n=integer"]), (b'"id","n","j"', [])])
def test_a_type_or_a_header_in_quotes_wins_over_late_quotes(head: bytes, more: list[str], shop: Cli) -> None:
    done = run("publish", "t", "--format", "csv", *more, stdin=head + b"\n" + late_quotes())
    assert done.returncode == 0 and b"column n" not in done.stderr
    assert '"n":5' in shop("query", "t", "/id = 120000").out


def test_a_json_array_is_its_messages(shop: Cli) -> None:
    for form in (None, 2):
        for argv in (["t"], ["t", "--format", "json"], ["t", "--from", "-"]):
            assert shop("publish", *argv, stdin=json.dumps(TYPED, indent=form).encode()).status == 0
            assert messages(shop) == TYPED
    Path("x.json").write_text(json.dumps(TYPED[0], indent=2))
    assert shop("publish", "u", "x.json").status == 0
    assert messages(shop, "u") == TYPED[:1]
    done = shop("publish", "t", stdin=b'[{"id":1},\n{"id":2},\n{"id":')
    assert (done.status, "(standard input):3" in done.err, "2 messages are durable" in done.err) == (3, True, True)
    assert shop("publish", "t", "--framing", "lines", stdin=b'[{"id":1}]\n').status == 3
    Path("a.json").write_text('[{"id":1},\n{"id":2}]')
    for command in (["eval", "/id"], ["key", "t"]):
        assert len(shop(*command, stdin=b'[{"id":1},\n{"id":2}]').out.splitlines()) == 2
        assert len(shop(*command, "a.json").out.splitlines()) == 2


def test_envelopes_in_an_array(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1}\n{"id":2}\n')
    array = shop("query", "t", "--meta", "--format", "json").out.replace('"t"', '"u"')
    done = shop("publish", "--framing", "envelope", stdin=array.encode())
    assert (done.status, messages(shop, "u")) == (0, [{"id": 1}, {"id": 2}])


def test_the_rest_of_an_array_is_not_told_as_a_tail(shop: Cli) -> None:
    Path("x.json").write_text('[\n{"id":1},\n{"x":2},\n{"id":3}\n]\n')
    done = shop("publish", "t", "x.json")
    assert done.status == 3 and "x.json:3" in done.err and "tail" not in done.err


@pytest.mark.parametrize("form", ["parquet", "arrow", "arrows"])
def test_columns_from_a_pipe(form: str, shop: Cli) -> None:
    table = pa.table({"id": [1, 2], "t": [{"x": [1.5, None]}, None]})
    out = io.BytesIO()
    if form == "parquet":
        parquet.write_table(table, out)
    else:
        with (ipc.new_file if form == "arrow" else ipc.new_stream)(out, table.schema) as file:
            file.write_table(table)
    for argv in (["--from", "-"], ["--format", form.removesuffix("s")]):
        done = run("publish", "t", *argv, stdin=out.getvalue())
        assert done.returncode == 0, done.stderr
        assert messages(shop) == [{"id": 1, "t": {"x": [1.5, None]}}, {"id": 2}]


def test_the_index_of_a_pandas_frame_is_no_field(shop: Cli) -> None:
    schema = pa.schema([("id", pa.int64()), ("__index_level_0__", pa.int64())])
    parquet.write_table(pa.table([[1], [7]], schema=schema), "x.parquet")
    described = {"pandas": json.dumps({"index_columns": ["__index_level_0__"]})}
    parquet.write_table(pa.table([[2], [7]], schema=schema.with_metadata(described)), "y.parquet")
    for name in ("x.parquet", "y.parquet"):
        assert shop("publish", "t", name).status == 0
    # Only pandas can tell which column is its index.
    assert messages(shop) == [{"id": 1, "__index_level_0__": 7}, {"id": 2}]


def test_a_truncated_database_is_refused(shop: Cli) -> None:
    with sqlite3.connect("x.sqlite") as database:
        database.execute("CREATE TABLE t (id INTEGER)")
        database.execute("INSERT INTO t VALUES (1)")
    database.close()
    data = Path("x.sqlite").read_bytes()
    for length in (len(data) - 7, len(data) - 4096):
        Path("y.sqlite").write_bytes(data[:length])
        done = shop("publish", "t", "--from", "y.sqlite")
        assert done.status == 3 and "SOW-EXC-012" in done.err, done
        assert f"it has {length:,} of {len(data):,} bytes" in done.err
    # Data that are only in the write-ahead log are read.
    with sqlite3.connect("w.sqlite") as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE t (id INTEGER)")
        database.execute("INSERT INTO t VALUES (2)")
        database.commit()
        assert shop("publish", "t", "--from", "w.sqlite").status == 0
    database.close()
    assert messages(shop) == [{"id": 2}]


def test_envelopes_of_a_file_of_rows_get_a_hint(cli: Cli) -> None:
    keyed = topic_xml("k").replace("<Key>/id</Key>", "")
    Path("sowctl.xml").write_text(config_xml(keyed, ("k",)))
    assert cli("publish", "k", "--sow-key", "abc", stdin=b'{"x":1}\n').status == 0
    for name in ("k.ndjson", "k.json"):
        assert cli("export", "k", name, "--meta").status == 0
        done = cli("publish", "k", "--from", name)
        assert "SOW-PUB-003" in done.err and f"--framing envelope < {name}" in done.err, done
        done = cli("publish", "--from", name)
        assert done.status == 2 and f"publish --framing envelope {name}" in done.err, done


def test_tables_of_a_database(shop: Cli) -> None:
    with sqlite3.connect("x.sqlite") as database:
        database.execute('CREATE TABLE "a b" (id INTEGER, f BOOLEAN, j TEXT, r REAL, b BLOB, s TEXT)')
        rows = [(1, 1, '{"x": 1}', 0.5, b"\0", "5"), (2, None, None, None, None, "{}x")]
        database.executemany('INSERT INTO "a b" VALUES (?, ?, ?, ?, ?, ?)', rows)
    database.close()
    assert shop("publish", "t", "x.sqlite").status == 0
    assert messages(shop) == [
        {"id": 1, "f": True, "j": {"x": 1}, "r": 0.5, "b": "AA==", "s": "5"},
        {"id": 2, "s": "{}x"},
    ]
    with sqlite3.connect("x.sqlite") as database:
        database.execute("CREATE TABLE c (id INTEGER)")
    database.close()
    refused = shop("publish", "t", "x.sqlite")
    assert refused.status == 2 and "SOW-EXC-010" in refused.err and "--table: a b, c" in refused.err
    assert shop("publish", "u", "x.sqlite", "--table", "a b").status == 0
    assert len(messages(shop, "u")) == 2
    done = run("publish", "t", "--from", "-", "--table", "a b", stdin=Path("x.sqlite").read_bytes())
    assert done.returncode == 0, done.stderr
    Path("y.sqlite").write_bytes(b"nonsense")
    assert "SOW-EXC-012" in shop("publish", "t", "y.sqlite").err


def test_messagepack(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1,"x":{"y":[1.5,null,true]},"s":"\xc3\xa9"}\n{"id":2}\n')
    assert shop("export", "t", "x.msgpack").status == 0
    for topic in ("u", "packed", "docs"):
        assert shop("publish", topic, "--from", "x.msgpack").status == 0
        assert messages(shop, topic) == messages(shop)
    assert shop("export", "t", "m.msgpack", "--meta").status == 0
    assert shop("publish", "u", "m.msgpack", "--dry-run").err.startswith("u: dry run, nothing was written: 0 inserted")
    Path("cut.msgpack").write_bytes(Path("x.msgpack").read_bytes()[:-1])
    assert "SOW-EXC-012" in shop("publish", "u", "cut.msgpack").err


def test_json_becomes_messages_of_other_types(shop: Cli) -> None:
    text = '[{"id":1,"n":123456789012345678901234567890,"x":{"y":1.5},"x":2,"s":"a"},\n{"id":2,"n":null},\n5]'
    first = "123456789012345678901234567890"
    for topic in ("packed", "docs"):
        done = shop("publish", topic, "--format", "json", "--on-error", "skip", stdin=text.encode())
        assert done.status == 3 and "(standard input):3" in done.err
        assert messages(shop, topic) == [{"id": 1, "n": first, "x": {"y": 1.5}, "s": "a"}, {"id": 2, "n": None}]
    for form in ("ndjson", "json"):
        assert shop("export", "packed", f"x.{form}", "--force").status == 0
        done = shop("publish", "packed", "--from", f"x.{form}")
        assert done.status == 0 and "2 written unchanged" in done.err, done.err
    assert "SOW-EXC-010" in shop("publish", "raw", "--format", "json", stdin=b"{}").err


def test_a_copy_of_a_pipe_has_a_limit(shop: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    monkeypatch.setattr("sowctl.messages.framing.input_files.MAX_COPY_BYTES", 10)
    with pytest.raises(sowctl.LimitError, match="SOW-INP-009"), copy_unseekable("-", Pipe(b"x" * 11)):
        pass
    with copy_unseekable("-", Pipe(b"x" * 10)) as copy:
        assert copy.read() == b"x" * 10


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--format", "csv", "--framing", "nul"], "SOW-EXC-010"),
        (["--type", "a=text"], "SOW-EXC-010"),
        (["--format", "json", "--delimiter", ";"], "SOW-EXC-010"),
        (["--format", "csv", "--table", "x"], "SOW-EXC-010"),
        (["--from", "x.txt"], "SOW-EXC-002"),
        (["--from", "csv"], "--format csv"),
        (["--format", "xlsx"], "SOW-CLI"),
    ],
)
def test_options_that_do_not_fit(argv: list[str], code: str, shop: Cli) -> None:
    done = shop("publish", "t", *argv, stdin=b"a\n1\n")
    assert done.status == 2 and code in done.err, done.err


SCALARS = st.one_of(
    st.integers(-(2**64), 2**64),
    st.floats(-1e6, 1e6).map(lambda one: round(one, 3) + 0.0),
    st.booleans(),
    st.text("ab01.-+e ,;\"'\\\té", min_size=1, max_size=5),
    st.sampled_from(["007", "+1", "1e5", "true", "null", "{}"]),
    st.lists(st.integers(0, 9), max_size=2),
    st.fixed_dictionaries({"x": st.text("ab", max_size=2)}),
)


def test_what_is_exported_is_read_back_with_its_types(shop: Cli) -> None:
    """CSV and TSV keep the types of typed columns, unless texts look like numbers: types are stated then."""
    number = 0

    @given(st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS), min_size=1, max_size=4))
    @settings(max_examples=examples(25), deadline=None)
    def law(rows: list[dict[str, Any]]) -> None:
        nonlocal number
        number += 1
        name = f"shop{number}"
        Path(name).mkdir()
        (Path(name) / "sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u"), name))
        where = ("-c", f"{name}/sowctl.xml")
        instance = InstanceHandle.open(Path(name) / "sowctl.xml")
        instance.topic("t").publish([{"id": at} | row for at, row in enumerate(rows)])
        # MessagePack has no integers beyond 64 bits: export writes them as texts.
        numbers = [value for row in rows for value in row.values() if isinstance(value, int)]
        has_wide = any(not -(2**63) <= one < 2**64 for one in numbers)
        for form in ("json", "ndjson", *(() if has_wide else ("msgpack",))):
            assert shop("export", "t", f"{name}/x.{form}", *where).status == 0
            done = shop("publish", "u", f"{name}/x.{form}", *where)
            assert done.status == 0, done.err
            assert messages_of(instance, "u") == messages_of(instance, "t")
        for form in ("csv", "tsv"):
            assert shop("export", "t", f"{name}/x.{form}", *where).status == 0
            stated = [
                f"--type={member}=text" for member in "abc" if any(isinstance(row.get(member), str) for row in rows)
            ]
            done = shop("publish", "u", f"{name}/x.{form}", *stated, *where)
            assert done.status == 0, done.err
            for found, wanted in zip(messages_of(instance, "u"), messages_of(instance, "t"), strict=True):
                for member, value in wanted.items():
                    kinds = {type(row[member]) for row in rows if member in row} if member != "id" else {int}
                    is_wide = any(
                        isinstance(row.get(member), int) and not -(2**63) <= row[member] < 2**63 for row in rows
                    )
                    if len(kinds) == 1 and not is_wide:
                        assert found[member] == value

    law()


def messages_of(instance: InstanceHandle, topic: str) -> list[dict[str, Any]]:
    """The messages of a topic, by their ids."""
    return sorted(instance.topic(topic).query().to_dicts(), key=lambda one: int(one["id"]))


KEYS = st.sampled_from(["1", "-5", "0", "007", "1.50", "1e5", "true", "x y", "9223372036854775808", "+1", "{}", "[1]"])


@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz"])
def test_names_that_begin_with_a_slash_come_back(form: str, shop: Cli) -> None:
    message = b'{"id":1,"/id":"x","//id":"y","topic":"z","/topic":"w","/":"v","a/b":"u"}'
    assert shop("publish", "t", stdin=message).status == 0
    assert shop("export", "t", f"x.{form}").status == 0
    report = json.loads(shop("publish", "t", f"x.{form}", "--replace-all", "--dry-run", "--json").out)
    assert (report["unchanged"], report["published"]) == (1, 0)


def test_detection_changes_no_sow_key(shop: Cli) -> None:
    number = 0

    @given(st.lists(KEYS, min_size=1, max_size=3, unique=True))
    @settings(max_examples=examples(15), deadline=None)
    def law(keys: list[str]) -> None:
        nonlocal number
        number += 1
        name = f"keys{number}"
        Path(name).mkdir()
        text = topic_xml("t") + topic_xml("u") + MORE
        (Path(name) / "sowctl.xml").write_text(config_xml(text, (), name))
        Path(name, "x.csv").write_text(
            "id,n\n" + "".join(f'"{one}",1\n' if "," in one else f"{one},1\n" for one in keys)
        )
        with sowctl.open(Path(name)) as instance:
            for topic in ("t", "tags", "packed", "docs"):
                found = []
                for all_text in (False, True):
                    instance.topic(topic).publish_file(Path(name, "x.csv"), all_text=all_text)
                    found.append(sorted(record.sow_key for record in instance.topic(topic).query().records()))
                assert found[0] == found[1], topic

    law()


def test_a_program_publishes_files(shop: Cli) -> None:
    Path("x.csv").write_bytes(CSV)
    with sowctl.open(Path()) as instance:
        report = instance.topic("t").publish_file(Path("x.csv"))
        assert (report.inserted, report.inputs[0].format) == (2, "csv")
        assert instance.topic("t").query().to_dicts() != []
        report = instance.topic("u").publish_file("x.csv", types={"zip": "integer"}, all_text=True)
        assert [one.type for one in report.inputs[0].columns] == ["text", "text", "integer", "text", "text", "text"]
        with pytest.raises(sowctl.UsageError):
            instance.topic("t").publish_file("x.txt")
        with pytest.raises(sowctl.UsageError):
            instance.topic("t").publish_file("x.csv", types={"zip": "int"})


def test_a_program_is_told_of_its_keywords(shop: Cli) -> None:
    """The verbs are those of the command line, whose options a program has not got."""
    Path("x.csv").write_bytes(CSV)
    Path("x.txt").write_bytes(CSV)
    Path("bad.csv").write_bytes(b"n\n1\n")
    Path("here").mkdir()
    with sowctl.open(Path()) as instance:
        topic = instance.topic("t")
        skip = "skips invalid messages"
        for call, kind, code, words in (
            (lambda: topic.publish([b"{}"]), sowctl.InputError, "SOW-PUB-002", f'on_error="skip" {skip}'),
            (lambda: topic.publish_file("bad.csv"), sowctl.InputError, "SOW-PUB-002", f'(on_error="skip") {skip}'),
            (lambda: topic.publish_file("x.txt"), sowctl.UsageError, "SOW-EXC-002", "add input_format,"),
            (lambda: topic.publish_file("nope.csv"), sowctl.MissingError, "SOW-CLI-062", ""),
            (lambda: topic.publish_file("s3://b/x.csv"), sowctl.UsageError, "SOW-RMT-001", "pipeline load"),
            (lambda: topic.publish_file("here", envelope="kafka"), sowctl.StorageError, "SOW-CLI-060", "name a file"),
            (lambda: topic.publish([], sequence=1), sowctl.UsageError, "SOW-PUB-013", ""),
            (lambda: topic.publish([], replace_all=True), sowctl.RefusedError, "SOW-PUB-033", "use force"),
            (lambda: topic.snapshot("s3://b/x.sow"), sowctl.UsageError, "SOW-RMT-001", "local path"),
            (lambda: topic.export("s3://b/x.csv"), sowctl.UsageError, "SOW-RMT-001", "local path"),
            (lambda: instance.export("s3://b/x.csv", "t"), sowctl.UsageError, "SOW-RMT-001", "local path"),
            (lambda: instance.snapshot("s3://b/x"), sowctl.UsageError, "SOW-RMT-001", "local path"),
            (lambda: sowctl.open("s3://b/sowctl.xml"), sowctl.UsageError, "SOW-RMT-001", "local path"),
            (lambda: sowctl.create("s3://b/x", {"a": "/id"}), sowctl.UsageError, "SOW-RMT-001", "local path"),
        ):
            topic.publish([b'{"id":1}'])
            with pytest.raises(kind) as caught:
                call()
            assert caught.value.code == code and words in (caught.value.hint or ""), caught.value
            assert "--" not in str(caught.value) and "standard input" not in str(caught.value)
        options: Any = "kafka"
        with pytest.raises(TypeError, match="did you mean envelope='kafka'"):
            topic.publish_file("x.csv", options)
        with pytest.raises(TypeError, match=r"must be sowctl.PublishOptions, not str$"):
            topic.publish([b"{}"], options)
        skipped = topic.publish_file("bad.csv", sowctl.PublishOptions(on_error="skip"))
        assert (skipped.published, skipped.rejected) == (0, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("publish", "t", "s3://b/x.ndjson"),
        ("publish", "t", "--from", "s3://b/x.csv"),
        ("--config", "s3://b/sowctl.xml", "info"),
        ("validate", "s3://b/sowctl.xml"),
    ],
)
def test_a_url_is_no_input(shop: Cli, words: tuple[str, ...]) -> None:
    done = shop(*words)
    assert done.status == 2 and "SOW-RMT-001" in done.err and "s3://b/" in done.err


def test_standard_input_is_named_where_a_file_is_missing(shop: Cli) -> None:
    assert "or - for standard input" in shop("publish", "t", "nope.ndjson").err
