"""Generates ``sowctl-expressions(7)`` from prose and from the tables of the language (``generators.py``).

The prose is written by hand in ``sowctl-expressions.7.in``; lines that begin with ``@`` are replaced by the tables that
they name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sowctl.cli.manual.roff import GENERATED_NOTICE, escape_text, format_sentence
from sowctl.codes import load_codes
from sowctl.expressions.context import Context
from sowctl.expressions.functions.table import (
    FUNCTION_TABLE,
    GROUP_TITLES,
    NO_ARGUMENTS_TEXT,
    NOT_NESTED_TEXT,
    NULL_SKIPPED_TEXT,
    NULL_STRICT_TEXT,
    FunctionEntry,
)

PAGE_FILE = "sowctl-expressions.7"


def generate_pages(directory: Path) -> dict[str, str]:
    """The page by its name, from the prose in ``directory``. Raises OSError, and KeyError for an unknown table."""
    prose = (directory / f"{PAGE_FILE}.in").read_text(encoding="utf-8")
    lines = [GENERATED_NOTICE.format(f"{PAGE_FILE}.in or the declarations")]
    for line in prose.splitlines():
        lines += _TABLE_BUILDERS[line[1:]]() if line.startswith("@") else [line]
    return {PAGE_FILE: "\n".join(lines) + "\n"}


_COMMON_NOTES = frozenset({NULL_STRICT_TEXT, NULL_SKIPPED_TEXT, NO_ARGUMENTS_TEXT, NOT_NESTED_TEXT})
"""Notes that the page states once for all functions, or for all aggregates."""
_AGGREGATE_NOTES = (
    "NULL inputs are skipped.",
    "If there are no others, the result is NULL unless stated otherwise.",
    "Aggregates are allowed only in projections, and cannot be nested.",
)


def _format_functions() -> list[str]:
    lines: list[str] = []
    for group, title in GROUP_TITLES.items():
        lines.append(f".SS {title}")
        if group == "aggregate":
            lines += _AGGREGATE_NOTES
        for entry in FUNCTION_TABLE:
            if entry.group == group:
                lines += _format_entry(entry)
    return lines


def _format_entry(entry: FunctionEntry) -> list[str]:
    told = (entry.doc, *(text for text in (entry.null, *entry.notes) if text not in _COMMON_NOTES))
    return [
        ".TP",
        f'.BR {entry.name} "({escape_text(entry.arguments)})"',
        *(escape_text(format_sentence(text)) for text in told),
    ]


def _format_codes() -> list[str]:
    codes = [code for code in load_codes().values() if code.code.startswith("SOW-EXP-")]
    return [
        line
        for code in codes
        for line in (".TP", f".B {escape_text(code.code)}", escape_text(format_sentence(code.title)))
    ]


_ALLOWANCE_WORDS = {
    "aggregates": "aggregates",
    "current": "OF CURRENT",
    "previous": "OF PREVIOUS",
    "qualifiers": "qualifiers",
    "nondeterministic": "non-deterministic functions",
    "hints": "HINT",
}


def _format_contexts() -> list[str]:
    lines = []
    for context in Context:
        rules = context.rules
        allowed = [words for name, words in _ALLOWANCE_WORDS.items() if getattr(rules, name)]
        text = ", ".join(allowed) if allowed else "none of these"
        lines += [".TP", f".B {escape_text(rules.words)}", escape_text(format_sentence(text))]
    return lines


_TABLE_BUILDERS: dict[str, Callable[[], list[str]]] = {
    "functions": _format_functions,
    "codes": _format_codes,
    "contexts": _format_contexts,
}
