"""Batch reads of a store as Arrow batches; partitions are key ranges (sowctl-spark(7), THE SOURCE sow).

Runs in Spark's Python processes: one plans, others read. LMDB environments are opened and closed within ``read``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sowctl.arrow import arrays
from sowctl.arrow.inference import SampledView, build_misfit_error
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.sources.past import StateOrigin, plan_past_state
from sowctl.engine.sources.source import Source
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.engine.views.openers import open_target
from sowctl.errors import LockedError, MissingError, StorageError
from sowctl.identity.keyspace import KeyBounds, compute_part_bounds
from sowctl.spark.catalog import is_mark_column
from sowctl.spark.errors import carry_errors
from sowctl.spark.origin import Origin, build_filter
from sowctl.spark.reading.instants import InstantsRange, VersionSpans, plan_instants, read_spans
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.malformed_messages import JudgedBatch, MalformedRule, MessageJudge
from sowctl.spark.reading.missing_files import translate_missing
from sowctl.spark.reading.pinned_state import copy_derived_state, find_copy_place, make_copy, open_former_source
from sowctl.spark.reading.positions import (
    MOVED_CODE,
    PlannedState,
    open_planned_source,
    plan_position,
    read_range,
)
from sowctl.spark.samecode import SameCode
from sowctl.spark.schema import (
    INSTANT_COLUMN,
    INSTANTS_COLUMNS,
    MORE_SAMPLES_HINT,
    PAYLOAD_COLUMN,
    STORE_COLUMNS,
    add_corrupt_column,
    build_arrow_schema,
    is_inferred,
)
from sowctl.store.codec import (
    CORRELATION_FLAG,
    HEADER_DTYPE,
    LOGICAL_TOPIC_FLAG,
    USER_KEY_FLAG,
    decode_record,
    extract_headers,
    extract_payloads,
)
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.arrow.struct_decoder import StructDecoder
    from sowctl.spark.writing.staging import Staging

BATCH_RECORDS = 4096
MAX_REPEATED_ROWS = 16_384
"""Maximum rows of a batch in which records are repeated for several instants."""


class StoreQuery(DescribedStruct, frozen=True):
    """Query for records: the state ``at`` an instant (None: now), the text of the filter, the number of partitions.

    ``pinned``: tasks read a copy of the state, which is created when the query is planned. ``instants``: several
    instants, ascending, instead of ``at``.
    """

    origin: Origin
    at: int | None = None
    filter: str | None = None
    partitions: int | None = None
    malformed: MalformedRule = MalformedRule()
    pinned: bool = False
    instants: tuple[int, ...] = ()

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that may be selected."""
        known = INSTANTS_COLUMNS if self.instants else STORE_COLUMNS
        return add_corrupt_column(known, self.malformed.column)


class KeyRange(InputPartition):
    """One partition: the keys within ``bounds``, in the planned state."""

    def __init__(self, bounds: KeyBounds, plan: StorePlan) -> None:
        self.bounds = bounds
        self.plan = plan


class StoreReader(SameCode, DataSourceReader):
    """Reads the records of a :class:`StoreQuery` with the columns of ``schema``."""

    def __init__(self, query: StoreQuery, schema: StructType) -> None:
        self.query = query
        with carry_errors():
            self._schema = build_arrow_schema(schema, query.columns)
            # Report incompatible options here, not in every task.
            MessageJudge(query.malformed, self._schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return equal ranges of the key space, in which hashed keys are evenly distributed."""
        with carry_errors():
            if self.query.filter is not None:
                # Report an invalid filter once here, not in every task.
                build_filter(self.query.origin, self.query.filter)
            if self.query.instants:
                found = plan_instants(self.query.origin, self.query.instants, self.query.partitions)
                edges = () if found is None else compute_part_bounds(found.count)
                return [InstantsRange(number, one, found) for number, one in enumerate(edges) if found is not None]
            # The plan fixes one state for all tasks, because each opens the store separately and at another time.
            plan = plan_store(self.query.origin, self.query.at, self.query.partitions, pinned=self.query.pinned)
            if plan is None:
                return []
            return [KeyRange(edges, plan) for edges in compute_part_bounds(plan.count)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the matching records of one partition."""
        if isinstance(partition, KeyRange):
            plan = partition.plan
            with carry_errors():
                with translate_missing():
                    opened = _open_partition(plan)
                with closing(opened) as source:
                    yield from self._batches(source, partition)
        elif isinstance(partition, InstantsRange):
            with carry_errors(), translate_missing():
                yield from self._instants_batches(partition)

    def _batches(self, source: Source, partition: KeyRange) -> Iterator[pyarrow.RecordBatch]:
        matcher = build_matcher(self.query, source)
        judging = MessageJudge(self.query.malformed, self._schema)
        made = RecordBatchBuilder(self._schema, matcher, source.topic, judging)
        yield from read_matching_batches(source, partition.plan.origin, partition.bounds, matcher, made)
        judging.close()

    def _instants_batches(self, partition: InstantsRange) -> Iterator[pyarrow.RecordBatch]:
        """Match and decode each version once, and repeat its row for the instants at which it was current."""
        arrays.keep_memory()
        topic = partition.plan.origin.topic
        assert topic is not None
        matcher = build_topic_matcher(self.query, topic.name, topic.message_type, topic.key_mode)
        judging = MessageJudge(self.query.malformed, self._schema)
        made = RecordBatchBuilder(self._schema, matcher, topic.name, judging, partition.plan.instants)
        for spans in read_spans(partition):
            places = matcher.find_matches(spans.keys, spans.values)
            if places:
                yield from made.build_instant_batches(spans if len(places) == len(spans.keys) else spans.take(places))
        judging.close()


def read_matching_batches(
    source: Source, origin: Origin, bounds: KeyBounds, matcher: Matcher, made: RecordBatchBuilder
) -> Iterator[pyarrow.RecordBatch]:
    """Yield record batches of the matching records of ``origin`` with keys within ``bounds``, in key order."""
    arrays.keep_memory()
    for keys, values in read_range(source, origin, BATCH_RECORDS, *bounds):
        places = matcher.find_matches(keys, values)
        if len(places) < len(keys):
            # Filter before building columns, so that only matching records are decoded.
            keys, values = [keys[place] for place in places], [values[place] for place in places]
        if keys:
            yield made.build_batch(keys, values)


def build_matcher(query: StoreQuery, source: Source) -> Matcher:
    """Return the engine's matcher of the filter for one source. Raises what compiling a filter raises."""
    topic = query.origin.topic
    mode = topic.key_mode if topic is not None else source.definition.key_mode
    return build_topic_matcher(query, source.topic, source.message_type, mode)


def build_topic_matcher(query: StoreQuery, topic: str, message_type: str, key_mode: str) -> Matcher:
    """As :func:`build_matcher`, for the records of a topic."""
    instance = query.origin.build_instance()
    # With key fields, every message was parsed when it was published, so all are valid. Messages with keys of their
    # publishers were stored without parsing.
    seen = key_mode == "fields"
    wanted = query.filter is not None and bool(query.filter.strip())
    environment = build_environment(instance) if wanted else None
    functions = load_functions(instance) if wanted else None
    kind = instance.find_message_type(message_type)
    return Matcher(query.filter, kind, topic, environment, seen=seen, functions=functions)


_TEXTS = {
    "_logical_topic": (LOGICAL_TOPIC_FLAG, "logical_topic"),
    "_user_key": (USER_KEY_FLAG, "user_key"),
    "_correlation_id": (CORRELATION_FLAG, "correlation_id"),
}
"""Text columns: the flag of records that have the text, and the record's attribute."""


class RecordBatchBuilder:
    """Builds record batches of stored values; ``constants`` are columns with the same text (None: NULL) in all rows."""

    def __init__(
        self,
        schema: pyarrow.Schema,
        matcher: Matcher,
        topic: str,
        judging: MessageJudge,
        instants: Sequence[int] = (),
        *,
        constants: Mapping[str, str | None] | None = None,
    ) -> None:
        import pyarrow.types as t

        self._judging = judging
        self._constants = constants or {}
        self._schema = schema
        self._kind = matcher.type
        self._topic = topic
        self._instants = instants
        self._decoder: StructDecoder | None = None
        if not judging.needed and PAYLOAD_COLUMN in schema.names and t.is_struct(schema.field(PAYLOAD_COLUMN).type):
            from sowctl.arrow.struct_decoder import StructDecoder

            self._decoder = StructDecoder(schema.field(PAYLOAD_COLUMN).type, strict=is_inferred(schema))

    def build_batch(self, keys: list[bytes], values: list[bytes]) -> pyarrow.RecordBatch:
        """Build the batch of these records, without those that are dropped as malformed."""
        import pyarrow as pa

        batch, kept = self._build_all(keys, values)
        return batch if kept is None else batch.filter(pa.array(kept))

    def _build_all(self, keys: list[bytes], values: list[bytes]) -> tuple[pyarrow.RecordBatch, arrays.Numbers | None]:
        """Build the batch of these records and the mask of those to keep (None: all)."""
        import numpy as np
        import pyarrow as pa

        # With the headers of a batch as one array, columns are extracted without a step per record.
        heads = np.frombuffer(extract_headers(values), HEADER_DTYPE)
        judged = self._judge_messages(keys, extract_payloads(values)) if self._judging.needed else None
        columns = []
        for name in self._schema.names:
            if judged is not None and name in (PAYLOAD_COLUMN, self._judging.column):
                columns.append(judged.payload if name == PAYLOAD_COLUMN else judged.corrupt)
            elif name == PAYLOAD_COLUMN:
                columns.append(self._messages(keys, extract_payloads(values)))
            elif name == "_sow_key":
                # Keys are stored big-endian, so that they sort like numbers.
                columns.append(arrays.build_decimals(np.frombuffer(b"".join(keys), ">u8")))
            elif name == "_txid":
                columns.append(arrays.build_longs(heads["txid"]))
            elif name == "_timestamp":
                columns.append(arrays.build_timestamps(heads["time"]))
            elif name == "_expiration":
                columns.append(arrays.build_expirations(heads["expiration"]))
            elif name == "_topic":
                columns.append(arrays.build_constant(self._topic, len(keys)))
            elif name == INSTANT_COLUMN:
                # A placeholder per version; build_instant_batches() sets the instants of the repeated rows.
                columns.append(arrays.build_timestamps(np.zeros(len(keys), "u8")))
            elif is_mark_column(name):
                columns.append(pa.nulls(len(keys), pa.string()))
            elif name in self._constants:
                text = self._constants[name]
                kind = self._schema.field(name).type
                columns.append(pa.nulls(len(keys), kind) if text is None else arrays.build_constant(text, len(keys)))
            else:
                flag, part = _TEXTS[name]
                columns.append(arrays.build_texts(_parts(keys, values, heads["flags"] & flag, part), len(keys)))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return batch, None if judged is None else judged.kept

    def build_instant_batches(self, spans: VersionSpans) -> Iterator[pyarrow.RecordBatch]:
        """Yield batches with a row for each version and each instant at which it was current."""
        import numpy as np
        import pyarrow as pa

        batch, kept = self._build_all(spans.keys, spans.values)
        starts, counts = spans.starts, spans.stops - spans.starts
        if kept is not None:
            counts[~kept] = 0
        rows = np.repeat(np.arange(len(counts)), counts)
        # The first row of a span has its first instant, and each further row the next instant.
        instants = np.arange(len(rows)) + np.repeat(starts - counts.cumsum() + counts, counts)
        times = np.array(self._instants)[instants]
        for start in range(0, len(rows), MAX_REPEATED_ROWS):
            part = slice(start, start + MAX_REPEATED_ROWS)
            made = batch.take(pa.array(rows[part]))
            if INSTANT_COLUMN in self._schema.names:
                place = self._schema.get_field_index(INSTANT_COLUMN)
                made = made.set_column(place, self._schema.field(place), arrays.build_timestamps(times[part]))
            yield made

    def _messages(self, keys: list[bytes], messages: list[bytes]) -> pyarrow.Array:
        import pyarrow as pa

        if self._decoder is None:
            return pa.array(messages, pa.binary())
        try:
            return self._decoder.decode_payloads(messages, self._kind)
        except Misfit as problem:
            raise build_misfit_error(problem, self._place(keys, problem.row), MORE_SAMPLES_HINT) from None

    def _judge_messages(self, keys: list[bytes], messages: list[bytes]) -> JudgedBatch:
        try:
            return self._judging.judge_messages(messages, self._kind, lambda row: self._place(keys, row))
        except Misfit as problem:
            raise build_misfit_error(problem, self._place(keys, problem.row), MORE_SAMPLES_HINT) from None

    def _place(self, keys: list[bytes], row: int) -> str:
        return f"record {int.from_bytes(keys[row], 'big')} of topic {self._topic}"


def _parts(keys: list[bytes], values: list[bytes], has: arrays.Numbers, part: str) -> list[bytes | None] | None:
    if not has.any():
        return None
    found: list[bytes | None] = []
    for key, value, there in zip(keys, values, has.tolist(), strict=True):
        # Only records with the flag have the text, so only these are decoded completely.
        record = decode_record(key, value) if there else None
        found.append(None if record is None else getattr(record, part))
    return found


def sample_records(query: StoreQuery, count: int | None) -> Iterator[SampledView]:
    """Yield JSON views of the first ``count`` records (None: all), to infer a schema."""
    origin = query.origin
    position = None if origin.is_derived else plan_position(origin)
    if position is None and _is_unpublished(query.origin):
        return
    with closing(
        open_target(origin.build_instance(), origin.target, query.at)
        if origin.is_derived
        else open_planned_source(origin, position, query.at)
    ) as source:
        kind = build_matcher(replace(query, filter=None), source).type
        batches = source.read_batches(BATCH_RECORDS if count is None else min(count, BATCH_RECORDS))
        payloads = (payload for _, values in batches for payload in extract_payloads(values))
        yield from (SampledView(kind.members_view(one), kind.repeatable) for one in islice(payloads, count))


class StorePlan(DescribedStruct, frozen=True):
    """Plan in which every partition reads a range of keys of ``origin`` as of ``at`` (None: of the state ``planned``).

    If the store no longer shows that state, the first task that notices creates a copy of it in ``copies`` for all
    tasks; with None, each task builds the state itself.
    """

    origin: Origin
    at: int | None
    planned: PlannedState | None
    count: int
    copies: Staging | None = None


def plan_store(origin: Origin, at: int | None, partitions: int | None, *, pinned: bool = False) -> StorePlan | None:
    """Return the plan for the state ``at`` an instant (microseconds UTC; None: now), in ``partitions`` partitions
    (None: by the number of records; sowctl-spark(7), PARTITIONS); None for a topic to which nothing was published.

    A state that must be built first is built here once, as a file that all tasks read, unless it is so small that it
    has one partition, whose task builds it. With ``pinned``, the present state is also written to a file. Raises what
    reading raises.
    """
    if origin.is_derived:
        copy = copy_derived_state(origin, at)
        planned = plan_position(copy)
        assert planned is not None
        return StorePlan(copy, None, planned, partitions or _count_partitions(planned.records))
    planned = plan_position(origin)
    if planned is None:
        return None if _is_unpublished(origin) else _plan_copy(origin, at, partitions, _count_entries(origin))
    count = partitions or _count_partitions(planned.records)
    if at is None and pinned:
        return _plan_pinned(origin, planned, count)
    if at is None and planned.until is not None and count > 1:
        return StorePlan(origin, at, planned, count, find_copy_place(origin, f"after {_name_state(planned)}"))
    if origin.topic is None or at is None or count == 1:
        return StorePlan(origin, at, planned, count)
    with ExitStack() as held:
        # Each task makes the same decision when it opens the state.
        way = plan_past_state(origin.build_instance(), origin.topic.whole_topic, at, held)
        if way.means is StateOrigin.PRESENT and at >= origin.now:
            # The state at a future instant is the present one, which may change before the last task has read it.
            return StorePlan(origin, None, planned, count)
        if way.means in (StateOrigin.PRESENT, StateOrigin.VERSIONS):
            return StorePlan(origin, at, planned, count)
        if way.means is StateOrigin.EMPTY:
            return StorePlan(origin, at, planned, 1)
    return _plan_copy(origin, at, partitions, planned.records)


def _count_partitions(records: int) -> int:
    return records // PARTITION_LIMITS.records_per_partition + 1


def _plan_pinned(origin: Origin, planned: PlannedState, count: int) -> StorePlan:
    """Plan a copy of the present state for every partition. Raises StorageError if it cannot be written."""
    copy = make_copy(origin, None, find_copy_place(origin, f"pinned {_name_state(planned)}"))
    return StorePlan(copy, None, plan_position(copy), count)


def _plan_copy(origin: Origin, at: int | None, partitions: int | None, records: int) -> StorePlan:
    """Plan a copy of the state, the same one for all reads of this state by this driver.

    It is removed with the session or after the end of the driver."""
    count = partitions or _count_partitions(records)
    if count > 1 and origin.topic is not None:
        name = f"as of {at}, {_read_last_txid(origin) if at is None else 0}"
        # If the directory is not writable, a single task builds the state.
        with suppress(StorageError):
            copy = make_copy(origin, at, find_copy_place(origin, name))
            return StorePlan(copy, None, plan_position(copy), count)
    return StorePlan(origin, at, None, 1)


def _open_partition(plan: StorePlan) -> Source:
    """Open the planned state, from the journal if the store no longer shows it."""
    try:
        return open_planned_source(plan.origin, plan.planned, plan.at)
    except LockedError as error:
        if error.code != MOVED_CODE or plan.planned is None:
            raise
        return open_former_source(plan.origin, plan.planned, plan.copies, error)


def _name_state(planned: PlannedState) -> str:
    """Return a text that identifies the state among all states of the topic."""
    position = f"{planned.applied} {planned.digest:x} {planned.removal_mark} {planned.until}"
    return f"{planned.lineage.hex()} {planned.log_lineage.hex()} {position}"


def _is_unpublished(origin: Origin) -> bool:
    """Return whether the journal has no entry of a topic without a store; as in the commands, the topic is empty."""
    topic = origin.topic
    if topic is None or topic.derived is not None:
        return False
    instance = origin.build_instance()
    if not topic.journalled or not has_log(instance):
        return True
    try:
        with open_log(instance) as log:
            return log.find_topic_state(topic.ref).last_txid == 0
    except MissingError:
        return True


def _count_entries(origin: Origin) -> int:
    """Return the number of entries of all topics in the journal, an upper bound of the records of a topic."""
    instance = origin.build_instance()
    try:
        if not has_log(instance):
            return 0
        with open_log(instance) as log:
            return log.read_last_txid() - log.first_txid + 1
    except MissingError:
        return 0


def _read_last_txid(origin: Origin) -> int:
    with open_log(origin.build_instance()) as log:
        return log.read_last_txid()
