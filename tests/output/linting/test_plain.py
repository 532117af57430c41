"""Findings as text and as JSON lines."""

from __future__ import annotations

import json

from sowctl.findings import Finding, Level, Place
from sowctl.output.linting.plain import FindingCounter, as_json, as_text

FULL = Finding(
    "X001",
    Level.ERROR,
    Place("amps.xml", 41, 7, element="/AMPSConfig/SOW"),
    "not well-formed\x1b[31m",
    "close it",
    "41 | <SOW>\n   |  ^",
)
BARE = Finding("W203", Level.WARNING, Place("a\nb.sow", offset=512), "odd")


def plain(kind: str, text: str) -> str:
    return text


def test_text() -> None:
    assert as_text(FULL, plain) == (
        "amps.xml:41:7: /AMPSConfig/SOW: error[X001]: not well-formed\\x1b[31m\n"
        "  41 | <SOW>\n"
        "     |  ^\n"
        "  hint: close it"
    )
    assert as_text(BARE, plain) == "a\\nb.sow@512: warning[W203]: odd"


def test_styles_are_named_after_levels() -> None:
    assert "<error:error[X001]>" in as_text(FULL, lambda kind, text: f"<{kind}:{text}>")


def test_json() -> None:
    row = json.loads(as_json(FULL))
    assert list(row) == ["rule", "severity", "file", "line", "column", "path", "message", "hint", "excerpt"]
    assert (row["rule"], row["severity"], row["line"], row["path"]) == ("X001", "error", 41, "/AMPSConfig/SOW")
    assert row["excerpt"] == FULL.excerpt
    assert as_json(FULL).isascii()
    assert "excerpt" not in json.loads(as_json(BARE))
    assert (json.loads(as_json(BARE))["hint"], json.loads(as_json(BARE))["offset"]) == (None, 512)


def test_tally() -> None:
    tally = FindingCounter()
    assert str(tally) == "no findings"
    assert list(tally.count_findings([FULL, BARE, FULL])) == [FULL, BARE, FULL]
    assert str(tally) == "2 errors, 1 warning"
