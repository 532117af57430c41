"""Declared schemas: which types a field of a message may have."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import types as t

from sowctl.errors import UsageError
from sowctl.spark.schema import STORE_COLUMNS, build_arrow_schema, check_fields


def declared(kind: t.DataType) -> t.StructType:
    """A message with one field, deep in it."""
    inner = t.StructType([t.StructField("x", t.ArrayType(kind))])
    return t.StructType([t.StructField("payload", t.StructType([t.StructField("o", inner)]))])


@pytest.mark.parametrize(
    "kind",
    [
        *(t.VariantType(), t.NullType(), t.DayTimeIntervalType(), t.YearMonthIntervalType(), t.TimeType()),
        *(t.MapType(t.IntegerType(), t.StringType()), t.MapType(t.StringType(), t.VariantType())),
    ],
    ids=lambda kind: kind.simpleString(),
)
def test_a_type_that_no_message_fills_is_refused_by_name(kind: t.DataType) -> None:
    with pytest.raises(UsageError, match=r"\bo\.x\b") as caught:
        build_arrow_schema(declared(kind), STORE_COLUMNS)
    assert caught.value.code == "SOW-SPK-080"
    assert " STRING" in str(caught.value.hint) or "MAP<STRING" in str(caught.value.hint)


def test_other_types_are_taken() -> None:
    for kind in (t.DecimalType(38, 9), t.TimestampNTZType(), t.BinaryType(), t.MapType(t.StringType(), t.ByteType())):
        assert build_arrow_schema(declared(kind), STORE_COLUMNS).names == ["payload"]


@pytest.mark.parametrize("levels", [255, 256, 400])
def test_a_type_deeper_than_messages_is_refused(levels: int) -> None:
    kind: t.DataType = t.LongType()
    for _ in range(levels):
        kind = t.ArrayType(kind)
    fields = t.StructType([t.StructField("a", kind)])
    if levels == 255:
        check_fields(fields)
        return
    with pytest.raises(UsageError) as found:
        check_fields(fields)
    assert found.value.code == "SOW-SPK-080"
    assert len(str(found.value)) < 200
