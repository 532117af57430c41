"""Findings as a JUnit report for build servers: a suite for each file, a failed case for each finding.

Errors and warnings are failures, milder findings are skipped cases. A report without findings has one passed case:
several readers consider a report without cases invalid.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from sowctl.config.rules.table import index_rules
from sowctl.findings import Finding, Level
from sowctl.output.display import escape_line


def as_junit(findings: Iterable[Finding], command: str = "lint") -> str:
    """The whole report of a command as XML, ASCII only."""
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.place.file, []).append(finding)
    suites = Element("testsuites", name=f"sowctl {command}")
    for file, found in files.items() or {"configurations": []}.items():
        failures = sum(finding.level >= Level.WARNING for finding in found)
        counts = {"tests": len(found) or 1, "failures": failures, "errors": 0, "skipped": len(found) - failures}
        texts = {name: str(count) for name, count in counts.items()}
        suite = SubElement(suites, "testsuite", {"name": escape_line(file)} | texts)
        for finding in found:
            _add_case(suite, finding)
        if not found:
            SubElement(suite, "testcase", classname="sowctl", name="no findings")
    indent(suites)
    report: bytes = tostring(suites, encoding="us-ascii", xml_declaration=True)
    return report.decode()


def _add_case(suite: Element, finding: Finding) -> None:
    rule = index_rules().get(finding.id)
    title = finding.id if rule is None else f"{finding.id} {rule.title}"
    # The place is part of the name, because readers treat cases with one name as one case.
    case = SubElement(
        suite, "testcase", classname=escape_line(finding.place.file), name=f"{title} {escape_line(str(finding.place))}"
    )
    lines = [f"{finding.place}: {finding.message}", finding.excerpt, finding.hint and f"hint: {finding.hint}"]
    words = {"message": escape_line(finding.message)}
    kind = "skipped"
    if finding.level >= Level.WARNING:
        kind = "failure"
        words["type"] = finding.level.name.lower()
    # Escaped as everywhere: XML cannot represent control characters.
    SubElement(case, kind, words).text = "\n".join(
        escape_line(row) for line in lines if line for row in line.split("\n")
    )
