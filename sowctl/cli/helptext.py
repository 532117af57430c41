"""What ``sowctl COMMAND --help`` prints: usage, examples, description, operands, options by panel, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from inspect import cleandoc

from sowctl.cli.declare import Argument, Option, Parameter
from sowctl.cli.dispatch import Loaded

COLUMNS = 80
_INDENT = 26
HELP = ("-h, --help", "show this text")


def text(loaded: Loaded, *, colored: bool = False) -> str:
    """The help of one command."""
    parts = [title("Usage:", colored) + " " + usage(loaded), "", title("Examples:", colored)]
    parts += [f"  {example}" for example in loaded.examples]
    for paragraph in cleandoc(loaded.run.__doc__ or "").split("\n\n"):
        parts += ["", *textwrap.wrap(paragraph, COLUMNS)]
    operands = [p for p in loaded.parameters if isinstance(p.declared, Argument)]
    if operands:
        parts += ["", title("Arguments:", colored)]
        parts += [line for p in operands for line in entry(p.declared.metavar, p.declared.help + _choices(p))]
    for panel, members in by_panel(loaded.parameters).items():
        parts += ["", title(f"{panel}:", colored)]
        parts += [line for parameter in members for line in option_entry(parameter)]
    parts += entry(*HELP)
    return "\n".join([*parts, "", f"More: sowctl man {loaded.command.name}"]) + "\n"


def usage(loaded: Loaded) -> str:
    """``sowctl get [OPTIONS] TARGET KEY...``."""
    words = ["sowctl", loaded.command.name, "[OPTIONS]"]
    for parameter in loaded.parameters:
        if isinstance(parameter.declared, Argument):
            word = parameter.declared.metavar if parameter.required else f"[{parameter.declared.metavar}]"
            words.append(word + ("..." if parameter.shape == "texts" else ""))
    return " ".join(words)


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


def option_entry(parameter: Parameter) -> list[str]:
    """The lines of one option."""
    return entry(spelling(parameter), parameter.declared.help + _choices(parameter) + _default(parameter))


def entry(names: str, help: str) -> list[str]:
    """Names on the left, help on the right, in as many lines as it takes."""
    rows = textwrap.wrap(help, COLUMNS - _INDENT, break_on_hyphens=False)
    first = f"  {names:<{_INDENT - 3}} "
    head = [first + rows[0]] if len(first) == _INDENT else [first.rstrip(), " " * _INDENT + rows[0]]
    return head + [" " * _INDENT + row for row in rows[1:]]


def title(words: str, colored: bool) -> str:
    """A heading, bold where there are colours."""
    return f"\x1b[1m{words}\x1b[0m" if colored else words


def _choices(parameter: Parameter) -> str:
    return f" ({', '.join(parameter.declared.choices)})" if parameter.declared.choices else ""


def _default(parameter: Parameter) -> str:
    return f" [{parameter.default}]" if parameter.takes_value and parameter.default is not None else ""
