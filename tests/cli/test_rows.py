"""Rows of files as messages, round trips of exports, packed input, SQL on the command line."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import pyarrow as pa
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import feather, ipc, parquet

from sowctl.arrow.inputs.input_formats import find_format
from sowctl.engine.api import InstanceHandle
from sowctl.engine.options import QueryOptions
from sowctl.engine.verbs.query import start_query
from sowctl.output.exports import Export
from tests.cli.conftest import Cli
from tests.support.examples import examples
from tests.support.instances import config_xml, topic_xml

MORE = (
    "<Topic><Name>tags</Name><MessageType>nvfix</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>"
    "<Topic><Name>mine</Name><MessageType>json</MessageType><FileName>sow/%n.sow</FileName></Topic>"
    "<Topic><Name>raw</Name><MessageType>binary</MessageType><FileName>sow/%n.sow</FileName></Topic>"
)


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """Topics t and u of JSON with the key id, tags of NVFIX, mine with publisher-provided keys, raw of bytes."""
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u") + MORE, ("t", "u")))
    return cli


def messages(cli: Cli, topic: str = "t") -> list[Any]:
    """The messages of a topic, by key."""
    return sorted((json.loads(line) for line in cli("query", topic).out.splitlines()), key=lambda one: str(one["id"]))


TABLE = (
    b'\xef\xbb\xbfid,qty,"price",note,ok,/state,more\r\n'
    b'1,5,1.10,"a, ""b""\nc",true,x,"{""x"": [1]}"\r\n'
    b"\r\n"
    b'2,,,"",false,,\r\n'
)
TYPES = [f"--type={one}" for one in ("id=integer", "qty=integer", "price=number", "ok=boolean", "more=json")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.csv", TABLE),
        ("x.csv.gz", gzip.compress(TABLE)),
        ("x.CSV.zst", zstandard.compress(TABLE[:40]) + zstandard.compress(TABLE[40:])),
    ],
)
def test_csv(shop: Cli, name: str, data: bytes) -> None:
    Path(name).write_bytes(data)
    assert shop("publish", "t", "--from", name, *TYPES).status == 0
    first, second = shop("query", "t", "-o", "/id").out.splitlines()
    assert first == '{"id":1,"qty":5,"price":1.10,"note":"a, \\"b\\"\\nc","ok":true,"state":"x","more":{"x": [1]}}'
    assert second == '{"id":2,"note":"","ok":false}'


def test_with_all_text_nothing_is_guessed(shop: Cli) -> None:
    Path("x.tsv").write_text("id\tn\n1\t5\n2\ta\\tb\\\\n\n3\t\n")
    assert shop("publish", "t", "--from", "x.tsv", "--all-text").status == 0
    assert messages(shop) == [{"id": "1", "n": "5"}, {"id": "2", "n": "a\tb\\n"}, {"id": "3"}]


def test_rows_of_other_types_and_keys(shop: Cli) -> None:
    Path("x.csv").write_text("id,n\n7,1.50\n")
    assert shop("publish", "tags", "--from", "x.csv", "--type", "n=number").status == 0
    assert shop("query", "tags", "--format", "raw").out == "id=7\x01n=1.50\x01\n"
    parquet.write_table(pa.table({"_user_key": ["k1", "k2"], "a": [1, None]}), "keys.parquet")
    assert shop("publish", "mine", "--from", "keys.parquet").status == 0
    assert shop("get", "mine", "k1", "k2").out == '{"a":1}\n{}\n'
    parquet.write_table(pa.table({"_user_key": ["k"], "payload": [b"\x00\xff"]}), "bytes.parquet")
    assert shop("publish", "raw", "--from", "bytes.parquet").status == 0


BAD = 'id,qty\n1,5\n2,x\n3\n4,4,4\n5,"a\n\n6,6\n'


def test_bad_rows_are_named_with_line_and_column(shop: Cli) -> None:
    Path("bad.csv").write_text(BAD)
    done = shop("publish", "t", "--from", "bad.csv", "--type", "qty=integer", "--on-error", "skip")
    assert done.status == 3
    said = [line for line in done.err.splitlines() if line.startswith("warning")]
    assert [line.split(": ")[1] for line in said] == [f"[SOW-EXC-011] bad.csv:{line}" for line in (3, 4, 5, 6)]
    assert all(words in line for words, line in zip(("qty: 'x'", "1 cell,", "3 cells", "cell 2"), said, strict=True))
    assert messages(shop) == [{"id": 1, "qty": 5}]
    stopped = shop("publish", "u", "--from", "bad.csv", "--type", "qty=integer")
    assert stopped.status == 3
    assert " line 3 of bad.csv" in stopped.err
    assert "CSV" not in stopped.err
    assert shop("publish", "u", "--from", "bad.csv", "--dry-run", "--on-error", "skip").status == 3
    assert shop("query", "u", "--count").out == "1\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--from", "x.txt"], "SOW-EXC-002"),
        (["--from", "x.csv", "--type", "n=int"], "SOW-EXC-010"),
        (["--from", "x.csv", "--type", "m=integer"], "SOW-EXC-010"),
        (["--from", "x.parquet", "--type", "n=text"], "SOW-EXC-010"),
        (["--from", "x.csv", "--framing", "nul"], "SOW-EXC-010"),
        (["x.ndjson", "--type", "n=text"], "SOW-EXC-010"),
        (["--from", "twice.csv"], "SOW-EXC-012"),
        (["--from", "nameless.csv"], "SOW-EXC-012"),
        (["--from", "x.parquet"], "SOW-EXC-012"),
        (["--from", "x.arrow"], "SOW-EXC-012"),
        (["--from", "cut.csv.gz"], "SOW-INP-005"),
        (["cut.ndjson.zst"], "SOW-INP-005"),
    ],
)
def test_what_cannot_be_read_is_refused(shop: Cli, words: list[str], code: str) -> None:
    for name in ("x.csv", "x.parquet", "x.arrow", "x.txt", "x.ndjson"):
        Path(name).write_text("id,n\n1,2\n")
    Path("twice.csv").write_text("id,id\n")
    Path("nameless.csv").write_text("id,,b\n")
    Path("cut.csv.gz").write_bytes(gzip.compress(b"id\n" + b"1\n" * 1000)[:-9])
    Path("cut.ndjson.zst").write_bytes(zstandard.compress(b'{"id":1}\n' * 1000)[:-5])
    done = shop("publish", "t", *words)
    assert code in done.err, done.err
    assert done.status in (2, 3, 6)


def test_a_topic_is_needed(shop: Cli) -> None:
    Path("x.csv").write_text("id\n1\n")
    assert "SOW-EXC-010" in shop("publish", "--from", "x.csv").err


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_messages_are_unpacked(shop: Cli, pack: Any) -> None:
    Path("in").write_bytes(pack(b'{"id":1}\n{"id":2}\nnonsense\n'))
    done = shop("publish", "t", "in")
    assert done.status == 3
    assert len(messages(shop)) == 2
    assert " line 3 of in" in done.err
    assert "tail" not in done.err
    Path("in.ndjson.gz").write_bytes(gzip.compress(b'{"id":3}\n'))
    assert shop("publish", "t", "--from", "in.ndjson.gz").status == 0
    assert len(messages(shop)) == 3


def test_the_next_step_is_said(shop: Cli) -> None:
    Path("x").write_bytes(b"PAR1xxx")
    assert re.search(r"hint: .* Parquet.* --format parquet", shop("publish", "t", "x").err)
    Path("x").write_text("id,n\n1,2\n")
    assert re.search(r"hint: .* CSV.* --format csv", shop("publish", "t", "x").err)


def test_every_ending_of_columns(shop: Cli) -> None:
    table = pa.table({"id": [1, 2], "t": [{"x": [1.5, None]}, None]})
    parquet.write_table(table, "a.parquet")
    feather.write_feather(table, "a.feather", compression="uncompressed")
    with ipc.new_stream("a.arrows", table.schema) as out:
        out.write_table(table)
    for name in ("a.parquet", "a.feather", "a.arrows"):
        assert shop("publish", "t", "--from", name).status == 0
        assert messages(shop) == [{"id": 1, "t": {"x": [1.5, None]}}, {"id": 2}]
    assert find_format("a.parquet.gz") is None


BY_ID = QueryOptions(order_by="/id")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "broken": st.floats(-1e6, 1e6).map(lambda one: round(one, 3) + 0.0),
    "text": TEXTS,
    "truth": st.booleans(),
    "nested": st.fixed_dictionaries({"a": TEXTS}),
    "list": st.lists(st.integers(0, 9), min_size=1, max_size=3),
}


def test_what_is_exported_and_published_again_is_the_same(shop: Cli) -> None:
    """Members in one order, none of them null, in the form of JSON writers: columns can represent these.

    CSV has types only if they are stated, and TSV has no null and empty text."""
    number = 0

    @given(st.lists(st.fixed_dictionaries({}, optional=CELLS), min_size=1, max_size=4))
    @example([{"text": "0"}])
    @settings(max_examples=examples(60), deadline=None)
    def law(rows: list[dict[str, Any]]) -> None:
        nonlocal number
        number += 1
        name = f"shop{number}"
        Path(name).mkdir()
        (Path(name) / "sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u"), name))
        instance = InstanceHandle.open(Path(name) / "sowctl.xml")
        # Every member once in the first record, so that columns have the order of the messages.
        order = [member for member in CELLS if any(member in row for row in rows)]
        first = {member: next(row[member] for row in rows if member in row) for member in order}
        kept = [
            {"id": 0} | first,
            *({"id": n} | {m: row[m] for m in order if m in row} for n, row in enumerate(rows, 1)),
        ]
        payloads = [json.dumps(one, separators=(",", ":"), ensure_ascii=False).encode() for one in kept]
        types = {"whole": "integer", "broken": "number", "text": "text", "truth": "boolean"}
        types |= {"nested": "json", "list": "json"}
        for ending in ("parquet", "arrow", "ndjson.zst", "csv.gz"):
            instance.topic("t").publish(payloads)
            file = Path(name) / f"x.{ending}"
            out = io.BytesIO()
            Export(file.name, "t", meta=ending == "parquet").write(
                start_query(instance, [instance.topic("t").target], BY_ID), out
            )
            file.write_bytes(out.getvalue())
            stated = [f"--type={one}={types[one]}" for one in order if one in types] if "csv" in ending else []
            stated += ["--type=id=integer"] if "csv" in ending else []
            done = shop("publish", "u", "--from", str(file), *stated, "-c", str(Path(name) / "sowctl.xml"))
            assert done.status == 0, done.err
            again = [record.payload for record in instance.topic("u").query(order_by="/id").records()]
            assert again == [record.payload for record in instance.topic("t").query(order_by="/id").records()]
            instance.topic("u").delete(filter="/id >= 0")

    law()


def test_export(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1,"n":5}\n{"id":2,"n":7}\n')
    done = shop("export", "t", "x.parquet", "/n > 5")
    assert done.status == 0, done.err
    assert "x.parquet: 1 record," in done.err
    assert parquet.read_table("x.parquet").to_pylist() == [{"id": 2, "n": 7}]
    assert shop("export", "t", "x.parquet").status == 8
    assert shop("export", "t", "x.parquet", "--overwrite", "-o", "/n DESC", "-n", "1", "--meta").status == 0
    assert parquet.read_table("x.parquet").schema.names[:4] == ["id", "n", "_sow_key", "_txid"]
    assert shop("export", "t", "x.nix").status == 2
    assert shop("export", "nix", "y.parquet").status == 10
    assert not list(Path().glob("*y.parquet*"))


def test_query_in_columns(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1,"n":5}\n')
    assert shop("query", "t", "--format", "arrow", "--output", "x").status == 0
    assert ipc.open_stream("x").read_all().to_pylist() == [{"id": 1, "n": 5}]
    refused = shop("query", "t", "--format", "parquet", tty="out")
    assert (refused.status, "SOW-OUT-011" in refused.err) == (2, True)


def test_sql(shop: Cli) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    shop("publish", "t", stdin=b'{"id":1,"n":5,"t":{"x":1.5}}\n{"id":2,"n":7}\n')
    asked = "SELECT sum(n) AS s, max(n) > 1 AS m, NULL AS z, sum(n) AS s FROM t"
    assert shop("sql", asked).out == '{"s":12,"m":true,"z":null,"s_1":12}\n'
    assert shop("sql", asked, "--format", "csv").out == "s,m,z,s_1\n12,true,,12\n"
    Path("x.sql").write_text("SELECT n FROM t WHERE id = 1; SELECT count(*) AS c FROM t WHERE false;")
    assert shop("sql", "--file", "x.sql", "--format", "csv").out == "n\n5\n\nc\n0\n"
    assert shop("sql", stdin=b"SELECT t FROM t ORDER BY id").out == '{"t":{"x":1.5}}\n{"t":null}\n'
    assert shop("sql", "SELECT n FROM t", "--format", "parquet", "--output", "x").status == 0
    assert sorted(parquet.read_table("x")["n"].to_pylist()) == [5, 7]
    assert shop("sql", "SELECT 1; SELECT 2", "--output", "y").status == 2
    assert not Path("y").exists()
    assert shop("sql", "SELECT 1", "--file", "x.sql").status == 2
    assert shop("sql", "SELECT nix FROM t").status == 2


def test_a_field_called_like_metadata_is_taken_from_a_file_without_metadata(shop: Cli) -> None:
    line = b'{"id":1,"_txid":"b"}'
    shop("publish", "t", stdin=line + b"\n")
    assert shop("export", "t", "x.parquet").status == 0
    assert shop("publish", "u", "--from", "x.parquet").status == 0
    assert messages(shop, "u") == [{"id": 1, "_txid": "b"}]


def test_a_column_without_a_name_goes_through_tsv(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1,"":"x"}\n')
    assert shop("export", "t", "x.tsv").status == 0
    assert shop("publish", "u", "--from", "x.tsv", "--type=id=integer").status == 0
    assert messages(shop, "u") == [{"id": 1, "": "x"}]


def test_an_export_of_envelopes_is_known_by_its_first_line(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1}\n')
    assert shop("export", "t", "x.ndjson", "--meta").status == 0
    done = shop("publish", "t", "--from", "x.ndjson")
    assert done.status == 3
    assert "sowctl publish --framing envelope < x.ndjson" in done.err
    assert shop("publish", "--framing", "envelope", stdin=Path("x.ndjson").read_bytes()).status == 0


def test_an_arrow_file_whose_texts_are_no_utf8_is_refused(shop: Cli) -> None:
    texts = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with ipc.new_file("x.arrow", pa.schema([("id", pa.string())])) as file:
        file.write_batch(pa.record_batch([texts], names=["id"]))
    done = shop("publish", "t", "--from", "x.arrow")
    assert done.status == 3
    assert "SOW-EXC-012" in done.err
    # The name of a column.
    with ipc.new_file("y.arrow", pa.schema([("column", pa.int64())])) as file:
        file.write_batch(pa.record_batch([pa.array([1])], names=["column"]))
    Path("y.arrow").write_bytes(Path("y.arrow").read_bytes().replace(b"column", b"colu\xff\xff"))
    assert "SOW-EXC-012" in shop("publish", "t", "--from", "y.arrow").err


def test_of_a_member_given_twice_each_format_has_the_first(shop: Cli) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    shop("publish", "t", stdin=b'{"id":4,"dup":1,"dup":2}\n')
    for name in ("x.csv", "x.parquet", "x.ndjson"):
        assert shop("export", "t", name).status == 0
    assert Path("x.csv").read_text() == "id,dup\n4,1\n"
    assert parquet.read_table("x.parquet").to_pylist() == [{"id": 4, "dup": 1}]
    assert Path("x.ndjson").read_text() == '{"id":4,"dup":1,"dup":2}\n'
    assert shop("query", "t", "/dup = 1", "--format", "csv", "--columns", "/dup").out == "dup\n1\n"
    assert shop("sql", "select dup from t where id = 4", "--format", "csv").out == "dup\n1\n"


def test_a_rejected_row_of_a_table_has_a_line_and_no_offset(cli: Cli) -> None:
    assert cli("demo", "d").status == 0
    Path("t.csv").write_text("orderId,qty\n10417,x\n")
    Path("t.ndjson").write_text('{"orderId":\n')
    for name, more, places in (("t.csv", ("--type", "qty=integer"), ["line"]), ("t.ndjson", (), ["line", "byte"])):
        argv = ("publish", "orders", "--from", name, *more, "--on-error", "skip", "--rejects", f"{name}.bad")
        assert cli(*argv, "-c", "d/sowctl.xml").status == 3
        row = json.loads(Path(f"{name}.bad").read_text())
        assert [one for one in ("line", "byte") if one in row] == places


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--from", "x.txt"), "--format"),
        (("--from", "x.csv", "--type", "id=integer,qty=integer"), "--type once "),
    ],
)
def test_what_from_and_type_do_not_take_is_told_with_a_way(words: tuple[str, ...], hint: str, cli: Cli) -> None:
    Path("x.csv").write_text("id,qty\n1,2\n")
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ()))
    refused = cli("publish", "t", *words)
    assert refused.status == 2 and hint in refused.err


LATE = pa.array([0, 2**62, 1, None], pa.int64()).view(pa.timestamp("us", "Mars/Phobos"))
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "at": LATE,
        "map": pa.array([[("a", 1)], [], [("k", 1), ("k", 2)], None], pa.map_(pa.string(), pa.int64())),
        "ns": pa.array([1, 2, 3, 86_400_000_000_000], pa.int64()).view(pa.time64("ns")),
    }
)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
def test_rows_that_make_no_message_are_refused_and_the_others_published(shop: Cli, name: str) -> None:
    if name == "x.parquet":
        parquet.write_table(ROWS, name)
    else:
        with (ipc.new_file if name == "x.arrow" else ipc.new_stream)(name, ROWS.schema) as out:
            out.write_table(ROWS)
    done = shop("publish", "t", "--from", name, "--on-error", "skip", "--rejects", "bad.ndjson")
    assert done.status == 3
    assert messages(shop) == [
        {"id": 1, "at": "1970-01-01T00:00:00.000000Z", "map": {"a": 1}, "ns": "00:00:00.000000001"},
        {"id": 4, "ns": "24:00:00"},
    ]
    bad = [json.loads(line) for line in Path("bad.ndjson").read_text().splitlines()]
    assert [(one["line"], one["code"]) for one in bad] == [(2, "SOW-EXC-011"), (3, "SOW-EXC-011")]
    assert ["column at" in bad[0]["error"], "column map" in bad[1]["error"]] == [True, True]
    stopped = shop("publish", "u", "--from", name)
    assert (stopped.status, len(messages(shop, "u"))) == (3, 1)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
@pytest.mark.parametrize("within", ["columns", "fields", "fields in lists"])
def test_two_columns_of_one_name_are_refused_with_the_name(shop: Cli, name: str, within: str) -> None:
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], ["id", "amount", "amount"])
    if within != "columns":
        struct = pa.StructArray.from_arrays([pa.array([2]), pa.array([3])], ["amount", "amount"])
        column = struct if within == "fields" else pa.ListArray.from_arrays([0, 1], struct)
        table = pa.table({"id": [1], "s": column})
    if name == "x.parquet":
        parquet.write_table(table, name)
    else:
        with (ipc.new_file if name == "x.arrow" else ipc.new_stream)(name, table.schema) as out:
            out.write_table(table)
    done = shop("publish", "t", "--from", name)
    assert done.status == 3
    assert "SOW-EXC-012" in done.err and "'amount' twice" in done.err and "hint: " in done.err and name in done.err


def test_keys_and_payloads_of_any_encoding(shop: Cli) -> None:
    keys = pa.array([b"\x01", b"k", None])
    table = pa.table({"_user_key": keys.dictionary_encode(), "payload": pa.array(["a", "b", "c"]).dictionary_encode()})
    with ipc.new_stream("x.arrows", table.schema) as out:
        out.write_table(table)
    assert shop("publish", "raw", "--from", "x.arrows", "--on-error", "skip").status == 3
    assert shop("get", "raw", "AQ==", "aw==").out.splitlines() == ['"YQ=="', '"Yg=="']


def test_whole_numbers_of_any_length_and_json_with_all_its_digits(shop: Cli) -> None:
    digits = "123456789012345678901234567890"
    Path("x.csv").write_text(f"id,n,j\n1,{digits},1e400\n2,1e5,{{\n3,-{digits},{digits}\n")
    done = shop("publish", "t", "--from", "x.csv", "--type=n=integer", "--type=j=json", "--on-error=skip")
    assert done.status == 3 and "column n" in done.err
    lines = shop("query", "t", "-o", "/id").out.splitlines()
    assert lines == [f'{{"id":1,"n":{digits},"j":1e400}}', f'{{"id":3,"n":-{digits},"j":{digits}}}']
