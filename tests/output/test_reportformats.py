"""Findings as SARIF and as workflow commands."""

from __future__ import annotations

import json

from sowctl.config.rules.table import by_id
from sowctl.findings import Finding, Level, Place
from sowctl.output.github import as_github
from sowctl.output.sarif import as_sarif

FULL = Finding("S022", Level.ERROR, Place("a b/amps.xml", 41, 7, element="/AMPSConfig/SOW"), "50% gone", "add it")
NOWHERE = Finding("SOW-CFG-030", Level.ERROR, Place("/etc/ü.xml"), "cannot be read")
NOTE = Finding("D002", Level.INFO, Place("c:x,y.xml", 1, 1), "two\nlines")


def test_a_workflow_command() -> None:
    assert as_github(FULL) == (
        "::error file=a b/amps.xml,line=41,col=7,title=S022 persistent-without-file::50%25 gone (add it)"
    )
    assert as_github(NOWHERE) == "::error file=/etc/ü.xml,title=SOW-CFG-030 file-unreadable::cannot be read"
    assert as_github(NOTE).startswith("::notice file=c%3Ax%2Cy.xml,line=1,col=1,title=D002 topic-as-name::two")
    assert "\n" not in as_github(NOTE)


def test_a_log() -> None:
    text = as_sarif([FULL, NOWHERE, NOTE, FULL])
    assert text.isascii()
    log = json.loads(text)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule for rule in by_id() if rule in ("S022", "D002", "SOW-CFG-030")]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note", "none")
    first, second, third, _ = run["results"]
    (place,) = first["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b/amps.xml"},
        "region": {"startLine": 41, "startColumn": 7},
    }
    assert place["logicalLocations"] == [{"fullyQualifiedName": "/AMPSConfig/SOW", "kind": "element"}]
    assert first["message"]["text"] == "50% gone (add it)"
    assert second["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "file:///etc/%C3%BC.xml"}}}]
    assert (third["level"], third["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) == (
        "note",
        "c%3Ax%2Cy.xml",
    )


def test_an_empty_log_has_a_run() -> None:
    (run,) = json.loads(as_sarif([]))["runs"]
    assert run["results"] == []
    assert run["tool"]["driver"]["name"] == "sowctl"
