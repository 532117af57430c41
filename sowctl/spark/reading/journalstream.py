"""A journal as a stream: its offset is a txid, batches end where groups do (sowctl-spark(7), STREAMING).

The offset names the journal's lineage too, so that a checkpoint is never continued on another journal unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from sowctl.errors import DamageError, MissingError
from sowctl.journal.block import Position
from sowctl.spark.errors import CarriedError, carry_errors
from sowctl.spark.origin import Origin, build_filter
from sowctl.spark.reading.initial_state import InitialState, StateRange, find_state_origin, read_state
from sowctl.spark.reading.journalbatches import JournalQuery
from sowctl.spark.reading.journalchanges import ChangePlan
from sowctl.spark.reading.journalplan import open_journal, plan_stretches
from sowctl.spark.reading.journalreader import build_journal_schema, read_partition
from sowctl.spark.samecode import SameCode

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.journal.reader import Journal

Offset = dict[str, Any]
MAX_BATCH_ENTRIES = 1_000_000
"""Most entries of a batch where nothing else is said, some 200 MB of messages: the first batch of a query over a long
journal comes to its end, and little is read again after a failure. Measured with 300,000 entries on two cores: 3.0 CPU
seconds as one batch, 12.4 as 30. So a batch costs 0.3 seconds, and this bound about 4 % of the reading."""


START_CHOICES = ("earliest", "latest", "state")
"""Where a query without a checkpoint begins: at the oldest entry, behind what is there, or with the records."""


class StreamLimits(Struct, frozen=True):
    """Start of a new query, one of START_CHOICES, and bounds of a batch: entries, stored bytes or None.

    ``split_groups``: a batch may end within a group that is larger than its bounds."""

    start: str = "earliest"
    max_entries: int | None = MAX_BATCH_ENTRIES
    fail_on_loss: bool = True
    max_bytes: int | None = None
    split_groups: bool = False


class JournalStreamReader(SameCode, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the entries that a :class:`JournalQuery` asks for, as they are committed."""

    def __init__(self, query: JournalQuery, pace: StreamLimits, schema: StructType) -> None:
        self.query = query
        self.pace = pace
        self._target: int | None = None
        self._reached: int | None = None
        self._changes: ChangePlan | None = None
        self._initial: Offset | None = None
        self._state_origin: Origin | None = None
        with carry_errors():
            if pace.start == "state":
                self._state_origin = find_state_origin(query)
            self._schema = build_journal_schema(query, schema)
            if query.filter is not None:
                build_filter(query.origin, query.filter)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, as those below
        """Before the first entry wanted; txid 0 where there is no journal yet.

        Spark keeps this offset nowhere, and asks again until a batch was committed, also after a restart. The answer
        stays the same in this process; batches that were planned by another one say themselves where they begin.
        """
        if self._initial is None:
            with carry_errors():
                self._initial = self._find_beginning()
        return self._initial

    def _find_beginning(self) -> Offset:
        low, origin = self.query.txids.low, self._state_origin
        try:
            with open_journal(self.query.origin) as log:
                if origin is not None:
                    return _offset(log.read_last_txid(), log) | {"instant": origin.now, "part": 0, "parts": 1}
                # An offset is the last txid that has been read, so it stands before the first one wanted.
                before = log.read_last_txid() if self.pace.start == "latest" else log.first_txid - 1
                return _offset(before if low is None else max(low - 1, log.first_txid - 1), log)
        except MissingError:
            topic = origin.topic if origin is not None else None
            if topic is not None and topic.file is not None and topic.file.exists():
                # Records without a journal: nothing says which entries are behind them.
                raise
            # Lineage "" says that there was no journal: the first one that appears is the one to follow.
            return {"txid": 0 if low is None else low - 1, "lineage": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The options ``maxEntries`` and ``maxBytesPerTrigger``; where both are given, Spark is told of the first."""
        if self.pace.max_entries is not None:
            return ReadMaxRows(self.pace.max_entries)
        return ReadAllAvailable() if self.pace.max_bytes is None else ReadMaxBytes(self.pace.max_bytes)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The end of the last whole group within the limit, one group at least; before these, of the records that a
        query with ``start=state`` begins with, the next part within the limit."""
        with carry_errors():
            try:
                with open_journal(self.query.origin) as log:
                    end = self._latest(log, start, limit)
                    self._reached = end["txid"]
                    return end
            except MissingError as error:
                # The query began before the journal: it goes on waiting. A journal that was there and is gone is an
                # error.
                if error.code == "SOW-JRN-001" and not start["lineage"]:
                    return start
                raise

    def _latest(self, log: Journal, start: Offset, limit: ReadLimit) -> Offset:
        first = self._check_start(log, start)
        # Spark hands back one limit of ours, and knows no two at once: the bytes are remembered here.
        limits = None if isinstance(limit, ReadAllAvailable) else self.pace.max_bytes
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if _has_state_left(start) and (parts := self._count_parts(start, rows, limits)):
            return start | {"part": start["part"] + 1 if limits or rows else parts, "parts": parts}
        last = log.read_last_txid()
        # Trigger.AvailableNow fixes the end at the start: otherwise a query beside a busy writer would never end.
        for bound in (self._target, self.query.txids.high):
            last = last if bound is None else min(last, bound)
        if last <= first:
            # The offset that Spark has already says that there is nothing new.
            return start
        if not isinstance(limit, ReadAllAvailable):
            find_end = _find_split_end if self.pace.split_groups else _find_batch_end
            last = find_end(log, first, last, rows, limits)
        return _offset(last, log) | ({"first": first} if start == self._initial else {})

    def _count_parts(self, start: Offset, rows: int | None, size: int | None) -> int:
        """In how many batches the records come; 0 where there are none."""
        return self._build_state(start).count_parts(rows, size) if start["part"] == 0 else start["parts"]

    def _build_state(self, offset: Offset) -> InitialState:
        """The state of which a batch with this offset has a part."""
        origin = self._state_origin or find_state_origin(self.query)
        return InitialState(origin, offset["lineage"], offset["txid"], offset["instant"])

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """The present end of the journal, and how far the batch that was planned last is behind it.

        Spark shows it as ``latestOffset`` of the source in the progress of a query; it is the one place where a source
        written in Python can say something there.
        """
        with carry_errors():
            try:
                with open_journal(self.query.origin) as log:
                    end = log.read_last_txid()
                    at = max(log.first_txid - 1, self._reached if self._reached is not None else 0)
                    behind = {"entriesBehind": max(end - at, 0), "bytesBehind": _bytes_behind(log, at)}
                    return _offset(end, log) | behind
            except MissingError:
                return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing beyond the present end is read."""
        with carry_errors():
            try:
                with open_journal(self.query.origin) as log:
                    self._target = log.read_last_txid()
            except MissingError:
                # Nothing is there to be read, and what appears later belongs to the next run.
                self._target = 0

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The stretches between two offsets."""
        if "part" in end:
            # Of which state these records are, the end alone says: the first batch of a restarted query has a beginning
            # that was asked for anew.
            with carry_errors():
                return self._build_state(end).plan_partitions(start["part"], end["part"], end["parts"])
        if "first" in end:
            start = {"txid": end["first"], "lineage": end["lineage"]}
        if start["txid"] >= end["txid"]:
            return []
        with carry_errors(), open_journal(self.query.origin) as log:
            # Checked again, because a query that goes on after a failure plans a batch whose offsets come from the
            # checkpoint.
            after = self._check_start(log, start)
            if not self.query.changes:
                return plan_stretches(log, after, end["txid"], self.query.partition_bytes)
            # What is known of keys stays from batch to batch: each looks at its own part of the journal only.
            self._changes = self._changes or ChangePlan(self.query, self._schema)
            return self._changes.plan_partitions(log, after, end["txid"])

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The entries of one stretch that match, or what they changed."""
        with carry_errors():
            if isinstance(partition, StateRange):
                yield from read_state(self.query, self._schema, partition)
            else:
                yield from read_partition(self.query, self.query.build_bounds(), self._schema, partition)

    def _check_start(self, log: Journal, start: Offset) -> int:
        """The txid behind which to read on. Raises DamageError ``SOW-SPK-021``, MissingError ``SOW-SPK-022``."""
        place = str(log.directory)
        txid: int = start["txid"]
        # Reading on would pair the checkpoint with entries of other messages, and nothing downstream could tell.
        if start["lineage"] not in ("", log.lineage.hex()) or txid > log.read_last_txid():
            raise DamageError(
                "SOW-SPK-021",
                f"the checkpoint is at txid {txid} of another journal, or after the end of this one",
                place=place,
                hint="restore that journal, or start with another checkpointLocation",
            )
        # Without a lineage the query began before there was a journal: it has read no entry, so that it misses none of
        # those that were removed.
        if start["lineage"] and txid < log.first_txid - 1:
            if self.pace.fail_on_loss:
                raise MissingError(
                    "SOW-SPK-022",
                    f"the checkpoint is at txid {txid}, but the oldest journal file begins at txid {log.first_txid}",
                    place=place,
                    hint="restore the older files, or continue without them: option failOnDataLoss=false",
                )
            return log.first_txid - 1
        return max(txid, log.first_txid - 1)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that cannot be read, for a reason that its first answer tells: ``words`` are a CarriedError's.

    It is made where making a :class:`JournalStreamReader` failed, and has the same methods.
    """

    def __init__(self, words: str) -> None:
        self.words = words

    def _refuse(self) -> NoReturn:
        raise CarriedError(self.words)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's names, as those below
        """Raise the error."""
        self._refuse()

    def initialOffset(self) -> Offset:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Raise the error."""
        self._refuse()


def _has_state_left(offset: Offset) -> bool:
    """Return whether records of the state that a query begins with have not been read yet."""
    return "part" in offset and offset["part"] < offset["parts"]


def _offset(txid: int, log: Journal) -> Offset:
    return {"txid": txid, "lineage": log.lineage.hex()}


def _find_batch_end(log: Journal, after: int, until: int, most: int | None, most_bytes: int | None = None) -> int:
    """The end of the last group that ends within ``most`` entries and ``most_bytes`` stored bytes, of the first one
    where it is larger; None is no bound."""
    # A group was committed as a whole and is shown as a whole, so a batch ends at the last edge within the limits.
    begin: Position | None = None
    best: int | None = None

    def fits(place: Position) -> bool:
        within = most is None or place.txid - after <= most
        return within and (most_bytes is None or begin is None or log.count_bytes_between(begin, place) <= most_bytes)

    for place in log.iter_group_positions(after, until):
        begin = begin or place
        if place.txid <= after:
            continue
        if best is not None and not fits(place):
            return best
        best = place.txid
        if not fits(place):
            return best
    # Behind the last group there is no further place; ``until`` is its end.
    if best is None:
        return until
    last = log.find_end()
    if last.txid != until and most_bytes is not None:
        # What ends before the journal does was bounded by a txid: its last group begins within the limit.
        last = next(iter(log.iter_group_positions(until)), last)
    return until if fits(Position(last.number, last.offset, until)) else best


def _find_split_end(log: Journal, after: int, until: int, most: int | None, most_bytes: int | None) -> int:
    """As :func:`_find_batch_end`, but within a group that is larger: after its last block within the limits, or after
    ``most`` entries of a block that is larger."""
    size, group_end, block_end = 0, after, after
    for ref in log.iter_block_refs(after):
        header = ref.header
        if header.first_txid > until:
            break
        if header.first_txid == header.group:
            group_end = max(group_end, header.first_txid - 1)
        size += header.size
        last = min(header.last_txid, until)
        if (most is not None and last - after > most) or (most_bytes is not None and size > most_bytes):
            # Whole groups where there are any, then whole blocks.
            ends = (group_end, block_end, last if most is None else min(last, after + most))
            return next(end for end in ends if end > after)
        block_end = last
    return until


def _bytes_behind(log: Journal, txid: int) -> int:
    """Bytes of the journal, as stored, from behind the entry ``txid`` to the present end."""
    end = log.find_end()
    if txid >= end.txid:
        return 0
    begin = next(iter(log.iter_group_positions(txid)), end)
    return log.count_bytes_between(begin, end)
