"""Topics as tables with only the fields that a query needs (sowctl-spark(7), READING ONLY WHAT IS NEEDED).

Spark does not tell a Python data source which columns and fields a query uses, so the source decodes all declared ones.
For Parquet files, Spark's optimizer prunes columns, and its plan lists those that it reads. So a query is planned first
over an empty directory of Parquet files, and the source then reads the columns of that plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

from sowctl.errors import UsageError
from sowctl.spark.catalog import is_mark_column
from sowctl.spark.reading.malformed_messages import MODE_OPTIONS
from sowctl.spark.schema import INFERRED_COMMENT, METADATA_COLUMNS, PAYLOAD_COLUMN
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_PROBE_PREFIX = "sowctl_probe_"
"""Prefix of the column names in the empty files; no field has such a name."""
_PROBE_PATTERN = re.compile(rf"\b{_PROBE_PREFIX}(\d+):")
_SCAN_LINE_START = "ReadSchema: "
"""Prefix of the line in Spark's plan that lists the columns of a scan."""
_MODE_NAMES = frozenset(name.lower() for name in MODE_OPTIONS)
_PATH_STEP_PATTERN = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_DEFAULT_COLUMN = "_txid"
"""The column that is read if a query uses none, for example to count rows."""


class TableColumn(DescribedStruct, frozen=True):
    """A column of a table: a field of the message, given by its path, or a column of the source, with one step."""

    steps: tuple[str, ...]
    type: DataType
    is_field: bool

    @property
    def name(self) -> str:
        """The name of the column: its last step, as in Spark's own selections."""
        return self.steps[-1]


def read_table(
    spark: SparkSession,
    topic: str,
    query: Callable[[DataFrame], DataFrame] | None,
    source: str,
    select: Sequence[str] | None,
    options: dict[str, str],
) -> DataFrame:
    """Return the table of a topic, or the result of ``query`` on it. See :func:`sowctl.spark.table`."""
    given = {"topic": topic} | options
    names = {name.lower() for name in given}
    if not names & {"payload", "payloadschema"}:
        given["payload"] = "struct"
    whole = spark.read.format(source).options(**given).load()
    columns = _list_columns(whole.schema)
    if select is not None:
        columns = [_find_column(columns, text) for text in select]
    needed = columns if query is None else _find_needed_columns(spark, columns, query)
    if {one.steps for one in needed} >= {one.steps for one in _list_columns(whole.schema)}:
        frame = whole
    else:
        schema = _narrow_schema(whole.schema, needed)
        if PAYLOAD_COLUMN not in schema.names:
            # Without a payload column, no message is decoded and the mode options would be an error.
            given = {name: text for name, text in given.items() if name.lower() not in _MODE_NAMES}
        elif "mode" not in names and _is_inferred(whole.schema):
            # As for all inferred fields, a value of another type is an error; fields that are not read are not checked.
            given["mode"] = "FAILFAST"
        frame = spark.read.format(source).options(**given).schema(schema).load()
    found = _select_columns(frame, columns, needed)
    return found if query is None else query(found)


def _list_columns(schema: StructType) -> list[TableColumn]:
    """Return the fields of the message, then the other columns of the source whose names no field has."""
    from pyspark.sql.types import StructType

    found = []
    for field in schema.fields:
        if field.name == PAYLOAD_COLUMN and isinstance(field.dataType, StructType):
            found = [TableColumn((one.name,), one.dataType, True) for one in field.dataType.fields]
    taken = {one.name.lower() for one in found}
    for field in schema.fields:
        is_struct = field.name == PAYLOAD_COLUMN and isinstance(field.dataType, StructType)
        if not is_struct and field.name.lower() not in taken and not is_mark_column(field.name):
            found.append(TableColumn((field.name,), field.dataType, False))
    return found


def _find_column(columns: Iterable[TableColumn], text: str) -> TableColumn:
    """Return the column with a name such as ``trader.id``. Raises UsageError ``SOW-SPK-015`` if it does not exist."""
    from pyspark.sql.types import ArrayType, StructType

    steps = tuple((quoted.replace("``", "`") or plain) for quoted, plain in _PATH_STEP_PATTERN.findall(text))
    known = {one.name: one for one in columns}
    if steps and (first := known.get(steps[0])) is not None:
        kind, in_array = first.type, False
        for step in steps[1:]:
            if isinstance(kind, ArrayType):
                kind, in_array = kind.elementType, True
            if not isinstance(kind, StructType) or step not in kind.names:
                break
            kind = kind[step].dataType
        else:
            return TableColumn(steps, ArrayType(kind) if in_array else kind, first.is_field)
    raise UsageError("SOW-SPK-015", f"unknown column {text!r}", hint="columns: " + ", ".join(known))


def _find_needed_columns(
    spark: SparkSession, columns: Sequence[TableColumn], query: Callable[[DataFrame], DataFrame]
) -> list[TableColumn]:
    """Return the columns that Spark reads for a query, according to its plan over files without rows."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    schema = StructType([StructField(f"{_PROBE_PREFIX}{place}", one.type) for place, one in enumerate(columns)])
    view = f"{_PROBE_PREFIX}{uuid4().hex}"
    with TemporaryDirectory(prefix=_PROBE_PREFIX) as directory:
        probe = spark.read.schema(schema).parquet(Path(directory).as_uri())
        probe = probe.select(*[f.col(f"{_PROBE_PREFIX}{n}").alias(one.name) for n, one in enumerate(columns)])
        built = query(probe)
        if not hasattr(built, "createTempView"):
            raise TypeError(f"query returned {type(built).__name__}, not a DataFrame")
        # The columns of a view must have distinct names.
        built.toDF(*[f"c{place}" for place in range(len(built.columns))]).createTempView(view)
        try:
            ((plan,),) = spark.sql(f"EXPLAIN FORMATTED SELECT * FROM {view}").collect()
        finally:
            spark.catalog.dropTempView(view)
    lines = [line for line in plan.splitlines() if line.startswith(_SCAN_LINE_START)]
    places = {int(number) for line in lines for number in _PROBE_PATTERN.findall(line)}
    return [columns[place] for place in sorted(places)]


def _narrow_schema(schema: StructType, needed: Sequence[TableColumn]) -> StructType:
    """Return the schema of the source, reduced to the needed columns and fields."""
    from pyspark.sql.types import StructField, StructType

    paths = [one.steps for one in needed if one.is_field]
    names = {one.name for one in needed if not one.is_field}
    # Whether the column of malformed messages is filled depends on all declared fields.
    is_whole = not names <= METADATA_COLUMNS
    fields = []
    for field in schema.fields:
        if field.name == PAYLOAD_COLUMN and isinstance(field.dataType, StructType):
            if is_whole:
                fields.append(field)
            elif paths:
                comment = {} if _is_inferred(schema) else field.metadata
                fields.append(StructField(PAYLOAD_COLUMN, _narrow_type(field.dataType, paths), True, comment))
        elif field.name in names or is_mark_column(field.name):
            fields.append(field)
    return StructType(fields or [schema[_DEFAULT_COLUMN]])


def _narrow_type(kind: DataType, paths: Sequence[tuple[str, ...]]) -> DataType:
    """Return the type with only the fields at ``paths``; an empty path selects the whole type."""
    from pyspark.sql.types import ArrayType, StructField, StructType

    if () in paths:
        return kind
    if isinstance(kind, ArrayType):
        return ArrayType(_narrow_type(kind.elementType, paths), kind.containsNull)
    assert isinstance(kind, StructType)
    fields = []
    for field in kind.fields:
        inner = [path[1:] for path in paths if path[0] == field.name]
        if inner:
            fields.append(StructField(field.name, _narrow_type(field.dataType, inner), True))
    return StructType(fields)


def _select_columns(frame: DataFrame, columns: Sequence[TableColumn], needed: Sequence[TableColumn]) -> DataFrame:
    """Select the columns of a table; those that are not needed are NULL, so that the columns keep their positions."""
    from pyspark.sql import functions as f

    there = {one.steps for one in needed}
    found = []
    for one in columns:
        if one.steps not in there:
            found.append(f.lit(None).cast(one.type).alias(one.name))
            continue
        steps = (PAYLOAD_COLUMN, *one.steps) if one.is_field else one.steps
        found.append(f.col(".".join("`" + step.replace("`", "``") + "`" for step in steps)).alias(one.name))
    return frame.select(*found)


def _is_inferred(schema: StructType) -> bool:
    metadata = schema[PAYLOAD_COLUMN].metadata if PAYLOAD_COLUMN in schema.names else None
    return (metadata or {}).get("comment") == INFERRED_COMMENT
