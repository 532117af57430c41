"""Plans as text."""

from __future__ import annotations

import pytest

from sowctl.expressions.columns.program import explain_expression
from sowctl.expressions.syntax.errors import ExpressionError


def test_a_filter() -> None:
    lines = explain_expression("TRUE AND 5 < /a AND UPPER(/b) = 'X' AND MESSAGE_SIZE() > 1 + 1", as_filter=True)
    assert lines[0] == "expression  TRUE AND 5 < /a AND UPPER(/b) = 'X' AND MESSAGE_SIZE() > 1 + 1"
    assert "rewrite     field_first: 5 < /a  ->  /a > 5" in lines
    assert "rewrite     fold: 1 + 1  ->  2" in lines
    assert "rewritten   /a > 5 AND UPPER(/b) = 'X' AND MESSAGE_SIZE() > 2" in lines
    assert [line for line in lines if line.startswith("condition")] == [
        "condition   /a > 5",
        "condition   UPPER(/b) = 'X'",
        "condition   MESSAGE_SIZE() > 2",
    ]
    assert "field       /a" in lines
    assert "field       /b  (original text)" in lines
    assert "header      the record's header is read" in lines
    assert [line for line in lines if line.startswith("columns")] == [
        "columns     row by row, or once for each distinct text: UPPER(/b)",
        "columns     row by row, or once for each distinct text: MESSAGE_SIZE()",
    ]
    assert any(line.startswith("plan        def run(") for line in lines)


@pytest.mark.parametrize("text", ["/a > 90 AND /b = 'x'", "IF(ABS(/a) IN (1, 2), /b, COALESCE(/c, -/d))", "/a IS NULL"])
def test_what_runs_on_columns_as_a_whole(text: str) -> None:
    (line,) = [line for line in explain_expression(text, as_filter=False) if line.startswith("columns")]
    assert line == "columns     all of it, where the values of a field are of one kind"


def test_a_value() -> None:
    lines = explain_expression("ARRAY_TO_STRING(/a, ',', '')", as_filter=False)
    assert lines[1] == "field       /a  (original text, all values)"
    assert "field       none" in explain_expression("1", as_filter=False)


def test_the_empty_filter_and_faults() -> None:
    assert explain_expression("", as_filter=True) == ["expression  (empty: matches everything)"]
    with pytest.raises(ExpressionError):
        explain_expression("", as_filter=False)
