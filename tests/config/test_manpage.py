"""sow-config(5) names every element and rule code that the program knows, and is clean roff."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sowctl.cli.manual.elementpage import BEGIN_MARK
from sowctl.config.actions import EQUIVALENT_COMMANDS
from sowctl.config.elements.element import walk_rows
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.elements.modules import ACTION_MODULES
from sowctl.config.problems import find_error_code

PAGE = Path(__file__).parents[2] / "man" / "sow-config.5"


def words() -> str:
    return PAGE.read_text(encoding="utf-8").replace("\\-", "-")


def test_every_element_is_named() -> None:
    text = words()
    names = {name for _, row in walk_rows(INSTANCE) for name in (row.tag, *(other for other, _ in row.synonyms))}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []


def test_the_table_gives_times_and_defaults() -> None:
    rows = {tuple(part.strip() for part in line.split("\t")[:2]) for line in words().splitlines() if "\t" in line}
    for parent, row in walk_rows(INSTANCE):
        if parent in ("Transport", "Target", "MessageType", "View", "Queue", "Destination", "Admin"):
            assert (row.tag, row.times) in rows, f"{parent}/{row.tag}"


def test_the_codes_are_those_of_the_page() -> None:
    text = words()
    for family, number, code in re.findall(r"\.BR ([XSFR]) (\d{3})\n(?:is )?(SOW-CFG-\d{3})", text):
        assert find_error_code(family + number) == code
    assert "SOW-CFG-320" in text


def test_the_tables_stand_between_marks() -> None:
    assert BEGIN_MARK in PAGE.read_text(encoding="utf-8")


def test_other_names_retired_elements_and_options_of_actions_are_listed() -> None:
    text = words()
    for _, row in walk_rows(INSTANCE):
        for name, rule in row.synonyms:
            assert f"{name}\t{row.tag}\t{rule or ''}\n" in text
        if row.retired:
            assert f"{row.tag}\t{row.retired}\n" in text
    for modules in ACTION_MODULES.values():
        for name, module in modules.items():
            assert name.removeprefix("amps-action-") + "\t" in text
            assert all(f"{option}*" in text for option in module.required)


def test_every_command_that_does_what_an_action_does_is_named() -> None:
    text = words().replace("\\fB", "").replace("\\fR", "")
    for module, pattern in EQUIVALENT_COMMANDS.items():
        command = pattern.partition(" {")[0]
        assert f"{module.removeprefix('amps-action-')}\t{command} " in text
        assert (Path(__file__).parents[2] / "man" / f"{command.replace(' ', '-')}.1").is_file()


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_clean() -> None:
    done = subprocess.run(["groff", "-man", "-t", "-Tascii", "-ww", str(PAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
