"""One suite over the table of formats, and the exact bytes of each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.cli.parsing.options import FORMATS as OFFERED
from sowctl.errors import UsageError
from sowctl.output.formats import FORMATS, choose_format, make_renderer
from sowctl.output.options import OutputOptions, Terminal, parse_columns
from sowctl.output.records import OutputBatch, OutputRecord
from sowctl.values import rawmembers
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS

NAMES = [line.name for line in FORMATS]
COLUMNAR = ("parquet", "arrow")
"""Files of columns, whose bytes are those of a library: test_columnar.py reads them."""
PLAIN = [name for name in NAMES if name not in COLUMNAR]
AT = 1_767_323_045_678_901


def same(payload: bytes) -> bytes:
    return payload


def fix_view(payload: bytes) -> bytes:
    pairs = [pair.partition(b"=") for pair in payload.split(b"\x01") if pair]
    return json.dumps({tag.decode(): value.decode() for tag, _, value in pairs}).encode()


def batch(*payloads: bytes, message_type: str = "json", view: Callable[[bytes], bytes] = same) -> OutputBatch:
    records = [
        OutputRecord(payload, 17 + n, AT + n, AT + 60_000_000 if n == 0 else 0, 100 + n, f"7|{n}|", None)
        for n, payload in enumerate(payloads)
    ]
    return OutputBatch("orders", message_type, view, records)


SMALL = batch(b'{"id":1,"price":1.10,"name":"Zo\xc3\xab"}', b'{"id":2,"price":187.20,"tags":["a",2.50]}')
OPTIONS = OutputOptions(template="{sow_key}:{/price}")


def rendered(name: str, *batches: OutputBatch, options: OutputOptions = OPTIONS) -> bytes:
    out = io.BytesIO()
    make_renderer(name, options).write(iter(batches), out)
    return out.getvalue()


@pytest.mark.parametrize("name", ["csv", "tsv", "table"])
def test_headers_may_be_left_out(name: str) -> None:
    whole = rendered(name, SMALL)
    bare = rendered(name, SMALL, options=replace(OPTIONS, headers=False))
    # A table's columns have the widths of what stands in them.
    assert bare.replace(b" ", b"") == whole.partition(b"\n")[2].replace(b" ", b"")
    drawn = rendered(name, SMALL, options=replace(OPTIONS, headers=False, terminal=Terminal(80)))
    assert b"price" not in drawn
    assert b"187.20" in drawn


GOLDEN = {
    "ndjson": b'{"id":1,"price":1.10,"name":"Zo\xc3\xab"}\n{"id":2,"price":187.20,"tags":["a",2.50]}\n',
    "json": b'[\n{"id":1,"price":1.10,"name":"Zo\xc3\xab"},\n{"id":2,"price":187.20,"tags":["a",2.50]}\n]\n',
    "raw": b'{"id":1,"price":1.10,"name":"Zo\xc3\xab"}\n{"id":2,"price":187.20,"tags":["a",2.50]}\n',
    "csv": b'id,price,name,tags\n1,1.10,Zo\xc3\xab,\n2,187.20,,"[""a"",2.50]"\n',
    "tsv": b'id\tprice\tname\ttags\n1\t1.10\tZo\xc3\xab\t\n2\t187.20\t\t["a",2.50]\n',
    "table": (b'id   price  name  tags\n 1    1.10  Zo\xc3\xab\n 2  187.20        ["a",2.50]\n'),
    "template": b"17:1.10\n18:187.20\n",
    "msgpack": msgpack.packb({"id": 1, "price": 1.1, "name": "Zoë"})
    + msgpack.packb({"id": 2, "price": 187.2, "tags": ["a", 2.5]}),
}


@pytest.mark.parametrize("name", PLAIN)
def test_exact_bytes(name: str) -> None:
    assert rendered(name, SMALL) == GOLDEN[name]


@pytest.mark.parametrize("name", NAMES)
def test_batches_do_not_show(name: str) -> None:
    parts = [replace(SMALL, records=[record]) for record in SMALL.records]
    assert rendered(name, *parts) == rendered(name, SMALL)


@pytest.mark.parametrize("name", PLAIN)
def test_no_records(name: str) -> None:
    assert rendered(name) == (b"[]\n" if name == "json" else b"")
    assert rendered(name, replace(SMALL, records=[])) == rendered(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("payload", [b"", b"\xff\xfe", b"12", b"[1]", b"null", b'{"a":1', b"{}", b'{"a":1e999,"a":2}'])
@pytest.mark.parametrize("meta", [False, True])
def test_any_payload_can_be_printed(name: str, payload: bytes, meta: bool) -> None:
    assert rendered(name, batch(payload), options=replace(OPTIONS, meta=meta)) is not None


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "msgpack"])
@given(
    payload=st.one_of(
        st.binary(max_size=30),
        st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3).map(
            lambda row: json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
        ),
    ),
    colored=st.booleans(),
    columns=st.integers(1, 60),
)
def test_nothing_on_a_terminal_can_steer_it(name: str, payload: bytes, colored: bool, columns: int) -> None:
    options = replace(OPTIONS, terminal=Terminal(columns, "utf-8", False), template="{data}")
    text = rendered(name, batch(payload, b"{}"), options=options).decode()
    allowed = {"\n", "\t"} if name in ("tsv", "ndjson", "json") else {"\n"}
    assert {c for c in text if c < " " or "\x7f" <= c < "\xa0" or c in "\u202e\u2028\u2029"} <= allowed


def test_the_options_offer_what_there_is() -> None:
    assert set(OFFERED) == set(NAMES)


def test_choice() -> None:
    assert choose_format(None, terminal=True) == "table"
    assert choose_format(None, terminal=False) == "ndjson"
    assert choose_format("raw", terminal=True) == "raw"
    assert choose_format("nix", terminal=True, given=["--null"]) == "nix"


@pytest.mark.parametrize(
    ("given", "on_terminal", "elsewhere"),
    [
        (["--template"], "template", "template"),
        (["--template", "--null"], "template", "template"),
        (["--columns"], "table", "csv"),
        (["--null"], "ndjson", "ndjson"),
        (["--delimiter"], "ndjson", "ndjson"),
        (["--length-prefix"], "raw", "raw"),
    ],
)
def test_an_option_of_some_formats_chooses_one_that_takes_it(
    given: list[str], on_terminal: str, elsewhere: str
) -> None:
    assert (choose_format(None, terminal=True, given=given), choose_format(None, terminal=False, given=given)) == (
        on_terminal,
        elsewhere,
    )


def test_no_option_is_without_effect() -> None:
    """Every option either changes what a format writes, or is refused with it."""
    shaping = {
        "--columns": {"columns": parse_columns("/b")},
        "--null": {"delimiter": b"\0"},
        "--delimiter": {"delimiter": b";"},
        "--length-prefix": {"length_prefix": True},
        "--template": {"template": "{/b}!"},
    }
    for name in NAMES:
        for option, changes in shaping.items():
            plain = replace(OPTIONS, columns=(), template="{data}")
            changed = rendered(name, batch(b'{"a":1,"b":2}'), options=replace(plain, **changes)) != rendered(
                name, batch(b'{"a":1,"b":2}'), options=plain
            )
            try:
                choose_format(name, terminal=False, given=[option])
                taken = True
            except UsageError as error:
                assert (error.code, error.exit_status) == ("SOW-OUT-012", 2)
                taken = False
            assert taken == changed, (name, option)


def test_a_delimiter_on_a_terminal_is_shown() -> None:
    options = replace(OPTIONS, terminal=Terminal(80, "utf-8", False), delimiter=b"\0")
    assert "\0" not in rendered("ndjson", batch(b'{"a":1}'), options=options).decode()


@pytest.mark.parametrize(("name", "lengths"), [("msgpack", False), ("raw", True)])
def test_binary_output_is_kept_from_terminals(name: str, lengths: bool) -> None:
    with pytest.raises(UsageError, match="binary") as caught:
        make_renderer(name, OutputOptions(length_prefix=lengths, terminal=Terminal()))
    assert caught.value.code == "SOW-OUT-011"


def test_unknown_format() -> None:
    with pytest.raises(UsageError, match="yaml") as caught:
        make_renderer("yaml", OutputOptions())
    assert caught.value.code == "SOW-OUT-010"


def test_ndjson_shows_other_types_as_json_and_keeps_one_line() -> None:
    shown = rendered("ndjson", batch(b"35=D\x0155=IBM", message_type="fix", view=fix_view))
    assert shown == b'{"35": "D", "55": "IBM"}\n'
    lines = rendered("ndjson", batch(b'{\n "a": 1.50\r\n}', view=lambda payload: b'{"a":1.50}'))
    assert lines == b'{"a":1.50}\n'


def test_envelopes() -> None:
    first, second = rendered(
        "ndjson", batch(b'{"id":1.0}', b'{"id":\n2}'), options=OutputOptions(meta=True)
    ).splitlines()
    assert first == (
        b'{"topic":"orders","message_type":"json","sow_key":"17","timestamp":"2026-01-02T03:04:05.678901Z",'
        b'"expiration":"2026-01-02T03:05:05.678901Z","txid":100,"bookmark":"7|0|","correlation_id":null,"data":{"id":1.0}}'
    )
    assert json.loads(second)["expiration"] is None
    assert json.loads(second)["data_base64"] == "eyJpZCI6CjJ9"


@given(
    st.one_of(
        st.binary(), st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps).map(str.encode)
    )
)
def test_an_envelope_gives_the_payload_back(payload: bytes) -> None:
    from base64 import b64decode

    line = rendered("ndjson", batch(payload), options=OutputOptions(meta=True))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    row = json.loads(line)
    if "data_base64" in row:
        assert b64decode(row["data_base64"]) == payload
    else:
        assert line == line.partition(b'"data":')[0] + b'"data":' + payload + b"}\n"
        assert json.loads(payload) == row["data"]


def test_raw_is_exact_for_any_bytes() -> None:
    payloads = [b"a\x00b", b"", b"\xff\n"]
    assert rendered("raw", batch(*payloads), options=OutputOptions(delimiter=b"||")) == b"a\x00b||||\xff\n||"
    framed = rendered("raw", batch(*payloads), options=OutputOptions(length_prefix=True))
    assert framed == b"\0\0\0\x03a\x00b" + b"\0\0\0\0" + b"\0\0\0\x02\xff\n"


@pytest.mark.parametrize(
    ("options", "torn"),
    [
        ({}, "1 message contains"),
        ({"delimiter": b"\0"}, "1 message contains"),
        ({"delimiter": b"b"}, "2 messages contain"),
        # behind its second byte a reader would go on with the rest of the delimiter
        ({"delimiter": b"\n\n"}, "1 message contains"),
        ({"delimiter": b"||"}, None),
        ({"delimiter": b""}, None),
        ({"length_prefix": True}, None),
        ({"terminal": Terminal(80)}, None),
    ],
)
def test_raw_tells_of_messages_that_contain_the_delimiter(options: dict[str, Any], torn: str | None) -> None:
    out = io.BytesIO()
    notes = (
        make_renderer("raw", OutputOptions(**options))
        .write(iter((batch(b"a\x00b", b""), batch(b"bb\xff\n"))), out)
        .notes
    )
    assert [note.partition(" the delimiter;")[0] for note in notes] == ([torn] if torn else [])


@given(
    st.lists(
        st.fixed_dictionaries(
            {"a": st.text(st.characters(codec="utf-8")), "b,c": st.none() | st.text(st.characters(codec="utf-8"))}
        ),
        min_size=1,
    )
)
def test_csv_is_read_back_by_a_csv_reader(rows: list[dict[str, str | None]]) -> None:
    text = rendered("csv", batch(*(json.dumps(row).encode() for row in rows))).decode("utf-8", "surrogateescape")
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert found == [{"a": row["a"], "b,c": row["b,c"] or ""} for row in rows]


def test_csv_tells_nothing_from_the_empty_text() -> None:
    assert rendered("csv", batch(b'{"a":"","b":null,"c":false}')) == b'a,b,c\n"",,false\n'


def test_csv_keeps_bytes_that_are_not_text() -> None:
    assert rendered("csv", batch(b"\xff"), options=OutputOptions(columns=("data",))) == b"data\n\xff\n"


def test_tsv_escapes() -> None:
    assert rendered("tsv", batch(json.dumps({"a": "x\ty\n\\"}).encode())) == b"a\nx\\ty\\n\\\\\n"


def test_msgpack_of_a_long_record_is_written_in_parts_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = '{"id":1,"x":{"a":[1.5,null]},"é":"\\n"}'.encode()
    texts = [b'{"a":1}', payload, b'{"b":2,"b":3}', b'{"c":4']
    whole = rendered("msgpack", batch(*texts))
    monkeypatch.setattr(LONG_OBJECT_LIMITS, "min_object_bytes", 2)
    monkeypatch.setattr(LONG_OBJECT_LIMITS, "part_bytes", 1)
    assert rawmembers.open_long_object(payload) is not None
    assert rendered("msgpack", batch(*texts)) == whole


def test_msgpack_with_metadata_holds_the_bytes() -> None:
    row = msgpack.unpackb(rendered("msgpack", batch(b"\xff"), options=OutputOptions(meta=True)))
    assert row["data"] == b"\xff"
    assert row["sow_key"] == "17"


def test_extra_metadata_stands_before_the_data() -> None:
    record = OutputRecord(b"{}", 5, extra={"client": "c1", "sequence": 7, "user_key": None})
    line = rendered("ndjson", OutputBatch("t", "json", same, [record]), options=OutputOptions(meta=True))
    assert line.endswith(b'"correlation_id":null,"client":"c1","sequence":7,"data":{}}\n')
    assert b'"sow_key":"5",' in line


def test_a_key_that_the_publisher_chose_is_the_sow_key() -> None:
    record = OutputRecord(b"{}", 5, extra={"user_key": "abc"})
    line = rendered("ndjson", OutputBatch("t", "json", same, [record]), options=OutputOptions(meta=True))
    assert b'"sow_key":"abc",' in line
    assert b"user_key" not in line


HALVES = rb'{"v":"\ud800x","b":"\udc80","w\udfff":{"a":["\ud83d","\ud83d\ude00"]}}'


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("csv", 'v,b,w\\udfff\n\\ud800x,\\udc80,"{""a"":[""\\ud83d"",""😀""]}"\n'),
        ("tsv", 'v\tb\tw\\\\udfff\n\\\\ud800x\t\\\\udc80\t{"a":["\\\\ud83d","😀"]}\n'),
        ("template", "\\ud800x|\\udc80|\\ud83d\n"),
    ],
)
def test_half_a_surrogate_pair_is_written_as_its_escape(name: str, expected: str) -> None:
    out = io.BytesIO()
    make_renderer(name, OutputOptions(template="{/v}|{/b}|{/w/a}" if name == "template" else None)).write(
        [batch(HALVES.replace(rb"w\udfff", b"w") if name == "template" else HALVES)], out
    )
    assert out.getvalue().decode() == (
        expected.replace("\\ud83d", '["\\ud83d","😀"]') if name == "template" else expected
    )


def test_msgpack_holds_the_escapes_as_text() -> None:
    out = io.BytesIO()
    make_renderer("msgpack", OutputOptions()).write([batch(HALVES)], out)
    found = msgpack.unpackb(out.getvalue())
    assert found == {"v": "\\ud800x", "b": "\\udc80", "w\\udfff": {"a": ["\\ud83d", "😀"]}}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "template"])
@pytest.mark.parametrize("meta", [True, False])
def test_no_format_fails_on_it_or_writes_what_is_not_utf8(name: str, meta: bool) -> None:
    out = io.BytesIO()
    make_renderer(name, OutputOptions(meta=meta)).write([batch(HALVES)], out)
    if name not in ("msgpack", *COLUMNAR):
        assert "ud800" in out.getvalue().decode()
