"""Bounds of one run: steps of patterns in all, bytes of what functions make, time; by rows and by columns."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from sowctl.engine.search.conditions import split_conditions
from sowctl.errors import LimitError
from sowctl.expressions.aggregates.inputsets import JoinedTexts
from sowctl.expressions.columns.program import ColumnProgram
from sowctl.expressions.compiler import compile_filter, compile_value
from sowctl.expressions.environment import DEFAULT_LIMITS, Environment, EvaluationLimits
from sowctl.values.fields import Row

RUNAWAY = "/s LIKE '(a|aa)+$'"
LONG = "a" * 26 + "b"
"""A text on which that pattern takes some 1,000,000 steps, fewer than one match may."""


def environment(limits: EvaluationLimits = DEFAULT_LIMITS, **more: object) -> Environment:
    return Environment(lambda: 0, limits=limits, **more)  # type: ignore[arg-type]  # keywords of the Struct


def by_rows(text: str, rows: Sequence[Row], env: Environment) -> object:
    return compile_filter(text).find_matches(rows, env)


def by_columns(text: str, rows: Sequence[Row], env: Environment) -> object:
    program = ColumnProgram(compile_filter(text))
    return list(program.evaluate_mask(program.build_batch(rows), env).nonzero()[0])


WAYS = pytest.mark.parametrize("matches", [by_rows, by_columns])


@WAYS
def test_the_steps_of_all_matches_are_bounded(matches: object) -> None:
    rows: list[Row] = [(f"{LONG}{number}",) for number in range(100)]
    assert callable(matches)
    # A few of them are no reason to stop.
    assert list(matches(RUNAWAY, rows[:3], environment())) == []
    with pytest.raises(LimitError) as caught:
        matches(RUNAWAY, rows, environment(EvaluationLimits(pattern_steps=20_000_000)))
    assert (caught.value.code, caught.value.exit_status) == ("SOW-EXP-034", 7)
    assert 0 < caught.value.facts["index"] < 100


def test_the_bound_is_that_of_the_run_and_not_of_a_batch() -> None:
    env = environment(EvaluationLimits(pattern_steps=20_000_000))
    endless = environment(EvaluationLimits(pattern_steps=20_000_000), endless=True)
    runaway = compile_filter(RUNAWAY)
    with pytest.raises(LimitError):
        for _ in range(100):
            runaway.find_matches([(LONG,)], env)
    for _ in range(30):
        runaway.find_matches([(LONG,)], endless)


@pytest.mark.parametrize(
    "text", ["/s LIKE '(a|b)*c'", "REGEXP_REPLACE(/s, '[ab]', 'x') = 'y'", "REGEXP_MATCH(/s, 'a.*?b.*?c') = 'y'"]
)
def test_ordinary_patterns_cost_nothing(text: str) -> None:
    env = environment(EvaluationLimits(pattern_steps=0))
    assert compile_filter(text).find_matches([("abab" * 20 + "d",)] * 1000, env) == []


def test_the_bound_grows_with_the_records_examined() -> None:
    runaway = compile_filter(RUNAWAY)
    for record_steps, ends in ((0, True), (20_000_000, False)):
        env = environment(EvaluationLimits(pattern_steps=20_000_000, record_steps=record_steps))
        found = None
        try:
            for _ in range(20):
                runaway.find_matches([(LONG,)], env)
        except LimitError as error:
            found = error.code
        assert found == ("SOW-EXP-034" if ends else None)


def test_ordinary_patterns_cost_nothing_in_long_texts() -> None:
    env = environment(EvaluationLimits(pattern_steps=0, record_steps=0))
    body = "line of a log, 17 bytes\n" * 20_000
    assert compile_filter("/s LIKE '(line|of|a|log)+x'").find_matches([(body,)] * 3, env) == []
    made = compile_value("LENGTH(REGEXP_REPLACE(/s, 'bytes[\\n]', 'x'))").compute_values([(body,)] * 3, env)
    assert made == [len(body) - 20_000 * 5] * 3


@pytest.mark.parametrize("call", ["CONCAT(/s, 'x')", "REPLACE(/s, 'a', 'b')"])
def test_functions_with_bounds_are_pure(call: str) -> None:
    # Indexes answer conditions on these, as they do on other functions of the message alone.
    (asked,), others = split_conditions(compile_filter(f"{call} = 'y'"), environment())
    assert (str(asked.slot.path), others) == ("/s", [])


def test_all_steps_find_what_one_match_finds() -> None:
    for number in range(0, 30, 2):
        text = "a" * number
        assert compile_filter("/s LIKE '^(a|aa)+$'").find_matches([(text + "\n",)], environment()) == (
            [0] if number else []
        )
        assert compile_filter("/s LIKE '^(a|aa)+b(a|aa)+$'").find_matches([(text + "c",)], environment()) == []


def test_many_matches_in_one_text_are_bounded() -> None:
    env = environment(EvaluationLimits(pattern_steps=1_000_000))
    with pytest.raises(LimitError) as caught:
        compile_value("REGEXP_REPLACE(/s, '[a]', 'b')").compute_values([("a" * 100_000,)], env)
    assert caught.value.code == "SOW-EXP-034"


@pytest.mark.parametrize(
    "text",
    [
        "CONCAT(/s, /s, /s)",
        "REPLACE(/s, 'a', 'aaa')",
        "REGEXP_REPLACE(/s, '[a]', 'aaa')",
        "REGEXP_REPLACE(/s, 'x*', 'bbb')",
    ],
)
def test_a_text_that_functions_make_is_bounded(text: str) -> None:
    value = compile_value(text)
    rows: list[Row] = [("a" * 50_000,)]
    assert value.compute_values(rows, environment(EvaluationLimits(value_bytes=1 << 20)))[0]
    with pytest.raises(LimitError) as caught:
        value.compute_values(rows, environment(EvaluationLimits(value_bytes=100_000)))
    assert (caught.value.code, caught.value.exit_status, caught.value.facts["index"]) == ("SOW-EXP-035", 7, 0)
    # Of one batch together.
    with pytest.raises(LimitError) as caught:
        value.compute_values(rows * 10, environment(EvaluationLimits(batch_bytes=1_000_000)))
    assert caught.value.code == "SOW-EXP-035"
    assert caught.value.facts["index"] > 0


def test_nested_growth_ends() -> None:
    text = "/s"
    for _ in range(12):
        text = f"REPLACE({text}, 'a', 'aaaaaaaa')"
    with pytest.raises(LimitError) as caught:
        compile_value(f"LENGTH({text})").compute_values([("a",)], environment())
    assert caught.value.code == "SOW-EXP-035"


@WAYS
def test_time(matches: object) -> None:
    assert callable(matches)
    readings = iter((0.0, 1.0, 5.0))
    env = environment(EvaluationLimits(seconds=3), timer=lambda: next(readings))
    assert list(matches("/s = 'x'", [("x",)], env)) == [0]
    with pytest.raises(LimitError) as caught:
        for _ in range(3):
            matches("/s = 'x'", [("x",)], env)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-EXP-036", 7)


@pytest.mark.parametrize("form", ["%" + "0" * 200_000, "%c" * 200_000, "%" * 200_001, "%_0-^#" * 50_000, "x" * 500_000])
def test_a_long_format_takes_no_time(form: str) -> None:
    begun = time.process_time()
    found = compile_value("STRFTIME(/s, 0)").compute_values([(form,)], environment())[0]
    assert isinstance(found, bytes)
    assert len(found) <= 128
    assert time.process_time() - begun < 1


def test_a_constant_of_such_functions_is_still_folded() -> None:
    assert [str(one) for one in compile_filter("/a = CONCAT('x', REPLACE('y', 'y', 'z'))").conjuncts] == ["/a = 'xz'"]


@pytest.mark.parametrize(("count", "delimiter"), [(70, 1), (2, 65 << 20)])
def test_a_list_of_texts_is_bounded(count: int, delimiter: int) -> None:
    values = [b"%02d" % number * (1 << 19) for number in range(count)]
    state = JoinedTexts()
    state.add(values, [(place,) for place in range(count)])
    with pytest.raises(LimitError) as caught:
        state.compute_result(None, b"," * delimiter)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-EXP-037", 7)
    state = JoinedTexts()
    state.add(values[:2], [(0,), (1,)])
    assert state.compute_result() == values[0] + b"," + values[1]
