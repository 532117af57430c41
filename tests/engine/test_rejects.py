"""One line of JSON for a refused message."""

from __future__ import annotations

import json

import pytest

from sowctl.engine.rejects import reject_line
from sowctl.engine.reports import Rejected


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b'{"id":\n', {"input": '{"id":\n'}),
        ("Zürich".encode(), {"input": "Zürich"}),
        (b"\xff\x00", {"input_base64": "/wA="}),
        (b"", {"input": ""}),
        (None, {}),
    ],
)
def test_a_line_has_the_place_the_reason_and_the_bytes(payload: bytes | None, shown: dict[str, str]) -> None:
    line = reject_line(Rejected("in.ndjson", 3, 40, "SOW-MSG-001", "not JSON", payload))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found = json.loads(line)
    assert found == {"source": "in.ndjson", "line": 3, "byte": 40, "code": "SOW-MSG-001", "error": "not JSON"} | shown
