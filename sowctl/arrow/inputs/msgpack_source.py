"""Streams of MessagePack maps as messages, including those written by ``export``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, BinaryIO

from sowctl.arrow.inputs.delimited_source import RowTarget
from sowctl.arrow.inputs.rows import make_changes_error
from sowctl.arrow.inputs.table_source import chunk_messages
from sowctl.arrow.message_encoder import MessageEncoder
from sowctl.errors import InputError
from sowctl.messages.base import MAX_MESSAGE_BYTES
from sowctl.messages.framing.chunks import Chunk
from sowctl.messages.framing.envelope import Envelope
from sowctl.messages.native_values import convert_untyped

_READ_BYTES = 1 << 18
_ENVELOPE_MEMBERS = frozenset({"topic", "message_type", "timestamp", "data"})
"""Members of every map with --meta."""
_CHANGE_MEMBERS = _ENVELOPE_MEMBERS | {"change_type"}
"""Members of every map of export --changes."""


def iterate_msgpack_chunks(name: str, stream: BinaryIO, target: RowTarget) -> Iterator[Chunk]:
    """The messages of a stream of maps. For messages of type msgpack each map keeps its bytes.

    Raises InputError ``SOW-EXC-012`` if the stream is not MessagePack.
    """
    keeps_bytes = target.kind.kind == "msgpack"

    def message(raw: bytes) -> tuple[bytes, Envelope | None]:
        import msgpack

        members: Any = msgpack.unpackb(raw, unicode_errors="surrogateescape")
        if not isinstance(members, dict):
            raise ValueError("it is no map")
        data = members.get("data")
        if isinstance(data, bytes) and members.keys() >= _ENVELOPE_MEMBERS:
            key = members.get("sow_key") if target.by_user else None
            return data, Envelope(sow_key=key, correlation_id=members.get("correlation_id"))
        if keeps_bytes:
            return raw, Envelope()
        if not target.kind.constructible:
            raise ValueError(f"messages of type {target.kind.name} cannot be constructed from members")
        encoder = MessageEncoder(target.kind, [*map(str, members)], target.root)
        return encoder.encode(
            {str(key): convert_untyped(one, encoder.form) for key, one in members.items()}
        ), Envelope()

    values = _iterate_values(name, stream)
    first = list(islice(values, 1))
    if first and _is_change(first[0]):
        raise make_changes_error(name)
    yield from chunk_messages(chain(first, values), message)


def _is_change(raw: bytes) -> bool:
    """Return whether a map belongs to a change feed, which has no other maps."""
    import msgpack

    try:
        members: Any = msgpack.unpackb(raw, unicode_errors="surrogateescape")
    except (ValueError, msgpack.UnpackException):
        return False
    # A record may have members of these names, but as a member of a record, data is no message's bytes.
    return isinstance(members, dict) and members.keys() >= _CHANGE_MEMBERS and isinstance(members["data"], bytes)


def _iterate_values(name: str, stream: BinaryIO) -> Iterator[bytes]:
    """The bytes of each value of a stream."""
    import msgpack

    read = getattr(stream, "read1", stream.read)
    unpacker = msgpack.Unpacker(max_buffer_size=2 * MAX_MESSAGE_BYTES + _READ_BYTES)
    held, begin = b"", 0
    while data := read(_READ_BYTES):
        try:
            unpacker.feed(data)
            held += data
            at = begin
            while True:
                try:
                    unpacker.skip()
                except msgpack.OutOfData:
                    break
                end = unpacker.tell()
                yield held[at - begin : end - begin]
                at = end
        except (ValueError, msgpack.UnpackException) as problem:
            words = f"cannot read the file as MessagePack: {problem or type(problem).__name__}"
            raise InputError("SOW-EXC-012", words, place=name) from None
        held, begin = held[at - begin :], at
    if held:
        raise InputError("SOW-EXC-012", "cannot read the file as MessagePack: it ends within a value", place=name)
