"""Declarations of functions: name, parameters, NULL rule, result, description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

UNLIMITED_ARGUMENTS = 1 << 30


class Function(Struct, frozen=True):
    """One function of the language.

    ``parameters`` are kinds: ``text`` (bytes), ``number`` (Integer or Double), ``double``, ``integer`` (truncated;
    NaN counts as NULL), ``scalar``, ``values`` (the value list of an identifier), ``pattern``. ``strict``: any NULL
    gives NULL without a call; else the implementation receives None. ``gets``: an additional first argument:
    ``header``, ``environment``, or for ``bounds`` the environment that limits the texts that the function creates.
    ``result``: ``text`` (bytes; empty is NULL), ``number``, ``scalar`` or ``truth``.
    """

    name: str
    call: Callable[..., Any]
    parameters: tuple[str, ...]
    least: int
    most: int
    result: str
    doc: str
    strict: bool
    deterministic: bool
    gets: str
    lookup: bool

    @property
    def is_pure(self) -> bool:
        """Return whether equal arguments give equal results, in every run and for every record."""
        # The bounds may end a run, but change no result.
        return self.deterministic and self.gets in ("", "bounds")

    def find_argument_kind(self, position: int) -> str:
        """The kind of the argument at ``position``; the last parameter repeats."""
        return self.parameters[min(position, len(self.parameters) - 1)]


def declare_function(
    name: str,
    call: Callable[..., Any],
    parameters: str,
    result: str,
    doc: str,
    *,
    strict: bool = True,
    deterministic: bool = True,
    gets: str = "",
    lookup: bool = False,
) -> Function:
    """Declare a function; ``parameters`` such as ``"text integer integer?"`` or ``"scalar ..."``."""
    words = parameters.split()
    variadic = bool(words) and words[-1] == "..."
    if variadic:
        words.pop()
    # ``...`` repeats the last parameter without limit; a question mark makes one optional.
    least = sum(not word.endswith("?") for word in words)
    most = UNLIMITED_ARGUMENTS if variadic else len(words)
    kinds = tuple(word.rstrip("?") for word in words)
    return Function(name, call, kinds, least, most, result, doc, strict, deterministic, gets, lookup)
