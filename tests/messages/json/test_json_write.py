"""Writing json: deltas (cases C16 to C21), constructed fields and new messages, against a model on plain values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import InputError
from sowctl.messages.base import build_messages
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import get_type
from sowctl.values.fields import FieldWrite, Number, Slot, ValueList
from sowctl.values.paths import Path, Step, parse_path

JSON = get_type("json")
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["", "x", "é"]))
NAMES = st.sampled_from(["a", "b", "c", 'q"', "é"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=4)


@pytest.mark.parametrize(
    ("case", "base", "delta", "merged"),
    [
        ("C16", '{"id":42,"flowers":"roses"}', '{"id":42}', '{"id":42,"flowers":"roses"}'),
        (
            "C17",
            '{"id":42,"contents":{"packages":[{"box":"c"},{"bowl":"n"}]},"n":1}',
            '{"id":42,"contents":{"packages":[{"basket":"e"}]}}',
            '{"id":42,"contents":{"packages":[{"basket":"e"}]},"n":1}',
        ),
        ("C18", '{"id":1,"q":{"bid":1,"ask":2}}', '{"id":1,"q":{"bid":3}}', '{"id":1,"q":{"bid":3,"ask":2}}'),
        ("C19", '{"id":1,"a":1}', '{"id":1,"new":7}', '{"id":1,"a":1,"new":7}'),
        ("C21", '{"id":1,"a":5}', '{"id":1,"a":null}', '{"id":1,"a":5}'),
    ],
)
def test_the_cases_of_the_specification(case: str, base: str, delta: str, merged: str) -> None:
    assert JSON.merge_delta(base.encode(), delta.encode()) == merged.encode()


@pytest.mark.parametrize(
    ("base", "delta", "ignoring", "setting"),
    [
        ('{"a":5}', '{"a":""}', '{"a":5}', '{"a":""}'),
        ('{"a":5}', '{"a":[]}', '{"a":5}', '{"a":[]}'),
        ('{"a":5}', '{"a":{}}', '{"a":5}', '{"a":{}}'),
        ('{"a":{"b":1}}', '{"a":{}}', '{"a":{"b":1}}', '{"a":{"b":1}}'),
        ('{"a":5}', '{"a":{"b":null}}', '{"a":5}', '{"a":{"b":null}}'),
        ('{"a":5}', '{"a":{"b":1}}', '{"a":{"b":1}}', '{"a":{"b":1}}'),
        ('{"a":{"b":1}}', '{"a":7}', '{"a":7}', '{"a":7}'),
        ('{"a":[1,2]}', '{"a":{"b":1}}', '{"a":{"b":1}}', '{"a":{"b":1}}'),
        ("{}", '{"a":{"b":null,"c":1}}', '{"a":{"c":1}}', '{"a":{"b":null,"c":1}}'),
        ("{}", '{"a":[null]}', '{"a":[null]}', '{"a":[null]}'),
        ("[1]", '{"a":1}', '{"a":1}', '{"a":1}'),
        ('{"a":1}', "null", '{"a":1}', "null"),
    ],
)
def test_nulls_and_changes_of_shape(base: str, delta: str, ignoring: str, setting: str) -> None:
    assert JSON.merge_delta(base.encode(), delta.encode()) == ignoring.encode()
    assert JSON.merge_delta(base.encode(), delta.encode(), set_nulls=True) == setting.encode()


def model(base: dict[str, Any], delta: dict[str, Any], set_nulls: bool) -> dict[str, Any]:
    """The rules on plain values."""
    result = dict(base)
    for name, value in delta.items():
        if isinstance(value, dict) and (value or isinstance(result.get(name), dict)):
            old = result.get(name)
            below = model(old if isinstance(old, dict) else {}, value, set_nulls)
            if has_values(value) or set_nulls:
                result[name] = below
        elif set_nulls or value not in (None, "", [], {}) or value is False or value == 0:
            result[name] = value
    return result


def has_values(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(map(has_values, tree.values()))
    return tree is not None and tree != "" and tree != []


@settings(deadline=None)
@given(OBJECTS, OBJECTS, st.booleans())
def test_a_merge_follows_the_rules(base: dict[str, Any], delta: dict[str, Any], set_nulls: bool) -> None:
    merged = JSON.merge_delta(json.dumps(base).encode(), json.dumps(delta).encode(), set_nulls=set_nulls)
    assert json.loads(merged) == model(base, delta, set_nulls)


def test_what_is_not_concerned_keeps_its_bytes() -> None:
    base = b'{ "n": 1.50e0, "t":"\\u0041", "l":[ 1,2 ], "x":1 }'
    assert JSON.merge_delta(base, b'{"x": 2.0}') == b'{"n":1.50e0,"t":"\\u0041","l":[ 1,2 ],"x":2.0}'


def test_members_that_do_not_count_go_where_their_object_is_rewritten() -> None:
    assert JSON.merge_delta(b'{"a":1,"a":2,"o":{"b":1,"b":2}}', b'{"c":3}') == b'{"a":1,"o":{"b":1,"b":2},"c":3}'
    last = get_type(TypeDefinition("j", "json", first_wins=False))
    assert last.merge_delta(b'{"a":1,"a":2}', b'{"c":3,"c":4}') == b'{"a":2,"c":4}'


def test_c136_of_members_given_twice_the_first_counts_unless_the_type_says_otherwise() -> None:
    slot = Slot(parse_path("/code"))
    payload = b'{"code":1,"x":0,"code":2}'
    assert JSON.build_extractor([slot])([payload]) == ([(1,)], [])
    last = get_type(TypeDefinition("j", "json", first_wins=False))
    assert last.build_extractor([slot])([payload]) == ([(2,)], [])
    assert last.build_key_extractor([slot.path])([payload]) == ([(b"2",)], [])
    assert last.view(b'{"code":1,\n"o":[{"a":1,"a":2}, 3],"code":2}') == b'{"code":2,"o":[{"a":2},3]}'


def put(tree: dict[str, Any], names: tuple[str, ...], value: Any) -> None:
    for name in names[:-1]:
        if not isinstance(tree.get(name), dict):
            tree[name] = {}
        tree = tree[name]
    tree[names[-1]] = value


@settings(deadline=None)
@given(OBJECTS, st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3), SCALARS), max_size=4))
def test_fields_are_written_where_they_belong(tree: dict[str, Any], fields: list[tuple[list[str], Any]]) -> None:
    writes = [FieldWrite(Path(tuple(map(Step, names))), value) for names, value in fields]
    made = json.loads(JSON.assign_fields(json.dumps(tree).encode(), writes))
    for names, value in fields:
        put(tree, tuple(names), None if value == "" else value)
    assert made == tree
    assert list(made) == list(tree)
    assert JSON.assign_fields(b"{}", writes) == JSON.build_message([(tuple(names), value) for names, value in fields])


def test_values_are_written_as_they_were_where_json_allows() -> None:
    values = [
        Number(7, b"007", typed=False),
        Number(90.5, b"90.50"),
        float("nan"),
        -0.0,
        2**64 - 1,
        b"\xff",
        ValueList((None, 1)),
        True,
    ]
    made = JSON.build_message([((str(at),), value) for at, value in enumerate(values)])
    expected = '{"0":"007","1":90.50,"2":null,"3":-0.0,"4":18446744073709551615,"5":"\ufffd","6":null,"7":true}'
    assert made == expected.encode()


_VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.sampled_from(
        [None, True, False, "", "é\n", b"", b"\xff%b", ValueList(()), ValueList((None, 1)), ValueList(("x",))]
    ),
    st.builds(Number, st.integers(-9, 9), st.sampled_from([b"007", b" 7 ", b"7.0"]), st.booleans()),
)
_COLUMNS = st.sampled_from([st.integers(-9, 9), st.floats(), _VALUES])


@settings(deadline=None)
@given(st.lists(st.lists(NAMES | st.just("%b%%"), min_size=1, max_size=2), max_size=4), st.integers(0, 4), st.data())
def test_messages_made_together_are_those_made_one_by_one(names: list[list[str]], rows: int, data: Any) -> None:
    destinations = [tuple(some) for some in names]
    columns = [data.draw(st.lists(data.draw(_COLUMNS), min_size=rows, max_size=rows)) for _ in destinations]
    made = list(zip(*columns, strict=True)) if columns else [()] * rows
    wanted = [JSON.build_message(list(zip(destinations, row, strict=True))) for row in made]
    assert build_messages(JSON, destinations, made) == wanted


def test_removing_leaves_the_rest() -> None:
    remove = [FieldWrite(parse_path(path), None, True) for path in ("/a/b", "/x/y", "/c")]
    assert JSON.assign_fields(b'{"a":{"b":1,"d":2},"c":3,"x":5}', remove) == b'{"a":{"d":2},"x":5}'


def test_an_object_takes_the_place_of_what_has_no_fields() -> None:
    assert JSON.assign_fields(b"[1]", [FieldWrite(parse_path("/a/b"), 1)]) == b'{"a":{"b":1}}'


def test_a_merge_of_too_large_messages_is_refused() -> None:
    small = get_type("json", max_message=10)
    with pytest.raises(InputError) as caught:
        small.merge_delta(b"{}", b'{"a":"xxxxxxxx"}')
    assert (caught.value.code, caught.value.facts["part"]) == ("SOW-MSG-004", "delta")
