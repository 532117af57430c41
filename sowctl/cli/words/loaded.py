"""A command with its function and its declarations: imported for a run, for its help, its page and completion."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from msgspec import Struct

from sowctl.cli.words import declare, table
from sowctl.cli.words.options import GLOBALS


class Loaded(Struct, frozen=True):
    """A command with its function, its examples and its declared parameters, the global ones last.

    ``common``: the names of the parameters that ``-h`` shows; the first ones where a command names none.
    """

    command: table.Command
    run: Callable[..., int | None]
    examples: tuple[str, ...]
    parameters: tuple[declare.Parameter, ...]
    common: tuple[str, ...] = ()


def load(command: table.Command) -> Loaded:
    """Import the command's module and read its declarations."""
    module = importlib.import_module(f"sowctl.cli.commands.{command.module}")
    # Without examples a command still runs; a test asks for them.
    examples, common = getattr(module, "EXAMPLES", ()), getattr(module, "COMMON_OPTIONS", ())
    return Loaded(command, module.run, examples, declare.parameters(module.run, GLOBALS), common)
