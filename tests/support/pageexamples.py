"""Examples of the documentation: read from Markdown or from a manual page, run as a reader would type them.

``$`` lines are commands; the lines after one are its output, both streams, with ``...`` for parts that vary. A last
line ``[exit status N]`` is present if the status is not 0.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 120


class Example(NamedTuple):
    """A command and the lines that it prints."""

    command: str
    expected: list[str]


def read_markdown_examples(text: str) -> list[Example]:
    """Return the examples of the ``console`` blocks of a Markdown page."""
    return _read_examples(re.findall(r"```console\n(.*?)```", text, re.DOTALL))


def read_manual_blocks(text: str) -> list[str]:
    """Return the example blocks (``.EX`` to ``.EE``) of a manual page, as plain text."""
    escapes = ((r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\(ha", "^"), (r"\(ti", "~"), (r"\&", ""), (r"\e", "\\"))
    blocks = re.findall(r"^\.EX\n(.*?)^\.EE$", text, re.DOTALL | re.MULTILINE)
    for written, meant in escapes:
        blocks = [block.replace(written, meant) for block in blocks]
    return blocks


def read_manual_examples(text: str) -> list[Example]:
    """Return the examples of a manual page: of its blocks that start with ``$``."""
    return _read_examples([block for block in read_manual_blocks(text) if block.startswith("$ ")])


def make_environment(directory: Path) -> dict[str, str]:
    """Return an environment in which ``sowctl`` is that of this checkout; its command is written to ``directory``."""
    commands = directory / "bin"
    commands.mkdir()
    script = commands / "sowctl"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m sowctl "$@"\n')
    script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SOWCTL")}
    return kept | {"PATH": f"{commands}:{os.environ['PATH']}", "NO_COLOR": "1"}


def run_examples(examples: list[Example], directory: Path, environment: dict[str, str]) -> Path:
    """Run the examples one after the other and return the working directory after the last one.

    Raises AssertionError at the first one with another output than the page shows.
    """
    here = directory
    for command, expected in examples:
        if command.startswith("cd "):
            here = (here / command[3:]).resolve(strict=True)
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=here,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
        )
        printed = done.stdout.decode().splitlines()
        if done.returncode:
            printed.append(f"[exit status {done.returncode}]")
        assert is_output(printed, expected), f"$ {command}\n" + "\n".join(printed)
    return here


def is_output(printed: list[str], expected: list[str]) -> bool:
    """Return whether a command's output is as on the page; a line ``...`` matches any number of lines."""
    pattern = "\n".join(re.sub(r"([\[\]?*])", r"[\1]", line).replace("...", "*") for line in expected)
    return fnmatch.fnmatchcase("\n".join(printed), pattern)


def _read_examples(blocks: list[str]) -> list[Example]:
    found: list[Example] = []
    for block in blocks:
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Example(line[2:], []))
            else:
                found[-1].expected.append(line)
    return found
