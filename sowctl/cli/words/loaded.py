"""A command with its function and its declarations: imported for a run, for its help, its page and completion."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from msgspec import Struct

from sowctl.cli.words import declare, table
from sowctl.cli.words.options import GLOBALS


class Loaded(Struct, frozen=True):
    """A command with its function, its examples and its declared parameters, the global ones last."""

    command: table.Command
    run: Callable[..., int | None]
    examples: tuple[str, ...]
    parameters: tuple[declare.Parameter, ...]


def load(command: table.Command) -> Loaded:
    """Import the command's module and read its declarations."""
    module = importlib.import_module(f"sowctl.cli.commands.{command.module}")
    # Without examples a command still runs; a test asks for them.
    return Loaded(command, module.run, getattr(module, "EXAMPLES", ()), declare.parameters(module.run, GLOBALS))
