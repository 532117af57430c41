"""The table of the formats of findings. A format exists if and only if it has a row here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from sowctl.findings import Finding


class LintFormat(Struct, frozen=True):
    """One row: its name, module and function in ``sowctl.output.linting``, and its description.

    ``whole``: the function formats all findings as one document; otherwise each finding as one line.
    """

    name: str
    module: str
    function: str
    summary: str
    whole: bool = False


FORMATS: tuple[LintFormat, ...] = (
    LintFormat("text", "plain", "as_text", "for people: place, finding, excerpt and hint"),
    LintFormat("json", "plain", "as_json", "one JSON object a line"),
    LintFormat("sarif", "sarif", "as_sarif", "a SARIF 2.1.0 log", whole=True),
    LintFormat("github", "github", "as_github", "workflow commands of GitHub Actions"),
    LintFormat("junit", "junit", "as_junit", "a JUnit test report in XML, a suite for each file", whole=True),
    LintFormat("gitlab", "gitlab", "as_gitlab", "a code quality report of GitLab", whole=True),
)
FORMAT_NAMES = tuple(line.name for line in FORMATS)


def make_renderer(
    name: str, style: Callable[[str, str], str], columns: int | None = None, command: str = "lint"
) -> Callable[[Iterable[Finding]], Iterable[str]]:
    """Return the function that formats findings as texts without trailing line feeds, lazily if possible.

    ``style`` colours the words of the format text, whose lines are broken between words at ``columns``, if given.
    ``command`` is the one that found them, for the JUnit report.
    """
    line = next(line for line in FORMATS if line.name == name)
    function: Any = getattr(importlib.import_module(f"sowctl.output.linting.{line.module}"), line.function)
    if name == "junit":
        return lambda findings: [function(findings, command)]
    if line.whole:
        return lambda findings: [function(findings)]
    if name == "text":
        return lambda findings: (function(finding, style, columns) for finding in findings)
    return lambda findings: map(function, findings)
