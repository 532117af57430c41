"""The bytes of BFlat messages: reading and writing fields (``sowctl-messages(7)``, bflat).

A message is a sequence of fields. The first byte of a field is an array flag (0x80), four bits of type and three bits
of tag length, 0 if a ULEB128 with the length follows; then come the tag and the value, or a ULEB128 with a count and
that number of values. Integers and doubles are little-endian. Only :mod:`sowctl.messages.tagged.bflat` uses this
module.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

from msgspec import Struct

from sowctl.messages.base import MALFORMED_CODE, MAX_FIELDS, PayloadRefused, build_field_count_refusal
from sowctl.values.display import format_count
from sowctl.values.fields import Scalar
from sowctl.values.times import format_milliseconds

NULL, STRING, BINARY, INT8, INT16, INT32, INT64, DOUBLE, DATETIME, LEB128 = range(10)
_TYPE_NAMES = ("null", "string", "binary", "int8", "int16", "int32", "int64", "double", "datetime", "leb128")
_TYPE_SIZES = (0, 0, 0, 1, 2, 4, 8, 8, 8, 0)
"""Bytes of a value of fixed size, by type."""
_INTEGER_WIDTHS = ((INT8, 1), (INT16, 2), (INT32, 4), (INT64, 8))
_DOUBLE_LAYOUT = struct.Struct("<d")
_ARRAY_FLAG = 0x80
_TEXTS, _NUMBERS, _SIMPLE = STRING << 3, INT8 << 3, LEB128 << 3
"""First bytes from which on there are texts, numbers, and values whose length is only found by reading them."""
_MAX_LENGTH_BYTES = 10
_MAX_LEB128_BYTES = 19
_MAX_ARRAY_NULLS = 1 << 16
"""Maximum number of values of NULL arrays in a message: they have no bytes, so its size does not limit their number."""
_MIN_INTEGER = -(1 << 63)
_INTEGER_LIMIT = 1 << 64


class ScannedField(Struct, frozen=True):
    """One field: its tag, its start and end, and its values, if wanted."""

    tag: bytes
    start: int
    end: int
    values: list[Scalar]


def scan_fields(payload: bytes, wanted: Collection[bytes] | None = None) -> list[ScannedField]:
    """The fields in order, all or those of some tags; all are checked. Raises PayloadRefused with the place."""
    fields: list[ScannedField] = []
    position, end, nulls, number = 0, len(payload), 0, 0
    while position < end:
        start = position
        number += 1
        if number > MAX_FIELDS:
            raise build_field_count_refusal()
        head = payload[start]
        # The fast path over an unwanted field: a short tag, one value, and a length of at most one byte.
        size = head & 7
        if wanted is not None and size and head < _SIMPLE and payload[start + 1 : start + 1 + size] not in wanted:
            after = start + 1 + size
            if not _TEXTS <= head < _NUMBERS:
                position = after + _TYPE_SIZES[head >> 3]
            elif after < end and payload[after] < 0x80:
                position = after + 1 + payload[after]
            else:
                position = end + 1
            if position <= end:
                continue
            # Truncated, or a long text: the code below handles all cases.
        kind, tag, position = _read_field_head(payload, start)
        count = 1
        if head & _ARRAY_FLAG:
            count, position = _read_length(payload, position)
            nulls += count if kind == NULL else 0
            # Checked before anything is created: every value except NULL has at least one byte, so a larger count is
            # invalid.
            if nulls > _MAX_ARRAY_NULLS or (kind != NULL and count > end - position):
                raise PayloadRefused(
                    MALFORMED_CODE, f"an array of {format_count(count, 'value')} is longer than its message", start
                )
        if wanted is None or tag in wanted:
            values, position = _read_values(payload, position, kind, count)
            fields.append(ScannedField(tag, start, position, values))
        else:
            position = _skip_values(payload, position, kind, count)
        # Slices of bytes silently stop at the end, so the position is checked after every value.
        if position > end:
            raise PayloadRefused(MALFORMED_CODE, f"the message ends inside a value of type {_TYPE_NAMES[kind]}", start)
    return fields


def _read_field_head(payload: bytes, start: int) -> tuple[int, bytes, int]:
    """Type and tag of the field that begins at ``start``, and the position after them."""
    # Four bits could encode sixteen types; the format has ten.
    kind = (payload[start] >> 3) & 15
    size, position = payload[start] & 7, start + 1
    if kind > LEB128:
        raise PayloadRefused(MALFORMED_CODE, f"unknown field type {kind}", start)
    if not size:
        size, position = _read_length(payload, position)
    if position + size > len(payload):
        raise PayloadRefused(MALFORMED_CODE, "the message ends inside a tag", start)
    return kind, payload[position : position + size], position + size


def _read_length(payload: bytes, position: int) -> tuple[int, int]:
    """An unsigned LEB128 number, and the position after it."""
    value = shift = 0
    # An unterminated length must not make Python build a huge number.
    for at in range(position, min(position + _MAX_LENGTH_BYTES, len(payload))):
        byte = payload[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise PayloadRefused(MALFORMED_CODE, "a length does not end", position)


def _read_leb128(payload: bytes, position: int) -> tuple[int, int]:
    """A signed LEB128 number, and the position after it."""
    value = shift = 0
    for at in range(position, min(position + _MAX_LEB128_BYTES, len(payload))):
        byte = payload[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            # Bit 6 of the last byte is the sign of the whole number.
            return value - (1 << shift) if byte & 0x40 else value, at + 1
    raise PayloadRefused(MALFORMED_CODE, "a leb128 number does not end", position)


def _skip_values(payload: bytes, position: int, kind: int, count: int) -> int:
    """The position after ``count`` values."""
    size = _TYPE_SIZES[kind]
    # Values of a fixed size are skipped by one multiplication; NULLs have no bytes.
    if size or kind == NULL:
        return position + size * count
    for _ in range(count):
        if kind == LEB128:
            position = _read_leb128(payload, position)[1]
        else:
            size, position = _read_length(payload, position)
            position += size
            if position > len(payload):
                return position
    return position


def _read_values(payload: bytes, position: int, kind: int, count: int) -> tuple[list[Scalar], int]:
    """``count`` values and the position after them, beyond the end if they are truncated."""
    if kind == NULL:
        return [None] * count, position
    values: list[Scalar] = []
    for _ in range(count):
        if kind == LEB128:
            number, position = _read_leb128(payload, position)
            # A number beyond the range of Integers is a Double, as everywhere in the language.
            values.append(number if _MIN_INTEGER <= number < _INTEGER_LIMIT else float(number))
            continue
        size = _TYPE_SIZES[kind]
        if not size:
            size, position = _read_length(payload, position)
        raw = payload[position : position + size]
        position += size
        if position > len(payload):
            return values, position
        values.append(_decode_value(kind, raw))
    return values, position


def _decode_value(kind: int, raw: bytes) -> Scalar:
    if kind == STRING:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw
    if kind == BINARY:
        return raw
    if kind == DOUBLE:
        number: float = _DOUBLE_LAYOUT.unpack(raw)[0]
        return number
    whole = int.from_bytes(raw, "little", signed=True)
    return format_milliseconds(whole) if kind == DATETIME else whole


def encode_field(tag: bytes, value: bool | int | float | str | bytes | None) -> bytes:
    """One field with a scalar: integers in the smallest width, Booleans as 1 and 0, bytes that are no text as
    binary."""
    if value is None:
        return _encode_head(NULL, tag)
    if isinstance(value, float):
        return _encode_head(DOUBLE, tag) + _DOUBLE_LAYOUT.pack(value)
    # A bool is an int in Python and is written as 1 or 0, because the format has no Booleans.
    if isinstance(value, int):
        return _encode_integer(tag, int(value))
    raw = value.encode() if isinstance(value, str) else value
    kind = STRING
    if isinstance(value, bytes):
        try:
            raw.decode()
        except UnicodeDecodeError:
            # All UTF-8 is written as a string, whether it was text or bytes.
            kind = BINARY
    return _encode_head(kind, tag) + _encode_uleb128(len(raw)) + raw


def _encode_integer(tag: bytes, value: int) -> bytes:
    # The smallest width for the number with its sign.
    for kind, width in _INTEGER_WIDTHS:
        if -(1 << (8 * width - 1)) <= value < 1 << (8 * width - 1):
            return _encode_head(kind, tag) + value.to_bytes(width, "little", signed=True)
    parts = bytearray()
    # The last byte has seven bits including the sign, so its range is -64 to 63.
    while not -64 <= value < 64:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value & 0x7F)
    return _encode_head(LEB128, tag) + bytes(parts)


def _encode_head(kind: int, tag: bytes) -> bytes:
    # A short tag has its length in the first byte; 0 there means that the length follows.
    if 0 < len(tag) < 8:
        return bytes([kind << 3 | len(tag)]) + tag
    return bytes([kind << 3]) + _encode_uleb128(len(tag)) + tag


def _encode_uleb128(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
