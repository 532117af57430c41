"""A long object read in parts has the members that it has as a whole, or is left to the exact reader."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.values import rawmembers
from sowctl.values.jsontree import member
from sowctl.values.rawmembers import in_parts, raw_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['a,b}"]{\\', "é", "\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
MARKS = st.text('{}[]:,"\\ 1a', max_size=40)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rawmembers, "LONG", 2)
    monkeypatch.setattr(rawmembers, "_PART", 6)


@given(st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_parts_are_the_members_in_order(row: dict[str, object], escaped: bool, spaced: bool) -> None:
    text = json.dumps(row, ensure_ascii=escaped, separators=(", ", " : ") if spaced else (",", ":")).encode()
    parts = in_parts(text)
    assert parts is not None and parts.count == len(row)
    found = [pair for part in parts for pair in part.items()]
    assert [name for name, _ in found] == list(row)
    assert [json.loads(bytes(raw)) for _, raw in found] == list(row.values())


@given(st.tuples(MARKS, st.sampled_from(['"a":1,', '"b":[2,{"c":3}],', '"d":"x"', ',"a":5}', "}", "{"]), MARKS))
def test_what_is_no_object_is_not_read(some: tuple[str, ...]) -> None:
    text = ("{" + "".join(some) + "}").encode()
    parts = in_parts(text)
    if parts is not None:
        pairs = json.loads(text, object_pairs_hook=lambda pairs: pairs)
        assert [name for part in parts for name in part] == [name for name, _ in pairs]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"bbbbbb":2,"a":3}',
        b'{"a":1,"bbbbbb":2,"\\u0061":3}',
        b'{"a":1,"bbbbbb":2,}',
        b'{"a":1,"bbbbbb":2,,"c":3}',
        b'{"aaaaaa":1} , {"b":2,"c":3}',
        b'{"aaaaaa":[1},"b":2]}',
        b'{"aaaaaa":"\xff","b":1}',
        b'{"aaaaaa":1,"b":2} x',
        b' {"aaaaaa":1,"b":2}',
        b'{"aaaaaa":' + b"[" * 200 + b"]" * 200 + b',"b":1}',
        b"[1,2,3,4,5,6,7]",
        b"{      }",
    ],
)
def test_what_only_an_exact_reader_can_tell(text: bytes) -> None:
    assert in_parts(text) is None


def test_a_value_in_parts_reads_as_by_itself() -> None:
    parts = in_parts(b'{"n":1.50,"text":"a\\u0041","deep":{"x":[1,2]}}')
    assert parts is not None
    assert [member(raw) for part in parts for raw in part.values()] == ["1.50", "aA", {"x": ["1", "2"]}]


def test_many_members_with_white_space_are_left_to_the_exact_reader_at_once() -> None:
    text = ("{" + ", ".join(f'"member{number}": 1' for number in range(30_000)) + "}").encode()
    begin = time.process_time()
    # Each of the names looked for in the whole text took 5.9 s.
    assert raw_members(text) is None
    assert time.process_time() - begin < 1
