"""Projections, constructed fields and joins beyond the conformance cases."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import UsageError
from sowctl.expressions.aggregates.inputsets import JoinedTexts
from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.compiler import compile_fields, compile_projection
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.rows.groups import Group
from sowctl.expressions.rows.joinplan import plan_joins
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.syntax.joins import JoinSide, parse_join
from sowctl.values.fields import FieldWrite, Number, ValueList
from sowctl.values.paths import parse_path
from sowctl.values.scalars import to_text
from tests.expressions.grouped import project as projected
from tests.support import jsonslots
from tests.support.joins import left_join

ENV = Environment(lambda: 5_000_000)


def project(messages: list[dict[str, Any]], projection: str, grouping: str = "/g") -> list[list[Any]]:
    program = compile_projection(projection, grouping)
    rows = [jsonslots.row(json.dumps(message), program.slots) for message in messages]
    return projected(program, rows, ENV)


def over(values: list[Any], expression: str) -> Any:
    [[result]] = project([{"v": value} for value in values], f"{expression} AS /r")
    return result.value if isinstance(result, Number) else result


@pytest.mark.parametrize(
    ("values", "expression", "expected"),
    [
        ([1, 1.0, "1", True, None], "COUNT(/v)", 4),
        ([None], "SUM(/v)", None),
        ([1, 2.5], "SUM(/v)", 3.5),
        (["x"], "AVG(/v)", math.nan),
        ([1, 2], "AVG(/v)", 1.5),
        ([5], "STDDEV_SAMP(/v)", None),
        ([5], "STDDEV_POP(/v)", 0.0),
        ([None], "STDDEV_POP(/v)", None),
        ([2, 4, 4, 4, 5, 5, 7, 9], "STDDEV_POP(/v)", 2.0),
        ([1e308, 2], "STDDEV_POP(/v)", 5e307),
        ([1e-200, 3e-200], "STDDEV_POP(/v)", 1e-200),
        ([1.7e308, -1.7e308], "STDDEV_SAMP(/v)", math.inf),
        ([3, "1", 2], "MIN(/v)", "1"),
        ([3, 3.0], "MAX(/v)", 3),
        (["a", "b"], "UNIQUE(/v)", None),
        ([1, "1.0"], "UNIQUE(/v)", 1),
        ([None], "UNIQUE(/v)", None),
        ([1, 2, None], "ANY(/v)", 2),
        ([1, 1.0, 2], "GROUP_CONCAT(/v)", b"1,2"),
        (["a", "b"], "GROUP_CONCAT(/v, NULL)", b"ab"),
        (["a", "b"], "GROUP_CONCAT(/v, CONCAT('-', '>'))", b"a->b"),
        ([1, 2], "IF(SUM(/v) > 2, MAX(/v) * 10, COUNT(/v))", 20),
        ([1, 2], "/v + SUM(/v)", 5),
        ([1, None], "/v", None),
        ([[7, 1], 2], "SUM(/v)", 9),
    ],
)
def test_aggregates(values: list[Any], expression: str, expected: Any) -> None:
    result = over(values, expression)
    assert type(result) is type(expected)
    assert result == expected or (result != result and expected != expected)


@pytest.mark.parametrize(
    ("values", "middle", "spread"),
    [
        ([2**53 + 1] * 3, float(2**53), 0.0),
        ([2**64 - 1, 2**64 - 1], float(2**64), 0.0),
        ([2**53 + 1, 2**53 + 3], float(2**53 + 2), 1.0),
        ([2**53 + 1, 0.5, 0.5], (2**53 + 2) / 3, math.sqrt(2) * (2**53) / 3),
        ([2**60 + 1, 2**60 + 1, float(2**60)], float(2**60), math.sqrt(2) / 3),
        ([0.1] * 11, 0.1, 0.0),
        ([0.1] * 3, 0.1, 0.0),
        ([1e16, 1e16 + 2, 1e16 + 4], 1e16 + 2, math.sqrt(8 / 3)),
        ([1e16, 1e16 + 2], 1e16, 1.0),
        ([1e308, 1e308, 1e308], 1e308, 0.0),
        ([True, False], 0.5, 0.5),
        ([1e300, -1e300], 0.0, 1e300),
    ],
)
def test_means_are_the_nearest_double_and_equal_inputs_do_not_deviate(
    values: list[Any], middle: float, spread: float
) -> None:
    assert over(values, "AVG(/v)") == middle
    assert over(values, "STDDEV_POP(/v)") == pytest.approx(spread, rel=1e-15)


def aggregated(name: str, values: list[Any]) -> Any:
    state = AGGREGATES[name].accumulator()
    state.add(values)
    return state.compute_result()


@given(st.lists(st.integers(-(2**63), 2**64 - 1) | st.floats(-1e300, 1e300), min_size=1, max_size=8))
def test_a_mean_is_that_of_fractions(values: list[Any]) -> None:
    assert aggregated("AVG", values) == float(sum(map(Fraction, values)) / len(values))


@given(st.integers(-(2**63), 2**64 - 1) | st.floats(-1e300, 1e300), st.integers(1, 40))
def test_equal_values_have_no_deviation(value: float, count: int) -> None:
    assert aggregated("STDDEV_POP", [value] * count) == 0.0


@given(st.lists(st.integers(-(2**63), 2**64 - 1) | st.floats(-1e6, 1e6), min_size=2, max_size=8))
def test_a_deviation_is_that_of_fractions(values: list[Any]) -> None:
    exact = list(map(Fraction, values))
    centre = sum(exact) / len(exact)
    expected = math.sqrt(sum((value - centre) ** 2 for value in exact) / (len(exact) - 1))
    assert aggregated("STDDEV_SAMP", values) == pytest.approx(expected, rel=1e-12, abs=1e-150)


MIXED = st.sampled_from([None, 1, "1", 1.0, "1.0", 0.0, "-0", 2, "2", "a", "b", True])


@given(
    st.lists(st.tuples(st.integers(0, 2), MIXED), min_size=1, max_size=10).flatmap(
        lambda m: st.tuples(st.just(m), st.permutations(range(len(m))))
    )
)
def test_stamps_bring_the_order_of_updates_whatever_the_order_of_arrival(
    drawn: tuple[list[tuple[int, Any]], list[int]],
) -> None:
    messages, arrival = drawn
    program = compile_projection(
        "/g, /v AS /last, ANY(/v) AS /any, GROUP_CONCAT(/v) AS /all,"
        " MIN(/v) AS /least, MAX(/v) AS /most, UNIQUE(/v) AS /one",
        "/g",
    )
    rows = [jsonslots.row(json.dumps({"g": g, "v": v}), program.slots) for g, v in messages]
    ordered: dict[Any, Group] = {}
    program.add_messages(ordered, rows, ENV)
    for cut in range(len(rows)):
        groups: dict[Any, Group] = {}
        for part in (arrival[:cut], arrival[cut:]):
            program.add_messages(groups, [rows[place] for place in part], ENV, stamps=[(place, 7) for place in part])
        for key, group in groups.items():
            for found, wanted in zip(
                program.compute_fields(group, ENV), program.compute_fields(ordered[key], ENV), strict=True
            ):
                assert type(found) is type(wanted)
                assert to_text(found) == to_text(wanted)


def test_groups_are_texts_in_first_seen_order() -> None:
    messages = [{"g": g} for g in ("1", 1, 1.0, True, None, "", "b", [], "1.0")]
    program = compile_projection("COUNT(1) AS /n", "/g")
    rows = [jsonslots.row(json.dumps(message), program.slots) for message in messages]
    groups: dict[Any, Group] = {}
    program.add_messages(groups, rows[:4], ENV)
    program.add_messages(groups, rows[4:], ENV)
    assert {key: program.compute_fields(group, ENV)[0] for key, group in groups.items()} == {
        (b"1",): 3,
        (b"1.0",): 2,
        (None,): 3,
        (b"b",): 1,
    }


@given(st.lists(st.sampled_from(["1", 1, 1.0, True, None, "", "b", "1.0", 2.5, "2.5"])))
def test_messages_find_their_group_in_any_order(values: list[Any]) -> None:
    program = compile_projection("COUNT(1) AS /n", "/g, /h")
    rows = [jsonslots.row(json.dumps({"g": "x", "h": value}), program.slots) for value in values]
    alone: dict[Any, Group] = {}
    for row in rows:
        program.add_messages(alone, [row], ENV)
    together: dict[Any, Group] = {}
    program.add_messages(together, rows, ENV)
    assert [(key, group.size, program.compute_fields(group, ENV)) for key, group in together.items()] == [
        (key, group.size, program.compute_fields(group, ENV)) for key, group in alone.items()
    ]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5) | st.none()), max_size=12), st.integers(0, 12))
def test_adding_in_parts_is_adding_at_once(pairs: list[tuple[int, int | None]], cut: int) -> None:
    program = compile_projection("/g, SUM(/v) AS /s, COUNT(/v) AS /c, MAX(/v) AS /m, /v AS /last", "/g")
    rows = [jsonslots.row(json.dumps({"g": g, "v": v}), program.slots) for g, v in pairs]
    groups: dict[Any, Group] = {}
    program.add_messages(groups, rows[:cut], ENV)
    program.add_messages(groups, rows[cut:], ENV)
    parts = [program.compute_fields(group, ENV) for group in groups.values()]
    assert parts == projected(program, rows, ENV)
    for fields in parts:
        mine = [v for g, v in pairs if str(g).encode() == getattr(fields[0], "text", None)]
        present = [v for v in mine if v is not None]
        assert fields[1:3] == [sum(present) if present else None, len(present)]


GROUPING = st.sampled_from(["", None, "a", "1", 1, 1.0, True, [], ["a", "b"], Number(1.0, b"1.00"), Number(1, b"1")])
INPUT = st.sampled_from([None, "", "x", 1, 2.5, True, ["y", "z"]])


@given(st.lists(st.tuples(GROUPING, INPUT, st.integers(0, 3)), max_size=12), st.booleans())
def test_adding_many_is_adding_one_after_the_other(messages: list[tuple[Any, Any, int]], stamped: bool) -> None:
    program = compile_projection("/g, /v, COUNT(/v) AS /n, GROUP_CONCAT(/v) AS /c", "/g")
    assert [slot.path for slot in program.slots] == [parse_path("/g"), parse_path("/v")]
    rows = [tuple(ValueList(tuple(x)) if type(x) is list else x for x in message[:2]) for message in messages]
    stamps = [(stamp, 0) for _, _, stamp in messages]
    at_once: dict[Any, Group] = {}
    program.add_messages(at_once, rows, ENV, None, stamps if stamped else None)
    singly: dict[Any, Group] = {}
    for row, stamp in zip(rows, stamps, strict=True):
        program.add_messages(singly, [row], ENV, None, [stamp] if stamped else None)

    def told(groups: dict[Any, Group]) -> list[Any]:
        return [(key, repr([part.dump() for part in g.parts]), repr(g.latest.dump())) for key, g in groups.items()]

    assert told(at_once) == told(singly)


def test_of_equal_stamps_the_later_message_counts() -> None:
    program = compile_projection("/g, /v", "/g")
    groups: dict[Any, Group] = {}
    for stamps, values, wanted in (([(5, 1), (5, 1)], "ab", "b"), ([(5, 1)], "c", "c"), ([(4, 9)], "d", "c")):
        program.add_messages(groups, [("x", value) for value in values], ENV, None, stamps)
        assert program.compute_fields(groups[(b"x",)], ENV) == ["x", wanted]


def test_headers_of_the_last_message() -> None:
    program = compile_projection("TOPIC_NAME() AS /t, MAX(LAST_UPDATED()) AS /u", "/g")
    assert program.uses_header
    headers = [Header(topic="a", last_updated=9_000_000), Header(topic="b", last_updated=1_000_000)]
    assert projected(program, [(1,), (1,)], ENV, headers) == [["b", 9.0]]


# constructed fields ---------------------------------------------------------------------------------------------------


def writes(fields: list[str], message: dict[str, Any], context: Context = Context.ENRICHMENT) -> list[tuple[str, Any]]:
    program = compile_fields(fields, context)
    row = jsonslots.row(json.dumps(message), program.slots)
    done = program.compute_writes([row], ENV)[0]
    return [(str(w.destination), "gone" if w.remove else w.value) for w in done]


@pytest.mark.parametrize(
    ("fields", "message", "expected"),
    [
        (["1 AS /a HINT SET_CURRENT", "/a + 1 AS /b"], {"a": 5}, [1, 2]),
        (["1 AS /a", "/a + 1 AS /b"], {"a": 5}, [1, 6]),
        (["NULL AS /a HINT OPTIONAL, SET_CURRENT", "/a IS NULL AS /b"], {"a": 5}, ["gone", True]),
        (["NULL AS /a HINT OPTIONAL", "/a IS NULL AS /b"], {"a": 5}, ["gone", False]),
        (["7 AS /a HINT SET_CURRENT", "/a[0] AS /b", "/a[1] AS /c"], {"a": [5, 6]}, [7, 7, None]),
        (["7 AS /a HINT SET_CURRENT", "/a/x AS /b"], {"a": {"x": 1}}, [7, None]),
        (["7 AS /a/x HINT SET_CURRENT", "/a IS NULL AS /b", "/a = 5 AS /c"], {"a": 5}, [7, False, False]),
        (["7 AS /a HINT SET_CURRENT", "ARRAY_COUNT(/a) AS /b", "ARRAY_SUM(/a) AS /c"], {"a": [5, 6]}, [7, 1, 7]),
        (["'' AS /a HINT SET_CURRENT", "ARRAY_COUNT(/a) AS /b"], {"a": [5, 6]}, [None, 1]),
        (["NULL AS /a HINT OPTIONAL, SET_CURRENT", "ARRAY_COUNT(/a) AS /b"], {"a": [5]}, ["gone", 0]),
        (["UNIX_TIMESTAMP() AS /t HINT SET_CURRENT", "/t * 2 AS /u"], {}, [5.0, 10.0]),
    ],
)
def test_what_later_fields_see(fields: list[str], message: dict[str, Any], expected: list[Any]) -> None:
    assert [value for _, value in writes(fields, message)] == expected


def test_fields_read_the_stored_record() -> None:
    program = compile_fields(["/n OF PREVIOUS + /n AS /sum", "/m OF PREVIOUS AS /was"])
    rows = [jsonslots.row('{"n":1}', program.slots)] * 2
    stored = jsonslots.row('{"n":2,"m":"x"}', program.previous_slots)
    sums = program.compute_writes(rows, ENV, None, [stored, None])
    assert [[write.value for write in done] for done in sums] == [[3, "x"], [None, None]]
    assert sums[0][0] == FieldWrite(parse_path("/sum"), 3)


def test_refused_fields() -> None:
    for context in (Context.PREPROCESSING, Context.CONFLATED_ENRICHMENT):
        with pytest.raises(ExpressionError, match="PREVIOUS"):
            compile_fields(["/a OF PREVIOUS AS /b"], context)
    with pytest.raises(ExpressionError, match="HINT"):
        compile_fields(["/a AS /b HINT OPTIONAL"], Context.PROJECTION)
    with pytest.raises(ExpressionError, match="two fields"):
        compile_fields(["/a AS /b", "1 AS /b"])


# joins ----------------------------------------------------------------------------------------------------------------


def key(side: JoinSide, record: dict[str, Any] | None) -> bytes | None:
    value = None if record is None else record.get(side.path.names[0])
    return None if value in (None, "") else str(value).encode()


def joined(joins: list[str], nulls_match: bool = False, **topics: list[dict[str, Any]]) -> list[list[Any]]:
    records = {(None, name): rows for name, rows in topics.items()}
    found = left_join([parse_join(text) for text in joins], records, key, nulls_match)
    return [[record and record["i"] for record in row.values()] for row in found]


def test_several_matches_multiply_rows() -> None:
    a = [{"i": 1, "k": "x"}, {"i": 2, "k": "y"}, {"i": 3}]
    b = [{"i": 10, "k": "x"}, {"i": 11, "k": "x"}, {"i": 12, "k": ""}]
    assert joined(["[A]./k=[B]./k"], A=a, B=b) == [[1, 10], [1, 11], [2, None], [3, None]]
    assert joined(["[A]./k=[B]./k"], True, A=a, B=b) == [[1, 10], [1, 11], [2, None], [3, 12]]


def test_a_topic_attached_to_a_missing_record() -> None:
    a, b, c = [{"i": 1, "k": "x"}], [{"i": 2, "k": "q"}], [{"i": 3}]
    assert joined(["[A]./k=[B]./k", "[B]./n=[C]./n"], A=a, B=b, C=c) == [[1, None, None]]
    assert joined(["[A]./k=[B]./k", "[B]./n=[C]./n"], True, A=a, B=b, C=c) == [[1, None, 3]]


@pytest.mark.parametrize(
    ("joins", "same"),
    [
        (["[A]./k=[B]./k", "[B]./n=[A]./n"], ["[A]./k=[B]./k", "[A]./n=[B]./n"]),
        (["[A]./k=[B]./k", "[A]./k=[C]./k", "[C]./n=[B]./n"], ["[A]./k=[B]./k", "[A]./k=[C]./k", "[B]./n=[C]./n"]),
    ],
)
def test_a_condition_between_attached_topics_may_be_written_either_way(joins: list[str], same: list[str]) -> None:
    some = [{"i": number, "k": "x", "n": number % 3} for number in range(5)]
    rows = joined(joins, A=some, B=some, C=some)
    assert rows == joined(same, A=some, B=some, C=some)
    assert len(rows) > 5 and all(None not in row for row in rows)


def test_joins_that_attach_nothing() -> None:
    for joins in (["[A]./x=[A]./y"], ["[A]./x=[B]./x", "[C]./x=[D]./x"]):
        with pytest.raises(UsageError) as caught:
            plan_joins([parse_join(text) for text in joins])
        assert caught.value.code == "SOW-EXP-027"


@given(st.lists(st.sampled_from("ab "), max_size=5), st.lists(st.sampled_from("ab "), max_size=5), st.booleans())
def test_joins_agree_with_nested_loops(left: list[str], right: list[str], nulls: bool) -> None:
    a = [{"i": n, "k": k.strip()} for n, k in enumerate(left)]
    b = [{"i": n, "k": k.strip()} for n, k in enumerate(right)]
    expected = []
    for x in a:
        matches = [[x["i"], y["i"]] for y in b if x["k"] == y["k"] and (nulls or x["k"])]
        expected += matches or [[x["i"], None]]
    assert joined(["[A]./k=[B]./k"], nulls, A=a, B=b) == expected


def test_a_list_dropped_by_its_object_is_no_input() -> None:
    program = compile_projection("COUNT(/v) AS /n", "/g")
    assert projected(program, [(None, ValueList((), dropped=True))], ENV) == [[0]]


@pytest.mark.parametrize("together", [True, False])
def test_of_equal_stamps_the_input_that_came_earlier_is_the_first(together: bool) -> None:
    state, late = JoinedTexts(), JoinedTexts()
    state.add(["x"], [(5,)])
    state.compact()
    late.add(["z", "x"], [(1,), (1,)])
    if together:
        state.merge(late)
    else:
        state.add(["z", "x"], [(1,), (1,)])
        state.compact()
    assert state.compute_result() == b"z,x"
