"""Format ``ndjson``: one JSON value per line, or before each given delimiter.

A payload of type json is written unchanged, byte for byte, unless it contains line breaks; other types are their JSON
view. With metadata each line is an envelope that ends in ``data`` (the payload verbatim, if it is one line of JSON)
or ``data_base64`` (the payload's bytes): ``publish --framing envelope`` reads it back without loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from sowctl.output.display import escape_json, escape_surrogates
from sowctl.output.formats import RenderResult
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch, ShownRecord, as_stored_batch, build_metadata, build_metadata_columns


class NdjsonRenderer:
    """See the module."""

    def __init__(self, options: OutputOptions) -> None:
        self.meta = options.meta
        self.delimiter = options.delimiter
        self.terminal = options.terminal is not None

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write one line per record."""
        count = 0
        for batch in batches:
            values = encode_values(batch, meta=self.meta)
            if not values:
                continue
            count += len(values)
            text = self.delimiter.join(values) + self.delimiter
            out.write(escape_json(text) if self.terminal else text)
            out.flush()
        return RenderResult(count)


def encode_values(batch: Batch, *, meta: bool) -> Sequence[bytes]:
    """The JSON text of every record of ``batch``, each in one line."""
    if meta:
        return encode_envelopes(batch)
    payloads = batch.payloads
    if batch.message_type != "json":
        return list(map(batch.view, payloads))
    # One search over all payloads instead of a call per record; usually there is no line break.
    whole = b"".join(payloads)
    if b"\n" not in whole and b"\r" not in whole:
        return payloads
    # A line break outside of a text is white space in JSON, so the view is the same value in one line.
    return [one if b"\n" not in one and b"\r" not in one else batch.view(one) for one in payloads]


def encode_envelopes(batch: Batch) -> Sequence[bytes]:
    """The :func:`encode_envelope` of every record; for stored ones by columns, without a step for each value."""
    from sowctl.output.members import are_json_lines

    stored, payloads = as_stored_batch(batch), batch.payloads
    known = build_metadata_columns(stored) if stored is not None and are_json_lines(payloads) else None
    columns = None if known is None else list(map(_encode_texts, known.values()))
    if known is None or columns is None:
        return [encode_envelope(batch, record) for record in batch.records]
    front = "{" + "".join([f'"{name}":%s,' for name in known]) + '"data":'
    # One text for all heads, encoded at once; a line break in a value would be escaped.
    heads = "\n".join(map(front.__mod__, zip(*columns, strict=True))).encode().split(b"\n")
    return list(map(b"%b%b}".__mod__, zip(heads, payloads, strict=True)))


def _encode_texts(values: Sequence[Any]) -> list[str] | None:
    """The JSON text of each value; None if one contains a comma, or needs :func:`escape_surrogates`."""
    from sowctl.output.members import encode_compact

    if values.count(values[0]) == len(values):
        return [escape_surrogates(encode_compact(values[0]))] * len(values)
    whole = encode_compact(values)
    texts = whole[1:-1].split(",")
    return texts if len(texts) == len(values) and whole.isascii() else None


def encode_envelope(batch: Batch, record: ShownRecord) -> bytes:
    """Return metadata and payload as one JSON object in one line; a record without data gets no data member."""
    from base64 import b64encode

    from sowctl.output.members import encode_compact, is_json_line

    head = encode_compact(build_metadata(batch, record))
    front = escape_surrogates(head[:-1]).encode()
    if not record.has_data:
        return front + b"}"
    payload = record.payload
    # Byte for byte: an envelope that is read back must give the stored payload, with its spaces and digits.
    if is_json_line(payload):
        return b'%b,"data":%b}' % (front, payload)
    return b'%b,"data_base64":"%b"}' % (front, b64encode(payload))
