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
from sowctl.expressions.functions.table import TABLE, TITLES, FunctionEntry

NAME = "sowctl-expressions.7"


def made(directory: Path) -> dict[str, str]:
    """The page by its name, from the prose in ``directory``. Raises OSError, and KeyError for an unknown table."""
    prose = (directory / f"{NAME}.in").read_text(encoding="utf-8")
    lines = [GENERATED.format(f"{NAME}.in or the declarations")]
    for line in prose.splitlines():
        lines += _TABLES[line[1:]]() if line.startswith("@") else [line]
    return {NAME: "\n".join(lines) + "\n"}


def _functions() -> list[str]:
    lines: list[str] = []
    for group, title in TITLES.items():
        lines.append(f".SS {title}")
        for entry in TABLE:
            if entry.group == group:
                lines += _entry(entry)
    return lines


def _entry(entry: FunctionEntry) -> list[str]:
    lines = [".TP", f'.BR {entry.name} "({escaped(entry.arguments)})"', escaped(sentence(entry.doc))]
    if entry.arguments:
        lines.append(escaped(sentence(entry.null)))
    return lines + [escaped(sentence(note)) for note in entry.notes]


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
