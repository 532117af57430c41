"""The option text of a query (behaviour 3.1): names, lists in brackets, quotes, and rejected texts."""

from __future__ import annotations

import pytest

from sowctl.engine.options import QueryOptions
from sowctl.engine.search.optiontext import ParsedOptions, apply_option_text, parse_option_text
from sowctl.errors import UsageError
from sowctl.expressions.syntax.errors import ExpressionError


def test_everything_at_once() -> None:
    text = "top_n=10,skip_n=20, grouping=[/a,/b], projection=[SUM(/q[0]) AS /s,CONCAT(/a,',]') AS /t],batch_size=5"
    assert parse_option_text(text) == {
        "top_n": "10",
        "skip_n": "20",
        "grouping": "/a,/b",
        "projection": "SUM(/q[0]) AS /s,CONCAT(/a,',]') AS /t",
        "batch_size": "5",
    }
    options = apply_option_text(QueryOptions(filter="/x = 1"), text).options
    assert options == QueryOptions(
        filter="/x = 1",
        top_n=10,
        skip_n=20,
        grouping="/a,/b",
        projection="SUM(/q[0]) AS /s,CONCAT(/a,',]') AS /t",
        batch_size=5,
    )


def test_select_and_order() -> None:
    options = apply_option_text(QueryOptions(), "select=[-/,+/id],orderby=/a DESC").options
    assert (options.select, options.order_by) == ("-/,+/id", "/a DESC")
    assert apply_option_text(QueryOptions(), "") == ParsedOptions(QueryOptions())


def test_options_of_a_connection_are_known() -> None:
    told = apply_option_text(QueryOptions(), "timestamp,no_sowkey=TRUE,send_keys=false,top_n=2")
    assert told.options == QueryOptions(top_n=2)
    assert [note.split()[3] for note in told.notes] == ["timestamp", "no_sowkey"]
    assert (told.bookmark, told.literal) == (None, False)
    told = apply_option_text(QueryOptions(), "bookmark=0|1|,non_regex_topic")
    assert told == ParsedOptions(QueryOptions(), "0|1|", True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topn=3", "did you mean top_n"),
        ("live", "query option 'live'"),
        ("top_n=x", "integer"),
        ("timestamp=yes", "true or false"),
        ("non_regex", "did you mean non_regex_topic"),
        ("top_n=-1", "top_n must be an integer"),
        ("top_n=1,top_n=2", "duplicate option top_n"),
        ("select=[-/,+/id", "not closed"),
        ("select=-/]", "no opening bracket"),
        ("select=['a]", "not closed"),
        (",", "a name "),
        ("=5", "a name "),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        apply_option_text(QueryOptions(), text)
    assert caught.value.code == "SOW-QRY-017"
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_not_both_ways() -> None:
    with pytest.raises(UsageError, match="top_n is given"):
        apply_option_text(QueryOptions(top_n=3), "top_n=4")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("orderby=[/last, first] DESC,top_n=1", "[/last, first] DESC"),
        ("top_n=1,orderby=[[/last, first] DESC,/id]", "[/last, first] DESC,/id"),
        ("orderby=[/id],top_n=1", "/id"),
        ("orderby=[/a,/b]", "/a,/b"),
        ("orderby=[[/last name]]", "[/last name]"),
    ],
)
def test_a_name_in_brackets_may_begin_a_value(text: str, value: str) -> None:
    assert apply_option_text(QueryOptions(), text).options.order_by == value


def test_names_in_brackets_may_stand_at_both_ends_of_a_value() -> None:
    options = apply_option_text(QueryOptions(), "projection=[/a b] AS [/c],grouping=[[/x y],[/c]]").options
    assert (options.projection, options.grouping) == ("[/a b] AS [/c]", "[/x y],[/c]")


@pytest.mark.parametrize("name", ["orderby", "grouping"])
def test_the_hint_for_a_name_in_one_pair_of_brackets_can_be_followed(name: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        apply_option_text(QueryOptions(), f"{name}=[/odd name]")
    told = f"{name}=[[/odd name]]"
    assert told in (caught.value.hint or "")
    options = apply_option_text(QueryOptions(), told).options
    assert "[/odd name]" in (options.order_by, options.grouping)


def test_a_wrong_direction_is_no_name() -> None:
    with pytest.raises(ExpressionError) as caught:
        apply_option_text(QueryOptions(), "orderby=[/a, /b DOWN]")
    assert caught.value.code == "SOW-EXP-006"
