"""The page of a rule: the construct, the reason, an example, and the alternative.

The page of most rules is the docstring of their function. Other rules have theirs in the modules of this package, in
dictionaries ``PAGES`` by rule id. ``lint --explain`` and sowctl-lint(7) show the pages.
:mod:`sowctl.config.rules.rule` describes the convention.

* ``loading``: XML, encoding, Include, variables.
* ``structure``: which elements exist, where, how often.
* ``values``: type, words and range of one value.
* ``expressions``: filters, fields, joins.
* ``spellings``: other and retired names.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import NamedTuple

from sowctl.config.problems import find_error_code
from sowctl.config.rules.rule import Rule
from sowctl.findings import Level

_MODULES = ("loading", "structure", "values", "expressions", "spellings")
_HEADING_PATTERN = re.compile(r"^\s*(What|Why|Example|Instead): ", re.MULTILINE)


class RulePage(NamedTuple):
    """The four parts of a page, each one paragraph; back-quotes mark literal text."""

    what: str
    why: str
    example: str
    instead: str


def find_page(rule: Rule) -> RulePage:
    """The page of a rule. Raises LookupError for a rule without one."""
    text = _collect_pages().get(rule.id)
    if text is None:
        text = next((function.__doc__ or "" for _, function in rule.resolve_functions()), "")
    return read_page(text, rule.id)


def read_page(text: str, owner: str) -> RulePage:
    """The parts of a written page. Raises LookupError if a heading is missing, repeated, or out of order."""
    parts = _HEADING_PATTERN.split(text)
    if [part.lower() for part in parts[1::2]] != list(RulePage._fields):
        raise LookupError(f"{owner} has no page with the headings What, Why, Example, Instead")
    return RulePage(*(" ".join(part.split()) for part in parts[2::2]))


def format_page(rule: Rule) -> str:
    """The page as plain text with its heading: id, title, severity, code and element."""
    page = find_page(rule)
    lines = [f"{rule.id} {rule.title} ({format_severity(rule)}, {find_error_code(rule.id)})", f"in {rule.element}", ""]
    for heading, paragraph in zip(RulePage._fields, page, strict=True):
        lines += [f"{heading.capitalize()}: {paragraph.replace('``', '')}", ""]
    return "\n".join(lines)


def format_severity(rule: Rule) -> str:
    """``error``, or both severities of a rule that has two: ``error or warning``."""
    levels = (rule.level, rule.also) if rule.also is not None else (rule.level,)
    return " or ".join(Level(level).name.lower() for level in levels)


def list_page_ids() -> frozenset[str]:
    """The ids of the rules whose page is in this package."""
    return frozenset(_collect_pages())


@cache
def _collect_pages() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _MODULES:
        pages: dict[str, str] = import_module(f"{__name__}.{name}").PAGES
        found.update(pages)
    return found
