"""A journal as a stream: offsets are txids, and batches end at the ends of groups (sowctl-spark(7), STREAMING).

Offsets also contain the journal's lineage, so that a checkpoint cannot be continued on another journal unnoticed.
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
"""Default limit of entries per batch, some 200 MB of messages. It bounds the duration of the first batch over a long
journal, and the work that is repeated after a failure. Measured with 300,000 entries on two cores: 3.0 CPU seconds as
one batch, 12.4 as 30. So a batch costs 0.3 seconds, and this limit about 4 % of the time of reading."""


START_CHOICES = ("earliest", "latest", "state")
"""Start of a query without a checkpoint: the oldest entry, the present end, or the records."""


class StreamLimits(Struct, frozen=True):
    """Start of a new query, one of START_CHOICES, and limits of a batch: entries and stored bytes, None for no limit.

    ``split_groups``: a batch may end within a group that exceeds the limits."""

    start: str = "earliest"
    max_entries: int | None = MAX_BATCH_ENTRIES
    fail_on_loss: bool = True
    max_bytes: int | None = None
    split_groups: bool = False


class JournalStreamReader(SameCode, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the entries of a :class:`JournalQuery` as they are committed."""

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
        """Return the offset before the first entry to read; if there is no journal yet, an offset without lineage.

        Spark does not store this offset, and calls the method again until a batch is committed, also after a restart.
        The result is constant within this process; offsets of batches that another process planned contain their start.
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
                # An offset is the last txid that was read, so it is one less than the first one to read.
                before = log.read_last_txid() if self.pace.start == "latest" else log.first_txid - 1
                return _offset(before if low is None else max(low - 1, log.first_txid - 1), log)
        except MissingError:
            topic = origin.topic if origin is not None else None
            if topic is not None and topic.file is not None and topic.file.exists():
                # With records but no journal, it is unknown which entries follow them.
                raise
            # Lineage "" means that there was no journal, so the first one that appears is followed.
            return {"txid": 0 if low is None else low - 1, "lineage": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of option ``maxEntries`` or ``maxBytesPerTrigger``; if both are given, the former."""
        if self.pace.max_entries is not None:
            return ReadMaxRows(self.pace.max_entries)
        return ReadAllAvailable() if self.pace.max_bytes is None else ReadMaxBytes(self.pace.max_bytes)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the last complete group within the limit, but of at least one group.

        With ``start=state``, parts of the records precede the groups: return the end of the next part within the limit.
        """
        with carry_errors():
            try:
                with open_journal(self.query.origin) as log:
                    end = self._latest(log, start, limit)
                    self._reached = end["txid"]
                    return end
            except MissingError as error:
                # A query that started before the journal existed keeps waiting. A journal that has disappeared is an
                # error.
                if error.code == "SOW-JRN-001" and not start["lineage"]:
                    return start
                raise

    def _latest(self, log: Journal, start: Offset, limit: ReadLimit) -> Offset:
        first = self._check_start(log, start)
        # Spark passes back only one limit, so the limit of bytes is read from the options.
        limits = None if isinstance(limit, ReadAllAvailable) else self.pace.max_bytes
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if _has_state_left(start) and (parts := self._count_parts(start, rows, limits)):
            return start | {"part": start["part"] + 1 if limits or rows else parts, "parts": parts}
        last = log.read_last_txid()
        # Trigger.AvailableNow fixes the end at the start; otherwise a query would never end while entries are written.
        for bound in (self._target, self.query.txids.high):
            last = last if bound is None else min(last, bound)
        if last <= first:
            # The same offset again means that there are no new entries.
            return start
        if not isinstance(limit, ReadAllAvailable):
            find_end = _find_split_end if self.pace.split_groups else _find_batch_end
            last = find_end(log, first, last, rows, limits)
        return _offset(last, log) | ({"first": first} if start == self._initial else {})

    def _count_parts(self, start: Offset, rows: int | None, size: int | None) -> int:
        """Return the number of batches for the records, 0 if there are none."""
        return self._build_state(start).count_parts(rows, size) if start["part"] == 0 else start["parts"]

    def _build_state(self, offset: Offset) -> InitialState:
        """Return the state of which the batch with this offset reads a part."""
        origin = self._state_origin or find_state_origin(self.query)
        return InitialState(origin, offset["lineage"], offset["txid"], offset["instant"])

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the present end of the journal, with the lag of the batch that was planned last; None without journal.

        Spark shows it as ``latestOffset`` of the source in the progress of a query, the only field there that a Python
        source can set.
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
        """Limit the query to the present end of the journal."""
        with carry_errors():
            try:
                with open_journal(self.query.origin) as log:
                    self._target = log.read_last_txid()
            except MissingError:
                # No entries exist, and later ones belong to the next run.
                self._target = 0

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the partitions between two offsets."""
        if "part" in end:
            # Only the end identifies the state of these records: for the first batch of a restarted query, the start is
            # a new result of initialOffset().
            with carry_errors():
                return self._build_state(end).plan_partitions(start["part"], end["part"], end["parts"])
        if "first" in end:
            start = {"txid": end["first"], "lineage": end["lineage"]}
        if start["txid"] >= end["txid"]:
            return []
        with carry_errors(), open_journal(self.query.origin) as log:
            # Check again, because after a failure a query plans a batch with offsets from the checkpoint.
            after = self._check_start(log, start)
            if not self.query.changes:
                return plan_stretches(log, after, end["txid"], self.query.partition_bytes)
            # The plan keeps the last entries of keys between batches, so each batch reads only its part of the journal.
            self._changes = self._changes or ChangePlan(self.query, self._schema)
            return self._changes.plan_partitions(log, after, end["txid"])

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the matching entries of one partition, their changes, or records of the initial state."""
        with carry_errors():
            if isinstance(partition, StateRange):
                yield from read_state(self.query, self._schema, partition)
            else:
                yield from read_partition(self.query, self.query.build_bounds(), self._schema, partition)

    def _check_start(self, log: Journal, start: Offset) -> int:
        """Return the txid after which to continue.

        Raises DamageError ``SOW-SPK-021`` if the offset is not in this journal, and MissingError ``SOW-SPK-022`` if
        entries after it were removed."""
        place = str(log.directory)
        txid: int = start["txid"]
        # Continuing would combine the checkpoint with entries of another journal, which nothing downstream detects.
        if start["lineage"] not in ("", log.lineage.hex()) or txid > log.read_last_txid():
            raise DamageError(
                "SOW-SPK-021",
                f"the checkpoint is at txid {txid} of another journal, or after the end of this one",
                place=place,
                hint="restore that journal, or start with another checkpointLocation",
            )
        # Without a lineage, the query started before the journal existed. It has read no entries, so removed entries
        # are not a gap.
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
    """A stream whose methods raise the error that building a :class:`JournalStreamReader` raised.

    ``words`` is the text of the CarriedError.
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
    """Return whether records of the initial state remain to be read."""
    return "part" in offset and offset["part"] < offset["parts"]


def _offset(txid: int, log: Journal) -> Offset:
    return {"txid": txid, "lineage": log.lineage.hex()}


def _find_batch_end(log: Journal, after: int, until: int, most: int | None, most_bytes: int | None = None) -> int:
    """Return the end of the last group within ``most`` entries and ``most_bytes`` stored bytes (None: no limit).

    If the first group exceeds the limits, return its end."""
    # Groups are committed atomically and read atomically, so a batch ends at the last group end within the limits.
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
    # The iteration yields no position for the end of the last group, which is ``until``.
    if best is None:
        return until
    last = log.find_end()
    if last.txid != until and most_bytes is not None:
        # ``until`` is a bound before the end of the journal, so take the position of the group that follows it.
        last = next(iter(log.iter_group_positions(until)), last)
    return until if fits(Position(last.number, last.offset, until)) else best


def _find_split_end(log: Journal, after: int, until: int, most: int | None, most_bytes: int | None) -> int:
    """As :func:`_find_batch_end`, but split a group that exceeds the limits: after its last block within the limits, or
    after ``most`` entries of a block that exceeds them."""
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
            # Prefer the end of a group, then the end of a block.
            ends = (group_end, block_end, last if most is None else min(last, after + most))
            return next(end for end in ends if end > after)
        block_end = last
    return until


def _bytes_behind(log: Journal, txid: int) -> int:
    """Return the stored bytes of the journal from the end of the entry ``txid`` to the present end."""
    end = log.find_end()
    if txid >= end.txid:
        return 0
    begin = next(iter(log.iter_group_positions(txid)), end)
    return log.count_bytes_between(begin, end)
