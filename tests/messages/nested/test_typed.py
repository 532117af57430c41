"""MessagePack and BSON: results agree with the libraries, for generated and for damaged messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import bson
import msgpack
import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from bson.errors import BSONError
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.errors import ConfigError, InputError
from sowctl.messages.types import get_type
from sowctl.values.fields import FieldWrite, Number, Slot, SlotValue, ValueList
from sowctl.values.paths import Path, parse_path
from tests.support import jsonslots

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
NAMES = st.one_of(st.sampled_from(["a", "b", "id", "é"]), TEXT)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXT,
    st.sampled_from(["", "a"]),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=10,
)
DOCUMENTS = st.dictionaries(NAMES, TREES, max_size=5)
PATHS = [parse_path(text) for text in ("/a", "/b", "/a/b", "/a/a", "/id[0]", "/a[1]/b", "/é", "/a/b[0]", "/missing")]
SLOTS = [Slot(path, listed=listed, text=text) for path in PATHS for listed in (False, True) for text in (False, True)]
KINDS = ("bson", "msgpack")


def encoded(kind: str, tree: dict[str, Any]) -> bytes:
    payload: bytes = bson.encode(tree) if kind == "bson" else msgpack.packb(tree)
    return payload


def loaded(kind: str, payload: bytes) -> Any:
    return bson.decode(payload) if kind == "bson" else msgpack.unpackb(payload, ext_hook=extension)


def extension(code: int, data: bytes) -> object:
    """The library reads extensions of negative codes, which the format reserves, but has no class for them.

    Their replacement must not be bytes: as the key of a map an extension is refused, whatever its code.
    """
    return msgpack.ExtType(code, data) if code >= 0 else (code, data)


def one(kind: str, payload: bytes, path: str, **how: bool) -> SlotValue:
    rows, refusals = get_type(kind).build_extractor([Slot(parse_path(path), **how)])([payload])
    assert not refusals
    return rows[0][0]


def expected(tree: Any, slot: Slot) -> SlotValue:
    """The value by the slow reader of the support package, which expects the tree as in JSON."""
    return jsonslots.slot_value(tree, Slot(slot.path, False, slot.listed))


@pytest.mark.parametrize("kind", KINDS)
@given(tree=DOCUMENTS)
def test_rows_are_those_of_the_library_and_the_slow_reader(kind: str, tree: dict[str, Any]) -> None:
    payload = encoded(kind, tree)
    rows, refusals = get_type(kind).build_extractor(SLOTS)([payload])
    assert not refusals
    assert rows == [tuple(expected(loaded(kind, payload), slot) for slot in SLOTS)]
    assert get_type(kind).check_payloads([payload]) == []


@pytest.mark.parametrize("code", [b"\xa1", b"\x01"], ids=["negative", "positive"])
def test_an_extension_is_no_name_of_a_member(code: bytes) -> None:
    payload = b"\x81\xd4" + code + b"\x61\xc0"
    with pytest.raises(ValueError, match="map key"):
        loaded("msgpack", payload)
    assert [refusal.index for refusal in get_type("msgpack").check_payloads([payload])] == [0]


@pytest.mark.parametrize("kind", KINDS)
@given(tree=DOCUMENTS, data=st.data())
def test_damage_is_refused_exactly_where_the_library_refuses(
    kind: str, tree: dict[str, Any], data: st.DataObject
) -> None:
    payload = bytearray(encoded(kind, tree))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload)))
        how = data.draw(st.sampled_from(["cut", "flip", "insert"]))
        if how == "cut":
            del payload[at : at + data.draw(st.integers(1, 4))]
        elif how == "insert":
            payload[at:at] = bytes([data.draw(st.integers(0, 255))])
        elif at < len(payload):
            payload[at] = data.draw(st.integers(0, 255))
    damaged = bytes(payload)
    refusals = get_type(kind).check_payloads([b"ok", damaged])[-1:]
    refusals = [refusal for refusal in refusals if refusal.index == 1]
    try:
        loaded(kind, damaged)
    except (BSONError, ValueError, TypeError, RecursionError, OverflowError):
        assert len(refusals) == 1
        assert refusals[0].offset is None or 0 <= refusals[0].offset <= len(damaged)
    else:
        assert refusals == []
    view = get_type(kind).view(damaged)
    assert b"\n" not in view
    json.loads(view)


@pytest.mark.parametrize("kind", KINDS)
@given(base=DOCUMENTS, delta=DOCUMENTS)
@example(base={"q": {"bid": 1, "ask": 2}}, delta={"q": {"bid": 3}})
@example(base={"a": 1}, delta={"a": {}})
@example(base={"a": {"b": 1}}, delta={"a": {"b": None}})
@example(base={"a": {"b": 1}}, delta={"a": {}})
def test_deltas_merge_as_json_does(kind: str, base: dict[str, Any], delta: dict[str, Any]) -> None:
    def finite(tree: Any) -> bool:
        return "Infinity" not in json.dumps(tree)

    if not finite(base) or not finite(delta):
        return
    for nulls in (False, True):
        merged = get_type(kind).merge_delta(encoded(kind, base), encoded(kind, delta), set_nulls=nulls)
        as_json = get_type("json").merge_delta(json.dumps(base).encode(), json.dumps(delta).encode(), set_nulls=nulls)
        assert loaded(kind, merged) == json.loads(as_json)


@pytest.mark.parametrize("kind", KINDS)
def test_members_given_twice_count_once_and_first(kind: str) -> None:
    if kind == "bson":
        element = b"\x10a\0%b"
        body = b"".join(element % number.to_bytes(4, "little") for number in (1, 2))
        payload = (len(body) + 5).to_bytes(4, "little") + body + b"\0"
        nested = (len(payload) + 8).to_bytes(4, "little") + b"\x03o\0" + payload + b"\0"
    else:
        payload = b"\x82\xa1a\x01\xa1a\x02"
        nested = b"\x81\xa1o" + payload
    assert one(kind, payload, "/a") == 1
    assert one(kind, nested, "/o/a") == 1
    assert get_type(kind).view(nested) == b'{"o":{"a":1}}'


def test_msgpack_binary_and_extensions_are_strings_and_nil_is_null() -> None:
    payload = msgpack.packb(
        {"b": b"\xffx", "e": msgpack.ExtType(5, b"ext"), "t": msgpack.Timestamp(1, 0), "n": None, "f": 1.5}
    )
    assert one("msgpack", payload, "/b") == b"\xffx"
    assert one("msgpack", payload, "/e") == b"ext"
    assert one("msgpack", payload, "/t") == b"\0\0\0\1"
    assert one("msgpack", payload, "/n") is None
    assert one("msgpack", payload, "/f", text=True) == 1.5
    kept = get_type("msgpack").merge_delta(payload, msgpack.packb({"f": 2}))
    assert msgpack.unpackb(kept) == {**msgpack.unpackb(payload), "f": 2}
    assert get_type("msgpack").view(payload) == b'{"b":"/3g=","e":"ext","t":"\0\0\0\1","n":null,"f":1.5}'.replace(
        b"\0", b"\\u0000"
    ).replace(b"\1", b"\\u0001")


@pytest.mark.parametrize("code", [b"\x05", b"\x7f", b"\x80", b"\xfe"])
def test_msgpack_extensions_of_every_code_are_carried_along(code: bytes) -> None:
    extension = b"\xd5" + code + b"ab"
    payload = b"\x83\xa1a\x01\xa1e\x91" + extension + b"\xa1t\xd6\xff\0\0\0\1"
    assert one("msgpack", payload, "/e") == b"ab"
    merged = get_type("msgpack").merge_delta(payload, b"\x81\xa1a\x02")
    assert merged == payload.replace(b"\xa1a\x01", b"\xa1a\x02")


def test_msgpack_members_named_by_bytes_are_carried_along() -> None:
    payload = msgpack.packb({b"raw": 1, "a": 2})
    assert one("msgpack", payload, "/raw") is None
    merged = get_type("msgpack").merge_delta(payload, msgpack.packb({"a": 3}))
    assert msgpack.unpackb(merged) == {b"raw": 1, "a": 3}
    assert json.loads(get_type("msgpack").view(payload)) == {"raw": 1, "a": 2}


@pytest.mark.parametrize(
    ("payload", "offset", "words"),
    [
        (b"", 0, "ends before"),
        (b"\x81\xa1a", 3, "ends before"),
        (b"\x81\xa1a\xc1", 3, "0xc1"),
        (b"\x01\x02", 1, "1 byte after"),
        (b"\x81\x01\x02", 1, "not a string"),
        (b"\x81\xa1a\xd9\xff123", 3, "does not fit"),
        (b"\x81\xa1a\xa1\xff", 4, "not valid UTF-8"),
        (b"\xc7\x05\xff12345", None, "timestamp"),
    ],
)
def test_msgpack_refusals_name_the_byte(payload: bytes, offset: int | None, words: str) -> None:
    (refusal,) = get_type("msgpack").check_payloads([payload])
    assert (refusal.offset, refusal.code) == (offset, "SOW-MSG-001" if "UTF-8" in words else "SOW-MSG-002")
    assert words in refusal.message


@pytest.mark.parametrize(
    ("payload", "offset", "words"),
    [
        (b"\x05", 1, "at least"),
        (b"\x06\0\0\0\0", 0, " 6"),
        (b"\x0c\0\0\0\x10a\0\1\0\0\0\1", 12, "no end"),
        (b"\x0a\0\0\0\x7ea\0xx\0", 4, "0x7e"),
        (b"\x0e\0\0\0\x02a\0\2\0\0\0\xff\0\0", 11, "UTF-8"),
        (b"\x0e\0\0\0\x02a\0\x7f\0\0\0x\0\0", 7, "length"),
        (b"\x08\0\0\0\x10a\0\0", 7, "fit"),
    ],
)
def test_bson_refusals_name_the_byte(payload: bytes, offset: int, words: str | None) -> None:
    (refusal,) = get_type("bson").check_payloads([payload])
    assert refusal.offset == offset, refusal
    assert words is None or words in refusal.message


def test_bson_kinds_that_expressions_do_not_know_are_strings() -> None:
    identity = ObjectId("507f1f77bcf86cd799439011")
    payload = bson.encode(
        {
            "oid": identity,
            "at": datetime(2024, 3, 21, 22, 9, 52, 535000, tzinfo=UTC),
            "dec": Decimal128("1.50"),
            "bin": b"\xff\0",
            "uuid": Binary(b"0" * 16, 4),
            "code": Code("f()"),
            "re": Regex("^a", "i"),
            "ts": Timestamp(1, 2),
            "max": MaxKey(),
            "long": Int64(5),
            "ref": DBRef("c", 7),
        }
    )
    found = {name: one("bson", payload, f"/{name}") for name in bson.decode(payload)}
    assert found == {
        "oid": str(identity),
        "at": "2024-03-21T22:09:52.535000Z",
        "dec": "1.50",
        "bin": b"\xff\0",
        "uuid": b"0" * 16,
        "code": "f()",
        "re": "^a",
        "ts": str((1 << 32) + 2),
        "max": "MaxKey",
        "long": 5,
        "ref": ValueList((), True),
    }
    assert all(type(value) in (str, bytes, int, ValueList) for value in found.values())
    assert one("bson", payload, "[/ref/$id]") == 7
    assert one("bson", bson.encode({"d": bson.DatetimeMS(2**62)}), "/d") == str(2**62)
    kept = get_type("bson").merge_delta(payload, bson.encode({"long": 6}))
    assert bson.decode(kept) == {**bson.decode(payload), "long": 6}


@pytest.mark.parametrize("kind", KINDS)
def test_nesting_has_a_limit(kind: str) -> None:
    def nested(depth: int) -> bytes:
        tree: dict[str, Any] = {"pad": b"\x03\x04\x90" * 1000}
        for _ in range(depth - 1):
            tree = {"a": tree}
        return encoded(kind, tree)

    assert get_type(kind).check_payloads([nested(256)]) == []
    for depth in (257, 400, 500):
        assert [refusal.code for refusal in get_type(kind).check_payloads([nested(depth)])] == ["SOW-MSG-003"]
    assert get_type("msgpack").check_payloads([b"\x91" * 5000 + b"\x01"])[0].code == "SOW-MSG-003"
    for name, depth in ((b"a", 3000), (b"", 257)):  # an empty name gives the shortest possible level
        payload = b"\x05\0\0\0\0"
        for _ in range(depth - 1):
            payload = (len(payload) + 7 + len(name)).to_bytes(4, "little") + b"\x03" + name + b"\0" + payload + b"\0"
        assert get_type("bson").check_payloads([payload])[0].code == "SOW-MSG-003", depth


@pytest.mark.parametrize("kind", KINDS)
def test_select_lists_and_constructed_fields(kind: str) -> None:
    tree = {"id": 1, "p": {"l": [{"x": 1, "y": 2}, {"y": 3}], "r": 5}, "e": {}}
    payload = encoded(kind, tree)
    of = get_type(kind)
    assert of.select_fields(payload, [(True, ("id",))]) is payload
    left = of.select_fields(payload, [(False, ()), (True, ("id",)), (True, ("p", "l", "x"))])
    assert loaded(kind, left) == {"id": 1, "p": {"l": [{"x": 1}]}}
    written = of.assign_fields(
        payload,
        [
            FieldWrite(Path(parse_path("/p/r").steps), Number(7, b"007")),
            FieldWrite(parse_path("/id/below"), b"\xff"),
            FieldWrite(parse_path("/new"), None),
            FieldWrite(parse_path("/e"), None, True),
            FieldWrite(parse_path("/p/zz/q"), None, True),
        ],
    )
    assert loaded(kind, written) == {"id": {"below": b"\xff"}, "p": {**tree["p"], "r": 7}, "new": None}  # type: ignore[dict-item]
    assert loaded(kind, of.build_message([(("a", "b"), True), (("a", "c"), b"t"), (("d",), ValueList((1, 2)))])) == {
        "a": {"b": True, "c": "t"},
        "d": 1,
    }


def test_bson_holds_no_integers_beyond_its_own() -> None:
    with pytest.raises(InputError) as caught:
        get_type("bson").build_message([(("a",), 2**64 - 1)])
    assert caught.value.code == "SOW-MSG-009"
    assert msgpack.unpackb(get_type("msgpack").build_message([(("a",), 2**64 - 1)])) == {"a": 2**64 - 1}


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_side_of_a_merge_is_named(kind: str) -> None:
    good = encoded(kind, {"a": 1})
    for base, delta, part in ((b"", good, "base"), (good, b"", "delta")):
        with pytest.raises(InputError) as caught:
            get_type(kind).merge_delta(base, delta)
        assert caught.value.facts["part"] == part


def test_a_missing_library_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import sowctl.messages.nested

    monkeypatch.setitem(sys.modules, "sowctl.messages.nested.bsonlib", None)
    monkeypatch.delattr(sowctl.messages.nested, "bsonlib", raising=False)
    with pytest.raises(ConfigError) as caught:
        get_type("bson", max_message=77)
    assert caught.value.code == "SOW-MSG-011" and "sowctl[bson]" in str(caught.value.hint)
