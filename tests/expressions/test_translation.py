"""What people who know SQL, C, Python or JSONPath type: every error suggests a text that compiles and matches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.search.terms import parse_order_keys
from sowctl.expressions.compiler import compile_filter, compile_projection
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment
from sowctl.expressions.remarks import list_remarks
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.translation import is_sql_pattern, suggest_text, translate_sql_pattern
from sowctl.messages.types import get_type
from tests.support.examples import examples

MESSAGE = (
    b'{"name":"Bela K","price":7.5,"qty":3,"limit":5,"tags":["x","y"],"address":{"city":"Oslo"},"side":"BUY","zero":0,'
    b'"on":true,"off":false,"text":"it\'s","order-id":5,"time":1,"day":"2026-03-01","nothing":null}'
)

TRUE = [
    ("/name CONTAINS 'Bela'", "/name LIKE 'Bela'"),
    ("CONTAINS(/name, 'Bela')", "/name LIKE 'Bela'"),
    ("icontains(name, 'bela k')", "/name LIKE '(?i)bela k'"),
    ("CONTAINS(/name, /name)", "INSTR(/name, /name) > 0"),
    ("name NOT CONTAINS 'B.la'", "/name NOT LIKE 'B\\.la'"),
    ("'x' IN /tags", "'x' IN (/tags)"),
    ("'z' NOT IN tags", "'z' NOT IN (/tags)"),
    ("/tags IN 'x'", "/tags IN ('x')"),
    ("side in [BUY, SELL]", "/side in ('BUY', 'SELL')"),
    ("qty in {1, 3}", "/qty in (1, 3)"),
    ("'x' = ANY(/tags)", "'x' = /tags"),
    ("/tags HAS 'x'", "/tags = 'x'"),
    ("/tags @> 'x'", "/tags = 'x'"),
    ("array_contains(tags, 'y')", "/tags = 'y'"),
    ("/name =~ 'Bel'", "/name LIKE 'Bel'"),
    ("name =~ /^bel.*k$/i", "/name LIKE '(?i)^bel.*k$'"),
    ("/name ~* 'bel'", "/name LIKE '(?i)bel'"),
    ("/name !~ 'Z'", "/name NOT LIKE 'Z'"),
    ("/name ILIKE 'bela%'", "/name LIKE '(?i)^bela'"),
    ("/name NOT ILIKE '%z%'", "/name NOT LIKE '(?i)z'"),
    ("name LIKE '%Bela%'", "/name LIKE 'Bela'"),
    ("name LIKE Bela", "/name LIKE 'Bela'"),
    ("/name REGEXP '^B'", "/name LIKE '^B'"),
    ("REGEXP_LIKE(name, '^B')", "/name LIKE '^B'"),
    ("/name GLOB 'B?l* K'", "/name LIKE '^B.l.* K$'"),
    ("/name startswith 'Bela'", "/name BEGINS WITH 'Bela'"),
    ("name.startsWith('Bela')", "/name BEGINS WITH 'Bela'"),
    ("/name.endswith('K')", "/name ENDS WITH 'K'"),
    ("STARTS_WITH(name, 'B') = TRUE", "(/name BEGINS WITH 'B') = TRUE"),
    ("/name STARTS WITH 'B'", "/name BEGINS WITH 'B'"),
    ("/qty = 3 && /side = 'BUY'", "/qty = 3 AND /side = 'BUY'"),
    ("/qty = 4||/side='BUY'", "/qty = 4 OR /side = 'BUY'"),
    ("(qty == 3) & (price >= 7)", "(/qty == 3) AND (/price >= 7)"),
    ("!/off", "NOT /off"),
    ("price > 5", "/price > 5"),
    (".price > 5", "/price > 5"),
    ("$.price > 5", "/price > 5"),
    ("$price > 5", "/price > 5"),
    ("`price` > 5", "/price > 5"),
    ("[price] > 5", "/price > 5"),
    ("`odd name` IS NULL", "[/odd name] IS NULL"),
    ("order-id = 5", "/order-id = 5"),
    ("text = 'it''s'", "/text = 'it\\'s'"),
    ("address.city = 'Oslo'", "/address/city = 'Oslo'"),
    ("address->>'city' = 'Oslo'", "/address/city = 'Oslo'"),
    ("address['city'] = Oslo", "/address/city = 'Oslo'"),
    ("$.tags[*] = 'y'", "/tags = 'y'"),
    ("tags[1] = 'y'", "/tags[1] = 'y'"),
    ("/tags[] = 'y'", "/tags = 'y'"),
    ("price > limit", "/price > /limit"),
    ("5 = limit", "5 = /limit"),
    ('"price" > 5 && 1 = 1', "/price > 5 AND 1 = 1"),
    ("“Oslo” = address.city", "'Oslo' = /address/city"),
    ("/side = ‘BUY’", "/side = 'BUY'"),
    ("/price ≥ 5", "/price >= 5"),
    ("/price ≠ 5", "/price <> 5"),
    ("/price => 5", "/price >= 5"),
    ("/qty === 3", "/qty = 3"),
    ("qty eq 3 and price lt 8", "/qty = 3 and /price < 8"),
    ("/qty = 0x3", "/qty = 3"),
    ("/qty < 1_000", "/qty < 1000"),
    ("on IS TRUE", "/on = TRUE"),
    ("/off is not true", "/off <> true"),
    ("name IS NOT NULL", "/name IS NOT NULL"),
    ("/nothing IS NONE", "/nothing IS NULL"),
    ("/name != None", "/name IS NOT NULL"),
    ("nothing = null", "/nothing IS NULL"),
    ("/name NOTNULL", "/name IS NOT NULL"),
    ("exists(/name)", "/name IS NOT NULL"),
    ("isnull(nothing)", "/nothing IS NULL"),
    ("ISNULL(/nothing, 5) = 5", "(COALESCE(/nothing, 5)) = 5"),
    ("/qty BETWEEN 1, 5", "/qty BETWEEN 1 AND 5"),
    ("/qty BETWEEN(1,5)", "/qty BETWEEN 1 AND 5"),
    ("qty NOT BETWEEN 4 AND 5", "/qty NOT BETWEEN 4 AND 5"),
    ("/time < NOW()", "/time < UNIX_TIMESTAMP()"),
    ("/on = TRUE_VALUE", "/on = TRUE_VALUE()"),
    ("/time < CURRENT_TIMESTAMP", "/time < UNIX_TIMESTAMP()"),
    ("/day >= DATE '2026-01-01'", "/day >= '2026-01-01'"),
    ("len(name) = 6", "LENGTH(/name) = 6"),
    ("name.lower() = 'bela k'", "lower(/name) = 'bela k'"),
    ("locate('K', name) = 6", "INSTR(/name, 'K') = 6"),
    ("SELECT * FROM t WHERE qty = 3 ORDER BY qty;", "/qty = 3"),
    ("where qty = 3", "/qty = 3"),
    ("/qty = 3;", "/qty = 3"),
    ("qty // 2 = 1", "/qty / 2 = 1"),
    ("-qty < -2 + zero", "-/qty < -2 + /zero"),
]


def _matches(text: str) -> bool:
    found = compile_filter(text)
    rows, _ = get_type("json").build_extractor(found.slots)([MESSAGE])
    return bool(found.find_matches(rows, Environment(lambda: 1_800_000_000_000_000)))


@pytest.mark.parametrize(("text", "suggested"), TRUE)
def test_the_suggested_filter_compiles_and_means_what_was_meant(text: str, suggested: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_filter(text)
    assert caught.value.facts["suggestion"] == suggested
    assert caught.value.hint is not None and caught.value.hint.endswith(f": {suggested}")
    assert _matches(suggested)


@pytest.mark.parametrize(
    "text", ["/price > 5", "'x' = /tags", '/name = "Bela K"', "/qty == 3", "/qty != 4", "/on = TRUE"]
)
def test_what_this_language_has_compiles(text: str) -> None:
    assert _matches(text)


@pytest.mark.parametrize(
    "text",
    ["nope(price) > 5", "/a >", "(a = 1", "price > AVG(price)", "a b", "/a = 'x", "", "TO_CHAR(a, 'b') = c", "1,000"],
)
def test_nothing_is_suggested_where_the_meaning_is_unknown(text: str) -> None:
    assert suggest_text(text, Context.QUERY_FILTER) is None


def test_count_of_everything_is_for_projections() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_filter("COUNT(*) > 5")
    assert caught.value.hint is not None and "COUNT(1) AS /count" in caught.value.hint
    compile_projection("COUNT(1) AS /count", "/side")
    with pytest.raises(ExpressionError) as caught:
        compile_projection("side, COUNT(*) AS n", "/side")
    assert caught.value.facts["suggestion"] == "/side, COUNT(1) AS /n"
    compile_projection(caught.value.facts["suggestion"], "/side")


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        ("COUNT(*), side", "COUNT(1) AS /count, /side"),
        ("/side, COUNT(*)", "/side, COUNT(1) AS /count"),
        ("SUM(qty) total, AVG(price) AS 'mean'", "SUM(/qty) AS /total, AVG(/price) AS /mean"),
        ("SUM(/qty), SUM(/price)", "SUM(/qty) AS /sum, SUM(/price) AS /sum_price"),
        ("/qty * 2", "/qty * 2 AS /value"),
        ("len(name)", "LENGTH(/name) AS /len"),
    ],
)
def test_values_of_projections_get_names(text: str, suggested: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_projection(text, "/side")
    assert caught.value.facts["suggestion"] == suggested
    compile_projection(suggested, "/side")


def test_groupings_and_orders_get_slashes() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_projection("/side", "side, address.city")
    assert caught.value.facts["suggestion"] == "/side, /address/city"
    for text, suggested in (("price desc, `name`", "/price desc, /name"), ("qty ASC TEXT", "/qty ASC TEXT")):
        with pytest.raises(ExpressionError) as caught:
            parse_order_keys(text)
        assert caught.value.facts["suggestion"] == suggested
    with pytest.raises(ExpressionError) as caught:
        parse_order_keys("price downwards")
    assert "suggestion" not in caught.value.facts


def test_a_suggestion_keeps_to_its_context() -> None:
    assert suggest_text("now() > 5 && a", Context.QUERY_FILTER) is not None
    assert suggest_text("now() > 5 && a", Context.VIEW_FILTER) is None


WORDS = (
    "a .b $.c d.e f[0] `g` \"h\" 'i' 5 0x5 ( ) [ ] { } , ; && | ! = == => ~ =~ in not is null like '%k%' contains"
    " between and or count(*) len( b.lower() /l/ // where * -"
)


@given(st.lists(st.sampled_from(WORDS.split(" ")), max_size=10).map(" ".join) | st.text(max_size=30))
@settings(max_examples=examples(500))
def test_every_suggestion_compiles(text: str) -> None:
    for read in (
        compile_filter,
        parse_order_keys,
        lambda one: compile_projection(one, "/side"),
        lambda one: compile_projection("/side", one),
    ):
        try:
            read(text)
        except ExpressionError as error:
            suggested = error.facts.get("suggestion")
            if suggested is not None:
                read(suggested)


def test_a_nested_text_is_no_fault() -> None:
    for text in ("(" * 900 + "a" + ")" * 900, "[" * 999, "NOT " * 400 + "a", "f(" * 600):
        suggest_text(text, Context.QUERY_FILTER)


@pytest.mark.parametrize(
    ("pattern", "regex", "matching", "other"),
    [
        ("%Bela%", "Bela", "Bela", "Bel"),
        ("Bela%", "^Bela", "Bela K", "A Bela"),
        ("%Bela", "Bela$", "A Bela", "Bela K"),
        ("B%a_%", "^B.*a.", "Bela!", "Bela"),
        ("__", "^..$", "ab", "abc"),
        ("%", ".", "a", ""),
    ],
)
def test_wildcards_are_translated(pattern: str, regex: str, matching: str, other: str) -> None:
    assert is_sql_pattern(pattern)
    assert translate_sql_pattern(pattern) == regex
    found = compile_filter(f"/a LIKE '{regex}'")
    assert found.find_matches([(matching,), (other or None,)], Environment(lambda: 0)) == [0]


@pytest.mark.parametrize("pattern", ["Bela", "a_b", "a%b", "%a.*", "(%|x)%", "_", "^a%"])
def test_other_patterns_are_left(pattern: str) -> None:
    assert not is_sql_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        ("/name LIKE '%Bela%'", "/name LIKE 'Bela'"),
        ("/qty = 3 OR NOT (/name NOT LIKE 'Be%')", "/name NOT LIKE '^Be'"),
        ('/name LIKE "%it\'s%"', "/name LIKE 'it\\'s'"),
        ("/nothing = NULL", "/nothing IS NULL"),
        ("/name <> null AND /qty = 3", "/name IS NOT NULL"),
        ("NULL != /name", "/name IS NOT NULL"),
        ("/day > 2026-01-01", "'2026-01-01'"),
        ('"price" > 5', "/price > 5"),
        ("/qty = 3 AND 'price' BETWEEN 1 AND 9", "/price BETWEEN 1 AND 9"),
        ('"name" IS NULL', "/name IS NULL"),
        ("\"name\" LIKE '^B'", "/name LIKE '^B'"),
    ],
)
def test_a_filter_that_means_something_else_than_in_sql_is_remarked(text: str, suggested: str) -> None:
    compile_filter(text)
    (remark,) = list_remarks(text)
    assert remark.suggestion == suggested and suggested in str(remark)
    compile_filter(remark.suggestion)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/a LIKE '^%'",
        "/a LIKE r'%x%'",
        "/a = '%x%'",
        "/a % 5 = 1",
        "'x' IN (/tags)",
        "'x' = /a",
        "/a IS NULL",
        "1 = 1",
        *["/day > '2026-01-01'", "/a = 'NULL'", "/a >", "/a-2026-01 > 1", "IF(/a, 'x', 'y') = 'x'"],
    ],
)
def test_other_filters_are_not_remarked(text: str) -> None:
    assert list_remarks(text) == []
