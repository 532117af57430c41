"""Findings in the formats of other programs."""

from __future__ import annotations

import json
from xml.etree.ElementTree import fromstring

from msgspec.structs import replace

from sowctl.cli.parsing.options import FINDING_FORMATS
from sowctl.config.rules.table import index_rules
from sowctl.findings import Finding, Level, Place
from sowctl.output.linting.formats import FORMAT_NAMES, FORMATS, make_renderer
from sowctl.output.linting.github import as_github
from sowctl.output.linting.gitlab import as_gitlab
from sowctl.output.linting.junit import as_junit
from sowctl.output.linting.sarif import as_sarif

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
    assert [rule["id"] for rule in rules] == [rule for rule in index_rules() if rule in ("S022", "D002", "SOW-CFG-030")]
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


def test_a_test_report() -> None:
    root = fromstring(
        as_junit([FULL, NOWHERE, NOTE, Finding("D002", Level.WARNING, Place("a b/amps.xml"), "\x1b[31m")])
    )
    suites = [(one.get("name"), one.get("tests"), one.get("failures"), one.get("skipped")) for one in root]
    assert suites == [("a b/amps.xml", "2", "2", "0"), ("/etc/ü.xml", "1", "1", "0"), ("c:x,y.xml", "1", "0", "1")]
    first, second = root[0]
    assert first.get("name") == "S022 persistent-without-file a b/amps.xml:41:7"
    assert [(one.tag, one.get("type"), one.text) for one in first] == [
        ("failure", "error", "a b/amps.xml:41:7: 50% gone\nhint: add it")
    ]
    assert "\\x1b[31m" in (second[0].text or "")
    (passed,) = fromstring(as_junit([]))
    assert (passed.get("tests"), passed.get("failures"), len(passed[0])) == ("1", "0", 0)


def test_a_code_quality_report() -> None:
    text = as_gitlab([FULL, FULL, NOWHERE, NOTE])
    assert text.isascii()
    rows = json.loads(text)
    assert len({row["fingerprint"] for row in rows}) == 4
    assert [row["severity"] for row in rows] == ["major", "major", "major", "info"]
    assert rows[0]["location"] == {"path": "a b/amps.xml", "lines": {"begin": 41}}
    assert (rows[0]["check_name"], rows[0]["description"]) == ("S022", "50% gone (add it)")
    # Lines above it that come or go leave a finding what it was.
    moved = replace(FULL, place=replace(FULL.place, line=99))
    assert json.loads(as_gitlab([moved]))[0]["fingerprint"] == rows[0]["fingerprint"]


def test_every_format_writes_what_it_is_given() -> None:
    assert FORMAT_NAMES == FINDING_FORMATS
    for line in FORMATS:
        texts = list(make_renderer(line.name, lambda kind, words: f"<{kind}>{words}")([FULL, NOTE]))
        assert len(texts) == (1 if line.whole else 2)
        assert "50%" in texts[0]
        assert ("<error>" in texts[0]) == (line.name == "text")
