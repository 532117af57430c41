"""Makes ``sowctl-lint(7)`` of prose and of the pages of the rules (``generators.py``).

The prose is written by hand in ``sowctl-lint.7.in``; a line of ``@rules`` and the letter of a family is replaced by
the pages of its rules, ``@rules -`` by those of the reasons without a number. A test compares the committed page with a
fresh one.
"""

from __future__ import annotations

from pathlib import Path

from sowctl.cli.manual.roff import GENERATED_NOTICE, escape_text
from sowctl.config.problems import find_error_code
from sowctl.config.rules.pages import find_page, format_severity
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import index_rules

PAGE_FILE = "sowctl-lint.7"


def generate_pages(directory: Path) -> dict[str, str]:
    """The page by its name, from the prose in ``directory``. Raises OSError; LookupError for a rule without a page."""
    prose = (directory / f"{PAGE_FILE}.in").read_text(encoding="utf-8")
    lines = [GENERATED_NOTICE.format(f"{PAGE_FILE}.in or the pages of the rules")]
    for line in prose.splitlines():
        if line.startswith("@rules "):
            lines += [part for rule in _list_family(line[7:].strip()) for part in _format_entry(rule)]
        else:
            lines.append(line)
    return {PAGE_FILE: "\n".join(lines) + "\n"}


def _list_family(letter: str) -> list[Rule]:
    if letter == "-":
        return [rule for rule in index_rules().values() if rule.id == find_error_code(rule.id)]
    return [
        rule for rule in index_rules().values() if rule.id.startswith(letter) and rule.id != find_error_code(rule.id)
    ]


def _format_entry(rule: Rule) -> list[str]:
    """One rule: a heading of id, title and severity, the element, and the four parts of its page."""
    parts = find_page(rule)
    code = "" if rule.id == find_error_code(rule.id) else f", {find_error_code(rule.id)}"
    lines = [
        ".TP",
        f'.B "{_escape_text(rule.id)} {_escape_text(rule.title)}"',
        _escape_text(f"{format_severity(rule)}{code}; in {rule.element}."),
    ]
    for heading, text in zip(("", "Why: ", "Example: ", "Instead: "), parts, strict=True):
        sentence = text[:1].upper() + text[1:] if not heading else text
        lines += [".br", _mark_literals(heading + sentence)]
    return lines


def _mark_literals(text: str) -> str:
    """A paragraph whose literal parts, between double back-quotes, are in bold."""
    pieces = text.split("``")
    return "".join(
        f"\\fB{_escape_text(piece)}\\fR" if number % 2 else _escape_text(piece) for number, piece in enumerate(pieces)
    )


def _escape_text(text: str) -> str:
    """A text that is no markup; a line may break between two elements."""
    return escape_text(text).replace("><", ">\\:<")
