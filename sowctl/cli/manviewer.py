"""Finds a manual page and formats it: with man(1) on a terminal, with groff(1) or by itself elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sowctl.cli import page as pages
from sowctl.cli import table
from sowctl.errors import MissingError

SECTIONS = (5, 7, 1)
_SUFFIXES = (".5", ".7", ".1")
"""With one of these a name means the page of that section, as in ``sowctl-lint.7``."""
_NUMBERS = tuple(map(str, SECTIONS))


def find(words: Sequence[str]) -> pages.Page | Path:
    """The page of a command (made here and now), or the file of a hand-written one.

    Raises :class:`~sowctl.errors.MissingError` ``SOW-CLI-020``.
    """
    from sowctl.cli.manpages import command_page, main_page

    if not words or tuple(words) == ("sowctl",):
        return main_page()
    for command in table.COMMANDS:
        if tuple(words) == command.words or " ".join(words) == command.page:
            return command_page(command)
    if len(words) == 2 and words[0] in _NUMBERS:
        words = (f"{words[1]}.{words[0]}",)
    name = re.sub(r"\(([157])\)$", r".\1", "-".join(words))
    sections: tuple[int, ...] = SECTIONS
    if name[-2:] in _SUFFIXES:
        name, sections = name[:-2], (int(name[-1]),)
    for directory in _directories():
        for section in sections:
            for candidate in (directory / f"{name}.{section}", directory / f"man{section}" / f"{name}.{section}"):
                if candidate.is_file():
                    return candidate
    raise MissingError("SOW-CLI-020", f"there is no page {' '.join(words)!r}", hint="sowctl man lists the commands")


def formatted(source: pages.Page | Path, *, pager: bool, environ: Mapping[str, str]) -> bytes | None:
    """The page as text; None where ``pager`` was wanted and man(1) has shown it."""
    if pager and shutil.which("man"):
        with tempfile.TemporaryDirectory() as place:
            path = source if isinstance(source, Path) else Path(place) / f"{source.name}.{source.number}"
            if isinstance(source, pages.Page):
                path.write_text(pages.roff(source), encoding="utf-8")
            if subprocess.run(["man", "-l", str(path)], env=dict(environ), check=False).returncode == 0:
                return None
    if isinstance(source, pages.Page):
        return pages.plain(source).encode()
    if shutil.which("groff"):
        command = ["groff", "-t", "-man", "-Tutf8", "-P-c", "-P-b", "-P-u", str(source)]
        done = subprocess.run(command, env=dict(environ), capture_output=True, check=False)
        if done.returncode == 0:
            return done.stdout
    return source.read_bytes()


def _directories() -> tuple[Path, ...]:
    """Beside the package (a checkout), then where installation puts manual pages."""
    return Path(__file__).parents[2] / "man", Path(sys.prefix) / "share" / "man"
