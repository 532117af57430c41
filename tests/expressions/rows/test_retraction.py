"""Law: groups to which messages come and from which they go answer as if made from the messages that are left."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.expressions.aggregates.sums import Average, PopulationDeviation, SampleDeviation, Sum
from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.compiler import compile_projection
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.rows.groups import Contribution, Group
from sowctl.expressions.rows.projection import GroupKey, Projection
from sowctl.expressions.rows.retraction import RetractableProjection
from sowctl.values.fields import Number, Row, SlotValue, ValueList
from sowctl.values.scalars import to_text

ENV = Environment(lambda: 5_000_000)
CALLS = sorted(AGGREGATES)
FIELDS = (
    "/g, /v AS /last",
    *(f"{name}(/v) AS /{name}" for name in CALLS),
    "GROUP_CONCAT(/v, /d) AS /apart, SUM(/w) / COUNT(/v) AS /ratio, IF(SUM(/v) > 3, MAX(/w), /v) AS /chosen",
    "SUM(IF(/v > 1, 1, 0)) AS /above, MIN(/l) AS /first, LAST_UPDATED() AS /updated",
)
PROGRAM = compile_projection(list(FIELDS), "/g")
PLACES = {slot.path.steps[0].name: place for place, slot in enumerate(PROGRAM.slots)}
FEW: tuple[SlotValue, ...] = (
    None, 1, 1.0, "1", "1.0", b"1", True, False, 0.0, -0.0, 2, "2", 2.5, "a", "b", "", b"\xff", "é", " 7 ", 7,
    2**53, 2**53 + 1, float(2**53), 2**64 - 1, -(2**63), 1e308, -1e308, 5e-324, 0.1, math.nan, math.inf, -math.inf,
    Number(1.5, b"1.50"), Number(1.5, b"15e-1"), Number(3, b" 3"), ValueList((4, 5)), ValueList((), True),
)  # fmt: skip
ORDINARY: tuple[SlotValue, ...] = (None, 1, 1.0, "1", True, 2, 2.5, "2.50", Number(2.5, b"2.50"), "a", "b")


def _row(group: SlotValue, value: SlotValue, weight: SlotValue, delimiter: SlotValue) -> Row:
    given = {"g": group, "v": value, "w": weight, "d": delimiter, "l": value}
    return tuple([given[slot.path.steps[0].name] for slot in PROGRAM.slots])


def _messages(values: Sequence[SlotValue]) -> st.SearchStrategy[Row]:
    one = st.sampled_from(values)
    groups = st.sampled_from(["x", 1, "1", Number(1, b"1"), None])
    return st.builds(_row, groups, one, st.sampled_from([3, -5, 2.25, None, 2**63]), st.sampled_from(["-", None, 7]))


STEPS = st.sampled_from([FEW, ORDINARY]).flatmap(
    lambda values: st.lists(st.tuples(st.integers(0, 6), _messages(values)), min_size=1, max_size=40)
)
"""A step writes the record of a key again, or takes it away where its number is 0 and it is there."""


def _header(stamp: tuple[int, ...]) -> Header:
    return Header(last_updated=stamp[0] * 1000)


def _spelled(values: Sequence[SlotValue]) -> list[Any]:
    return [None if value is None else (type(value) in (str, bytes), type(value).__name__ if type(value)
            not in (str, bytes) else "", to_text(value)) for value in values]  # fmt: skip


def expected(left: dict[int, tuple[tuple[int, ...], Row]]) -> dict[GroupKey, list[Any]]:
    groups: dict[GroupKey, Group] = {}
    stamped = sorted(left.values(), key=lambda item: item[0])
    PROGRAM.add_messages(groups, [row for _, row in stamped], ENV, [_header(stamp) for stamp, _ in stamped])
    return {key: _spelled(PROGRAM.compute_fields(group, ENV)) for key, group in groups.items()}


class Cache:
    """What a replay keeps: contributions by record, and groups."""

    def __init__(self) -> None:
        self.program = RetractableProjection(PROGRAM)
        self.kept: dict[int, tuple[GroupKey, bytes]] = {}
        self.groups: dict[GroupKey, bytes] = {}

    def step(self, at: int, key: int, row: Row | None) -> None:
        old = self.kept.pop(key, None)
        if old is not None:
            self._change(old[0], self.program.decode_contribution(old[1]), -1)
        if row is not None:
            stamp = (at, key)
            [group], [one] = self.program.compute_contributions([row], [stamp], ENV, [_header(stamp)])
            self.kept[key] = group, self.program.encode_contribution(one)
            self._change(group, one, 1)

    def _change(self, key: GroupKey, one: Contribution, sign: int) -> None:
        group = self._group(key)
        group.update([one], sign)
        self.groups[key] = self.program.encode_group(group)
        if not group.size:
            del self.groups[key]

    def _group(self, key: GroupKey) -> Group:
        state = self.groups.get(key)
        return PROGRAM.build_group() if state is None else self.program.decode_group(state)

    def rows(self, key: GroupKey, descending: bool) -> Iterator[Contribution]:
        found = [self.program.decode_contribution(data) for group, data in self.kept.values() if group == key]
        yield from sorted(found, key=lambda one: one.stamp, reverse=descending)

    def answer(self) -> dict[GroupKey, list[Any]]:
        found = {}
        for key in self.groups:
            group = self._group(key)
            found[key] = _spelled(
                PROGRAM.compute_fields(group, ENV, lambda descending, key=key: self.rows(key, descending))
            )
            assert group.find_stamp() == max(
                self.program.decode_contribution(data).stamp for at, data in self.kept.values() if at == key
            )
            self.groups[key] = self.program.encode_group(group)
        return found


@settings(max_examples=300)
@given(STEPS)
def test_groups_answer_as_if_made_from_what_is_left(steps: list[tuple[int, Row]]) -> None:
    cache, left = Cache(), {}
    for at, (key, row) in enumerate(steps, 1):
        gone = key == 0 and key in left
        cache.step(at, key, None if gone else row)
        if gone:
            del left[key]
        else:
            left[key] = ((at, key), row)
        assert cache.answer() == expected(left)
    for key in list(left):
        cache.step(0, key, None)
    assert not cache.groups


@given(STEPS, st.integers(1, 5))
def test_states_of_parts_add_up(steps: list[tuple[int, Row]], parts: int) -> None:
    program, whole = RetractableProjection(PROGRAM), {at: ((at, 0), row) for at, (_, row) in enumerate(steps)}
    groups: dict[GroupKey, Group] = {}
    for part in range(parts):
        made: dict[GroupKey, Group] = {}
        some = [item for at, item in whole.items() if at % parts == part]
        headers = [_header(stamp) for stamp, _ in some]
        keys, found = program.compute_contributions(
            [row for _, row in some], [stamp for stamp, _ in some], ENV, headers
        )
        for key, one in zip(keys, found, strict=True):
            made.setdefault(key, PROGRAM.build_group()).update([one], 1)
        for key, group in made.items():
            groups.setdefault(key, PROGRAM.build_group()).merge(program.decode_group(program.encode_group(group)))
    assert {key: _spelled(PROGRAM.compute_fields(group, ENV)) for key, group in groups.items()} == expected(whole)


@given(STEPS)
def test_messages_are_removed_from_groups_that_were_made_forward(steps: list[tuple[int, Row]]) -> None:
    program = RetractableProjection(PROGRAM)
    rows = [row for _, row in steps]
    stamps = [(at, 0) for at in range(len(rows))]
    headers = [_header(stamp) for stamp in stamps]
    forward: dict[GroupKey, Group] = {}
    PROGRAM.add_messages(forward, rows, ENV, headers, stamps)
    found = list(zip(*program.compute_contributions(rows, stamps, ENV, headers), strict=True))
    # From messages that were added in batches single ones can be removed.
    for key, one in found[::2]:
        forward[key].update([one], -1)
    left = {at: ((at, 0), row) for at, row in enumerate(rows) if at % 2}

    def contributions(key: GroupKey, descending: bool) -> list[Contribution]:
        return sorted(
            (one for group, one in found[1::2] if group == key), key=lambda one: one.stamp, reverse=descending
        )

    assert {
        key: _spelled(PROGRAM.compute_fields(group, ENV, lambda descending, key=key: contributions(key, descending)))
        for key, group in forward.items()
        if group.size
    } == expected(left)


@given(STEPS, st.integers(1, 4))
def test_what_is_taken_for_good_answers_alike(steps: list[tuple[int, Row]], parts: int) -> None:
    program, whole = RetractableProjection(PROGRAM), {at: ((at, 0), row) for at, (_, row) in enumerate(steps)}
    groups: dict[GroupKey, Group] = {}
    for part in range(parts):
        some = [item for at, item in whole.items() if at % parts == part]
        forward: dict[GroupKey, Group] = {}
        stamps = [stamp for stamp, _ in some]
        PROGRAM.add_messages(forward, [row for _, row in some], ENV, [_header(stamp) for stamp in stamps], stamps)
        for key, state in forward.items():
            state.compact()
            groups.setdefault(key, PROGRAM.build_group()).merge(program.decode_group(program.encode_group(state)))
    assert {key: _spelled(PROGRAM.compute_fields(group, ENV)) for key, group in groups.items()} == expected(whole)


@given(STEPS)
def test_columns_and_rows_give_one_state(steps: list[tuple[int, Row]]) -> None:
    np = pytest.importorskip("numpy")
    from sowctl.expressions.columns.grouping import add_columns
    from sowctl.values.batch import ColumnBatch
    from sowctl.values.column import build_column

    projection: Projection = compile_projection(list(FIELDS[:-1]), "/g")
    rows = [tuple([row[PLACES[slot.path.steps[0].name]] for slot in projection.slots]) for _, row in steps]
    columns = {slot: build_column([row[place] for row in rows]) for place, slot in enumerate(projection.slots)}
    txids = np.arange(len(rows), dtype=np.uint64)
    forward: dict[GroupKey, Group] = {}
    add_columns(projection, forward, ColumnBatch(list(columns.values()), len(txids), txids=txids, times=txids), ENV)
    program = RetractableProjection(projection)
    keys, found = program.compute_contributions(rows, [(at, at) for at in range(len(rows))], ENV)
    singly: dict[GroupKey, Group] = {}
    for key, one in zip(keys, found, strict=True):
        singly.setdefault(key, projection.build_group()).update([one], 1)
    for key, state in forward.items():
        assert _spelled(projection.compute_fields(state, ENV)) == _spelled(projection.compute_fields(singly[key], ENV))


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_doubles_are_exact_after_ten_thousand_steps(seed: int) -> None:
    source = random.Random(seed)
    left: list[float] = []
    total, mean, spread = Sum(), Average(), PopulationDeviation()
    for step in range(10_000):
        if left and source.random() < 0.48:
            value, sign = left.pop(source.randrange(len(left))), -1
        else:
            special = source.choice([math.nan, math.inf, -math.inf])
            value = special if source.random() < 0.01 else source.uniform(-1, 1) * 10.0 ** source.randrange(-300, 300)
            left.append(value)
            sign = 1
        for part in (total, mean, spread):
            (part.add if sign > 0 else part.remove)([value])
        if step % 500 == 0:
            total = Sum.load(total.dump())
    finite = [value for value in left if math.isfinite(value)]
    for part in (total, mean, spread):
        part.remove([value for value in left if not math.isfinite(value)])
    assert total.compute_result() == math.fsum(finite)
    fresh = Sum()
    fresh.add(finite)
    assert total.dump() == fresh.dump()
    assert mean.compute_result() == pytest.approx(math.fsum(finite) / len(finite), rel=1e-15)
    for part in (total, mean, spread):
        part.remove(finite)
        assert part.compute_result() is None
        assert not any(part.dump())


def test_special_values_come_and_go() -> None:
    part = Sum()
    part.add([1e308, 1.0, -1e308])
    assert part.compute_result() == 1.0
    for values, expected in (([math.inf], math.inf), ([-math.inf], None), ([math.nan], None)):
        part.add(values)
        assert part.compute_result() == expected or math.isnan(part.compute_result())  # type: ignore[arg-type]
    part.add(["no number", math.nan, math.inf])
    part.remove([math.nan, math.inf, math.nan, math.inf, "no number", -math.inf])
    assert part.compute_result() == 1.0
    part.remove([1e308, -1e308, 1.0])
    assert part.compute_result() is None


def test_taking_more_than_there_is_raises() -> None:
    program = RetractableProjection(PROGRAM)
    rows = [_row("x", value, 1, "-") for value in (1, "1", 2)]
    _, [one, other, never] = program.compute_contributions(rows, [(1,), (2,), (3,)], ENV)
    for taken in ([one, one], [never], [one, never]):
        group = PROGRAM.build_group()
        group.update([one, other], 1)
        with pytest.raises(DamageError) as caught:
            for some in taken:
                group.update([some], -1)
        assert caught.value.code == "SOW-EXP-050"
    for part in (Sum(), Average(), SampleDeviation()):
        part.add([1.5, 2])
        with pytest.raises(DamageError):
            part.remove([2.5])
