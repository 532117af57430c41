"""Data sets of Parquet, ORC, NDJSON and CSV: records as rows, and the directories that Spark writes of them.

Called by the jobs that export topics and journals, take snapshots and compute views; the columns are those of
``sowctl-pipeline(1)``, OUTPUT. Nothing of a data set can be seen before the job is committed. Without partitioning its
files hold the records in key order, file after file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from pyspark import RDD

from sowctl.arrow.evolution import distinct
from sowctl.arrow.inference import Inference, misfit_error
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.engine.instance import Instance
from sowctl.engine.records import batch_of
from sowctl.output.ndjson import json_values
from sowctl.spark.errors import translated
from sowctl.spark.jobs.outputs.delivery import delivered
from sowctl.spark.jobs.outputs.lakes import require_lake
from sowctl.spark.jobs.outputs.place import Output, Part, Written
from sowctl.spark.jobs.state import FoldedState
from sowctl.spark.jobs.tasks import carried_iterator, describe, frame_of, run
from sowctl.spark.schema import check_fields
from sowctl.store.codec import HEADER_SIZE, payloads
from sowctl.values.paths import Path as FieldPath
from sowctl.values.paths import parse_path

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.messages.base import MessageType

COLUMNS = (
    "_sow_key DECIMAL(20,0), _txid BIGINT, _timestamp TIMESTAMP, _expiration TIMESTAMP, _topic STRING, "
    "_logical_topic STRING, _user_key STRING, _correlation_id STRING"
)
# The header of a stored value as numpy reads it, without padding: 36 bytes, sow-store(5).
_HEADER = [("flags", "<u2"), ("extra", "<u2"), ("txid", "<i8"), ("time", "<i8"), ("expiration", "<i8"), ("check", "V8")]


class DataShape(Struct, frozen=True):
    """What a task makes of records: of which topic, as which columns."""

    topic: str
    message_type: str
    instance: Instance
    form: str
    meta: bool
    partition_by: tuple[FieldPath, ...]
    inferred: bool = False


Parts = Sequence[Part] | RDD[Any]
"""Parts that tasks read apart, or that tasks make and hand on, in key order."""


def write_records(
    spark: SparkSession, instance: Instance, ref: tuple[str, str], parts: Parts, output: Output
) -> Written:
    """Write the records of ``parts`` as a data set (not ``.sow``). Raises what reading them raises."""
    require_lake(spark, output.kind)
    frame = records_frame(spark, instance, ref, parts, output)
    return write_frame(frame, output, f"write {output.path}")


def write_state(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    state: Sequence[Part] | FoldedState,
    output: Output,
) -> Written:
    """As :func:`write_records`; a state that has to be folded goes from the tasks of the fold into the data set."""
    ref = topic.name, topic.message_type
    if not isinstance(state, FoldedState):
        return write_records(spark, instance, ref, state, output)
    streamed = state.streamed()
    written = write_records(spark, instance, ref, [] if streamed is None else streamed, output)
    state.told()
    return written


def records_frame(
    spark: SparkSession, instance: Instance, ref: tuple[str, str], parts: Parts, output: Output
) -> DataFrame:
    """The records as they are to be written: NDJSON lines, or columns."""
    paths = tuple(parse_path(text) for text in output.partition_by)
    form = "lines" if output.kind == "ndjson" else "columns"
    shape = DataShape(ref[0], ref[1], portable(instance), form, output.meta, paths, inferred=not output.fields)
    columns = "_payload_bytes BIGINT, " + ("value BINARY" if form == "lines" else f"payload BINARY, {COLUMNS}")
    if form == "columns" and (output.fields is not None or output.kind == "csv"):
        # CSV has no bytes: its messages are always fields, inferred where none are declared.
        ddl = output.fields or _inferred(spark, parts, shape)
        columns = f"_payload_bytes BIGINT, payload {_struct(ddl)}, {COLUMNS}"
    columns += "".join(f", `{name_of(path)}` STRING" for path in paths)
    return frame_of(spark, parts, _Rows(shape, columns), columns)


def name_of(path: FieldPath) -> str:
    """The column for a field."""
    return "_".join(step.name for step in path.steps)


def write_frame(frame: DataFrame, output: Output, what: str) -> Written:
    """Write a frame of :func:`records_frame`, and count what was written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    require_lake(frame.sparkSession, output.kind)
    describe(frame.sparkSession, what)
    # Counted while the rows pass on their way out: a count of its own would read everything twice.
    seen = Observation()
    partitions = frame.rdd.getNumPartitions()
    counted = frame.observe(
        seen, f.count(f.lit(1)).alias("records"), f.coalesce(f.sum("_payload_bytes"), f.lit(0)).alias("bytes")
    ).drop("_payload_bytes")
    kind = output.kind
    # A path names a field of the message, whose column was made with the records; anything else is a column by its
    # name.
    names = [name_of(parse_path(text)) if text.startswith("/") else text for text in output.partition_by]
    if kind == "ndjson":
        counted = counted.select(f.col("value").cast("string"), *[f.col(f"`{name}`") for name in names])
    elif kind == "csv":
        counted = _flat(counted, names)
    given = {name.lower(): text for name, text in output.writer.items()}
    if kind == "csv":
        given = {"header": "true", "escape": '"', **given}  # quotes are doubled, as other programs expect
    if output.table is not None:
        table = counted.writeTo(output.table).using(kind).options(**given)
        if names:
            table = table.partitionedBy(*[f.col(f"`{name}`") for name in names])
        with translated():
            (table.createOrReplace if output.force else table.create)()
        return Written(int(seen.get["records"]), int(seen.get["bytes"]), partitions)
    writer = counted.write.mode("overwrite" if output.force else "errorifexists").options(**given)
    if names:
        writer = writer.partitionBy(*names)
    with delivered(frame.sparkSession, output) as place, translated():
        # Each value is a finished line already; Spark's writer of JSON would format the messages anew.
        writer.format("text" if kind == "ndjson" else kind).save(place.path)
    return Written(int(seen.get["records"]), int(seen.get["bytes"]), partitions)


def _flat(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """The message's fields as columns; nested ones as JSON, as CSV has no others."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    struct = frame.schema["payload"].dataType
    if not isinstance(struct, StructType):
        return frame.withColumn("payload", f.col("payload").cast("string"))
    chosen = []
    for one in struct.fields:
        column = f.col("payload").getField(one.name)
        nested = isinstance(one.dataType, ArrayType | MapType | StructType)
        chosen.append((f.to_json(column) if nested else column).alias(one.name))
    return frame.select(*chosen, *[f.col(f"`{name}`") for name in names if name not in struct.names])


def _struct(ddl: str) -> str:
    return ddl if ddl.lower().startswith("struct<") else f"STRUCT<{ddl}>"


def _inferred(spark: SparkSession, parts: Parts, shape: DataShape) -> str:
    """The fields of all records: every task looks at its part."""
    found = Inference()
    look, what = _Look(shape), f"look at the fields of {shape.topic}"
    if isinstance(parts, Sequence):
        every = run(spark, parts, look, what=what)
    else:
        describe(spark, what)
        with translated():
            every = parts.mapPartitions(look.all).collect()
    for seen in every:
        found.merge(seen)
    # Spark writes no struct without fields, so records without any get a column that stays NULL.
    return distinct(found) if found else "STRUCT<`payload`: STRING>"


class _Look:
    """Looks at the records of a part, on an executor."""

    def __init__(self, shape: DataShape) -> None:
        self.shape = shape

    def __call__(self, part: Part) -> Inference:
        kind = self.shape.instance.type_of(self.shape.message_type)
        found = Inference()
        for _, values in part.pairs():
            found.add(map(kind.view, payloads(values)))
        return found

    def all(self, parts: Iterable[Part]) -> Iterator[Inference]:
        """What is seen in all parts of a task."""
        found = Inference()
        for part in parts:
            found.merge(self(part))
        return carried_iterator([found])


def field_texts(texts: Any, payload: pyarrow.Array, count: int) -> list[pyarrow.Array]:
    """Columns of the texts of ``count`` fields, which ``texts`` takes of messages; NULL where a message has none."""
    import pyarrow as pa

    found = texts([one or b"" for one in payload.to_pylist()])[0]
    rows = [[None if row is None else row[place] for row in found] for place in range(count)]
    return [
        pa.array([None if one is None else one.decode("utf-8", "replace") for one in row], pa.string()) for row in rows
    ]


def portable(instance: Instance) -> Instance:
    """The instance as executors need it: configuration and a clock that stands."""
    return Instance(instance.config, partial(int, instance.now))


class _Rows:
    """Turns the records of a part into Arrow batches, on an executor."""

    def __init__(self, shape: DataShape, columns: str) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        self.shape = shape
        declared = cast(StructType, StructType.fromDDL(columns))
        if shape.form == "columns" and isinstance(payload := declared["payload"].dataType, StructType):
            # On the driver, before a task runs: a type that no message can fill would come out as NULL everywhere.
            check_fields(payload)
        self.schema = to_arrow_schema(declared, timezone="UTC")

    def __call__(self, part: Part) -> Iterator[pyarrow.RecordBatch]:
        shape, schema = self.shape, self.schema
        kind = shape.instance.type_of(shape.message_type)
        texts = kind.key_texts(shape.partition_by) if shape.partition_by else None
        make = _lines if shape.form == "lines" else _Columns(shape, kind, schema)
        for keys, values in part.pairs():
            if keys:
                yield _batch(schema, shape, kind, texts, make, keys, values)


def _batch(
    schema: pyarrow.Schema,
    shape: DataShape,
    kind: MessageType,
    texts: Any,
    make: Callable[..., list[Any]],
    keys: list[bytes],
    values: list[bytes],
) -> pyarrow.RecordBatch:
    import pyarrow as pa

    messages = payloads(values)
    columns = [pa.array(list(map(len, messages)), pa.int64()), *make(shape, kind, keys, values, messages)]
    if texts is not None:
        found, _ = texts(messages)
        for place in range(len(shape.partition_by)):
            raw = [row[place] if row is not None else None for row in found]
            columns.append(pa.array([None if one is None else one.decode("utf-8", "replace") for one in raw]))
    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _lines(
    shape: DataShape, kind: MessageType, keys: list[bytes], values: list[bytes], messages: list[bytes]
) -> list[Any]:
    import pyarrow as pa

    batch = batch_of(shape.topic, kind, keys, values)
    return [pa.array(json_values(batch, meta=shape.meta), pa.binary())]


class _Columns:
    """The message and its metadata as columns."""

    def __init__(self, shape: DataShape, kind: MessageType, schema: pyarrow.Schema) -> None:
        import pyarrow.types as t

        self._decoder: Any = None
        if t.is_struct(schema.field("payload").type):
            from sowctl.arrow.decoding import StructDecoder

            self._decoder = StructDecoder(schema.field("payload").type, strict=shape.inferred)

    def __call__(
        self, shape: DataShape, kind: MessageType, keys: list[bytes], values: list[bytes], messages: list[bytes]
    ) -> list[Any]:
        import numpy as np
        import pyarrow as pa

        from sowctl.arrow import arrays

        heads = np.frombuffer(b"".join([value[:HEADER_SIZE] for value in values]), _HEADER)
        records = batch_of(shape.topic, kind, keys, values).records
        # The length of the texts besides the message: where it is 0 in the whole batch, the three columns are NULL
        # unseen.
        extra = heads["extra"].any()
        return [
            pa.array(messages, pa.binary()) if self._decoder is None else self._structs(shape, kind, keys, messages),
            arrays.decimals(np.frombuffer(b"".join(keys), ">u8")),
            arrays.longs(heads["txid"]),
            arrays.instants(heads["time"]),
            arrays.stamps(heads["expiration"]),
            arrays.constant(shape.topic, len(keys)),
            pa.array([one.logical_topic for one in records] if extra else [None] * len(keys), pa.string()),
            pa.array([one.user_key for one in records] if extra else [None] * len(keys), pa.string()),
            pa.array([one.correlation_id for one in records] if extra else [None] * len(keys), pa.string()),
        ]

    def _structs(self, shape: DataShape, kind: MessageType, keys: list[bytes], messages: list[bytes]) -> pyarrow.Array:
        try:
            return self._decoder.array(messages, kind)
        except Misfit as problem:
            place = f"record {int.from_bytes(keys[problem.row], 'big')} of topic {shape.topic}"
            hint = "--fields declares them: what does not fit is then null; without fields, messages are bytes"
            raise misfit_error(problem, place, hint) from None
