"""The manual pages that are generated from tables and declarations, and how they are written.

sowctl-errors(7) and sowctl-lint(7) are generated here, the others in modules of their own.

``python -m sowctl.cli.manual man/`` writes all of them; a test compares the committed files with a fresh run. A
generator is a function from the directory of the pages, which holds the prose of some, to file contents by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sowctl.cli.manual import commandpages, elementpage, expressionpage
from sowctl.cli.manual.commandpages import PAGE_SOURCE
from sowctl.cli.manual.roff import GENERATED_NOTICE, Items, ManualPage, Paragraph, Section, escape_text, format_roff
from sowctl.cli.parsing.codes import EXIT_STATUSES
from sowctl.codes import ERROR_AREAS, ErrorCode, load_codes
from sowctl.config.problems import find_error_code
from sowctl.config.rules.pages import find_page, format_severity
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import index_rules
from sowctl.version import RELEASE_DATE

_ERRORS_TEXT = (
    "Every error has a code, SOW- with three letters for the area and three digits. A code stands for one "
    "reason: scripts may rely on it, and on the exit status that belongs to it. The words of a message may change.",
    "An error is written to standard error, as text or with --error-format json as one line of JSON with the members "
    "code, exit and message, and place and hint where there are any. Refused messages of a publish and findings of "
    "sowctl check have codes of the same table. A finding that is only a warning leaves the exit status as it is.",
    "sowctl explain CODE shows the text of one code, sowctl explain SOW-STO lists an area.",
)
_RULE_CODES_TEXT = (
    "A configuration that breaks a rule is refused with the code of the rule, exit status 4: SOW-CFG-001 and on for "
    "the rules X001 and on, SOW-CFG-101 for S001, SOW-CFG-201 for F001, SOW-CFG-301 for R001. They are described with "
    "the rules in sowctl-lint(7); sowctl explain knows them, too."
)
_ERRORS_SEE_ALSO = (
    "sowctl(1), sowctl-explain(1), sow-config(5), sow-journal(5), sow-store(5), sowctl-behaviour(7), "
    "sowctl-expressions(7), sowctl-lint(7), sowctl-messages(7)"
)
LINT_PAGE_FILE = "sowctl-lint.7"


def generate_error_page(directory: Path) -> dict[str, str]:
    """sowctl-errors(7) by its name, from :mod:`sowctl.codes`; ``directory`` has no prose for it."""
    return {"sowctl-errors.7": format_roff(build_errors_page())}


def build_errors_page() -> ManualPage:
    """Every error code with its exit status, cause and remedy, as values."""
    codes = load_codes()
    areas = []
    for beginning, area in ERROR_AREAS.items():
        items = Items(tuple(_build_code_item(code) for code in codes.values() if code.code.startswith(beginning)))
        before = (Paragraph(_RULE_CODES_TEXT),) if beginning == "SOW-CFG" else ()
        areas.append(Section(f"{beginning}: {area.title}".upper(), (*before, items)))
    statuses = Items(tuple((str(status), words) for status, words in EXIT_STATUSES))
    sections = (
        Section("NAME", (Paragraph("sowctl-errors - error codes: what they mean, and what to do"),)),
        Section("DESCRIPTION", tuple(Paragraph(text) for text in _ERRORS_TEXT)),
        *areas,
        Section("EXIT STATUS", (statuses,)),
        Section("SEE ALSO", (Paragraph(_ERRORS_SEE_ALSO),)),
    )
    return ManualPage("sowctl-errors", 7, RELEASE_DATE, PAGE_SOURCE, sections, "sowctl/codes")


def _build_code_item(code: ErrorCode) -> tuple[str, str]:
    """Tag and text: title and exit status, cause, remedy, and a page unless it is that of the area."""
    status = f"exit status {code.status}" if code.status else "a finding that changes no exit status"
    lines = [f"{code.title[:1].upper()}{code.title[1:]}; {status}.", code.why, f"What to do: {code.action}"]
    if code.page != ERROR_AREAS[code.code[:7]].page:
        lines.append(f"See {code.page}.")
    return code.code, "\n".join(lines).replace("``", "")


def generate_lint_page(directory: Path) -> dict[str, str]:
    """sowctl-lint(7) by its name, from the prose in ``directory``.

    The prose is written by hand in ``sowctl-lint.7.in``; a line of ``@rules`` and the letter of a family is replaced by
    the pages of its rules, ``@rules -`` by those of the rules without a number. Raises OSError, and LookupError for a
    rule without a page.
    """
    prose = (directory / f"{LINT_PAGE_FILE}.in").read_text(encoding="utf-8")
    lines = [GENERATED_NOTICE.format(f"{LINT_PAGE_FILE}.in or the pages of the rules")]
    for line in prose.splitlines():
        if line.startswith("@rules "):
            lines += [part for rule in _list_rule_family(line[7:].strip()) for part in _format_rule(rule)]
        else:
            lines.append(line)
    return {LINT_PAGE_FILE: "\n".join(lines) + "\n"}


def _list_rule_family(letter: str) -> list[Rule]:
    if letter == "-":
        return [rule for rule in index_rules().values() if rule.id == find_error_code(rule.id)]
    return [
        rule for rule in index_rules().values() if rule.id.startswith(letter) and rule.id != find_error_code(rule.id)
    ]


def _format_rule(rule: Rule) -> list[str]:
    """One rule: a heading with id, title and severity, the element, and the four parts of its page."""
    parts = find_page(rule)
    code = "" if rule.id == find_error_code(rule.id) else f", {find_error_code(rule.id)}"
    lines = [
        ".TP",
        f'.B "{_escape_rule_text(rule.id)} {_escape_rule_text(rule.title)}"',
        _escape_rule_text(f"{format_severity(rule)}{code}; in {rule.element}."),
    ]
    for heading, text in zip(("", "Why: ", "Example: ", "Instead: "), parts, strict=True):
        sentence = text[:1].upper() + text[1:] if not heading else text
        lines += [".br", _mark_literals(heading + sentence)]
    return lines


def _mark_literals(text: str) -> str:
    """A paragraph with its literal parts, between double back-quotes, in bold."""
    pieces = text.split("``")
    return "".join(
        f"\\fB{_escape_rule_text(piece)}\\fR" if number % 2 else _escape_rule_text(piece)
        for number, piece in enumerate(pieces)
    )


def _escape_rule_text(text: str) -> str:
    """A text without markup; a line may break between two elements."""
    return escape_text(text).replace("><", ">\\:<")


GENERATORS: tuple[Callable[[Path], dict[str, str]], ...] = (
    commandpages.generate_pages,
    elementpage.generate_pages,
    generate_error_page,
    expressionpage.generate_pages,
    generate_lint_page,
)


def generate_all_pages(directory: Path) -> dict[str, str]:
    """Every generated page by the name of its file. Raises OSError if prose cannot be read."""
    return {name: text for generate in GENERATORS for name, text in generate(directory).items()}


def write_pages(directory: Path) -> None:
    """Write every generated page into ``directory``. Raises OSError."""
    for name, text in generate_all_pages(directory).items():
        (directory / name).write_text(text, encoding="utf-8")
