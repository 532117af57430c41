"""One line of JSON per rejected message."""

from __future__ import annotations

import json

import pytest

from sowctl.engine.reports import Rejected
from sowctl.engine.writing.rejects import build_rejected, format_reject_line


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
    line = format_reject_line(Rejected("in.ndjson", 3, 40, "SOW-MSG-001", "not JSON", payload))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found = json.loads(line)
    assert found == {"source": "in.ndjson", "line": 3, "byte": 40, "code": "SOW-MSG-001", "error": "not JSON"} | shown


@pytest.mark.parametrize(
    ("payload", "at", "words", "column", "shown"),
    [
        ('{"ü":x}'.encode(), 6, "wrong (line 1, column 6)", 6, "wrong"),
        (b'{\n"a":x}', 6, "wrong (line 2, column 5)", None, "wrong (line 2, column 5)"),
        (b"\x1f\x8b", 1, "byte 0x8b (line 1, column 2)", 2, "byte 0x8b"),
        (b"35=D\x01bad", 5, "no equals sign", 6, "no equals sign"),
        (b"\x82\xa1a", 1, "a wrong byte", None, "a wrong byte (byte 1 of the message)"),
        (b"{}", None, "no key", None, "no key"),
        (None, 5, "too long", None, "too long"),
    ],
)
def test_places_in_a_message_become_places_in_the_input(
    payload: bytes | None, at: int | None, words: str, column: int | None, shown: str
) -> None:
    found = build_rejected("in", (3, 40), ("SOW-MSG-002", words), payload, at)
    assert (found.column, found.message) == (column, shown)
    assert found.place == ("in:3" if column is None else f"in:3:{column}")


def test_the_column_stands_in_the_line_of_a_rejects_file() -> None:
    assert json.loads(format_reject_line(Rejected("in", 3, 40, "SOW-MSG-002", "wrong", b"{x", 2)))["column"] == 2
