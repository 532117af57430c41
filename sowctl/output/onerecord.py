"""One record for people: JSON with indentation; for other message types one field per line.

The output of ``get`` on a terminal if no format was chosen. Number texts and duplicate members are unchanged.
"""

from __future__ import annotations

from typing import BinaryIO

from sowctl.output.columns import format_cell
from sowctl.output.display import escape_json
from sowctl.output.members import read_members
from sowctl.output.ndjson import encode_values
from sowctl.output.options import Terminal
from sowctl.output.outline import OutlineEntry, format_outline
from sowctl.output.records import Batch, build_metadata


def write_record(batch: Batch, terminal: Terminal, out: BinaryIO, *, meta: bool) -> None:
    """Write the only record of ``batch``; with ``meta`` its metadata, too. Raises the errors of ``out.write``."""
    if batch.message_type == "json":
        out.write(escape_json(_indent_json(encode_values(batch, meta=meta)[0])) + b"\n")
        return
    record = batch.records[0]
    known = build_metadata(batch, record) if meta else {}
    fields = known | (read_members(record.payload, batch.members_view) if record.has_data else {})
    # Values are not cut: the user requested this record.
    lines = format_outline(OutlineEntry(0, name, format_cell(value) or "") for name, value in fields.items())
    out.write(("\n".join(lines) + "\n").encode(terminal.encoding, "backslashreplace"))


def _indent_json(text: bytes) -> bytes:
    """JSON text in lines; unchanged if it is no JSON after all, or nested too deeply."""
    import msgspec

    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
