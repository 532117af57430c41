"""Many commands in one process: from a pipe, and at a terminal simulated with prompt_toolkit."""

from __future__ import annotations

import io
import re
import shlex
import string
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.cli.configuration_cache import ConfigurationCache
from sowctl.cli.context import Invocation
from sowctl.cli.shell import command_lines as shell_lines
from sowctl.cli.shell.command_lines import (
    Unfinished,
    is_unfinished,
    iterate_commands,
    quote_word,
    split_last_word,
    split_words,
)
from sowctl.cli.streams import Streams
from sowctl.engine.api import InstanceHandle
from sowctl.errors import SowError
from sowctl.seam import SEAM
from sowctl.store.opening import shared_environments
from sowctl.values.times import system_clock
from tests.cli.conftest import Cli, Tty
from tests.support.examples import examples
from tests.support.instances import config_xml, topic_xml

CONFIG = config_xml(topic_xml("orders") + topic_xml("trades"), ("orders",))


@pytest.fixture
def here(cli: Cli, tmp_path: Path) -> Path:
    """A working directory with an instance and a record."""
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    InstanceHandle.open(tmp_path / "sowctl.xml").topic("orders").publish([{"id": "A1", "side": "buy it"}])
    return tmp_path


# splitting lines


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("# nothing", []),
        ("get a b # c", ["get", "a", "b"]),
        ("get a#b", ["get", "a#b"]),
        ("""q '/a = "x"'  "/b = 'y'" """, ["q", '/a = "x"', "/b = 'y'"]),
        (r"""a\ b "c\"d\e" 'f\g' """, ["a b", 'c"d\\e', "f\\g"]),
        ("a '' \"\"", ["a", "", ""]),
        ("a'b'\"c\"d", ["abcd"]),
        ("a \\\n b\\\nc", ["a", "bc"]),
        ('"a\\\nb"', ["ab"]),
        ("'a|b' \"c>d\" e\\;f", ["a|b", "c>d", "e;f"]),
        ("$HOME ~ *.x", ["$HOME", "~", "*.x"]),
        ("a # 'b\nc", ["a", "c"]),
    ],
)
def test_words_are_those_of_a_posix_shell(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a\\", "a \\\n", "'a\nb"])
def test_what_goes_on_in_the_next_line(text: str) -> None:
    with pytest.raises(Unfinished):
        split_words(text)


@pytest.mark.parametrize("text", ["a | b", "a > b", "a;b", "a &", "a $(b)", "`a`", "x\n/a < 5"])
def test_what_belongs_to_a_shell_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(SowError) as caught:
        split_words(text)
    line, caret = (caught.value.excerpt or "").split("\n")
    assert line[caret.index("^")] in "|>;&(`<"


@settings(max_examples=examples(200))
@given(st.lists(st.text(string.printable, max_size=12), max_size=5))
def test_what_is_quoted_reads_back(words: list[str]) -> None:
    """By this reader and by Python's, for all words and all kinds of opening quotes."""
    for mark in ("", "'", '"'):
        line = " ".join(quote_word(word, mark, finished=True) for word in words)
        assert split_words(line) == words
        # Python's reader keeps a backslash before two of the four characters for which POSIX removes it.
        if not set("$`") & set(line):
            assert shlex.split(line) == words


@settings(max_examples=examples(200))
@given(st.text("ab '\"\\#\n", max_size=20))
def test_lines_are_cut_as_python_cuts_them(text: str) -> None:
    """If both accept a line: Python's reader keeps line continuations, and finds comments inside words."""
    try:
        mine = split_words(text)
    except Unfinished:
        return
    if "#" not in text and "\\\n" not in text:
        assert mine == shlex.split(text)


@settings(max_examples=examples(100))
@given(st.text("ab '\"\\", max_size=12))
def test_the_word_being_written_is_the_last_of_the_line(text: str) -> None:
    before, word = split_last_word(text)
    try:
        words = split_words(text)
    except Unfinished:
        return
    assert [*before, *([word.text] if word.start < len(text) else [])] == words


def test_a_script_has_commands_over_several_lines() -> None:
    lines = ["info\n", "query orders '/a\n", "= 1'\n", "# x\n", "get a \\\n", "b\n", "end 'x\n"]
    assert list(iterate_commands(iter(lines))) == [
        (1, "info\n"),
        (2, "query orders '/a\n= 1'\n"),
        (4, "# x\n"),
        (5, "get a \\\nb\n"),
        (7, "end 'x\n"),
    ]


@settings(max_examples=examples(200))
@given(st.lists(st.text("ab '\"\\#|", max_size=6), max_size=6))
def test_commands_end_with_the_first_line_that_finishes_them(lines: list[str]) -> None:
    script = [f"{line}\n" for line in lines]
    found = [(number, text.splitlines(keepends=True)) for number, text in iterate_commands(iter(script))]
    assert [line for _, cut in found for line in cut] == script
    for number, cut in found:
        assert cut[0] == script[number - 1]
        assert all(is_unfinished("".join(cut[:length])) for length in range(1, len(cut)))
    assert not any(is_unfinished("".join(cut)) for _, cut in found[:-1])


def test_a_mark_that_stays_open_is_not_looked_for_anew_with_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = shell_lines._WordCutter.feed_lines
    monkeypatch.setattr(
        shell_lines._WordCutter, "feed_lines", lambda self, text: (fed.append(len(text)), feed(self, text))
    )
    script = ["query 'orders\n"] + ["hash orders\n"] * 500
    assert list(iterate_commands(iter(script))) == [(1, "".join(script))]
    assert sum(fed) == len("".join(script))


# from a pipe


def test_a_command_that_is_not_finished_is_shown_with_its_line(cli: Cli, here: Path) -> None:
    done = cli("shell", stdin=b'query orders --count\nquery "orders\nhash orders\nhash orders\n')
    said = done.err.splitlines()
    assert said[0].startswith("error[SOW-CLI-102]: ") and said[0].endswith(" 2 more lines")
    assert said[1].strip() == 'query "orders' and re.findall(r"\d+", said[-1]) == ["2", "2"]


def test_a_batch_runs_to_its_end_with_the_status_of_the_first_failure(cli: Cli, here: Path) -> None:
    script = b"""# a comment
query orders --count

get orders A1 nosuch
get nowhere A1
sowctl query orders "/side = 'buy it'" \\
    --count
"""
    done = cli("shell", stdin=script)
    assert done.out == '1\n{"id":"A1","side":"buy it"}\n1\n'
    assert done.status == 1
    ended = [re.findall(r"\d+", line) for line in done.err.splitlines() if line.startswith("line ")]
    assert ended == [["4", "1"], ["5", "10"]]
    stopped = cli("shell", "--stop-on-error", "--quiet", stdin=script)
    assert (stopped.status, stopped.out.count("\n"), stopped.err) == (1, 2, "")


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        (b"", 0, ""),
        (b"exit\nnosuch\n", 0, ""),
        (b"quit\nnosuch\n", 0, ""),
        (b"nosuch\n", 2, "SOW-CLI-001"),
        (b"shell\n", 2, "SOW-CLI-103"),
        (b"query orders '/a\n", 2, "SOW-CLI-102"),
        (b"query orders /a > 5\n", 2, "                ^"),
        (b"query orders /\xff\n", 2, "SOW-"),
        (b"publish orders\n", 0, "standard input is closed"),
        (b"exit now\n", 2, "SOW-CLI-001"),
    ],
)
def test_what_a_batch_says(script: bytes, status: int, words: str, cli: Cli, here: Path) -> None:
    done = cli("shell", stdin=script)
    assert done.status == status
    assert words in done.err
    assert "Traceback" not in done.err


def test_commands_of_a_batch_do_not_read_the_commands_behind_them(cli: Cli, here: Path) -> None:
    done = cli("shell", stdin=b'publish orders\n{"id":"never"}\nquery orders --count\n')
    assert done.out.endswith("1\n")


def test_global_options_of_the_shell_are_those_of_its_commands(cli: Cli, here: Path) -> None:
    (here / "sowctl.xml").rename(here / "other.xml")
    done = cli("-c", "other.xml", "shell", "-q", "--error-format", "json", stdin=b"query orders --count\nnosuch\n|\n")
    assert done.out == "1\n"
    assert [line[:17] for line in done.err.splitlines()] == ['{"level": "error"'] * 2
    assert cli("shell", "-c", "other.xml", stdin=b"-c none.xml info\n").status == 4


def test_stores_stay_open_and_what_others_write_is_seen(
    cli: Cli, here: Path, planted: Callable[[Callable[..., int]], None]
) -> None:
    """``completion`` writes between two queries, as another process would."""
    opened: list[int] = []

    def write(invocation: Invocation, **_: object) -> int:
        opened.append(len(shared_environments._shared))
        InstanceHandle.open(here / "sowctl.xml").topic("orders").publish([{"id": "B2"}])
        return 0

    planted(write)
    done = cli("shell", stdin=b"get orders A1\ncompletion\nquery orders --count\n")
    assert (done.out, done.err) == ('{"id":"A1","side":"buy it"}\n2\n', "")
    assert opened == [1]
    assert not shared_environments._shared


def test_a_configuration_is_read_once_and_again_when_a_file_of_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "part.xml").write_text(topic_xml("t"))
    path = tmp_path / "sowctl.xml"
    path.write_text("<AMPSConfig><Name>n</Name><SOW><Include>part.xml</Include></SOW></AMPSConfig>")
    kept = ConfigurationCache()
    fresh = kept.load(path, {}, None)
    # Just written, so it may have changed while it was read: not cached.
    assert kept.load(path, {}, None) is not fresh
    monkeypatch.setattr("sowctl.cli.configuration_cache.system_clock", lambda: system_clock() + 10_000_000)
    first = kept.load(path, {}, None)
    assert kept.load(path, {}, None) is first
    assert kept.load(path, {"A": "b"}, None) is not first
    assert kept.load(path, {"A": "b"}, tmp_path / "x").root == tmp_path / "x"
    first = kept.load(path, {}, None)
    (tmp_path / "part.xml").write_text(topic_xml("other"))
    assert [topic.name for topic in kept.load(path, {}, None).topics] == ["other"]
    path.unlink()
    with pytest.raises(SowError):
        kept.load(path, {}, None)


# at a terminal


def test_without_the_package_the_terminal_says_which_extra_to_install(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "prompt_toolkit"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "sowctl.cli.shell.prompt", raising=False)
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    done = cli("shell", tty="in out err", environ={"TERM": "dumb"})
    assert done.status == 12
    assert "sowctl[tui]" in done.err
    assert cli("shell", stdin=b"query orders --count\n").out == "1\n"


Talk = Callable[..., tuple[int, str, str]]


@pytest.fixture
def talk(here: Path) -> Iterator[Talk]:
    """``talk("query orders\\r", ...)``: input typed at the terminal; status, standard output and error."""
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from sowctl.cli.shell.prompt import run_prompt

    with create_pipe_input() as keys:

        def typed(text: str, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
            out, err = io.BytesIO(), io.BytesIO()
            environ = {"HOME": str(here)} if environ is None else environ
            invocation = Invocation(Streams(Tty(), out, err, environ), environ, SEAM, system_clock)
            keys.send_text(text)
            status = run_prompt(invocation, input=keys, output=DummyOutput())
            return status, out.getvalue().decode(), err.getvalue().decode()

        typed.keys = keys  # type: ignore[attr-defined]
        yield typed


CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"


def test_commands_at_a_terminal(talk: Talk) -> None:
    typed = f"nosuch\rhalf{CTRL_C}\rquery orders '/id\r= \"A1\"' --count\rget orders A1\r{CTRL_D}"
    status, out, err = talk(typed)
    assert (status, out) == (0, '1\n{"id":"A1","side":"buy it"}\n')
    assert "unknown command 'nosuch'" in err
    assert talk("nosuch\rexit\r")[0] == 0
    assert talk(f"nosuch\r{CTRL_D}")[0] == 2


def test_an_interrupt_ends_its_command_alone(talk: Talk, planted: Callable[[Callable[..., int]], None]) -> None:
    def interrupted(invocation: Invocation, **_: object) -> int:
        raise KeyboardInterrupt

    planted(interrupted)
    status, out, err = talk(f"completion\rquery orders --count\rcompletion\r{CTRL_D}")
    assert (status, out) == (0, "1\n")
    assert err.count("interrupted") == 2


def test_a_tab_completes_what_the_scripts_complete(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    from prompt_toolkit.application import get_app

    from sowctl.cli.shell.prompt import LineCompleter

    offered = LineCompleter.get_completions
    rest: list[Callable[[], None]] = []

    def then_more(self: LineCompleter, *asked: Any) -> Iterator[Any]:
        # The terminal completes in parallel to incoming keys: the others are typed when the completion is done.
        yield from list(offered(self, *asked))
        get_app().loop.call_later(0.05, rest.pop())  # type: ignore[union-attr]

    monkeypatch.setattr(LineCompleter, "get_completions", then_more)
    rest.append(lambda: talk.keys.send_text(f"orders --count\r{CTRL_D}"))  # type: ignore[attr-defined]
    assert talk(f"quer{TAB}") == (0, "1\n", "")


def test_the_history_is_kept_for_its_owner_alone(talk: Talk, here: Path) -> None:
    talk(f"get orders A1\r query orders '/secret = 1'\r{CTRL_D}")
    path = here / ".local" / "state" / "sowctl" / "history"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "+get orders A1\n" in path.read_text()
    assert "secret" not in path.read_text()
    status, out, _ = talk(f"{UP}\r{CTRL_D}")
    assert (status, out) == (0, '{"id":"A1","side":"buy it"}\n')


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"SOWCTL_HISTORY": "/x/y"}, Path("/x/y")),
        ({"SOWCTL_HISTORY": "", "HOME": "/h"}, None),
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, Path("/s/sowctl/history")),
        ({"HOME": "/h"}, Path("/h/.local/state/sowctl/history")),
    ],
)
def test_where_the_history_is_kept(environ: dict[str, str], place: Path | None) -> None:
    pytest.importorskip("prompt_toolkit")
    from sowctl.cli.shell.prompt import find_history_path

    assert find_history_path(environ) == place


def test_without_a_place_for_it_no_history_is_kept(talk: Talk, here: Path) -> None:
    (here / "file").touch()
    status, out, err = talk(f"query orders --count\r{CTRL_D}", {"SOWCTL_HISTORY": str(here / "file" / "history")})
    assert (status, out) == (0, "1\n")
    assert f": {here / 'file' / 'history'}: " in err
    assert talk(f"query orders --count\r{CTRL_D}", {"SOWCTL_HISTORY": ""})[1] == "1\n"


@contextmanager
def completer(here: Path) -> Iterator[Callable[[str], list[tuple[str, str, str]]]]:
    """The completions of a line: inserted text, displayed text, description."""
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from sowctl.cli.shell.prompt import LineCompleter

    environ: dict[str, str] = {}
    invocation = Invocation(Streams(io.BytesIO(), io.BytesIO(), io.BytesIO(), environ), environ, SEAM, system_clock)
    found = LineCompleter(invocation)

    def offered(text: str) -> list[tuple[str, str, str]]:
        event: Any = CompleteEvent(completion_requested=True)
        return [
            (text[: len(text) + one.start_position] + one.text, one.display_text, one.display_meta_text)
            for one in found.get_completions(Document(text), event)
        ]

    yield offered


def test_what_is_offered_is_written_so_that_it_can_be_read(here: Path) -> None:
    (here / "a b.sow").touch()
    (here / "dir").mkdir()
    with completer(here) as offered:
        assert [one[:2] for one in offered("q")] == [("query ", "query"), ("queue ", "queue")]
        assert offered("query or") == [("query orders ", "orders", "Topic, json")]
        assert offered("query orders /si") == [("query orders /side", "/side", "")]
        assert offered("query orders '/side = ") == [("query orders \"/side = 'buy it'", "'buy it'", "")]
        assert offered("info 'a") == [("info 'a b.sow'", "a b.sow", "")]
        assert offered("info a") == [('info "a b.sow"', "a b.sow", "")]
        assert offered("--config=sowctl") == [("--config=sowctl.xml", "sowctl.xml", "")]
        assert offered("--root d") == [("--root dir/", "dir/", "")]
        assert offered("--root no/such") == []
        assert [one[0] for one in offered("exi")] == ["exit"]
        assert offered("query orders | x") == []


def test_the_time_for_a_long_word_grows_with_its_length() -> None:
    def seconds(letters: int) -> float:
        begin = time.process_time()
        assert split_words("query 'a b' " + "x" * letters) == ["query", "a b", "x" * letters]
        return time.process_time() - begin

    # When each letter copied those before it, eight times the letters took 52 times as long (0.05 s, 2.46 s).
    assert seconds(400_000) < 30 * max(seconds(40_000), 0.01)
