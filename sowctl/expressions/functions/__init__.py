"""The functions of the expression language (``sowctl-expressions(7)``).

They are loaded when the first function is used: most filters call none.

* ``signature``: the declaration of a function: name, parameters, NULL rule, result, description.
* ``strings``: texts, case and patterns.
* ``numbers``: arithmetic, trigonometry, distances on the globe.
* ``values``: whole value lists, checksums, constants, conversions.
* ``dates``: STRFTIME: instants to text.
* ``strptime``: STRPTIME: text to instants.
* ``legacy``: date functions of the compatibility module.
* ``message``: functions that read the record's header or the run's environment.
* ``groups``: all functions by group; a new function is a row of its group.
* ``table``: all functions, for ``sowctl functions`` and the manual page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from sowctl.expressions.functions.signature import Function


class _FunctionRegistry(Mapping[str, Function]):
    """Functions by upper-case name."""

    @cached_property
    def _loaded_functions(self) -> dict[str, Function]:
        # Loaded on first access: parsing and most filters do not need them.
        from sowctl.expressions.functions.groups import FUNCTION_GROUPS

        return {function.name: function for group in FUNCTION_GROUPS.values() for function in group}

    def __getitem__(self, name: str) -> Function:
        return self._loaded_functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded_functions)

    def __len__(self) -> int:
        return len(self._loaded_functions)


FUNCTIONS: Mapping[str, Function] = _FunctionRegistry()

__all__ = ["FUNCTIONS", "Function"]
