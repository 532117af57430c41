"""Members by their bytes: what the standard library makes of the same payload, and lines cell by cell."""

from __future__ import annotations

import json
from base64 import b64encode
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl.output.delimited import CsvRenderer, TsvRenderer, csv_cell, tsv_cell
from sowctl.output.members import is_json_line, members
from sowctl.output.options import OutputOptions
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
    assert _typed(members(payload, bytes)) == _typed(wanted)
    clean = payload == payload.strip() and b"\n" not in payload and "data_base64" not in wanted
    assert is_json_line(payload) is clean


@pytest.mark.parametrize("depth", [10, 499, 501, 100_000])
def test_the_depth_that_a_line_may_have(depth: int) -> None:
    payload = b"[" * depth + b"]" * depth
    assert is_json_line(payload) is (depth < 1000)


@pytest.mark.parametrize(
    ("renderer", "cell", "separator"), [(CsvRenderer, csv_cell, ","), (TsvRenderer, tsv_cell, "\t")]
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
