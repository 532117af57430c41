"""What jobs write: data sets of Parquet, ORC, NDJSON and CSV, or one ``.sow`` file (``sowctl-pipeline(1)``, OUTPUT).

Data sets are directories that Spark writes; nothing of one can be seen before the job is committed. Without
partitioning their files hold the records in key order, file after file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from sowctl.engine.instance import Instance
from sowctl.engine.rebuild import append_sorted
from sowctl.engine.records import batch_of
from sowctl.errors import RefusedError, UsageError
from sowctl.output.ndjson import json_values
from sowctl.spark.errors import translated
from sowctl.spark.jobs.pairfiles import read_pairs, write_pairs
from sowctl.spark.jobs.tasks import attempt, describe, frame_of, run
from sowctl.store.codec import HEADER_SIZE, payloads, stamps
from sowctl.store.replace import build
from sowctl.tuples import NamedTuple
from sowctl.values.paths import Path as FieldPath
from sowctl.values.paths import parse_path

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from sowctl.engine.sources import Pairs
    from sowctl.messages.base import MessageType
    from sowctl.store.meta import Definition
    from sowctl.store.write import WriteTxn

FORMATS = ("parquet", "orc", "ndjson", "csv", "sow")
COLUMNS = (
    "_sow_key DECIMAL(20,0), _txid BIGINT, _timestamp TIMESTAMP, _expiration TIMESTAMP, _topic STRING, "
    "_logical_topic STRING, _user_key STRING, _correlation_id STRING"
)
_HEADER = [("flags", "<u2"), ("extra", "<u2"), ("txid", "<i8"), ("time", "<i8"), ("expiration", "<i8"), ("check", "V8")]
SAMPLES = 1000


class Part(Protocol):
    """A part of a topic's records that a task reads by itself; parts in their order have them in key order."""

    def pairs(self) -> Iterator[Pairs]:
        """Keys and stored values."""
        ...


@dataclass(frozen=True, slots=True)
class Output:
    """Where to write and how. ``format`` None: told by the ending, ``.sow`` a store, else Parquet.

    ``partition_by`` are paths of fields whose values make directories. ``fields`` is the DDL of the message's fields as
    columns, "" to infer it, None for the message's bytes; CSV always has fields. ``meta``: NDJSON lines are envelopes.
    ``force`` replaces what is there. ``writer`` are options of Spark's writer.
    """

    path: str
    format: str | None = None
    partition_by: tuple[str, ...] = ()
    fields: str | None = None
    meta: bool = False
    force: bool = False
    writer: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The format. Raises UsageError ``SOW-SPK-063``."""
        ending = Path(self.path).suffix.lower().removeprefix(".")
        kind = self.format or (ending if ending in FORMATS else "parquet")
        if kind not in FORMATS:
            raise UsageError("SOW-SPK-063", f"there is no output format {kind!r}", hint="one of " + ", ".join(FORMATS))
        if kind == "sow" and self.partition_by:
            raise UsageError("SOW-SPK-063", "a .sow file has no partitions", hint="leave --partition-by out")
        return kind

    def check(self) -> None:
        """Raise RefusedError ``SOW-SPK-064`` where something is there already."""
        local = self.local
        if local is not None and local.exists() and not self.force:
            raise RefusedError("SOW-SPK-064", "the output exists already", place=self.path, hint="--force replaces it")
        if self.kind == "sow" and local is None:
            raise UsageError("SOW-SPK-063", "a .sow file is written to a local path", place=self.path)

    @property
    def local(self) -> Path | None:
        """The path, where it is one of this machine."""
        if "://" in self.path and not self.path.startswith("file:"):
            return None
        return Path(self.path.removeprefix("file://").removeprefix("file:"))


class Written(NamedTuple):
    """Records and bytes of payload written, tasks that wrote them."""

    records: int
    bytes: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What a task makes of records: of which topic, as which columns."""

    topic: str
    message_type: str
    instance: Instance
    form: str
    meta: bool
    partition_by: tuple[FieldPath, ...]


def write_records(
    spark: SparkSession, instance: Instance, ref: tuple[str, str], parts: Sequence[Part], output: Output
) -> Written:
    """Write the records of ``parts`` as a data set (not ``.sow``). Raises what reading them raises."""
    frame = records_frame(spark, instance, ref, parts, output)
    return write_frame(frame, output, f"write {output.path}")


def records_frame(
    spark: SparkSession, instance: Instance, ref: tuple[str, str], parts: Sequence[Part], output: Output
) -> DataFrame:
    """The records as they are to be written: NDJSON lines, or columns."""
    paths = tuple(parse_path(text) for text in output.partition_by)
    form = "lines" if output.kind == "ndjson" else "columns"
    shape = Shape(ref[0], ref[1], _portable(instance), form, output.meta, paths)
    columns = "_payload_bytes BIGINT, " + ("value BINARY" if form == "lines" else f"payload BINARY, {COLUMNS}")
    if form == "columns" and (output.fields is not None or output.kind == "csv"):
        kind = instance.type_of(ref[1])
        ddl = output.fields or _inferred(parts, kind)
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

    describe(frame.sparkSession, what)
    seen = Observation()
    partitions = frame.rdd.getNumPartitions()
    counted = frame.observe(
        seen, f.count(f.lit(1)).alias("records"), f.coalesce(f.sum("_payload_bytes"), f.lit(0)).alias("bytes")
    ).drop("_payload_bytes")
    kind = output.kind
    names = [name_of(parse_path(text)) if text.startswith("/") else text for text in output.partition_by]
    if kind == "ndjson":
        counted = counted.select(f.col("value").cast("string"), *[f.col(f"`{name}`") for name in names])
    elif kind == "csv":
        counted = _flat(counted, names)
    given = {name.lower(): text for name, text in output.writer.items()}
    if kind == "csv":
        given = {"header": "true", "escape": '"', **given}  # quotes are doubled, as other programs expect
    writer = counted.write.mode("overwrite" if output.force else "errorifexists").options(**given)
    if names:
        writer = writer.partitionBy(*names)
    with translated():
        writer.format("text" if kind == "ndjson" else kind).save(output.path)
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


def _inferred(parts: Sequence[Part], kind: MessageType) -> str:
    from sowctl.spark.inference import infer

    for part in parts:
        for _, values in part.pairs():
            if values:
                return infer(kind.view(payload) for payload in payloads(values)[:SAMPLES])
    return "STRUCT<`payload`: STRING>"


def _portable(instance: Instance) -> Instance:
    """The instance as executors need it: configuration and a clock that stands."""
    return Instance(instance.config, partial(int, instance.now))


class _Rows:
    """Turns the records of a part into Arrow batches, on an executor."""

    def __init__(self, shape: Shape, columns: str) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        self.shape = shape
        self.schema = to_arrow_schema(cast(StructType, StructType.fromDDL(columns)), timezone="UTC")

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
    shape: Shape,
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


def _lines(shape: Shape, kind: MessageType, keys: list[bytes], values: list[bytes], messages: list[bytes]) -> list[Any]:
    import pyarrow as pa

    batch = batch_of(shape.topic, kind, keys, values)
    return [pa.array(json_values(batch, meta=shape.meta), pa.binary())]


class _Columns:
    """The message and its metadata as columns."""

    def __init__(self, shape: Shape, kind: MessageType, schema: pyarrow.Schema) -> None:
        import pyarrow.types as t

        self._decoder: Any = None
        if t.is_struct(schema.field("payload").type):
            from sowctl.spark.decoding import StructDecoder

            self._decoder = StructDecoder(schema.field("payload").type)

    def __call__(
        self, shape: Shape, kind: MessageType, keys: list[bytes], values: list[bytes], messages: list[bytes]
    ) -> list[Any]:
        import numpy as np
        import pyarrow as pa

        from sowctl.spark import arrays

        heads = np.frombuffer(b"".join([value[:HEADER_SIZE] for value in values]), _HEADER)
        records = batch_of(shape.topic, kind, keys, values).records
        extra = heads["extra"].any()
        return [
            pa.array(messages, pa.binary()) if self._decoder is None else self._decoder.array(messages, kind),
            arrays.decimals(np.frombuffer(b"".join(keys), ">u8")),
            arrays.longs(heads["txid"]),
            arrays.instants(heads["time"]),
            arrays.stamps(heads["expiration"]),
            arrays.constant(shape.topic, len(keys)),
            pa.array([one.logical_topic for one in records] if extra else [None] * len(keys), pa.string()),
            pa.array([one.user_key for one in records] if extra else [None] * len(keys), pa.string()),
            pa.array([one.correlation_id for one in records] if extra else [None] * len(keys), pa.string()),
        ]


@dataclass(frozen=True, slots=True)
class _File:
    """A sorted file that a task left, and what stands in it."""

    path: str
    records: int
    last_txid: int
    last_time: int


def write_store(
    spark: SparkSession, instance: Instance, parts: Sequence[Part], output: Output, definition: Definition, place: Path
) -> Written:
    """Write the records of ``parts`` into a new store: the records alone. ``place`` is a staging directory."""
    files = run(spark, list(parts), _Sorted(str(place)), what=f"gather {output.path}")
    path = Path(output.path)
    with build(path, definition, seam=instance.seam, now=instance.now, command=instance.holder) as builder:
        for file in files:
            append_sorted(builder, read_pairs(Path(file.path)))

        def position(txn: WriteTxn) -> None:
            txn.set_applied(bytes(16), max((file.last_txid for file in files), default=0))
            txn.raise_last_time(max((file.last_time for file in files), default=0))

        builder.flush()
        builder.change(position)
        builder.put_in_place(wait=instance.lock_wait)
        meta = builder.meta
    return Written(meta.records, meta.payload_bytes, len(parts))


class _Sorted:
    """Leaves the records of a part in a file, on an executor."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __call__(self, part: Part) -> _File:
        path = Path(self.directory) / f"part-{attempt()}"
        txid = time = 0

        def watched() -> Iterator[Pairs]:
            nonlocal txid, time
            for keys, values in part.pairs():
                for value in values:
                    one, at = stamps(value)
                    txid, time = max(txid, one), max(time, at)
                yield keys, values

        count, _ = write_pairs(path, watched())
        return _File(str(path), count, txid, time)
