"""Refused messages: their places in the input, and their form in rejects files (``sowctl-publish(1)``).

Formats count lines and columns within a message. This module converts them to lines and columns of the input, for all
commands that read messages: in.ndjson:7:12 is a position that editors open.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.reports import Rejected
from sowctl.values.jsonline import format_json_line

if TYPE_CHECKING:
    from sowctl.messages.framing.chunks import Chunk
    from sowctl.values.fields import Refusal

_MESSAGE_POSITION_PATTERN = re.compile(r" \(line \d+, column \d+\)$")
"""The end of a refusal's text that gives the position in the message."""


def build_rejected(
    source: str,
    place: tuple[int, int],
    reason: tuple[str, str],
    payload: bytes | None,
    at: int | None,
    *,
    enveloped: bool = False,
) -> Rejected:
    """Build the report of a refused message at ``place``, its line and byte offset; ``reason`` are code and text,
    ``at`` is the offset of the error in the message.

    A message of one line of text gets a column. For others the text has the position in the message, and so it has for
    a message from an envelope (``enveloped``), whose column in the line is not known.
    """
    line, offset = place
    code, words = reason
    column = None
    if at is not None and payload is not None:
        said = _MESSAGE_POSITION_PATTERN.search(words)
        # A column is a position in a line: a message of several lines gets an offset in bytes instead.
        before = None if b"\n" in payload else _decode_reject_text(payload[:at], any_text=said is not None)
        if before is None:
            words += "" if said else f" (byte {at} of the message)"
        elif enveloped:
            words = _MESSAGE_POSITION_PATTERN.sub("", words) + f" (column {len(before) + 1} of its data)"
        else:
            words, column = _MESSAGE_POSITION_PATTERN.sub("", words), len(before) + 1
    return Rejected(source, line, offset, code, words, payload, column)


def locate_refusal(name: str, chunk: Chunk, refusal: Refusal) -> Rejected:
    """Build the report of a refused message of a chunk of the input ``name``."""
    index = refusal.index
    place, reason = (chunk.find_line(index), chunk.find_offset(index)), (refusal.code, refusal.message)
    enveloped = chunk.envelopes is not None
    return build_rejected(name, place, reason, chunk.payloads[index], refusal.offset, enveloped=enveloped)


def locate_chunk_refusals(name: str, chunk: Chunk, refusals: Sequence[Refusal]) -> list[Rejected]:
    """List the refused frames and the refused messages of a chunk, in input order."""
    found = [build_rejected(name, (f.line, f.offset), (f.code, f.message), f.payload, f.at) for f in chunk.refused]
    found += [locate_refusal(name, chunk, refusal) for refusal in refusals]
    return sorted(found, key=lambda one: one.offset)


def _decode_reject_text(data: bytes, *, any_text: bool) -> str | None:
    """Return ``data`` as text; None if it is not UTF-8, or, unless ``any_text``, has control characters except tab and
    SOH.

    This distinguishes text formats, whose columns a reader can count, from binary ones.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    plain = any_text or text.replace("\t", "").replace("\1", "").isprintable()
    return text if plain else None


def format_reject_line(refused: Rejected, *, offset: bool = True) -> bytes:
    """Format one line of a rejects file: the place of the message, the reason, and its bytes as text or as Base64.

    ``offset``: whether the byte offset is known; for rows of tables it is not.
    """
    row: dict[str, object] = {"source": refused.source, "line": refused.line}
    if offset:
        row["byte"] = refused.offset
    if refused.column is not None:
        row["column"] = refused.column
    row |= {"code": refused.code, "error": refused.message}
    if refused.payload is not None:
        try:
            row["input"] = refused.payload.decode()
        except UnicodeDecodeError:
            row["input_base64"] = b64encode(refused.payload).decode()
    return format_json_line(row).encode() + b"\n"
