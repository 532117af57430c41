"""The text of ``sowctl COMMAND --help``: usage, examples, description, operands, options by panel.

``-h`` prints a single screen of it: the options that are declared first, or those that the command marks as common.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from inspect import cleandoc

from sowctl.cli.parsing.loader import LoadedCommand
from sowctl.cli.parsing.parameters import Parameter
from sowctl.cli.settings import GLOBAL_PANEL as GLOBAL_PANEL
from sowctl.cli.streams import Streams, is_terminal
from sowctl.declarations import Argument, Option

DEFAULT_COLUMNS = 80
"""The width if no terminal has another one."""
_MIN_COLUMNS, _MAX_COLUMNS = 40, 100
_INDENT_COLUMNS = 26
HELP_ENTRY = ("-h, --help", "Show short help (-h) or full help (--help).")
_SHELL_WORD_PATTERN = re.compile(r"""(?:[^\s"'\\]|\\.|"[^"]*"|'[^']*')+""")
_STATEMENT_END_PATTERN = re.compile(r"(?<=\.) (?=[A-Z])|;| \(")
MAX_SHORT_EXAMPLES = 3
MAX_SHORT_OPTIONS = 8
"""Maximum number of options for ``-h``, so that it fits a terminal of 24 lines."""


def choose_columns(streams: Streams) -> int:
    """The width of help: that of the terminal, within readable limits; 80 columns without a terminal."""
    # Into pipes always the same width, so that stored output does not depend on a terminal.
    return (
        max(_MIN_COLUMNS, min(streams.measure_columns(), _MAX_COLUMNS))
        if is_terminal(streams.stdout)
        else DEFAULT_COLUMNS
    )


def format_help(
    loaded: LoadedCommand, *, colored: bool = False, columns: int = DEFAULT_COLUMNS, folds: bool = False
) -> str:
    """The help of one command, in lines of ``columns`` unless a word is longer; if it ``folds``, examples are broken,
    too."""
    parts = [
        *format_usage_lines(format_usage(loaded), columns, colored=colored),
        "",
        format_title("Examples:", colored),
    ]
    parts += [line for example in loaded.examples for line in format_example(example, columns if folds else None)]
    for paragraph in cleandoc(loaded.run.__doc__ or "").split("\n\n"):
        parts += ["", *wrap_words(paragraph, columns)]
    operands = [p for p in loaded.parameters if isinstance(p.declared, Argument)]
    if operands:
        parts += ["", format_title("Arguments:", colored)]
        parts += [
            line
            for p in operands
            for line in format_entry(p.declared.metavar, p.declared.help + _format_choices(p), columns)
        ]
    panels = group_by_panel(loaded.parameters)
    shared = panels.pop(GLOBAL_PANEL)
    for panel, members in panels.items():
        parts += ["", format_title(f"{panel}:", colored)]
        parts += [line for parameter in members for line in format_option(parameter, columns)]
    names = " ".join(format_spelling(parameter).split(", ")[-1].split()[0] for parameter in shared)
    parts += ["", format_title(f"{GLOBAL_PANEL}", colored) + " (sowctl --help):", *_indent_words(names, columns)]
    return "\n".join([*parts, "", f"More: sowctl man {loaded.command.name}"]) + "\n"


def format_short_help(
    loaded: LoadedCommand, *, colored: bool = False, columns: int = DEFAULT_COLUMNS, folds: bool = False
) -> str:
    """The help of one command on one screen: usage, first sentence, examples and common options, one per line."""
    paragraph = " ".join(cleandoc(loaded.run.__doc__ or "").split("\n\n")[0].split())
    summary = re.split(r"(?<=[.:]) (?=[A-Z])", paragraph)[0]
    parts = [*format_usage_lines(format_usage(loaded), columns, colored=colored), "", *wrap_words(summary, columns), ""]
    parts += [format_title("Examples:", colored), *_format_short_examples(loaded, columns if folds else None)]
    panels = group_by_panel(loaded.parameters)
    own = [parameter for panel, members in panels.items() if panel != GLOBAL_PANEL for parameter in members]
    common = [p for p in own if p.name in loaded.common] if loaded.common else own[:MAX_SHORT_OPTIONS]
    if common:
        parts += ["", format_title("Options:", colored)]
        parts += [line for parameter in common for line in _format_short_entry(parameter, columns)]
    more = [f"All options: sowctl {loaded.command.name} --help", f"Manual: sowctl man {loaded.command.name}"]
    return "\n".join([*parts, "", *more]) + "\n"


def _indent_words(words: str, columns: int) -> list[str]:
    return ["  " + row for row in wrap_words(words, columns - 2)]


def _format_short_entry(parameter: Parameter, columns: int) -> list[str]:
    """An option in one line: the first statement of its help, shortened to the line."""
    first = _STATEMENT_END_PATTERN.split(parameter.declared.help, maxsplit=1)[0]
    width = columns - (_INDENT_COLUMNS if columns >= 2 * _INDENT_COLUMNS else 6)
    name = format_spelling(parameter)
    if len(name) > _INDENT_COLUMNS - 3:
        name = name.rpartition(", ")[2]
    return format_entry(name, textwrap.shorten(first, width, placeholder=" ..."), columns)


def format_usage(loaded: LoadedCommand) -> str:
    """``sowctl get [OPTIONS] TARGET KEY...``."""
    words = ["sowctl", loaded.command.name, "[OPTIONS]"]
    for parameter in loaded.parameters:
        if isinstance(parameter.declared, Argument):
            word = parameter.declared.metavar if parameter.required else f"[{parameter.declared.metavar}]"
            words.append(word + ("..." if parameter.shape == "texts" else ""))
    return " ".join(words)


def format_usage_lines(words: str, columns: int, *, colored: bool) -> list[str]:
    """``Usage: sowctl get [OPTIONS] ...`` in lines of ``columns``."""
    first, *more = wrap_words(f"Usage: {words}", columns)
    rest = wrap_words(" ".join(more), columns - len("Usage: "))
    return [first.replace("Usage:", format_title("Usage:", colored), 1), *(" " * len("Usage: ") + row for row in rest)]


def group_by_panel(parameters: Iterable[Parameter]) -> dict[str, list[Parameter]]:
    """The options by heading, in the order of declaration."""
    panels: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        if isinstance(parameter.declared, Option):
            panels.setdefault(parameter.declared.panel, []).append(parameter)
    return panels


def format_spelling(parameter: Parameter) -> str:
    """``-o, --order-by LIST``: the short name first."""
    declared = parameter.declared
    assert isinstance(declared, Option)
    value = f" {'WORD' if declared.choices else declared.metavar}" if parameter.takes_value else ""
    return ", ".join(sorted(declared.names, key=len)) + value


def format_option(parameter: Parameter, columns: int = DEFAULT_COLUMNS) -> list[str]:
    """The lines of one option."""
    words = parameter.declared.help + _format_choices(parameter) + _format_default(parameter)
    words += format_old_names(parameter)
    return format_entry(format_spelling(parameter), words, columns)


def format_old_names(parameter: Parameter) -> str:
    """The former spellings of an option as a sentence, with a space before it; empty without any."""
    old = parameter.declared.old_names if isinstance(parameter.declared, Option) else ()
    return f" Old spelling: {', '.join(old)}." if old else ""


def format_entry(names: str, help: str, columns: int = DEFAULT_COLUMNS, indent: int = _INDENT_COLUMNS) -> list[str]:
    """Names on the left, help on the right from column ``indent``, in as many lines as needed.

    On a terminal too narrow for two columns, the help is below the names.
    """
    if columns < 2 * indent:
        return [f"  {names}", *(" " * 6 + row for row in wrap_words(help, columns - 6))]
    rows = wrap_words(help, columns - indent)
    first = f"  {names:<{indent - 3}} "
    head = [first + rows[0]] if len(first) == indent else [first.rstrip(), " " * indent + rows[0]]
    return head + [" " * indent + row for row in rows[1:]]


def format_example(example: str, columns: int | None) -> list[str]:
    """A command line for a shell in lines of ``columns``, all but the last with a backslash; one line if None."""
    if columns is None or len(example) + 2 <= columns:
        return [f"  {example}"]
    lines: list[str] = []
    line = " "
    # Words with their quotes: lines are broken only between them, so that the lines together are the command.
    for word in _SHELL_WORD_PATTERN.findall(example):
        if line.strip() and len(f"{line} {word} \\") > columns:
            lines.append(line + " \\")
            line = "   "
        line += " " + word
    return [*lines, line]


def _format_short_examples(loaded: LoadedCommand, columns: int | None) -> list[str]:
    return [line for example in loaded.examples[:MAX_SHORT_EXAMPLES] for line in format_example(example, columns)]


def wrap_words(words: str, columns: int) -> list[str]:
    """``words`` in lines of at most ``columns``; a longer word has a line of its own and is never broken."""
    return textwrap.wrap(words, columns, break_on_hyphens=False, break_long_words=False)


def format_title(words: str, colored: bool) -> str:
    """A heading, bold if colours are used."""
    return f"\x1b[1m{words}\x1b[0m" if colored else words


def _format_choices(parameter: Parameter) -> str:
    return f" ({', '.join(parameter.declared.choices)})" if parameter.declared.choices else ""


def _format_default(parameter: Parameter) -> str:
    default = parameter.format_default()
    return f" [{default}]" if default else ""
