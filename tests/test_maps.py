"""The docstring of each package lists its modules and packages, each once, as ``* ``name``: what it holds``."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from sowctl.cli.parsing.table import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(init.parent for init in (ROOT / "sowctl").rglob("__init__.py"))
COMMAND_FILES = ROOT / "sowctl/cli/commands"
"""The package whose list is the table of commands."""


def _list_contents(folder: Path) -> set[str]:
    modules = {file.stem for file in folder.glob("*.py") if not file.stem.startswith("__")}
    # The packages of the program are listed in CONTRIBUTING: tests/test_contributing.py.
    return modules if folder.name == "sowctl" else modules | {init.parent.name for init in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", PACKAGES, ids=[str(folder.relative_to(ROOT)) for folder in PACKAGES])
def test_each_module_is_listed_once(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    if folder == COMMAND_FILES:
        assert _list_contents(folder) == {command.module for command in COMMANDS} | {"bodies"}
        return
    listed = re.findall(r"^\* ``(\w+)``: \S", text, re.M)
    assert sorted(listed) == sorted(_list_contents(folder))
