"""Composite message types: parts below their numbers, and parts that are one message."""

from __future__ import annotations

import json

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import ConfigError, InputError, UsageError
from sowctl.messages.base import MessageType
from sowctl.messages.composite.type import CompositeType
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import get_type
from sowctl.values.fields import FieldWrite, Slot, SlotValue, ValueList
from sowctl.values.paths import parse_path

SEMI = TypeDefinition("semi", "nvfix", field_separator=b";")


def of(kind: str, *parts: str | TypeDefinition) -> MessageType:
    given = tuple(TypeDefinition(part, part) if isinstance(part, str) else part for part in parts)
    return get_type(TypeDefinition("both", kind, parts=given, place="c.xml:9"))


def framed(*parts: bytes, rest: bytes = b"") -> bytes:
    return b"".join(len(part).to_bytes(4) + part for part in parts) + rest


def one(kind: MessageType, payload: bytes, path: str, listed: bool = False) -> SlotValue:
    rows, refusals = kind.build_extractor([Slot(parse_path(path), listed=listed)])([payload])
    assert not refusals
    return rows[0][0]


LOCAL = of("composite-local", "json", "binary")
MIXED = of("composite-local", "json", SEMI, "xml", "msgpack", "binary")
GLOBAL = of("composite-global", "json", SEMI, "xml", "msgpack", "binary")


def test_parts_are_read_by_their_own_types() -> None:
    payload = framed(b'{"a":1.50}', b"a=x;b=2", b"<a><b>3</b></a>", msgpack.packb({"a": [1, {"c": 2}]}), b"\x00")
    assert one(MIXED, payload, "/0/a") == 1.5
    assert one(MIXED, payload, "/1/b") == 2
    assert one(MIXED, payload, "/2/a/b") == 3
    assert one(MIXED, payload, "/3/a/c") == 2
    assert one(MIXED, payload, "/3/a") == ValueList((1,), True)
    assert [one(MIXED, payload, path) for path in ("/5/a", "/00/a", "/a", "/1[1]/b", "/4/a", "/4")] == [None] * 6
    assert one(MIXED, payload, "/1[0]/b") == 2
    assert one(MIXED, payload, "/1") == ValueList((), True)
    texts, _ = MIXED.build_key_extractor([parse_path("/0/a"), parse_path("/1/a"), parse_path("/4/x")])([payload])
    assert texts == [(b"1.50", b"x", None)]


def test_half_a_surrogate_pair_in_a_part_is_no_key() -> None:
    half, meant = framed(b'{"a":["\\ud800x",1],"b":2}'), framed(b'{"a":"\xef\xbf\xbdx"}')
    for kind, path in ((LOCAL, "/0/a"), (GLOBAL, "/a"), (GLOBAL, "/a[0]")):
        texts, refusals = kind.build_key_extractor([parse_path(path)])([half, meant, b"\0"])
        assert texts == [("\ufffdx".encode(),), ("\ufffdx".encode(),), (None,)]
        assert [(refusal.index, refusal.code) for refusal in refusals] == [(0, "SOW-IDN-010"), (2, "SOW-MSG-002")]
        assert path in refusals[0].message
    # The first value of all parts is the key; a value at the path in another part does not count.
    other = of("composite-global", SEMI, "json")
    assert other.build_key_extractor([parse_path("/a")])([framed("a=\ufffd".encode(), b'{"a":"\\ud800"}')])[1] == []


@pytest.mark.parametrize("payload", [b"", framed(b'{"a":1}'), framed(b'{"a":1}', b"", b"", b"", b"", rest=b"more")])
def test_missing_and_empty_parts_have_no_fields(payload: bytes) -> None:
    for path in ("/1/b", "/2/a/b", "/3/a", "/1"):
        assert one(MIXED, payload, path) is None
        assert one(MIXED, payload, path, listed=True) == ValueList(())
    assert one(MIXED, payload, "/0/a") == (1 if payload else None)
    assert MIXED.check_payloads([payload]) == []


def test_a_part_that_cannot_be_read_is_skipped() -> None:
    payload = framed(b"{", b"b=2", b"<a", b"\xc1")
    assert one(MIXED, payload, "/0/a", listed=True) == ValueList(())
    assert one(MIXED, payload, "/1/b") == 2
    assert one(GLOBAL, payload, "/b") == 2
    assert one(GLOBAL, payload, "/b[0]") == 2
    texts, refusals = MIXED.build_key_extractor([parse_path("/0/a"), parse_path("/1/b")])([payload])
    assert (texts, refusals) == ([(None, b"2")], [])
    assert json.loads(MIXED.view(payload)) == ["ew==", {"b": 2}, "PGE=", "wQ==", None]


@pytest.mark.parametrize(
    ("payload", "offset"),
    [(b"\0\0", 0), (framed(b"{}")[:-1], 0), (framed(b"{}") + b"\0\0\0\1", 6), (framed(b"{}", b"a=1") + b"\xff", 13)],
)
def test_a_broken_frame_is_refused_at_the_part(payload: bytes, offset: int) -> None:
    for kind in (MIXED, GLOBAL):
        assert [(r.code, r.offset) for r in kind.check_payloads([payload])] == [("SOW-MSG-002", offset)]
        with pytest.raises(InputError) as caught:
            kind.merge_delta(framed(b"{}"), payload)
        assert caught.value.facts == {"part": "delta", "offset": offset}


def test_c23_an_empty_part_of_a_delta_changes_nothing() -> None:
    base = framed(b'{"id":1,"a":1}', b"\x00\xffbytes")
    assert LOCAL.merge_delta(base, framed(b'{"a":2}', b"")) == framed(b'{"id":1,"a":2}', b"\x00\xffbytes")
    assert LOCAL.merge_delta(base, framed(b"", b"new")) == framed(b'{"id":1,"a":1}', b"new")
    assert LOCAL.merge_delta(base, framed(b'{"a":2}')) == framed(b'{"id":1,"a":2}', b"\x00\xffbytes")
    assert LOCAL.merge_delta(base, b"") == base
    assert LOCAL.merge_delta(base, framed(b'{"a":null}', b""), set_nulls=True) == framed(
        b'{"id":1,"a":null}', b"\x00\xffbytes"
    )


def test_parts_of_a_delta_that_cannot_be_merged() -> None:
    base = framed(b'{"a":1}', b"x")
    assert LOCAL.merge_delta(base, framed(b"{", b"y")) == framed(b'{"a":1}', b"y")
    assert LOCAL.merge_delta(framed(b"{", b"x"), framed(b'{"a":2}', b"")) == framed(b'{"a":2}', b"x")
    assert LOCAL.merge_delta(framed(b"{", b"x"), framed(b"[", b"")) == framed(b"{", b"x")
    assert LOCAL.merge_delta(framed(b"", b"x", rest=b"old"), framed(b'{"a":2}')) == framed(
        b'{"a":2}', b"x", rest=b"old"
    )
    assert LOCAL.merge_delta(base + b"old", framed(b"", b"", rest=b"new")) == base + b"new"


def test_c24_composite_global_has_no_delta() -> None:
    base, delta = framed(b'{"id":1,"a":1}'), framed(b'{"id":1}')
    assert GLOBAL.merge_delta(base, delta) == delta
    assert (LOCAL.mergeable, GLOBAL.mergeable) == (True, False)


def test_fields_are_written_into_their_parts() -> None:
    payload = framed(b'{"a":1}', b"", rest=b"rest")
    kind = of("composite-local", "json", SEMI)

    def write(path: str, value: SlotValue, remove: bool = False) -> FieldWrite:
        return FieldWrite(parse_path(path), value, remove)

    written = kind.assign_fields(payload, [write("/0/b", 2), write("/1/t", "x"), write("/0/a", None, True)])
    assert written == framed(b'{"b":2}', b"t=x;", rest=b"rest")
    assert kind.assign_fields(payload, [write("/1/t", None, True)]) == framed(b'{"a":1}', b"", rest=b"rest")
    assert kind.build_message([(("1", "t"), 5)]) == framed(b"", b"t=5;")
    for path in ("/2/a", "/a", "/0"):
        with pytest.raises(UsageError) as caught:
            kind.assign_fields(payload, [write(path, 1)])
        assert caught.value.code == "SOW-MSG-008"
    with pytest.raises(UsageError) as caught:
        LOCAL.assign_fields(payload, [write("/1/t", 1)])
    assert caught.value.code == "SOW-MSG-005"
    with pytest.raises(InputError):
        kind.assign_fields(framed(b"{"), [write("/0/a", 1)])


def test_select_lists_reach_into_parts() -> None:
    payload = framed(b'{"a":1,"b":2}', b"bytes", rest=b"rest")
    assert LOCAL.select_fields(payload, [(False, ("0", "a"))]) == framed(b'{"b":2}', b"bytes", rest=b"rest")
    assert LOCAL.select_fields(payload, [(False, ()), (True, ("0", "a"))]) == framed(b'{"a":1}', b"")
    assert LOCAL.select_fields(payload, [(False, ()), (True, ("1",))]) == framed(b"{}", b"bytes")
    assert LOCAL.select_fields(payload, [(False, ("1",))]) == framed(b'{"a":1,"b":2}', b"", rest=b"rest")
    assert LOCAL.select_fields(framed(b"{", b"x"), [(False, ("0",))]) == framed(b"", b"x")


def test_global_parts_are_one_message() -> None:
    payload = framed(
        b'{"a":[1,{"z":1}],"o":{"q":1}}',
        b"a=x;b=2",
        b"<a><b>3</b></a>",
        msgpack.packb({"a": 4, "o": {"q": 5}}),
        b"\x00",
    )
    assert one(GLOBAL, payload, "/a") == ValueList((1, "x", 4), True)
    assert one(GLOBAL, payload, "/b") == 2
    assert one(GLOBAL, payload, "/a/b") == 3
    assert one(GLOBAL, payload, "/o/q") == ValueList((1, 5))
    assert one(GLOBAL, payload, "/o/q", listed=True) == ValueList((1, 5))
    found = [one(GLOBAL, payload, f"/a[{index}]") for index in range(6)]
    assert found == [1, ValueList((), True), "x", ValueList((), True), 4, None]
    assert one(GLOBAL, payload, "/o[1]/q[0]") == 5
    assert one(GLOBAL, payload, "/a[1]/z") == 1
    assert one(GLOBAL, payload, "/a[3]/b") == 3
    texts, _ = GLOBAL.build_key_extractor([parse_path("/a"), parse_path("/o/q"), parse_path("/zz")])([payload])
    assert texts == [(b"1", b"1", None)]


@given(st.lists(st.binary(max_size=8), max_size=4), st.binary(max_size=6))
def test_any_parts_come_back(parts: list[bytes], rest: bytes) -> None:
    kind = of("composite-local", "binary", "binary", "binary")
    payload = framed(*parts, rest=rest if len(parts) >= 3 else b"")
    padded = [*parts, b"", b"", b""][:3]
    assert kind.check_payloads([payload]) == []
    assert json.loads(kind.view(payload))[:3] == [
        json.loads(get_type("binary").view(part)) if part else None for part in padded
    ]
    assert kind.merge_delta(payload, b"") == payload


@pytest.mark.parametrize("kind", ["composite-local", "composite-global"])
def test_a_composite_without_parts_cannot_be_used(kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of(kind)
    assert (caught.value.code, caught.value.place) == ("SOW-MSG-007", "c.xml:9")


def test_the_type_of_a_part_must_exist() -> None:
    with pytest.raises(ConfigError) as caught:
        of("composite-local", "jsno")
    assert (caught.value.code, caught.value.place) == ("SOW-MSG-006", "c.xml:9")
    assert "'both': unknown message type 'jsno'" in caught.value.message


@given(
    st.lists(st.one_of(st.sampled_from([b'{"a":1}', b'{"a":[1,{"b":2}]}', b"{", b"", b"[]"]), st.binary(max_size=9)))
)
def test_one_part_with_fields_is_read_as_among_others(parts: list[bytes]) -> None:
    payloads = [framed(part, b"x") for part in parts] + [b"\0"]
    slots = [Slot(parse_path(path), listed=listed) for path in ("/a", "/a/b", "/a[1]") for listed in (False, True)]
    alone = of("composite-global", "json", "binary").build_extractor(slots)(payloads)
    assert alone == of("composite-global", "json", "binary", "nvfix").build_extractor(slots)(payloads)


@pytest.mark.parametrize(
    ("kind", "payload", "wanted"),
    [
        (LOCAL, framed(b'{"a":1.50}', b"\xff"), b'{"0":{"a":1.50},"1":"/w=="}'),
        (LOCAL, b"", b'{"0":null,"1":null}'),
        (GLOBAL, framed(b'{"a":1.50,"b":[2,[]]}', b"a=x;b=;c=7;"), b'{"a":[1.50,"x"],"b":[2,[],null],"c":7}'),
        (GLOBAL, framed(b'{"a":[]}', b"a=1;a=2"), b'{"a":[1,2]}'),
        (GLOBAL, framed(b"[1]", b"", b"<r/>"), b'{"r":null}'),
        (GLOBAL, b"\0", b'"AA=="'),
    ],
)
def test_columns_have_an_object_whose_members_stand_where_paths_find_them(
    kind: MessageType, payload: bytes, wanted: bytes
) -> None:
    assert isinstance(kind, CompositeType)
    assert kind.members_view(payload) == wanted


def test_parts_may_be_composite_themselves() -> None:
    inner = TypeDefinition("inner", "composite-local", parts=(TypeDefinition("json", "json"),))
    kind = of("composite-local", inner, "binary")
    assert one(kind, framed(framed(b'{"a":5}'), b"x"), "/0/0/a") == 5
