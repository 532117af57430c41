"""Grouping on columns makes the groups that adding row by row makes, whatever the columns hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.expressions.columns import Column
from sowctl.expressions.columns.column import column_of
from sowctl.expressions.columns.grouping import ColumnBatch, add_columns
from sowctl.expressions.compile import compile_projection
from sowctl.expressions.environment import Environment
from sowctl.expressions.rows.projection import GroupKey, GroupState, Projection
from sowctl.values.compare import numeric_reading
from sowctl.values.fields import Number, Row, SlotValue, Values
from tests.expressions.alike import same

ENV = Environment(lambda: 0)
WHOLE = st.integers(-3, 3) | st.sampled_from([2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1])
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, 1e300])
WORDS = st.sampled_from(["a", "b", "é", "1", "1.0", "10", "9"])
WRITTEN = st.sampled_from(["1.50", "1.5", "1e0", "-0", "0100.0"]).map(
    lambda text: Number(numeric_reading(text.encode()) or 0, text.encode())
)
SCALARS: list[st.SearchStrategy[Any]] = [
    st.none(),
    st.booleans() | st.none(),
    WHOLE,
    st.integers(-3, 3) | st.none(),
    st.integers(-3, 3) | DOUBLES | st.none(),
    DOUBLES | st.none(),
    WORDS | st.none(),
    WORDS.map(str.encode),
    WRITTEN | st.none(),
    WORDS | WHOLE | DOUBLES | st.booleans() | st.none(),
    st.lists(WORDS | st.integers(0, 2) | st.none(), max_size=2).map(lambda items: Values(tuple(items))) | st.none(),
]
PROJECTIONS = [
    ("/a, COUNT(1) AS /n", "/a"),
    ("/a, SUM(/b) AS /s, MIN(/c) AS /least, MAX(/b) AS /most, ANY(/c) AS /any", "/a"),
    ("/b, GROUP_CONCAT(/c) AS /all, COUNT_DISTINCT(/a) AS /kinds, UNIQUE(/b) AS /one", "/a, /c"),
    ("/c AS /last, AVG(/b + 1) AS /mean, SUM(IF(/c = 'a', 1, 0)) AS /as", "/b, /a, /c"),
]


def by_rows(
    program: Projection, parts: list[list[Row]], stamps: list[list[tuple[int, int]]]
) -> dict[GroupKey, GroupState]:
    groups: dict[GroupKey, GroupState] = {}
    for rows, times in zip(parts, stamps, strict=True):
        program.add(groups, rows, ENV, stamps=times)
    return groups


def columns_of(program: Projection, rows: list[Row]) -> dict[Any, Column]:
    return {slot: column_of([row[place] for row in rows]) for place, slot in enumerate(program.slots)}


def by_columns(
    program: Projection, parts: list[list[Row]], stamps: list[list[tuple[int, int]]]
) -> dict[GroupKey, GroupState]:
    groups: dict[GroupKey, GroupState] = {}
    for rows, times in zip(parts, stamps, strict=True):
        txids, seconds = (np.array([stamp[place] for stamp in times], np.int64) for place in (0, 1))
        add_columns(program, groups, list(columns_of(program, rows).values()), len(rows), ENV, txids, seconds)
    return groups


def equal(a: SlotValue, b: SlotValue) -> bool:
    if isinstance(a, Values) and isinstance(b, Values):
        return len(a.items) == len(b.items) and all(map(same, a.items, b.items))
    return same(a, b)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[tuple[str, str], list[list[Row]], list[list[tuple[int, int]]]]:
    text = draw(st.sampled_from(PROJECTIONS))
    listed = [slot.listed for slot in compile_projection(*text).slots]
    pools = [draw(st.sampled_from(SCALARS if some else SCALARS[:-1])) for some in listed]
    parts = draw(st.lists(st.lists(st.tuples(*pools), max_size=8), min_size=1, max_size=3))
    txids = iter(draw(st.permutations(range(1, 25))))
    return text, parts, [[(next(txids), 7) for _ in rows] for rows in parts]


@given(drawn())
@example((PROJECTIONS[0], [[], [(None,)]], [[], [(1, 1)]]))
@example((PROJECTIONS[0], [[(Number(1.5, b"1.50"),), (Number(1.5, b"1.5"),)]], [[(1, 1), (2, 2)]]))
def test_groups_are_those_of_rows(case: Any) -> None:
    text, parts, stamps = case
    program = compile_projection(*text)
    expected, found = by_rows(program, parts, stamps), by_columns(program, parts, stamps)
    assert found.keys() == expected.keys()
    for key, group in expected.items():
        other = found[key]
        assert other.stamp == group.stamp
        assert all(map(equal, other.row, group.row)), (other.row, group.row)
        for call, mine, theirs in zip(program.aggregates, other.inputs, group.inputs, strict=True):
            assert len(mine) == len(theirs)
            assert call.name == "COUNT" or all(map(same, mine, theirs)), (mine, theirs)
        assert all(map(equal, program.fields(other, ENV), program.fields(group, ENV)))


def test_many_kinds_of_many_fields_keep_their_groups_apart() -> None:
    """The codes of four fields with a thousand values each do not fit one number together."""
    program = compile_projection("COUNT(1) AS /n", "/a, /b, /c, /d")
    rows: list[Row] = [(n % 1500, n // 2, float(n), f"w{n}") for n in range(1500)] * 2
    places = {slot.path.steps[0].name: place for place, slot in enumerate(program.slots)}
    rows = [tuple(row["abcd".index(name)] for name in sorted(places, key=lambda one: places[one])) for row in rows]
    stamps = [[(n, n) for n in range(len(rows))]]
    found = by_columns(program, [rows], stamps)
    assert len(found) == 1500
    assert {len(group.inputs[0]) for group in found.values()} == {2}
    assert found.keys() == by_rows(program, [rows], stamps).keys()


@pytest.mark.parametrize("size", [0, 3])
def test_a_batch_gives_its_rows_back(size: int) -> None:
    assert ColumnBatch([], size).rows() == [()] * size
    columns = [column_of(list(range(size))), column_of(["x"] * size)]
    assert ColumnBatch(columns, size).rows() == [(number, b"x") for number in range(size)]
