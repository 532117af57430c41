"""sowctl-messages(7) agrees with the declarations of every type, and lists every code of sowctl.messages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sowctl.messages.types import DEFINED_TYPES, MESSAGE_TYPES
from tests.support.messagetypes import SAMPLES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "man" / "sowctl-messages.7"
ROW = re.compile(r"    (\w.*?)  +(yes|no) +(yes|no) +(by \w+|no|version 2) +(yes|no)(?: +(yes))?$")


def text() -> str:
    return PAGE.read_text(encoding="utf-8").replace("\\-", "-")


def table() -> dict[str, tuple[str, ...]]:
    """The content of the table at the beginning, by type."""
    rows = {}
    for line in text().splitlines():
        if match := ROW.fullmatch(line):
            rows.update(dict.fromkeys(match[1].split(", "), match.groups("")[1:]))
    return rows


def test_the_table_has_every_type_and_says_which_need_a_definition() -> None:
    rows = table()
    assert {name for name, row in rows.items() if not row[4]} == set(MESSAGE_TYPES)
    assert {name for name, row in rows.items() if row[4]} == set(DEFINED_TYPES)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_the_table_says_what_a_type_can(sample: object) -> None:
    kind = sample.type()  # type: ignore[attr-defined]
    fields, select, delta, write, _ = table()[kind.kind]
    assert (fields == "yes", write == "yes") == (kind.filterable, kind.constructible)
    if delta != "version 2":
        assert (select == "yes", delta != "no") == (kind.selectable, kind.mergeable)


def test_every_type_has_its_section() -> None:
    sections = ", ".join(re.findall(r"^\.SS (.*)$", text(), re.MULTILINE)).split(", ")
    assert {*MESSAGE_TYPES, *DEFINED_TYPES} <= set(sections)


def test_every_code_is_explained() -> None:
    used = set()
    for path in (ROOT / "sowctl" / "messages").rglob("*.py"):
        used.update(re.findall(r"SOW-MSG-\d{3}", path.read_text(encoding="utf-8")))
    assert used == set(re.findall(r"^\.B (SOW-MSG-\d{3})$", text(), re.MULTILINE))


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_clean() -> None:
    done = subprocess.run(["groff", "-man", "-Tascii", "-ww", str(PAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
