"""Arguments that are not UTF-8: every option and operand that takes a text, of every command; none causes a bug error.

Each is tested with some of the texts and topics, and options of all commands with some of the commands, with other
choices in every run; ``--deep`` tests all.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.cli.main import main
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.parameters import Parameter
from sowctl.cli.parsing.table import COMMANDS, Command
from sowctl.declarations import Argument, Option
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

OPERANDS = {
    "TOPIC": ["t"],
    "TARGET": ["t"],
    "CONFIG": ["sowctl.xml"],
    "KEY": ["1"],
    "EXPR": ["/id"],
    "OLD": ["sowctl.xml"],
    "NEW": ["sowctl.xml"],
    "DIRECTORY": ["there"],
}
"""Values of other operands that are required."""
NEEDED = {
    "--timestamp-field": ["--timestamp", "NOW"],
    "--grouping": ["--projection", "COUNT(/id) AS /n"],
    "--projection": ["--grouping", "/id"],
    "--after-key": ["--order-by", "/id"],
    "--template": ["--format", "template"],
    "--rejects": ["--on-error", "skip"],
}
BEGUN = {"--key": ["--topic", "t"], "--name": ["--topic", "t=/id"], "--journal": ["--topic", "t=/id"]}
"""The same for ``config init``."""
ENDING = {"subscribe": ["--until-now"], "tail": ["--until-now"]}
"""Options that end commands that would otherwise run endlessly."""
FILES = ["\udcff", "a\udcffb.sow"]
BAD = ["\udcff", "[/\udcff]", "1\udcff", "t=/\udcff", "[json].[\udcff]=/id"]
TRIES = 3
"""Command lines tested for an option or an operand, of up to 14."""
SHARING = 8
"""Commands with which an option of all commands is tested."""
PATHS = ["/\udcff", "/a\udcffb"]
"""Only for paths of fields: as names of files they would lead out of the test's directory."""


def _places() -> Iterator[tuple[Command, Parameter]]:
    for command in COMMANDS:
        if command.words[0] == "pipeline":  # these start Spark; shared options are tested with other commands
            continue
        for parameter in load_command(command).parameters:
            if parameter.shape in ("text", "texts") and not parameter.declared.choices:
                yield command, parameter


PLACES = list(_places())
COUNTS = Counter(parameter.name for _, parameter in PLACES)
SHARED = sorted(name for name, count in COUNTS.items() if count == len({command.name for command, _ in PLACES}))
"""The options that all commands have."""


def _name(value: object) -> str:
    if isinstance(value, Command):
        return " ".join(value.words)
    return value.name if isinstance(value, Parameter) else str(value)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance with two topics, to be copied."""
    place = tmp_path_factory.mktemp("bytes")
    (place / "sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("own", key=None), ("t", "own")))
    for words in (["t"], ["own", "--sow-key", "YQ=="]):
        streams = {"stdin": io.BytesIO(b'{"id":1}\n{"id":2}'), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
        main(["publish", *words, "-c", str(place / "sowctl.xml")], environ={}, **streams)
    return place


@pytest.mark.parametrize(
    ("command", "parameter"), [place for place in PLACES if place[1].name not in SHARED], ids=_name
)
def test_bytes_that_are_not_utf8(
    command: Command, parameter: Parameter, cli: Cli, published: Path, tmp_path: Path, seed: int, deep: bool
) -> None:
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    _try_lines(_list_lines(command, parameter), cli, None if deep else random.Random(seed))


@pytest.mark.parametrize("name", SHARED)
def test_bytes_in_options_of_all_commands(
    name: str, cli: Cli, published: Path, tmp_path: Path, seed: int, deep: bool
) -> None:
    chance = random.Random(seed)
    places = [place for place in PLACES if place[1].name == name]
    for number, (command, parameter) in enumerate(places if deep else chance.sample(places, SHARING)):
        here = shutil.copytree(published, tmp_path / str(number))
        with contextlib.chdir(here):
            _try_lines(_list_lines(command, parameter), cli, None if deep else chance)


def _list_lines(command: Command, parameter: Parameter) -> list[list[str]]:
    """The command lines with which an option or an operand of a command is tested."""
    # Values that name files stay in the directory of the test.
    fields = parameter.declared.metavar in ("PATH", "EXPR", "LIST", "FIELDS")
    files = parameter.declared.complete or parameter.declared.metavar in ("FILE", "DIR")
    lines: list[list[str]] = []
    for bad in FILES if files else BAD + PATHS if fields else BAD:
        for topic in ("t", "own"):
            words = list(command.words)
            if isinstance(parameter.declared, Option):
                name = parameter.declared.names[0]
                words += [name, bad, *(BEGUN if command.name == "config init" else NEEDED).get(name, [])]
            for other in load_command(command).parameters:
                if isinstance(other.declared, Argument) and (other.required or other == parameter):
                    usual = OPERANDS.get(other.declared.metavar, ["t"])
                    words += [bad] if other == parameter else [topic] if usual == ["t"] else usual
            words += ENDING.get(command.name, [])
            if words not in lines:  # a command without a topic
                lines.append(words)
    return lines


def _try_lines(lines: list[list[str]], cli: Cli, chance: random.Random | None) -> None:
    """Run all command lines, or those selected by ``chance``; none of them causes a bug error."""
    for words in lines if chance is None else chance.sample(lines, min(len(lines), TRIES)):
        result = cli(*words, stdin=b'{"id":3}', environ={"LINES": "20"})
        assert result.status != 70, (words, result.err)
        assert "bug" not in result.err
