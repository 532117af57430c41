"""The manual pages that are made of tables and declarations, and how they are written.

``python -m sowctl.cli.manual man/`` writes them all; a test compares the committed files with a fresh run. A generator
is a function of the directory of the pages, where the prose of some lies, that gives files by their names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sowctl.cli.manual import commandpages, elementpage, errorpage, expressionpage, lintpage

GENERATORS: tuple[Callable[[Path], dict[str, str]], ...] = (
    commandpages.generate_pages,
    elementpage.generate_pages,
    errorpage.generate_pages,
    expressionpage.generate_pages,
    lintpage.generate_pages,
)


def generate_all_pages(directory: Path) -> dict[str, str]:
    """Every generated page by the name of its file. Raises OSError where prose cannot be read."""
    return {name: text for generate in GENERATORS for name, text in generate(directory).items()}


def write_pages(directory: Path) -> None:
    """Write every generated page into ``directory``. Raises OSError."""
    for name, text in generate_all_pages(directory).items():
        (directory / name).write_text(text, encoding="utf-8")
