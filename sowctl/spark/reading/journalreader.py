"""Reading journals: parts of the files are partitions, and each is read block by block (sowctl-spark(7), PARTITIONS).

Spark calls the readers that :mod:`sowctl.spark.sources` builds; the streaming reader in
:mod:`sowctl.spark.reading.journalstream` reads with the same code. :mod:`sowctl.spark.reading.journalbatches` selects
the entries of a block and converts them to columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sowctl.arrow import arrays
from sowctl.arrow.inference import SampledView
from sowctl.spark.errors import carry_errors
from sowctl.spark.origin import build_filter
from sowctl.spark.reading.bounds import ReadBounds
from sowctl.spark.reading.journalbatches import MIN_BATCH_ROWS, BatchBuilder, BlockRun, JournalQuery
from sowctl.spark.reading.journalchanges import ChangePlan, FeedStretch, read_changes
from sowctl.spark.reading.journalplan import PlannedStretch, open_journal, plan_stretches
from sowctl.spark.reading.malformed_messages import MessageJudge
from sowctl.spark.reading.missing_files import translate_missing
from sowctl.spark.samecode import SameCode
from sowctl.spark.schema import CHANGE_COLUMNS, JOURNAL_COLUMNS, add_corrupt_column, build_arrow_schema

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal

MIN_BATCH_BYTES = 4 << 20
"""Payload bytes above which no further blocks are merged."""


class JournalReader(SameCode, DataSourceReader):
    """Reads the entries of a :class:`JournalQuery` with the columns of ``schema``, in txid order within a partition."""

    def __init__(self, query: JournalQuery, schema: StructType) -> None:
        self.query = query
        self.bounds = query.build_bounds()
        with carry_errors():
            self._schema = build_journal_schema(query, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return parts of the journal's files."""
        with carry_errors():
            if self.query.filter is not None:
                # Report an invalid filter once here, not in every task.
                build_filter(self.query.origin, self.query.filter)
            if self.bounds.is_empty:
                return []
            txids = self.bounds.txids
            # The positions of the stores show how far the journal must reach, so that a lost end is an error and not a
            # shorter result.
            with open_journal(self.query.origin, whole=True) as log:
                after = (txids.low or 1) - 1
                if self.query.changes:
                    return ChangePlan(self.query, self._schema).plan_partitions(log, after, txids.high)
                planned = plan_stretches(log, after, txids.high, self.query.partition_bytes)
                return [one for one in planned if self._may_match(log, one)]

    def _may_match(self, log: Journal, planned: PlannedStretch) -> bool:
        """Return whether any entry may match, according to the manifest of an archive; its files are not read."""
        query, times = self.query, self.bounds.times
        topic = query.ref
        return any(log.may_hold_entries(part.number, topic, times.low, times.high) for part in planned.parts)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the matching entries of one partition, or their changes."""
        with carry_errors():
            yield from read_partition(self.query, self.bounds, self._schema, partition)


def build_journal_schema(query: JournalQuery, schema: StructType) -> pyarrow.Schema:
    """Return the Arrow schema of a query. Raises UsageError if columns or options are incompatible."""
    columns = CHANGE_COLUMNS if query.changes else JOURNAL_COLUMNS
    made = build_arrow_schema(schema, add_corrupt_column(columns, query.malformed.column))
    # Report incompatible options here, not in every task.
    MessageJudge(query.malformed, made)
    return made


def read_partition(
    query: JournalQuery, bounds: ReadBounds, schema: pyarrow.Schema, partition: InputPartition
) -> Iterator[pyarrow.RecordBatch]:
    """Yield record batches of a partition of entries or changes. Raises as
    :func:`~sowctl.spark.reading.missing_files.translate_missing`.
    """
    with translate_missing():
        if isinstance(partition, FeedStretch):
            yield from read_changes(query, schema, partition)
        elif isinstance(partition, PlannedStretch):
            yield from read_stretch(query, bounds, schema, partition)


def read_stretch(
    query: JournalQuery, bounds: ReadBounds, schema: pyarrow.Schema, stretch: PlannedStretch
) -> Iterator[pyarrow.RecordBatch]:
    """Yield record batches of the entries in a stretch."""
    # Plans consist of whole blocks; the bounds of the query may be within the first or last block.
    wanted = bounds.restrict_txids(stretch.after + 1, stretch.until)
    if wanted.is_empty:
        return
    low, high = wanted.txids.low, wanted.txids.high
    assert low is not None and high is not None
    arrays.keep_memory()
    topic = query.ref
    made = BatchBuilder(query, wanted, schema)
    held: list[pyarrow.RecordBatch] = []
    with open_journal(query.origin, task=stretch) as log:
        # Blocks are read in txid order, so the rows of a partition are in txid order.
        for run in _iterate_runs(made, stretch.read_blocks(log, low - 1, high, topic)):
            held.append(made.build_batch(run))
            if sum(map(len, held)) >= MIN_BATCH_ROWS:
                yield arrays.merge_batches(held)
                held = []
    if held:
        yield arrays.merge_batches(held)
    made.judging.close()


def _iterate_runs(made: BatchBuilder, blocks: Iterable[Block]) -> Iterator[BlockRun]:
    """Yield groups of blocks with selected entries, each large enough to build columns efficiently."""
    run: BlockRun = []
    rows = size = 0
    for block in blocks:
        chosen = made.select_entries(block)
        # Skip blocks without selected entries.
        if chosen is not None and not chosen.any():
            continue
        run.append((block, chosen))
        rows += len(block)
        size += block.header.payloads_raw
        # Both limits bound memory: the rows for many small entries, the bytes for few large ones.
        if rows >= MIN_BATCH_ROWS or size >= MIN_BATCH_BYTES:
            yield run
            run, rows, size = [], 0, 0
    if run:
        yield run


def sample_messages(query: JournalQuery, count: int | None) -> Iterator[SampledView]:
    """Yield JSON views of the first ``count`` messages (None: all), to infer a schema."""
    return islice(_views(query), count)


def _views(query: JournalQuery) -> Iterator[SampledView]:
    made = BatchBuilder(query, query.build_bounds(), _build_empty_schema())
    with open_journal(query.origin) as log:
        for block in log.iter_blocks(after=(query.txids.low or 1) - 1, until=query.txids.high):
            yield from made.iterate_views(block)


def _build_empty_schema() -> pyarrow.Schema:
    import pyarrow as pa

    return pa.schema([])
