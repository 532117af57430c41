"""BSON through the library ``bson`` of pymongo; only :mod:`sowctl.messages.nested.bson` imports this module."""

from __future__ import annotations

from typing import Any, cast

import bson
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from sowctl.messages.base import MALFORMED_CODE, NOT_UTF8_CODE, PayloadRefused
from sowctl.messages.nested.type import build_depth_refusal
from sowctl.messages.nested.write import Tree
from sowctl.values.fields import Scalar
from sowctl.values.times import format_milliseconds


class BsonMembers(dict[str, Any]):
    """A dictionary in which the first assignment counts; the library fills it."""

    __slots__ = ()
    __setitem__ = dict.setdefault


_CODEC_OPTIONS: CodecOptions[Any] = CodecOptions(BsonMembers, datetime_conversion=DatetimeConversion.DATETIME_MS)
_BSON_ERRORS = (BSONError, ValueError, TypeError, OverflowError)


def decode_document(payload: bytes) -> object:
    """The document of ``payload``. Raises PayloadRefused."""
    try:
        tree: object = bson.decode(payload, _CODEC_OPTIONS)
        # The library converts documents with $ref and $id to references. For expressions they are ordinary documents.
        return _without_references(tree) if b"$ref\0" in payload else tree
    except RecursionError:
        raise build_depth_refusal() from None
    except _BSON_ERRORS as problem:
        # The C part of the library reports too deep recursion by an error of its own, recognisable only by its message.
        if "recursion" in str(problem):
            raise build_depth_refusal() from None
        raise _build_refusal(payload, problem) from None


def encode_document(tree: Tree) -> bytes:
    """The bytes of a document. Raises ValueError for values that BSON cannot represent."""
    try:
        return bson.encode(tree)
    except BSONError as problem:
        raise ValueError(str(problem)) from None
    except OverflowError:
        raise ValueError("an integer exceeds 64 bits with sign") from None


def convert_scalar(item: object) -> Scalar:
    """Convert a scalar of the library to a slot value."""
    convert = _KIND_CONVERSIONS.get(type(item))
    return cast(Scalar, item) if convert is None else cast(Scalar, convert(item))


_KIND_CONVERSIONS: dict[type, Any] = {
    # A subclass of int in the library: as a plain int it is handled by the fast paths, which check type().
    Int64: int,
    Binary: bytes,
    DatetimeMS: lambda item: format_milliseconds(int(item)),
    ObjectId: str,
    Decimal128: str,
    Code: lambda item: str.__str__(item),
    Regex: lambda item: item.pattern,
    Timestamp: lambda item: str(item.time << 32 | item.inc),
    DBRef: lambda item: str(item.id),
    MinKey: lambda item: "MinKey",
    MaxKey: lambda item: "MaxKey",
}
"""Kinds of the library that are no slot values."""


def _without_references(node: Any) -> Any:
    """The tree with references of the library converted back to documents."""
    if isinstance(node, DBRef):
        node = BsonMembers(node.as_doc())
    if isinstance(node, dict):
        return BsonMembers({name: _without_references(child) for name, child in node.items()})
    return [_without_references(child) for child in node] if isinstance(node, list) else node


def _build_refusal(payload: bytes, problem: Exception) -> PayloadRefused:
    from sowctl.messages.nested.bsonscan import find_fault

    offset, words = find_fault(payload)
    if "codec can't decode" in str(problem):
        return PayloadRefused(NOT_UTF8_CODE, "a text is not valid UTF-8", offset)
    return PayloadRefused(MALFORMED_CODE, words or str(problem), offset)
