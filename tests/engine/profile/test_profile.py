"""Figures in bounded memory: exact while everything fits, within their guaranteed bounds otherwise."""

from __future__ import annotations

import json
import math
import random
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.profile.hyperloglog import STANDARD_ERROR, HyperLogLog
from sowctl.engine.profile.jsonschema import build_json_schema
from sowctl.engine.profile.number_profile import NumberBudget, NumberProfile, compute_edges
from sowctl.engine.profile.path_profile import TopicProfile
from sowctl.engine.profile.tally import MAX_FREQUENT_VALUES, MAX_TEXT_CHARACTERS, Tally, TallyBudget
from sowctl.engine.profile.trees import UNREADABLE, parse_trees
from sowctl.messages.json.exact_reader import parse_json
from sowctl.values.fields import Number

NAMES = st.sampled_from(["a", "b", "c d"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "x", 'q":'])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def same(payload: bytes) -> bytes:
    return payload


def plain(tree: Any) -> Any:
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, dict):
        return {name: plain(value) for name, value in tree.items()}
    return [plain(value) for value in tree] if isinstance(tree, list) else tree


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(['"a"', '"a" ', '"b"', '"c\\":"']), VALUES), max_size=4), max_size=4)
)
def test_trees_are_those_of_the_exact_reader_also_with_duplicate_members(
    objects: list[list[tuple[str, Any]]],
) -> None:
    lines = ["{" + ",".join(f"{name}:{json.dumps(value)}" for name, value in one) + "}" for one in objects]
    payloads = [line.encode() for line in lines]
    assert parse_trees(payloads, same) == [plain(parse_json(payload)) for payload in payloads]


def test_what_is_no_json_does_not_cost_its_neighbours() -> None:
    assert parse_trees([b'{"a":1}', b'{"a":', b"[1]"], same) == [{"a": 1}, UNREADABLE, [1]]


def counted(values: list[Any], path: str = "/") -> Counter[tuple[str, str]]:
    """Count how often each type occurs at each path, by a walk over all values."""
    names = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
    found: Counter[tuple[str, str]] = Counter()
    above = "" if path == "/" else path
    for value in values:
        found[path, names.get(type(value), "null")] += 1
        if isinstance(value, dict):
            for name, member in value.items():
                found += counted([member], f"{above}/{name}")
        if isinstance(value, list):
            found += counted(value, f"{above}[*]")
    return found


@given(st.lists(VALUES, max_size=6))
def test_types_are_counted_as_one_by_one(values: list[Any]) -> None:
    shapes = TopicProfile(valued=True)
    for start in range(0, len(values), 2):
        shapes.add_trees(values[start : start + 2])
    found: Counter[tuple[str, str]] = Counter()
    for shape in shapes.root.iterate_paths():
        # Paths have brackets where a filter needs them.
        path = shape.path[1:-1] if " " in shape.path else shape.path
        for name, count in shape.types.items():
            found[path, name] += count
    assert found == counted(values)


def test_paths_missing_members_and_elements() -> None:
    shapes = TopicProfile(valued=True)
    shapes.add_trees([{"a": {"x": 1}, "l": [{"q": 1}, {"q": None}, {}]}, {"a": {}, "odd name": ""}, {"a": 3}])
    facts = {shape.path: shape for shape in shapes.root.iterate_paths()}
    assert list(facts) == ["/", "/a", "/a/x", "/l", "/l[*]", "/l[*]/q", "[/odd name]"]
    assert facts["/a"].types == {"object": 2, "integer": 1}
    assert facts["/a/x"].missing_count == 1  # of two objects, not of three messages
    assert facts["/l[*]/q"].missing_count == 1
    assert facts["/l[*]/q"].field == "/l/q"
    assert facts["/l"].lengths == (3, 3)
    assert (facts["[/odd name]"].missing_count, facts["[/odd name]"].empty) == (2, 1)


def test_integers_beyond_64_bits_are_numbers_as_for_filters() -> None:
    shapes = TopicProfile(valued=True)
    shapes.add_trees([{"n": 1 << 64}, {"n": (1 << 64) - 1}, {"n": -(1 << 63)}, {"n": -(1 << 63) - 1}])
    assert shapes.root.members["n"].types == {"integer": 2, "number": 2}


def test_too_many_paths_are_left_out_and_counted() -> None:
    shapes = TopicProfile(valued=True, most=3)
    shapes.add_trees([{f"f{n}": n for n in range(7)}])
    assert [shape.path for shape in shapes.root.iterate_paths()] == ["/", "/f0", "/f1", "/f2"]
    assert shapes.left_out == 4


def test_members_that_cannot_be_told_apart_take_no_memory() -> None:
    """One object with 200,000 members, and two alike; before the limit, a member took some 150 bytes more."""
    names = [f"f{number}" for number in range(200_000)]
    for objects in ([dict.fromkeys(names, 7)], [dict.fromkeys(names, 7), dict.fromkeys(names, 8)]):
        shapes = TopicProfile(valued=True, most=3)
        tracemalloc.start()
        try:
            shapes.add_trees(objects)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < 5_000_000
        assert [shape.path for shape in shapes.root.iterate_paths()] == ["/", "/f0", "/f1", "/f2"]
        assert shapes.left_out == len(names) - 3


def test_every_message_satisfies_the_json_schema_made_of_it() -> None:
    shapes = TopicProfile(valued=True)
    shapes.add_trees([{"a": 1, "l": [1, 2.5]}, {"a": None, "b": {"c": True}}])
    assert build_json_schema(shapes.root, "t") == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "t",
        "type": "object",
        "properties": {
            "a": {"type": ["integer", "null"]},
            "l": {"type": "array", "items": {"type": "number"}},
            "b": {"type": "object", "properties": {"c": {"type": "boolean"}}, "required": ["c"]},
        },
        "required": ["a"],
    }


@pytest.mark.parametrize("count", [0, 1, 100, 20_000, 300_000])
def test_an_estimate_of_distinct_values_is_within_four_standard_errors(count: int) -> None:
    chosen = random.Random(count)
    sketch = HyperLogLog()
    hashes = [chosen.getrandbits(64) for _ in range(count)]
    sketch.add_hashes(hashes)
    sketch.add_hashes(hashes[: count // 2])
    assert abs(sketch.estimate_distinct() - count) <= 4 * STANDARD_ERROR * count


def test_values_are_exact_until_the_room_is_too_small_then_the_largest_is_estimated() -> None:
    room = TallyBudget(held=3000)
    few, many = Tally(room, top=True), Tally(room, top=True)
    for start in range(0, 20_000, 2000):
        few.add_values(["x", "y", "x"])
        # One value in four is "often"; the others occur once.
        many.add_values(["often" if n % 4 == 0 else f"id-{n}" for n in range(start, start + 2000)])
        room.enforce()
    assert few.is_exact
    assert [(one.value, one.count, one.missed) for one in few.list_frequent(2)] == [("x", 20, 0), ("y", 10, 0)]
    assert not many.is_exact
    assert len(many.held) <= MAX_FREQUENT_VALUES
    assert abs(many.count_distinct().count - 15_001) <= 4 * many.count_distinct().error * 15_001
    first = many.list_frequent(1)[0]
    assert first.value == "often"
    assert first.count <= 5000 <= first.count + first.missed


def test_long_texts_are_told_apart_though_only_their_beginning_is_held() -> None:
    tally = Tally(TallyBudget())
    tally.add_values(["x" * 5000 + end for end in "abca"])
    assert tally.count_distinct().count == 3
    assert tally.examples == ["x" * MAX_TEXT_CHARACTERS + "..."]


def test_true_is_not_one_and_a_text_is_no_number() -> None:
    tally = Tally(TallyBudget(), top=True)
    tally.add_booleans([True, True, True, False])
    tally.add_values([1, 1.0])
    tally.add_values(["1"])
    assert tally.count_distinct().count == 4
    assert tally.list_frequent(1)[0].value is True


INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(INTEGERS | DOUBLES, min_size=1, max_size=5), min_size=1, max_size=4))
def test_exact_figures_of_numbers(batches: list[list[int | float]]) -> None:
    numbers = NumberProfile(NumberBudget())
    for batch in batches:
        numbers.add_numbers(batch)
    values = sorted(value for batch in batches for value in batch)
    assert (numbers.minimum, numbers.maximum, numbers.count) == (values[0], values[-1], len(values))
    for rank, found in zip((0.05, 0.5, 0.95), numbers.compute_quantiles((0.05, 0.5, 0.95)), strict=True):
        assert found == values[max(1, math.ceil(rank * len(values))) - 1]
    assert sum(bar.count for bar in numbers.build_histogram(10)) == len(values)
    if all(isinstance(value, int) for value in values):
        assert numbers.mean == pytest.approx(sum(values) / len(values), rel=1e-12, abs=1e-12)


def test_a_sketch_keeps_what_it_promises_about_ranks() -> None:
    chosen = random.Random(3)
    store = NumberBudget(held=1000)
    numbers = NumberProfile(store)
    values: list[float] = []
    for _ in range(40):
        some = [chosen.lognormvariate(0, 2) for _ in range(2500)]
        values += some
        numbers.add_numbers(some)
        store.enforce()
    assert not numbers.is_exact
    assert 0 < numbers.max_rank_error < 0.01
    values.sort()
    for rank in (0.01, 0.25, 0.5, 0.75, 0.99):
        (found,) = numbers.compute_quantiles([rank])
        place = values.index(found) / len(values)
        assert abs(place - rank) <= numbers.max_rank_error + 1 / len(values)
    assert (numbers.minimum, numbers.maximum) == (values[0], values[-1])
    assert sum(bar.count for bar in numbers.build_histogram(10)) == pytest.approx(len(values), rel=0.001)


def test_infinite_numbers_are_counted_and_nothing_else() -> None:
    numbers = NumberProfile(NumberBudget())
    numbers.add_numbers([1.0, math.inf, -math.inf])
    assert (numbers.count, numbers.infinite, numbers.mean) == (1, 2, 1.0)


@given(DOUBLES, DOUBLES, st.integers(1, 30))
def test_edges_hold_all_numbers_and_rise(one: float, other: float, bars: int) -> None:
    low, high = min(one, other), max(one, other)
    edges = compute_edges(low, high, bars)
    assert edges[0] <= low
    assert edges[-1] >= high
    assert edges == sorted(edges)
    assert len(edges) <= bars + 2
