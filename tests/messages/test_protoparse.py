"""Texts of .proto files: read as the compiler reads them, refused with the place, and never anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import api_pb2, descriptor_pb2, struct_pb2, type_pb2
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from sowctl.messages.proto.parse import ProtoError, parse_proto
from tests.support.protosamples import ORDER2, order_set, pool_of


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
