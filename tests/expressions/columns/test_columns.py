"""The columnar evaluator gives what the row evaluator gives, and says what it left to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import LimitError
from sowctl.expressions.columns import ColumnProgram
from sowctl.expressions.compiler import compile_filter, compile_value
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.rows.program import CompiledValue
from sowctl.expressions.syntax import nodes as n
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Kind
from sowctl.values.fields import Number, ValueList
from tests.expressions.alike import same
from tests.expressions.valid import EXPRESSIONS, PATHS, rows
from tests.support.examples import examples

ENV = Environment(lambda: 1_700_000_000_250_000, "prod-1", None)


def own_rows(compiled: Any, records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The records reduced to the slots that an expression asks for."""
    places = [PATHS.index(slot.path) for slot in compiled.slots]
    kept = []
    for record in records:
        values = [record[place] for place in places]
        kept.append(tuple(listed(v) if slot.listed else v for v, slot in zip(values, compiled.slots, strict=True)))
    return kept


def listed(value: Any) -> Any:
    return value if isinstance(value, ValueList) else ValueList(() if value is None else (value,))


@given(EXPRESSIONS, rows())
@settings(max_examples=examples(400), deadline=None)
def test_both_evaluators_agree(node: n.Node, records: list[tuple[Any, ...]]) -> None:
    value, wanted = compile_value(str(node)), compile_filter(str(node))
    own = own_rows(value, records)
    program = ColumnProgram(value)
    found = program.evaluate_column(program.build_batch(own), ENV).repeat_values(len(own))
    expected = value.compute_values(own, ENV)
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        assert same(one, other), (str(node), one, other, program.list_fallbacks())
    own = own_rows(wanted, records)
    program = ColumnProgram(wanted)
    mask = program.evaluate_mask(program.build_batch(own), ENV)
    assert mask.dtype == np.bool_
    assert mask.shape == (len(own),)
    assert np.flatnonzero(mask).tolist() == wanted.find_matches(own, ENV)


@given(EXPRESSIONS, rows(), st.integers(0, 12), st.lists(st.integers(0, 11), max_size=8))
@settings(max_examples=examples(100), deadline=None)
def test_parts_of_batches_and_several_in_one_are_like_their_rows(
    node: n.Node, records: list[tuple[Any, ...]], cut: int, picks: list[int]
) -> None:
    wanted, value = compile_filter(str(node)), compile_value(str(node))
    places = [pick % len(records) for pick in picks] if records else []
    for compiled in (wanted, value):
        own = own_rows(compiled, records)
        program = ColumnProgram(compiled)
        whole = ColumnBatch.concatenate([program.build_batch(own[:cut]), program.build_batch(own[cut:])])
        some = program.build_batch(own).take(np.array(places, np.int64))
        for batch, expected in ((whole, own), (some, [own[place] for place in places])):
            if compiled is wanted:
                assert np.flatnonzero(program.evaluate_mask(batch, ENV)).tolist() == wanted.find_matches(expected, ENV)
            else:
                found = program.evaluate_column(batch, ENV).repeat_values(batch.size)
                assert all(map(same, found, value.compute_values(expected, ENV))), (str(node), found)


COLUMNS: dict[str, list[Any]] = {
    "null": [None, None, None, None],
    "bool": [True, False, True, False],
    "bool?": [True, None, False, True],
    "small": [0, 1, -2, 5],
    "small?": [3, None, 0, -1],
    "low": [-(2**63), 1, 2, 3],
    "big": [2**53 + 1, 5, -(2**53) - 1, 2**63 - 1],
    "huge": [2**63, 2**64 - 1, 0, 7],
    "huge?": [2**63, None, 0, 7],
    "double": [0.0, -1.5, 5.0, 1e300],
    "double?": [2.5, None, math.nan, -0.0],
    "infinite": [math.inf, -math.inf, math.nan, 0.5],
    "number": [1, 2.5, 0, -3.0],
    "number?": [None, 2**53, 0.5, -1],
    "text": ["a", "b", "5", "x"],
    "text?": ["EMEA", None, " 5 ", b"\xff"],
    "numeric text": ["1", "2.5", "-0", "9007199254740993"],
    "original": [Number(1.5, b"1.50"), 2, None, Number(5.0, b"5.0")],
    "mixed": [1, "a", None, True],
    "lists": [ValueList((1, 2)), ValueList(()), 3, ValueList((None, "x"), True)],
    "short": [ValueList((1,)), ValueList(()), ValueList((None,)), ValueList(("a",))],
    "one short kind": [ValueList((1,)), ValueList(()), ValueList((None,)), ValueList((2,))],
}
TWO = (
    *(f"/a {sign} /b" for sign in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR")),
    "/a BETWEEN /b AND 3",
    "'5' BETWEEN /a AND /b",
    "/a IN (/b, 1)",
    "IF(/a, /a, /b)",
    "IF(/b > 1, /a, 7)",
    "COALESCE(/a, /b)",
    "COALESCE(/a, /b) + 1",
    "COALESCE(/a + 0.5, /b) > 1",
    "CONCAT(/a, /b)",
    "/a + 1 > /b",
    "IF(TRUE, /a, /b) IS NULL",
    "ABS(IF(/a > 1, /a, /b))",
    "SQRT(COALESCE(/a, 4, /b))",
)
LITERAL_TEXTS = (
    "1",
    "0.5",
    "-3",
    "'5'",
    "'a'",
    "''",
    "NULL",
    "NAN",
    "TRUE",
    "9007199254740993",
    "18446744073709551615",
)
ONE = (
    *(f"/a {sign} {text}" for sign in ("=", "<>", "<", ">=", "+", "/") for text in LITERAL_TEXTS),
    *(f"{text} {sign} /a" for sign in ("<", "-", "%") for text in LITERAL_TEXTS),
    *(f"{name}(/a)" for name in ("ABS", "SIGN", "FLOOR", "CEILING", "SQRT", "UPPER", "LENGTH", "ROUND", "ARRAY_COUNT")),
    *(
        "/a IS NULL",
        "/a IS NOT NULL",
        "/a IS NAN",
        "NOT /a",
        "-/a",
        "+/a",
        "CONCAT(+/a)",
        "/a LIKE '5'",
        "/a NOT LIKE 'a|x'",
    ),
    *("/a IN (1, 'a', 2.5, NAN, NULL)", "/a NOT IN (0, 18446744073709551615)", "/a IN ('zz')", "/a BETWEEN 0 AND 5"),
    *("/a BETWEEN 'a' AND 'b'", "/a NOT BETWEEN '0' AND 4", "/a BEGINS WITH ('1', 'E')", "5 BETWEEN 1 AND /a"),
    *(
        "(/a + 1) IS NULL",
        "(/a + 1) IS NAN",
        "IF(/a, 'yes', 2)",
        "IF(NULL, 1, /a)",
        "COALESCE(NULL, /a)",
        "TRUE AND /a",
    ),
    *("TRUE AND /a", "/a LIKE '5'"),
    *("FLOOR(/a / 2)", "-(/a * 2) + 0.5", "SIGN(/a - 1)", "UNIX_TIMESTAMP() > /a", "CONCAT(AMPS_INSTANCE_NAME(), /a)"),
)


@pytest.mark.parametrize("text", ONE)
def test_every_kind_of_column_under_every_operation(text: str) -> None:
    value = compile_value(text)
    program = ColumnProgram(value)
    for name, column in COLUMNS.items():
        agree(value, program, [(_for_slot(value, 0, item),) for item in column], name)


@pytest.mark.parametrize("text", TWO)
def test_every_pair_of_kinds(text: str) -> None:
    value = compile_value(text)
    program = ColumnProgram(value)
    first_is_a = str(value.slots[0].path) == "/a"
    for name, column in COLUMNS.items():
        for other, second in COLUMNS.items():
            pairs = zip(column, second, strict=True) if first_is_a else zip(second, column, strict=True)
            agree(value, program, list(pairs), f"{name} with {other}")


def _for_slot(value: CompiledValue, place: int, item: Any) -> Any:
    return listed(item) if value.slots[place].listed else item


def agree(value: CompiledValue, program: ColumnProgram, records: list[tuple[Any, ...]], name: str) -> None:
    found = program.evaluate_column(program.build_batch(records), ENV).repeat_values(len(records))
    expected = value.compute_values(records, ENV)
    assert all(map(same, expected, found)), (value.text, name, expected, found, program.list_fallbacks())


def test_what_fell_back_is_told() -> None:
    def told(text: str, *columns: str) -> list[str]:
        value = compile_value(text)
        program = ColumnProgram(value)
        program.evaluate_column(program.build_batch(list(zip(*[COLUMNS[name] for name in columns], strict=True))), ENV)
        return program.list_fallbacks()

    assert told("/a > 1 AND /b = 'EMEA'", "double", "text?") == []
    assert told("/a > 1", "mixed") == ["rows: /a > 1: values of several kinds, or arrays"]
    assert told("/a + 0.5", "mixed") == ["rows: /a + 0.5: values of several kinds"]
    assert told("UPPER(/a)", "text?") == ["texts: UPPER(/a): evaluated once per distinct text (3)"]
    assert told("/a = 0.5", "big") == ["rows: /a = 0.5: Integers beyond 2**53 against Doubles"]
    assert told("LENGTH(/a)", "double") == ["rows: LENGTH(/a): no vectorised form"]
    assert told("EXP(1) + /a", "double") == []
    (line,) = told(f"UPPER(/a) = '{'x' * 99}'", "mixed")[:1]
    assert line.endswith("no vectorised form")


def test_builds_from_lists_and_answers_filters() -> None:
    wanted = compile_filter("/price > 90 AND /region = 'EMEA'")
    program = ColumnProgram(wanted)
    batch = ColumnBatch([[91.5, 90, None, 95], ["EMEA", "EMEA", "EMEA", "APAC"]], 4)
    assert program.evaluate_mask(batch, ENV).tolist() == [True, False, False, False]
    assert [batch.read_column(place).kind for place in (0, 1)] == [Kind.NUMBER, Kind.STRING]
    assert batch.read_rows()[0] == (91.5, "EMEA")
    assert ColumnProgram(compile_filter("")).evaluate_mask(batch, ENV).tolist() == [True] * 4
    assert ColumnProgram(compile_filter("NULL")).evaluate_mask(batch, ENV).tolist() == [False] * 4


def test_stored_records_and_headers() -> None:
    value = compile_value("CONCAT(/a OF PREVIOUS, '-', /a OF CURRENT, TOPIC_NAME())", Context.ENRICHMENT)
    program = ColumnProgram(value)
    headers = [Header(topic="t"), Header(topic="u"), Header()]
    rows_now, before = [(1,), (2,), (3,)], [(7,), None, ("x",)]
    batch = program.build_batch(rows_now, before)
    assert program.evaluate_column(batch, ENV, headers).read_values() == value.compute_values(
        rows_now, ENV, headers, before
    )
    assert program.evaluate_column(batch, ENV, headers).read_values() == [b"7-1t", b"-2u", b"x-3"]


RUNAWAY = "'^(a+)+$'"


def test_a_runaway_pattern_is_an_error_only_where_the_row_evaluator_asks() -> None:
    hostile = "a" * 40 + "!"
    wanted = compile_filter(f"/b = 1 AND /a LIKE {RUNAWAY}")
    program = ColumnProgram(wanted)
    spared = [(1, "aaa"), (2, hostile)]
    assert program.evaluate_mask(program.build_batch(spared), ENV).tolist() == [True, False]
    with pytest.raises(LimitError) as caught:
        program.evaluate_mask(program.build_batch([*spared, (1, hostile)]), ENV)
    assert caught.value.facts["index"] == 2
    value = compile_value(f"IF(/b = 1, /a LIKE {RUNAWAY}, 0)")
    program = ColumnProgram(value)
    assert program.evaluate_column(program.build_batch(spared), ENV).read_values() == [True, 0]
    before = compile_value(f"IF(/b = 1, /a OF PREVIOUS LIKE {RUNAWAY}, 0)", Context.ENRICHMENT)
    program = ColumnProgram(before)
    assert program.evaluate_column(program.build_batch([(2,), (1,)], [(hostile,), None]), ENV).read_values() == [
        0,
        False,
    ]
