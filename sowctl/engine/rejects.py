"""Refused messages as rejects files have them, one object a line (``sowctl-publish(1)``, ``--rejects``)."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sowctl.engine.reports import Rejected


def reject_line(refused: Rejected) -> bytes:
    """One line: where the message stood, why it was refused, and its bytes as text or as Base64."""
    row: dict[str, object] = {"source": refused.source, "line": refused.line, "byte": refused.offset}
    row |= {"code": refused.code, "error": refused.message}
    if refused.payload is not None:
        try:
            row["input"] = refused.payload.decode()
        except UnicodeDecodeError:
            row["input_base64"] = b64encode(refused.payload).decode()
    return json.dumps(row).encode() + b"\n"
