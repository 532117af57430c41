"""Protobuf messages through the library ``protobuf``; only :mod:`sowctl.messages.proto.type` imports this module.

A field that is not set has its default value, unless it is a member of a oneof, an ``optional`` field of proto3 or a
message. Enumerations are the names of their values, numbers without a name Integers; maps are objects whose members are
named by the texts of the keys. :meth:`Schema.collect_nodes` resolves paths over messages, maps and scalars.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from sowctl.messages.base import MALFORMED_CODE, NOT_UTF8_CODE, PayloadRefused
from sowctl.messages.nested.paths import PLAIN_TYPES
from sowctl.values.fields import Scalar, SlotValue, ValueList
from sowctl.values.paths import Path, Step

FieldGetter: TypeAlias = Callable[[Any], Sequence[Any]]
"""The nodes of one field of a message: all of a repeated one, none of an absent one."""


class Schema:
    """One message type and the operations on its messages."""

    def __init__(self, kind: type[Message]) -> None:
        self._kind = kind
        self.mergeable = _is_proto2(kind.DESCRIPTOR)
        self._fields: dict[str, dict[str, FieldGetter]] = {}

    def decode_message(self, payload: bytes) -> Message:
        """The message of ``payload``. Required fields may be missing. Raises PayloadRefused."""
        try:
            return self._kind.FromString(payload)
        except DecodeError as problem:
            # The library has one error for both, distinguishable only by its message.
            code = NOT_UTF8_CODE if "UTF-8" in str(problem) else MALFORMED_CODE
            words = str(problem).rpartition(": ")[2]
            raise PayloadRefused(code, words[:1].lower() + words[1:], find_fault_offset(payload)) from None

    def build_reader(self, path: Path, listed: bool) -> Callable[[Message], SlotValue]:
        """Build the reader of the value list at ``path``."""
        steps = path.steps
        # One step without a subscript leads to one field, whose getter needs no walk.
        if len(steps) == 1 and steps[0].index is None and not listed:
            get = self._field_getters(self._kind.DESCRIPTOR).get(steps[0].name)
            if get is None:
                return lambda message: None

            def single(message: Message) -> SlotValue:
                found = get(message)
                if len(found) == 1 and type(found[0]) in PLAIN_TYPES:
                    return _blank_to_null(found[0])
                return _slot_answer(found, False)

            return single
        return lambda message: _slot_answer(self.collect_nodes([message], steps), listed)

    def collect_nodes(self, nodes: Sequence[Any], steps: Sequence[Step]) -> Sequence[Any]:
        """All nodes at ``steps`` below ``nodes``, messages and maps included."""
        for step in steps:
            found: list[Any] = []
            for node in nodes:
                if isinstance(node, Message):
                    # A name that the schema does not have finds nothing, as in every other type.
                    get = self._field_getters(node.DESCRIPTOR).get(step.name)
                    if get is not None:
                        found.extend(get(node))
                elif isinstance(node, dict) and step.name in node:
                    found.append(node[step.name])
            nodes = found if step.index is None else found[step.index : step.index + 1]
        return nodes

    def build_tree(self, message: Message) -> dict[str, Any]:
        """The message as shown in JSON, with the values that paths find."""
        tree: dict[str, Any] = {}
        for name, get in self._field_getters(message.DESCRIPTOR).items():
            nodes = get(message)
            if nodes:
                field = message.DESCRIPTOR.fields_by_name[name]
                values = [self._json_form(node, field) for node in nodes]
                tree[name] = values if _is_repeated(field) else values[0]
                # A map is repeated on the wire, but one object for paths.
                if isinstance(nodes[0], dict):
                    tree[name] = values[0]
        return tree

    def merge_messages(self, base: bytes, old: Message, new: Message, *, set_nulls: bool) -> bytes:
        """``old``, read from ``base``, with the fields that are set in ``new``; both are modified."""
        _clear_oneof(old, new, set_nulls)
        # Nothing in the delta counts, so the base keeps its original bytes.
        if not new.SerializePartialToString():
            return base
        old.MergeFrom(new)
        # In a fixed order of map keys, so that equal messages have equal bytes.
        return cast(bytes, old.SerializePartialToString(deterministic=True))

    def _json_form(self, node: Any, field: FieldDescriptor) -> Any:
        """A node of a field; bytes as Base64, as in the JSON form of protobuf."""
        if isinstance(node, Message):
            return self.build_tree(node)
        if isinstance(node, dict):
            value = field.message_type.fields_by_name["value"]
            return {name: self._json_form(inner, value) for name, inner in node.items()}
        if field.type == FieldDescriptor.TYPE_BYTES:
            return b64encode(node).decode()
        # For a text that is not UTF-8, which proto2 allows, the library returns bytes.
        return node.decode(errors="replace") if isinstance(node, bytes) else node

    def _field_getters(self, descriptor: Descriptor) -> dict[str, FieldGetter]:
        """The getters of the fields of a message type."""
        fields = self._fields.get(descriptor.full_name)
        if fields is None:
            fields = {field.name: _make_getter(field) for field in descriptor.fields}
            self._fields[descriptor.full_name] = fields
        return fields


def _make_getter(field: FieldDescriptor) -> FieldGetter:
    name = field.name
    convert = _make_converter(field)
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        inner = _make_converter(value)
        shown = _make_key_formatter(key)

        def members(message: Any) -> Sequence[Any]:
            found = getattr(message, name)
            return ({shown(each): inner(found[each]) for each in _list_utf8_keys(found)},) if found else ()

        return members
    if _is_repeated(field):
        return lambda message: [convert(item) for item in getattr(message, name)]
    # Only these are NULL if they are not set; an optional field of proto3 is in a oneof of its own. All others
    # read as their default.
    if field.message_type is not None or field.containing_oneof is not None:
        return lambda message: (convert(getattr(message, name)),) if message.HasField(name) else ()
    if field.enum_type is None:
        return lambda message: (getattr(message, name),)
    return lambda message: (convert(getattr(message, name)),)


def _make_converter(field: FieldDescriptor) -> Callable[[Any], Any]:
    """Make the converter of a value of a field to a node."""
    if field.enum_type is None:
        return lambda value: value
    # Enumerations of proto3 are open: a number without a name stays a number.
    names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    return lambda value: names.get(value, value)


def _make_key_formatter(field: FieldDescriptor) -> Callable[[Any], str]:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return lambda key: "true" if key else "false"
    return str


def _list_utf8_keys(members: Any) -> list[Any]:
    """The keys of a map without those that are not UTF-8, which are bytes and cannot be looked up in the library."""
    return [key for key in members if not isinstance(key, bytes)]


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type is not None and _is_repeated(field) and field.message_type.GetOptions().map_entry)


def _is_repeated(field: FieldDescriptor) -> bool:
    """Return True for a repeated field; versions of the library differ in how they express that."""
    said = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if said is None else said)


def _is_proto2(descriptor: Descriptor) -> bool:
    """Return True if a message type's file has the syntax of version 2, which is the default of files without one."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    descriptor.file.CopyToProto(file)
    return file.syntax in ("", "proto2")


def _blank_to_null(value: Any) -> Scalar:
    """NULL for an empty String; zeros and False are values."""
    return None if value == "" or value == b"" else cast(Scalar, value)


def _slot_answer(nodes: Sequence[Any], listed: bool) -> SlotValue:
    items: list[Scalar] = [_blank_to_null(node) for node in nodes if not isinstance(node, Message | dict)]
    dropped = len(items) != len(nodes)
    if listed or dropped or len(items) > 1:
        return ValueList(tuple(items), dropped)
    return items[0] if items else None


def _clear_oneof(old: Message, new: Message, set_nulls: bool) -> None:
    """Remove from ``old`` the fields that ``new`` replaces and merging would append to, and NULLs from ``new``."""
    for field, value in new.ListFields():
        name = field.name
        # Extensions have no path; they are merged as by the library.
        if field.is_extension:
            continue
        if _is_map(field):
            _clear_oneof_in_map(getattr(old, name), value, set_nulls)
        elif _is_repeated(field):
            # MergeFrom() would append to a repeated field, while a delta replaces arrays.
            old.ClearField(name)
        elif field.message_type is not None:
            if old.HasField(name):
                _clear_oneof(getattr(old, name), value, set_nulls)
            # There is no old message to merge with, but the NULLs inside must be removed.
            elif not set_nulls:
                _clear_oneof(type(value)(), value, set_nulls)
            if not set_nulls and not value.SerializePartialToString():
                new.ClearField(name)
        # The empty String is NULL; zeros and False are explicit values in a proto2 message.
        elif not set_nulls and (value == "" or value == b""):
            new.ClearField(name)


def _clear_oneof_in_map(old: Mapping[Any, Any], new: Mapping[Any, Any], set_nulls: bool) -> None:
    """Merge the messages of a map one by one, since the library replaces them."""
    for key in _list_utf8_keys(new):
        value = new[key]
        if isinstance(value, Message) and key in old:
            # MergeFrom() replaces the entry of a map, so old and new are merged here and stored in the new one.
            both = type(value)()
            both.CopyFrom(old[key])
            _clear_oneof(both, value, set_nulls)
            both.MergeFrom(value)
            value.CopyFrom(both)


def find_fault_offset(payload: bytes) -> int | None:
    """The offset of the first unreadable field of the outermost message; None if the fault is further inside."""
    position = 0
    while position < len(payload):
        start = position
        position, tag = _read_varint(payload, position)
        kind = tag & 7
        if kind == 0:
            position, _ = _read_varint(payload, position)
        elif kind == 2:
            position, length = _read_varint(payload, position)
            position += length
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        # Groups have no length: finding their end would require reading their content.
        elif kind in (3, 4):
            return None
        else:
            return start
        if position > len(payload) or not tag >> 3:
            return start
    return None


def _read_varint(payload: bytes, position: int) -> tuple[int, int]:
    """Return the end of a varint, beyond the payload if it is unterminated, and its value."""
    value = 0
    # A varint has at most ten bytes; a longer one is a fault.
    for shift in range(0, 70, 7):
        if position >= len(payload):
            break
        byte = payload[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return position, value
    return len(payload) + 1, 0
