"""Makes ``sowctl-lint(7)``: ``python -m sowctl.config.rules.manual man/`` rewrites the page.

The prose is written by hand in ``sowctl-lint.7.in``; a line of ``@rules`` and the letter of a family is replaced by
the pages of its rules, ``@rules -`` by those of the reasons without a number. A test compares the committed page with a
fresh one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sowctl.config.problems import code_of
from sowctl.config.rules.pages import page_of, severity
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import by_id

NAME = "sowctl-lint.7"
_HEAD = '.\\" Made from {} by python -m sowctl.config.rules.manual; change that file, or the pages of the rules.\n'
_WORDS = {"\\": "\\e", "-": "\\-", "~": "\\(ti", "^": "\\(ha", "'": "\\(aq", "`": "\\(ga"}


def page(directory: Path) -> str:
    """The page, from the prose in ``directory``. Raises OSError, and LookupError for a rule without a page."""
    prose = (directory / f"{NAME}.in").read_text(encoding="utf-8")
    lines: list[str] = []
    for line in prose.splitlines():
        if line.startswith("@rules "):
            lines += [part for rule in _family(line[7:].strip()) for part in _entry(rule)]
        else:
            lines.append(line)
    return _HEAD.format(f"{NAME}.in") + "\n".join(lines) + "\n"


def _family(letter: str) -> list[Rule]:
    if letter == "-":
        return [rule for rule in by_id().values() if rule.id == code_of(rule.id)]
    return [rule for rule in by_id().values() if rule.id.startswith(letter) and rule.id != code_of(rule.id)]


def _entry(rule: Rule) -> list[str]:
    """One rule: a heading of id, title and severity, the element, and the four parts of its page."""
    parts = page_of(rule)
    code = "" if rule.id == code_of(rule.id) else f", {code_of(rule.id)}"
    lines = [".TP", f'.B "{roff(rule.id)} {roff(rule.title)}"', roff(f"{severity(rule)}{code}; in {rule.element}.")]
    for heading, text in zip(("", "Why: ", "Example: ", "Instead: "), parts, strict=True):
        sentence = text[:1].upper() + text[1:] if not heading else text
        lines += [".br", _marked(heading + sentence)]
    return lines


def _marked(text: str) -> str:
    """A paragraph whose literal parts, between double back-quotes, are in bold."""
    pieces = text.split("``")
    return "".join(f"\\fB{roff(piece)}\\fR" if number % 2 else roff(piece) for number, piece in enumerate(pieces))


def roff(text: str) -> str:
    """A text that is no markup; a line may break between two elements."""
    escaped = re.sub(r"[\\~^'`-]", lambda match: _WORDS[match[0]], text).replace("><", ">\\:<")
    return "\\&" + escaped if escaped[:1] == "." else escaped


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "man")
    (target / NAME).write_text(page(target), encoding="utf-8")
