"""Find the fault of a BSON payload: a walk over its bytes, only for payloads that the library refused."""

from __future__ import annotations

from sowctl.values.display import format_count

_FIXED_SIZES = {
    0x01: 8, 0x06: 0, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x11: 8, 0x12: 8, 0x13: 16, 0x7F: 0, 0xFF: 0,
}  # fmt: skip
"""Bytes of the value of a kind of element."""
_TEXT_KINDS = (0x02, 0x0D, 0x0E)
_DOCUMENT_KINDS = (0x03, 0x04)
_MIN_DOCUMENT_BYTES = 5


class _FaultError(Exception):
    def __init__(self, offset: int, words: str | None) -> None:
        self.where = offset, words


def find_fault(payload: bytes) -> tuple[int | None, str | None]:
    """Offset and description of the first fault, None if only the library knows."""
    try:
        _walk_document(payload)
    except _FaultError as found:
        return found.where
    return None, None


def _walk_document(payload: bytes) -> None:
    if len(payload) < _MIN_DOCUMENT_BYTES:
        raise _FaultError(len(payload), f"a document has at least {_MIN_DOCUMENT_BYTES} bytes")
    size = _read_int32(payload, 0)
    if size != len(payload):
        raise _FaultError(
            0, f"the document says that it has {format_count(size, 'byte')}; the message has {len(payload):,}"
        )
    # The end of each open document; the innermost is the last one.
    ends = [size]
    position = 4
    while ends:
        end = ends[-1]
        if position >= end:
            raise _FaultError(end, "a document does not end with a zero byte")
        start, kind = position, payload[position]
        # A zero byte ends a document, and must be at the end given by its size.
        if kind == 0:
            if position + 1 != end:
                raise _FaultError(position, "a document ends before its last byte")
            ends.pop()
            position += 1
            continue
        position = _find_text_end(payload, position + 1, end)
        if kind in _DOCUMENT_KINDS:
            # Checked before it is entered: a size beyond the enclosing document would mislead the walk.
            inner = _read_int32(payload, position) if position + _MIN_DOCUMENT_BYTES <= end else 0
            if inner < _MIN_DOCUMENT_BYTES or position + inner >= end:
                raise _FaultError(position, "the size of a document is wrong")
            ends.append(position + inner)
            position += 4
            continue
        position = _find_value_end(payload, kind, position, end, start)


def _find_value_end(payload: bytes, kind: int, position: int, end: int, start: int) -> int:
    """Find the offset where the value of an element ends."""
    if kind in _FIXED_SIZES:
        after = position + _FIXED_SIZES[kind]
    elif kind in _TEXT_KINDS or kind == 0x0C:
        length = _read_int32(payload, position) if position + 4 < end else 0
        after = position + 4 + length
        if length < 1 or after >= end or payload[after - 1]:
            raise _FaultError(position, "the length of a string is wrong")
        _check_utf8(payload, position + 4, after - 1)
        # A DBPointer (0x0C) is a text followed by an ObjectId of 12 bytes.
        after += 12 if kind == 0x0C else 0
    elif kind == 0x05:
        # The length is followed by a byte with the kind of binary data, which the length does not count.
        length = _read_int32(payload, position) if position + 4 < end else -1
        if length < 0:
            raise _FaultError(position, "the length of binary data is wrong")
        after = position + 5 + length
    elif kind == 0x0B:
        # A regular expression is two texts: the pattern and its options.
        after = _find_text_end(payload, _find_text_end(payload, position, end), end)
    elif kind == 0x0F:
        # Code with a scope counts its own length field; a text and a document have at least 14 bytes.
        after = position + max(_read_int32(payload, position), 14) if position + 4 < end else end
    else:
        raise _FaultError(start, f"0x{kind:02x} is not an element type")
    if after >= end:
        raise _FaultError(position, "a value does not fit into its document")
    return after


def _find_text_end(payload: bytes, position: int, end: int) -> int:
    """Find the offset where the zero-terminated text at ``position`` ends."""
    zero = payload.find(b"\0", position, end)
    if zero < 0:
        raise _FaultError(position, "a name has no end")
    _check_utf8(payload, position, zero)
    return zero + 1


def _check_utf8(payload: bytes, start: int, end: int) -> None:
    try:
        payload[start:end].decode()
    except UnicodeDecodeError as problem:
        raise _FaultError(start + problem.start, None) from None


def _read_int32(payload: bytes, position: int) -> int:
    return int.from_bytes(payload[position : position + 4], "little", signed=True)
