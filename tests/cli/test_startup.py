"""Imports at start-up and their duration. Heavy libraries are imported only by commands that need them."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAVY = {
    "typer",
    "pydantic",
    "rich",
    "lxml",
    "lark",
    "numpy",
    "pyspark",
    "pcre2",
    "zstandard",
    "msgpack",
    "lmdb",
}
SLOW = {
    "dataclasses",
    "json",
    "tempfile",
    "threading",
    "sowctl.messages.framing",
    "sowctl.codes",
    "sowctl.store.write",
    "sowctl.store.builder",
}
"""Modules that take 0.2 ms or more to import, and that a read-only command does not need."""
ROOT = Path(__file__).parents[2]


PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from sowctl.cli.main import run
run()
"""


def imported(*argv: str) -> set[str]:
    """The names of all modules imported by the end of a run (``-X importtime`` does not include importlib's)."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *argv], cwd=ROOT, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The configuration of a small instance with data."""
    directory = tmp_path_factory.mktemp("startup") / "demo"
    subprocess.run([sys.executable, "-m", "sowctl", "demo", directory], cwd=ROOT, capture_output=True, check=True)
    return str(directory / "sowctl.xml")


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["completion", "bash"]])
def test_light_commands_import_nothing_heavy(argv: list[str]) -> None:
    names = imported(*argv)
    assert "sowctl.cli.main" in names
    assert {name.partition(".")[0] for name in names} & HEAVY == set()


@pytest.mark.parametrize("argv", [["--version"], ["--help"]])
def test_no_command_is_imported_for_help_or_version(argv: list[str]) -> None:
    assert not [name for name in imported(*argv) if name.startswith("sowctl.cli.commands.")]


def test_a_command_imports_only_itself() -> None:
    names = [name for name in imported("completion", "--nope") if name.startswith("sowctl.cli.commands.")]
    assert names == ["sowctl.cli.commands.completion"]


@pytest.mark.parametrize(
    ("argv", "spared"),
    [
        (
            ["query", "orders", "--count", "/price > 90"],
            ["sowctl.output", "sowctl.cli.io.output_sink", "sowctl.cli.io.report_output"],
        ),
        (["query", "orders", "/price > 90"], []),
        (["get", "orders", "1"], ["sowctl.expressions"]),
    ],
    ids=["count", "query", "get"],
)
def test_reading_records_imports_what_it_needs(config: str, argv: list[str], spared: list[str]) -> None:
    names = imported("--config", config, *argv)
    assert "sowctl.store.env" in names
    needed = {"lmdb", "msgpack"}
    assert names & ((HEAVY - needed) | SLOW | set(spared)) == set()


@pytest.mark.parametrize("argv", [["--version"], ["get", "orders", "1"], ["query", "orders", "/price > 90"]])
def test_msgspec_does_without_what_older_versions_of_python_need(config: str, argv: list[str]) -> None:
    pytest.importorskip("typing_extensions", reason="without it there is nothing to do without")
    names = imported("--config", config, *argv) if len(argv) > 1 else imported(*argv)
    assert "msgspec" in names
    assert names & {"typing_extensions", "inspect"} == set()


def test_others_find_what_msgspec_does_without() -> None:
    pytest.importorskip("typing_extensions")
    program = "import sowctl.cli, sys; print('typing_extensions' in sys.modules); import typing_extensions"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_validate_opens_no_store(config: str) -> None:
    assert imported("validate", config) & {"numpy", "lmdb", "dataclasses"} == set()


def test_start_up_budget(deep: bool) -> None:
    if not deep:
        pytest.skip("timing; runs with --deep")

    def median(*argv: str) -> float:
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            subprocess.run([sys.executable, *argv], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    reference = median("-c", "import typer, lxml.etree, lmdb")
    assert median("-m", "sowctl", "--version") <= 1.5 * reference
    assert median("-m", "sowctl", "--help") <= 1.5 * reference
