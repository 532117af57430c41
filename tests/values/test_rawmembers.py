"""Members of an object by their bytes, whole or in parts: those that it has, or it is left to the exact reader."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.values import rawmembers
from sowctl.values.jsontree import parse_member
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS, open_long_object, read_raw_columns, read_raw_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['a,b}"]{\\', "é", "\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
MARKS = st.text('{}[]:,"\\ 1a', max_size=40)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LONG_OBJECT_LIMITS, "min_object_bytes", 2)
    monkeypatch.setattr(LONG_OBJECT_LIMITS, "part_bytes", 6)


@pytest.fixture(params=[6, 8192], ids=["parts", "one part"])
def sized(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LONG_OBJECT_LIMITS, "part_bytes", request.param)


@given(st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_parts_are_the_members_in_order(row: dict[str, object], escaped: bool, spaced: bool) -> None:
    text = json.dumps(row, ensure_ascii=escaped, separators=(", ", " : ") if spaced else (",", ":")).encode()
    parts = open_long_object(text)
    assert parts is not None and parts.count == len(row)
    found = [pair for part in parts for pair in part.items()]
    assert [name for name, _ in found] == list(row)
    assert [json.loads(bytes(raw)) for _, raw in found] == list(row.values())


@given(st.tuples(MARKS, st.sampled_from(['"a":1,', '"b":[2,{"c":3}],', '"d":"x"', ',"a":5}', "}", "{"]), MARKS))
def test_what_is_no_object_is_not_read(some: tuple[str, ...]) -> None:
    text = ("{" + "".join(some) + "}").encode()
    parts = open_long_object(text)
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
        b'{"aaaaaa":' + b"[" * 256 + b"]" * 256 + b',"b":1}',
        b"[1,2,3,4,5,6,7]",
        b"{      }",
    ],
)
@pytest.mark.usefixtures("sized")
def test_what_only_an_exact_reader_can_tell(text: bytes) -> None:
    assert open_long_object(text) is None


@pytest.mark.parametrize("value", ["7", '"a, \\"b"', '{"a":[1,"x"],"b":{"c":"d","e":1}}', '[{"a":1,"b":2},{"a":1}]'])
def test_marks_are_not_looked_at_where_a_comma_can_be_guessed(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes a quarter of the time: 2,000,000 members took 1.5 s of processor time, and take 0.5."""
    monkeypatch.setattr(LONG_OBJECT_LIMITS, "part_bytes", 8192)
    monkeypatch.setattr(rawmembers, "_find_cut", lambda text, start: pytest.fail("looked at mark by mark"))
    text = ("{" + ",".join(f'"m{number}":{value}' for number in range(5_000)) + "}").encode()
    parts = open_long_object(text)
    assert parts is not None and parts.count == 5_000
    sizes = [sum(len(name) + len(bytes(raw)) + 4 for name, raw in part.items()) for part in parts]
    assert len(sizes) > 3 and max(sizes) < 3 * 8192


def test_a_long_value_is_passed_over_mark_by_mark() -> None:
    inner = ",".join(f'"x{number}":{{"y":{number}}}' for number in range(300))
    text = f'{{"a":1,"b":{{{inner}}},"c":[{"[1]," * 90}2],"d":"e"}}'.encode()
    parts = open_long_object(text)
    assert parts is not None and [list(part) for part in parts] == [["a"], ["b"], ["c"], ["d"]] and parts.count == 4


def test_a_value_in_parts_reads_as_by_itself() -> None:
    parts = open_long_object(b'{"n":1.50,"text":"a\\u0041","deep":{"x":[1,2]}}')
    assert parts is not None
    assert [parse_member(raw) for part in parts for raw in part.values()] == ["1.50", "aA", {"x": ["1", "2"]}]


@pytest.mark.parametrize("text", ['{"a": "b", "b": 1}', '{"a": "x\\n"}', '{"a": [{"a": 1}]}', '{"\\u0061": 1}', "{ }"])
def test_members_that_stand_once_are_told(text: str) -> None:
    found = read_raw_members(text.encode())
    assert found is not None
    assert {name: json.loads(bytes(value)) for name, value in found.items()} == json.loads(text)


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": 1, "\\u0061": 2}', '{"a": "\\"", "b": 1, "a": 2}', '{"\\"": 1, "\\"": 1}']
)
def test_members_that_stand_twice_are_left_to_another_reader(text: str) -> None:
    assert read_raw_members(text.encode()) is None


def test_many_members_take_no_longer_each_than_few() -> None:
    """With a search for each name, 32,000 took ten seconds."""
    text = json.dumps({f"m{number}": number for number in range(50_000)}).encode()
    start = time.process_time()
    found = read_raw_members(text)
    assert found is not None
    assert len(found) == 50_000
    assert time.process_time() - start < 3


def test_columns_of_objects_with_white_space() -> None:
    texts = [json.dumps({"a": number, "b": "x"}).encode() for number in range(3)]
    found = read_raw_columns(texts)
    assert found is not None
    assert {name: list(map(bytes, column)) for name, column in found.items()} == {
        "a": [b"0", b"1", b"2"],
        "b": [b'"x"'] * 3,
    }
    assert read_raw_columns(texts, dense=True) is None
    assert read_raw_columns([*texts, b'{"a": 1, "b": "x", "\\u0061": 2}']) is None
