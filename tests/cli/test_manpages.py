"""The committed manual pages are those generated from the declarations, and groff reports nothing about them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sowctl.cli.manual.commandpages import build_main_page, build_pages
from sowctl.cli.manual.generators import generate_all_pages, write_pages
from sowctl.cli.manual.roff import ManualPage, format_plain, format_roff
from sowctl.cli.manual.viewer import find_page
from sowctl.cli.parsing.codes import EXIT_STATUSES
from sowctl.cli.parsing.table import COMMANDS
from tests.cli.conftest import Cli

MAN = Path(__file__).parents[2] / "man"
PAGES = build_pages()
GENERATED = generate_all_pages(MAN)
every = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.mark.parametrize("name", GENERATED)
def test_committed_pages_are_fresh(name: str) -> None:
    assert (MAN / name).read_text(encoding="utf-8") == GENERATED[name], "run: python -m sowctl.cli.manual man/"


def test_pages_that_are_out_of_date_are_written_anew(tmp_path: Path) -> None:
    for file in MAN.iterdir():
        shutil.copy(file, tmp_path)
    stale = tmp_path / "sow-config.5"
    stale.write_text(stale.read_text(encoding="utf-8").replace("\nFlowControl", "\nOldName"), encoding="utf-8")
    (tmp_path / "sowctl.1").unlink()
    write_pages(tmp_path)
    assert all((tmp_path / name).read_bytes() == (MAN / name).read_bytes() for name in GENERATED)


BY_HAND = {"sowctl-pipeline"}
"""Overviews of groups of commands."""


def test_there_is_no_page_without_a_command() -> None:
    assert {path.stem for path in MAN.glob("*.1")} == {page.name for page in PAGES} | BY_HAND
    assert len(PAGES) == len(COMMANDS) + 1


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong() -> None:
    for page in PAGES:
        done = subprocess.run(
            ["groff", "-man", "-Tascii", "-ww"], input=format_roff(page).encode(), capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b""), page.name


@every
def test_the_text_form_has_every_section_and_is_clean(page: ManualPage) -> None:
    text = format_plain(page)
    for section in page.sections:
        assert f"\n{section.title}\n" in text
    assert text.isascii()
    assert {c for c in text if c < " "} == {"\n"}


def test_the_main_page_tells_statuses_environment_and_files() -> None:
    text = format_plain(build_main_page())
    for status, words in EXIT_STATUSES:
        assert f"       {status}\n" in text
        assert words.split()[0] in text
    for word in ("SOWCTL_CONFIG", "SOWCTL_NOW", "NO_COLOR", "amps.xml"):
        assert word in text


def test_man_prints_text_into_a_pipe(cli: Cli) -> None:
    assert cli("man").out.startswith("SOWCTL(1)")
    assert cli("man", "journal", "dump").out == cli("man", "sowctl-journal-dump").out
    assert cli("man", "query").out.startswith("SOWCTL-QUERY(1)")


def test_a_section_tells_pages_of_one_name_apart(cli: Cli) -> None:
    environ = {"PATH": "/usr/bin:/bin"}
    assert "SYNOPSIS" in cli("man", "sowctl-lint", environ=environ).out
    assert "persistent-without-file" in cli("man", "sowctl-lint.7", environ=environ).out.replace("\\-", "-")
    as_named_in_pages, as_for_man = cli("man", "sowctl-lint(7)", environ=environ), cli("man", "7", "sowctl-lint")
    assert "persistent-without-file" in as_named_in_pages.out.replace("\\-", "-")
    assert as_for_man.status == 0
    assert "SYNOPSIS" in cli("man", "1", "sowctl-query", environ=environ).out
    assert cli("man", "sowctl-lint.5", environ=environ).status == 10
    assert cli("man", "5", "sowctl-lint", environ=environ).status == 10


def test_man_knows_the_hand_written_pages(cli: Cli) -> None:
    result = cli("man", "sow-store", environ={"PATH": "/usr/bin:/bin"})
    assert result.status == 0
    assert "sow-store" in result.out.lower()


def test_no_such_page(cli: Cli) -> None:
    result = cli("man", "nonsense")
    assert result.status == 10
    assert result.err.startswith("error[SOW-CLI-020]")


def test_roff_protects_dots_quotes_and_backslashes() -> None:
    from sowctl.cli.manual.roff import Section, Verbatim

    page = ManualPage("x", 1, "d", "s", (Section("A", (Verbatim((".TH x", "'quoted'", "a\\nb -c")),)),))
    assert format_roff(page).startswith('.\\" Generated')
    assert "\\&.TH x\n\\(aqquoted\\(aq\na\\enb \\-c\n" in format_roff(page)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["sow-store"], "sow-store.5"),
        (["store"], "sow-store.5"),
        (["lint.7"], "sowctl-lint.7"),
        (["7", "lint"], "sowctl-lint.7"),
        (["expressions"], "sowctl-expressions.7"),
        (["plugins(7)"], "sowctl-plugins.7"),
    ],
)
def test_pages_are_found_by_short_names(words: list[str], file: str) -> None:
    found = find_page(words)
    assert isinstance(found, Path)
    assert found == MAN / file


def test_without_any_formatter_a_page_is_plain_text(cli: Cli) -> None:
    shown = cli("man", "sow-store", environ={"PATH": "/nonexistent"}).out
    assert shown.startswith("SOW-STORE(5)")
    assert ".TH" not in shown


def test_mandoc_is_used_where_groff_is_not(cli: Cli, tmp_path: Path) -> None:
    tool = tmp_path / "mandoc"
    tool.write_text("#!/bin/sh\nprintf 'N\\bNA\\bAM\\bME\\bE _\\bx\\n'\n")
    tool.chmod(0o755)
    assert cli("man", "sow-store", environ={"PATH": str(tmp_path)}).out == "NAME x\n"


def test_all_pages_are_listed_and_found_by_words(cli: Cli) -> None:
    names = [line.split()[0] for line in cli("man", "--list").out.splitlines()]
    files = [f"{path.stem}({path.suffix[1:]})" for path in MAN.iterdir() if path.suffix in (".1", ".5", ".7")]
    assert names == sorted(files)
    found = cli("man", "-k", "Sorted Runs")
    assert found.status == 0 and found.out.startswith("sow-run(5) ") and "sow-store(5)" in found.out
    assert cli("man", "-k", "nowhere-to-be-found").status == 1
