"""Which stretch of a journal each task reads: whole groups, cut at about equal sizes (sowctl-spark(7), PARTITIONS)."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from sowctl.engine.topics.positions import open_log
from sowctl.engine.upkeep.searching.entries import require_topic
from sowctl.errors import MissingError, UsageError
from sowctl.journal.block import Position
from sowctl.journal.reader import Journal

if TYPE_CHECKING:
    from sowctl.journal.block import FileInfo
    from sowctl.spark.origin import Origin

PARTITION_BYTES = 24 << 20
WORTHWHILE = 4 << 20
"""Bytes of a journal, as stored, that take several times as long to read as a task takes to begin."""
MANY = 512
"""From so many files on each is one partition: walking their headers would take longer than it saves."""


class PlannedStretch(InputPartition):
    """Whole groups: txids above ``after`` and not above ``until``. ``start`` is where the first one lies, if known."""

    def __init__(self, after: int, until: int, start: Position | None = None) -> None:
        self.after = after
        self.until = until
        self.start = start


def open_journal(origin: Origin, *, whole: bool = False) -> Journal:
    """The journal for reading; ``whole``: its end is asked of all stores. Raises what opening a journal raises."""
    if origin.path is not None and origin.journal_name is not None:
        return Journal.open(origin.path, origin.journal_name, archive=origin.archive)
    return open_log(origin.instance(), whole=whole)


def require_entries(origin: Origin, topic: str | None, message_type: str | None, *, later: bool = False) -> None:
    """Refuse to read entries of a topic that there cannot be: a name that is misspelt must not give an empty result.

    ``later``: the journal is followed, and may not be there yet. Raises MissingError ``SOW-ENG-012``, and UsageError
    ``SOW-SPK-100`` for a logical topic.
    """
    if topic is None or (later and origin.config is None):
        return
    try:
        with open_journal(origin) as log:
            known = list(log.topics())
    except MissingError as error:
        if not later or error.code != "SOW-JRN-001":
            raise
        known = []
    # Entries of a logical topic stand in the journal under the Name of their Pattern topic (behaviour 1.8).
    found = require_topic(origin.instance(), known, topic, message_type)
    if found is not None and found.logical is not None and found.name != topic:
        raise UsageError(
            "SOW-SPK-100",
            f"{topic!r} is a logical topic of {found.name!r}, under which its entries stand",
            hint=f"read topic {found.name} with the column _logical_topic, and filter by it",
        )


def plan_stretches(log: Journal, after: int, until: int | None, size: int | None) -> list[PlannedStretch]:
    """The stretches from above ``after`` to ``until`` (or the present end), each about ``size`` bytes as stored.

    None: equal ones of at most PARTITION_BYTES, no fewer than this machine has processors if they are worth a task.
    """
    files = log.files()
    end = log.last_txid()
    until = end if until is None else min(until, end)
    # Files before the first one left were removed, which is allowed from the oldest on (behaviour 6.1).
    after = max(after, log.first_txid - 1)
    if after >= until:
        return []
    # The file that is being written has no last txid yet: it ends at the end of the journal.
    holding = [file for file in files if file.first_txid <= until and (file.last_txid or end) > after]
    if len(holding) >= MANY:
        return [PlannedStretch(max(after, file.first_txid - 1), min(until, file.last_txid or end)) for file in holding]
    return _cut(log, {file.number: file for file in holding}, after, until, size)


def _cut(log: Journal, files: dict[int, FileInfo], after: int, until: int, size: int | None) -> list[PlannedStretch]:
    # The cuts lie between groups, because no reader may begin within one. A place has the txid of the last entry before
    # it, so that where one stretch ends is what the next begins behind.
    places = list(log.places(after, until))
    sizes = [_between(files, *pair) for pair in pairwise([*places, log.end()])]
    if size is None:
        size = _even(sum(sizes))
    starts: list[Position] = []
    passed = 0
    for place, length in zip(places, sizes, strict=True):
        # A compressed file is unpacked from its beginning by each who begins in it: it is not cut.
        inside = bool(starts) and starts[-1].number == place.number and files[place.number].is_packed
        if not starts or (passed >= size and not inside):
            starts.append(place)
            passed = 0
        passed += length
    ends = [start.txid for start in starts[1:]] + [until]
    return [PlannedStretch(max(after, start.txid), stop, start) for start, stop in zip(starts, ends, strict=True)]


def _between(files: dict[int, FileInfo], place: Position, following: Position) -> int:
    """The bytes from one place to another in the same file, or to the end of its file."""
    if place.number == following.number:
        return following.offset - place.offset
    known = files.get(place.number)
    return max(known.size - place.offset, 0) if known is not None else 0


def _even(total: int) -> int:
    """The size of equal stretches of so many bytes."""
    # As many as the size asks for, or more so that every processor has work, but none so small that starting the task
    # costs more than it reads.
    count = max(-(-total // PARTITION_BYTES), min(os.cpu_count() or 1, total // WORTHWHILE), 1)
    return -(-total // count)
