"""What ``sowctl --help`` and ``sowctl --version`` print, from the table alone: no command is imported for it."""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.cli.words.declare import Option
from sowctl.cli.words.helptext import (
    COLUMNS,
    SHORT_EXAMPLES,
    entry,
    example_lines,
    option_entry,
    title,
    usage_lines,
    wrapped,
)
from sowctl.cli.words.options import GLOBALS
from sowctl.cli.words.table import COMMANDS, GROUPS, members
from sowctl.version import VERSION

SUMMARY = "toolkit for file-based State-of-the-World stores"
EXAMPLES = (
    "sowctl demo demo && cd demo",
    "sowctl publish orders new-orders.ndjson",
    "sowctl query orders \"/symbol = 'IBM'\" --order-by '/price DESC' --top-n 3",
    "sowctl get orders 10417 --at -15m",
)
ROOT_OPTIONS = (
    ("-h, --help", "Show short help (-h) or full help (--help), also of a COMMAND."),
    ("-V, --version", "Show the version; with --json, also the versions of libraries."),
)


def known_options() -> frozenset[str]:
    """Every spelling that may stand before a command."""
    names = {name for parameter in GLOBALS for name in spellings(parameter.declared)}
    return frozenset(names | {"--help", "-h", "--version", "-V", "--json", "--format", "-F"})


def spellings(declared: object) -> tuple[str, ...]:
    """The names of an option, none for an operand."""
    return declared.names if isinstance(declared, Option) else ()


def text(*, colored: bool = False, columns: int = COLUMNS, folds: bool = False) -> str:
    """The overview in lines of ``columns``."""
    indent = max(len(command.name) for command in COMMANDS) + 4
    lines = _head(EXAMPLES, columns, colored=colored, folds=folds)
    for group in GROUPS:
        lines.append(title(f"{group}:", colored))
        commands = [command for command in COMMANDS if command.group == group]
        lines += [line for command in commands for line in entry(command.name, command.summary, columns, indent)]
        lines.append("")
    lines += [title(row, colored) for row in wrapped("Options of every command, before or after its name:", columns)]
    lines += [line for parameter in GLOBALS for line in option_entry(parameter, columns)]
    lines += [line for names, words in ROOT_OPTIONS for line in entry(names, words, columns)]
    lines += ["", *wrapped("Exit statuses, environment variables and files: sowctl man", columns)]
    return "\n".join(lines) + "\n"


def short_text(*, colored: bool = False, columns: int = COLUMNS, folds: bool = False) -> str:
    """The overview on one screen: usage, examples, and the names of the commands by group."""
    lines = _head(EXAMPLES[:SHORT_EXAMPLES], columns, colored=colored, folds=folds)
    for group in GROUPS:
        # of two words only the first: "journal" stands for list, dump, check ...
        names = dict.fromkeys(command.words[0] for command in COMMANDS if command.group == group)
        lines += entry(title(group, False), " ".join(names), columns)
    lines += ["", "More: sowctl --help, sowctl COMMAND -h"]
    return "\n".join(lines) + "\n"


def _head(examples: Sequence[str], columns: int, *, colored: bool, folds: bool) -> list[str]:
    lines = [*wrapped(f"sowctl - {SUMMARY}", columns), ""]
    lines += [*usage_lines("sowctl [OPTIONS] COMMAND [ARGUMENTS]...", columns, colored=colored), ""]
    room = columns if folds else None
    lines += [title("Examples:", colored), *(line for one in examples for line in example_lines(one, room)), ""]
    return lines


def of_prefix(word: str, *, colored: bool = False, columns: int = COLUMNS, folds: bool = False) -> str:
    """The commands that begin with a word which is none by itself; there is nothing in it that ``folds``."""
    lines = [f"{title('Usage:', colored)} sowctl {word} COMMAND [ARGUMENTS]...", "", title("Commands:", colored)]
    indent = max(len(command.words[1]) for command in members(word)) + 4
    lines += [line for one in members(word) for line in entry(one.words[1], one.summary, columns, indent)]
    return "\n".join([*lines, "", f"Options: sowctl {word} COMMAND --help"]) + "\n"


def versions(*, as_json: bool) -> bytes:
    """Name and version; as JSON with the versions of Python and of the libraries that touch data."""
    if not as_json:
        return f"sowctl {VERSION}\n".encode()
    import json
    import platform
    from importlib.metadata import version

    libraries = (
        "typer",
        "rich",
        "lmdb",
        "msgpack",
        "lark",
        "lxml",
        "msgspec",
        "xxhash",
        "isal",
        "numpy",
        "pcre2",
        "zstandard",
    )
    row = {"name": "sowctl", "version": VERSION, "python": platform.python_version()}
    return json.dumps(row | {"libraries": {name: version(name) for name in libraries}}).encode() + b"\n"
