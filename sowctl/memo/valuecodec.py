"""Distinct slot values encoded as MessagePack, with extension types (``sow-memo(5)``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sowctl.values.fields import Number, SlotValue, ValueList

_NUMBER, _VALUES, _UNTYPED_NUMBER = 1, 2, 3


def encode_values(words: Sequence[SlotValue]) -> bytes:
    """Encode values. Raises OverflowError for an Integer of more than 64 bits."""
    import msgpack

    # strict_types: a subclass must not be encoded as its base, or it would be decoded as another type.
    packed: bytes = msgpack.packb(list(words), default=_extend_value, strict_types=True)
    return packed


def _extend_value(value: object) -> Any:
    import msgpack

    if isinstance(value, Number):
        return msgpack.ExtType(_NUMBER if value.typed else _UNTYPED_NUMBER, msgpack.packb([value.value, value.text]))
    assert isinstance(value, ValueList)
    return msgpack.ExtType(_VALUES, msgpack.packb([list(value.items), value.dropped], default=_extend_value))


def decode_values(data: bytes | memoryview) -> list[SlotValue]:
    """Decode the values encoded by :func:`encode_values`."""
    import msgpack

    words: list[SlotValue] = msgpack.unpackb(data, ext_hook=_restore_extended, strict_map_key=False)
    return words


def _restore_extended(code: int, data: bytes) -> SlotValue:
    import msgpack

    # A list may contain numbers with a text, which are extensions inside its extension.
    parts = msgpack.unpackb(data, ext_hook=_restore_extended)
    if code == _VALUES:
        return ValueList(tuple(parts[0]), parts[1])
    return Number(parts[0], parts[1], code == _NUMBER)
