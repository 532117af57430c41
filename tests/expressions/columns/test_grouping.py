"""Grouping on columns makes the groups that adding row by row makes, whatever the columns hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.expressions.columns import grouping
from sowctl.expressions.columns.grouping import add_columns
from sowctl.expressions.columns.limits import COLUMN_LIMITS
from sowctl.expressions.compiler import compile_projection
from sowctl.expressions.environment import Environment
from sowctl.expressions.rows.groups import Group
from sowctl.expressions.rows.projection import GroupKey, Projection
from sowctl.expressions.rows.retraction import RetractableProjection
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Column, build_column
from sowctl.values.fields import Number, Row, SlotValue, ValueList
from sowctl.values.scalars import parse_number
from tests.expressions.alike import same

ENV = Environment(lambda: 0)
WHOLE = st.integers(-3, 3) | st.sampled_from([2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1])
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, 1e300, 0.1, 1e16, -1e-16, 5e-324, 1.7e308, math.inf, -math.inf])
DOUBLES |= st.sampled_from([math.nan]) | st.floats()
WORDS = st.sampled_from(["a", "b", "é", "1", "1.0", "10", "9"])
WRITTEN = st.sampled_from(["1.50", "1.5", "1e0", "-0", "0100.0"]).map(
    lambda text: Number(parse_number(text.encode()) or 0, text.encode())
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
    st.lists(WORDS | st.integers(0, 2) | st.none(), max_size=2).map(lambda items: ValueList(tuple(items))) | st.none(),
]
PROJECTIONS = [
    ("/a, COUNT(1) AS /n", "/a"),
    ("/a, SUM(/b) AS /s, MIN(/c) AS /least, MAX(/b) AS /most, ANY(/c) AS /any", "/a"),
    ("/b, GROUP_CONCAT(/c) AS /all, COUNT_DISTINCT(/a) AS /kinds, UNIQUE(/b) AS /one", "/a, /c"),
    ("/a, STDDEV_POP(/b) AS /p, STDDEV_SAMP(/b) AS /s, AVG(/c) AS /m, COUNT(/c) AS /n", "/a"),
    ("SUM(/b) AS /s, MIN(/b) AS /least, MAX(/c) AS /most, UNIQUE(/b) AS /one, SUM(1) AS /n, MAX(2) AS /two", ""),
    ("/c AS /last, AVG(/b + 1) AS /mean, SUM(IF(/c = 'a', 1, 0)) AS /as", "/b, /a, /c"),
]


def _compiled(text: tuple[str, str]) -> Projection:
    return compile_projection(text[0], text[1] or None)


def by_rows(program: Projection, parts: list[list[Row]], stamps: list[list[tuple[int, int]]]) -> dict[GroupKey, Group]:
    groups: dict[GroupKey, Group] = {}
    for rows, times in zip(parts, stamps, strict=True):
        program.add_messages(groups, rows, ENV, stamps=times)
    return groups


def columns_of(program: Projection, rows: list[Row]) -> dict[Any, Column]:
    return {slot: build_column([row[place] for row in rows]) for place, slot in enumerate(program.slots)}


def build_batches(
    program: Projection, parts: list[list[Row]], stamps: list[list[tuple[int, int]]]
) -> list[ColumnBatch]:
    batches = []
    for rows, times in zip(parts, stamps, strict=True):
        txids, seconds = (np.array([stamp[place] for stamp in times], np.int64) for place in (0, 1))
        columns = list(columns_of(program, rows).values())
        batches.append(ColumnBatch(columns, len(rows), txids=txids, times=seconds))
    return batches


def by_columns(program: Projection, batches: list[ColumnBatch]) -> dict[GroupKey, Group]:
    groups: dict[GroupKey, Group] = {}
    for batch in batches:
        add_columns(program, groups, batch, ENV)
    return groups


def equal(a: SlotValue, b: SlotValue) -> bool:
    if isinstance(a, ValueList) and isinstance(b, ValueList):
        return len(a.items) == len(b.items) and all(map(same, a.items, b.items))
    return same(a, b)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[tuple[str, str], list[list[Row]], list[list[tuple[int, int]]]]:
    text = draw(st.sampled_from(PROJECTIONS))
    listed = [slot.listed for slot in _compiled(text).slots]
    pools = [draw(st.sampled_from(SCALARS if some else SCALARS[:-1])) for some in listed]
    parts = draw(st.lists(st.lists(st.tuples(*pools), max_size=12), min_size=1, max_size=3))
    # Joined rows may share the stamp of a record that all of them have.
    stamp = st.tuples(st.integers(1, 40), st.integers(0, 3))
    return text, parts, [draw(st.lists(stamp, min_size=len(rows), max_size=len(rows))) for rows in parts]


@pytest.mark.parametrize("summed", [1, 1 << 30], ids=["added up", "listed"])
@given(drawn())
@example((PROJECTIONS[0], [[], [(None,)]], [[], [(1, 1)]]))
@example((PROJECTIONS[0], [[(Number(1.5, b"1.50"),), (Number(1.5, b"1.5"),)]], [[(1, 1), (2, 2)]]))
def test_groups_are_those_of_rows(summed: int, case: Any) -> None:
    """The law of grouping: groups are the same by rows, on columns, on those of all parts in one batch, and on columns
    in parts whose states add up.
    """
    text, parts, stamps = case
    program = _compiled(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COLUMN_LIMITS, "min_messages_per_group", summed)
        _hold(program, parts, stamps)


def _hold(program: Projection, parts: list[list[Row]], stamps: list[list[tuple[int, int]]]) -> None:
    batches, expected = build_batches(program, parts, stamps), by_rows(program, parts, stamps)
    for some in (batches, [ColumnBatch.concatenate(batches)]):
        found = by_columns(program, some)
        assert found.keys() == expected.keys()
        for key, group in expected.items():
            other = found[key]
            assert other.stamp == group.stamp
            rows = other.latest.value[0], group.latest.value[0]
            assert all(map(equal, *rows)), rows
            assert other.size == group.size
            assert all(map(equal, program.compute_fields(other, ENV), program.compute_fields(group, ENV)))
    retractable = RetractableProjection(program)
    states: dict[GroupKey, Group] = {}
    for number, batch in enumerate(batches):
        found = {}
        if batch.size:
            grouping.Grouper(program, ENV, part=(number,)).build_batch(batch).add_to_groups(found)
        for key, state in found.items():
            state.compact()
            states.setdefault(key, program.build_group()).merge(
                retractable.decode_group(retractable.encode_group(state))
            )
    assert states.keys() == expected.keys()
    for key, group in expected.items():
        assert all(map(equal, program.compute_fields(states[key], ENV), program.compute_fields(group, ENV)))


def test_many_kinds_of_many_fields_keep_their_groups_apart() -> None:
    """The codes of four fields with a thousand values each do not fit one number together."""
    program = compile_projection("COUNT(1) AS /n", "/a, /b, /c, /d")
    rows: list[Row] = [(n % 1500, n // 2, float(n), f"w{n}") for n in range(1500)] * 2
    places = {slot.path.steps[0].name: place for place, slot in enumerate(program.slots)}
    rows = [tuple(row["abcd".index(name)] for name in sorted(places, key=lambda one: places[one])) for row in rows]
    stamps = [[(n, n) for n in range(len(rows))]]
    found = by_columns(program, build_batches(program, [rows], stamps))
    assert len(found) == 1500
    assert {group.size for group in found.values()} == {2}
    assert found.keys() == by_rows(program, [rows], stamps).keys()


@pytest.mark.parametrize("name", ["MIN", "MAX"])
def test_of_numbers_with_texts_the_first_of_the_best_is_kept_alone(name: str) -> None:
    program = _compiled((f"{name}(/b) AS /edge", ""))
    texts = [b"2.50", b"2.5", b"2.5e0", b"2.50"]
    column = build_column([Number(2.5, text) for text in texts])
    assert column.source is not None
    stamps = np.array([4, 2, 3, 9], np.int64)
    groups: dict[GroupKey, Group] = {}
    batch = grouping.Grouper(program, ENV).build_batch(ColumnBatch([column], 4, txids=stamps, times=stamps))
    # One input is kept of any number of them, and it is the one that was updated first, spelled as it was.
    assert batch.add_to_groups(groups) == 1
    ((found,),) = [state.parts for state in groups.values()]
    assert [one.text for one in found.waiting] == [b"2.5"]


def test_messages_of_many_groups_wait_until_groups_have_several() -> None:
    projection = _compiled(("/a, SUM(/b) AS /s", "/a"))
    grouper = grouping.Grouper(projection, ENV)
    groups: dict[GroupKey, Group] = {}
    sizes = []
    for start in range(0, 100_000, 100):
        rows = [(number * 7919 % 5_000, 1) for number in range(start, start + 100)]
        columns = [build_column([row[place] for row in rows]) for place in range(2)]
        batch = grouper.gather(ColumnBatch(columns, len(rows), txids=np.arange(100), times=np.arange(100)))
        if batch is not None:
            sizes.append(batch.messages.size)
            batch.add_to_groups(groups)
    last = grouper.flush()
    if last is not None:
        last.add_to_groups(groups)
    # Each batch costs a step for each of its groups.
    assert len(sizes) < 12 and max(sizes) > 10_000
    assert len(groups) == 5_000
    assert [projection.compute_fields(group, ENV)[1] for group in groups.values()] == [20] * 5_000
