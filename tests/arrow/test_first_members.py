"""Of members given twice the first counts in columns: a message without the others is read alike, in every way."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from sowctl.arrow.field_types import FieldTypes
from sowctl.arrow.inference import Inference
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.arrow.jsontrees import TreeReader
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.arrow.type_checker import TypeChecker
from sowctl.arrow.unique_fields import count_name_marks
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.json.exact_reader import parse_spans
from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.messages.json.write import rebuild_payload
from sowctl.messages.types import get_type
from tests.support.examples import examples
from tests.support.jsontexts import NAMES, OBJECTS, SPACE

LEAVES = st.sampled_from(
    [pa.int64(), pa.int8(), pa.float64(), pa.string(), pa.bool_(), pa.decimal128(20, 3), pa.timestamp("us"), pa.null()]
)


def build_struct(fields: list[tuple[str, pa.DataType]]) -> pa.DataType:
    return pa.struct(fields)


KINDS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3, unique_by=lambda one: one[0]).map(build_struct)
        | inner.map(pa.list_)
        | inner.map(lambda kind: pa.map_(pa.string(), kind))
    ),
    max_leaves=5,
)
STRUCTS = st.lists(st.tuples(st.sampled_from(NAMES), KINDS), min_size=1, max_size=4, unique_by=lambda one: one[0]).map(
    build_struct
)
FITTING = {
    "int64": ["1", "2", "null"],
    "int8": ["1", "2"],
    "double": ["1.5", "2"],
    "string": ['"x"', '"y"', "null"],
    "bool": ["true", "false"],
    "decimal128(20, 3)": ["1.5", "2"],
    "timestamp[us]": ['"2026-01-02"', '"2026-01-03"'],
}
# Half a surrogate pair in a name is its escape in columns, and U+FFFD for the reader that leaves members out.
MESSAGES = st.lists(OBJECTS.map(lambda text: text.replace("\\ud800", "\\u0064").encode()), min_size=1, max_size=5)
PLAIN = [b'{"a":%d,"b":"x","id":{"a":1,"b":[]}}' % number for number in range(70)]
TWICE = b'{"a":7,"b":"y","a":8,"id":{"a":2,"a":3,"b":[{"a":1,"\\u0061":2}]}}'
KIND = pa.struct(
    [
        ("a", pa.int64()),
        ("id", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("a", pa.int64())])))])),
    ]
)


def keep_first(message: bytes) -> bytes:
    """The message without the members that do not count, by the definition of what counts."""
    return rebuild_payload(message, parse_spans(message))


def spell(tree: Any) -> Any:
    """A tree that can be compared, numbers by their digits."""
    if isinstance(tree, dict):
        return {name: spell(inner) for name, inner in tree.items()}
    if isinstance(tree, list):
        return list(map(spell, tree))
    return ("number", bytes(tree)) if isinstance(tree, Raw) else (type(tree), tree)


def decode(decoder: StructDecoder, messages: list[bytes]) -> Any:
    """The structs as text, in which a negative zero shows; or what does not fit."""
    try:
        return repr(decoder.decode_views(messages).to_pylist())
    except Misfit as problem:
        return problem.row, problem.names, problem.what


def write_value(draw: st.DrawFn, kind: pa.DataType) -> str:
    """The text of a value that fits a type, with members given twice now and then."""
    if pa.types.is_struct(kind):
        fields = draw(st.lists(st.sampled_from(list(kind)), max_size=4)) if kind.num_fields else []
        members = [(field.name, write_value(draw, field.type)) for field in fields]
    elif pa.types.is_map(kind):
        names = draw(st.lists(st.sampled_from(["a", "b"]), max_size=3))
        members = [(name, write_value(draw, kind.item_type)) for name in names]
    elif pa.types.is_list(kind):
        return "[" + ", ".join(write_value(draw, kind.value_type) for _ in range(draw(st.integers(0, 2)))) + "]"
    else:
        return draw(st.sampled_from(FITTING.get(str(kind), ["null"])))
    members += draw(st.lists(st.tuples(st.just("other"), st.sampled_from(["1", '{"a":1,"a":2}'])), max_size=1))
    space = draw(SPACE)
    return "{" + ",".join(f'{space}"{name}"{space}:{space}{value}{space}' for name, value in members) + "}"


@st.composite
def fitting(draw: st.DrawFn) -> tuple[pa.StructType, list[bytes]]:
    """A type, and messages that mostly fit it."""
    kind = draw(STRUCTS)
    return kind, [write_value(draw, kind).encode() for _ in range(draw(st.integers(1, 3)))]


@given(st.one_of(fitting(), st.tuples(STRUCTS, MESSAGES)), st.booleans())
@settings(max_examples=examples(400), deadline=None)
def test_structs_are_those_of_the_first_members(some: tuple[pa.StructType, list[bytes]], strict: bool) -> None:
    kind, messages = some
    alone = [keep_first(message) for message in messages]
    expected = decode(StructDecoder(kind, strict=strict), alone)
    assert decode(StructDecoder(kind, strict=strict), messages) == expected
    if not strict:
        checker = TypeChecker(kind)
        assert checker.find_misfits(messages) == checker.find_misfits(alone)


@given(MESSAGES)
@settings(max_examples=examples(100), deadline=None)
def test_no_member_is_without_a_mark(messages: list[bytes]) -> None:
    found = count_name_marks(b"".join(messages))
    members: list[int] = []
    for message in messages:
        json.loads(message, object_pairs_hook=lambda pairs: members.append(len(pairs)), parse_int=str)
    assert found is None or found >= sum(members)


def test_a_field_that_some_do_not_have_is_no_member() -> None:
    """Columns are those of each message alone, whether counting proves something or not."""
    kind = pa.struct(
        [("a", pa.int64()), ("s", pa.struct([("b", pa.string())])), ("l", pa.list_(pa.struct([("c", pa.bool_())])))]
    )
    messages = [
        *(b'{"a":1}', b'{"s":{}}', b'{"l":[{"c":true},{},null]}', b"{}", b'{"a":null,"s":null,"l":[]}'),
        b'{"a":2,"s":{"b":"\\":1"},"l":[{"c":null}]}',
    ]
    twice = [
        b'{"a":1,"s":{"b":"x","b":null}}',
        b'{"a":null,"a":1}',
        b'{"l":[{"c":false,"c":true}]}',
        b'{"a": 1,"a" :2}',
    ]
    for some in (messages, *([*messages, one] for one in twice)):
        expected = [
            StructDecoder(kind, strict=True).decode_objects([one]).to_pylist()[0] for one in map(keep_first, some)
        ]
        assert StructDecoder(kind, strict=True).decode_objects(some).to_pylist() == expected
    assert StructDecoder(kind, strict=True).decode_at_once(messages) is not None


@given(MESSAGES)
@settings(max_examples=examples(200), deadline=None)
def test_trees_types_and_columns_are_those_of_the_first_members(messages: list[bytes]) -> None:
    alone = [keep_first(message) for message in messages]
    reader = TreeReader()
    assert [spell(reader.read_tree(one)) for one in messages] == [spell(reader.read_tree(one)) for one in alone]
    seen, expected = Inference(), Inference()
    seen.add(messages)
    expected.add(alone)
    assert seen.build_ddl() == expected.build_ddl()
    found = []
    for views in (messages, alone):
        types = FieldTypes()
        types.observe_values(views)
        array = types.build_array(views)
        assert array is not None
        found.append(repr(array.to_pylist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("place", [0, 35, 70])
def test_one_message_of_many_with_a_member_twice(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JSON_LIMITS, "min_array_messages", 1)
    messages = [*PLAIN[:place], TWICE, *PLAIN[place:]]
    expected = StructDecoder(KIND).decode_objects(list(map(keep_first, messages))).to_pylist()
    decoder = StructDecoder(KIND)
    for _ in range(2):
        assert decoder.decode_payloads(messages, get_type("json")).to_pylist() == expected
        assert decoder.decode_at_once(messages) is None
    assert expected[place] == {"a": 7, "id": {"a": 2, "b": [{"a": 1}]}}
    types = FieldTypes()
    types.observe_values(PLAIN)
    types.observe_values([TWICE])
    found = types.build_array(messages)
    assert found is not None
    assert found.to_pylist()[place] == {"a": 7, "b": "y", "id": {"a": 2, "b": [{"a": 1}]}}


def test_a_type_by_which_the_last_counts_has_it_in_columns() -> None:
    last = get_type(TypeDefinition("json", "json", first_wins=False))
    found = StructDecoder(KIND).decode_payloads([*PLAIN, TWICE], last)
    assert found.to_pylist()[-1] == {"a": 8, "id": {"a": 3, "b": [{"a": 2}]}}
