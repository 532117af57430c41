"""One record for a person: JSON with indentation, of other message types a field a line.

What ``get`` shows on a terminal where no format was chosen. Number texts and duplicate members stay as they are.
"""

from __future__ import annotations

from typing import BinaryIO

from sowctl.output.columns import cell_text
from sowctl.output.display import display_json
from sowctl.output.members import members
from sowctl.output.ndjson import json_values
from sowctl.output.options import Terminal
from sowctl.output.outline import OutlineEntry, outline
from sowctl.output.records import Batch, metadata


def write_record(batch: Batch, terminal: Terminal, out: BinaryIO, *, meta: bool) -> None:
    """Write the only record of ``batch``; with ``meta`` its metadata, too. Raises what ``out.write`` raises."""
    if batch.message_type == "json":
        out.write(display_json(_indent_json(json_values(batch, meta=meta)[0])) + b"\n")
        return
    record = batch.records[0]
    known = metadata(batch, record) if meta else {}
    fields = known | (members(record.payload, batch.members_view) if record.has_data else {})
    # Values are cut nowhere: this is what was asked for.
    lines = outline(OutlineEntry(0, name, cell_text(value) or "") for name, value in fields.items())
    out.write(("\n".join(lines) + "\n").encode(terminal.encoding, "backslashreplace"))


def _indent_json(text: bytes) -> bytes:
    """JSON text in lines; as it is where it is no JSON after all, or nested too deeply."""
    import msgspec

    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
