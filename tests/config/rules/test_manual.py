"""sowctl-lint(7) is the page generated from the rules, it lists all of them, and groff reports nothing about it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sowctl.cli.manual.generators import LINT_PAGE_FILE
from sowctl.cli.manual.roff import escape_text
from sowctl.config.rules.table import RULES

MAN = Path(__file__).parents[3] / "man"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", str(MAN / LINT_PAGE_FILE)], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = re.sub(rb".\x08", b"", done.stdout).decode()
    for rule in RULES:
        assert re.search(rf"^ +{rule.id} {rule.title}$", text, re.MULTILINE), rule.id


def test_markup_is_not_taken_from_texts() -> None:
    assert escape_text(".SH it's a \\ - ~ ^") == "\\&.SH it\\(aqs a \\e \\- \\(ti \\(ha"
