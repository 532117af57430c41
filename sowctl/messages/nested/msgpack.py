"""Message type ``msgpack``: MessagePack maps (``sowctl-messages(7)``, msgpack).

Strings and binary data are Strings, extension types (including time stamps) the String of their bytes, nil is NULL. Of
duplicate members the first counts, as in JSON. Names are Strings; a member named by binary data is preserved, but no
path finds it; other names are refused, as by the library. Numbers have no original text.
"""

from __future__ import annotations

from typing import Any, cast

import msgpack
from msgpack import ExtType, Timestamp

from sowctl.messages.base import MALFORMED_CODE, NOT_UTF8_CODE, PayloadRefused
from sowctl.messages.nested.paths import measure_depth
from sowctl.messages.nested.type import TreeType, build_depth_refusal
from sowctl.messages.nested.write import Tree
from sowctl.values.depth import MAX_DEPTH
from sowctl.values.display import format_count
from sowctl.values.fields import Scalar

_CONTAINER_HEADS = bytes((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))
"""The bytes that start a map or an array."""
_FIXED_SIZES = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4,
    0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
"""Bytes after the head, if the head determines the size."""
_TEXT_LENGTH_BYTES = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_LENGTH_LAYOUTS = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
"""Bytes of the length, and bytes that the length does not count: the code of an extension type."""
_CONTAINER_LAYOUTS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Bytes of the count, and values per item."""


class Extension:
    """A value of an extension type: its code and bytes."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code = code
        self.data = data


class MsgpackType(TreeType):
    """MessagePack, one value per message."""

    kind = "msgpack"

    def decode_tree(self, payload: bytes) -> object:
        """The tree of one payload; of duplicate members the first counts."""
        try:
            tree = msgpack.unpackb(payload, ext_hook=Extension)
            # The library uses the last of duplicate names. The head has the number of members: if a flat map has as
            # many, there are no duplicates, and the slower reading by pairs is not needed.
            if type(tree) is dict and (len(tree) != _count_map_members(payload) or _has_containers(tree)):
                tree = msgpack.unpackb(payload, ext_hook=Extension, object_pairs_hook=_keep_first_members)
        except (ValueError, TypeError, RecursionError) as problem:
            raise _build_refusal(payload, problem) from None
        # Every container has a head of its own, so two counts suffice for most payloads, without a walk.
        if len(payload) > MAX_DEPTH and _count_openers(payload) > MAX_DEPTH and measure_depth(tree) > MAX_DEPTH:
            raise build_depth_refusal()
        return tree

    def encode_tree(self, tree: Tree) -> bytes:
        """MessagePack in its shortest forms."""
        try:
            return cast(bytes, msgpack.packb(tree, default=_decode_extension))
        except _ReservedCodeError:
            packer = msgpack.Packer(autoreset=False)
            _pack_node(packer, tree)
            return cast(bytes, packer.bytes())

    def convert_scalar(self, item: object) -> Scalar:
        """The bytes of an extension type, any other value unchanged."""
        if isinstance(item, Extension):
            return item.data
        # The library decodes code -1 to an object of its own; for expressions it is its bytes like any other extension.
        if isinstance(item, Timestamp):
            return cast(bytes, item.to_bytes())
        return cast(Scalar, item)


class _ReservedCodeError(Exception):
    """A negative code, which the class of the library does not support."""


def _decode_extension(item: object) -> ExtType:
    if isinstance(item, Extension):
        # The format reserves negative codes, but a message may have one: it must be written back as it was read.
        if item.code < 0:
            raise _ReservedCodeError
        return ExtType(item.code, item.data)
    raise TypeError(f"a value of kind {type(item).__name__}")


def _pack_node(packer: msgpack.Packer, node: object) -> None:
    """Pack a tree piece by piece, which is slow but supports extensions of any code."""
    if isinstance(node, dict):
        packer.pack_map_header(len(node))
        for name, child in node.items():
            packer.pack(name)
            _pack_node(packer, child)
    elif isinstance(node, list):
        packer.pack_array_header(len(node))
        for child in node:
            _pack_node(packer, child)
    elif isinstance(node, Extension):
        packer.pack_ext_type(node.code, node.data)
    else:
        packer.pack(node)


def _keep_first_members(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    # A dictionary with as many members as pairs has no duplicate names.
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    members = {}
    for name, value in pairs:
        members.setdefault(name, value)
    return members


def _count_map_members(payload: bytes) -> int:
    """Count the members by the head of the map at the start of ``payload``."""
    head = payload[0]
    return head & 15 if head < 0x90 else int.from_bytes(payload[1 : 3 if head == 0xDE else 5])


def _has_containers(tree: dict[Any, Any]) -> bool:
    kinds = set(map(type, tree.values()))
    return dict in kinds or list in kinds


def _count_openers(payload: bytes) -> int:
    return len(payload) - len(payload.translate(None, _CONTAINER_HEADS))


def _build_refusal(payload: bytes, problem: Exception) -> PayloadRefused:
    if isinstance(problem, msgpack.StackError | RecursionError):
        return build_depth_refusal()
    offset, words = find_fault(payload)
    if isinstance(problem, UnicodeDecodeError):
        return PayloadRefused(NOT_UTF8_CODE, f"a string is not valid UTF-8: {problem.reason}", offset)
    return PayloadRefused(MALFORMED_CODE, words or str(problem), offset)


def find_fault(payload: bytes) -> tuple[int | None, str | None]:
    """Offset and description of the first fault, None if only the library knows.

    A walk over bytes, only for payloads that the library refused.
    """
    position = 0
    # A walk without recursion: invalid payloads may be nested to any depth.
    waiting = [1]
    """Remaining values in each open container; negative in a map, whose names are at even counts."""
    while waiting:
        left = waiting[-1]
        if not left:
            waiting.pop()
            continue
        named = left < 0 and left % 2 == 0
        # A map counts up to zero by names and values, so its even counts are names.
        waiting[-1] = left + 1 if left < 0 else left - 1
        if position >= len(payload):
            return len(payload), "the message ends before its last value"
        start, head = position, payload[position]
        if head == 0xC1:
            return start, "byte 0xc1 starts no value"
        if named and not _is_name(head):
            return start, "a member name is not a string"
        position, inner, text = _step_over_value(payload, start, head)
        if position > len(payload):
            return (
                start,
                f"a value of {format_count(position - start, 'byte')} does not fit: "
                f"{len(payload) - start:,} {'is' if len(payload) - start == 1 else 'are'} left",
            )
        if text:
            try:
                payload[text:position].decode()
            except UnicodeDecodeError as problem:
                # Only the offset: the library's message about the encoding becomes the description.
                return text + problem.start, None
        if inner:
            waiting.append(inner)
    if position < len(payload):
        return position, f"{format_count(len(payload) - position, 'byte')} after the end of the value"
    return None, None


def _is_name(head: int) -> bool:
    return 0xA0 <= head < 0xC0 or head in (0xC4, 0xC5, 0xC6, *_TEXT_LENGTH_BYTES)


def _step_over_value(payload: bytes, at: int, head: int) -> tuple[int, int, int]:
    """Return the end of the value at ``at`` (for a container, of its head), its values, its text's start or 0."""
    # Small integers of either sign are their own head.
    if head < 0x80 or head >= 0xE0:
        return at + 1, 0, 0
    if head < 0x90:
        return at + 1, -2 * (head & 15), 0
    if head < 0xA0:
        return at + 1, head & 15, 0
    if head < 0xC0:
        return at + 1 + (head & 31), 0, at + 1
    if head in _FIXED_SIZES:
        return at + 1 + _FIXED_SIZES[head], 0, 0
    if head in _CONTAINER_LAYOUTS:
        width, values = _CONTAINER_LAYOUTS[head]
        count = int.from_bytes(payload[at + 1 : at + 1 + width])
        return at + 1 + width, -2 * count if values == 2 else count, 0
    width, more = (_TEXT_LENGTH_BYTES[head], 0) if head in _TEXT_LENGTH_BYTES else _LENGTH_LAYOUTS[head]
    length = int.from_bytes(payload[at + 1 : at + 1 + width])
    body = at + 1 + width
    return body + length + more, 0, body if head in _TEXT_LENGTH_BYTES else 0
