"""Findings as a SARIF 2.1.0 log: one run, its rules with their pages, and one result for each finding."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sowctl.config.rules.pages import find_page
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import index_rules
from sowctl.findings import Finding, Level
from sowctl.version import VERSION

SCHEMA_URL = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note", Level.ADVICE: "note"}


def as_sarif(findings: Iterable[Finding]) -> str:
    """The whole log as JSON, ASCII only. Columns count characters; file names are as given."""
    found = list(findings)
    rules = {rule.id: rule for rule in index_rules().values() if any(finding.id == rule.id for finding in found)}
    numbers = {rule: number for number, rule in enumerate(rules)}
    run = {
        "tool": {
            "driver": {"name": "sowctl", "version": VERSION, "rules": [_rule_object(rule) for rule in rules.values()]}
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result_object(finding, numbers) for finding in found],
    }
    return json.dumps({"$schema": SCHEMA_URL, "version": "2.1.0", "runs": [run]}, indent=1)


def _rule_object(rule: Rule) -> dict[str, Any]:
    page = find_page(rule)
    what, why, instead = (text.replace("``", "`") for text in (page.what, page.why, page.instead))
    return {
        "id": rule.id,
        "name": rule.title,
        "shortDescription": {"text": what},
        "fullDescription": {"text": why[:1].upper() + why[1:]},
        "help": {"text": f"Instead: {instead}"},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
    }


def _result_object(finding: Finding, numbers: dict[str, int]) -> dict[str, Any]:
    place = finding.place
    physical: dict[str, Any] = {"artifactLocation": {"uri": _file_uri(place.file)}}
    if place.line is not None:
        column = {} if place.column is None else {"startColumn": place.column}
        physical["region"] = {"startLine": place.line, **column}
    location: dict[str, Any] = {"physicalLocation": physical}
    if place.element is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": place.element, "kind": "element"}]
    message = finding.message if finding.hint is None else f"{finding.message} ({finding.hint})"
    result = {
        "ruleId": finding.id,
        "level": _LEVELS[finding.level],
        "message": {"text": message},
        "locations": [location],
    }
    # A finding without a rule has no entry in the list of rules.
    return result if finding.id not in numbers else {**result, "ruleIndex": numbers[finding.id]}


def _file_uri(file: str) -> str:
    """A relative reference for a relative path, else a file URI."""
    path = Path(file)
    if path.is_absolute():
        return path.as_uri()
    # A colon before the first slash would be parsed as a scheme.
    return quote(path.as_posix(), safe="/._-~")
