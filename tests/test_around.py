"""What stands around the program for others' tools names what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sowctl.cli.parsing.arguments import read_plain
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS
from sowctl.version import VERSION

ROOT = Path(__file__).parent.parent


def test_hooks_run_commands_that_exist() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entries = re.findall(r"^  entry: sowctl (\S+) ?(.*)$", text, re.MULTILINE)
    assert len(entries) == text.count("- id: ") == 3
    commands = {command.name: command for command in COMMANDS}
    for word, options in entries:
        assert read_plain(load_command(commands[word]).parameters, [*options.split(), "a.xml", "b.xml"]) is not None


def test_the_action_takes_a_format_that_exists() -> None:
    text = (ROOT / ".github/actions/lint/action.yml").read_text()
    (line,) = re.findall(r'bin/sowctl" (lint .*?) "\$', text)
    commands = {command.name: command for command in COMMANDS}
    assert read_plain(load_command(commands["lint"]).parameters, [*line.split()[1:], "a.xml"]) is not None


def test_changes_know_this_version() -> None:
    text = (ROOT / "man/sowctl-changes.7").read_text()
    assert re.search(rf"^\.SS {re.escape(VERSION)} \(", text, re.MULTILINE)


def test_the_package_says_what_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"keywords", "classifiers", "description", "readme", "license"} <= set(project)
