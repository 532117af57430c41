"""Makes ``sowctl-expressions(7)``: ``python -m sowctl.expressions.manual man/`` rewrites the page.

The prose is written by hand in ``sowctl-expressions.7.in``; lines that begin with ``@`` name the tables that are put in
their places. A test compares the committed page with a fresh one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sowctl.expressions.context import Context
from sowctl.expressions.functions.table import TABLE, TITLES, Entry
from sowctl.expressions.syntax.errors import CODES

NAME = "sowctl-expressions.7"
_HEAD = '.\\" Made from {} by python -m sowctl.expressions.manual; change that file, or the declarations.\n'


def page(directory: Path) -> str:
    """The page, from the prose in ``directory``. Raises OSError, and KeyError for an unknown table."""
    prose = (directory / f"{NAME}.in").read_text(encoding="utf-8")
    lines: list[str] = []
    for line in prose.splitlines():
        lines += _TABLES[line[1:]]() if line.startswith("@") else [line]
    return _HEAD.format(f"{NAME}.in") + "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """A text that is no markup: backslashes, hyphens, and dots and quotes at the start of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    return "\\&" + text if text[:1] in (".", "'") else text


def _functions() -> list[str]:
    lines: list[str] = []
    for group, title in TITLES.items():
        lines.append(f".SS {title}")
        for entry in TABLE:
            if entry.group == group:
                lines += _entry(entry)
    return lines


def _entry(entry: Entry) -> list[str]:
    lines = [".TP", f'.BR {entry.name} "({escaped(entry.arguments)})"', escaped(_sentence(entry.doc))]
    if entry.arguments:
        lines.append(escaped(_sentence(entry.null)))
    return lines + [escaped(_sentence(note)) for note in entry.notes]


def _codes() -> list[str]:
    return [line for code, words in CODES.items() for line in (".TP", f".B {escaped(code)}", escaped(_sentence(words)))]


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
        text = ", ".join(allowed) if allowed else "nothing of these"
        lines += [".TP", f".B {escaped(rules.words)}", escaped(_sentence(text))]
    return lines


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


_TABLES: dict[str, Callable[[], list[str]]] = {"functions": _functions, "codes": _codes, "contexts": _contexts}


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "man")
    (target / NAME).write_text(page(target), encoding="utf-8")
