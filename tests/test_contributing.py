"""CONTRIBUTING names packages, layers, modules and paths that exist, and all packages and layers of the engine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
MAX_COLUMNS = 125
STARTS = (ROOT, ROOT / "sowctl", ROOT / "sowctl/engine", ROOT / "sowctl/cli")
"""The directories from which the guide writes paths."""


def _exists(path: str) -> bool:
    names = (path, f"{path}.py")
    return any((start / name).exists() or ("*" in path and any(start.glob(path))) for start in STARTS for name in names)


def _list_modules(folder: Path) -> set[str]:
    """The packages and modules of a folder by their names."""
    packages = {init.parent.name for init in folder.glob("*/__init__.py")}
    return packages | {file.stem for file in folder.glob("*.py") if not file.stem.startswith("__")}


def _read_block(marker: str) -> str:
    """The first code block that holds a text."""
    (block, *_) = [block for block in re.findall(r"^```\w*$\n(.*?)^```$", TEXT, re.M | re.S) if marker in block]
    return block


def test_lines_are_short() -> None:
    assert [line for line in TEXT.splitlines() if len(line) > MAX_COLUMNS] == []


def test_paths_exist() -> None:
    words = {word.rstrip("/") for text in re.findall(r"`([^`\n]+)`", TEXT) for word in text.split()}
    paths = {word for word in words if word.endswith((".py", ".lark")) or re.fullmatch(r"[\w.*-]+(/[\w.*-]+)+", word)}
    assert len(paths) > 70
    assert {path for path in paths if not _exists(path)} == set()


def test_packages_are_those_of_the_program() -> None:
    table = TEXT.split("| package | contents |", 1)[1].split("\n\n", 1)[0]
    named = [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    packages = {init.parent.name for init in (ROOT / "sowctl").glob("*/__init__.py")}
    assert sorted(named) == sorted(packages)
    words = set(re.findall(r"[a-z_]+", re.sub(r"\(.*?\)| {2,}[a-z ]+$", "", _read_block("cli ──►"), flags=re.M)))
    assert words <= _list_modules(ROOT / "sowctl")


def test_layers_are_those_of_the_engine() -> None:
    lines = _read_block("sowctl.open()").splitlines()
    named = [line.split()[0] for line in lines[:-1]] + lines[-1].split("     ")[0].split()
    assert sorted(named) == sorted(_list_modules(ROOT / "sowctl/engine"))
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == ["sowctl.engine"]]
    assert named == [name for layer in layers for name in re.findall(r"\w+", layer)]
