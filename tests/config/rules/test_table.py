"""The table of rules and their pages: complete, unique, and as published."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import getmembers, isfunction
from pathlib import Path
from pkgutil import iter_modules

import pytest

import sowctl.config.rules as rules_package
from sowctl.config.rules.pages import find_page, format_severity, list_page_ids, read_page
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import RULES, find_rule

DIFFERENT = {
    "X004": "error",
    "F022": "error / warning",
    "F030": "warning / error",
    "R011": "warning / error",
}
"""Rules whose severity is not the published one: a document type is refused, so its entities cannot be a warning; for
the others the description has two severities."""
OWN = {"S076", "F040", "R031", "R032", "R033", "R034", "B060", "B061"}
"""Rules about properties of sowctl alone: the maximum of a lifetime, the files it writes, none of them at a URL,
the depth of derivation, the joins it refuses; and filters whose meaning differs from SQL."""


def test_ids_and_titles_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len({rule.title for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.title) and len(rule.title) <= 40, rule


def test_every_rule_has_one_page_and_every_page_a_rule() -> None:
    pages = {rule.id: find_page(rule) for rule in RULES}
    for rule, page in pages.items():
        assert all(part.endswith((".", "``")) and part.count("``") % 2 == 0 for part in page), (rule, page)
    assert len({page.what for page in pages.values()}) == len(pages)
    assert list_page_ids() <= set(pages)


def test_rules_are_the_published_ones(shared: Path) -> None:
    text = (shared / "spec/config.md").read_text(encoding="utf-8")
    published = dict(re.findall(r"^\| ([XSFRDB]\d{3}) \| ([a-z ,/]+?) \|", text, re.MULTILINE))
    assert len(published) == 236
    ours = {rule.id: format_severity(rule).replace(" or ", " / ") for rule in RULES if len(rule.id) == 4}
    assert set(ours) == set(published) | OWN
    different = {rule: levels for rule, levels in ours.items() if published.get(rule, levels) != levels}
    assert different == DIFFERENT


def test_the_table_lists_every_rule_function_once() -> None:
    listed = [path for rule in RULES for path in dict.fromkeys(path for _, path in rule.checks)]
    written_here = {
        f"{module.name}.{name}"
        for module in iter_modules(rules_package.__path__)
        if not module.ispkg
        for name, function in getmembers(import_module(f"sowctl.config.rules.{module.name}"), isfunction)
        if function.__module__ == f"sowctl.config.rules.{module.name}" and (function.__doc__ or "").startswith("What:")
    }
    assert sorted(listed) == sorted(written_here)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.checks], ids=lambda rule: rule.id)
def test_every_function_explains_itself(rule: Rule) -> None:
    for _, function in rule.resolve_functions():
        read_page(function.__doc__ or "", rule.id)


@pytest.mark.parametrize("word", ["S022", "s022", "SOW-CFG-122", "sow-cfg-122", "persistent-without-file"])
def test_a_rule_is_found_by_id_code_and_title(word: str) -> None:
    found = find_rule(word)
    assert found is not None and found.id == "S022"


def test_a_limit_is_found_by_its_code_and_an_unknown_word_is_not() -> None:
    found = find_rule("SOW-CFG-020")
    assert found is not None and found.title == "file-too-large"
    assert find_rule("S999") is None
