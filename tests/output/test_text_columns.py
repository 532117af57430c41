"""Cells of a column made together are those that are made one by one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sowctl.output import text_columns
from sowctl.output.display import escape_surrogates
from sowctl.output.members import format_value
from sowctl.output.text_columns import format_texts
from sowctl.values.jsontree import parse_member

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
)
WRITTEN = st.sampled_from(
    ["-0", "1E+2", "1.50", '"\\u00e9"', '"\\ud83d"', '"a\\"\\n"', "[ 1]", "[1 ,2]", '{"a":1,"a":2}']
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b,", "[c"]), inner)),
    max_leaves=8,
)
FORMS = st.sampled_from([{"separators": (",", ":")}, {}, {"separators": (",", ":"), "ensure_ascii": False}])


def one_by_one(values: list[Raw]) -> list[str | None]:
    return [
        None if (text := format_value(parse_member(value))) is None else escape_surrogates(text) for value in values
    ]


@given(st.lists(st.one_of(VALUES, st.lists(SCALARS), st.text()), min_size=1, max_size=5), FORMS, st.lists(WRITTEN))
def test_a_column_of_anything(values: list[object], form: dict[str, object], written: list[str]) -> None:
    column = [Raw(json.dumps(value, **form).encode()) for value in values]  # type: ignore[arg-type]
    column += [Raw(text.encode()) for text in written]
    assert list(format_texts(column)) == one_by_one(column)


@given(st.lists(st.lists(st.one_of(SCALARS, st.lists(SCALARS)), max_size=4), min_size=1, max_size=5), FORMS)
def test_columns_of_arrays(values: list[list[object]], form: dict[str, object]) -> None:
    column = [Raw(json.dumps(value, **form).encode()) for value in values]  # type: ignore[arg-type]
    assert list(format_texts(column)) == one_by_one(column)


@pytest.mark.parametrize(
    ("column", "read"),
    [
        (["[1,2.50]", "[]", '["a, b","ü"]', "[null,true]"], 0),
        (["[[1],[2.0,3]]", "[[]]"], 0),
        (["[]", "[]"], 0),
        (["[[1],2]"], 1),
        (['[{"a":1},{"a":2}]', '[{"a":"x"}]'], 0),
        (['"plain"', '"an \\"escape\\""', '"line\\nbreak"', '"last"'], 2),
        (["[1,2]", "[1, 2]"], 2),
        (['[{"a":1,"a":2}]'], 1),
        (['["\\u00e9"]', "[1]"], 2),
    ],
)
def test_what_is_written_as_it_is_shown_is_not_read(
    column: list[str], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [Raw(text.encode()) for text in column]
    expected = one_by_one(values)
    seen: list[Raw] = []
    monkeypatch.setattr(text_columns, "parse_member", lambda value: seen.append(value) or parse_member(value))
    assert list(format_texts(values)) == expected
    assert len(seen) == read
