"""``.proto`` files (syntax ``proto2`` and ``proto3``) to descriptors, without a compiler (``sowctl-messages(7)``).

Messages, enumerations, fields, maps, oneofs, groups, defaults and imports are taken over; services, extensions and the
options that change nothing about reading a message are passed over. Names of types are left as written: the library
finds them when the file is added to its pool, and refuses what does not fit together.
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from sowctl.messages.proto.scan import ProtoError, Reader, whole

__all__ = ["ProtoError", "parse_proto"]

_DEEPEST = 32
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_GROUP, _MESSAGE = 10, 11


def parse_proto(name: str, source: str) -> FileDescriptorProto:
    """The descriptor of one file. Raises ProtoError with line and column."""
    return _Parser(name, source).file()


class _Parser(Reader):
    """Makes the descriptor of one file while it goes over its words."""

    def __init__(self, name: str, source: str) -> None:
        super().__init__(source)
        self.result = FileDescriptorProto(name=name, syntax="proto2")

    def file(self) -> FileDescriptorProto:
        while self.word.kind != "end":
            if self.take("syntax"):
                self.expect("=")
                self.syntax(self.text().decode("utf-8", "replace"))
                self.expect(";")
            elif self.take("import"):
                self.imported()
            elif self.take("package"):
                self.result.package = self.dotted()
                self.expect(";")
            elif self.take("message"):
                self.message(self.result.message_type.add(), 1)
            elif self.take("enum"):
                self.enum(self.result.enum_type.add())
            elif self.take("option") or self.take("extend") or self.take("service"):
                self.pass_over()
            elif not self.take(";"):
                self.fail(f"{self.word.text!r} is no declaration")
        return self.result

    def syntax(self, text: str) -> None:
        if text not in ("proto2", "proto3"):
            self.fail(f"the syntax {text!r} is not known here")
        self.result.syntax = text

    def imported(self) -> None:
        place = len(self.result.dependency)
        if self.take("public"):
            self.result.public_dependency.append(place)
        elif self.take("weak"):
            self.result.weak_dependency.append(place)
        self.result.dependency.append(self.text().decode("utf-8", "replace"))
        self.expect(";")

    def message(self, result: DescriptorProto, depth: int) -> None:
        """A message from its name on."""
        result.name = self.name()
        self.body(result, depth)

    def body(self, result: DescriptorProto, depth: int) -> None:
        if depth > _DEEPEST:
            self.fail(f"more than {_DEEPEST} messages inside one another")
        self.expect("{")
        while not self.take("}"):
            self.member(result, depth)
        if self.result.syntax == "proto3":
            _add_synthetic_oneofs(result)

    def member(self, result: DescriptorProto, depth: int) -> None:
        """One declaration inside a message."""
        following = self.words[self.at + 1] if self.word.kind != "end" else self.word
        if following.kind == "name" and self.word.text in ("message", "enum") and self.words[self.at + 2].text == "{":
            if self.take("message"):
                self.message(result.nested_type.add(), depth + 1)
            else:
                self.at += 1
                self.enum(result.enum_type.add())
        elif self.word.text == "oneof" and following.kind == "name" and self.words[self.at + 2].text == "{":
            self.oneof(result, depth)
        elif self.word.text == "map" and following.text == "<":
            self.map(result)
        elif self.word.text in ("option", "extend") and self.words[self.at + 2].text != "=":
            self.at += 1
            self.pass_over()
        elif self.word.text == "option" or (self.word.text in ("reserved", "extensions") and following.kind != "name"):
            self.pass_over()
        elif not self.take(";"):
            self.field(result, depth, None)

    def oneof(self, result: DescriptorProto, depth: int) -> None:
        self.at += 1
        place = len(result.oneof_decl)
        result.oneof_decl.add(name=self.name())
        self.expect("{")
        while not self.take("}"):
            if self.word.text == "option":
                self.pass_over()
            elif not self.take(";"):
                self.field(result, depth, place)

    def map(self, result: DescriptorProto) -> None:
        """``map<key, value> name = number``: a repeated message of two fields."""
        self.at += 1
        self.expect("<")
        entry = DescriptorProto()
        entry.options.map_entry = True
        key = entry.field.add(name="key", number=1, label=1)
        self.kind(key)
        self.expect(",")
        self.kind(entry.field.add(name="value", number=2, label=1))
        self.expect(">")
        field = result.field.add(label=3, type=_MESSAGE, name=self.name())
        entry.name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        field.type_name = entry.name
        result.nested_type.append(entry)
        self.number_and_options(field)
        self.expect(";")

    def field(self, result: DescriptorProto, depth: int, oneof: int | None) -> None:
        field = result.field.add(label=1)
        label = _LABELS.get(self.word.text) if self.words[self.at + 1].text != "=" else None
        if label is not None and oneof is None:
            self.at += 1
            field.label = label
            field.proto3_optional = label == 1 and self.result.syntax == "proto3"
        elif oneof is not None:
            field.oneof_index = oneof
        elif self.result.syntax == "proto2" and self.word.text != "group":
            self.fail(f"a field starts with optional, required or repeated, not with {self.word.text!r}")
        if not field.proto3_optional:
            field.ClearField("proto3_optional")
        if self.word.text == "group" and self.words[self.at + 1].kind == "name" and self.words[self.at + 2].text == "=":
            self.at += 1
            inner = result.nested_type.add(name=self.name())
            field.name, field.type, field.type_name = inner.name.lower(), _GROUP, inner.name
            self.number_and_options(field)
            self.body(inner, depth + 1)
            return
        self.kind(field)
        field.name = self.name()
        self.number_and_options(field)
        self.expect(";")

    def kind(self, field: FieldDescriptorProto) -> None:
        """The type of a field."""
        if self.word.text in _SCALARS and self.words[self.at + 1].text != ".":
            field.type = _SCALARS[self.word.text]
            self.at += 1
        else:
            field.type_name = ("." if self.take(".") else "") + self.dotted()

    def number_and_options(self, field: FieldDescriptorProto) -> None:
        self.expect("=")
        field.number = self.integer()
        if not self.take("["):
            return
        while True:
            name = self.option_name()
            self.expect("=")
            if name == "default":
                field.default_value = self.default(field)
            elif name == "packed":
                field.options.packed = self.constant() == "true"
            else:
                self.constant()
            if self.take("]"):
                return
            self.expect(",")

    def option_name(self) -> str:
        """The name of an option; one with parentheses is nobody's that is read here."""
        if self.word.text == "(":
            self.balanced()
            while self.take("."):
                self.dotted()
            return ""
        return self.dotted()

    def default(self, field: FieldDescriptorProto) -> str:
        """A default value as descriptors write it."""
        if self.word.kind == "text":
            text = self.text()
            if field.type == _SCALARS["bytes"]:
                return "".join(
                    chr(byte) if 32 <= byte < 127 and byte not in b"\"'\\" else f"\\{byte:03o}" for byte in text
                )
            return text.decode("utf-8", "replace")
        value = self.constant()
        number = whole(value.lstrip("-"))
        if number is not None:
            return str(-number if value.startswith("-") else number)
        return value

    def constant(self) -> str:
        """The text of a constant; an aggregate is passed over."""
        if self.word.kind == "text":
            return self.text().decode("utf-8", "replace")
        if self.word.text in ("{", "["):
            self.balanced()
            return ""
        sign = "-" if self.take("-") else ""
        if not sign:
            self.take("+")
        if self.word.kind == "name":
            return sign + self.dotted()
        if self.word.kind != "number":
            self.fail(f"a value is expected, not {self.word.text!r}")
        self.at += 1
        return sign + self.words[self.at - 1].text

    def enum(self, result: EnumDescriptorProto) -> None:
        """An enumeration from its name on."""
        result.name = self.name()
        self.expect("{")
        while not self.take("}"):
            following = self.words[self.at + 1] if self.word.kind != "end" else self.word
            if self.word.text in ("option", "reserved") and following.text != "=":
                self.option_of_enum(result)
            elif not self.take(";"):
                value = result.value.add(name=self.name())
                self.expect("=")
                value.number = self.integer()
                if self.word.text == "[":
                    self.balanced()
                self.expect(";")

    def option_of_enum(self, result: EnumDescriptorProto) -> None:
        if self.word.text == "option" and self.words[self.at + 1].text == "allow_alias":
            result.options.allow_alias = self.words[self.at + 3].text == "true"
        self.pass_over()


def _add_synthetic_oneofs(message: DescriptorProto) -> None:
    """An ``optional`` field of proto3 is the only member of a oneof of its own."""
    for field in message.field:
        if field.proto3_optional and not field.HasField("oneof_index"):
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name="_" + field.name)
