"""What ``sowctl --help`` and ``sowctl --version`` print, from the table alone: no command is imported for it."""

from __future__ import annotations

from sowctl.cli.declare import Option
from sowctl.cli.options import GLOBALS
from sowctl.cli.table import COMMANDS, GROUPS
from sowctl.version import VERSION

SUMMARY = "toolkit for file-based State-of-the-World stores"
EXAMPLES = (
    "sowctl demo demo && cd demo",
    "sowctl publish orders new-orders.ndjson",
    "sowctl query orders \"/symbol = 'IBM'\" --order-by '/price DESC' --top-n 3",
    "sowctl get orders 10417 --at -15m",
)
ROOT_OPTIONS = (
    ("--help, -h", "show this text; COMMAND --help shows a command's"),
    ("--version, -V", "show the version; with --json also the libraries'"),
)


def known_options() -> frozenset[str]:
    """Every spelling that may stand before a command."""
    names = {name for parameter in GLOBALS for name in spellings(parameter.declared)}
    return frozenset(names | {"--help", "-h", "--version", "-V", "--json", "--format", "-F"})


def spellings(declared: object) -> tuple[str, ...]:
    """The names of an option, none for an operand."""
    return declared.names if isinstance(declared, Option) else ()


def text(*, colored: bool = False) -> str:
    """The overview in 80 columns."""
    lines = [f"sowctl - {SUMMARY}", "", _title("Usage:", colored) + " sowctl [OPTIONS] COMMAND [ARGUMENTS]...", ""]
    lines += [_title("Examples:", colored), *(f"  {example}" for example in EXAMPLES), ""]
    for group in GROUPS:
        lines.append(_title(f"{group}:", colored))
        members = [command for command in COMMANDS if command.group == group]
        lines += [f"  {command.name:<13} {command.summary}" for command in members]
        lines.append("")
    lines.append(_title("Options of every command, before or after its name:", colored))
    for parameter in GLOBALS:
        assert isinstance(parameter.declared, Option)
        value = f" {parameter.declared.metavar}" if parameter.takes_value and not parameter.declared.choices else ""
        names = ", ".join(parameter.declared.names) + value
        choices = f" ({', '.join(parameter.declared.choices)})" if parameter.declared.choices else ""
        lines += _entry(names, parameter.declared.help + choices)
    for names, words in ROOT_OPTIONS:
        lines += _entry(names, words)
    lines += ["", "Exit statuses, environment and files: sowctl man"]
    return "\n".join(lines) + "\n"


def versions(*, as_json: bool) -> bytes:
    """Name and version; as JSON with the versions of Python and of the libraries that touch data."""
    if not as_json:
        return f"sowctl {VERSION}\n".encode()
    import json
    import platform
    from importlib.metadata import version

    libraries = ("typer", "rich", "lmdb", "msgpack", "lark", "lxml", "msgspec", "xxhash", "numpy", "pcre2", "zstandard")
    row = {"name": "sowctl", "version": VERSION, "python": platform.python_version()}
    return json.dumps(row | {"libraries": {name: version(name) for name in libraries}}).encode() + b"\n"


def _title(words: str, colored: bool) -> str:
    return f"\x1b[1m{words}\x1b[0m" if colored else words


def _entry(names: str, help: str) -> list[str]:
    indent = 25
    first = f"  {names:<{indent - 3}} "
    room, rows, row = 80 - indent, [], ""
    for word in help.split():
        if row and len(row) + 1 + len(word) > room:
            rows.append(row)
            row = word
        else:
            row = f"{row} {word}".strip()
    rows.append(row)
    head = [first + rows[0]] if len(first) == indent else [first.rstrip(), " " * indent + rows[0]]
    return head + [" " * indent + row for row in rows[1:]]
