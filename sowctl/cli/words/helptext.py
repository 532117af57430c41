"""What ``sowctl COMMAND --help`` prints: usage, examples, description, operands, options by panel.

``-h`` prints a screen of it: the options that are declared first, or those that the command names as common.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from inspect import cleandoc

from sowctl.cli.streams import Streams, is_terminal
from sowctl.cli.words.declare import Argument, Option, Parameter
from sowctl.cli.words.loaded import Loaded
from sowctl.cli.words.options import PANEL as GLOBAL_PANEL

COLUMNS = 80
"""The width where no terminal says another one."""
_LEAST, _MOST = 40, 100
_INDENT = 26
HELP = ("-h, --help", "Show short help (-h) or full help (--help).")
_SHELL_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"[^"]*"|'[^']*')+""")
_STATEMENT_END = re.compile(r"(?<=\.) (?=[A-Z])|;| \(")
SHORT_EXAMPLES = 3
SHORT_OPTIONS = 8
"""What ``-h`` shows of a command, so that it fits a terminal of 24 lines."""


def columns_of(streams: Streams) -> int:
    """The width of help: that of the terminal it goes to, within what is read well; 80 columns elsewhere."""
    # Into pipes always the same width, so that what is stored does not depend on a terminal.
    return max(_LEAST, min(streams.columns(), _MOST)) if is_terminal(streams.stdout) else COLUMNS


def text(loaded: Loaded, *, colored: bool = False, columns: int = COLUMNS, folds: bool = False) -> str:
    """The help of one command, in lines of ``columns`` where no single word is longer; examples, too, if it ``folds``
    them."""
    parts = [*usage_lines(usage(loaded), columns, colored=colored), "", title("Examples:", colored)]
    parts += [line for example in loaded.examples for line in example_lines(example, columns if folds else None)]
    for paragraph in cleandoc(loaded.run.__doc__ or "").split("\n\n"):
        parts += ["", *wrapped(paragraph, columns)]
    operands = [p for p in loaded.parameters if isinstance(p.declared, Argument)]
    if operands:
        parts += ["", title("Arguments:", colored)]
        parts += [line for p in operands for line in entry(p.declared.metavar, p.declared.help + _choices(p), columns)]
    panels = by_panel(loaded.parameters)
    shared = panels.pop(GLOBAL_PANEL)
    for panel, members in panels.items():
        parts += ["", title(f"{panel}:", colored)]
        parts += [line for parameter in members for line in option_entry(parameter, columns)]
    names = " ".join(spelling(parameter).split(", ")[-1].split()[0] for parameter in shared)
    parts += ["", title(f"{GLOBAL_PANEL}", colored) + " (sowctl --help):", *_indented(names, columns)]
    return "\n".join([*parts, "", f"More: sowctl man {loaded.command.name}"]) + "\n"


def short_text(loaded: Loaded, *, colored: bool = False, columns: int = COLUMNS, folds: bool = False) -> str:
    """The help of one command on one screen: usage, first sentence, examples and common options, a line each."""
    paragraph = " ".join(cleandoc(loaded.run.__doc__ or "").split("\n\n")[0].split())
    summary = re.split(r"(?<=[.:]) (?=[A-Z])", paragraph)[0]
    parts = [*usage_lines(usage(loaded), columns, colored=colored), "", *wrapped(summary, columns), ""]
    parts += [title("Examples:", colored), *_short_examples(loaded, columns if folds else None)]
    panels = by_panel(loaded.parameters)
    own = [parameter for panel, members in panels.items() if panel != GLOBAL_PANEL for parameter in members]
    common = [p for p in own if p.name in loaded.common] if loaded.common else own[:SHORT_OPTIONS]
    if common:
        parts += ["", title("Options:", colored)]
        parts += [line for parameter in common for line in _short_entry(parameter, columns)]
    more = [f"All options: sowctl {loaded.command.name} --help", f"Manual: sowctl man {loaded.command.name}"]
    return "\n".join([*parts, "", *more]) + "\n"


def _indented(words: str, columns: int) -> list[str]:
    return ["  " + row for row in wrapped(words, columns - 2)]


def _short_entry(parameter: Parameter, columns: int) -> list[str]:
    """An option in one line: the first statement of its help, shortened to the line."""
    first = _STATEMENT_END.split(parameter.declared.help, maxsplit=1)[0]
    width = columns - (_INDENT if columns >= 2 * _INDENT else 6)
    name = spelling(parameter)
    if len(name) > _INDENT - 3:
        name = name.rpartition(", ")[2]
    return entry(name, textwrap.shorten(first, width, placeholder=" ..."), columns)


def usage(loaded: Loaded) -> str:
    """``sowctl get [OPTIONS] TARGET KEY...``."""
    words = ["sowctl", loaded.command.name, "[OPTIONS]"]
    for parameter in loaded.parameters:
        if isinstance(parameter.declared, Argument):
            word = parameter.declared.metavar if parameter.required else f"[{parameter.declared.metavar}]"
            words.append(word + ("..." if parameter.shape == "texts" else ""))
    return " ".join(words)


def usage_lines(words: str, columns: int, *, colored: bool) -> list[str]:
    """``Usage: sowctl get [OPTIONS] ...`` in lines of ``columns``."""
    first, *more = wrapped(f"Usage: {words}", columns)
    rest = wrapped(" ".join(more), columns - len("Usage: "))
    return [first.replace("Usage:", title("Usage:", colored), 1), *(" " * len("Usage: ") + row for row in rest)]


def by_panel(parameters: Iterable[Parameter]) -> dict[str, list[Parameter]]:
    """The options by the heading under which they stand, in the order in which they are declared."""
    panels: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        if isinstance(parameter.declared, Option):
            panels.setdefault(parameter.declared.panel, []).append(parameter)
    return panels


def spelling(parameter: Parameter) -> str:
    """``-o, --order-by LIST``: the short name first."""
    declared = parameter.declared
    assert isinstance(declared, Option)
    value = f" {'WORD' if declared.choices else declared.metavar}" if parameter.takes_value else ""
    return ", ".join(sorted(declared.names, key=len)) + value


def option_entry(parameter: Parameter, columns: int = COLUMNS) -> list[str]:
    """The lines of one option."""
    words = parameter.declared.help + _choices(parameter) + _default(parameter)
    return entry(spelling(parameter), words, columns)


def entry(names: str, help: str, columns: int = COLUMNS, indent: int = _INDENT) -> list[str]:
    """Names on the left, help on the right from column ``indent``, in as many lines as it takes.

    On a terminal too narrow for two columns the help stands below the names.
    """
    if columns < 2 * indent:
        return [f"  {names}", *(" " * 6 + row for row in wrapped(help, columns - 6))]
    rows = wrapped(help, columns - indent)
    first = f"  {names:<{indent - 3}} "
    head = [first + rows[0]] if len(first) == indent else [first.rstrip(), " " * indent + rows[0]]
    return head + [" " * indent + row for row in rows[1:]]


def example_lines(example: str, columns: int | None) -> list[str]:
    """A command line for a shell in lines of ``columns``, all but the last with a backslash; in one for None."""
    if columns is None or len(example) + 2 <= columns:
        return [f"  {example}"]
    lines: list[str] = []
    line = " "
    # Words with their quotes: a line ends between them only, so that all lines together are the command.
    for word in _SHELL_WORD.findall(example):
        if line.strip() and len(f"{line} {word} \\") > columns:
            lines.append(line + " \\")
            line = "   "
        line += " " + word
    return [*lines, line]


def _short_examples(loaded: Loaded, columns: int | None) -> list[str]:
    return [line for example in loaded.examples[:SHORT_EXAMPLES] for line in example_lines(example, columns)]


def wrapped(words: str, columns: int) -> list[str]:
    """``words`` in lines of at most ``columns``; a longer word has a line of its own and is never broken."""
    return textwrap.wrap(words, columns, break_on_hyphens=False, break_long_words=False)


def title(words: str, colored: bool) -> str:
    """A heading, bold where there are colours."""
    return f"\x1b[1m{words}\x1b[0m" if colored else words


def _choices(parameter: Parameter) -> str:
    return f" ({', '.join(parameter.declared.choices)})" if parameter.declared.choices else ""


def _default(parameter: Parameter) -> str:
    return f" [{parameter.default}]" if parameter.takes_value and parameter.default is not None else ""
