"""Find the completions of the current word of a command line.

Called by the scripts of bash, zsh and fish (``sowctl completion SHELL -- WORDS``) and by the shell of this program.
Nothing is executed, and no error is raised: candidates that cannot be determined are not offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.cli.completion import filters
from sowctl.cli.completion.instance_values import InstanceValues
from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS, LEADING_VALUE_OPTIONS
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.options import FORMATS
from sowctl.cli.parsing.parameters import Parameter, is_filter_text
from sowctl.cli.parsing.table import COMMANDS, PAGES, PREFIXES, Command, find_command, list_members
from sowctl.declarations import COMPLETED_KINDS, STORE_COMPLETIONS, Argument, Option

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.cli.settings import Settings

_FILTER_METAVARS = ("FILTER", "EXPR")
_FIELD_METAVARS = ("LIST", "PATH")
_HELP_OPTIONS = (("--help", "Show full help."), ("-h", "Show short help."))


class Candidate(Struct, frozen=True):
    """A word and its description."""

    text: str
    help: str = ""


class Candidates(Struct, frozen=True):
    """Candidates: ``words``, or ``paths`` (file, directory, store) after ``front``; ``unfinished`` words are
    prefixes."""

    words: tuple[Candidate, ...] = ()
    paths: str = ""
    front: str = ""
    unfinished: bool = False


class _CommandLine(Struct):
    """A command line up to the current word: the option that waits for its value, and the options and operands
    given."""

    command: Command | None = None
    parameters: tuple[Parameter, ...] = GLOBAL_PARAMETERS
    prefix: str = ""
    waiting: Parameter | str | None = None
    literal: bool = False
    unknown: bool = False
    operands: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)


def find_candidates(
    invocation: Invocation, words: Sequence[str], current: str, seen: dict[Settings, InstanceValues] | None = None
) -> Candidates:
    """Find the completions of ``current`` after ``words``. ``seen`` caches instance values between calls."""
    line = _read_line(words)
    # The configuration is that of the line itself.
    named = {name: line.given[name] for name in ("config", "root") if name in line.given}
    asking = copy(invocation)
    asking.settings = replace(invocation.settings, quiet=True, **named)
    seen = {} if seen is None else seen
    known = seen.setdefault(asking.settings, InstanceValues(asking))
    if line.unknown:
        return Candidates()
    if line.waiting is not None:
        if isinstance(line.waiting, str):
            return _select_words(current, FORMATS)
        return _complete_value(line.waiting, line, current, known)
    if current.startswith("-") and not line.literal:
        name, equals, value = current.partition("=")
        if not equals:
            return _complete_options(line, current)
        parameter = _find_option(line, name)
        if parameter is None or not parameter.takes_value:
            return Candidates()
        found = _complete_value(parameter, line, value, known)
        front = f"{name}="
        return replace(found, words=tuple(Candidate(front + one.text, one.help) for one in found.words), front=front)
    if line.command is None:
        return _complete_commands(line.prefix, current)
    operands = [one for one in line.parameters if isinstance(one.declared, Argument)]
    place = min(len(line.operands), len(operands) - 1)
    if place < 0 or (len(line.operands) > place and operands[place].shape != "texts"):
        return Candidates()
    asked = operands[place]
    if asked.within and current and not is_filter_text(current):
        # The next name, as long as the text cannot be a filter.
        asked = operands[place - 1]
    return _complete_value(asked, line, current, known)


def _read_line(words: Sequence[str]) -> _CommandLine:
    line = _CommandLine()
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
            _read_option(line, word)
        elif line.command is not None:
            line.operands.append(word)
        elif (longer := f"{line.prefix} {word}".lstrip()) in PREFIXES:
            line.prefix = longer
        elif line.prefix or word != "help":
            line.command = find_command((*line.prefix.split(), word))
            if line.command is None:
                line.unknown = True
                return line
            line.parameters = load_command(line.command).parameters
    return line


def _read_option(line: _CommandLine, word: str) -> None:
    name, equals, value = word.partition("=")
    parameter = _find_option(line, name)
    if parameter is None:
        # It may precede the command, and have a value there, too.
        line.waiting = name if line.command is None and name in LEADING_VALUE_OPTIONS and not equals else None
    elif parameter.takes_value and not equals:
        line.waiting = parameter
    elif equals:
        line.given[parameter.name] = value


def _find_option(line: _CommandLine, name: str) -> Parameter | None:
    for parameter in line.parameters:
        if isinstance(parameter.declared, Option) and name in parameter.declared.spellings:
            return parameter
    return None


def _complete_commands(prefix: str, current: str) -> Candidates:
    if prefix:
        found = [Candidate(member.word, member.summary) for member in list_members(prefix)]
    else:
        found = [Candidate(command.name, command.summary) for command in COMMANDS if len(command.words) == 1]
        found += [Candidate(word, about) for word, about in PREFIXES.items() if " " not in word]
    return Candidates(tuple(one for one in found if one.text.startswith(current)))


def _complete_options(line: _CommandLine, current: str) -> Candidates:
    found = [
        Candidate(name, parameter.declared.help)
        for parameter in line.parameters
        if isinstance(parameter.declared, Option)
        for name in parameter.declared.names
    ]
    found += [Candidate(*one) for one in _HELP_OPTIONS]
    if line.command is None and not line.prefix:
        found.append(Candidate("--version", "show the version"))
    return Candidates(tuple(one for one in found if one.text.startswith(current)))


def _select_words(current: str, words: Iterable[str], *, unfinished: bool = False) -> Candidates:
    return Candidates(tuple(Candidate(one) for one in words if one.startswith(current)), unfinished=unfinished)


def _complete_value(parameter: Parameter, line: _CommandLine, current: str, known: InstanceValues) -> Candidates:
    """Find the completions of the value of an option, or of an operand."""
    declared = parameter.declared
    kind = declared.complete
    if declared.choices:
        return _select_words(current, declared.choices)
    if kind in COMPLETED_KINDS:
        names = tuple(Candidate(name, what) for name, what in known.list_names(kind) if name.startswith(current))
        return Candidates(names, paths="store" if kind in STORE_COMPLETIONS else "")
    if kind in ("file", "directory", "store"):
        return Candidates(paths=kind)
    if kind:
        return _select_words(current, _list_words(kind))
    target = _find_target(line)
    if parameter.name == "options":
        return _select_words(current, filters.complete_options(current, _list_option_names()), unfinished=True)
    if declared.metavar in _FILTER_METAVARS:
        written = filters.complete_filter(
            current, known.sample_values(target) if target else {}, _list_words("function")
        )
        return _select_words(current, _keep_written(current, written), unfinished=True)
    if parameter.name == "paths" and target:
        # One path per word, so that the next path starts after a blank.
        return _select_words(current, known.sample_values(target))
    if declared.metavar in _FIELD_METAVARS and target:
        paths = [*known.sample_values(target), *(_list_column_names() if parameter.name == "columns" else ())]
        return _select_words(
            current, filters.complete_list(current, paths, order=parameter.name == "order_by"), unfinished=True
        )
    if parameter.name == "keys" and target:
        return _select_words(current, known.sample_keys(target))
    return Candidates()


def _keep_written(current: str, found: Iterable[str]) -> list[str]:
    """The candidates with the user's own letter case: names of functions are found in any letter case."""
    return [current + one[len(current) :] for one in found]


def _find_target(line: _CommandLine) -> str:
    """The topic or view that the line names; empty if it names none."""
    operands = [one for one in line.parameters if isinstance(one.declared, Argument)]
    for parameter, word in zip(operands, line.operands, strict=False):
        if parameter.declared.complete in COMPLETED_KINDS:
            return word
    return ""


def _list_words(kind: str) -> tuple[str, ...]:
    """The words of a table."""
    if kind == "page":
        # A page is also found by the name of its command, as in help texts.
        commands = (command.words[0] for command in COMMANDS if len(command.words) == 1)
        return (*commands, *(command.page for command in COMMANDS), *PAGES)
    if kind == "function":
        from sowctl.expressions.functions.table import FUNCTION_TABLE

        return tuple(entry.name for entry in FUNCTION_TABLE)
    if kind == "code":
        from sowctl.cli.parsing.codes import list_codes

        return tuple(list_codes())
    if kind == "message type":
        from sowctl.messages.types import list_type_names

        return tuple(list_type_names())
    return ()


def _list_option_names() -> list[str]:
    from sowctl.engine.search.optiontext import BOOKMARK, IGNORED_OPTIONS, LITERAL, list_query_options

    return [
        *(f"{name}=" for name in (*list_query_options(), BOOKMARK)),
        LITERAL,
        *IGNORED_OPTIONS,
    ]


def _list_column_names() -> tuple[str, ...]:
    from sowctl.output.options import COLUMN_NAMES

    return COLUMN_NAMES
