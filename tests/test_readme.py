"""The README's examples, run in order as a newcomer would type them, in an empty directory.

``$`` lines are commands; what follows is what they print, both streams, with ``...`` for what varies; a last line
``[exit status N]`` where it is not 0. The Python block must run too.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sowctl.config.rules.table import by_id

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _shell(directory: Path) -> dict[str, str]:
    """An environment in which ``sowctl`` is this checkout's."""
    tools = directory / "bin"
    tools.mkdir()
    script = tools / "sowctl"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m sowctl "$@"\n')
    script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SOWCTL")}
    return kept | {"PATH": f"{tools}:{os.environ['PATH']}", "NO_COLOR": "1"}


def _examples() -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def _agrees(expected: list[str], printed: list[str]) -> bool:
    patterns = [re.sub(r"([\[\]?*])", r"[\1]", line).replace("...", "*") for line in expected]
    return len(patterns) == len(printed) and all(map(fnmatch.fnmatchcase, printed, patterns))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which the examples were run; every one must have printed what the README says."""
    directory = tmp_path_factory.mktemp("readme")
    environment = _shell(directory)
    here = directory
    for command, expected in _examples():
        if command.startswith("cd "):
            here = here / command[3:]
            continue
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=here,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        printed = done.stdout.decode().splitlines()
        if done.returncode:
            printed.append(f"[exit status {done.returncode}]")
        assert _agrees(expected, printed), f"$ {command}\n" + "\n".join(printed)
    return directory / "demo"


def test_the_examples_print_what_the_readme_says(played: Path) -> None:
    assert len(_examples()) > 15
    assert (played / "sowctl.xml").exists()


def test_the_python_example_runs(played: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=played, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert b'"orderId":30001' in done.stdout


def test_both_install_commands_bring_spark() -> None:
    commands = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert [("spark" in command, "sowctl demo" in command, "pytest" in command) for command in commands] == [
        (True, True, False),
        (True, False, True),
    ]


def test_the_number_of_rules_is_the_table_s() -> None:
    told = re.search(r"knows (\d+) rules", README)
    assert told is not None
    assert int(told[1]) == len(by_id())


def test_links_and_pages_work_wherever_the_text_is_read() -> None:
    """The text is also that of the package's page, where no file lies beside it."""
    # A picture has words in its place where its file is not there; a link would lead to nothing.
    links = re.findall(r"(?<!!)\[[^\]]*\]\(([^)]*)\)", README)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    for words, picture in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", README):
        assert words and (ROOT / picture).is_file()
    pages = set(re.findall(r"\b(sow[a-z-]*\([157]\))", README))
    assert len(pages) > 15
    for page in pages:
        name, section = page.rstrip(")").split("(")
        assert (ROOT / f"man/{name}.{section}").is_file(), page
