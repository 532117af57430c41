"""Batch reading of a store: key ranges as partitions, Arrow batches out (sowctl-spark(7), THE SOURCE sow).

Runs in Spark's Python processes: planned in one, read in others. LMDB environments are opened inside ``read`` and
closed there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sowctl.arrow import arrays
from sowctl.arrow.inference import misfit_error
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.described import DescribedStruct
from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.search.matcher import Matcher, environment_of
from sowctl.engine.sources.source import Source
from sowctl.identity.keyspace import Bounds, bounds
from sowctl.spark.catalog import is_mark
from sowctl.spark.errors import carried
from sowctl.spark.origin import compiled
from sowctl.spark.reading.malformed import Judged, Judging, Malformed
from sowctl.spark.reading.positions import open_planned, plan_position, ranged
from sowctl.spark.reading.storeplan import StorePlan, plan_store
from sowctl.spark.reading.unseen import as_planned
from sowctl.spark.samecode import SameCode
from sowctl.spark.schema import LOOK_AT_MORE, PAYLOAD, STORE_COLUMNS, arrow_schema, is_inferred, with_corrupt
from sowctl.store.codec import CORRELATION, HEADER_SIZE, LOGICAL_TOPIC, USER_KEY, decode, payloads

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.arrow.decoding import StructDecoder
    from sowctl.spark.origin import Origin

BATCH = 4096
# The header of a stored value as numpy reads it, without padding: 36 bytes, sow-store(5).
_HEADER = [("flags", "<u2"), ("extra", "<u2"), ("txid", "<i8"), ("time", "<i8"), ("expiration", "<i8"), ("check", "V8")]


class StoreQuery(DescribedStruct, frozen=True):
    """What is to be read: the state ``at`` an instant (None: now), the filter's text, into how many partitions."""

    origin: Origin
    at: int | None = None
    filter: str | None = None
    partitions: int | None = None
    malformed: Malformed = Malformed()


class KeyRange(InputPartition):
    """One partition: the keys within ``bounds``, in the state that was planned."""

    def __init__(self, bounds: Bounds, plan: StorePlan) -> None:
        self.bounds = bounds
        self.plan = plan


class StoreReader(SameCode, DataSourceReader):
    """Reads what a :class:`StoreQuery` asks for, in the columns of ``schema``."""

    def __init__(self, query: StoreQuery, schema: StructType) -> None:
        self.query = query
        with carried():
            self._schema = arrow_schema(schema, with_corrupt(STORE_COLUMNS, query.malformed.column))
            # What does not go together is said here and not by every task.
            Judging(query.malformed, self._schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Equal shares of the key space, which hashing fills evenly."""
        with carried():
            if self.query.filter is not None:
                # A faulty filter is reported once here and not by every task.
                compiled(self.query.origin, self.query.filter)
            # The plan fixes one state for all tasks: each opens the store by itself, at another moment.
            plan = plan_store(self.query.origin, self.query.at, self.query.partitions)
            return [KeyRange(edges, plan) for edges in bounds(plan.count)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The records of one partition that match."""
        if isinstance(partition, KeyRange):
            plan = partition.plan
            with carried():
                with as_planned(seen=plan.seen):
                    opened = open_planned(plan.origin, plan.planned, plan.at)
                with closing(opened) as source:
                    yield from self._batches(source, partition)

    def _batches(self, source: Source, partition: KeyRange) -> Iterator[pyarrow.RecordBatch]:
        arrays.keep_memory()
        matcher = matcher_of(self.query, source)
        judging = Judging(self.query.malformed, self._schema)
        made = _Batches(self._schema, matcher, source, judging)
        for keys, values in ranged(source, partition.plan.origin, BATCH, *partition.bounds):
            places = matcher.places(keys, values)
            if len(places) < len(keys):
                # Before columns are made: only records that match are decoded.
                keys, values = [keys[place] for place in places], [values[place] for place in places]
            if keys:
                yield made.batch(keys, values)
        judging.close()


def matcher_of(query: StoreQuery, source: Source) -> Matcher:
    """The engine's own evaluator of the filter over one source. Raises what compiling a filter raises."""
    instance = query.origin.instance()
    topic = query.origin.topic
    kind = instance.type_of(source.message_type)
    # Key fields were taken out of every message when it was published, so all of them can be read; messages with keys
    # of their publishers were stored unseen.
    seen = (topic.key_mode if topic is not None else source.definition.key_mode) == "fields"
    wanted = query.filter is not None and bool(query.filter.strip())
    environment = environment_of(instance) if wanted else None
    functions = functions_of(instance) if wanted else None
    return Matcher(query.filter, kind, source.topic, environment, seen=seen, functions=functions)


_TEXTS = {
    "_logical_topic": (LOGICAL_TOPIC, "logical_topic"),
    "_user_key": (USER_KEY, "user_key"),
    "_correlation_id": (CORRELATION, "correlation_id"),
}
"""Columns of text: the flag of records that have it, and the record's attribute."""


class _Batches:
    """Makes record batches of stored values."""

    def __init__(self, schema: pyarrow.Schema, matcher: Matcher, source: Source, judging: Judging) -> None:
        import pyarrow.types as t

        self._judging = judging

        self._schema = schema
        self._kind = matcher.type
        self._topic = source.topic
        self._decoder: StructDecoder | None = None
        if not judging.needed and PAYLOAD in schema.names and t.is_struct(schema.field(PAYLOAD).type):
            from sowctl.arrow.decoding import StructDecoder

            self._decoder = StructDecoder(schema.field(PAYLOAD).type, strict=is_inferred(schema))

    def batch(self, keys: list[bytes], values: list[bytes]) -> pyarrow.RecordBatch:
        """The batch of these records."""
        import numpy as np
        import pyarrow as pa

        # The headers of a batch as one array: columns come out of it without a step per record.
        heads = np.frombuffer(b"".join([value[:HEADER_SIZE] for value in values]), _HEADER)
        judged = self._judged(keys, payloads(values)) if self._judging.needed else None
        columns = []
        for name in self._schema.names:
            if judged is not None and name in (PAYLOAD, self._judging.column):
                columns.append(judged.payload if name == PAYLOAD else judged.corrupt)
            elif name == PAYLOAD:
                columns.append(self._messages(keys, payloads(values)))
            elif name == "_sow_key":
                # Keys are stored with the highest byte first, so that the order of bytes is that of numbers.
                columns.append(arrays.decimals(np.frombuffer(b"".join(keys), ">u8")))
            elif name == "_txid":
                columns.append(arrays.longs(heads["txid"]))
            elif name == "_timestamp":
                columns.append(arrays.instants(heads["time"]))
            elif name == "_expiration":
                columns.append(arrays.stamps(heads["expiration"]))
            elif name == "_topic":
                columns.append(arrays.constant(self._topic, len(keys)))
            elif is_mark(name):
                columns.append(pa.nulls(len(keys), pa.string()))
            else:
                flag, part = _TEXTS[name]
                columns.append(arrays.texts(_parts(keys, values, heads["flags"] & flag, part), len(keys)))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return batch if judged is None or judged.kept is None else batch.filter(pa.array(judged.kept))

    def _messages(self, keys: list[bytes], messages: list[bytes]) -> pyarrow.Array:
        import pyarrow as pa

        if self._decoder is None:
            return pa.array(messages, pa.binary())
        try:
            return self._decoder.array(messages, self._kind)
        except Misfit as problem:
            raise misfit_error(problem, self._place(keys, problem.row), LOOK_AT_MORE) from None

    def _judged(self, keys: list[bytes], messages: list[bytes]) -> Judged:
        try:
            return self._judging.read(messages, self._kind, lambda row: self._place(keys, row))
        except Misfit as problem:
            raise misfit_error(problem, self._place(keys, problem.row), LOOK_AT_MORE) from None

    def _place(self, keys: list[bytes], row: int) -> str:
        return f"record {int.from_bytes(keys[row], 'big')} of topic {self._topic}"


def _parts(keys: list[bytes], values: list[bytes], has: arrays.Numbers, part: str) -> list[bytes | None] | None:
    if not has.any():
        return None
    found: list[bytes | None] = []
    for key, value, there in zip(keys, values, has.tolist(), strict=True):
        # Only the records whose flag says that they have the text are decoded whole.
        record = decode(key, value) if there else None
        found.append(None if record is None else getattr(record, part))
    return found


def sample(query: StoreQuery, count: int | None) -> Iterator[bytes]:
    """JSON views of the first ``count`` records, None for all, for the inference of a schema."""
    position = plan_position(query.origin)
    with closing(open_planned(query.origin, position, query.at)) as source:
        kind = matcher_of(replace(query, filter=None), source).type
        batches = source.batches(BATCH if count is None else min(count, BATCH))
        yield from islice((kind.view(payload) for _, values in batches for payload in payloads(values)), count)
