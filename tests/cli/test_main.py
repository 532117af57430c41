"""The error boundary: all ways in which a run can end, their messages and exit statuses."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import sowctl.cli
from sowctl.cli.context import Invocation
from sowctl.cli.main import Terminated
from sowctl.cli.parsing.codes import EXIT_STATUSES
from sowctl.errors import ERROR_CLASSES, InputError, SowError
from tests.cli.conftest import Cli

Plant = Callable[[Callable[..., int]], None]


def raising(error: BaseException, durable: str | None = None) -> Callable[..., int]:
    def run(invocation: Invocation) -> int:
        """Fail."""
        invocation.durable = durable
        raise error

    return run


FULL = InputError(
    "SOW-PUB-012",
    "not valid JSON",
    place="orders.ndjson:251:2",
    excerpt="251 | {bad\n    |  ^",
    hint="--on-error skip continues past bad lines",
    durable="250 messages are durable",
    resume="resume with --skip-lines 250",
    published=250,
)


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_each_class_has_its_status(kind: type[SowError], cli: Cli, planted: Plant) -> None:
    planted(raising(kind("SOW-TST-001", "because")))
    result = cli("completion")
    assert (result.status, result.out) == (kind.exit_status, "")
    assert result.err == "error[SOW-TST-001]: because\n"
    assert kind.exit_status in dict(EXIT_STATUSES)


def test_the_whole_text(cli: Cli, planted: Plant) -> None:
    planted(raising(FULL))
    assert cli("completion").err == (
        "error[SOW-PUB-012]: orders.ndjson:251:2: not valid JSON\n"
        "  251 | {bad\n"
        "      |  ^\n"
        "  250 messages are durable\n"
        "  resume with --skip-lines 250\n"
        "  hint: --on-error skip continues past bad lines\n"
    )


def test_json_errors_are_one_line(cli: Cli, planted: Plant) -> None:
    planted(raising(FULL))
    for argv in (("--error-format", "json", "completion"), ("completion", "--error-format=json")):
        result = cli(*argv)
        assert result.status == 3
        (line,) = result.err.splitlines()
        row = json.loads(line)
        assert (row["level"], row["code"], row["exit"]) == ("error", "SOW-PUB-012", 3)
        assert (row["published"], row["place"]) == (250, "orders.ndjson:251:2")


def test_json_errors_also_for_wrong_options(cli: Cli) -> None:
    result = cli("--error-format", "json", "query", "--no-such")
    assert json.loads(result.err)["code"] == "SOW-CLI-003"
    assert result.status == 2


def test_hostile_words_are_escaped(cli: Cli, planted: Plant) -> None:
    planted(raising(InputError("SOW-TST-001", "a\x1b[31m\nb", place="f\x07", hint="[/x]", excerpt="\x1b]0;t\x07")))
    err = cli("completion", tty="out err", environ={"NO_COLOR": "1"}).err
    assert {c for c in err if c < " "} == {"\n"}
    assert "a\\x1b[31m\\nb" in err
    assert "[/x]" in err


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "input/output"),
        (errno.ELOOP, "symbolic links"),
    ],
)
def test_the_system_s_refusals(number: int, words: str, cli: Cli, planted: Plant) -> None:
    planted(
        raising(OSError(number, "Too many levels of symbolic links", "some/file"), durable="7 messages are durable")
    )
    result = cli("completion")
    assert result.status == 6
    assert result.err.startswith("error[SOW-CLI-060]: some/file: ")
    assert words in result.err
    assert "  7 messages are durable\n" in result.err


def test_too_little_memory_is_no_bug(cli: Cli, planted: Plant) -> None:
    planted(raising(MemoryError(), durable="7 messages are durable"))
    result = cli("completion")
    assert result.status == 7
    assert result.err.startswith("error[SOW-CLI-063]: ")
    assert "  7 messages are durable\n" in result.err


@pytest.mark.parametrize(("place", "url"), [("s3:/lake/x.parquet", True), ("lake/s3:/x", False), ("C:/x", False)])
def test_a_url_where_a_path_is_meant_has_a_hint(place: str, url: bool, cli: Cli, planted: Plant) -> None:
    planted(raising(FileNotFoundError(errno.ENOENT, "No such file", place)))
    assert ("sowctl pipeline export" in cli("completion").err) == url


def test_a_closed_pipe_is_quiet(cli: Cli, planted: Plant) -> None:
    planted(raising(BrokenPipeError(errno.EPIPE, "Broken pipe")))
    assert cli("completion") == type(cli("--version"))(141, "", "")


def test_interrupts_say_what_is_durable(cli: Cli, planted: Plant) -> None:
    planted(raising(KeyboardInterrupt(), durable="250 messages are durable"))
    result = cli("completion")
    assert (result.status, result.err) == (130, "\ninterrupted; 250 messages are durable\n")
    planted(raising(Terminated()))
    assert (cli("completion").status, cli("completion").err) == (143, "terminated\n")


def test_notes_warnings_and_interrupts_are_json_where_errors_are(cli: Cli, planted: Plant) -> None:
    def run(invocation: Invocation) -> int:
        """Talk."""
        invocation.note("a note")
        invocation.note_detail("a detail")
        invocation.warn("a warning")
        raise KeyboardInterrupt

    planted(run)
    rows = [json.loads(line) for line in cli("completion", "-v", "--error-format", "json").err.splitlines()]
    assert [(row["level"], row["message"]) for row in rows] == [
        ("note", "a note"),
        ("note", "a detail"),
        ("warning", "a warning"),
        ("error", "interrupted"),
    ]
    assert cli("completion").err == "a note\nwarning: a warning\n\ninterrupted\n"
    assert cli("completion", "-q").err == "warning: a warning\n\ninterrupted\n"


def test_bugs_are_ours(cli: Cli, planted: Plant) -> None:
    planted(raising(ZeroDivisionError("secret \x1b")))
    result = cli("completion")
    assert result.status == 70
    assert result.err.startswith("error[SOW-CLI-070]: ") and ": ZeroDivisionError: secret \\x1b\n" in result.err
    assert "Traceback" not in result.err
    traced = cli("completion", "--debug")
    assert "Traceback" in traced.err
    assert "\x1b" not in traced.err


def test_errors_have_tracebacks_only_when_asked(cli: Cli, planted: Plant) -> None:
    planted(raising(FULL))
    assert "Traceback" in cli("--debug", "completion").err


def test_colour_only_where_it_is_wanted(cli: Cli, planted: Plant) -> None:
    planted(raising(FULL))
    assert "\x1b[1;31merror[SOW-PUB-012]\x1b[0m" in cli("completion", tty="err").err
    assert "\x1b" in cli("--color", "always", "completion").err
    assert "\x1b" in cli("completion", environ={"CLICOLOR_FORCE": "1"}).err
    for environ in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in cli("completion", tty="err", environ=environ).err
    assert "\x1b" not in cli("completion", "--color=never", tty="err").err
    assert "\x1b" not in cli("completion", tty="err", environ={"NO_COLOR": "", "TERM": "dumb"}).err


def test_broad_handlers_stand_only_at_the_boundary() -> None:
    root = Path(sowctl.cli.__file__).parent
    found = [
        (path.name, line.strip())
        for path in sorted(root.rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"except (Base)?Exception|except:", line)
    ]
    assert [name for name, _ in found] == ["main.py"]


def test_every_status_is_told_once() -> None:
    statuses = [status for status, _ in EXIT_STATUSES]
    assert statuses == sorted(set(statuses))


def test_arguments_that_are_not_utf8_are_named_where_they_do_not_fit(cli: Cli, planted: Plant, tmp_path: Path) -> None:
    new = str(tmp_path / "new.xml")
    result = cli("config", "init", new, "--topic", "orders", "--key", "/t\udcff")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("error[SOW-CLI-078]: ") and "'/t\\udcff'" in result.err
    assert not Path(new).exists()
    planted(raising(UnicodeEncodeError("utf-8", "x\udcff", 1, 2, "surrogates not allowed")))
    assert cli("completion").status == 70, "where no argument is to blame, it is a bug"
