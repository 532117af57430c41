"""Types that become wider while messages pass are those of a look at every value, and keep every value."""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.arrow.column_passes import SAMPLE_MESSAGES as SAMPLE_OF_PASSES
from sowctl.arrow.column_passes import MessageBlock, write_columns
from sowctl.arrow.field_types import FieldTypes
from sowctl.arrow.files import ArrowFile, ArrowStream, Parquet
from sowctl.arrow.inference import Inference
from sowctl.arrow.sqlite import build_sqlite_writer
from sowctl.arrow.tables import build_table
from tests.support.examples import examples

NUMBERS = st.sampled_from(
    b"0 -7 9007199254740993 9223372036854775808 0.1 1.50 -0 1e3 2E-2 1e400 0.30000000000000004 0.10000000000000000001 "
    b"12345678901234567.5 123456789.5 1111111111111111111111111111111111111111".split()
)
VALUES = st.recursive(
    NUMBERS | st.sampled_from([b"null", b"true", b'"x"', b'"2026-01-05"', b'"0.12345678901"', b'"\\u00e9"']),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda items: b"[" + b",".join(items) + b"]")
        | st.dictionaries(st.sampled_from([b"x", b"y"]), inner, max_size=2).map(
            lambda found: b"{" + b",".join(b'"%b": %b' % pair for pair in found.items()) + b"}"
        )
    ),
    max_leaves=4,
)
MESSAGES = st.lists(
    st.dictionaries(st.sampled_from([b"a", b"b"]), VALUES, max_size=2).map(
        lambda found: b"{" + b",".join(b'"%b":%b' % pair for pair in found.items()) + b"}"
    ),
    min_size=1,
    max_size=3,
)


def kept(value: Any, found: Any) -> bool:
    """Whether a cell has the value of a message (as JSON with Decimals)."""
    if isinstance(found, str) and not isinstance(value, str):
        return value is not None
    if isinstance(value, dict):
        return isinstance(found, dict) and all(kept(value.get(name), inner) for name, inner in found.items())
    if isinstance(value, list):
        return isinstance(found, list) and len(found) == len(value) and all(map(kept, value, found))
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return bool(found == value) and type(found) is type(value)
    return found is not None and Decimal(repr(found) if isinstance(found, float) else found) == value


@given(st.lists(MESSAGES, min_size=1, max_size=4))
@settings(max_examples=examples(300), deadline=None)
def test_blocks_in_turn_have_the_types_of_all_together(blocks: list[list[bytes]]) -> None:
    fields = FieldTypes()
    fields.observe_values(blocks[0])
    # Passes over all blocks, until one finds nothing to widen.
    while None in (arrays := [fields.build_array(block) for block in blocks]):
        pass
    looked = Inference()
    for block in blocks:
        looked.add(block)
    assert fields.struct == looked.build_struct()
    for block, array in zip(blocks, arrays, strict=True):
        assert array is not None
        for message, cell in zip(block, array.to_pylist(), strict=True):
            assert kept(json.loads(message, parse_float=Decimal, parse_int=Decimal), cell), (message, cell)


@pytest.mark.parametrize("message", [b'{"":1.5,"a":{"":[{"":0.25}]}}', b'{"":0.30000000000000004}'])
def test_a_field_with_the_empty_name_may_hold_doubles(message: bytes) -> None:
    types = FieldTypes()
    types.observe_values([message])
    found = types.build_array([message])
    assert found is not None
    assert found.to_pylist() == [json.loads(message)]


def test_names_that_msgspec_does_not_take() -> None:
    views = [b'{"id":1,"q\\"":2,"b\\\\":{"c\\u0001":[1]}}', b'{"id":2}']
    assert build_table(lambda: [MessageBlock(views)]).to_pylist() == [
        {"id": 1, 'q"': 2, "b\\": {"c\x01": [1]}},
        {"id": 2, 'q"': None, "b\\": None},
    ]


def test_a_pass_that_is_broken_off_leaves_a_writer_that_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def blocks() -> Iterator[MessageBlock]:
        yield MessageBlock([b'{"id":1}'] * SAMPLE_OF_PASSES)
        raise KeyboardInterrupt

    for make in (Parquet, ArrowFile, ArrowStream, build_sqlite_writer("t")):
        with pytest.raises(KeyboardInterrupt):
            write_columns(blocks, make, io.BytesIO())
        gc.collect()
    assert capsys.readouterr().err == ""
