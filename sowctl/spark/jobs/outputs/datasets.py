"""Data sets of Parquet, ORC, NDJSON, CSV and lake tables: convert records to rows, and write them.

Called by the jobs that export topics and journals, take snapshots and compute views. ``sowctl-pipeline(1)``, OUTPUT,
documents the columns. Readers see no part of a data set before the job is committed. Without partitioning, the records
are in key order within and across files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from pyspark import RDD

from sowctl.arrow.evolution import build_distinct_ddl
from sowctl.arrow.inference import Inference, build_misfit_error
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.engine.instance import Instance
from sowctl.engine.records import build_record_batch
from sowctl.output.ndjson import encode_values
from sowctl.remote.place import parse_url
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs.outputs.delivery import (
    discard_if_failed,
    format_spark_path,
    is_unreachable,
    require_reachable,
)
from sowctl.spark.jobs.outputs.lakes import require_lake
from sowctl.spark.jobs.outputs.output_spec import Output, Part, WriteTotals
from sowctl.spark.jobs.outputs.partfiles import build_part_format
from sowctl.spark.jobs.outputs.remote_datasets import find_directory_columns, require_free, send_parts
from sowctl.spark.jobs.progress import BYTES_COLUMN
from sowctl.spark.jobs.state import FoldedState
from sowctl.spark.jobs.tasks import TaskRows, carry_iterator, collect_frame, describe_stages, run_tasks
from sowctl.spark.schema import check_fields
from sowctl.store.codec import HEADER_DTYPE, extract_headers, extract_payloads
from sowctl.values.paths import Path as FieldPath
from sowctl.values.paths import parse_path

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.messages.base import MessageType
    from sowctl.values.topicref import TopicRef

METADATA_DDL = (
    "_sow_key DECIMAL(20,0), _txid BIGINT, _timestamp TIMESTAMP, _expiration TIMESTAMP, _topic STRING, "
    "_logical_topic STRING, _user_key STRING, _correlation_id STRING"
)


class DatasetLayout(Struct, frozen=True):
    """Layout of the rows into which tasks convert records: topic, columns and partitioning."""

    topic: str
    message_type: str
    instance: Instance
    form: str
    meta: bool
    partition_by: tuple[FieldPath, ...]
    inferred: bool = False


Parts = Sequence[Part] | RDD[Any]
"""Parts in key order: a sequence, each read by a separate task, or an RDD, computed by tasks."""


def write_records(spark: SparkSession, instance: Instance, ref: TopicRef, parts: Parts, output: Output) -> WriteTotals:
    """Write the records of ``parts`` as a data set (not ``.sow``). Raises what reading them raises."""
    require_writable(spark, output)
    rows = build_record_rows(spark, instance, ref, parts, output)
    return write_rows(rows, output, f"write {output.label}")


def write_state(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    state: Sequence[Part] | FoldedState,
    output: Output,
) -> WriteTotals:
    """Like :func:`write_records`, for a state; tasks of a fold write their records directly to the data set."""
    ref = topic.ref
    if not isinstance(state, FoldedState):
        return write_records(spark, instance, ref, state, output)
    streamed = state.stream_parts()
    written = write_records(spark, instance, ref, [] if streamed is None else streamed, output)
    state.report_gaps()
    return written


def build_record_rows(
    spark: SparkSession, instance: Instance, ref: TopicRef, parts: Parts, output: Output
) -> TaskRows[Any]:
    """Return the records as rows to write: NDJSON lines, or columns."""
    paths = tuple(parse_path(text) for text in output.partition_by)
    form = "lines" if output.kind == "ndjson" else "columns"
    shape = DatasetLayout(
        ref.name, ref.message_type, freeze_instance(instance), form, output.meta, paths, inferred=not output.fields
    )
    columns = "_payload_bytes BIGINT, " + ("value BINARY" if form == "lines" else f"payload BINARY, {METADATA_DDL}")
    if form == "columns" and (output.fields is not None or output.kind == "csv"):
        # CSV has no binary type, so its messages are always fields, which are inferred if none are declared.
        ddl = output.fields or _infer_fields(spark, parts, shape)
        columns = f"_payload_bytes BIGINT, payload {_struct(ddl)}, {METADATA_DDL}"
    columns += "".join(f", `{format_column_name(path)}` STRING" for path in paths)
    return TaskRows(spark, parts, _Rows(shape, columns), columns)


def require_writable(spark: SparkSession, output: Output) -> None:
    """Check before reading that an output can be written. Raises UsageError ``SOW-SPK-114`` and ``SOW-SPK-140`` for
    lakes, RefusedError ``SOW-SPK-064`` if an output at a URL unknown to Spark exists."""
    beyond = is_unreachable(spark, output)
    if beyond:
        # Checked first, because installing the package of a lake would not help.
        require_reachable(output)
    require_lake(spark, output.kind)
    if beyond:
        require_free(parse_url(output.path), force=output.force)


def format_column_name(path: FieldPath) -> str:
    """Return the name of the column for a field."""
    return "_".join(step.name for step in path.steps)


def write_rows(rows: TaskRows[Any], output: Output, what: str) -> WriteTotals:
    """Write rows, for example of :func:`build_record_rows`, and return the totals. ``what`` describes the stage."""
    spark = rows.spark
    require_writable(spark, output)
    describe_stages(spark, what)
    # A path refers to a field of the message, for which the rows have a column; other texts are names of columns.
    names = [format_column_name(parse_path(text)) if text.startswith("/") else text for text in output.partition_by]
    if not is_unreachable(spark, output):
        return WriteTotals(*_write_with_spark(rows.build_frame(), names, output), rows.partitions)
    if names or output.kind == "csv":
        return WriteTotals(*_write_formatted(rows.build_frame(), names, output), rows.partitions)
    return WriteTotals(*_write_to_url(rows, output), rows.partitions)


def _write_with_spark(frame: DataFrame, names: Sequence[str], output: Output) -> tuple[int, int]:
    """Write with Spark's writers; returns the number of records, and bytes of messages."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    spark = frame.sparkSession

    # Counted while the rows are written; a separate count would read everything twice.
    seen = Observation()
    counted = frame.observe(
        seen, f.count(f.lit(1)).alias("records"), f.coalesce(f.sum(BYTES_COLUMN), f.lit(0)).alias("bytes")
    ).select(*[column.alias(name) for name, column in _columns(frame, names, output).items()])
    kind, given = output.kind, _options(output)
    if output.table_name is not None:
        table = counted.writeTo(output.table_name).using(kind).options(**given)
        if names:
            table = table.partitionedBy(*[f.col(f"`{name}`") for name in names])
        with translate_errors():
            (table.createOrReplace if output.force else table.create)()
    else:
        writer = counted.write.mode("overwrite" if output.force else "errorifexists").options(**given)
        if names:
            writer = writer.partitionBy(*names)
        with discard_if_failed(spark, output), translate_errors():
            # Each value is already a complete line; Spark's JSON writer would format the messages again.
            writer.format("text" if kind == "ndjson" else kind).save(format_spark_path(output))
    return int(seen.get["records"]), int(seen.get["bytes"])


def _write_to_url(rows: TaskRows[Any], output: Output) -> tuple[int, int]:
    """Write to a URL that Spark's writers do not support, in the tasks that produce the rows; returns the number of
    records, and bytes of messages.

    The rows do not pass through Spark: for Parquet, this uses half to two thirds of the CPU time of Spark's writers.
    """
    from pyspark.sql.types import StructType

    columns = [one for one in cast(StructType, StructType.fromDDL(rows.schema)).fields if one.name != BYTES_COLUMN]
    if output.kind == "ndjson":
        columns = [one for one in columns if one.name == "value"]
    form = build_part_format(rows.spark, output.kind, _options(output), StructType(columns))
    return send_parts(rows.spark, rows.collect_results, form, parse_url(output.path), force=output.force)


def _write_formatted(frame: DataFrame, names: Sequence[str], output: Output) -> tuple[int, int]:
    """Like :func:`_write_to_url`, for rows that Spark formats as CSV, or sorts by directory."""
    from pyspark.sql import functions as f

    spark, kind, options = frame.sparkSession, output.kind, _options(output)
    columns = _columns(frame, names, output)
    shape = frame.select(*[column.alias(name) for name, column in columns.items()]).schema
    names = find_directory_columns(spark, shape, names)
    # NULL and an empty text have the same directory, so they are made equal, to be adjacent after sorting.
    values = [f.nullif(columns.pop(name).cast("string"), f.lit("")) for name in names]
    data, header = [column.alias(name) for name, column in columns.items()], None
    if kind == "csv":
        # Spark's own function formats the lines, so that all options have the same effect as in its writer.
        data = [f.to_csv(f.struct(*data), options).alias("line")]
        header = _header(spark, tuple(columns), options)
    form = build_part_format(spark, kind, options, frame.select(*data).schema, header)
    # Columns of directories are named by position, because fields of messages may have any name.
    chosen = frame.select(BYTES_COLUMN, *data, *[value.alias(f"_{place}") for place, value in enumerate(values)])
    if values:
        # Sorted, so that only one file is open at a time, as in Spark's writers.
        chosen = chosen.sortWithinPartitions(*chosen.columns[-len(values) :])
    return send_parts(spark, partial(collect_frame, chosen), form, parse_url(output.path), names, force=output.force)


def _options(output: Output) -> dict[str, str]:
    """Return the options for Spark's writer, including defaults for CSV."""
    given = {name.lower(): text for name, text in output.writer.items()}
    if output.kind != "csv":
        return given
    # By default, Spark does not double quotes, as other programs expect, and removes spaces around values.
    spaces = {"ignoreleadingwhitespace": "false", "ignoretrailingwhitespace": "false"}
    return {"header": "true", "escape": '"', **spaces, **given}


def _header(spark: SparkSession, names: Sequence[str], options: dict[str, str]) -> str | None:
    """Return the header line of CSV files, None if the options exclude it."""
    from pyspark.sql import functions as f

    if options["header"].lower() != "true":
        return None
    row = f.struct(*[f.lit(name).alias(f"c{place}") for place, name in enumerate(names)])
    return str(spark.range(1).select(f.to_csv(row, options)).collect()[0][0])


def _columns(frame: DataFrame, names: Sequence[str], output: Output) -> dict[str, Column]:
    """Return the columns of files and those that determine directories, by name."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    own = {name: f.col(f"`{name}`") for name in frame.columns if name != BYTES_COLUMN}
    if output.kind == "ndjson":
        return {"value": own["value"].cast("string")} | {name: f.col(f"`{name}`") for name in names}
    struct = frame.schema["payload"].dataType if output.kind == "csv" else None
    if struct is None:
        return own
    if not isinstance(struct, StructType):
        return own | {"payload": own["payload"].cast("string")}
    flat = {}
    for one in struct.fields:
        # The fields of the message become columns; nested fields are encoded as JSON, because CSV has no nested types.
        column = f.col("payload").getField(one.name)
        nested = isinstance(one.dataType, ArrayType | MapType | StructType)
        flat[one.name] = f.to_json(column) if nested else column
    return flat | {name: f.col(f"`{name}`") for name in names if name not in flat}


def _struct(ddl: str) -> str:
    return ddl if ddl.lower().startswith("struct<") else f"STRUCT<{ddl}>"


def _infer_fields(spark: SparkSession, parts: Parts, shape: DatasetLayout) -> str:
    """Infer the fields of all records, as DDL; every task reads its part."""
    found = Inference()
    look, what = _FieldInference(shape), f"read the fields of {shape.topic}"
    if isinstance(parts, Sequence):
        every = run_tasks(spark, parts, look, what=what)
    else:
        describe_stages(spark, what)
        with translate_errors():
            every = parts.mapPartitions(look.infer_parts).collect()
    for seen in every:
        found.merge(seen)
    # Spark cannot write a struct without fields, so records without fields get a column that is always NULL.
    return build_distinct_ddl(found) if found else "STRUCT<`payload`: STRING>"


class _FieldInference:
    """Infers the fields of the records of a part, on an executor."""

    def __init__(self, shape: DatasetLayout) -> None:
        self.shape = shape

    def __call__(self, part: Part) -> Inference:
        kind = self.shape.instance.find_message_type(self.shape.message_type)
        found = Inference(repeatable=kind.repeatable)
        for _, values in part.iterate_pairs():
            found.add(map(kind.members_view, extract_payloads(values)))
        return found

    def infer_parts(self, parts: Iterable[Part]) -> Iterator[Inference]:
        """Infer the fields of all parts of a task."""
        found = Inference()
        for part in parts:
            found.merge(self(part))
        return carry_iterator([found])


def build_text_columns(texts: Any, payload: pyarrow.Array, count: int) -> list[pyarrow.Array]:
    """Return columns with the texts of ``count`` fields, which ``texts`` extracts from messages; NULL if missing."""
    import pyarrow as pa

    found = texts([one or b"" for one in payload.to_pylist()])[0]
    rows = [[None if row is None else row[place] for row in found] for place in range(count)]
    return [
        pa.array([None if one is None else one.decode("utf-8", "replace") for one in row], pa.string()) for row in rows
    ]


def freeze_instance(instance: Instance) -> Instance:
    """Return a copy of the instance for executors, with its configuration and a stopped clock."""
    return Instance(instance.config, partial(int, instance.now))


class _Rows:
    """Converts the records of a part to Arrow batches, on an executor."""

    def __init__(self, shape: DatasetLayout, columns: str) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        self.shape = shape
        declared = cast(StructType, StructType.fromDDL(columns))
        if shape.form == "columns" and isinstance(payload := declared["payload"].dataType, StructType):
            # Checked on the driver, before tasks run: a column with an unsupported type would be NULL in all rows.
            check_fields(payload)
        self.schema = to_arrow_schema(declared, timezone="UTC")

    def __call__(self, part: Part) -> Iterator[pyarrow.RecordBatch]:
        shape, schema = self.shape, self.schema
        kind = shape.instance.find_message_type(shape.message_type)
        texts = kind.build_key_extractor(shape.partition_by) if shape.partition_by else None
        make = _lines if shape.form == "lines" else _Columns(shape, kind, schema)
        for keys, values in part.iterate_pairs():
            if keys:
                yield _batch(schema, shape, kind, texts, make, keys, values)


def _batch(
    schema: pyarrow.Schema,
    shape: DatasetLayout,
    kind: MessageType,
    texts: Any,
    make: Callable[..., list[Any]],
    keys: list[bytes],
    values: list[bytes],
) -> pyarrow.RecordBatch:
    import pyarrow as pa

    messages = extract_payloads(values)
    columns = [pa.array(list(map(len, messages)), pa.int64()), *make(shape, kind, keys, values, messages)]
    if texts is not None:
        found, _ = texts(messages)
        for place in range(len(shape.partition_by)):
            raw = [row[place] if row is not None else None for row in found]
            columns.append(pa.array([None if one is None else one.decode("utf-8", "replace") for one in raw]))
    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _lines(
    shape: DatasetLayout, kind: MessageType, keys: list[bytes], values: list[bytes], messages: list[bytes]
) -> list[Any]:
    import pyarrow as pa

    batch = build_record_batch(shape.topic, kind, keys, values)
    return [pa.array(encode_values(batch, meta=shape.meta), pa.binary())]


class _Columns:
    """Converts messages and their metadata to columns."""

    def __init__(self, shape: DatasetLayout, kind: MessageType, schema: pyarrow.Schema) -> None:
        import pyarrow.types as t

        self._decoder: Any = None
        if t.is_struct(schema.field("payload").type):
            from sowctl.arrow.struct_decoder import StructDecoder

            self._decoder = StructDecoder(schema.field("payload").type, strict=shape.inferred)

    def __call__(
        self, shape: DatasetLayout, kind: MessageType, keys: list[bytes], values: list[bytes], messages: list[bytes]
    ) -> list[Any]:
        import numpy as np
        import pyarrow as pa

        from sowctl.arrow import arrays

        heads = np.frombuffer(extract_headers(values), HEADER_DTYPE)
        records = build_record_batch(shape.topic, kind, keys, values).records
        # The length of the optional texts of a record. If it is 0 for the entire batch, the three columns are NULL.
        extra = heads["extra"].any()
        return [
            pa.array(messages, pa.binary()) if self._decoder is None else self._structs(shape, kind, keys, messages),
            arrays.build_decimals(np.frombuffer(b"".join(keys), ">u8")),
            arrays.build_longs(heads["txid"]),
            arrays.build_timestamps(heads["time"]),
            arrays.build_expirations(heads["expiration"]),
            arrays.build_constant(shape.topic, len(keys)),
            pa.array([one.logical_topic for one in records] if extra else [None] * len(keys), pa.string()),
            pa.array([one.user_key for one in records] if extra else [None] * len(keys), pa.string()),
            pa.array([one.correlation_id for one in records] if extra else [None] * len(keys), pa.string()),
        ]

    def _structs(
        self, shape: DatasetLayout, kind: MessageType, keys: list[bytes], messages: list[bytes]
    ) -> pyarrow.Array:
        try:
            return self._decoder.decode_payloads(messages, kind)
        except Misfit as problem:
            place = f"record {int.from_bytes(keys[problem.row], 'big')} of topic {shape.topic}"
            hint = (
                "to read mismatched values as null, declare the fields with --fields; without fields, "
                "messages are bytes"
            )
            raise build_misfit_error(problem, place, hint) from None
