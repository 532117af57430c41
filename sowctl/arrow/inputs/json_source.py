"""JSON objects as messages of other types than json: their members become fields, as for MessagePack."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sowctl.arrow.inputs.delimited_source import RowTarget, build_refused_frame
from sowctl.arrow.inputs.rows import convert_json_value
from sowctl.arrow.message_encoder import UNWRITABLE_ERRORS, MessageEncoder
from sowctl.messages.composite.type import number_parts
from sowctl.messages.framing.chunks import Chunk, Places, RefusedFrame
from sowctl.messages.framing.frames import FrameReader
from sowctl.values.jsontree import parse_json


def iterate_json_chunks(reader: FrameReader, target: RowTarget) -> Iterator[Chunk]:
    """The messages of the objects of ``reader``. Of duplicate members the first counts; numbers keep their digits if
    the type can represent them."""

    def encode(data: bytes) -> bytes:
        try:
            members = parse_json(data.decode())
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if isinstance(members, list) and target.kind.kind == "composite-local":
            members = number_parts(members)
        if not isinstance(members, dict):
            raise ValueError("it is no JSON object")
        encoder = MessageEncoder(target.kind, [*members], target.root)
        return encoder.encode({name: convert_json_value(value, encoder.form) for name, value in members.items()})

    for chunk in reader:
        payloads: list[bytes] = []
        kept: list[int] = []
        refused: list[RefusedFrame] = chunk.refused
        for index, data in enumerate(chunk.payloads):
            try:
                payloads.append(encode(data))
            except (*UNWRITABLE_ERRORS, KeyError) as problem:
                refused.append(build_refused_frame(chunk.find_line(index), problem, data, chunk.find_offset(index)))
            else:
                kept.append(index)
        refused.sort(key=lambda frame: frame.offset)
        places = [chunk.places[0][index] for index in kept], [chunk.places[1][index] for index in kept]
        yield Chunk(payloads, partial(_get_places, places), chunk.end, refused, chunk.blank)


def _get_places(places: Places) -> Places:
    return places
