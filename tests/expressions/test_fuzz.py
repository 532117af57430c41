"""Mutated texts: whatever comes in, only errors with a place come out, and what is accepted reads back."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings

from sowctl.expressions.compiler import compile_filter, compile_node, compile_value
from sowctl.expressions.rows.program import CompiledValue
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.syntax.joins import parse_join
from sowctl.expressions.syntax.parser import (
    parse_expression,
    parse_field,
    parse_grouping,
    parse_order_by,
    parse_projection,
)
from sowctl.expressions.syntax.selectlist import parse_select
from tests.expressions.test_conformance import cases
from tests.expressions.valid import EXPRESSIONS
from tests.support.examples import examples

READERS = (
    parse_expression,
    compile_value,
    parse_field,
    parse_projection,
    parse_grouping,
    parse_order_by,
    parse_select,
    parse_join,
)
PIECES = (
    *(
        "(",
        ")",
        "[",
        "]",
        "/",
        "'",
        '"',
        "\\",
        ",",
        ".",
        "-",
        "+",
        "e",
        "0",
        "1e999",
        " ",
        "\n",
        "\t",
        "\x00",
        "é",
        "\U0001f600",
    ),
    *(
        "AND",
        " OR ",
        "NOT ",
        " IN (",
        " LIKE '",
        " BETWEEN ",
        " IS NULL",
        "/a",
        "[t]./a",
        "[/a b]",
        " OF PREVIOUS",
        " AS /x",
    ),
    *(
        " HINT OPTIONAL",
        "UPPER(",
        "IF(",
        "SUM(",
        "r'",
        "TRUE",
        "NAN",
        "=",
        "<>",
        "!=",
        " MOD ",
        "BEGINS WITH ",
        "18446744073709551616",
    ),
)


def corpus() -> list[str]:
    """Texts of all kinds, from the conformance cases."""
    texts = []
    for case in cases():
        for name in ("expr", "projection", "grouping", "order_by", "select", "filter"):
            texts += [case[name]] if name in case else []
        texts += [*case.get("fields", ()), *case.get("joins", ())]
    return [text for text in texts if len(text) < 400]


def mutated(chance: random.Random, texts: list[str]) -> str:
    """A text of the corpus, changed in a few places."""
    text = chance.choice(texts)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(text))
        end = min(len(text), at + chance.randint(0, 6))
        match chance.randint(0, 4):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 2:
                text = text[:at] + text[at:end] * chance.randint(2, 5) + text[end:]
            case 3:
                other = chance.choice(texts)
                text = text[:at] + other[chance.randint(0, len(other)) :]
            case _:
                text = (
                    text[:at] + chr(chance.choice((chance.randint(0, 127), chance.randint(128, 0xD7FF)))) + text[end:]
                )
    return text


def test_mutated_texts(deep: bool) -> None:
    seed = random.randrange(1 << 32) if deep else 7
    chance = random.Random(seed)
    texts = corpus()
    end = time.monotonic() + (60 if deep else 1.5)
    count = accepted = 0
    while time.monotonic() < end:
        text = mutated(chance, texts)
        count += 1
        for read in READERS:
            try:
                found = read(text)
            except ExpressionError as error:
                lines = text.split("\n")
                assert 1 <= error.line <= len(lines), (seed, text)
                assert 1 <= error.column <= len(lines[error.line - 1]) + 1, (seed, text)
                assert error.excerpt is not None
                continue
            if isinstance(found, CompiledValue):
                accepted += 1
                assert parse_expression(str(found.node)) == found.node, (seed, text)
    assert count > 50
    assert accepted > 5


@given(EXPRESSIONS)
@settings(max_examples=examples(200), deadline=None)
def test_random_valid_filters_read_back(node: n.Node) -> None:
    text = str(node)
    again = compile_filter(text).node
    assert again is not None
    assert again == parse_expression(text)
    assert str(again) == text
    assert compile_node(again, text).node == again


@pytest.mark.parametrize("text", ["\ud800", "a" * 100_000, "'" * 9999, "/" * 9999, "[" * 9999, "\\" * 999, "1" * 9999])
def test_hostile_texts(text: str) -> None:
    for read in READERS:
        try:
            read(text)
        except ExpressionError as error:
            assert error.column >= 1
