"""Every rule over files: ``cases/ID-bad.xml`` breaks it, ``cases/ID-good.xml`` does not.

A second pair is ``ID-bad-2.xml`` and ``ID-good-2.xml`` and so on; included files are in ``cases/parts/``. Each bad
file has a comment with the expected findings, and with other rules that the same defect breaks, if there are any::

    <!-- expect: 12 error -->
    <!-- expect: 12 warning 17 warning; also F016 -->

that is, pairs of a line and a severity: exactly the findings of the rule, in the order of the lines. Bad and good files
break no rule of a family other than advice (B) except those listed after ``also``; their advice is checked only in the
files of the rules B. No variables are set except HOME, which is
``/home/amps``, and CASES, the directory of the cases.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sowctl.config.lint import lint_files
from sowctl.config.rules.table import RULES
from sowctl.findings import Finding

CASES = Path(__file__).parent / "cases"
ENVIRONMENT = {"HOME": "/home/amps", "CASES": str(CASES)}
EXPECT = re.compile(rb"<!-- expect: ((?:\d+ (?:error|warning|info) ?)+)(?:; also ([A-Z0-9, -]+))? ?-->")


def of(pattern: str) -> list[Path]:
    return sorted(CASES.glob(pattern))


def findings_of(path: Path) -> list[Finding]:
    (linted,) = lint_files([path], environment=ENVIRONMENT)
    return linted.findings


def rule_of(path: Path) -> str:
    return re.split("-(?:bad|good)", path.stem)[0]


@pytest.mark.parametrize("path", of("*-bad*.xml"), ids=lambda path: path.stem)
def test_a_bad_file_breaks_its_rule(path: Path) -> None:
    expected = EXPECT.search(path.read_bytes())
    assert expected is not None, "no comment says what is expected"
    words = expected[1].decode().split()
    findings = findings_of(path)
    own = [finding for finding in findings if finding.id == rule_of(path)]
    assert [(str(f.place.line or 1), f.level.name.lower()) for f in own] == list(
        zip(words[::2], words[1::2], strict=True)
    )
    also = set((expected[2] or b"").decode().replace(",", " ").split())
    assert {f.id for f in findings if f.id[0] != "B"} - {rule_of(path)} == also
    for finding in own:
        assert finding.hint, "a finding says what to do"
        assert finding.message[-1] not in ".!" and len(finding.message) < 200
        assert finding.excerpt is None or "^" in finding.excerpt


@pytest.mark.parametrize("path", of("*-good*.xml"), ids=lambda path: path.stem)
def test_a_good_file_keeps_it(path: Path) -> None:
    assert {f.id for f in findings_of(path) if f.id[0] != "B" or f.id == rule_of(path)} == set()


def test_every_rule_has_both() -> None:
    # Unreadable files cannot be stored; files larger than 16 MiB are created by the tests of the loader.
    rules = {rule.id for rule in RULES} - {"SOW-CFG-020", "SOW-CFG-022", "SOW-CFG-030"}
    assert {rule_of(path) for path in of("*-bad*.xml")} == rules
    assert {rule_of(path) for path in of("*-good*.xml")} == rules


def test_every_case_is_run() -> None:
    assert {path.name for path in CASES.iterdir()} == {
        "parts",
        *(p.name for p in (*of("*-bad*.xml"), *of("*-good*.xml"))),
    }
