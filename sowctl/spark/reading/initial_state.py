"""The records of a topic as the first rows of a stream: option ``start=state`` (sowctl-spark(7), STREAMING).

The rows are those of the state after the last entry that the journal had when the query started; the stream continues
with the entries after it. The state is stored in a file, of which each batch reads a range of keys. The offset of each
batch identifies the state, so that a restarted query creates the same file again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from math import ceil
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition

from sowctl.engine.topics.targets import find_topic
from sowctl.errors import MissingError, UsageError
from sowctl.identity.keyspace import KeyBounds, compute_part_bounds
from sowctl.journal.format import OPERATIONS, PUBLISH
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.malformed_messages import MessageJudge
from sowctl.spark.reading.missing_files import translate_missing
from sowctl.spark.reading.pinned_state import find_copy_place, make_copy
from sowctl.spark.reading.positions import open_planned_source, plan_position
from sowctl.spark.reading.storereader import (
    RecordBatchBuilder,
    StorePlan,
    StoreQuery,
    build_topic_matcher,
    read_matching_batches,
)
from sowctl.spark.schema import CHANGE_TYPE_COLUMN
from sowctl.structs import DescribedStruct
from sowctl.values.times import EntryInstant

if TYPE_CHECKING:
    import pyarrow

    from sowctl.config.model import TopicConfig
    from sowctl.spark.origin import Origin
    from sowctl.spark.reading.journalbatches import JournalQuery

_INSERT = "insert"


class InitialState(DescribedStruct, frozen=True):
    """The state of the topic of ``origin`` after the entry ``txid`` of the journal ``lineage``; records expire as of
    ``instant``, microseconds UTC."""

    origin: Origin
    lineage: str
    txid: int
    instant: int

    def plan_copy(self) -> StorePlan:
        """Return the plan for the file with this state, which is created if it is missing.

        Raises MissingError ``SOW-SPK-174`` if the state is no longer available, and what creating a copy raises.
        """
        place = find_copy_place(self.origin, f"stream {self.lineage} {self.txid} {self.instant}")
        try:
            copy = make_copy(self.origin, EntryInstant(self.instant, self.txid), place)
        except MissingError as error:
            assert self.origin.topic is not None
            raise MissingError(
                "SOW-SPK-174",
                f"the state of topic {self.origin.topic.name!r} after txid {self.txid}, with which the stream begins, "
                f"is not available any more: {error.message}",
                hint="start with another checkpointLocation: the stream then begins with the present state",
            ) from error
        planned = plan_position(copy)
        assert planned is not None
        return StorePlan(copy, None, planned, 1)

    def count_parts(self, max_records: int | None, max_bytes: int | None) -> int:
        """Return the number of batches for these limits of records and stored bytes, 0 if there are no records."""
        plan = self.plan_copy()
        assert plan.planned is not None and plan.origin.store_path is not None
        records = plan.planned.records
        if not records:
            return 0
        parts = 1 if max_records is None else ceil(records / max_records)
        return parts if max_bytes is None else max(parts, ceil(plan.origin.store_path.stat().st_size / max_bytes))

    def plan_partitions(self, first: int, end: int, parts: int) -> list[InputPartition]:
        """Return the partitions of the batches from ``first`` to before ``end``, out of ``parts`` batches."""
        plan, topic = self.plan_copy(), self.origin.topic
        assert plan.planned is not None and topic is not None
        # Each partition of a batch has about as many records as a partition of a store.
        each = ceil(plan.planned.records / parts / PARTITION_LIMITS.records_per_partition) or 1
        ranges = compute_part_bounds(parts * each)[first * each : end * each]
        return [StateRange(bounds, plan, topic) for bounds in ranges]


class StateRange(InputPartition):
    """One partition: the records of ``topic`` with keys within ``bounds``, in the copy of a state."""

    def __init__(self, bounds: KeyBounds, plan: StorePlan, topic: TopicConfig) -> None:
        self.bounds = bounds
        self.plan = plan
        self.topic = topic


def find_state_origin(query: JournalQuery) -> Origin:
    """Return the origin of the topic with whose records a stream starts.

    Raises UsageError ``SOW-SPK-173`` if it has no records or no journal, or if the query selects only some entries.
    """
    assert query.topic is not None
    if query.origin.config is None:
        raise build_state_error("a directory of journal files has no topics", "give config and topic")
    if query.operation == "delete":
        raise build_state_error("operation=delete excludes records", "remove operation")
    if any(bound is not None for span in (query.txids, query.times) for bound in (span.low, span.high)):
        raise build_state_error("fromTxid, toTxid, fromTime and toTime select entries", "remove the bounds, or start")
    instance = query.origin.build_instance()
    if query.origin.archive is not None:
        instance = instance.with_archive(query.origin.archive)
    topic = find_topic(instance, query.topic, query.message_type)
    if not topic.journalled:
        raise build_state_error(f"topic {topic.name!r} has no journal", "read it with format('sow')")
    return replace(query.origin, config=instance.config, topic=topic)


def read_state(query: JournalQuery, schema: pyarrow.Schema, part: StateRange) -> Iterator[pyarrow.RecordBatch]:
    """Yield record batches of the records in a partition, in the columns of a journal.

    Each row is the entry that published the record. Columns of the publisher are NULL, because a store does not save
    them."""
    topic, origin = part.topic, part.plan.origin
    with translate_missing():
        opened = open_planned_source(origin, part.plan.planned, None)
    constants = {
        "_operation": OPERATIONS[PUBLISH],
        CHANGE_TYPE_COLUMN: _INSERT,
        "_message_type": topic.message_type,
        "_client": None,
        "_sequence": None,
        "_bookmark": None,
    }
    with closing(opened) as source:
        asked = StoreQuery(replace(query.origin, topic=topic), filter=query.filter, malformed=query.malformed)
        matcher = build_topic_matcher(asked, topic.name, topic.message_type, topic.key_mode)
        judging = MessageJudge(query.malformed, schema)
        made = RecordBatchBuilder(schema, matcher, topic.name, judging, constants=constants)
        yield from read_matching_batches(source, origin, part.bounds, matcher, made)
        judging.close()


def build_state_error(why: str, hint: str) -> UsageError:
    """Build the error ``SOW-SPK-173``: a stream cannot start with records, for the reason ``why``."""
    return UsageError("SOW-SPK-173", f"the stream cannot begin with records: {why}", hint=hint)
