"""Members by their bytes: what the standard library makes of the same payload, and lines cell by cell."""

from __future__ import annotations

import json
from base64 import b64encode
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl.output.delimited import CsvRenderer, TsvRenderer, encode_csv_cell, encode_tsv_cell
from sowctl.output.formats import make_renderer
from sowctl.output.members import is_json_line, read_members
from sowctl.output.ndjson import encode_envelope, encode_values
from sowctl.output.options import OutputOptions, parse_columns
from sowctl.output.records import OutputBatch, OutputRecord
from sowctl.values.jsontree import NumberText
from tests.support.examples import examples

_TEXTS = ["", "a", "b", "x,y", 'q"', "é", "\t", "\n", "\\", "\ud800", "\u2028"]
_JSON = st.recursive(
    st.one_of(st.sampled_from(_TEXTS), st.integers(), st.floats(), st.booleans(), st.none()),
    lambda below: st.one_of(st.lists(below, max_size=2), st.dictionaries(st.sampled_from(_TEXTS), below, max_size=3)),
    max_leaves=6,
)


@st.composite
def _payloads(draw: st.DrawFn) -> bytes:
    """JSON as several writers write it, names twice now and then, and bytes that are none."""
    pure, separators = draw(st.booleans()), draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":\t")]))
    pairs = draw(st.lists(st.tuples(st.sampled_from(_TEXTS), _JSON), max_size=4))
    parts = [json.dumps({n: v}, ensure_ascii=pure, separators=separators)[1:-1] for n, v in pairs]
    text = draw(st.sampled_from(["{%s}", " {%s}", "{%s} ", "{%s}}", "{%s", "[{%s}]"])) % separators[0].join(parts)
    return text.encode("utf-8", "surrogatepass")


def _by_the_standard_library(payload: bytes) -> dict[str, Any]:
    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(pairs) | dict(reversed(pairs))

    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        value = json.loads(
            payload.decode(),
            parse_int=NumberText,
            parse_float=NumberText,
            parse_constant=refuse,
            object_pairs_hook=first,
        )
    except ValueError:
        return {"data_base64": b64encode(payload).decode()}
    return value if isinstance(value, dict) else {"data": value}


def _typed(value: Any) -> Any:
    """The value with the types of its parts, in order."""
    if isinstance(value, dict):
        return [(name, _typed(item)) for name, item in value.items()]
    return [_typed(item) for item in value] if isinstance(value, list) else (type(value), value)


@example(payload=b'{"a":1,"a":2}')
@example(payload=b'{ "a": 1, "a": 2 }')
@example(payload=b'{"a":-0,"b":1e5,"c":1E999,"d":{"x":1,"x":2}}')
@example(payload=b'{"a":"\xff"}')
@example(payload=b'{"a":NaN}')
@settings(max_examples=examples(300), deadline=None)
@given(payload=_payloads())
def test_members_are_those_of_the_standard_library(payload: bytes) -> None:
    wanted = _by_the_standard_library(payload)
    assert _typed(read_members(payload, bytes)) == _typed(wanted)
    clean = payload == payload.strip() and b"\n" not in payload and "data_base64" not in wanted
    assert is_json_line(payload) is clean


class _Stored(OutputBatch, frozen=True):
    """A batch that is shown by columns where that is possible."""

    def read_metadata_columns(self) -> tuple[tuple[int, ...], ...] | None:
        if any(record.extra for record in self.records):
            return None
        known = [(one.sow_key, one.timestamp, one.expiration, one.txid) for one in self.records]
        return tuple(zip(*known, strict=True))


@st.composite
def _alike(draw: st.DrawFn) -> list[bytes]:
    """Several messages, mostly of one shape and as a program writes them."""
    names = draw(st.lists(st.sampled_from([*_TEXTS, "%s", "c"]), max_size=3, unique=True))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        row = {name: draw(_JSON) for name in names}
        found.append(
            json.dumps(row, ensure_ascii=draw(st.booleans()), separators=(",", ":")).encode("utf-8", "replace")
        )
    return [*found, *draw(st.lists(_payloads(), max_size=1 if draw(st.booleans()) else 0))]


def _record(number: int, payload: bytes, extra: dict[str, str] | None = None) -> OutputRecord:
    return OutputRecord(payload, 2**63 + number, 1_000_000 * number, 5 * (number % 2), number, extra=extra)


_ASKED = (
    OutputOptions(),
    OutputOptions(meta=True),
    OutputOptions(columns=parse_columns("/a,/b/a,/x[0],data,length,sow_key,timestamp,expiration,txid")),
    OutputOptions(columns=parse_columns("/a,client")),
)


@example(payloads=[b'{"a":"x"}', b'{"a":null}', b'{"a":null}'])
@example(payloads=[b'{"a":"x"}', b'{"a":{"x":"1","y":2}}', b'{"a":"y"}'])
@example(payloads=[b'{"a":{"b":[1, 2]}}', b'{"a":{"b":[1,2]}}'])
@example(payloads=[b'{"a":{"b":1,"b":2},"c":1}', b'{"a":{"b":1,"c":2},"c":1}'])
@example(payloads=[b'{"a":{"b":"{}"},"c":1}', b'{"a":{"b":"[]"},"c":1}'])
@example(payloads=[b'{"a":1,"b":"\xff"}', b'{"a":1,"b":"x"}'])
@example(payloads=[b'{"a":%b1%b}' % (b'{"a":' * 300, b"}" * 300)])
@settings(max_examples=examples(200), deadline=None)
@given(payloads=_alike())
def test_columns_show_what_rows_show(payloads: list[bytes]) -> None:
    records = [_record(number, payload) for number, payload in enumerate(payloads)]
    for options in _ASKED:
        for name in ("csv", "tsv", "table"):
            by_columns, by_rows = BytesIO(), BytesIO()
            told = make_renderer(name, options).write([_Stored("t", "json", bytes, records)] * 2, by_columns)
            assert told == make_renderer(name, options).write([OutputBatch("t", "json", bytes, records)] * 2, by_rows)
            assert by_columns.getvalue() == by_rows.getvalue()
    batch = _Stored('t,"é%s', "json", bytes, records)
    assert encode_values(batch, meta=True) == [encode_envelope(batch, record) for record in records]


def test_more_metadata_than_usual_is_shown_row_by_row() -> None:
    batch = _Stored("t", "json", bytes, [_record(1, b'{"a":1}', {"user_key": "u"}), _record(2, b'{"a":2}')])
    assert [json.loads(line)["sow_key"] for line in encode_values(batch, meta=True)] == ["u", str(2**63 + 2)]
    out = BytesIO()
    CsvRenderer(OutputOptions(columns=parse_columns("/a,sow_key"))).write([batch], out)
    assert out.getvalue().decode() == f"a,sow_key\n1,u\n2,{2**63 + 2}\n"


@pytest.mark.parametrize("depth", [10, 499, 501, 100_000])
def test_the_depth_that_a_line_may_have(depth: int) -> None:
    payload = b"[" * depth + b"]" * depth
    assert is_json_line(payload) is (depth < 1000)


@pytest.mark.parametrize(
    ("renderer", "cell", "separator"), [(CsvRenderer, encode_csv_cell, ","), (TsvRenderer, encode_tsv_cell, "\t")]
)
@settings(max_examples=examples(100), deadline=None)
@given(
    texts=st.lists(
        st.one_of(st.none(), st.sampled_from(["", "a", "x,y", 'q"', "\t", "\r", "\\", "é"])), min_size=2, max_size=4
    )
)
def test_a_line_is_its_cells(renderer: Any, cell: Any, separator: str, texts: list[str | None]) -> None:
    payload = json.dumps({f"m{number}": text for number, text in enumerate(texts)}).encode()
    out = BytesIO()
    renderer(OutputOptions()).write([OutputBatch("t", "json", bytes, [OutputRecord(payload)])], out)
    assert out.getvalue().decode().split("\n", 1)[1] == separator.join(map(cell, texts)) + "\n"
