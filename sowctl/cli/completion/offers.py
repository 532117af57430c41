"""From the words of a command line to what completes the one that is being written.

The scripts of bash, zsh and fish ask here (``sowctl completion SHELL -- WORDS``), and so does the shell of this
program. Nothing is run, and nothing raised: where something cannot be found out, it is not offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.cli.completion import fields
from sowctl.cli.completion.known import KnownInstance
from sowctl.cli.words.declare import NAMED, WITH_STORES, Argument, Option, Parameter
from sowctl.cli.words.loaded import load
from sowctl.cli.words.options import FORMATS, GLOBALS, LEADING_VALUES
from sowctl.cli.words.table import COMMANDS, PAGES, PREFIXES, Command, find, members

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation, Settings

_FILTERS = ("FILTER", "EXPR")
_FIELDS = ("LIST", "PATH")
_HELP = (("--help", "Show full help."), ("-h", "Show short help."))


class Offer(Struct, frozen=True):
    """A word, and what it is."""

    text: str
    help: str = ""


class Offers(Struct, frozen=True):
    """What completes a word: ``words`` that begin with what is written, ``paths`` of this kind (file, directory, store;
    empty for none) behind the ``front``; ``unfinished``: a word is no more than the beginning of what belongs there."""

    words: tuple[Offer, ...] = ()
    paths: str = ""
    front: str = ""
    unfinished: bool = False


class _Line(Struct):
    """A command line as far as it is written: the option that waits for its value, and what has been given."""

    command: Command | None = None
    parameters: tuple[Parameter, ...] = GLOBALS
    prefix: str = ""
    waiting: Parameter | str | None = None
    literal: bool = False
    unknown: bool = False
    operands: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)


def offers(
    invocation: Invocation, words: Sequence[str], current: str, seen: dict[Settings, KnownInstance] | None = None
) -> Offers:
    """What completes ``current`` behind ``words``. ``seen`` keeps what was found out for the next question."""
    line = _read(words)
    # The configuration is the one that the line itself names.
    named = {name: line.given[name] for name in ("config", "root") if name in line.given}
    asking = copy(invocation)
    asking.settings = replace(invocation.settings, quiet=True, **named)
    seen = {} if seen is None else seen
    known = seen.setdefault(asking.settings, KnownInstance(asking))
    if line.unknown:
        return Offers()
    if line.waiting is not None:
        if isinstance(line.waiting, str):
            return _those(current, FORMATS)
        return _values(line.waiting, line, current, known)
    if current.startswith("-") and not line.literal:
        name, equals, value = current.partition("=")
        if not equals:
            return _options(line, current)
        parameter = _spelled(line, name)
        if parameter is None or not parameter.takes_value:
            return Offers()
        found = _values(parameter, line, value, known)
        front = f"{name}="
        return replace(found, words=tuple(Offer(front + one.text, one.help) for one in found.words), front=front)
    if line.command is None:
        return _commands(line.prefix, current)
    operands = [one for one in line.parameters if isinstance(one.declared, Argument)]
    place = min(len(line.operands), len(operands) - 1)
    if place < 0 or (len(line.operands) > place and operands[place].shape != "texts"):
        return Offers()
    return _values(operands[place], line, current, known)


def _read(words: Sequence[str]) -> _Line:
    line = _Line()
    for word in words:
        if line.waiting is not None:
            if isinstance(line.waiting, Parameter):
                line.given[line.waiting.name] = word
            line.waiting = None
        elif line.literal:
            line.operands.append(word)
        elif word == "--":
            line.literal = line.command is not None
        elif word.startswith("-") and word != "-":
            _option(line, word)
        elif line.command is not None:
            line.operands.append(word)
        elif not line.prefix and word in PREFIXES:
            line.prefix = word
        elif line.prefix or word != "help":
            line.command = find((line.prefix, word) if line.prefix else (word,))
            if line.command is None:
                line.unknown = True
                return line
            line.parameters = load(line.command).parameters
    return line


def _option(line: _Line, word: str) -> None:
    name, equals, value = word.partition("=")
    parameter = _spelled(line, name)
    if parameter is None:
        # It may stand in front of the command, and has a value there, too.
        line.waiting = name if line.command is None and name in LEADING_VALUES and not equals else None
    elif parameter.takes_value and not equals:
        line.waiting = parameter
    elif equals:
        line.given[parameter.name] = value


def _spelled(line: _Line, name: str) -> Parameter | None:
    for parameter in line.parameters:
        if isinstance(parameter.declared, Option) and name in parameter.declared.names:
            return parameter
    return None


def _commands(prefix: str, current: str) -> Offers:
    if prefix:
        found = [Offer(command.words[1], command.summary) for command in members(prefix)]
    else:
        found = [Offer(command.name, command.summary) for command in COMMANDS if len(command.words) == 1]
        found += [Offer(word, about) for word, about in PREFIXES.items()]
    return Offers(tuple(one for one in found if one.text.startswith(current)))


def _options(line: _Line, current: str) -> Offers:
    found = [
        Offer(name, parameter.declared.help)
        for parameter in line.parameters
        if isinstance(parameter.declared, Option)
        for name in parameter.declared.names
    ]
    found += [Offer(*one) for one in _HELP]
    if line.command is None and not line.prefix:
        found.append(Offer("--version", "show the version"))
    return Offers(tuple(one for one in found if one.text.startswith(current)))


def _those(current: str, words: Iterable[str], *, unfinished: bool = False) -> Offers:
    return Offers(tuple(Offer(one) for one in words if one.startswith(current)), unfinished=unfinished)


def _values(parameter: Parameter, line: _Line, current: str, known: KnownInstance) -> Offers:
    """What completes the value of an option, or an operand."""
    declared = parameter.declared
    kind = declared.complete
    if declared.choices:
        return _those(current, declared.choices)
    if kind in NAMED:
        names = tuple(Offer(name, what) for name, what in known.names(kind) if name.startswith(current))
        return Offers(names, paths="store" if kind in WITH_STORES else "")
    if kind in ("file", "directory", "store"):
        return Offers(paths=kind)
    if kind:
        return _those(current, _table(kind))
    target = _target(line)
    if parameter.name == "options":
        return _those(current, fields.in_options(current, _option_names()), unfinished=True)
    if declared.metavar in _FILTERS:
        written = fields.in_filter(current, known.values(target) if target else {}, _table("function"))
        return _those(current, _as_written(current, written), unfinished=True)
    if parameter.name == "paths" and target:
        # One path to a word, so that the next one begins behind a blank.
        return _those(current, known.values(target))
    if declared.metavar in _FIELDS and target:
        paths = [*known.values(target), *(_column_names() if parameter.name == "columns" else ())]
        return _those(current, fields.in_list(current, paths, order=parameter.name == "order_by"), unfinished=True)
    if parameter.name == "keys" and target:
        return _those(current, known.keys(target))
    return Offers()


def _as_written(current: str, found: Iterable[str]) -> list[str]:
    """The same with what is written as it is written: names of functions are found in any letter case."""
    return [current + one[len(current) :] for one in found]


def _target(line: _Line) -> str:
    """The topic or view that the line names; empty where it names none."""
    operands = [one for one in line.parameters if isinstance(one.declared, Argument)]
    for parameter, word in zip(operands, line.operands, strict=False):
        if parameter.declared.complete in NAMED:
            return word
    return ""


def _table(kind: str) -> tuple[str, ...]:
    """The words of a table."""
    if kind == "page":
        # A page is named by its command, too, as help texts do.
        commands = (command.words[0] for command in COMMANDS if len(command.words) == 1)
        return (*commands, *(command.page for command in COMMANDS), *PAGES)
    if kind == "function":
        from sowctl.expressions.functions.table import FUNCTION_TABLE

        return tuple(entry.name for entry in FUNCTION_TABLE)
    if kind == "code":
        from sowctl.cli.words.codes import known

        return tuple(known())
    if kind == "message type":
        from sowctl.messages.types import type_names

        return tuple(type_names())
    return ()


def _option_names() -> list[str]:
    from sowctl.engine.search.optiontext import BOOKMARK, IGNORED, LISTS, LITERAL, NUMBERS, TEXTS

    return [*(f"{name}=" for name in (*NUMBERS, *LISTS, *TEXTS, BOOKMARK)), LITERAL, *IGNORED]


def _column_names() -> tuple[str, ...]:
    from sowctl.output.options import NAMES

    return NAMES
