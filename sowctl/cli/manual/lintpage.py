"""Makes ``sowctl-lint(7)`` of prose and of the pages of the rules (``generated.py``).

The prose is written by hand in ``sowctl-lint.7.in``; a line of ``@rules`` and the letter of a family is replaced by
the pages of its rules, ``@rules -`` by those of the reasons without a number. A test compares the committed page with a
fresh one.
"""

from __future__ import annotations

from pathlib import Path

from sowctl.cli.manual.roff import GENERATED, escaped
from sowctl.config.problems import code_of
from sowctl.config.rules.pages import page_of, severity
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import by_id

NAME = "sowctl-lint.7"


def made(directory: Path) -> dict[str, str]:
    """The page by its name, from the prose in ``directory``. Raises OSError; LookupError for a rule without a page."""
    prose = (directory / f"{NAME}.in").read_text(encoding="utf-8")
    lines = [GENERATED.format(f"{NAME}.in or the pages of the rules")]
    for line in prose.splitlines():
        if line.startswith("@rules "):
            lines += [part for rule in _family(line[7:].strip()) for part in _entry(rule)]
        else:
            lines.append(line)
    return {NAME: "\n".join(lines) + "\n"}


def _family(letter: str) -> list[Rule]:
    if letter == "-":
        return [rule for rule in by_id().values() if rule.id == code_of(rule.id)]
    return [rule for rule in by_id().values() if rule.id.startswith(letter) and rule.id != code_of(rule.id)]


def _entry(rule: Rule) -> list[str]:
    """One rule: a heading of id, title and severity, the element, and the four parts of its page."""
    parts = page_of(rule)
    code = "" if rule.id == code_of(rule.id) else f", {code_of(rule.id)}"
    lines = [".TP", f'.B "{_roff(rule.id)} {_roff(rule.title)}"', _roff(f"{severity(rule)}{code}; in {rule.element}.")]
    for heading, text in zip(("", "Why: ", "Example: ", "Instead: "), parts, strict=True):
        sentence = text[:1].upper() + text[1:] if not heading else text
        lines += [".br", _marked(heading + sentence)]
    return lines


def _marked(text: str) -> str:
    """A paragraph whose literal parts, between double back-quotes, are in bold."""
    pieces = text.split("``")
    return "".join(f"\\fB{_roff(piece)}\\fR" if number % 2 else _roff(piece) for number, piece in enumerate(pieces))


def _roff(text: str) -> str:
    """A text that is no markup; a line may break between two elements."""
    return escaped(text).replace("><", ">\\:<")
