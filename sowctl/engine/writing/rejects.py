"""Refused messages: where in the input they stand, and how rejects files have them (``sowctl-publish(1)``).

Formats count lines and columns within a message. Here these become the input's own, once for all commands that read
messages: in.ndjson:7:12 is what an editor goes to.
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
"""How the words of a refusal end that say where in the message it is."""


def build_rejected(
    source: str,
    place: tuple[int, int],
    reason: tuple[str, str],
    payload: bytes | None,
    at: int | None,
    *,
    enveloped: bool = False,
) -> Rejected:
    """A refused message at ``place``, its line and byte offset; ``reason`` are code and words, ``at`` the offset in the
    message of what is wrong.

    A message that is one line of text gets a column. For any other the words say where in the message it is, as for
    one that came in an envelope (``enveloped``), whose column in the line is not known.
    """
    line, offset = place
    code, words = reason
    column = None
    if at is not None and payload is not None:
        said = _MESSAGE_POSITION_PATTERN.search(words)
        # A column is a place in a line, so a message of several lines gets an offset in bytes instead.
        before = None if b"\n" in payload else _decode_reject_text(payload[:at], any_text=said is not None)
        if before is None:
            words += "" if said else f" (byte {at} of the message)"
        elif enveloped:
            words = _MESSAGE_POSITION_PATTERN.sub("", words) + f" (column {len(before) + 1} of its data)"
        else:
            words, column = _MESSAGE_POSITION_PATTERN.sub("", words), len(before) + 1
    return Rejected(source, line, offset, code, words, payload, column)


def locate_refusal(name: str, chunk: Chunk, refusal: Refusal) -> Rejected:
    """A refused message of a chunk, whose input is called ``name``."""
    index = refusal.index
    place, reason = (chunk.find_line(index), chunk.find_offset(index)), (refusal.code, refusal.message)
    enveloped = chunk.envelopes is not None
    return build_rejected(name, place, reason, chunk.payloads[index], refusal.offset, enveloped=enveloped)


def locate_chunk_refusals(name: str, chunk: Chunk, refusals: Sequence[Refusal]) -> list[Rejected]:
    """List the refused messages of a chunk, by its framing and else, in the order of the input."""
    found = [build_rejected(name, (f.line, f.offset), (f.code, f.message), f.payload, f.at) for f in chunk.refused]
    found += [locate_refusal(name, chunk, refusal) for refusal in refusals]
    return sorted(found, key=lambda one: one.offset)


def _decode_reject_text(data: bytes, *, any_text: bool) -> str | None:
    """``data`` as text; None where it is not UTF-8, or, unless ``any_text``, has control characters but tab and SOH.

    That tells formats of text, whose columns a reader can count, from binary ones.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    plain = any_text or text.replace("\t", "").replace("\1", "").isprintable()
    return text if plain else None


def format_reject_line(refused: Rejected, *, offset: bool = True) -> bytes:
    """One line: where the message stood, why it was refused, and its bytes as text or as Base64.

    ``offset``: whether the place in bytes is known; of a table's rows it is not.
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
