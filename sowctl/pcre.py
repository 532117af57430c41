"""PCRE2 through the functions of its wrapper's private module, which no other module uses.

The wrapper's own ``compile()`` changes the meaning of ``\\x`` and ``\\u`` and lets a pattern switch to UTF, whose
matching fails on invalid bytes; its patterns create an object for every match; and it cannot return only the
replacements of many matches, as one text. The private functions are the library's own calls, so their meaning is that
of PCRE2; but another release of the wrapper may have other ones, so pyproject.toml pins it below its next minor
version. Importing this module loads the engine, so modules that seldom need it import it where they use it.
"""

from __future__ import annotations

from typing import Any

from pcre2 import PatternError, _cy
from pcre2._cy import LibraryError, match
from pcre2._cy import match_substring_span_bynumber as find_group_span

NEVER_UTF_UCP = 0x1000 | 0x0800
"""Patterns and texts are bytes, whatever a pattern sets."""
ALT_BSUX = 0x02
"""In the extra options: ``\\u`` and ``\\x`` as in JavaScript."""
NOTEMPTY_ATSTART = 0x08
SUBSTITUTE_ALL = 0x0100 | 0x0400 | 0x0002_0000
"""Substitute every match, unset groups by nothing, and return only the replacements."""
JIT_STACK_LIMIT = -46
LIMIT_ERRORS = frozenset((-47, -52, -53, -63))
"""Match, recursion, depth and heap limits."""
_contexts: list[Any] = []


def compile_code(pattern: bytes, extra_options: int = 0) -> Any:
    """The code of a pattern. Raises PatternError."""
    return _cy.compile(pattern, NEVER_UTF_UCP, extra_options)


def compile_machine_code(code: Any) -> None:
    """Compile a code to machine code. Raises LibraryError if the machine does not allow that."""
    _cy.jit_compile(code)


def get_match_context() -> Any:
    """The context of all matches, which holds only limits: those of the engine."""
    if not _contexts:
        _contexts.append(_cy.create_match_context())
    return _contexts[0]


def substitute_all(code: Any, replacement: bytes, text: bytes) -> bytes:
    """``replacement`` for every match, concatenated, with its groups (``$1``). Raises LibraryError."""
    found: bytes = _cy.substitute(code, replacement, text, 0, SUBSTITUTE_ALL)[0]
    return found


__all__ = [
    "ALT_BSUX",
    "JIT_STACK_LIMIT",
    "LIMIT_ERRORS",
    "NOTEMPTY_ATSTART",
    "LibraryError",
    "PatternError",
    "compile_code",
    "compile_machine_code",
    "find_group_span",
    "get_match_context",
    "match",
    "substitute_all",
]
