"""One code is one reason: wherever a code is raised by name, it is by the same class, and so with one exit status."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import sowctl

CODE = re.compile(r"SOW-[A-Z]+-\d{3}")


def _raised(path: Path) -> Iterator[tuple[str, str]]:
    """Code and class of every error that a module makes with a literal code."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(code)), *_]) if name.endswith("Error"):
                if CODE.fullmatch(code):
                    yield code, name


def test_a_code_belongs_to_one_class_of_errors() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for path in Path(sowctl.__file__).parent.rglob("*.py"):
        for code, name in _raised(path):
            found[code].add(name)
    assert len(found) > 100
    assert {code: names for code, names in found.items() if len(names) > 1} == {}
