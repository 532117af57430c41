"""Rules for all command files."""

from __future__ import annotations

import importlib
import inspect
import shlex
from pathlib import Path

import pytest

from sowctl.cli.parsing import application
from sowctl.cli.parsing.dispatch import split_argv
from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.options import EVENT_FORMATS, FORMATS, INPUT_FORMATS
from sowctl.cli.parsing.overview import EXAMPLES
from sowctl.cli.parsing.table import COMMANDS, GROUPS, Command, find_command, split_command
from sowctl.cli.settings import GLOBAL_PANEL
from sowctl.declarations import Argument, Option
from tests.cli.conftest import Cli

every = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.page)


@every
def test_one_public_function(command: Command) -> None:
    module = importlib.import_module(f"sowctl.cli.commands.{command.module}")
    public = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert public == ["run"]


def test_every_file_is_in_the_table() -> None:
    import sowctl.cli.commands

    files = {path.stem for path in Path(sowctl.cli.commands.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == {command.module for command in COMMANDS}
    assert {command.group for command in COMMANDS} == set(GROUPS)
    assert len({command.words for command in COMMANDS}) == len(COMMANDS)


@every
def test_every_command_has_examples(command: Command) -> None:
    module = importlib.import_module(f"sowctl.cli.commands.{command.module}")
    examples = getattr(module, "EXAMPLES", ())
    assert isinstance(examples, tuple)
    assert examples, f"{module.__file__} needs EXAMPLES = (...): command lines for its help and its page"


def test_a_command_without_examples_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import sowctl.cli.commands.functions as module

    monkeypatch.delattr(module, "EXAMPLES")
    command = find_command(("functions",))
    assert command is not None
    assert load_command(command).examples == ()


@every
def test_help(command: Command, cli: Cli) -> None:
    text = cli(*command.words, "--help").out
    lines = text.splitlines()
    loaded = load_command(command)
    assert lines[2:4] == ["Examples:", f"  {loaded.examples[0]}"]
    assert max(len(line) for line in lines if line.strip() not in loaded.examples) <= 80
    assert text.isascii()
    assert "\x1b" not in text
    for parameter in loaded.parameters:
        if isinstance(parameter.declared, Option):
            # Of the global options, which "sowctl --help" describes, only the long names.
            shared = parameter.declared.panel == GLOBAL_PANEL
            assert all(name in text for name in parameter.declared.names if name.startswith("--") or not shared)
        else:
            assert parameter.declared.metavar in text


@every
def test_help_on_a_terminal_has_bold_headings_only(command: Command, cli: Cli) -> None:
    text = cli(*command.words, "-h", tty="out").out
    assert "\x1b[1mExamples:\x1b[0m" in text
    # If a terminal is too narrow for an example, it is continued on the next line, as a shell reads it.
    plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "").replace(" \\\n    ", " ")
    assert plain == cli(*command.words, "-h").out
    assert "\x1b" not in cli(*command.words, "-h", tty="out", environ={"NO_COLOR": "1"}).out
    assert "\x1b" not in cli(*command.words, "-h", tty="out", environ={"TERM": "dumb"}).out


def invocations() -> list[str]:
    lines = [line for command in COMMANDS for line in load_command(command).examples] + list(EXAMPLES)
    return [part.strip() for line in lines for part in line.replace(" && ", " | ").split(" | ")]


@pytest.mark.parametrize("line", sorted({line for line in invocations() if line.startswith("sowctl ")}))
def test_examples_can_be_read(line: str) -> None:
    words = shlex.split(line)[1:]
    words = words[: words.index(">")] if ">" in words else words
    parts = split_argv(words)
    leading, word, rest = parts.leading, parts.word, parts.rest
    command, rest = split_command([word or "", *rest])
    assert command is not None
    assert application.read_with_typer("sowctl", load_command(command).parameters, [*leading, *rest])


@every
def test_shared_options_are_spelled_alike(command: Command) -> None:
    spelled: dict[str, Option] = {}
    for parameter in load_command(command).parameters:
        if isinstance(parameter.declared, Option):
            for name in parameter.declared.names:
                assert name not in spelled
                spelled[name] = parameter.declared
    for parameter in GLOBAL_PARAMETERS:
        assert isinstance(parameter.declared, Option)
        assert spelled[parameter.declared.names[0]] is parameter.declared
    if "--format" in spelled and "ndjson" in spelled["--format"].choices:
        assert spelled["--format"].choices in (FORMATS, EVENT_FORMATS, INPUT_FORMATS)


@every
def test_operands_end_with_the_repeated_one(command: Command) -> None:
    # An operand that may be the last of the repeated ones is not read separately.
    operands = [p for p in load_command(command).parameters if isinstance(p.declared, Argument) and not p.within]
    assert all(parameter.shape == "text" for parameter in operands[:-1])
    required = [parameter.required for parameter in operands]
    assert required == sorted(required, reverse=True)
