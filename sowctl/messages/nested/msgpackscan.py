"""Find the fault of a MessagePack payload: a walk over bytes that the library refused, and no others."""

from __future__ import annotations

_FIXED_SIZES = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4,
    0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
"""Bytes after the head, where the head says it all."""
_TEXT_LENGTH_BYTES = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_LENGTH_LAYOUTS = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
"""Bytes of the length, and bytes beyond what the length says: the code of an extension type."""
_CONTAINER_LAYOUTS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Bytes of the count, and values per item."""


def find_fault(payload: bytes) -> tuple[int | None, str | None]:
    """Offset and words of the first thing wrong, None where only the library can say."""
    position = 0
    # A walk without recursion: broken payloads may be nested to any depth.
    waiting = [1]
    """Values still to come in each open container; negative in a map, whose names stand at even counts."""
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
            return start, "the name of a member is no string"
        position, inner, text = _step_over_value(payload, start, head)
        if position > len(payload):
            return start, f"a value of {position - start:,} bytes does not fit: {len(payload) - start:,} bytes are left"
        if text:
            try:
                payload[text:position].decode()
            except UnicodeDecodeError as problem:
                # The place alone: what the library said about the encoding becomes the words.
                return text + problem.start, None
        if inner:
            waiting.append(inner)
    if position < len(payload):
        return position, f"{len(payload) - position:,} bytes after the end of the value"
    return None, None


def _is_name(head: int) -> bool:
    return 0xA0 <= head < 0xC0 or head in (0xC4, 0xC5, 0xC6, *_TEXT_LENGTH_BYTES)


def _step_over_value(payload: bytes, at: int, head: int) -> tuple[int, int, int]:
    """Return the end of the value at ``at`` (of a container: its head), its values, its text's start or 0."""
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
