"""The functions that a named configuration adds to the language, as entries of the table of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.cli.context import Invocation
from sowctl.errors import ConfigError
from sowctl.output.display import display

if TYPE_CHECKING:
    from sowctl.expressions.functions.table import Entry


def added_functions(invocation: Invocation) -> list[Entry]:
    """The entries; none without --config and SOWCTL_CONFIG. A function that cannot be used is said and left out."""
    if not (invocation.settings.config or invocation.environ.get("SOWCTL_CONFIG")):
        return []
    from sowctl.expressions.functions.table import entries_of

    found = []
    with invocation.open_instance() as instance:
        functions = instance.functions
        for name in functions:
            try:
                found += entries_of([functions[name]])
            except ConfigError as error:
                invocation.warn(f"[{error.code}] {display(error.message)}")
    return found
