"""Texts of a view: qualified where there are several topics, each destination once."""

from __future__ import annotations

import pytest

from sowctl.expressions.compiler import compile_projection
from sowctl.expressions.syntax.errors import ExpressionError


def test_a_join_needs_qualified_fields() -> None:
    program = compile_projection("[A]./x, SUM([B]./x) AS /s", "[A]./x", joined=True)
    assert (program.sources, program.destinations) == ((("A",), ("B",)), (("x",), ("s",)))
    for projection, grouping in (("[A]./x, /y", "[A]./x"), ("[A]./x", "/x"), ("SUM(/y) AS /s", "[A]./x")):
        with pytest.raises(ExpressionError) as caught:
            compile_projection(projection, grouping, joined=True)
        assert caught.value.code == "SOW-EXP-023"


def test_fields_of_several_texts_share_one_set_of_destinations() -> None:
    program = compile_projection(["/a", "SUM(/b) AS /s, 1 AS /c"], ["/a", "/b"])
    assert program.destinations == (("a",), ("s",), ("c",))
    with pytest.raises(ExpressionError, match="two fields"):
        compile_projection(["/a", "1 AS /a"], "/a")
    for grouping in ("", []):
        with pytest.raises(ExpressionError):
            compile_projection("/a", grouping)
