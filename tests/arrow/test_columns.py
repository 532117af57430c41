"""Columns are arrays of Arrow with the same values, and share their memory where both lie the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.arrow.columns import to_arrow
from sowctl.memo.builder import IndexBuilder
from sowctl.memo.format import MemoFile
from sowctl.memo.index import open_index
from sowctl.values.column import Column, Kind, build_column
from sowctl.values.fields import SlotValue, ValueList
from tests.support.examples import examples
from tests.values.test_column import KINDS, told

TYPES = {
    Kind.BOOL: pa.bool_(),
    Kind.I64: pa.int64(),
    Kind.U64: pa.uint64(),
    Kind.DOUBLE: pa.float64(),
    Kind.NUMBER: pa.float64(),
    Kind.NULL: pa.null(),
}


def plain(column: Column) -> list[Any]:
    """The first values as Arrow has them: Integers beside Doubles are Doubles."""
    values = column.scalars.strip_source().read_values()
    whole = column.scalars.kind is Kind.NUMBER
    return told([float(value) if whole and type(value) is int else value for value in values])


def check(column: Column) -> None:
    found = to_arrow(column)
    found.validate(full=True)
    if column.kind is Kind.STRING:
        assert found.type.value_type == pa.large_string()
    else:
        assert found.type == TYPES[column.kind]
    assert found.null_count == (0 if column.nulls is None else int(column.nulls.sum()))
    assert told(found.to_pylist()) == plain(column)


@settings(max_examples=examples(100), deadline=None)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_arrays_have_the_values_of_columns(kind: st.SearchStrategy[SlotValue], data: st.DataObject) -> None:
    values = data.draw(st.lists(kind, max_size=8))
    values = [value if not isinstance(value, bytes) else value.decode("latin-1") for value in values]
    column = build_column(values).scalars
    if column.kind is Kind.ROWS:
        with pytest.raises(TypeError):
            to_arrow(column)
        return
    check(column)
    check(column.take(slice(1, None, 2)))


@settings(max_examples=examples(40), deadline=None)
@given(
    values=st.lists(st.text(max_size=3) | st.none()) | st.lists(st.floats(allow_nan=False) | st.integers(-9, 9)),
    data=st.data(),
)
def test_so_have_those_of_memo_indexes(
    values: list[SlotValue], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("m") / "x.memo"
    builder = IndexBuilder("name")
    builder.add_values(values)
    path.write_bytes(b"".join(builder.build_parts(7)))
    memo = open_index(MemoFile(path))
    assert memo is not None
    check(memo.read_column())
    places = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5)) if values else []
    check(memo.read_column(np.array(places, np.int64)))


@pytest.mark.parametrize("values", [[1, None, 3], [0.5, None, -0.0], [2**63, 2**64 - 1], ["a", "b", None]])
def test_numbers_and_codes_are_not_copied(values: list[SlotValue]) -> None:
    column = build_column(values)
    array = to_arrow(column)
    held = array.indices if column.kind is Kind.STRING else array
    assert held.buffers()[1].address == column.data.ctypes.data


def test_texts_of_a_memo_index_are_not_copied(tmp_path: Path) -> None:
    builder = IndexBuilder("name")
    builder.add_values(["abc", "de", None, "abc"])
    (tmp_path / "x.memo").write_bytes(b"".join(builder.build_parts(7)))
    memo = open_index(MemoFile(tmp_path / "x.memo"))
    assert memo is not None
    column = memo.read_column()
    words: Any = column.dictionary
    array = to_arrow(column)
    assert array.to_pylist() == ["abc", "de", None, "abc"]
    assert array.dictionary.buffers()[2].address == np.frombuffer(words.raw, np.uint8).ctypes.data


def test_lists_of_one_value_are_that_value() -> None:
    column = build_column([ValueList((1,)), ValueList(()), 2])
    assert to_arrow(column.scalars).to_pylist() == [1, None, 2]
