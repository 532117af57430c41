"""Finds a manual page and formats it.

With man(1) on a terminal, else with groff(1) or mandoc(1), and without a formatter if none of them is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.cli.manual import roff as pages
from sowctl.cli.parsing import table
from sowctl.errors import MissingError

if TYPE_CHECKING:
    from importlib.metadata import PackagePath

SECTIONS = (5, 7, 1)
_SUFFIXES = (".5", ".7", ".1")
"""A name with one of these suffixes, such as ``sowctl-lint.7``, refers to the page of that section."""
# groff must not write colours, bold or underlining, so that the text is plain.
_FORMATTER_COMMANDS = (
    ("groff", "-t", "-man", "-Tutf8", "-P-c", "-P-b", "-P-u"),
    ("mandoc", "-Tutf8", "-Owidth=80"),
)
"""Commands that format a page as text, in order of preference."""
_OVERSTRIKE_PATTERN = re.compile(b"[^\\n]\x08")
"""Bold and underlined letters as mandoc writes them: a letter, a backspace, and the final letter."""
_SECTION_NUMBERS = tuple(map(str, SECTIONS))


def find_page(words: Sequence[str]) -> pages.ManualPage | Path:
    """The page of a command, generated on demand, or the file of a hand-written one.

    Raises :class:`~sowctl.errors.MissingError` ``SOW-CLI-020``.
    """
    from sowctl.cli.manual.commandpages import build_command_page, build_main_page

    if not words or tuple(words) == ("sowctl",):
        return build_main_page()
    for command in table.COMMANDS:
        if tuple(words) == command.words or " ".join(words) == command.page:
            return build_command_page(command)
    if len(words) == 2 and words[0] in _SECTION_NUMBERS:
        words = (f"{words[1]}.{words[0]}",)
    name = re.sub(r"\(([157])\)$", r".\1", "-".join(words))
    sections: tuple[int, ...] = SECTIONS
    if name[-2:] in _SUFFIXES:
        name, sections = name[:-2], (int(name[-1]),)
    # "expressions" means sowctl-expressions(7) and "store" sow-store(5), the pages on these subjects.
    for full in (name, f"sowctl-{name}", f"sow-{name}"):
        for section in sections:
            if (path := _find_installed_page(f"{full}.{section}")) is not None:
                return path
    raise MissingError("SOW-CLI-020", f"no page named {' '.join(words)!r}", hint="sowctl man lists the commands")


def format_page(source: pages.ManualPage | Path, *, pager: bool, environ: Mapping[str, str]) -> bytes | None:
    """The page as text; None if ``pager`` was requested and man(1) has shown it."""
    if pager and shutil.which("man"):
        with tempfile.TemporaryDirectory() as place:
            path = source if isinstance(source, Path) else Path(place) / f"{source.name}.{source.number}"
            if isinstance(source, pages.ManualPage):
                path.write_text(pages.format_roff(source), encoding="utf-8")
            # A man(1) that cannot show a file by its path fails, and the page is then printed.
            if subprocess.run(["man", "-l", str(path)], env=dict(environ), check=False).returncode == 0:
                return None
    if isinstance(source, pages.ManualPage):
        return pages.format_plain(source).encode()
    for command in _FORMATTER_COMMANDS:
        if shutil.which(command[0], path=environ.get("PATH")):
            done = subprocess.run([*command, str(source)], env=dict(environ), capture_output=True, check=False)
            if done.returncode == 0:
                return _OVERSTRIKE_PATTERN.sub(b"", done.stdout)
    from sowctl.cli.manual.rofftext import format_text

    return format_text(source.read_text(encoding="utf-8")).encode()


def _find_installed_page(file: str) -> Path | None:
    """Find the file of a page: beside the package (a checkout), or where this distribution is installed."""
    package = Path(__file__).parents[2]
    section = f"man{file[-1]}"
    # pip --target puts data beside the packages, whatever the list of installed files contains
    for directory in (package.parent / "man", package.parent / "share" / "man" / section):
        if (directory / file).is_file():
            return directory / file
    found = (Path(str(entry.locate())) for entry in _index_installed_files().get(file, ()))
    return next((path.resolve() for path in found if path.is_file()), None)


@cache
def _index_installed_files() -> dict[str, list[PackagePath]]:
    """The files of this distribution by name; cached, because reading the list takes as long as formatting some
    pages."""
    from importlib.metadata import PackageNotFoundError, files

    found: dict[str, list[PackagePath]] = {}
    try:
        listed = files("sowctl") or ()
    except PackageNotFoundError:
        return found
    for entry in listed:
        found.setdefault(entry.name, []).append(entry)
    return found


class PageEntry(Struct, frozen=True):
    """A page in a list: its name with the section, such as ``sow-store(5)``, and its subject."""

    name: str
    subject: str


def list_pages() -> list[PageEntry]:
    """All pages, sorted by name: those of the commands and the installed hand-written ones."""
    return [entry for entry, _ in _read_pages()]


def search_pages(words: str) -> list[PageEntry]:
    """The pages that contain all of ``words``, ignoring case: first those with a match in name or subject."""
    wanted = words.lower().split()
    named, mentioned = [], []
    for entry, text in _read_pages():
        if all(word in f"{entry.name} {entry.subject}".lower() for word in wanted):
            named.append(entry)
        elif all(word in text.lower() for word in wanted):
            mentioned.append(entry)
    return named + mentioned


@cache
def _read_pages() -> tuple[tuple[PageEntry, str], ...]:
    """Every page as an entry, with its text; cached per process, because all of them take half a second."""
    from sowctl.cli.manual import commandpages
    from sowctl.cli.manual.rofftext import format_text

    found = []
    made = set()
    for page in commandpages.build_pages():
        text = pages.format_plain(page)
        found.append((PageEntry(f"{page.name}({page.number})", _read_subject(text)), text))
        made.add(f"{page.name}.{page.number}")
    for name in (*table.PAGES, "sowctl-lint"):
        for section in SECTIONS:
            if f"{name}.{section}" not in made and (path := _find_installed_page(f"{name}.{section}")) is not None:
                text = format_text(path.read_text(encoding="utf-8"))
                found.append((PageEntry(f"{name}({section})", _read_subject(text)), text))
    return tuple(sorted(found, key=lambda one: one[0].name))


def _read_subject(text: str) -> str:
    """Read the subject after the dash in a page's section NAME."""
    match = re.search(r" - (.+?)\n\n", text, re.DOTALL)
    return " ".join(match[1].split()) if match is not None else ""
