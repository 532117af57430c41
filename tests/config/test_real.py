"""Lint over configurations found in the wild, against a reviewed baseline; both stay outside the checkout."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from sowctl.config.lint import Linted, lint_files
from sowctl.findings import Level

Row = tuple[str, str, int]

MOVED = {"D002": -1, "S057": -2, "X001": 1}
"""Rules that report another line, with the offset of the baseline's line: D002 at the synonym, not at its entry;
S057 at the Options, not at the Module before them; X001 at the start tag that is not closed, not at its malformed end.
"""
ONLY_THERE = {("FindevGlobal__spring-cloud-stream-amps__2.xml", "X005")}
"""A file of three roots, which the baseline reports and still lints; as a fragment it has no root to report."""
NOT_IN_THE_BASELINE = {
    *("X016", "X017", "R023", "B009", "B012", "B013", "B018", "B022", "B026", "B027", "B032", "B035", "B037", "B038"),
    *("B040", "B042", "B044", "B049", "B050", "B059"),
}
"""Rules that the baseline does not have; their findings here were reviewed individually."""

MORE = defaultdict(
    Counter[Row], {"crazymatthsu__amps-demo__4.xml": Counter({("S002", "warning", line): 1 for line in (81, 96, 112)})}
)
"""Undocumented options of action modules, which the baseline does not check."""


@pytest.fixture(scope="module")
def linted(shared: Path) -> dict[str, Linted]:
    files = sorted((shared / "conformance/configs/real").glob("*.xml"))
    whole = [file for file in files if "FindevGlobal" not in file.name]
    parts = [file for file in files if "FindevGlobal" in file.name]
    found = [*lint_files(whole, environment={}), *lint_files(parts, environment={}, fragment=True)]
    return {result.path.name: result for result in found}


@pytest.fixture(scope="module")
def baseline(shared: Path) -> dict[str, Counter[Row]]:
    rows: dict[str, Counter[Row]] = defaultdict(Counter)
    with (shared / "conformance/configs/real/findings.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if (row["file"], row["rule"]) not in ONLY_THERE:
                severity = row["severity"].split()[0]
                rows[row["file"]][row["rule"], severity, int(row["line"]) - MOVED.get(row["rule"], 0)] += 1
    return rows


def test_what_the_baseline_finds_is_found(linted: dict[str, Linted], baseline: dict[str, Counter[Row]]) -> None:
    assert len(linted) == 28
    assert set(baseline) <= set(linted)
    for name, result in linted.items():
        ours = Counter((f.id, f.level.name.lower(), f.place.line or 1) for f in result.findings)
        assert not baseline[name] - ours, name
        assert {rule for rule, _, _ in ours - baseline[name] - MORE[name]} <= NOT_IN_THE_BASELINE, name


def test_every_finding_says_what_to_do(linted: dict[str, Linted]) -> None:
    for result in linted.values():
        for finding in result.findings:
            assert finding.hint and finding.place.line, finding
            assert finding.level is not Level.ADVICE
