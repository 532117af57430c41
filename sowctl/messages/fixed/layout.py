"""The layout of struct messages: from texts of ``Field`` elements to fields with offsets (``sowctl-messages(7)``).

A text is ``/name = [order][count]code``. Sizes are the standard ones in every order, without padding between fields;
``<`` is little-endian and the default, ``>`` is big-endian, ``@`` and ``=`` are the byte order of this machine.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Sequence

from msgspec import Struct

from sowctl.errors import ConfigError, UsageError
from sowctl.messages.base import BAD_DEFINITION
from sowctl.values.fields import Scalar
from sowctl.values.paths import Path, parse_path

_FIELD_PATTERN = re.compile(r"\s*(\S.*?)\s*=\s*([@=<>]?)\s*([0-9]*)\s*([A-Za-z?])\s*", re.DOTALL)
_STRUCT_CODES = {
    "c": "c", "b": "b", "B": "B", "?": "?", "h": "h", "H": "H", "i": "i", "I": "I", "l": "i", "L": "I", "q": "q",
    "Q": "Q", "n": "q", "N": "Q", "f": "f", "d": "d",
}  # fmt: skip
"""The codes of one value as codes of :mod:`struct`, whose standard sizes they have."""
_BYTES_CODES = "sSp"
_MAX_LAYOUT_BYTES = 64 << 20
LAYOUT_HINT = "fields look like '/price = d', '/symbol = 8S' or '/pad = 3x'"


class StructField(Struct, frozen=True):
    """One field: its path and its reader. ``read`` returns the values in the payload."""

    path: Path
    read: Callable[[bytes], Sequence[Scalar]]


def parse_layout(texts: Sequence[str], place: str) -> tuple[list[StructField], int]:
    """The fields with values, in order, and the total size. Raises ConfigError ``SOW-MSG-007``."""
    if not texts:
        raise ConfigError(BAD_DEFINITION, "a struct message type needs a Field", place=place or None, hint=LAYOUT_HINT)
    fields: list[StructField] = []
    offset = 0
    for text in texts:
        match = _FIELD_PATTERN.fullmatch(text)
        if match is None:
            raise ConfigError(
                BAD_DEFINITION, f"{text!r} is not a field of a struct", place=place or None, hint=LAYOUT_HINT
            )
        path, order, count, code = _parse_field_path(match[1], place), match[2], match[3], match[4]
        try:
            # Fields are contiguous, so each begins where the previous one ends.
            size, read = _make_value_reader(order, count, code, offset)
        except ValueError as problem:
            raise ConfigError(
                BAD_DEFINITION, f"{text.strip()!r}: {problem}", place=place or None, hint=LAYOUT_HINT
            ) from None
        if read is not None:
            fields.append(StructField(path, read))
        offset += size
        if offset > _MAX_LAYOUT_BYTES:
            words = f"the fields of a struct have {offset:,} bytes together, more than {_MAX_LAYOUT_BYTES:,}"
            raise ConfigError(BAD_DEFINITION, words, place=place or None)
    _refuse_overlap(fields, place)
    return fields, offset


def _refuse_overlap(fields: Sequence[StructField], place: str) -> None:
    """Refuse a field below a name that has a value."""
    names = {field.path.names for field in fields}
    for one in names:
        for length in range(1, len(one)):
            if one[:length] in names:
                words = f"/{'/'.join(one[:length])} is a field and holds the field /{'/'.join(one)}"
                raise ConfigError(BAD_DEFINITION, words, place=place or None, hint="give one of them another name")


def _parse_field_path(text: str, place: str) -> Path:
    try:
        path = parse_path(text)
    except UsageError as problem:
        raise ConfigError(BAD_DEFINITION, problem.message, place=place or None, hint=LAYOUT_HINT) from None
    if any(step.index is not None for step in path.steps):
        words = f"{text!r}: the name of a field has no subscript"
        raise ConfigError(BAD_DEFINITION, words, place=place or None, hint=LAYOUT_HINT)
    return path


def _make_value_reader(
    order: str, count: str, code: str, offset: int
) -> tuple[int, Callable[[bytes], Sequence[Scalar]] | None]:
    """Size and reader of one field; no reader for padding. Raises ValueError."""
    # At most nine digits are read: Python refuses very long integers, and such a count is refused below anyway.
    times = int(count[:9]) if count else 1
    if times > _MAX_LAYOUT_BYTES or len(count) > 9:
        raise ValueError("the count is too large")
    if code == "x":
        return times, None
    # Here the count is a length in bytes, not a number of values.
    if code in _BYTES_CODES:
        if not count or not times:
            raise ValueError(f"code {code} needs a count of bytes")
        return times, _bytes_reader(code, offset, offset + times)
    if code not in _STRUCT_CODES:
        raise ValueError(f"unknown code {code}")
    if not times:
        raise ValueError("a count of 0 leaves no value")
    # One of the two orders is always given: without it the module struct would align fields and use the machine's
    # sizes.
    mark = order if order in "<>" and order else "<" if not order or sys.byteorder == "little" else ">"
    one = struct.Struct(f"{mark}{times}{_STRUCT_CODES[code]}")
    unpack = one.unpack_from
    return one.size, lambda payload: unpack(payload, offset)


def _bytes_reader(code: str, start: int, end: int) -> Callable[[bytes], Sequence[Scalar]]:
    """``s``: all bytes; ``S``: those before the first NUL; ``p``: the number given by the first byte."""
    if code == "s":
        return lambda payload: (payload[start:end],)
    if code == "S":
        return lambda payload: (payload[start:end].partition(b"\0")[0] or None,)
    return lambda payload: (payload[start + 1 : min(start + 1 + payload[start], end)] or None,)
