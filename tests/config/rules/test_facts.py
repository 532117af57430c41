"""Facts about messages and machine in comments, and findings about comments without effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.lint import lint_files
from sowctl.config.problems import UNKNOWN_WORD_CODE
from sowctl.config.rules.facts import Facts, find_comment_faults, parse_facts

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("<!-- sowctl: assume largest-message=2MB cores=16 memory=64GB -->", Facts(2 << 20, 16, 64 << 30)),
        ("<!--sowctl:assume cores=8,memory=1k-->", Facts(cores=8, memory=1024)),
        ("<!-- sowctl-lint assume cores=8 because cores=4 is too few -->", Facts(cores=8)),
        (
            "<!-- sowctl: assume cores=8 -->\n<x/>\n<!-- sowctl: assume\n cores=4\n memory=1GB -->",
            Facts(None, 4, 1 << 30),
        ),
        ("<!-- sowctl: assume cores=0 memory=much largest-message= -->", Facts()),
        ("<!-- sowctl: ignore cores=8 --> sowctl: assume cores=8", Facts()),
    ],
)
def test_facts_of_comments(text: str, facts: Facts) -> None:
    assert parse_facts(text) == facts


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (" cores=8 memory=1GB because it is so ", 0),
        (" ", 1),
        (" cpus=8 ", 1),
        (" cores ", 1),
        (" cores=-1, memory=1XB, " + "9" * 5000, 3),
        (" memory=" + "9" * 4000, 1),
    ],
)
def test_what_has_no_effect(words: str, count: int) -> None:
    found = find_comment_faults(words)
    assert len(found) == count
    assert all(len(fault) < 100 for fault in found)


def test_lint_tells(write: Write) -> None:
    file = write("<!-- sowctl: assume cores=many -->\n<AMPSConfig><Name>n</Name></AMPSConfig>")
    (result,) = lint_files([file], environment={})
    (finding,) = result.findings
    assert finding.place.line == 1 and "'many'" in finding.message and "cores" in finding.message


def test_an_included_file_cannot_say_what_to_assume(write: Write) -> None:
    write("<!-- sowctl: assume cores=8 -->\n<Part><Name>n</Name></Part>", "part.xml")
    file = write("<!-- sowctl: assume cores=8 -->\n<AMPSConfig><Include>part.xml</Include></AMPSConfig>")
    (result,) = lint_files([file], environment={})
    (found,) = [finding for finding in result.findings if finding.id == UNKNOWN_WORD_CODE]
    assert (Path(found.place.file).name, found.place.line) == ("part.xml", 1)
    assert "main file" in found.message
