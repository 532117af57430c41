"""Message type ``msgpack``: MessagePack maps (``sowctl-messages(7)``, msgpack).

Strings and binary data are Strings, extension types (time stamps too) the String of their bytes, nil is NULL. Of
members given twice the first counts, as in JSON. Names are Strings; a member named by binary data is carried along but
no path finds it; other names are refused, as the library does. Numbers have no original text.
"""

from __future__ import annotations

from typing import Any, cast

import msgpack
from msgpack import ExtType, Timestamp

from sowctl.messages.base import MALFORMED_CODE, MAX_DEPTH, NOT_UTF8_CODE, PayloadRefused
from sowctl.messages.nested.paths import measure_depth
from sowctl.messages.nested.type import TreeType, build_depth_refusal
from sowctl.messages.nested.write import Tree
from sowctl.values.fields import Scalar

_CONTAINER_HEADS = bytes((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))
"""The bytes that start a map or an array."""


class Extension:
    """A value of an extension type: its code and bytes."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code = code
        self.data = data


class MsgpackType(TreeType):
    """MessagePack, one value a message."""

    kind = "msgpack"

    def decode_tree(self, payload: bytes) -> object:
        """The tree of one payload, of whose maps the first of equal members count."""
        try:
            tree = msgpack.unpackb(payload, ext_hook=Extension)
            # The library takes the last of repeated names. The head says how many members there are: if all of them are
            # in a flat map, none was repeated, and the slower reading by pairs is spared.
            if type(tree) is dict and (len(tree) != _count_map_members(payload) or _has_containers(tree)):
                tree = msgpack.unpackb(payload, ext_hook=Extension, object_pairs_hook=_keep_first_members)
        except (ValueError, TypeError, RecursionError) as problem:
            raise _build_refusal(payload, problem) from None
        # Every container takes a head of its own, so most payloads are cleared by two counts without a walk.
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
        """The bytes of an extension type, all else as it is."""
        if isinstance(item, Extension):
            return item.data
        # The library reads code -1 as an object of its own; to expressions it is its bytes like any other extension.
        if isinstance(item, Timestamp):
            return cast(bytes, item.to_bytes())
        return cast(Scalar, item)


class _ReservedCodeError(Exception):
    """A code below zero, which the class of the library does not take."""


def _decode_extension(item: object) -> ExtType:
    if isinstance(item, Extension):
        # Codes below zero are reserved by the format, and a message may still hold one: what was read must be written
        # again.
        if item.code < 0:
            raise _ReservedCodeError
        return ExtType(item.code, item.data)
    raise TypeError(f"a value of kind {type(item).__name__}")


def _pack_node(packer: msgpack.Packer, node: object) -> None:
    """Pack a tree piece by piece, which is slow but takes extensions of any code."""
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
    # A dictionary as long as the pairs has met no name twice.
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    members = {}
    for name, value in pairs:
        members.setdefault(name, value)
    return members


def _count_map_members(payload: bytes) -> int:
    """Count the members by the head of the map that ``payload`` starts with."""
    head = payload[0]
    return head & 15 if head < 0x90 else int.from_bytes(payload[1 : 3 if head == 0xDE else 5])


def _has_containers(tree: dict[Any, Any]) -> bool:
    kinds = set(map(type, tree.values()))
    return dict in kinds or list in kinds


def _count_openers(payload: bytes) -> int:
    return len(payload) - len(payload.translate(None, _CONTAINER_HEADS))


def _build_refusal(payload: bytes, problem: Exception) -> PayloadRefused:
    from sowctl.messages.nested.msgpackscan import find_fault

    if isinstance(problem, msgpack.StackError | RecursionError):
        return build_depth_refusal()
    offset, words = find_fault(payload)
    if isinstance(problem, UnicodeDecodeError):
        return PayloadRefused(NOT_UTF8_CODE, f"a string is not valid UTF-8: {problem.reason}", offset)
    return PayloadRefused(MALFORMED_CODE, words or str(problem), offset)
