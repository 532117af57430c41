"""Generated code: laws of logic, fast paths against the general rules, contexts, headers, slots."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import LimitError
from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.compiler import Filter, compile_filter, compile_value
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.functions.signature import declare_function
from sowctl.expressions.rewrites.rewriter import list_conjuncts
from sowctl.expressions.rows.arithmetic import OPERATORS as OPERATORS_BY_SIGN
from sowctl.expressions.rows.comparison import COMPARISONS
from sowctl.expressions.rows.program import CompiledValue
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.actions import PATTERN_ARGUMENTS
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.syntax.nodes import quote_string
from sowctl.values.fields import Number, SlotValue, ValueList
from sowctl.values.scalars import is_null, to_number, to_scalar, to_text, to_truth
from tests.expressions.trees import TREES
from tests.support.examples import examples

ENV = Environment(lambda: 1_700_000_000_250_000, "prod-1", None)
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 5, 2**53 + 1, 2**64 - 1, -(2**63)])
    | st.sampled_from([0.0, -0.0, 1.5, 5.0, float(2**53), math.inf, -math.inf, math.nan])
    | st.sampled_from(["", "a", "ab", "b", "5", " 5 ", "1.5", "x\n", "é", b"", b"a", b"ab", b"5", b"\xff", b"\xc3\xa9"])
    | st.sampled_from([Number(5, b"5"), Number(1.5, b"1.50"), Number(math.inf, b"1e999")])
)
SLOTS = SCALARS | st.builds(ValueList, st.lists(SCALARS, max_size=3).map(tuple), st.booleans())
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


def one(text: str, row: Sequence[SlotValue] = (), **more: Any) -> Any:
    value = compile_value(text, **more)
    return value.compute_values([tuple(row)], ENV)[0]


def same(a: object, b: object) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def literal(value: Any) -> str | None:
    """The text of a literal with this value, if there is one."""
    if isinstance(value, str | bytes):
        return quote_string(value if isinstance(value, bytes) else value.encode())
    if isinstance(value, Number | ValueList):
        return None
    if value is None or isinstance(value, bool):
        return str(n.Literal(value))
    sign = "-" if math.copysign(1, value) < 0 else ""
    return sign + str(n.Literal(abs(value)))


# comparisons ----------------------------------------------------------------------------------------------------------


@given(SLOTS, SLOTS)
@settings(max_examples=examples(150))
def test_fast_paths_agree_with_the_general_comparison(a: SlotValue, b: SlotValue) -> None:
    for operator in OPERATORS:
        expected = COMPARISONS[operator](a, b)
        assert one(f"/a {operator} /b", (a, b)) is expected
        assert compile_filter(f"/a {operator} /b").find_matches([(a, b)], ENV) == [0] * expected
        written = literal(b)
        if written is not None:
            assert one(f"/a {operator} {written}", (a,)) is expected
            assert one(f"{written} {operator} /a", (a,)) is COMPARISONS[operator](b, a)


@given(SLOTS, SLOTS, SCALARS)
@settings(max_examples=examples(200))
def test_fast_paths_agree_with_the_general_arithmetic(a: SlotValue, b: SlotValue, c: Any) -> None:
    for operator, operate in OPERATORS_BY_SIGN.items():
        assert same(one(f"/a {operator} /b", (a, b)), operate(a, b))
        written = literal(c)
        if written is not None:
            assert same(one(f"/a {operator} {written}", (a,)), operate(a, c))
            assert same(one(f"{written} {operator} /a", (a,)), operate(c, a))
            assert same(one(f"/a {operator} {written} {operator} /b", (a, b)), operate(operate(a, c), b))


@given(st.integers(-(2**63), 2**64 - 1), st.integers(-(2**63), 2**64 - 1))
def test_integer_arithmetic_is_exact_in_range(a: int, b: int) -> None:
    exact = {"+": a + b, "-": a - b, "*": a * b}
    for operator, result in exact.items():
        inside = -(2**63) <= result < 2**64
        double = {"+": float(a) + float(b), "-": float(a) - float(b), "*": float(a) * float(b)}[operator]
        assert same(one(f"/a {operator} /b", (a, b)), result if inside else double)
    if b:
        quotient, rest = one("/a / /b", (a, b)), one("/a % /b", (a, b))
        if isinstance(quotient, int):
            assert quotient * b + rest == a
        assert abs(rest) < abs(b)
        assert rest == 0 or (rest < 0) == (a < 0)


@given(SLOTS, st.lists(SCALARS, min_size=1, max_size=4))
@settings(max_examples=examples(150))
def test_in_is_some_equality(a: SlotValue, members: list[Any]) -> None:
    expected = any(COMPARISONS["="](a, member) for member in members)
    fields = ", ".join(f"/f{number}" for number in range(len(members)))
    assert one(f"/a IN ({fields})", (a, *members)) is expected
    assert one(f"/a NOT IN ({fields})", (a, *members)) is (not expected)
    texts = [literal(member) for member in members]
    if None not in texts:
        assert one(f"/a IN ({', '.join(map(str, texts))})", (a,)) is expected


@given(SLOTS, SCALARS, SCALARS)
@settings(max_examples=examples(150))
def test_between_is_two_comparisons(a: SlotValue, low: Any, high: Any) -> None:
    expected = COMPARISONS[">="](a, low) and COMPARISONS["<="](a, high)
    assert one("/a BETWEEN /l AND /h", (a, low, high)) is expected
    assert one("/a NOT BETWEEN /l AND /h", (a, low, high)) is (not expected)
    if literal(low) and literal(high):
        assert one(f"/a BETWEEN {literal(low)} AND {literal(high)}", (a,)) is expected


@given(SLOTS, st.sampled_from(["a", "5", "é", "b", "\xff", "\n"]))
@settings(max_examples=examples(150))
def test_text_predicates_see_the_bytes_of_every_value(a: SlotValue, word: str) -> None:
    items = a.items if isinstance(a, ValueList) else (a,)
    texts = [text for item in items if (text := to_text(item)) is not None]
    raw = word.encode()
    written = quote_string(raw)
    assert one(f"/a LIKE r{written}" if word != "\n" else "/a LIKE '\n'", (a,)) is any(raw in text for text in texts)
    assert one(f"/a BEGINS WITH {written}", (a,)) is any(text.startswith(raw) for text in texts)
    assert one(f"/a ENDS WITH ({written}, 'zz')", (a,)) is any(text.endswith((raw, b"zz")) for text in texts)
    assert one("/a BEGINS WITH (/b, NULL)", (a, word)) is any(text.startswith(raw) for text in texts)
    if word != "\n":
        assert one(f"/a LIKE '^{word}'", (a,)) is any(text.startswith(raw) for text in texts)
        assert one(f"/a LIKE '{word}$'", (a,)) is any(text.endswith((raw, raw + b"\n")) for text in texts)
        assert one(f"/a NOT LIKE '^{word}$'", (a,)) is all(text not in (raw, raw + b"\n") for text in texts)


@given(SLOTS)
def test_null_and_nan(a: SlotValue) -> None:
    scalar = to_scalar(a)
    number = scalar.value if isinstance(scalar, Number) else scalar
    assert one("/a IS NULL", (a,)) is is_null(a)
    assert one("(/a) IS NOT NULL", (a,)) is (not is_null(a))
    assert one("IF(TRUE, /a, 1) IS NULL", (a,)) is (scalar is None)
    assert one("/a IS NAN", (a,)) is (isinstance(number, float) and math.isnan(number))
    assert same(one("+/a", (a,)), to_number(a))


# logic ----------------------------------------------------------------------------------------------------------------

TRUTHS = ("TRUE", "FALSE", "NULL", "/t", "/f", "/n", "1=1", "1=2", "NAN", "'x'", "/t = TRUE")
ROW: tuple[Any, ...] = ()


def table_and(a: bool | None, b: bool | None) -> bool | None:
    return b if a is True else a


def table_or(a: bool | None, b: bool | None) -> bool | None:
    return b if a is False else a


def truth_row(value: Filter | CompiledValue) -> tuple[Any, ...]:
    return tuple({"/t": True, "/f": 0, "/n": None}[str(slot.path)] for slot in value.slots)


def truth(text: str) -> bool | None:
    value = compile_value(text)
    result = value.compute_values([truth_row(value)], ENV)[0]
    return to_truth(result)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(TRUTHS, repeat=2)))
def test_logic_follows_the_tables(a: str, b: str) -> None:
    left, right = truth(a), truth(b)
    assert truth(f"{a} AND {b}") is table_and(left, right)
    assert truth(f"{a} OR {b}") is table_or(left, right)
    assert truth(f"NOT ({a})") is (None if left is None else not left)
    wanted = compile_filter(f"{a} AND {b}")
    assert wanted.find_matches([truth_row(wanted)], ENV) == [0] * (table_and(left, right) is True)
    wanted = compile_filter(f"{a} OR {b}")
    assert wanted.find_matches([truth_row(wanted)], ENV) == [0] * (table_or(left, right) is True)


@given(st.lists(st.sampled_from(TRUTHS), min_size=1, max_size=120), st.sampled_from(["AND", "OR"]))
@settings(max_examples=examples(60))
def test_long_chains_are_left_folds(terms: list[str], operator: str) -> None:
    table = table_and if operator == "AND" else table_or
    expected = truth(terms[0])
    for term in terms[1:]:
        expected = table(expected, truth(term))
    assert truth(f" {operator} ".join(terms)) is expected


def counted() -> tuple[list[int], dict[str, Any]]:
    calls: list[int] = []

    def probe(number: int | float) -> bool:
        calls.append(int(number))
        return True

    return calls, {"PROBE": declare_function("PROBE", probe, "number", "truth", "remembers its calls")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PROBE(1) AND FALSE AND PROBE(2)", [1]),
        ("PROBE(1) OR PROBE(2)", [1]),
        ("NULL AND PROBE(1)", []),
        ("NULL OR PROBE(1)", []),
        ("FALSE OR (PROBE(1) AND PROBE(2))", [1, 2]),
        ("IF(PROBE(1), 2, PROBE(3))", [1]),
        ("IF(NULL, PROBE(1), PROBE(2))", [2]),
        ("COALESCE(NULL, PROBE(1), PROBE(2))", [1]),
        ("1 IN (PROBE(1), PROBE(2))", [1]),
        (" OR ".join(f"PROBE({number})" for number in range(200)), [0]),
    ],
)
def test_evaluation_stops_when_the_result_is_known(text: str, expected: list[int]) -> None:
    calls, extra = counted()
    one(text, extra=extra)
    assert calls == expected
    calls.clear()
    compile_filter(text, extra=extra).find_matches([()], ENV)
    assert calls == expected


def test_errors_in_dead_branches_are_found() -> None:
    for text in ("IF(TRUE, 1, NOPE())", "FALSE AND 'a' LIKE '('", "IF(1=1, 1, REGEXP_MATCH('a', '['))"):
        with pytest.raises(ExpressionError):
            compile_filter(text)


@given(TREES)
@settings(max_examples=examples(200))
def test_random_trees_compile_or_are_refused_and_filters_agree_with_values(tree: n.Node) -> None:
    text = str(tree)
    try:
        value = compile_value(text)
        wanted = compile_filter(text)
    except ExpressionError:
        return
    rows = [tuple(fill for _ in value.slots) for fill in (None, 5, "a", ValueList((1.5, "b")))]
    results = value.compute_values(rows, ENV)
    for result in results:
        assert not isinstance(result, ValueList)
        assert result not in ("", b"")
    assert wanted.find_matches(rows, ENV) == [i for i, result in enumerate(results) if to_truth(result) is True]


# slots, headers, contexts ---------------------------------------------------------------------------------------------


def test_slots_ask_for_no_more_than_is_needed() -> None:
    slots = compile_filter("/a > 1 AND LENGTH(/b) = 2 AND ARRAY_COUNT(/c) = 1 AND /b IN (/d)").slots
    assert [(str(s.path), s.text, s.listed) for s in slots] == [
        ("/a", False, False),
        ("/b", True, False),
        ("/c", False, True),
        ("/d", False, False),
    ]
    passed = compile_filter("CONCAT(IF(/c, /a, COALESCE(/b, ARRAY_MAX(/d)))) = '1'").slots
    assert [(str(s.path), s.text, s.listed) for s in passed] == [
        ("/c", False, False),
        ("/a", True, False),
        ("/b", True, False),
        ("/d", True, True),
    ]
    assert [s.text for s in compile_value("/a").slots] == [True]


def test_the_empty_filter_matches_everything() -> None:
    for text in ("", " \n\t"):
        wanted = compile_filter(text)
        assert (wanted.slots, wanted.uses_header, wanted.node) == ((), False, None)
        assert wanted.find_matches([(), (), ()], ENV) == [0, 1, 2]


def test_headers_and_environment() -> None:
    header = Header(topic="t", sow_key="7", last_updated=1_500_000, payload_size=3, user="ann", correlation_id=b"")
    wanted = compile_filter("TOPIC_NAME() = 't' AND MESSAGE_SIZE() = 3 AND LAST_UPDATED() = 1.5")
    assert wanted.uses_header
    assert wanted.find_matches([(), ()], ENV, [header, Header()]) == [0]
    assert wanted.find_matches([()], ENV) == []
    value = compile_value("CORRELATION_ID() IS NULL AND USER() LIKE 'nn'")
    assert value.compute_values([()], ENV, [header]) == [True]
    assert one("AMPS_GROUP_NAME()") == "prod-1"
    assert one("UNIX_TIMESTAMP()") == 1700000000.25


def test_the_clock_is_read_once() -> None:
    ticks = itertools.count()
    environment = Environment(lambda: next(ticks) * 1_000_000)
    value = compile_value("UNIX_TIMESTAMP() = UNIX_TIMESTAMP()")
    assert value.compute_values([(), ()], environment) == [True, True]
    assert next(ticks) == 1


def test_uuid7_is_of_clock_and_chance() -> None:
    environment = Environment(lambda: 0x0123_4567_89AB * 1000 + 999, random=lambda count: b"\xff" * count)
    assert compile_value("UUID7()").compute_values([()], environment) == [b"01234567-89ab-7fff-bfff-ffffffffffff"]


def test_previous_records() -> None:
    value = compile_value("COALESCE(/i OF CURRENT, /i OF PREVIOUS, 'none')", Context.ENRICHMENT)
    assert len(value.slots) == len(value.previous_slots) == 1
    assert value.compute_values([(1,), (None,), (None,)], ENV, None, [(5,), (5,), None]) == [1, 5, b"none"]
    assert value.compute_values([(None,)], ENV) == [b"none"]


def test_qualified_fields_are_slots_of_their_own() -> None:
    value = compile_value("[A]./x + [B]./x + /x", Context.PROJECTION)
    assert value.sources == (("A",), ("B",), ())
    assert value.compute_values([(1, 2, 3)], ENV) == [6]


NONDETERMINISTIC = ("UNIX_TIMESTAMP() > 1", "LAST_READ() > 1", "UUID7() = 'x'")


@pytest.mark.parametrize("context", list(Context))
def test_contexts(context: Context) -> None:
    rules = context.rules
    examples = dict.fromkeys(NONDETERMINISTIC, rules.nondeterministic)
    examples["SUM(/a) > 1"] = rules.aggregates
    examples["/a OF CURRENT = 1"] = rules.current
    examples["/a OF PREVIOUS = 1"] = rules.previous
    examples["[t]./a = 1"] = rules.qualifiers
    from sowctl.expressions.checker import check_node
    from sowctl.expressions.syntax.parser import parse_expression

    for text, allowed in examples.items():
        refused = False
        try:
            check_node(parse_expression(text), text, context)
        except ExpressionError:
            refused = True
        assert refused is not allowed, text


def test_a_match_beyond_the_limit_knows_the_record() -> None:
    rows = [("aaa",), ("a" * 40 + "!",), ("b",)]
    for wanted in (compile_filter("/s LIKE '^(a|aa)+$'"), compile_filter("REGEXP_MATCH(/s, '^(a|aa)+$') = 'x'")):
        with pytest.raises(LimitError, match=re.escape("'^(a|aa)+$'")) as caught:
            wanted.find_matches(rows, ENV)
        assert (caught.value.code, caught.value.exit_status, caught.value.facts["index"]) == ("SOW-EXP-030", 7, 1)
    assert compile_filter("/s LIKE '^(a|b)*$'").find_matches([("ab" * 200_000,)], ENV) == [0]


def test_user_text_never_becomes_code() -> None:
    evil = "'); import os #"
    value = compile_value(f'CONCAT("{evil}", /x)')
    assert "import" not in value.source
    assert value.compute_values([("!",)], ENV) == [evil.encode() + b"!"]
    assert "import" not in compile_filter(f'[/{evil}] LIKE "import os"').source


def test_the_table_of_functions_is_whole() -> None:
    for name, entry in FUNCTIONS.items():
        assert name == entry.name == name.upper()
        assert entry.doc
        assert ("pattern" in entry.parameters) == (name in PATTERN_ARGUMENTS)
        if name in PATTERN_ARGUMENTS:
            assert entry.parameters[PATTERN_ARGUMENTS[name]] == "pattern"
    assert not set(FUNCTIONS) & set(AGGREGATES)
    assert len(FUNCTIONS) == 79


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_counts_its_arguments_and_takes_null(name: str) -> None:
    entry = FUNCTIONS[name]
    for count in {max(entry.least - 1, 0), entry.least, min(entry.most, 6), entry.most + 1 if entry.most < 9 else 6}:
        arguments = [
            "'x'" if entry.parameters and entry.find_argument_kind(i) == "pattern" else "/a" for i in range(count)
        ]
        text = f"{name}({', '.join(arguments)})"
        if not entry.least <= count <= entry.most:
            with pytest.raises(ExpressionError) as caught:
                compile_value(text)
            assert caught.value.code == "SOW-EXP-011"
            continue
        value = compile_value(text)
        for fill in (None, "x", 5, -1.5, math.nan, math.inf, 2**64 - 1, True, ValueList((None, 3))):
            result = value.compute_values([tuple(fill for _ in value.slots)], ENV, [Header()])[0]
            assert not isinstance(result, ValueList)
            if fill is None and entry.strict and count:
                assert result is None


def test_nothing_is_compiled_before_there_are_rows() -> None:
    """What an index answers is asked of no row, and compiling costs more than the index does."""
    found = compile_filter("/a > 5 AND LENGTH(/s) < 3")
    assert found.slots and "run" in found.source
    assert found._run is None
    assert found.find_matches([(6, "ab"), (5, "ab"), (9, "abc")], ENV) == [0]
    assert found._run is not None


def test_a_filter_that_was_compiled_is_kept() -> None:
    text = "/kept > 1 AND /kept < 9"
    first = compile_filter(text)
    assert compile_filter(text) is first
    assert compile_filter(text, Context.VIEW_FILTER) is not first
    long = text + " AND /kept < 9" * 1000
    assert compile_filter(long) is not compile_filter(long), "as long a text is not"
    with pytest.raises(ExpressionError):
        compile_filter("/kept >")


def test_a_filter_with_functions_of_modules_is_not_kept() -> None:
    text = "OWN(/a) = 'b'"
    found = []
    for answer in (b"b", b"c"):
        own = declare_function("OWN", lambda _, answer=answer: answer, "text", "text", "the same for all")
        found.append(compile_filter(text, extra={"OWN": own}).find_matches([("x",)], ENV))
    assert found == [[0], []]


def test_conjuncts_one_by_one() -> None:
    compiled = compile_filter("/a > 1 AND (/b = 'x' OR /c IS NULL) AND NOT /d")
    assert [str(node) for node in compiled.conjuncts] == [str(node) for node in list_conjuncts(compiled.node)]
    assert len(compiled.conjuncts) == 3
    second = compiled.compile_conjunct(1)
    assert compiled.compile_conjunct(1) is second
    assert [str(slot.path) for slot in second.slots] == ["/b", "/c"]
    assert second.find_matches([("x", 1), ("y", 1), ("y", None)], ENV) == [0, 2]
    assert list(compile_filter("").conjuncts) == []
