"""Makes ``sowctl-expressions(7)`` of prose and of the tables of the language (``generated.py``).

The prose is written by hand in ``sowctl-expressions.7.in``; lines that begin with ``@`` name the tables that are put in
their places.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sowctl.cli.manual.roff import GENERATED, escaped, sentence
from sowctl.codes import table
from sowctl.expressions.context import Context
from sowctl.expressions.functions.table import (
    FUNCTION_TABLE,
    GROUP_TITLES,
    NO_ARGUMENTS,
    NOT_NESTED,
    NULL_IN,
    NULL_SKIPPED_TEXT,
    FunctionEntry,
)

NAME = "sowctl-expressions.7"


def made(directory: Path) -> dict[str, str]:
    """The page by its name, from the prose in ``directory``. Raises OSError, and KeyError for an unknown table."""
    prose = (directory / f"{NAME}.in").read_text(encoding="utf-8")
    lines = [GENERATED.format(f"{NAME}.in or the declarations")]
    for line in prose.splitlines():
        lines += _TABLES[line[1:]]() if line.startswith("@") else [line]
    return {NAME: "\n".join(lines) + "\n"}


_COMMON = frozenset({NULL_IN, NULL_SKIPPED_TEXT, NO_ARGUMENTS, NOT_NESTED})
"""What the page says once for all functions, or for all aggregates."""
_AGGREGATES = (
    "NULL inputs are skipped.",
    "If there are no others, the result is NULL unless stated otherwise.",
    "Aggregates are allowed only in projections, and cannot be nested.",
)


def _functions() -> list[str]:
    lines: list[str] = []
    for group, title in GROUP_TITLES.items():
        lines.append(f".SS {title}")
        if group == "aggregate":
            lines += _AGGREGATES
        for entry in FUNCTION_TABLE:
            if entry.group == group:
                lines += _entry(entry)
    return lines


def _entry(entry: FunctionEntry) -> list[str]:
    told = (entry.doc, *(text for text in (entry.null, *entry.notes) if text not in _COMMON))
    return [".TP", f'.BR {entry.name} "({escaped(entry.arguments)})"', *(escaped(sentence(text)) for text in told)]


def _codes() -> list[str]:
    codes = [code for code in table().values() if code.code.startswith("SOW-EXP-")]
    return [line for code in codes for line in (".TP", f".B {escaped(code.code)}", escaped(sentence(code.title)))]


_ALLOWED = {
    "aggregates": "aggregates",
    "current": "OF CURRENT",
    "previous": "OF PREVIOUS",
    "qualifiers": "qualifiers",
    "nondeterministic": "non-deterministic functions",
    "hints": "HINT",
}


def _contexts() -> list[str]:
    lines = []
    for context in Context:
        rules = context.rules
        allowed = [words for name, words in _ALLOWED.items() if getattr(rules, name)]
        text = ", ".join(allowed) if allowed else "none of these"
        lines += [".TP", f".B {escaped(rules.words)}", escaped(sentence(text))]
    return lines


_TABLES: dict[str, Callable[[], list[str]]] = {"functions": _functions, "codes": _codes, "contexts": _contexts}
