"""Regular expressions that are compiled when they are first used: ``pattern`` is used as :func:`re.compile`.

Compiling one takes 0.05 to 1 ms; a short command imports modules with dozens of them and matches with a few. What is
made here has the methods of a compiled one; each is looked up once and is from then on the compiled one's own. For
modules on the way of ``get``, ``query``, ``publish`` and ``eval``. Anybody may import this module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["pattern"]


class _Pattern:
    """A pattern that is compiled when one of its attributes is asked for."""

    def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
        self._given = pattern, flags
        self._made: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        """Called for names that the value has not got: for each of a pattern's own once."""
        if self._made is None:
            self._made = re.compile(*self._given)
        found = self.__dict__[name] = getattr(self._made, name)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Pattern, self._given


if TYPE_CHECKING:
    from re import compile as pattern
else:
    pattern = _Pattern
