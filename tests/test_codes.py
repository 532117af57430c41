"""One code is one reason: wherever a code is raised it is by one class, so with one exit status, and it has a text.

The source is read, not run: codes stand in it as literals or as constants that modules import from one another.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sowctl
from sowctl import errors
from sowctl.cli.parsing.codes import EXIT_STATUSES
from sowctl.codes import ERROR_AREAS, load_codes, parse_code
from sowctl.config.problems import find_error_code
from sowctl.config.rules.table import index_rules

ROOT = Path(sowctl.__file__).parent
MAN = ROOT.parent / "man"
CODE = re.compile(r"SOW-[A-Z]{3}-\d{3}")
REFUSALS = {"Refusal", "PayloadRefused", "EnvelopeRefused", "RefusedFrame", "HalfPair"}
"""What refuses one message: a run that ends there ends with InputError."""
WRAPPED = {"expression_error": "UsageError", "Fault": "UsageError"}
"""Functions that make the error of one class."""
MILD = {"WARNING", "INFO", "ADVICE"}
RULES = {find_error_code(rule) for rule in index_rules()}


@cache
def _trees() -> dict[str, ast.Module]:
    """The modules by dotted name, all but the texts themselves."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not name.startswith("sowctl.codes"):
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(autouse=True, scope="module")
def _let_go() -> Iterator[None]:
    """The trees have a million nodes, which would slow down every later garbage collection."""
    yield
    _trees.cache_clear()
    _calls.cache_clear()


@cache
def _own_constants(module: str) -> dict[str, str]:
    """The names that a module gives to codes."""
    found: dict[str, str] = {}
    for node in ast.walk(_trees()[module]):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))) if CODE.fullmatch(text):
                found[name] = text
    return found


def _constants(module: str) -> dict[str, str]:
    """The names that stand for codes in a module: its own, and those that it imports from where they are given."""
    found = dict(_own_constants(module))
    for node in ast.walk(_trees()[module]):
        match node:
            case ast.ImportFrom(module=str(other), names=names) if other in _trees():
                theirs = _own_constants(other)
                found |= {one.asname or one.name: theirs[one.name] for one in names if one.name in theirs}
    return found


@cache
def _calls() -> list[tuple[str, str, ast.Call]]:
    """Code, name of what is called, and the call, wherever a code is an argument."""
    return list(_find_calls())


def _find_calls() -> Iterator[tuple[str, str, ast.Call]]:
    for module, tree in _trees().items():
        names = _constants(module)
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=arguments):
                    for argument in arguments:
                        match argument:
                            case ast.Constant(value=str(text)) if CODE.fullmatch(text):
                                yield text, called, node
                            case ast.Name(id=name) if name in names:
                                yield names[name], called, node


def test_a_code_belongs_to_one_class_of_errors() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for code, called, _ in _calls():
        if called.endswith("Error"):
            found[code].add(called)
    assert len(found) > 250
    assert {code: names for code, names in found.items() if len(names) > 1} == {}


def test_every_code_in_the_source_has_a_text_and_every_text_a_code() -> None:
    used = set()
    for path in ROOT.rglob("*.py"):
        if "codes" not in path.relative_to(ROOT).parts[:1]:
            used |= set(CODE.findall(path.read_text(encoding="utf-8")))
    assert sorted(used - RULES - set(load_codes())) == []
    assert sorted(set(load_codes()) - used) == []
    assert set(load_codes()) & RULES == set()


def test_the_exit_statuses_are_those_of_the_classes() -> None:
    wrong = []
    read_here = set()
    for code, called, _ in _calls():
        if code in RULES:
            continue
        kind = "InputError" if called in REFUSALS else WRAPPED.get(called, called)
        if kind.endswith("Error") and hasattr(errors, kind):
            read_here.add(code)
            if load_codes()[code].status != getattr(errors, kind).exit_status:
                wrong.append((code, load_codes()[code].status, kind))
    assert wrong == []
    assert len(read_here) > 280


def test_warnings_change_no_status() -> None:
    levels: dict[str, set[str]] = defaultdict(set)
    for code, _, call in _calls():
        for node in ast.walk(call):
            match node:
                case ast.Attribute(value=ast.Name(id="Level"), attr=level):
                    levels[code].add(level)
    mild = {code for code, names in levels.items() if names <= MILD} - RULES
    assert {code for code, row in load_codes().items() if row.status == 0} == mild


def test_the_texts_have_known_areas_statuses_and_pages() -> None:
    statuses = {status for status, _ in EXIT_STATUSES}
    for code, row in load_codes().items():
        assert code[:7] in ERROR_AREAS
        assert row.status in statuses
        assert row.title[-1] not in ".:" and row.why.endswith(".") and row.action.endswith(".")
        match = re.fullmatch(r"([a-z-]+)\((\d)\)", row.page)
        assert match is not None and (MAN / f"{match[1]}.{match[2]}").is_file(), row.page
        assert row.why.count("``") % 2 == row.action.count("``") % 2 == 0


@pytest.mark.parametrize("text", ["a title\n\n Why: x\n Do: y", "5 title\n\n Why: x", "5 title\n\n Do: x\n Why: y"])
def test_a_text_without_its_parts_is_refused(text: str) -> None:
    with pytest.raises(LookupError):
        parse_code("SOW-STO-999", text)


def test_the_page_names_every_code_once() -> None:
    text = (MAN / "sowctl-errors.7").read_text(encoding="utf-8").replace("\\-", "-")
    tags = re.findall(r"^\.TP\n\\fB(SOW-\S+)\\fR$", text, re.MULTILINE)
    assert sorted(tags) == sorted(load_codes())
