"""Error codes as words on the command line: parsing, finding and explaining them.

The texts are those of :mod:`sowctl.codes`; a code that belongs to a rule for configurations is explained by the page of
its rule, which this module converts to the same form. Used by ``explain`` and the completion scripts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sowctl.codes import ERROR_AREAS, ErrorCode, load_codes
from sowctl.config.problems import find_error_code
from sowctl.config.rules.pages import find_page
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import find_rule as rule_of
from sowctl.config.rules.table import index_rules
from sowctl.errors import UsageError
from sowctl.findings import Level

_PREFIX_PATTERN = re.compile(r"(?:SOW-)?([A-Z]{3}(?:-\d{0,2})?)")
_CODE_PATTERN = re.compile(r"(?:sow-)?[a-z]{3}-\d+|[a-z]?\d+")
"""Words that look like a code, the id of a rule or an exit status, in lower case."""
RULES_PAGE = "sowctl-lint(7)"
EXIT_STATUSES: tuple[tuple[int, str], ...] = (
    (0, "Done."),
    (1, "The condition is false: findings, differences, no such key."),
    (2, "Wrong usage: an unknown option, a value out of range, an invalid filter."),
    (
        3,
        "Done, but some input messages were rejected, some entries were not restored, or some exported values are not"
        " exact.",
    ),
    (4, "The configuration is invalid or unsuitable."),
    (5, "Stored data is damaged."),
    (6, "The operating system reported an error: full disk, permission, input/output error."),
    (7, "A safety limit was exceeded."),
    (8, "Refused: requires --yes or --force, is read-only, or belongs to another definition."),
    (9, "The file has a newer format."),
    (10, "The store, journal or topic does not exist."),
    (11, "Another process held a lock for longer than --lock-wait."),
    (12, "A package of an optional extra is not installed."),
    (70, "A bug in sowctl."),
    (124, "The time limit of --timeout was reached; the command was interrupted."),
    (129, "Hung up (SIGHUP)."),
    (130, "Interrupted (SIGINT)."),
    (141, "The reader of standard output closed it (SIGPIPE)."),
    (143, "Terminated (SIGTERM)."),
)
"""The exit statuses, as a published table; a test compares it with the classes of errors."""


def list_codes() -> list[str]:
    """Every code that has an explanation, in ascending order."""
    return sorted({*load_codes(), *(find_error_code(rule) for rule in index_rules())})


def explain_code(code: str) -> tuple[ErrorCode, Rule | None]:
    """The text of a known code, and the rule that it belongs to, if any.

    A rule that is an error ends a command that loads the configuration with status 4; a milder one does not end it.
    """
    if (found := load_codes().get(code)) is not None:
        return found, None
    rule = rule_of(code)
    assert rule is not None
    page = find_page(rule)
    status = 4 if rule.level is Level.ERROR else 0
    why = f"{page.what[:1].upper()}{page.what[1:]} {page.why[:1].upper()}{page.why[1:]} Example: {page.example}"
    return ErrorCode(code, status, rule.title, why, f"{page.instead[:1].upper()}{page.instead[1:]}", RULES_PAGE), rule


def parse_status(word: str) -> int | None:
    """The exit status that a word denotes; None for other words."""
    return int(word) if word.isdecimal() and int(word) in dict(EXIT_STATUSES) else None


def find_codes(word: str) -> list[str]:
    """The codes that a word denotes: one for a code or for the id or title of a rule, several for a prefix; for an exit
    status the codes with that status, possibly none.

    Letter case does not matter, and ``SOW-`` may be omitted. Raises UsageError ``SOW-CLI-092`` with the nearest codes
    if it denotes none.
    """
    codes = list_codes()
    if (status := parse_status(word)) is not None:
        return [code for code in codes if status and explain_code(code)[0].status == status]
    upper = word.upper()
    for code in (upper, f"SOW-{upper}"):
        if code in codes:
            return [code]
    if (rule := rule_of(word)) is not None:
        return [find_error_code(rule.id)]
    if (match := _PREFIX_PATTERN.fullmatch(upper)) is not None:
        found = [code for code in codes if code.startswith(f"SOW-{match[1]}")]
        if found:
            return found
    raise UsageError("SOW-CLI-092", f"unknown code {word!r}", hint=_find_near(upper, codes))


def search_codes(words: Sequence[str]) -> list[str]:
    """The codes whose title, cause and remedy contain all of ``words``, ignoring case; none for a single code.

    A hyphen separates words as a space does.
    """
    if any(_CODE_PATTERN.fullmatch(word) for word in " ".join(words).lower().split()):
        return []
    wanted = " ".join(words).lower().replace("-", " ").split()
    found = []
    for code in list_codes():
        text = explain_code(code)[0]
        whole = f"{text.title} {text.why} {text.action}".lower()
        if all(word in whole for word in wanted):
            found.append(code)
    return found


def _find_near(word: str, codes: list[str]) -> str:
    from difflib import get_close_matches

    full = word if word.startswith("SOW-") else f"SOW-{word}"
    close = get_close_matches(full, codes, n=3, cutoff=0.7)
    if close:
        return f"did you mean {' or '.join(close)}?"
    pages = f"; sowctl man -k {word.lower()} searches the pages" if word.isalpha() else ""
    return (
        f"sowctl explain lists the areas{pages}"
        if full[:7] not in ERROR_AREAS
        else f"sowctl explain {full[:7]} lists its codes"
    )
