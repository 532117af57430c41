"""The text of ``sowctl --help`` and ``sowctl --version``, from the table alone, without importing any command."""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS
from sowctl.cli.parsing.helptext import (
    DEFAULT_COLUMNS,
    MAX_SHORT_EXAMPLES,
    format_entry,
    format_example,
    format_option,
    format_title,
    format_usage_lines,
    wrap_words,
)
from sowctl.cli.parsing.table import COMMANDS, GROUPS, list_members
from sowctl.declarations import Option
from sowctl.version import VERSION

PROGRAM_SUMMARY = "toolkit for file-based State-of-the-World stores"
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


def list_known_options() -> frozenset[str]:
    """Return every option that may precede a command."""
    names = {name for parameter in GLOBAL_PARAMETERS for name in list_spellings(parameter.declared)}
    return frozenset(names | {"--help", "-h", "--version", "-V", "--json", "--format", "-F"})


def list_spellings(declared: object) -> tuple[str, ...]:
    """The names of an option, none for an operand."""
    return declared.names if isinstance(declared, Option) else ()


def format_overview(*, colored: bool = False, columns: int = DEFAULT_COLUMNS, folds: bool = False) -> str:
    """The overview in lines of ``columns``."""
    indent = max(len(command.name) for command in COMMANDS) + 4
    lines = _format_head(EXAMPLES, columns, colored=colored, folds=folds)
    for group in GROUPS:
        lines.append(format_title(f"{group}:", colored))
        commands = [command for command in COMMANDS if command.group == group]
        lines += [line for command in commands for line in format_entry(command.name, command.summary, columns, indent)]
        lines.append("")
    lines += [
        format_title(row, colored) for row in wrap_words("Options of every command, before or after its name:", columns)
    ]
    lines += [line for parameter in GLOBAL_PARAMETERS for line in format_option(parameter, columns)]
    lines += [line for names, words in ROOT_OPTIONS for line in format_entry(names, words, columns)]
    lines += ["", *wrap_words("Exit statuses, environment variables and files: sowctl man", columns)]
    return "\n".join(lines) + "\n"


def format_short_overview(*, colored: bool = False, columns: int = DEFAULT_COLUMNS, folds: bool = False) -> str:
    """The overview on one screen: usage, examples, and the names of the commands by group."""
    lines = _format_head(EXAMPLES[:MAX_SHORT_EXAMPLES], columns, colored=colored, folds=folds)
    for group in GROUPS:
        # of several words only the first: "journal" represents list, dump, check ...
        names = dict.fromkeys(command.words[0] for command in COMMANDS if command.group == group)
        lines += format_entry(format_title(group, False), " ".join(names), columns)
    lines += ["", "More: sowctl --help, sowctl COMMAND -h"]
    return "\n".join(lines) + "\n"


def _format_head(examples: Sequence[str], columns: int, *, colored: bool, folds: bool) -> list[str]:
    lines = [*wrap_words(f"sowctl - {PROGRAM_SUMMARY}", columns), ""]
    lines += [*format_usage_lines("sowctl [OPTIONS] COMMAND [ARGUMENTS]...", columns, colored=colored), ""]
    room = columns if folds else None
    lines += [format_title("Examples:", colored), *(line for one in examples for line in format_example(one, room)), ""]
    return lines


def format_prefix(word: str, *, colored: bool = False, columns: int = DEFAULT_COLUMNS, folds: bool = False) -> str:
    """The commands that begin with words that are no command themselves; nothing in it depends on ``folds``."""
    lines = [
        f"{format_title('Usage:', colored)} sowctl {word} COMMAND [ARGUMENTS]...",
        "",
        format_title("Commands:", colored),
    ]
    indent = max(len(member.word) for member in list_members(word)) + 4
    lines += [line for one in list_members(word) for line in format_entry(one.word, one.summary, columns, indent)]
    return "\n".join([*lines, "", f"Options: sowctl {word} COMMAND --help"]) + "\n"


def format_versions(*, as_json: bool) -> bytes:
    """Name and version; as JSON with the versions of Python and of the libraries that process data."""
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
