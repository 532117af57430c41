"""Readers called as Spark calls them, and messages decoded as they do it, but in this process."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType, _parse_datatype_string

from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.messages.types import get_type
from sowctl.spark.sources import JournalSource, SowSource
from sowctl.values.times import format_time
from tests.support.instances import Lab

ISO = "%Y-%m-%dT%H:%M:%S.%fZ"


def source(lab: Lab, kind: type[DataSource] = SowSource, /, **options: object) -> DataSource:
    """A data source with these options, at the time of the instance."""
    given = {"config": str(lab.config), "now": format_time(lab.clock.at)} | options
    return kind({name: str(value) for name, value in given.items() if value is not None})


def journal(lab: Lab, **options: object) -> DataSource:
    """The data source of a journal."""
    return source(lab, JournalSource, **options)


def schema_of(one: DataSource, spark: SparkSession) -> StructType:
    """The schema that Spark would ask for; the session is needed to read it."""
    found = _parse_datatype_string(str(one.schema()))
    assert isinstance(found, StructType)
    return found


def reader_of(one: DataSource, spark: SparkSession) -> DataSourceReader:
    """A reader that has travelled."""
    reader: DataSourceReader = pickle.loads(pickle.dumps(one.reader(schema_of(one, spark))))
    return reader


def read(one: DataSource, spark: SparkSession) -> list[dict[str, Any]]:
    """All rows, partition by partition."""
    reader = reader_of(one, spark)
    return rows_of(reader, [pickle.loads(pickle.dumps(part)) for part in reader.partitions()])


def rows_of(reader: DataSourceReader, partitions: list[Any]) -> list[dict[str, Any]]:
    """The rows of some partitions."""
    batches: list[pyarrow.RecordBatch] = [batch for part in partitions for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def decoded(kind: pyarrow.StructType, *payloads: bytes | None) -> list[Any]:
    """JSON messages as values of a struct type."""
    found: list[Any] = StructDecoder(kind).decode_payloads(payloads, get_type("json")).to_pylist()
    return found
