"""Output on a terminal: lines that fit it, rounded values, states in colour; pipes get none of it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from sowctl.cli.parsing.helptext import format_example
from sowctl.output.display import measure_width
from tests.cli.conftest import Cli
from tests.support.demo import NOW, make_demo

REPORTS = (
    ("info",),
    ("history", "customers", "C0042"),
    ("history", "customers", "C0042", "C0043"),
    ("journal", "list"),
    ("upkeep", "list"),
    ("queue", "list"),
    ("queue", "info", "work"),
    ("doctor",),
    ("backup", "b", "--list"),
    ("bookmark", "list", "m.bookmarks"),
    ("view", "list"),
    ("view", "show", "totals"),
    ("queue", "peek", "work", "-n", "2"),
    ("query", "customers", "-n", "3"),
    ("sql", "SELECT * FROM customers LIMIT 2"),
    ("functions",),
    ("config", "schema"),
    ("lint", "--list"),
    ("lint", "--explain", "B009"),
    ("explain", "SOW-STO"),
    ("man", "--list"),
    ("man", "-k", "bookmark"),
    ("query", "--help"),
    ("query", "-h"),
    ("--help",),
    ("-h",),
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # So deep that a whole path does not fit into a line of 80 columns.
    return make_demo(tmp_path_factory.mktemp("d" * 80))


def seen(cli: Cli, demo: Path, *argv: str, columns: int = 80, **more: str) -> str:
    """The output of a command on a terminal of this width."""
    environ = {"SOWCTL_CONFIG": str(demo / "sowctl.xml"), "SOWCTL_NOW": NOW, "COLUMNS": str(columns)}
    said = cli(*argv, environ=environ | {"NO_COLOR": "1", "LANG": "C.UTF-8"} | more, tty="out")
    assert said.status in (0, 1), said.err
    return said.out


def piped(cli: Cli, demo: Path, *argv: str) -> str:
    return cli(*argv, environ={"SOWCTL_CONFIG": str(demo / "sowctl.xml"), "SOWCTL_NOW": NOW}).out


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("argv", REPORTS)
def test_reports_fit_the_terminal(demo: Path, cli: Cli, argv: tuple[str, ...], columns: int) -> None:
    if argv[0] == "backup":
        assert cli("backup", "b", "--quiet", environ={"SOWCTL_CONFIG": str(demo / "sowctl.xml")}).status == 0
    if argv[0] == "bookmark":
        words = (
            "subscribe",
            "orders",
            "--no-sow",
            "--store",
            "m.bookmarks",
            "--client",
            "b",
            "--commit",
            "--until-now",
        )
        assert cli(*words, environ={"SOWCTL_CONFIG": str(demo / "sowctl.xml")}).status == 0
    lines = seen(cli, demo, *argv, columns=columns).splitlines()
    assert len(lines) > 1
    assert max(map(measure_width, lines)) <= columns
    assert "\x1b" not in "".join(lines)
    # Colours do not appear as text.
    colored = seen(cli, demo, *argv, columns=columns, NO_COLOR="", FORCE_COLOR="1", TERM="xterm")
    assert "\\x1b" not in colored


@pytest.mark.parametrize("columns", [40, 80])
def test_the_end_of_a_path_is_never_cut(demo: Path, cli: Cli, columns: int) -> None:
    assert "00.journal" in seen(cli, demo, "journal", "list", columns=columns)
    assert "work.json.queue" in seen(cli, demo, "queue", "info", "work", columns=columns)


def test_a_path_below_the_working_directory_is_shown_from_there(
    demo: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo)
    assert "\njournal/demo.0000000000.journal " in seen(cli, demo, "journal", "list")
    assert "file system of journal " in seen(cli, demo, "doctor")


def test_files_have_sizes_and_ranges_for_people(demo: Path, cli: Cli) -> None:
    shown = seen(cli, demo, "journal", "list")
    assert "KiB" in shown
    assert "1-4401" in shown
    row = json.loads(piped(cli, demo, "journal", "list"))
    assert str(row["size"]) not in shown
    assert (row["first_txid"], row["last_txid"]) == (1, 4401)


def test_versions_of_one_record_are_one_line_each(demo: Path, cli: Cli) -> None:
    lines = seen(cli, demo, "history", "customers", "C0042").splitlines()
    assert len(lines) == 2 + 3
    assert "Bela Brandt" not in "".join(lines)
    assert [line.split()[-2] for line in lines[2:]] == ["24000", "33000", "54000"]


def test_what_all_versions_share_is_said_in_two_lines(demo: Path, cli: Cli) -> None:
    environ = {"SOWCTL_CONFIG": str(demo / "sowctl.xml"), "COLUMNS": "80"}
    note = cli("history", "customers", "C0042", environ=environ, tty="out").err
    assert "Bela Brandt" in note
    assert len(note) <= 160


def test_the_next_run_of_an_action_is_a_distance(demo: Path, cli: Cli) -> None:
    assert "due" in seen(cli, demo, "upkeep", "list").splitlines()[-1]
    assert "true" not in seen(cli, demo, "upkeep", "list")
    assert json.loads(piped(cli, demo, "upkeep", "list"))["due"] is True


def test_ages_and_rates_of_queues_are_for_people(demo: Path, cli: Cli) -> None:
    row = json.loads(piped(cli, demo, "queue", "info", "work"))
    listed = seen(cli, demo, "queue", "list")
    told = seen(cli, demo, "queue", "info", "work")
    assert f"{row['age_seconds']:.0f}s" not in listed
    assert "age_seconds" not in told
    assert "txid 502, " in told
    assert "None" not in listed + told


def test_states_have_colours(demo: Path, cli: Cli) -> None:
    colored = {"NO_COLOR": "", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[33mdue" in seen(cli, demo, "upkeep", "list", **colored)
    assert "\x1b" not in piped(cli, demo, "upkeep", "list")


def test_problems_of_doctor_stand_out(demo: Path, cli: Cli) -> None:
    colored = {"NO_COLOR": "", "FORCE_COLOR": "1", "SOWCTL_CONFIG": "/nowhere/sowctl.xml"}
    shown = seen(cli, demo, "doctor", **colored)
    assert "\x1b[1;31m!!" in shown
    assert "\x1b[36m" in shown


def test_the_list_of_pages_has_a_line_for_each(demo: Path, cli: Cli) -> None:
    assert len(seen(cli, demo, "man", "--list").splitlines()) == len(piped(cli, demo, "man", "--list").splitlines())


def test_lists_in_pipes_are_whole(demo: Path, cli: Cli) -> None:
    for argv in (("functions",), ("man", "--list"), ("lint", "--list")):
        assert max(map(measure_width, piped(cli, demo, *argv).splitlines())) > 80
        assert "..." not in "".join(line[-4:] for line in piped(cli, demo, *argv).splitlines())


def test_notes_and_reports_break_between_words_on_a_terminal(demo: Path, cli: Cli) -> None:
    environ = {"SOWCTL_CONFIG": str(demo / "sowctl.xml"), "COLUMNS": "50", "NO_COLOR": "1", "SOWCTL_PROGRESS": "never"}
    for argv in (("check",), ("check", "--summary", "text")):
        said = cli(*argv, environ=environ, tty="err").err
        exact = cli(*argv, environ=environ).err
        assert max(map(measure_width, said.splitlines())) <= 50 < max(map(measure_width, exact.splitlines()))
        assert "".join(said.split()) == "".join(exact.split())


def read_words(text: str) -> str:
    """The words of a text, without the time of a run, which is printed if it was long enough."""
    return re.sub(r"\bin [0-9.]+ m?s\b,? ?", "", " ".join(text.split()))


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize(
    "argv",
    [
        ("journal", "check", "orders"),
        ("query", "orders", "/orderId = 'x' AND"),
        ("export", "orders", f"/no/such/{'directory/' * 12}orders.parquet"),
        ("publish", "orders", "--expiration", "10m", "--on-error", "skip"),
        ("lint", "sowctl.xml"),
    ],
)
def test_errors_warnings_and_findings_break_between_words(
    demo: Path, cli: Cli, argv: tuple[str, ...], columns: int
) -> None:
    environ = {"SOWCTL_CONFIG": str(demo / "sowctl.xml"), "COLUMNS": str(columns), "NO_COLOR": "1"}
    argv = tuple(str(demo / word) if word == "sowctl.xml" else word for word in argv)
    exact = cli(*argv, environ=environ, stdin=b"{\n")
    said = cli(*argv, environ=environ, stdin=b"{\n", tty="out err")
    for whole, folded in ((exact.out, said.out), (exact.err, said.err)):
        assert read_words(whole) == read_words(folded)
        for line in folded.splitlines():
            # A longer word has a line that the terminal breaks; lines of source are left unchanged.
            words = line.split()
            assert measure_width(line) <= columns or len(words) == 1 or line.startswith("    "), line


def test_an_example_that_takes_several_lines_is_one_command() -> None:
    example = "sowctl query orders --projection 'SUM(/qty) AS /sum, /symbol' --grouping /symbol"
    lines = format_example(example, 40)
    assert len(lines) > 2
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(example)


def test_a_line_of_progress_fits_the_terminal(demo: Path, cli: Cli) -> None:
    environ = {"SOWCTL_CONFIG": str(demo / "sowctl.xml"), "COLUMNS": "30", "NO_COLOR": "1"}
    drawn = cli("check", "--progress", "always", environ=environ, tty="err").err.split("\r\x1b[K")[1:-1]
    assert any(line.startswith("check: ") for line in drawn)
    assert max(map(measure_width, drawn)) < 30


@pytest.mark.parametrize("argv", [("stats", "orders"), ("diff", "orders@2000", "orders"), ("query", ".*", "--count")])
def test_a_note_is_said_once(demo: Path, cli: Cli, tmp_path: Path, argv: tuple[str, ...]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(demo, copy)
    (copy / "sow" / "orders.json.sow").unlink()
    said = cli(*argv, environ={"SOWCTL_CONFIG": str(copy / "sowctl.xml"), "SOWCTL_NOW": NOW})
    notes = [line for line in said.err.splitlines() if "is missing" in line]
    assert len(notes) == 1
    assert len(notes[0]) <= 160
