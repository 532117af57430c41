"""Configurations of one defect each, in every section and every spelling: the rule, the line, and nothing else.

``defects.txt`` contains them one after the other. A line ``== RULE`` begins one; its faulty line begins
with ``@``, which is not part of the file; ``ABOUT_GROUP`` is replaced by the name of the file.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sowctl.config.validate import validate_config

TEXT = (Path(__file__).parent / "defects.txt").read_text(encoding="utf-8")
DEFECTS = [(part[:4], part[5:]) for part in re.split(r"^== ", TEXT, flags=re.MULTILINE)[1:]]


@pytest.mark.parametrize(("rule", "text"), DEFECTS, ids=[f"{n}-{rule}" for n, (rule, _) in enumerate(DEFECTS)])
def test_a_defect_is_one_error_at_its_line(tmp_path: Path, rule: str, text: str) -> None:
    path = tmp_path / "config.xml"
    (line,) = (number for number, row in enumerate(text.split("\n"), 1) if row.startswith("@"))
    path.write_text(re.sub("^@", "", text, flags=re.MULTILINE).replace("SELF", path.name), encoding="utf-8")
    found = validate_config(path, environment={})
    assert {(finding.id, finding.place.line) for finding in found} == {(rule, line)}, found
    assert all(finding.hint and len(finding.message) < 300 for finding in found)
