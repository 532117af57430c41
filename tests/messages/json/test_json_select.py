"""Select lists on the bytes of members: the result of the exact reader, for every payload."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl.errors import InputError
from sowctl.messages.base import select_all
from sowctl.messages.json.select import Selection
from sowctl.messages.json.type import JsonType
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS
from tests.support.examples import examples

_NAMES = st.sampled_from(["a", "b", "c", "ä", 'q"', "", ",", "\\u0061"])
_SCALARS = st.sampled_from(
    ["1", "-0", "1e5", "null", "true", '"a"', '"x,y"', '"\\u0061"', '"\\ud800"', '"é"', "{}", "[]"]
)
_SPACE = st.sampled_from(["", "", "", " ", "\n"])


@st.composite
def _objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    """An object as text, with possibly repeated names and white space."""
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        name, value, space = draw(_NAMES), draw(values), draw(_SPACE)
        parts.append(f"{space}{json.dumps(name, ensure_ascii=draw(st.booleans()))}:{space}{value}")
    return "{" + ",".join(parts) + draw(_SPACE) + "}"


_VALUES = st.recursive(
    _SCALARS,
    lambda below: st.one_of(_objects(below), st.lists(below, max_size=2).map(lambda items: f"[{','.join(items)}]")),
    max_leaves=6,
)
_LISTS = st.lists(st.tuples(st.booleans(), st.lists(_NAMES, max_size=2).map(tuple)), min_size=1, max_size=3)


@example(text='{"a":1,"a":2}', wanted=[(False, ("b",))])
@example(text='{ "a": 1, "a": 2 }', wanted=[(False, ("b",))])
@example(text='{ "a": "b", "b": 2 }', wanted=[(False, ("b",))])
@example(text='{"a":{ },"b":[ ]}', wanted=[(False, ("a", "b")), (True, ("a",))])
@example(text="{ }", wanted=[(False, ("a",))])
@example(text='{"a":"\\udc00"}', wanted=[(False, ("b",))])
@settings(max_examples=examples(300), deadline=None)
@given(text=st.one_of(_objects(_VALUES), _VALUES), wanted=_LISTS)
def test_it_leaves_what_the_exact_reader_leaves(text: str, wanted: list[tuple[bool, tuple[str, ...]]]) -> None:
    payload = text.encode()
    assert JsonType().select_fields(payload, wanted) == JsonType(fast=False).select_fields(payload, wanted)


@example(text='{"a":1,"b":{"a":2},"c":3}', wanted=[(False, ("b", "a"))])
@example(text='{"a":1,"b":2}', wanted=[(False, ())])
@settings(max_examples=examples(200), deadline=None)
@given(text=_objects(_VALUES), wanted=_LISTS)
def test_in_parts_it_leaves_the_same(text: str, wanted: list[tuple[bool, tuple[str, ...]]]) -> None:
    payload = text.encode()
    with mock.patch.multiple(LONG_OBJECT_LIMITS, min_object_bytes=2, part_bytes=1):
        assert JsonType().select_fields(payload, wanted) == JsonType(fast=False).select_fields(payload, wanted)


_SAME = _LISTS.flatmap(lambda wanted: st.tuples(st.lists(_objects(_VALUES), max_size=3), st.just(wanted)))


@example(found=(['{"a":1,"b":{"c":1}}', '{"a":2,"b":{"c":{}}}'], [(False, ()), (True, ("b", "c"))]))
@example(found=(['{"a":1,"b":{"c":1}}', '{"a":2,"b":{"d":1}}'], [(False, ("b", "c"))]))
@example(found=(['{"a":1,"b":2}', '{"a":2,"b":"x"}'], [(False, ("b", "c"))]))
@example(found=(['{"%":1,"b":{}}', '{"%":2,"b":{}}'], [(False, ("b", "c")), (True, ("b",))]))
@example(found=(['{"a":1,"b":2}', '{"a":2,"b":2,"b":3}'], [(False, ("b",))]))
@example(found=(['{"a": {"b": 1}, "c": "x"}', ' {"a": { "b" : [1, {}] }, "c": "x"}'], [(False, ("c",))]))
@example(found=(['{"a": {"b": 1, "d": 2}, "c": 1}', '{"a":{"b":1, "d":[ ]}, "c": 1}'], [(False, ("a", "d"))]))
@example(found=(['{"a": {"b": 1}}', '{"a": 1, "a": 2}'], [(False, ("c",))]))
@settings(max_examples=examples(200), deadline=None)
@given(found=_SAME)
def test_of_several_it_leaves_what_it_leaves_of_each(
    found: tuple[list[str], list[tuple[bool, tuple[str, ...]]]],
) -> None:
    payloads, wanted = [text.encode() for text in found[0]], found[1]
    assert select_all(JsonType(), payloads, wanted) == [
        JsonType(fast=False).select_fields(one, wanted) for one in payloads
    ]


def test_payloads_of_one_shape_are_read_together() -> None:
    selection = Selection([(False, ()), (True, ("a",)), (True, ("b", "c"))], 1000, 50)
    assert selection.select_all([b'{"a":1,"b":{"c":2,"d":3},"e":4}', b'{"a":5,"b":{"c":[],"d":3},"e":4}']) == [
        b'{"a":1,"b":{"c":2}}',
        b'{"a":5,"b":{"c":[]}}',
    ]
    assert selection.select_all([b'{"x":1}', b'{"x":2}']) == [b"{}", b"{}"]
    assert selection.select_all([b'{"a":1}', b'{ "a": 5 }']) == [b'{"a":1}', b'{"a":5}']
    for other in (b'{"b":1}', b'{"a":"\xff"}', b'{"a":"' + b"x" * 1000 + b'"}', b"["):
        assert selection.select_all([b'{"a":1}', other]) is None


@pytest.mark.parametrize(
    "payload", [b'{"a":"\xff"}', b'{"a":1', b'{"a":01}', b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}"]
)
def test_what_cannot_be_read_is_refused_in_the_same_words(payload: bytes) -> None:
    said = []
    for kind in (JsonType(), JsonType(fast=False)):
        with pytest.raises(InputError) as caught:
            kind.select_fields(payload, [(False, ("b",))])
        said.append((caught.value.code, caught.value.message))
    assert said[0] == said[1]


def test_plain_payloads_do_without_the_exact_reader() -> None:
    selection = Selection([(False, ()), (True, ("a", "b"))], 1000, 50)
    assert selection(b'{"x":1,"a":{"c":2,"b":[1,{}]}}') == b'{"a":{"b":[1,{}]}}'
    assert selection('{"a": {"b": "ü"}, "x": 2}'.encode()) == '{"a":{"b":"ü"}}'.encode()
    assert selection(b'{"a":1,"a":2}') is None
    assert selection(b'{"a":"' + b"x" * 1000 + b'"}') is None
