"""Slot values as msgpack: the cache format of rows and aggregates, with one spelling per value.

Strings that are UTF-8 are ``str``, others ``bin``; a number with its original text is extension 1 over ``[value,
text]``, extension 3 if its message type has no kinds; a value list is extension 2 over ``[items, dropped]``;
everything else is encoded as itself.
"""

from __future__ import annotations

from typing import Any

from msgspec import msgpack

from sowctl.values.fields import Number, SlotValue, ValueList

_NUMBER, _VALUES, _UNTYPED_NUMBER = 1, 2, 3


def _encode_extension(value: Any) -> Any:
    if type(value) is Number:
        return msgpack.Ext(_NUMBER if value.typed else _UNTYPED_NUMBER, _SLOT_ENCODER.encode([value.value, value.text]))
    if type(value) is ValueList:
        return msgpack.Ext(_VALUES, _SLOT_ENCODER.encode([decode_strings(value.items), value.dropped]))
    raise TypeError(f"{type(value).__name__} is no slot value")


def _decode_extension(code: int, data: memoryview) -> Any:
    first, second = _SLOT_DECODER.decode(data)
    return ValueList(tuple(first), second) if code == _VALUES else Number(first, second, code == _NUMBER)


_SLOT_ENCODER = msgpack.Encoder(enc_hook=_encode_extension)
_SLOT_DECODER = msgpack.Decoder(ext_hook=_decode_extension)


def decode_strings(values: tuple[SlotValue, ...]) -> list[SlotValue]:
    """The values with every UTF-8 String as ``str``: one spelling for equal Strings."""
    return [_decode_if_utf8(value) if type(value) is bytes else value for value in values]


def _decode_if_utf8(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def encode_slots(value: Any) -> bytes:
    """Encode a slot value, or lists, maps and plain values that contain some."""
    return _SLOT_ENCODER.encode(_decode_if_utf8(value) if type(value) is bytes else value)


def decode_slots(data: bytes | memoryview) -> Any:
    """Decode slot values from msgpack; tuples become lists."""
    return _SLOT_DECODER.decode(data)
