"""The functions that a named configuration adds to the language: for expressions, and for the table of functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sowctl.cli.context import Invocation
from sowctl.errors import ConfigError

if TYPE_CHECKING:
    from sowctl.expressions.functions.signature import Function
    from sowctl.expressions.functions.table import Entry


class NamedFunctions(Mapping[str, "Function"]):
    """The functions by upper-case name; none without --config and SOWCTL_CONFIG.

    The configuration is read when a name is first looked up: expressions of built-in functions do without it. Raises
    what opening it raises, and ConfigError for a function that cannot be used.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._read: Mapping[str, Function] | None = None

    def __getitem__(self, name: str) -> Function:
        return self._functions()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions())

    def __len__(self) -> int:
        return len(self._functions())

    def _functions(self) -> Mapping[str, Function]:
        if self._read is None:
            self._read = {}
            if is_named(self._invocation):
                from sowctl.engine.extensions.functions import functions_of

                with self._invocation.open_instance() as instance:
                    self._read = functions_of(instance)
        return self._read


def is_named(invocation: Invocation) -> bool:
    """Whether --config or SOWCTL_CONFIG names a configuration."""
    return bool(invocation.settings.config or invocation.environ.get("SOWCTL_CONFIG"))


def added_functions(invocation: Invocation) -> list[Entry]:
    """The entries; none without --config and SOWCTL_CONFIG. A function that cannot be used is said and left out."""
    if not is_named(invocation):
        return []
    from sowctl.engine.extensions.functions import functions_of
    from sowctl.expressions.functions.table import entries_of

    found = []
    with invocation.open_instance() as instance:
        functions = functions_of(instance)
        for name in functions:
            try:
                found += entries_of([functions[name]])
            except ConfigError as error:
                invocation.warn(error.message, code=error.code)
    return found
