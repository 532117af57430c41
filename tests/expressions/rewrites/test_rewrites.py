"""Rewrites: the golden pairs, what they evaluate to before and after, and random expressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from sowctl.expressions.compiler import compile_filter, compile_node, compile_value
from sowctl.expressions.environment import Environment
from sowctl.expressions.rewrites.rewriter import REWRITES, AppliedRewrite, list_conjuncts, rewrite_expression
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.parser import parse_expression, parse_filter
from tests.expressions.alike import same
from tests.expressions.columns.test_columns import own_rows
from tests.expressions.valid import EXPRESSIONS, rows
from tests.support.examples import examples

GOLDEN = Path(__file__).parent / "rewrites.golden"
PAIRS = [
    tuple(line.split("  =>  "))
    for line in GOLDEN.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def environment() -> Environment:
    return Environment(lambda: 1_700_000_000_250_000, "prod-1", None)


def values_of(compiled: Any, records: list[tuple[Any, ...]]) -> list[Any]:
    return compiled.compute_values(own_rows(compiled, records), environment())


def must_agree(before: n.Node, after: n.Node, records: list[tuple[Any, ...]]) -> None:
    first = values_of(compile_node(before, str(before)), records)
    second = values_of(compile_node(after, str(after)), records)
    for one, other in zip(first, second, strict=True):
        assert same(one, other), (str(before), str(after), one, other)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_golden_pairs(before: str, after: str) -> None:
    steps: list[AppliedRewrite] = []
    node = rewrite_expression(parse_expression(before), steps)
    assert str(node) == after
    assert parse_expression(after) == node
    assert bool(steps) is (parse_expression(before) != node)
    assert rewrite_expression(node) is node


@given(rows())
@settings(max_examples=examples(25), deadline=None)
def test_golden_pairs_evaluate_alike(records: list[tuple[Any, ...]]) -> None:
    for before, after in PAIRS:
        must_agree(parse_expression(before), parse_expression(after), records)


@given(EXPRESSIONS, rows())
@settings(max_examples=examples(300), deadline=None)
def test_random_expressions_evaluate_alike(node: n.Node, records: list[tuple[Any, ...]]) -> None:
    must_agree(node, rewrite_expression(node), records)


@given(EXPRESSIONS, rows())
@settings(max_examples=examples(300), deadline=None)
def test_every_single_rewrite_is_sound(node: n.Node, records: list[tuple[Any, ...]]) -> None:
    for change in REWRITES:
        other = change(node)
        if other is not None:
            must_agree(node, other, records)


@given(EXPRESSIONS, rows())
@settings(max_examples=examples(200), deadline=None)
def test_a_filter_matches_where_all_its_conjuncts_do(node: n.Node, records: list[tuple[Any, ...]]) -> None:
    def matching(part: n.Node) -> set[int]:
        wanted = compile_filter(str(part))
        return set(wanted.find_matches(own_rows(wanted, records), environment()))

    parts = list_conjuncts(node)
    together = set(range(len(records))).intersection(*map(matching, parts))
    assert matching(node) == together


def test_conjuncts_of_texts() -> None:
    def parts(text: str) -> list[str]:
        return [str(part) for part in list_conjuncts(parse_filter(text))]

    assert parts("") == []
    assert parts("/a = 1") == ["/a = 1"]
    assert parts("(/a = 1 AND NOT (/b OR /c)) AND TRUE") == ["/a = 1", "NOT /b", "NOT /c"]


def test_places_and_patterns_survive() -> None:
    node = rewrite_expression(parse_expression("NOT (/a LIKE '[')"))
    assert isinstance(node, n.Like)
    assert node.pattern.span == (13, 16)


def test_deep_trees_are_rewritten_without_recursion() -> None:
    assert str(rewrite_expression(parse_expression("NOT " * 3000 + "/a = 1"))) == "/a = 1"
    assert compile_value(str(rewrite_expression(parse_expression("(" * 500 + "1" + " + 1)" * 500)))).node == n.Literal(
        501
    )
