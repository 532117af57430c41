"""What messages, hints and help texts tell people to do exists: every command and every option that they name.

All texts of the program are read, not those alone that tests happen to raise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sowctl
from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.overview import list_known_options
from sowctl.cli.parsing.table import COMMANDS, PREFIXES, find_command, split_command, split_prefix

ROOT = Path(sowctl.__file__).parent
GAP = "\0"
"""Stands in a text for a value that is filled in."""
COMMAND = re.compile(r"(?<![\w/.-])sowctl ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*){0,2})")
QUOTED = re.compile(rf"'({'|'.join(PREFIXES)}) ([a-z-]+)\b")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
PROSE = {"acts", "always", "does", "itself", "manual", "on", "only", "takes", "that", "works"}
"""Words that follow the program's name where a sentence speaks of the program."""
FOREIGN = {
    "cli/parsing/synonyms.py": "what other tools call it",
    "messages/proto/files.py": "protoc",
    "spark/jvm/java.py": "the Java machine",
    "spark/submit.py": "spark-submit",
}
"""Modules that name options of other programs."""
PASSES_ON = {"pipeline submit-args"}
"""Commands whose arguments are the command line of another one."""


def _options() -> dict[str, set[str]]:
    shared = {name for parameter in GLOBAL_PARAMETERS for name in parameter.declared.names} | {"--help"}
    found = {}
    for command in COMMANDS:
        own = {
            name
            for parameter in load_command(command).parameters
            for name in getattr(parameter.declared, "spellings", ())
        }
        found[command.name] = own | shared
    return found


OPTIONS = _options()
ANY = set().union(*OPTIONS.values()) | set(list_known_options())


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and content of every text in a module that is no docstring, with gaps for what is filled in."""
    tree = ast.parse(path.read_text())
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inner.update(map(id, node.values))
            parts = [str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values]
            yield node.lineno, "".join(parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in inner:
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(text, str):
                yield node.lineno, text


def _command_of(path: Path) -> set[str]:
    """The options of the command whose module this is; those of all for modules that serve several."""
    if path.parent.name == "commands":
        for command in COMMANDS:
            if command.module == path.stem:
                return OPTIONS[command.name]
    return ANY


def _wrong(path: Path) -> Iterator[str]:
    for line, text in _texts(path):
        where = f"{path.name}:{line}"
        rest = text
        matches = list(COMMAND.finditer(text))
        for number, match in enumerate(matches):
            words = match[1].split()
            command, _ = split_command(words)
            if command is None:
                prefix, behind = split_prefix(words)
                if words[0] not in PROSE and not (prefix and not behind and text[match.end() :][:2] == " " + GAP):
                    yield f"{where}: there is no command 'sowctl {match[1]}'"
                continue
            # Up to the end of the command line: a quote, a pipe, the next sentence.
            stop = matches[number + 1].start() if number + 1 < len(matches) else len(text)
            line_of = re.split(r"[;'|\n]|\. ", text[match.end() : stop])[0]
            for option in OPTION.findall(line_of):
                if option not in OPTIONS[command.name] and command.name not in PASSES_ON:
                    yield f"{where}: 'sowctl {command.name}' has no {option}"
            rest = rest.replace(line_of, "") if line_of.strip() else rest
        for prefix, word in QUOTED.findall(text):
            if find_command((prefix, word)) is None and f"{prefix} {word}" not in PREFIXES:
                yield f"{where}: there is no command '{prefix} {word}'"
        known = _command_of(path)
        foreign = path.is_relative_to(ROOT) and str(path.relative_to(ROOT)) in FOREIGN
        for option in OPTION.findall(rest):
            if option not in known and not foreign:
                yield f"{where}: there is no option {option} here"


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_texts_name_exists(path: Path) -> None:
    assert list(_wrong(path)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("run sowctl journal polish", "there is no command 'sowctl journal polish'"),
        ("'journal polish' shows more", "there is no command 'journal polish'"),
        ("--no-lock reads it", "there is no option --no-lock here"),
        ("sowctl query {name} --sequence 3 > FILE", "'sowctl query' has no --sequence"),
        ("run sowctl repair {name}", "there is no command 'sowctl repair'"),
        ("sowctl query {name} --meta | sowctl publish --framing envelope; raise --lock-wait", None),
    ],
)
def test_what_does_not_exist_is_found(text: str, found: str | None, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"hint = f{text!r}\n")
    assert list(_wrong(path)) == ([] if found is None else [f"module.py:1: {found}"])
