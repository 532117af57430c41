"""Reading journals: parts of its files as partitions, each read block by block (sowctl-spark(7), PARTITIONS).

Spark calls the readers that :mod:`sowctl.spark.sources` makes; the streaming reader in
:mod:`sowctl.spark.reading.journalstream` reads with the same code. Which entries of a block are wanted, and how they
become columns, is of :mod:`sowctl.spark.reading.journalbatches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sowctl.arrow import arrays
from sowctl.journal.format import PUBLISH
from sowctl.spark.errors import carried
from sowctl.spark.origin import compiled
from sowctl.spark.reading.bounds import ReadBounds
from sowctl.spark.reading.journalbatches import Batches, JournalQuery, Run
from sowctl.spark.reading.journalplan import PlannedStretch, open_journal, plan_stretches
from sowctl.spark.schema import JOURNAL_COLUMNS, arrow_schema

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.journal.block import Block

FULL = 8192
"""Rows from which on a batch is handed on; smaller blocks are put together."""
FULL_BYTES = 4 << 20
"""Bytes of messages from which on blocks are no longer put together."""


class JournalReader(DataSourceReader):
    """Reads what a :class:`JournalQuery` asks for, in the columns of ``schema``, in txid order within a partition."""

    def __init__(self, query: JournalQuery, schema: StructType) -> None:
        self.query = query
        self.bounds = query.bounds()
        with carried():
            self._schema = arrow_schema(schema, JOURNAL_COLUMNS)

    def partitions(self) -> Sequence[InputPartition]:
        """Parts of the journal's files."""
        with carried():
            if self.query.filter is not None:
                # A faulty filter is reported once here and not by every task.
                compiled(self.query.origin, self.query.filter)
            if self.bounds.empty:
                return []
            txids = self.bounds.txids
            # The stores of a configuration are asked how far the journal must reach, so that a lost end is an error and
            # no shorter result.
            with open_journal(self.query.origin, whole=True) as log:
                return plan_stretches(log, (txids.low or 1) - 1, txids.high, self.query.partition_bytes)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The entries of one stretch that match."""
        if isinstance(partition, PlannedStretch):
            with carried():
                yield from read_stretch(self.query, self.bounds, self._schema, partition)


def read_stretch(
    query: JournalQuery, bounds: ReadBounds, schema: pyarrow.Schema, stretch: PlannedStretch
) -> Iterator[pyarrow.RecordBatch]:
    """Record batches of the entries in a stretch."""
    # Blocks are planned as a whole; the bounds of the query may lie within the first or the last one.
    wanted = bounds.within(stretch.after + 1, stretch.until)
    if wanted.empty:
        return
    low, high = wanted.txids.low, wanted.txids.high
    assert low is not None and high is not None
    arrays.keep_memory()
    topic = None
    if query.topic is not None and query.message_type is not None:
        topic = query.topic, query.message_type
    made = Batches(query, wanted, schema)
    held: list[pyarrow.RecordBatch] = []
    with open_journal(query.origin) as log:
        # Blocks go by in txid order, and so do the rows of a partition.
        for run in _runs(made, stretch.blocks(log, low - 1, high, topic)):
            held.append(made.batch(run))
            if sum(map(len, held)) >= FULL:
                yield arrays.merged(held)
                held = []
    if held:
        yield arrays.merged(held)


def _runs(made: Batches, blocks: Iterable[Block]) -> Iterator[Run]:
    """The blocks of which something is wanted, so many together that columns are worth making."""
    run: Run = []
    rows = size = 0
    for block in blocks:
        chosen = made.chosen(block)
        # No column is made of such a block.
        if chosen is not None and not chosen.any():
            continue
        run.append((block, chosen))
        rows += len(block)
        size += block.header.payloads_raw
        # Both are bounds of memory: many small entries by their number, few large ones by their bytes.
        if rows >= FULL or size >= FULL_BYTES:
            yield run
            run, rows, size = [], 0, 0
    if run:
        yield run


def sample(query: JournalQuery, count: int | None) -> Iterator[bytes]:
    """JSON views of the first ``count`` messages, None for all, for the inference of a schema."""
    return islice(_views(query), count)


def _views(query: JournalQuery) -> Iterator[bytes]:
    made = Batches(query, query.bounds(), _nothing())
    with open_journal(query.origin) as log:
        for block in log.blocks(after=(query.txids.low or 1) - 1, until=query.txids.high):
            for entry in block.entries():
                if entry.operation == PUBLISH and made.wants(entry.topic):
                    yield made.kind(entry.topic[1]).view(entry.payload)


def _nothing() -> pyarrow.Schema:
    import pyarrow as pa

    return pa.schema([])
