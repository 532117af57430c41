"""A journal as a stream: its offset is a txid, batches end where groups do (sowctl-spark(7), STREAMING).

The offset names the journal's lineage too, so that a checkpoint is never continued on another journal unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from sowctl.errors import DamageError, MissingError
from sowctl.spark.errors import carried
from sowctl.spark.origin import compiled
from sowctl.spark.reading.journalbatches import JournalQuery
from sowctl.spark.reading.journalplan import PlannedStretch, open_journal, plan_stretches
from sowctl.spark.reading.journalreader import read_stretch
from sowctl.spark.schema import JOURNAL_COLUMNS, arrow_schema

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.journal.reader import Journal

Offset = dict[str, Any]
MAX_ENTRIES = 1_000_000
"""Most entries of a batch where nothing else is said, some 200 MB of messages: the first batch of a query over a long
journal comes to its end, and little is read again after a failure. Measured with 300,000 entries on two cores: 3.0 CPU
seconds as one batch, 12.4 as 30. So a batch costs 0.3 seconds, and this bound about 4 % of the reading."""


class Pace(Struct, frozen=True):
    """Where a new query begins (``latest``: behind what is there), and how many entries a batch may have."""

    latest: bool = False
    max_entries: int = MAX_ENTRIES
    fail_on_loss: bool = True


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the entries that a :class:`JournalQuery` asks for, as they are committed."""

    def __init__(self, query: JournalQuery, pace: Pace, schema: StructType) -> None:
        self.query = query
        self.pace = pace
        self._target: int | None = None
        with carried():
            self._schema = arrow_schema(schema, JOURNAL_COLUMNS)
            if query.filter is not None:
                compiled(query.origin, query.filter)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, as those below
        """Before the first entry wanted; txid 0 where there is no journal yet."""
        low = self.query.txids.low
        with carried():
            try:
                with open_journal(self.query.origin) as log:
                    # An offset is the last txid that has been read, so it stands before the first one wanted.
                    before = log.last_txid() if self.pace.latest else log.first_txid - 1
                    return _offset(before if low is None else max(low - 1, log.first_txid - 1), log)
            except MissingError:
                # Lineage "" says that there was no journal: the first one that appears is the one to follow.
                return {"txid": 0 if low is None else low - 1, "lineage": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The option ``maxEntries``."""
        return ReadMaxRows(self.pace.max_entries)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The end of the last whole group within the limit; one group at least."""
        with carried():
            try:
                with open_journal(self.query.origin) as log:
                    return self._latest(log, start, limit)
            except MissingError as error:
                # The query began before the journal: it goes on waiting. A journal that was there and is gone is an
                # error.
                if error.code == "SOW-JRN-001" and not start["lineage"]:
                    return start
                raise

    def _latest(self, log: Journal, start: Offset, limit: ReadLimit) -> Offset:
        first = self._checked(log, start)
        last = log.last_txid()
        # Trigger.AvailableNow fixes the end at the start: otherwise a query beside a busy writer would never end.
        for bound in (self._target, self.query.txids.high):
            last = last if bound is None else min(last, bound)
        if last <= first:
            # The offset that Spark has already says that there is nothing new.
            return start
        if isinstance(limit, ReadMaxRows):
            last = _within(log, first, last, limit.max_rows)
        return _offset(last, log)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """The present end of the journal."""
        with carried():
            try:
                with open_journal(self.query.origin) as log:
                    return _offset(log.last_txid(), log)
            except MissingError:
                return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing beyond the present end is read."""
        with carried():
            try:
                with open_journal(self.query.origin) as log:
                    self._target = log.last_txid()
            except MissingError:
                # Nothing is there to be read, and what appears later belongs to the next run.
                self._target = 0

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The stretches between two offsets."""
        if start["txid"] >= end["txid"]:
            return []
        with carried(), open_journal(self.query.origin) as log:
            # Checked again, because a query that goes on after a failure plans a batch whose offsets come from the
            # checkpoint.
            after = self._checked(log, start)
            return plan_stretches(log, after, end["txid"], self.query.partition_bytes)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The entries of one stretch that match."""
        if isinstance(partition, PlannedStretch):
            with carried():
                yield from read_stretch(self.query, self.query.bounds(), self._schema, partition)

    def _checked(self, log: Journal, start: Offset) -> int:
        """The txid behind which to read on. Raises DamageError ``SOW-SPK-021``, MissingError ``SOW-SPK-022``."""
        place = str(log.directory)
        txid: int = start["txid"]
        # Reading on would pair the checkpoint with entries of other messages, and nothing downstream could tell.
        if start["lineage"] not in ("", log.lineage.hex()) or txid > log.last_txid():
            raise DamageError(
                "SOW-SPK-021",
                f"the checkpoint stands at txid {txid} of another journal, or of a part that is gone",
                place=place,
                hint="put that journal back, or begin again with another checkpointLocation",
            )
        # Without a lineage the query began before there was a journal: it has read no entry, so that it misses none of
        # those that were removed.
        if start["lineage"] and txid < log.first_txid - 1:
            if self.pace.fail_on_loss:
                raise MissingError(
                    "SOW-SPK-022",
                    f"the checkpoint stands at txid {txid}, but the oldest journal file begins at {log.first_txid}",
                    place=place,
                    hint="put the older files back, or go on without them: option failOnDataLoss=false",
                )
            return log.first_txid - 1
        return max(txid, log.first_txid - 1)


def _offset(txid: int, log: Journal) -> Offset:
    return {"txid": txid, "lineage": log.lineage.hex()}


def _within(log: Journal, after: int, until: int, most: int) -> int:
    """The end of the last group that ends within ``most`` entries, of the first one where it is larger."""
    # A group was committed as a whole and is shown as a whole, so a batch ends at the last edge within the limit.
    best = None
    for place in log.places(after, until):
        if place.txid <= after:
            continue
        if best is not None and place.txid - after > most:
            return best
        best = place.txid
        if place.txid - after >= most:
            return best
    # Behind the last group there is no further place; ``until`` is its end.
    return until if best is None or until - after <= most else best
