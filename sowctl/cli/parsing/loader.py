"""A command with its function and its declarations, imported to run it, for its help, its page and completion."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing import parameters, table
from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS


class LoadedCommand(Struct, frozen=True):
    """A command with its function, the Struct of its arguments, its examples and its parameters, the global ones last.

    ``common``: the names of the parameters that ``-h`` shows; by default the first ones.
    """

    command: table.Command
    run: Callable[[Invocation, Any], int | None]
    arguments: type[Struct]
    examples: tuple[str, ...]
    parameters: tuple[parameters.Parameter, ...]
    common: tuple[str, ...] = ()


def load_command(command: table.Command) -> LoadedCommand:
    """Import the command's module and read its declarations."""
    module = importlib.import_module(f"sowctl.cli.commands.{command.module}")
    # A command without examples still runs; a test requires them.
    examples, common = getattr(module, "EXAMPLES", ()), getattr(module, "COMMON_OPTIONS", ())
    arguments: type[Struct] = vars(module)[module.run.__annotations__["arguments"]]
    return LoadedCommand(
        command, module.run, arguments, examples, parameters.read_parameters(arguments, GLOBAL_PARAMETERS), common
    )
