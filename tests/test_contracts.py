"""The contracts between rooms (``lint-imports``) refuse what the contributing guide says no module does.

A copy of the program gets every import that should be refused, in rooms that the contracts do not name one by one too;
one run has to report each of them. That the program itself keeps the contracts is what the gate checks.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWNED = [
    "sowctl.findings",
    "sowctl.memo.format",
    "sowctl.directories",
    "sowctl.spark.sessions",
    "sowctl.newroom",
    "sowctl.__main__",
]
"""Modules of which none owns a library: single ones, a neighbour of the owner, and a room that is new."""
LIBRARIES = ("lmdb", "lark", "lxml", "typer", "rich", "prompt_toolkit")
IMPORTS = [
    *((module, f"import {library}", library) for module in OWNED for library in LIBRARIES),
    *(("sowctl.engine.instance", f"import {library}", library) for library in ("pyspark", "pyarrow")),
    *(("sowctl.memo.format", f"import {library}", library) for library in ("pyspark", "pyarrow")),
    *((module, "import numpy", "numpy") for module in ("sowctl.config.parse", "sowctl.output.raw", "sowctl.store.env")),
    *((module, "import lmdb", "lmdb") for module in ("sowctl.store.lmdbfile.walk", "sowctl.store.raw.offset_read")),
    *((module, "import pcre2", "pcre2") for module in ("sowctl.expressions.context", "sowctl.config.lint")),
    *((module, "import msgpack", "msgpack") for module in ("sowctl.store.codec", "sowctl.output.raw")),
    *((module, "import xxhash", "xxhash") for module in ("sowctl.journal.block", "sowctl.identity.bookmarks")),
    *((module, "import zstandard", "zstandard") for module in ("sowctl.store.codec", "sowctl.output.raw")),
    ("sowctl.cli.main", "import click", "click"),
    ("sowctl.store.env", "import sowctl", "sowctl"),
    ("sowctl.cli.commands.get", "from sowctl.cli.commands import query", "sowctl.cli.commands.query"),
    ("sowctl.engine.verbs.get", "from sowctl.engine.verbs import query", "sowctl.engine.verbs.query"),
    ("sowctl.messages.composite.type", "from sowctl.messages.types import get_type", "sowctl.messages.types"),
    ("sowctl.messages.xml.read", "from sowctl.messages.tagged import fix", "sowctl.messages.tagged.fix"),
    ("sowctl.engine.fold.apply", "from sowctl.engine.api import InstanceHandle", "sowctl.engine.api"),
    ("sowctl.engine.sources.past", "from sowctl.store.raw import line_pages", "sowctl.store.raw.line_pages"),
    ("sowctl.store.write", "from sowctl.store.lmdbfile import layout", "sowctl.store.lmdbfile.layout"),
]
"""A module, what it imports in a function that nothing calls, and the module that this is."""


def _lint(place: Path) -> subprocess.CompletedProcess[str]:
    """Run ``lint-imports`` over the program in a folder."""
    line = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    command = [sys.executable, "-c", line, "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, env={"COLUMNS": "400"})


def test_what_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("importlinter")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "sowctl", tmp_path / "sowctl", ignore=shutil.ignore_patterns("__pycache__"))
    for number, (module, statement, _) in enumerate(IMPORTS):
        file = tmp_path / Path(*module.split(".")).with_suffix(".py")
        with file.open("a") as opened:
            opened.write(f"\ndef _added_{number}():\n    {statement}\n")
    (tmp_path / "sowctl/engine/upper.py").write_text("from sowctl.engine import api\n")
    done = _lint(tmp_path)
    assert done.returncode == 1, done.stderr
    told = {re.sub(r"\s*\(l\.\d+\)$", "", line.strip(" -")) for line in done.stdout.splitlines() if " -> " in line}
    assert not {f"{module} -> {found}" for module, _, found in IMPORTS} - told
    assert all(re.search(rf"^- {name}$", done.stdout, re.M) for name in (r"sowctl\.engine\.upper", r"sowctl\.newroom"))
