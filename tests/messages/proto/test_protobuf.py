"""Message type protobuf: schemas from all sources, values, deltas of version 2."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.errors import ConfigError, InputError, UsageError
from sowctl.messages.base import MessageType
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.proto.files import build_message_class
from sowctl.messages.types import get_type
from sowctl.values.fields import Slot, SlotValue, ValueList
from sowctl.values.paths import parse_path
from tests.support.protosamples import ORDER2, ORDER3, Order, order_set


def definition(
    folder: Path, *, file: str = "order.desc", kind: str = "trade.Order", paths: Sequence[str] = (".",)
) -> TypeDefinition:
    return TypeDefinition(
        "orders",
        "protobuf",
        proto_type=kind,
        proto_file=file,
        proto_paths=tuple(paths),
        directory=str(folder),
        place="c.xml:5",
    )


def of(folder: Path, **how: Any) -> MessageType:
    return get_type(definition(folder, **how))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("schemas")
    (place / "order.desc").write_bytes(order_set().SerializeToString())
    (place / "order.proto").write_text(ORDER2)
    (place / "order3.proto").write_text(ORDER3)
    return place


@pytest.fixture(params=["order.desc", "order.proto"])
def orders(request: pytest.FixtureRequest, folder: Path) -> MessageType:
    return of(folder, file=request.param)


def one(kind: MessageType, payload: bytes, path: str, listed: bool = False) -> SlotValue:
    rows, refusals = kind.build_extractor([Slot(parse_path(path), listed=listed)])([payload])
    assert not refusals
    return rows[0][0]


def order(**fields: Any) -> bytes:
    return bytes(Order(**fields).SerializeToString())


def test_fields_are_found_by_path(orders: MessageType) -> None:
    payload = order(
        a="x", f=0.1, l=[1, 2], side=2, inner={"n": 5, "legs": [{"a": "p"}, {"a": "q", "n": 1}]}, raw=b"\xff",
        by={"k": {"n": 9}, "odd key": {}}, big=2**64 - 1, right="r",
    )  # fmt: skip
    expected = {
        "/a": "x", "/f": 0.1, "/l": ValueList((1, 2)), "/l[1]": 2, "/l[2]": None, "/side": "SELL", "/inner/n": 5,
        "/inner": ValueList((), True), "/inner/legs/a": ValueList(("p", "q")), "/inner/legs[1]/n": 1,
        "/inner/legs[0]/n": 42, "/by/k/n": 9, "/by": ValueList((), True), "[/by/odd key/n]": 42, "/by/none/n": None,
        "/raw": b"\xff", "/big": 2**64 - 1, "/right": "r", "/left": None, "/nothing": None, "/a/b": None,
    }  # fmt: skip
    assert {path: one(orders, payload, path) for path in expected} == expected
    texts, _ = orders.build_key_extractor([parse_path(path) for path in ("/f", "/big", "/side", "/flag", "/e", "/l")])(
        [payload]
    )
    assert texts == [(b"0.1", b"18446744073709551615", b"SELL", b"1", None, b"1")]


def test_defaults_are_visible_to_filters(orders: MessageType) -> None:
    assert [one(orders, b"", path) for path in ("/n", "/flag", "/f", "/side", "/a", "/left", "/inner", "/l")] == [
        42, True, 0.0, "BUY", None, None, None, None,
    ]  # fmt: skip
    assert one(orders, b"", "/n", listed=True) == ValueList((42,))


def test_version_3_has_defaults_and_optional_fields(folder: Path) -> None:
    kind = of(folder, file="order3.proto")
    assert [one(kind, b"", path) for path in ("/n", "/f", "/side", "/z", "/left")] == [0, 0.0, "NONE", None, None]
    assert one(kind, order(z=0), "/z") == 0
    assert one(kind, order(side=2), "/side") == "SELL"
    assert one(kind, b"\x40\x63", "/side") == 99
    assert not kind.mergeable
    assert kind.merge_delta(order(a="x", n=1), order(n=2)) == order(n=2)
    assert [(r.code, r.offset) for r in kind.check_payloads([b"\x0a\x01\xff"])] == [("SOW-MSG-001", None)]


def test_the_view_is_what_paths_find(orders: MessageType) -> None:
    payload = order(a="é", l=[1], by={"k": {"n": 9}}, raw=b"\xff", f=float("inf"), inner={"a": "i"})
    shown = json.loads(orders.view(payload))
    assert shown["by"]["k"]["n"] == 9
    assert (shown["a"], shown["l"], shown["raw"], shown["f"]) == ("é", [1], "/w==", None)
    # Also for bytes that are text: the reader of a view cannot know which they are.
    assert json.loads(orders.view(order(raw=b"abc")))["raw"] == "YWJj"
    assert one(orders, order(raw=b"abc"), "/raw") == b"abc"
    assert shown["inner"]["a"] == "i"
    assert "left" not in shown


@pytest.mark.parametrize(
    ("base", "delta", "merged"),
    [
        ({"a": "x", "n": 1}, {"n": 2}, {"a": "x", "n": 2}),
        ({"n": 1}, {"n": 42}, {"n": 42}),
        ({"n": 1}, {"n": 0}, {"n": 0}),
        ({"n": 1}, {"a": ""}, {"n": 1}),
        ({"l": [1, 2], "n": 1}, {"l": [3]}, {"l": [3], "n": 1}),
        ({"inner": {"n": 1, "l": [1]}}, {"inner": {"l": [2, 3]}}, {"inner": {"n": 1, "l": [2, 3]}}),
        ({"inner": {"n": 1}}, {"inner": {}}, {"inner": {"n": 1}}),
        ({}, {"inner": {"a": ""}}, {}),
        ({"by": {"a": {"n": 1, "f": 2.5}, "b": {"n": 2}}}, {"by": {"a": {"n": 3}, "c": {"n": 4}}},
         {"by": {"a": {"n": 3, "f": 2.5}, "b": {"n": 2}, "c": {"n": 4}}}),
        ({"legs": [{"a": "x"}, {"a": "y"}]}, {"legs": [{"n": 1}]}, {"legs": [{"n": 1}]}),
        ({"left": 1}, {"right": "r"}, {"right": "r"}),
    ],
)  # fmt: skip
def test_deltas_of_version_2_merge_by_path(
    orders: MessageType, base: dict[str, Any], delta: dict[str, Any], merged: dict[str, Any]
) -> None:
    assert orders.mergeable
    result = orders.merge_delta(order(**base), order(**delta))
    assert Order.FromString(result) == Order(**merged)
    assert Order.FromString(orders.merge_delta(result, order(**delta))) == Order(**merged)


def test_required_fields_may_be_missing(tmp_path: Path) -> None:
    text = "syntax = 'proto2'; message M { required int64 id = 1; optional string s = 2; optional M m = 3; }"
    (tmp_path / "m.proto").write_text(text)
    kind = get_type(TypeDefinition("m", "protobuf", proto_type="M", proto_file="m.proto", proto_paths=(str(tmp_path),)))
    assert kind.check_payloads([b"\x12\x01a"]) == []
    assert kind.build_key_extractor([parse_path("/id")])([b"\x12\x01a"])[0] == [(b"0",)]
    assert kind.merge_delta(b"\x08\x07", b"\x12\x01b") == b"\x08\x07\x12\x01b"
    assert kind.merge_delta(b"\x12\x01a", b"\x1a\x03\x12\x01b") == b"\x12\x01a\x1a\x03\x12\x01b"
    assert kind.merge_delta(b"\x12\x01a", b"\x1a\x00") == b"\x12\x01a"
    assert json.loads(kind.view(b"\x12\x01a"))["s"] == "a"


def test_nulls_count_on_request_and_what_changes_nothing_keeps_the_bytes(orders: MessageType) -> None:
    base = b"\x10\x05" + b"\x0a\x01x"
    assert orders.merge_delta(base, b"") == base
    assert orders.merge_delta(base, order(a="")) == base
    assert Order.FromString(orders.merge_delta(base, order(a=""), set_nulls=True)) == Order(a="", n=5)


def test_fields_that_the_schema_does_not_know_are_carried_along(orders: MessageType) -> None:
    unknown = b"\xa0\x06\x07"
    merged = orders.merge_delta(order(n=1) + unknown, order(a="x"))
    assert Order.FromString(merged).n == 1
    assert merged.endswith(unknown)


@given(data=st.data())
@example(data=None)
def test_damage_is_refused_exactly_where_the_library_refuses(folder: Path, data: st.DataObject | None) -> None:
    kind = of(folder)
    payload = bytearray(order(a="xé", n=5, l=[1, 2], inner={"a": "y"}, by={"k": {"n": 1}}))
    if data is not None:
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(payload) - 1))
            if data.draw(st.booleans()):
                del payload[at : at + data.draw(st.integers(1, 3))]
            else:
                payload[at] = data.draw(st.integers(0, 255))
    damaged = bytes(payload)
    refusals = kind.check_payloads([damaged])
    try:
        expected = Order.FromString(damaged)
    except DecodeError:
        assert len(refusals) == 1
        assert refusals[0].offset is None or 0 <= refusals[0].offset <= len(damaged)
    else:
        assert refusals == []
        assert one(kind, damaged, "/n") == expected.n
        assert one(kind, damaged, "/l", listed=True) == ValueList(tuple(expected.l))
    json.loads(kind.view(damaged))


@pytest.mark.parametrize(
    ("payload", "offset"),
    [(b"\x10", 0), (b"\x10\x05\x0a\x05x", 2), (b"\x10\x05\x07", 2), (b"\x3a\x02\x10", 0), (b"\x00\x01", 0)],
)
def test_refusals_name_the_byte(orders: MessageType, payload: bytes, offset: int) -> None:
    (refusal,) = orders.check_payloads([payload])
    assert (refusal.code, refusal.offset) == ("SOW-MSG-002", offset)
    with pytest.raises(InputError) as caught:
        orders.merge_delta(b"", payload)
    assert caught.value.facts["part"] == "delta"


def test_nothing_is_selected_or_written(orders: MessageType) -> None:
    for call in (
        lambda: orders.select_fields(b"", []),
        lambda: orders.assign_fields(b"", []),
        lambda: orders.build_message([]),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.code == "SOW-MSG-005"


def test_paths_have_aliases_and_files_import_one_another(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one/a.proto").write_text(
        'syntax = "proto3"; import "shared/b.proto"; import "google/protobuf/timestamp.proto";'
        "message A { x.B b = 1; google.protobuf.Timestamp at = 2; }"
    )
    (tmp_path / "two/b.proto").write_text('syntax = "proto3"; package x; message B { int32 n = 1; }')
    kind = of(tmp_path, file="a.proto", kind="A", paths=[";one", f"shared;{tmp_path}/two"])
    payload = b"\x0a\x02\x08\x05\x12\x02\x08\x07"
    assert (one(kind, payload, "/b/n"), one(kind, payload, "/at/seconds")) == (5, 7)


@pytest.mark.parametrize(
    ("how", "words", "hint"),
    [
        ({"file": "none.proto"}, "'none.proto'", "looked for"),
        ({"file": ""}, "needs a ProtoFile", "add <ProtoFile>"),
        ({"paths": ()}, "needs a ProtoPath", "<ProtoPath>.</ProtoPath>"),
        ({"kind": ""}, "needs a Type", "name the message"),
        ({"kind": "trade.Ordr"}, "no message 'trade.Ordr'", "trade.Order"),
        ({"file": "bad.desc"}, "descriptor set", "protoc"),
        ({"file": "bad.proto"}, "bad.proto:2:11: Expected message name", "protoc"),
        ({"file": "edition.proto"}, 'edition.proto:1:11: Unknown edition "2999"', "protoc"),
        ({"file": "alone.desc"}, "'order.proto'", "--include_imports"),
        ({"file": "loop.proto"}, "loop.proto:1:1: File recursively imports itself", None),
        ({"file": "unfit.proto", "kind": "M"}, 'unfit.proto:1:22: "Missing" is not defined', None),
    ],
)
def test_definitions_that_cannot_be_used(tmp_path: Path, how: dict[str, Any], words: str, hint: str | None) -> None:
    (tmp_path / "order.desc").write_bytes(order_set().SerializeToString())
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff")
    (tmp_path / "bad.proto").write_text("package x;\nmessage   { }")
    (tmp_path / "edition.proto").write_text('edition = "2999";')
    alone = descriptor_pb2.FileDescriptorSet()
    alone.file.add(name="alone.proto", dependency=["order.proto"])
    (tmp_path / "alone.desc").write_bytes(alone.SerializeToString())
    (tmp_path / "loop.proto").write_text('import "loop.proto";')
    (tmp_path / "unfit.proto").write_text("message M { optional Missing m = 1; }")
    with pytest.raises(ConfigError) as caught:
        of(tmp_path, **how)
    assert (caught.value.code, caught.value.place) == ("SOW-MSG-007", "c.xml:5")
    assert words in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


def test_the_compiler_gives_what_a_descriptor_set_says(folder: Path) -> None:
    """Types, numbers, defaults and oneofs of a text are those of the manually created set."""
    compiled, given = (build_message_class(definition(folder, file=file)) for file in ("order.proto", "order.desc"))
    found, wanted = descriptor_pb2.DescriptorProto(), descriptor_pb2.DescriptorProto()
    compiled.DESCRIPTOR.CopyToProto(found)
    given.DESCRIPTOR.CopyToProto(wanted)
    for message in (found, *found.nested_type):
        for field in message.field:
            field.ClearField("json_name")  # the set has none
    assert found == wanted


TRICKY = r"""
syntax = 'proto2'; // a comment
package a . b;
import public "google/protobuf/any.proto";
option java_package = "x" "y";
message M {
  reserved 5, 7 to 7; reserved "old";
  extensions 100 to 199;
  optional bytes raw = 1 [default = "\x01\"\\a\n", deprecated = true];
  optional double d = 2 [default = -inf]; optional float g = 3 [default = 1.5e-3];
  optional int64 hex = 0x4 [default = -0x10]; optional uint32 oct = 06 [default = 010];
  repeated int32 packed = 8 [packed = true];
  optional group Result = 9 { optional string url = 1; }
  optional .a.b.M.Inner.Kind kind = 10 [default = TWO];
  optional string message = 11; optional string optional = 12; optional int32 map = 13;
  message Inner { enum Kind { ZERO = 0; ONE = 1; TWO = 2 [deprecated = true]; MINUS = -1; } }
  map<int32, Inner.Kind> kinds_by_number = 14;
  oneof which { string s = 15; Inner i = 16; }
  extend M { optional int32 ext = 100; }
}
extend M { optional int32 top = 101; }
service S { rpc Get (M) returns (stream M) { option deprecated = true; } }
/* the end */
"""


def test_what_the_language_allows_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.proto").write_text(TRICKY)
    kind = of(tmp_path, file="t.proto", kind="a.b.M")
    wanted = {"/raw": b'\x01"\\a\n', "/d": float("-inf"), "/hex": -16, "/oct": 8, "/kind": "TWO", "/result/url": None}
    assert {path: one(kind, b"", path) for path in wanted} == wanted
    assert one(kind, b"\x4b\x0a\x01u\x4c", "/result/url") == "u"
    assert one(kind, b"\x72\x04\x08\x07\x10\x01", "/kinds_by_number/7") == "ONE"
    assert (one(kind, b"\x7a\x01x", "/s"), one(kind, b"\x5a\x01y", "/message")) == ("x", "y")


def test_directories_may_have_any_name_and_files_any_path(tmp_path: Path) -> None:
    odd = tmp_path / "a:b=c d,é"
    odd.mkdir()
    (odd / "m.proto").write_text('syntax = "proto3"; import "n.proto"; message M { N n = 1; }')
    (odd / "n.proto").write_text('syntax = "proto3"; message N { int32 n = 1; }')
    for file in ("m.proto", str(odd / "m.proto"), f"../{odd.name}/m.proto", "./m.proto"):
        assert one(of(odd, file=file, kind="M"), b"\x0a\x02\x08\x05", "/n/n") == 5
    (odd / "-m.proto").write_text('syntax = "proto3"; message M { int32 n = 1; }')
    assert one(of(odd, file="-m.proto", kind="M"), b"\x08\x05", "/n") == 5


def test_errors_name_files_by_the_names_that_import_them(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "a.proto").write_text('syntax = "proto3"; import "shared/b.proto"; message A { }')
    broken = tmp_path / "two/b.proto"
    for text, words in (
        ('syntax = "proto3"; import "shared/c.proto";', "'shared/c.proto'"),
        ('syntax = "proto3";\nmessage {', "message type 'orders': shared/b.proto:2:9: Expected message name."),
    ):
        broken.write_text(text)
        with pytest.raises(ConfigError) as caught:
            of(tmp_path, file="a.proto", kind="A", paths=[".", "shared;two"])
        assert (caught.value.code, caught.value.place) == ("SOW-MSG-007", "c.xml:5")
        assert words in caught.value.message
    broken.write_text('syntax = "proto3";')
    assert of(tmp_path, file="a.proto", kind="A", paths=[".", "shared;two"]).check_payloads([b""]) == []


def test_only_texts_need_the_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "order.desc").write_bytes((folder / "order.desc").read_bytes())
    (tmp_path / "order.proto").write_text(ORDER2)
    monkeypatch.setattr("sowctl.messages.proto.files.find_spec", lambda name: None)
    assert of(tmp_path).check_payloads([b""]) == []
    with pytest.raises(ConfigError) as caught:
        of(tmp_path, file="order.proto")
    assert (caught.value.code, caught.value.place) == ("SOW-MSG-011", "c.xml:5")
    assert " grpcio-tools" in caught.value.message
    assert "sowctl[protobuf]" in str(caught.value.hint) and "protoc" in str(caught.value.hint)


def test_the_compiler_runs_once_in_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[object] = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *given, **options: [ran.append(given), run(*given, **options)][1])
    (tmp_path / "order.proto").write_text(ORDER2)
    for largest in (100, 200, 100):
        get_type(definition(tmp_path, file="order.proto"), max_message=largest)
    assert len(ran) == 1


def test_a_missing_library_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    import sowctl.messages.proto

    monkeypatch.setitem(sys.modules, "sowctl.messages.proto.files", None)
    monkeypatch.delattr(sowctl.messages.proto, "files", raising=False)
    with pytest.raises(ConfigError) as caught:
        of(tmp_path, file="order.desc")
    assert caught.value.code == "SOW-MSG-011" and "sowctl[protobuf]" in str(caught.value.hint)


def test_keys_of_maps_that_are_not_utf8_are_carried_along(orders: MessageType) -> None:
    payload = order(by={"k": {"n": 9}}).replace(b"\x01k", b"\x01\xff")
    assert json.loads(orders.view(payload))["by"] == {}
    merged = orders.merge_delta(payload, payload + order(a="x"))
    assert b"\x01\xff" in merged
    assert one(orders, merged, "/a") == "x"
