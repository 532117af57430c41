"""Texts to nodes and back: canonical text, both parsers, limits, faults."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import UsageError
from sowctl.expressions.compiler import compile_filter, compile_value
from sowctl.expressions.environment import Environment
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax import tables
from sowctl.expressions.syntax.driver import parse_text
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.syntax.joins import JoinSide, parse_join
from sowctl.expressions.syntax.lexer import tokenize
from sowctl.expressions.syntax.parser import (
    parse_expression,
    parse_field,
    parse_filter,
    parse_grouping,
    parse_order_by,
    parse_projection,
)
from sowctl.expressions.syntax.selectlist import parse_select
from sowctl.values.paths import parse_path
from tests.expressions.test_conformance import cases
from tests.expressions.trees import TREES
from tests.support.examples import examples

HERE = Path(__file__).parent
ENV = Environment(lambda: 0)


@given(TREES)
def test_canonical_text_parses_back_to_an_equal_node(tree: n.Node) -> None:
    again = parse_expression(str(tree))
    assert again == tree, str(tree)
    assert str(again) == str(tree)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/a==1 and /b!=2", "/a = 1 AND /b <> 2"),
        ("((/a))  mod 2", "/a % 2"),
        ("NOT (/a = 1)", "NOT /a = 1"),
        ("(NOT /a) = 1", "(NOT /a) = 1"),
        ("- - /a", "--/a"),
        ("/a NOT NULL", "/a IS NOT NULL"),
        ("/a ends with 'x'", "/a ENDS WITH ('x')"),
        ("[/a]/[/b c][2]", "/a / [/b c][2]"),
        ("1 - (2 - 3)", "1 - (2 - 3)"),
        (".5e1 = 1e999", "5.0 = 1e999"),
        ("\"it's\\x00\" = r'\\d'", "'it\\'s\\x00' = '\\\\d'"),
        ("[t]./a of previous", "[t]./a OF PREVIOUS"),
        ('/a like "\\"\'"', "/a LIKE '\"\\''"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_expression(text)) == canonical


def test_places_cover_operands_and_parentheses() -> None:
    node = parse_expression(" (/a + 1) * UPPER( 'x' )")
    assert node.span == (1, 24)
    left, right = node.list_children()
    assert (left.span, right.span) == ((1, 9), (12, 24))


def test_nodes_are_immutable_and_tell_kinds_apart() -> None:
    node = n.Literal(1)
    with pytest.raises(AttributeError):
        node.value = 2  # type: ignore[misc]
    assert node != n.Literal(1.0)
    assert n.Literal(True) != node
    assert n.Literal(float("nan")) == n.Literal(float("nan"))


def test_tables_are_those_of_the_grammar() -> None:
    assert tables.build_source() == (tables.PACKAGE_DIRECTORY / "lalr.py").read_text(encoding="utf-8")


def _lark_accepts(parser: Any, text: str) -> bool:
    from lark.exceptions import LarkError

    try:
        parser.parse(tokenize(text)[0], start="expression")
    except LarkError:
        return False
    return True


def test_both_parsers_accept_the_same_texts() -> None:
    parser = tables.build_lark_parser()
    texts = [case["expr"] for case in cases() if len(case.get("expr", "x" * 999)) < 500]
    texts += [text[:cut] for text in texts[::7] for cut in (len(text) // 3, len(text) // 2)]
    assert len(texts) > 500
    for text in texts:
        try:
            parse_text("expression", text)
            own = True
        except ExpressionError as error:
            # What stands between brackets is one token, judged after the grammar.
            own = error.code == "SOW-EXP-005" and text[error.column - 1 : error.column + 1] == "[/"
        assert own == _lark_accepts(parser, text) or own, text


SCRAPS = (
    "/a /a/b [/x_y] [t]./a ( ) , = <> - + * / % 1 2.5 's' r\"t\" AND OR NOT IN LIKE BETWEEN BEGINS WITH IS NULL NAN"
    " TRUE IF( OF CURRENT UPPER( SUM( nope( REGEXP_MATCH( '( \\ \x00 é [ ] \n 1x AS 'a\\'"
)
WORDS = st.sampled_from(SCRAPS.split(" "))


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=30))
@settings(max_examples=examples(300))
def test_only_expression_errors_escape(text: str) -> None:
    for read in (
        compile_filter,
        parse_field,
        parse_projection,
        parse_grouping,
        parse_order_by,
        parse_select,
        parse_join,
    ):
        try:
            read(text)
        except ExpressionError as error:
            assert 1 <= error.column <= len(text) + 1
            assert error.excerpt is not None


def test_errors_look_as_promised() -> None:
    """The golden file holds texts, each followed by its message and excerpt."""
    golden = (HERE / "errors.golden").read_text(encoding="utf-8")
    texts = [block.partition("\n")[0] for block in golden.split("\n\n") if block]
    assert len(texts) > 50
    assert "".join(_described(text) for text in texts) == golden


def _described(text: str) -> str:
    """A block of the golden file; ``\\n`` and ``\\t`` in a text are written out."""
    with pytest.raises(ExpressionError) as caught:
        compile_filter(text.replace("\\n", "\n").replace("\\t", "\t"))
    error = caught.value
    hint = f"hint: {error.hint}\n" if error.hint else ""
    return f"{text}\nerror[{error.code}]: {error.message}\n{error.excerpt}\n{hint}\n"


def test_long_lines_are_windowed() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_filter("1 = 1 AND " * 500 + "/a = ; AND " + "1 = 1 AND " * 500)
    assert caught.value.column == 5006
    shown, caret = (caught.value.excerpt or "").split("\n")
    assert len(shown) <= 110
    assert shown[caret.index("^")] == ";"


@pytest.mark.parametrize("text", ["\udcff", "/a = '\ud800'"])
def test_a_text_must_be_utf8(text: str) -> None:
    with pytest.raises(ExpressionError, match="not UTF-8") as caught:
        parse_filter(text)
    assert caught.value.code == "SOW-EXP-009"


# limits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(" * 200 + "1" + ")" * 200, 1),
        ("ABS(" * 200 + "-1" + ")" * 200, 1),
        ("IF(1=2, 0, " * 200 + "7" + ")" * 200, 7),
        ("IF(1=1, " * 200 + "7" + ", 0)" * 200, 7),
        ("IF(" * 200 + "TRUE" + ", TRUE, FALSE)" * 200, True),
        ("-" * 300 + "5", 5),
        ("NOT " * 300 + "TRUE", True),
        ("COALESCE(NULL, " * 200 + "7" + ")" * 200, 7),
        ("(TRUE AND " * 200 + "TRUE" + ")" * 200, True),
        ("(FALSE OR " * 200 + "TRUE" + ")" * 200, True),
        ("1" + " + 1" * 4999, 5000),
        ("1=2" + " OR 1=2" * 4999, False),
        ("/b IS NULL" + " AND /a IS NULL" * 4999, True),
        ("CONCAT(" + ", ".join(["'x'"] * 5000) + ")", b"x" * 5000),
        ("4999 IN (" + ", ".join(map(str, range(5000))) + ")", True),
        ("/a IN (" + ", ".join(f"/f{number}" for number in range(5000)) + ")", False),
        ("'x' BEGINS WITH (" + ", ".join(["CONCAT('y')"] * 5000) + ")", False),
        ("/a" * 64, None),
        ("'" + "x" * ((1 << 20) - 2) + "' IS NULL", False),
    ],
    ids=lambda value: str(value)[:24],
)
def test_accepted_sizes(text: str, expected: object) -> None:
    value = compile_value(text)
    result = value.compute_values([(None,) * len(value.slots)], ENV)[0]
    assert (type(result), result) == (type(expected), expected)
    assert parse_expression(str(value.node)) == value.node


@pytest.mark.parametrize("nested", ["(", "ABS(", "-", "NOT ", "IF(1,2,", "1 IN (", "COALESCE(1,"])
def test_endless_nesting_is_an_error_and_no_crash(nested: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_filter(nested * 100_000)
    assert caught.value.code == "SOW-EXP-008"


@pytest.mark.parametrize("nested", ["(", "ABS(", "-", "NOT ", "(1=1 AND "])
def test_far_deeper_nesting_than_promised_works(nested: str) -> None:
    text = nested * 3000 + "1" + ")" * (3000 if "(" in nested else 0)
    assert compile_filter(text).find_matches([()], ENV) == [0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1" + "+1" * 524_287, "SOW-EXP-041"),
        ("/a IN (" + "1," * 524_000 + "1)", "SOW-EXP-041"),
        ("/a" * 524_288, "SOW-EXP-040"),
        ("(" * 1_048_576, "SOW-EXP-008"),
    ],
    ids=lambda value: value[:12],
)
def test_a_mebibyte_is_refused_in_linear_time(text: str, code: str) -> None:
    started = time.process_time()
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    assert (caught.value.code, caught.value.exit_status) == (code, 2)
    assert time.process_time() - started < 20


def test_as_many_terms_as_the_manual_says() -> None:
    most = " OR ".join(f"/a = {number}" for number in range(9_999))
    assert parse_expression(most) is not None
    with pytest.raises(ExpressionError) as caught:
        parse_expression(most + " OR /a = 1 OR /a = 2")
    assert (caught.value.code, caught.value.column) == ("SOW-EXP-041", len(most) + len(" OR /a = 1 OR ") + 1)


@pytest.mark.parametrize("bracket", [False, True])
def test_a_path_leads_no_further_than_messages_do(bracket: bool) -> None:
    def path(steps: int) -> str:
        return f"[{'/a' * steps}]" if bracket else "/a" * steps

    assert compile_value(path(256)).compute_values([(5,)], ENV) == [5]
    for read in (parse_expression, parse_order_by, parse_projection, parse_grouping, parse_select):
        with pytest.raises(ExpressionError) as caught:
            read(("+" if read is parse_select else "") + path(257))
        assert caught.value.code == "SOW-EXP-040"
    with pytest.raises(UsageError) as refused:
        parse_path(path(257))
    assert refused.value.code == "SOW-VAL-021"
    assert parse_path(path(256))


def test_a_position_of_any_length_is_read() -> None:
    for read in (parse_path, lambda text: parse_expression(text).path):
        assert read("/a[" + "9" * 5000 + "]") == read("/a[" + "9" * 19 + "]")


# other texts ----------------------------------------------------------------------------------------------------------


def test_order_by() -> None:
    keys = parse_order_by("/a, /b/c[0] desc, [/x y] asc text, /d TEXT")
    assert [(str(key.path), key.descending, key.text) for key in keys] == [
        ("/a", False, False),
        ("/b/c[0]", True, False),
        ("[/x y]", False, True),
        ("/d", False, True),
    ]
    for text in ("", "/a,", "a", "/a TEXT DESC", "/a DOWN", "UPPER(/a)", "[t]./a"):
        with pytest.raises(ExpressionError):
            parse_order_by(text)
    with pytest.raises(ExpressionError) as caught:
        parse_order_by("/b, /a text desc")
    assert str(caught.value.hint).endswith(": DESC TEXT")


def test_fields_and_projections() -> None:
    field = parse_field("/a + 1 AS /o/p HINT OPTIONAL , SET_CURRENT")
    assert (str(field.expression), str(field.destination), field.optional, field.set_current) == (
        "/a + 1",
        "/o/p",
        True,
        True,
    )
    fields = parse_projection("[A]./c, CONCAT(/a, ',]') AS /r")
    assert [(str(f.expression), f.destination and str(f.destination)) for f in fields] == [
        ("[A]./c", None),
        ("CONCAT(/a, ',]')", "/r"),
    ]
    for text in (
        "/a",
        "(/a)",
        "1",
        "/a AS",
        "/a AS b",
        "/a AS /b[0]",
        "/a AS [t]./b",
        "/a AS /b HINT",
        "/a AS /b HINT X",
    ):
        with pytest.raises(ExpressionError):
            parse_field(text)
    for text in ("SUM(/v)", "(/a)", "/a, /a", "/a AS /b, 1 AS /b", "/a AS /b HINT OPTIONAL", "[A]./x, [B]./x", ""):
        with pytest.raises(ExpressionError):
            parse_projection(text)


def test_grouping() -> None:
    assert [str(field) for field in parse_grouping("/a,[T]./b , [/c d]")] == ["/a", "[T]./b", "[/c d]"]
    with pytest.raises(ExpressionError):
        parse_grouping("UPPER(/a)")


def test_select() -> None:
    wanted = parse_select("-/ , + /a/b, -[/x y]")
    assert [(d.include, d.path and str(d.path)) for d in wanted.directives] == [
        (False, None),
        (True, "/a/b"),
        (False, "[/x y]"),
    ]
    assert wanted.is_included(("a", "b", "c"))
    assert not wanted.is_included(("a",))
    for text in ("", "/a", "+/a,", "+a", "+/a -/b", "+[/]"):
        with pytest.raises(ExpressionError):
            parse_select(text)


def test_join() -> None:
    path = parse_path("/x")
    assert parse_join("[A]./x=[B]./x") == (JoinSide(None, "A", path), JoinSide(None, "B", path))
    assert parse_join("[json].[A]./x = [fix].[B].[/x]") == (JoinSide("json", "A", path), JoinSide("fix", "B", path))
    assert parse_join(" a.b./x = c/x ") == (JoinSide(None, "a.b", path), JoinSide(None, "c", path))
    for text in ("", "[A]./x", "[A]./x = ", "/x = /y", "[A]./x = [B]./x AND 1", "[A] = [B]", "[A]./x > [B]./x"):
        with pytest.raises(ExpressionError):
            parse_join(text)
