"""From argv to a command's function: find the command, import its module, parse its options, call it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing import arguments, parameters, table
from sowctl.cli.parsing.global_options import (
    GLOBAL_PARAMETERS,
    GLOBAL_VARIABLES,
    LEADING_VALUE_OPTIONS,
    read_environment,
)
from sowctl.cli.parsing.loader import LoadedCommand, load_command
from sowctl.cli.settings import Settings
from sowctl.cli.streams import is_terminal
from sowctl.declarations import Option
from sowctl.errors import UsageError

_PATH_KINDS = {"FILE": "file", "DIR": "directory"}
"""The kind of path that a value names, by its metavar."""


class SplitLine(Struct, frozen=True):
    """argv, split into the global options before the command's word, that word and the following words."""

    leading: list[str]
    word: str | None
    rest: list[str]


def dispatch_command(invocation: Invocation, argv: Sequence[str]) -> int:
    """Run the command that ``argv`` names and return its exit status."""
    parts = split_argv(argv)
    leading, word, rest = parts.leading, parts.word, parts.rest
    if word is None or word == "help":
        return _show_overview(invocation, leading, rest, asked=word == "help")
    prefix, behind = table.split_prefix([word, *rest])
    if prefix and behind[:1] in (["--help"], ["-h"]):
        from sowctl.cli.parsing import overview

        _show_help(invocation, functools.partial(overview.format_prefix, prefix), paged=True)
        return 0
    command, rest = _find_command(word, rest)
    loaded = load_command(command)
    values = _read_options(loaded, [*leading, *rest], invocation)
    if values is None:
        return 0
    values = {parameter.name: _decode_text(parameter, values[parameter.name]) for parameter in loaded.parameters}
    _refuse_empty_names(command.name, loaded.parameters, values)
    values = parameters.fold_flags(loaded.parameters, values)
    chosen = {parameter.name: values.pop(parameter.name) for parameter in GLOBAL_PARAMETERS}
    invocation.command = command.name
    # After parsing, because only then options can be distinguished from values.
    invocation.apply_settings(Settings(**chosen))
    return loaded.run(invocation, parameters.build_arguments(loaded.arguments, loaded.parameters, values)) or 0


def _refuse_empty_names(command: str, read: Sequence[parameters.Parameter], values: Mapping[str, Any]) -> None:
    """Reject an empty name of a file or directory, which would be the working directory.

    Raises UsageError ``SOW-CLI-003``. Global options are skipped: if empty, they have their defaults.
    """
    for parameter in read:
        declared, value = parameter.declared, values[parameter.name]
        if value != "" and not (isinstance(value, list) and "" in value):
            continue
        kind = _PATH_KINDS.get(declared.metavar, declared.complete)
        if kind in _PATH_KINDS.values() and parameter not in GLOBAL_PARAMETERS:
            label = declared.names[0] if isinstance(declared, Option) else declared.metavar
            raise UsageError(
                "SOW-CLI-003",
                f"invalid value for '{label}': the name of a {kind} is empty",
                hint=f"sowctl {command} --help lists the options",
            )


def _decode_text(parameter: parameters.Parameter, value: Any) -> Any:
    """Decode texts as UTF-8 even if the locale is ASCII and other bytes are surrogates; paths are unchanged."""
    if isinstance(value, list):
        return [_decode_text(parameter, item) for item in value]
    if not isinstance(value, str) or value.isascii() or parameter.declared.complete in ("file", "directory"):
        return value
    if not any("\udc80" <= character <= "\udcff" for character in value):
        return value
    return os.fsencode(value).decode("utf-8", "surrogateescape")


def split_argv(argv: Sequence[str]) -> SplitLine:
    """Find the command's word after the global options."""
    leading: list[str] = []
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        option = rest.pop(0)
        leading.append(option)
        # A short option may have its value attached, and then has no separate value.
        name = option[:2] if option[1:2] != "-" and option[:2] in LEADING_VALUE_OPTIONS and len(option) > 2 else option
        # Without this, the value of a leading option would be taken for the command's word.
        if option in LEADING_VALUE_OPTIONS and name == option and rest:
            leading.append(rest.pop(0))
    if rest and rest[0] == "--":
        rest.pop(0)
    return SplitLine(leading, rest[0] if rest else None, rest[1:])


def _read_options(loaded: LoadedCommand, words: list[str], invocation: Invocation) -> dict[str, Any] | None:
    parameters = loaded.parameters
    if any(name in invocation.environ for name in GLOBAL_VARIABLES.values()):
        # environment variables replace the defaults, so both parsers need not know about them
        parameters = (*parameters[: -len(GLOBAL_PARAMETERS)], *read_environment(invocation.environ))
    # Tried first, because it is cheap; Typer is imported only if this parser is uncertain.
    values = arguments.read_plain(parameters, words)
    if values is not None:
        return values
    from sowctl.cli.parsing import application, helptext

    values = application.read_with_typer(f"sowctl {loaded.command.name}", parameters, words)
    if values is None:
        compose = helptext.format_help if "--help" in words else helptext.format_short_help
        _show_help(invocation, functools.partial(compose, loaded), paged="--no-pager" not in words)
    return values


def _show_help(invocation: Invocation, compose: Callable[..., str], *, paged: bool) -> None:
    """Print a help text for the terminal; a long one through the pager."""
    from sowctl.cli.pager import open_pager
    from sowctl.cli.parsing import helptext

    streams = invocation.streams
    colored, columns = streams.shows_color(streams.stdout), helptext.choose_columns(streams)
    shown = is_terminal(streams.stdout)
    if paged and shown:
        streams.start_paging(lambda stream: open_pager(stream, invocation.environ))
    streams.painted_stdout.write(compose(colored=colored, columns=columns, folds=shown).encode())


def _find_command(word: str, rest: list[str]) -> tuple[table.Command, list[str]]:
    prefix, behind = table.split_prefix([word, *rest])
    if prefix:
        names = [member.word for member in table.list_members(prefix)]
        if not behind or behind[0].startswith("-"):
            words = f"{prefix} requires one of: {', '.join(names)}"
            raise UsageError("SOW-CLI-002", words, hint=f"sowctl {prefix} --help")
    found, rest = table.split_command([word, *rest])
    if found is not None:
        return found, rest
    if prefix:
        raise _build_unknown_error(behind[0], names, front=f"{prefix} ")
    raise _build_unknown_error(word, ["--version", *(command.words[0] for command in table.COMMANDS)])


def _build_unknown_error(word: str, known: Sequence[str], front: str = "") -> UsageError:
    from sowctl.cli.parsing.synonyms import COMMAND_ADVICE, COMMAND_SYNONYMS, find_near

    if not front and word in COMMAND_ADVICE:
        return UsageError("SOW-CLI-001", f"unknown command '{word}'", hint=COMMAND_ADVICE[word])
    if front and (told := COMMAND_SYNONYMS.get(front + word)):
        return UsageError("SOW-CLI-001", f"unknown command '{front}{word}'", hint=f"did you mean {told}?")
    meant = [front + name for name in find_near(word, tuple(dict.fromkeys(known)), {} if front else COMMAND_SYNONYMS)]
    if not front and word not in COMMAND_SYNONYMS:
        # The second word of a command alone: repair, compact, tail. It is a better match than a similar spelling.
        meant = [command.name for command in table.COMMANDS if command.words[1:] == (word,)] or meant
    if meant:
        hint = f"did you mean {' or '.join(meant)}?"
    elif front:
        hint = f"sowctl {front}--help lists its commands"
    else:
        # Topics are operands, not commands: a user who types only a topic's name wants to see its records.
        hint = f"sowctl --help lists the commands; the records of a topic of this name: sowctl query {word}"
    return UsageError("SOW-CLI-001", f"unknown command '{front}{word}'", hint=hint)


def _show_overview(invocation: Invocation, leading: list[str], rest: list[str], *, asked: bool) -> int:
    from sowctl.cli.parsing import overview

    streams = invocation.streams
    # ``sowctl help query`` is the same as ``sowctl query --help``.
    if rest:
        return dispatch_command(invocation, [*rest, "--help"])
    if "--version" in leading or "-V" in leading:
        streams.painted_stdout.write(overview.format_versions(as_json="--json" in leading))
        return 0
    unknown = [o for o in leading if o.startswith("-") and o.partition("=")[0] not in overview.list_known_options()]
    if unknown:
        raise UsageError("SOW-CLI-003", f"no such option: {unknown[0]}", hint="sowctl --help lists the global options")
    if asked or "--help" in leading:
        _show_help(invocation, overview.format_overview, paged="--no-pager" not in leading)
    else:
        _show_help(invocation, overview.format_short_overview, paged=False)
    return 0
