"""A law: whatever types lie within each other, and wherever arrays begin within their buffers, values come out."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.arrow.inputs.columnfiles import check_batch
from sowctl.arrow.inputs.rowmessages import MessageMaker, build_struct_array
from sowctl.messages.types import get_type
from tests.support.examples import examples

LISTS = ("list", "large_list", "list_view", "fixed_size_list")
CODED = ("dictionary", "run_end_encoded", "dense_union", "sparse_union")
Shape = tuple[Any, ...]
"""The name of a type, and the shapes within it."""

SHAPES: st.SearchStrategy[Shape] = st.recursive(
    st.sampled_from([("int",), ("text",), ("time",)]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([*LISTS, *CODED, "map"]), inner),
        st.tuples(st.just("struct"), inner, inner),
    ),
    max_leaves=4,
)


def values_of(shape: Shape) -> st.SearchStrategy[Any]:
    """The values of JSON that a column of this shape may have; None is NULL."""
    name, *inner = shape
    if name == "int":
        return st.none() | st.integers(-9, 9)
    if name == "text":
        return st.none() | st.text("ab", max_size=2)
    if name == "time":
        return st.none() | st.integers(0, 59).map(lambda one: f"00:00:{one:02}")
    if name in CODED:
        return values_of(inner[0])
    if name == "fixed_size_list":
        return st.none() | st.lists(values_of(inner[0]), min_size=2, max_size=2)
    if name in LISTS:
        return st.none() | st.lists(values_of(inner[0]), max_size=3)
    if name == "map":
        return st.none() | st.dictionaries(st.text("kl", max_size=2), values_of(inner[0]), max_size=2)
    return st.none() | st.fixed_dictionaries({"a": values_of(inner[0]), "b": values_of(inner[1])})


def array_of(shape: Shape, values: list[Any], pad: int) -> pa.Array:
    """The array of some values, which begins ``pad`` places within its buffers, at every level."""
    return plain_array(shape, [None] * pad + values + [None] * pad, pad).slice(pad, len(values))


def plain_array(shape: Shape, values: list[Any], pad: int) -> pa.Array:
    name, *inner = shape
    mask = pa.array([one is None for one in values], pa.bool_())
    if name == "int":
        return pa.array(values, pa.int64())
    if name == "text":
        return pa.array(values, pa.string())
    if name == "time":
        return pa.array([None if one is None else int(one[-2:]) for one in values], pa.int32()).view(pa.time32("s"))
    if name == "struct":
        parts = [
            array_of(part, [None if one is None else one[field] for one in values], pad)
            for field, part in zip("ab", inner, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, ["a", "b"], mask=mask)
    if name == "dictionary":
        count = len(values)
        places = pa.array([count - 1 - place for place in range(count)], pa.int32())
        return pa.DictionaryArray.from_arrays(places, array_of(inner[0], values[::-1], pad))
    if name == "run_end_encoded":
        child = array_of(inner[0], values, pad)
        ends = pa.array(range(1, len(values) + 1), pa.int32())
        kind = pa.run_end_encoded(pa.int32(), child.type)
        return pa.Array.from_buffers(kind, len(values), [None], children=[ends, child])
    if name == "dense_union":
        codes = pa.array([place % 2 for place in range(len(values))], pa.int8())
        offsets = pa.array([place // 2 for place in range(len(values))], pa.int32())
        parts = [array_of(inner[0], values[first::2], pad) for first in (0, 1)]
        return pa.UnionArray.from_dense(codes, offsets, parts)
    if name == "sparse_union":
        codes = pa.array([place % 2 for place in range(len(values))], pa.int8())
        return pa.UnionArray.from_sparse(codes, [array_of(inner[0], values, pad) for _ in range(2)])
    if name == "fixed_size_list":
        child = array_of(inner[0], [item for one in values for item in (one or [None, None])], pad)
        return pa.FixedSizeListArray.from_arrays(child, 2, mask=mask)
    sizes = [len(one or ()) for one in values]
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    starts = [0, *ends[:-1]] if ends else []
    if name == "map":
        names = pa.array([key for one in values for key in (one or {})], pa.string())
        items = array_of(inner[0], [item for one in values for item in (one or {}).values()], pad)
        return pa.MapArray.from_arrays(pa.array([0, *ends], pa.int32()), names, items, mask=mask)
    child = array_of(inner[0], [item for one in values for item in one or ()], pad)
    if name == "list_view":
        return pa.ListViewArray.from_arrays(pa.array(starts, pa.int32()), pa.array(sizes, pa.int32()), child, mask=mask)
    make, width = (pa.ListArray, pa.int32()) if name == "list" else (pa.LargeListArray, pa.int64())
    return make.from_arrays(pa.array([0, *ends], width), child, mask=mask)


def written(shape: Shape, value: Any) -> Any:
    """What a message has of a value: objects without what is NULL in them."""
    name, *inner = shape
    if value is None or not inner:
        return value
    if name in CODED:
        return written(inner[0], value)
    if name in LISTS:
        return [written(inner[0], one) for one in value]
    kinds = dict(zip("ab", inner, strict=True)) if name == "struct" else dict.fromkeys(value, inner[0])
    return {key: written(kinds[key], one) for key, one in value.items() if one is not None}


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_values_come_out_of_any_types_within_each_other(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    values = data.draw(st.lists(values_of(shape), min_size=1, max_size=5))
    pad = data.draw(st.integers(0, 2))
    batch = pa.record_batch([array_of(shape, values, pad)], ["v"])
    first = data.draw(st.integers(0, len(values) - 1))
    maker = MessageMaker(list(batch.schema), get_type("json"))
    for part, kept in ((check_batch(batch), values), (batch.slice(first), values[first:])):
        found = maker.encode_rows(build_struct_array(part, ["v"]))
        assert all(isinstance(one, bytes) for one in found)
        expected = [{} if one is None else {"v": written(shape, one)} for one in kept]
        assert [json.loads(one) for one in found if isinstance(one, bytes)] == expected
