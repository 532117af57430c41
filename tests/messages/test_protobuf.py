"""Message type protobuf: schemas of every origin, what is read, deltas of version 2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import api_pb2, descriptor_pb2, struct_pb2, type_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.errors import ConfigError, InputError, UsageError
from sowctl.messages.base import MessageType
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.protoparse import ProtoError, parse_proto
from sowctl.messages.types import get_type
from sowctl.values.fields import Slot, SlotValue, Values
from sowctl.values.paths import parse_path
from tests.support.protosamples import ORDER2, ORDER3, Order, order_set, pool_of


def of(folder: Path, *, file: str = "order.desc", kind: str = "trade.Order", paths: Sequence[str] = ()) -> MessageType:
    return get_type(
        TypeDefinition(
            "orders",
            "protobuf",
            proto_type=kind,
            proto_file=file,
            proto_paths=tuple(paths),
            directory=str(folder),
            place="c.xml:5",
        )
    )


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
    rows, refusals = kind.extractor([Slot(parse_path(path), listed=listed)])([payload])
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
        "/a": "x", "/f": 0.1, "/l": Values((1, 2)), "/l[1]": 2, "/l[2]": None, "/side": "SELL", "/inner/n": 5,
        "/inner": Values((), True), "/inner/legs/a": Values(("p", "q")), "/inner/legs[1]/n": 1,
        "/inner/legs[0]/n": 42, "/by/k/n": 9, "/by": Values((), True), "[/by/odd key/n]": 42, "/by/none/n": None,
        "/raw": b"\xff", "/big": 2**64 - 1, "/right": "r", "/left": None, "/nothing": None, "/a/b": None,
    }  # fmt: skip
    assert {path: one(orders, payload, path) for path in expected} == expected
    texts, _ = orders.key_texts([parse_path(path) for path in ("/f", "/big", "/side", "/flag", "/e", "/l")])([payload])
    assert texts == [(b"0.1", b"18446744073709551615", b"SELL", b"1", None, b"1")]


def test_defaults_are_visible_to_filters(orders: MessageType) -> None:
    assert [one(orders, b"", path) for path in ("/n", "/flag", "/f", "/side", "/a", "/left", "/inner", "/l")] == [
        42, True, 0.0, "BUY", None, None, None, None,
    ]  # fmt: skip
    assert one(orders, b"", "/n", listed=True) == Values((42,))


def test_version_3_has_defaults_and_optional_fields(folder: Path) -> None:
    kind = of(folder, file="order3.proto")
    assert [one(kind, b"", path) for path in ("/n", "/f", "/side", "/z", "/left")] == [0, 0.0, "NONE", None, None]
    assert one(kind, order(z=0), "/z") == 0
    assert one(kind, order(side=2), "/side") == "SELL"
    assert one(kind, b"\x40\x63", "/side") == 99
    assert not kind.mergeable
    assert kind.merge(order(a="x", n=1), order(n=2)) == order(n=2)
    assert [(r.code, r.offset) for r in kind.check([b"\x0a\x01\xff"])] == [("SOW-MSG-001", None)]


def test_the_view_is_what_paths_find(orders: MessageType) -> None:
    payload = order(a="é", l=[1], by={"k": {"n": 9}}, raw=b"\xff", f=float("inf"), inner={"a": "i"})
    shown = json.loads(orders.view(payload))
    assert shown["by"]["k"]["n"] == 9
    assert (shown["a"], shown["l"], shown["raw"], shown["f"]) == ("é", [1], "\ufffd", None)
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
    result = orders.merge(order(**base), order(**delta))
    assert Order.FromString(result) == Order(**merged)
    assert Order.FromString(orders.merge(result, order(**delta))) == Order(**merged)


def test_required_fields_may_be_missing(tmp_path: Path) -> None:
    text = "syntax = 'proto2'; message M { required int64 id = 1; optional string s = 2; optional M m = 3; }"
    (tmp_path / "m.proto").write_text(text)
    kind = get_type(TypeDefinition("m", "protobuf", proto_type="M", proto_file="m.proto", proto_paths=(str(tmp_path),)))
    assert kind.check([b"\x12\x01a"]) == []
    assert kind.key_texts([parse_path("/id")])([b"\x12\x01a"])[0] == [(b"0",)]
    assert kind.merge(b"\x08\x07", b"\x12\x01b") == b"\x08\x07\x12\x01b"
    assert kind.merge(b"\x12\x01a", b"\x1a\x03\x12\x01b") == b"\x12\x01a\x1a\x03\x12\x01b"
    assert kind.merge(b"\x12\x01a", b"\x1a\x00") == b"\x12\x01a"
    assert json.loads(kind.view(b"\x12\x01a"))["s"] == "a"


def test_nulls_count_on_request_and_what_changes_nothing_keeps_the_bytes(orders: MessageType) -> None:
    base = b"\x10\x05" + b"\x0a\x01x"
    assert orders.merge(base, b"") == base
    assert orders.merge(base, order(a="")) == base
    assert Order.FromString(orders.merge(base, order(a=""), set_nulls=True)) == Order(a="", n=5)


def test_fields_that_the_schema_does_not_know_are_carried_along(orders: MessageType) -> None:
    unknown = b"\xa0\x06\x07"
    merged = orders.merge(order(n=1) + unknown, order(a="x"))
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
    refusals = kind.check([damaged])
    try:
        expected = Order.FromString(damaged)
    except DecodeError:
        assert len(refusals) == 1
        assert refusals[0].offset is None or 0 <= refusals[0].offset <= len(damaged)
    else:
        assert refusals == []
        assert one(kind, damaged, "/n") == expected.n
        assert one(kind, damaged, "/l", listed=True) == Values(tuple(expected.l))
    json.loads(kind.view(damaged))


@pytest.mark.parametrize(
    ("payload", "offset"),
    [(b"\x10", 0), (b"\x10\x05\x0a\x05x", 2), (b"\x10\x05\x07", 2), (b"\x3a\x02\x10", 0), (b"\x00\x01", 0)],
)
def test_refusals_name_the_byte(orders: MessageType, payload: bytes, offset: int) -> None:
    (refusal,) = orders.check([payload])
    assert (refusal.code, refusal.offset) == ("SOW-MSG-002", offset)
    with pytest.raises(InputError) as caught:
        orders.merge(b"", payload)
    assert caught.value.facts["part"] == "delta"


def test_nothing_is_selected_or_written(orders: MessageType) -> None:
    for call in (lambda: orders.select(b"", []), lambda: orders.assign(b"", []), lambda: orders.build([])):
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
        ({"file": "none.proto"}, "there is no file 'none.proto'", "looked for"),
        ({"file": ""}, "needs a ProtoFile", None),
        ({"kind": ""}, "needs a Type", "name the message"),
        ({"kind": "trade.Ordr"}, "no message 'trade.Ordr'", "trade.Order"),
        ({"file": "bad.desc"}, "neither a .proto file nor a descriptor set", "protoc"),
        ({"file": "bad.proto"}, "bad.proto:2:11: a name is expected, not '{'", "protoc"),
        ({"file": "edition.proto"}, "edition.proto:1:1: 'edition' is no declaration", "protoc"),
        ({"file": "alone.desc"}, "'order.proto' is imported and not in the descriptor set", "--include_imports"),
        ({"file": "loop.proto"}, "'loop.proto' imports itself", None),
        ({"file": "unfit.proto", "kind": "M"}, "the schema 'unfit.proto' cannot be used", None),
    ],
)
def test_definitions_that_cannot_be_used(tmp_path: Path, how: dict[str, str], words: str, hint: str | None) -> None:
    (tmp_path / "order.desc").write_bytes(order_set().SerializeToString())
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff")
    (tmp_path / "bad.proto").write_text("package x;\nmessage   { }")
    (tmp_path / "edition.proto").write_text('edition = "2023";')
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


def test_a_missing_library_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    import sowctl.messages

    monkeypatch.setitem(sys.modules, "sowctl.messages.protofiles", None)
    monkeypatch.delattr(sowctl.messages, "protofiles", raising=False)
    with pytest.raises(ConfigError) as caught:
        of(tmp_path, file="order.desc")
    assert (caught.value.code, caught.value.hint) == ("SOW-MSG-011", "install sowctl[protobuf]")


def test_a_text_gives_the_descriptors_of_the_compiler() -> None:
    parsed = parse_proto("order.proto", ORDER2)
    types = pool_of(descriptor_pb2.FileDescriptorSet(file=[parsed]))
    found = descriptor_pb2.FileDescriptorProto()
    types.FindFileByName("order.proto").CopyToProto(found)
    wanted = descriptor_pb2.FileDescriptorProto()
    pool_of(order_set()).FindFileByName("order.proto").CopyToProto(wanted)
    assert found == wanted


TRICKY = r"""
syntax = 'proto2'; // a comment
package a . b;
import public "google/protobuf/any.proto";
option (custom).name = { a: 1 b: "}" };
option java_package = "x" "y";
message M {
  option deprecated = true;
  reserved 5, 7 to max; reserved "old";
  extensions 100 to 199 [declaration = { number: 100 }];
  optional bytes raw = 1 [default = "\x01\"\\a\n", (opt).x = {a: [1, 2]}, deprecated = true];
  optional double d = 2 [default = -inf]; optional float g = 3 [default = 1.5e-3];
  optional int64 hex = 0x4 [default = -0x10]; required uint32 oct = 06 [default = 010];
  repeated int32 packed = 8 [packed = true];
  optional group Result = 9 { optional string url = 1; }
  optional .a.b.M.Inner.Kind kind = 10 [default = TWO];
  optional string message = 11; optional string optional = 12; optional int32 map = 13;
  message Inner { enum Kind { option allow_alias = true; ZERO = 0; ONE = 1; TWO = 2 [deprecated = true];
    ALSO = 2; MINUS = -1; } }
  map<int32, Inner.Kind> kinds_by_number = 14;
  oneof which { string s = 15; Inner i = 16; }
  extend M { optional int32 ext = 100; }
  ;
}
extend M { optional int32 top = 101; }
service S { rpc Get (M) returns (stream M) { option x = "{"; } }
/* the end */
"""


def test_tricky_texts_are_read() -> None:
    parsed = parse_proto("t.proto", TRICKY)
    message = parsed.message_type[0]
    fields = {field.name: field for field in message.field}
    assert parsed.package == "a.b"
    assert (list(parsed.dependency), list(parsed.public_dependency)) == (["google/protobuf/any.proto"], [0])
    assert fields["raw"].default_value == "\\001\\042\\134a\\012"
    assert [fields[name].default_value for name in ("d", "g", "hex", "oct", "kind")] == [
        "-inf",
        "1.5e-3",
        "-16",
        "8",
        "TWO",
    ]
    assert (fields["hex"].number, fields["oct"].number, fields["oct"].label) == (4, 6, 2)
    assert fields["packed"].options.packed
    assert (fields["result"].type, fields["result"].type_name) == (10, "Result")
    assert {"message", "optional", "map", "s", "i", "kinds_by_number"} <= set(fields)
    assert [field.oneof_index for field in (fields["s"], fields["i"])] == [0, 0]
    kind = message.nested_type[1].enum_type[0]
    assert [(value.name, value.number) for value in kind.value] == [
        ("ZERO", 0),
        ("ONE", 1),
        ("TWO", 2),
        ("ALSO", 2),
        ("MINUS", -1),
    ]
    assert kind.options.allow_alias
    assert [nested.name for nested in message.nested_type] == ["Result", "Inner", "KindsByNumberEntry"]
    files = descriptor_pb2.FileDescriptorSet(file=[parse_proto("google/protobuf/any.proto", "message Any {}"), parsed])
    assert pool_of(files).FindMessageTypeByName("a.b.M").fields_by_name["raw"].default_value == b'\x01"\\a\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message M { int32 a = 1; }", "1:13: a field starts with optional"),
        ('syntax = "proto4";', "1:18: the syntax 'proto4' is not known here"),
        ("message M {", "1:12:"),
        ("message M { optional int32 a = x; }", "1:32: a whole number"),
        ('message M { optional string a = 1 [default = "\\q"]; }', "unknown escape"),
        ("message M { optional int32 a = 1 [default = ]; }", "a value is expected"),
        ("option x", "1:9: a declaration has no end"),
        ("option x = {", "a bracket is not closed"),
        ("message M { enum E {", "1:21:"),
        ("\n  $", "2:3: '$' starts no word"),
        ('"unfinished', "starts no word"),
        ("message M { message A {" * 40, "inside one another"),
    ],
)
def test_texts_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(ProtoError) as caught:
        parse_proto("t.proto", text)
    assert words in str(caught.value)


WORDS = [
    *("message", "M", "optional", "int32", "1", "'x'", "oneof", "map", "enum"),
    *("option", "extend", "reserved", "group", "default", "import", "syntax"),
]


@given(st.lists(st.sampled_from([*"{}[]()<>=;,.-", *WORDS]), max_size=25))
def test_any_words_are_read_or_refused(parts: list[str]) -> None:
    try:
        parse_proto("t.proto", " ".join(parts))
    except ProtoError:
        pass


def source_of(file: descriptor_pb2.FileDescriptorProto) -> str:
    """A ``.proto`` text of a descriptor, written here only to be read back."""
    lines = [f'syntax = "{file.syntax or "proto2"}";', f"package {file.package};"]
    lines += [f'import "{name}";' for name in file.dependency]
    for enum in file.enum_type:
        lines += enum_lines(enum)
    for message in file.message_type:
        lines += message_lines(message, file.syntax == "proto3")
    return "\n".join(lines)


def enum_lines(enum: descriptor_pb2.EnumDescriptorProto) -> list[str]:
    return [f"enum {enum.name} {{", *(f"{value.name} = {value.number};" for value in enum.value), "}"]


def message_lines(message: descriptor_pb2.DescriptorProto, version3: bool) -> list[str]:
    lines = [f"message {message.name} {{"]
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    for nested in message.nested_type:
        if not nested.options.map_entry:
            lines += message_lines(nested, version3)
    for enum in message.enum_type:
        lines += enum_lines(enum)
    for place, oneof in enumerate(message.oneof_decl):
        inside = [field for field in message.field if field.HasField("oneof_index") and field.oneof_index == place]
        if not any(field.proto3_optional for field in inside):
            lines += [f"oneof {oneof.name} {{", *(field_line(field, "") for field in inside), "}"]
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            key, value = (type_of(part) for part in entry.field)
            lines.append(f"map<{key}, {value}> {field.name} = {field.number};")
        elif not field.HasField("oneof_index") or field.proto3_optional:
            label = {1: "optional ", 2: "required ", 3: "repeated "}[field.label]
            lines.append(
                field_line(field, "" if version3 and field.label == 1 and not field.proto3_optional else label)
            )
    return [*lines, "}"]


def type_of(field: descriptor_pb2.FieldDescriptorProto) -> str:
    names = {value: name[5:].lower() for name, value in vars(FieldDescriptor).items() if name.startswith("TYPE_")}
    return field.type_name or names[field.type]


def field_line(field: descriptor_pb2.FieldDescriptorProto, label: str) -> str:
    options = []
    if field.HasField("default_value"):
        quoted = field.type in (9, 12)
        options.append(f"default = {json.dumps(field.default_value) if quoted else field.default_value}")
    if field.options.HasField("packed"):
        options.append(f"packed = {'true' if field.options.packed else 'false'}")
    listed = f" [{', '.join(options)}]" if options else ""
    return f"{label}{type_of(field)} {field.name} = {field.number}{listed};"


def bare(message: descriptor_pb2.DescriptorProto) -> None:
    """Take out what does not concern the reading of messages, and the order of fields and entries."""
    for part in ("reserved_range", "reserved_name", "extension_range", "extension"):
        message.ClearField(part)
    fields = sorted(message.field, key=lambda field: field.number)
    for field in fields:
        field.ClearField("json_name")
        packed = field.options.packed if field.options.HasField("packed") else None
        field.ClearField("options")
        if packed is not None:
            field.options.packed = packed
    nested = sorted(message.nested_type, key=lambda inner: inner.name)
    for name, ordered in (("field", fields), ("nested_type", nested)):
        copies = [type(item).FromString(item.SerializeToString()) for item in ordered]
        message.ClearField(name)
        getattr(message, name).extend(copies)
    for inner in message.nested_type:
        bare(inner)
    bare_enums(message.enum_type)
    if not message.options.map_entry:
        message.ClearField("options")
    message.ClearField("visibility")


def bare_enums(enums: Any) -> None:
    for enum in enums:
        for part in ("reserved_range", "reserved_name", "options", "visibility"):
            enum.ClearField(part)
        for value in enum.value:
            value.ClearField("options")


@pytest.mark.parametrize("module", [descriptor_pb2, struct_pb2, type_pb2, api_pb2])
def test_schemas_of_the_library_come_back(module: Any) -> None:
    original = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    parsed = parse_proto(original.name, source_of(original))
    for file in (original, parsed):
        for part in ("options", "source_code_info", "service", "extension"):
            file.ClearField(part)
        file.syntax = file.syntax or "proto2"
        for message in file.message_type:
            bare(message)
        bare_enums(file.enum_type)
    for message in [*original.message_type, *parsed.message_type]:
        forget_kinds(message)
    assert parsed == original


def forget_kinds(message: descriptor_pb2.DescriptorProto) -> None:
    """A parser leaves it to the library whether a name is that of a message or of an enumeration, and where it is."""
    for field in message.field:
        if field.type_name:
            field.ClearField("type")
            field.type_name = field.type_name.rpartition(".")[2]
    for nested in message.nested_type:
        forget_kinds(nested)


def test_keys_of_maps_that_are_not_utf8_are_carried_along(orders: MessageType) -> None:
    payload = order(by={"k": {"n": 9}}).replace(b"\x01k", b"\x01\xff")
    assert json.loads(orders.view(payload))["by"] == {}
    merged = orders.merge(payload, payload + order(a="x"))
    assert b"\x01\xff" in merged
    assert one(orders, merged, "/a") == "x"
