"""A command with its function and its declarations: imported for a run, for its help, its page and completion."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from msgspec import Struct

from sowctl.cli.parsing import declarations, table
from sowctl.cli.parsing.options import GLOBAL_PARAMETERS


class LoadedCommand(Struct, frozen=True):
    """A command with its function, its examples and its declared parameters, the global ones last.

    ``common``: the names of the parameters that ``-h`` shows; the first ones where a command names none.
    """

    command: table.Command
    run: Callable[..., int | None]
    examples: tuple[str, ...]
    parameters: tuple[declarations.Parameter, ...]
    common: tuple[str, ...] = ()


def load_command(command: table.Command) -> LoadedCommand:
    """Import the command's module and read its declarations."""
    module = importlib.import_module(f"sowctl.cli.commands.{command.module}")
    # Without examples a command still runs; a test asks for them.
    examples, common = getattr(module, "EXAMPLES", ()), getattr(module, "COMMON_OPTIONS", ())
    return LoadedCommand(
        command, module.run, examples, declarations.read_parameters(module.run, GLOBAL_PARAMETERS), common
    )
