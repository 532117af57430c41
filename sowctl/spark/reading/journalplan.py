"""Plan of a journal's partitions: about equal sizes, by headers of files (sowctl-spark(7), PARTITIONS). Where its
first block begins each task finds out by itself (:mod:`sowctl.journal.stretch`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import InputPartition

from sowctl.engine.maintenance.journal_search.entries import require_topic
from sowctl.engine.topics.positions import open_log
from sowctl.errors import DamageError, MissingError, UsageError
from sowctl.journal.reader import Journal
from sowctl.journal.stretch import Segment, Span, Stretch, TxidLocator, cut_stretches, find_spans, locate_by_index
from sowctl.spark.origin import Origin
from sowctl.spark.reading.limits import PARTITION_LIMITS

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block
    from sowctl.values.topicref import TopicRef


class PlannedStretch(InputPartition):
    """A part of a journal: of the blocks in these stretches, the txids above ``after`` and not above ``until``."""

    def __init__(self, after: int, until: int, parts: tuple[Stretch, ...]) -> None:
        self.after = after
        self.until = until
        self.parts = parts

    def read_blocks(self, log: Journal, after: int, until: int, topic: TopicRef | None = None) -> Iterator[Block]:
        """Its blocks with a txid within these bounds and its own, in order; with ``topic`` those of it alone."""
        low, high = max(after, self.after), min(until, self.until)
        for part in self.parts:
            yield from log.iter_stretch_blocks(part, low, high, topic)


class _Task(Protocol):
    """Part of a journal that a task is to read."""

    @property
    def until(self) -> int:
        """The last txid."""
        ...

    @property
    def parts(self) -> tuple[Stretch, ...]:
        """Of each file in an archive at a URL that it reads a part, or all of it."""
        ...


def open_journal(origin: Origin, *, whole: bool = False, task: _Task | None = None) -> Journal:
    """The journal for reading; ``whole``: its end is asked of all stores. ``task``: the part that a task is to read,
    for which it need not ask again what an archive at a URL holds.

    Raises what opening a journal raises, and DamageError ``SOW-JRN-084`` where the archive holds other entries than it
    did for the plan.
    """
    if task is None:
        return _open_log(origin, whole=whole)
    parts = task.parts
    # This process may have read the manifest of an archive that was made anew at its URL since: then what it says does
    # not fit what the plan has seen, or what lies here.
    with suppress(DamageError), ExitStack() as held:
        log = held.enter_context(_open_log(origin, reaching=task.until))
        if all(_is_planned(log, part) for part in parts):
            held.pop_all()
            return log
    with ExitStack() as held:
        log = held.enter_context(_open_log(origin))
        for part in parts:
            told = log.find_archived_file(part.number) if part.mark else None
            # The same blocks in another file are as good: a file that was compressed since is sent again.
            if told is not None and (told.last_txid, told.last_block) != (part.last_txid, part.last_block):
                raise DamageError(
                    "SOW-JRN-084",
                    f"the archive was recreated after the query was planned: file {part.number:010d} has other entries",
                    place=str(log.archive or log.directory),
                    hint="run the query again",
                )
        held.pop_all()
        return log


def _is_planned(log: Journal, part: Stretch) -> bool:
    """Return whether the manifest known here has the plan's file; of files of this machine none is asked."""
    if not part.mark:
        return True
    told = log.find_archived_file(part.number)
    return told is not None and told.fingerprint == part.mark


def _open_log(origin: Origin, *, whole: bool = False, reaching: int | None = None) -> Journal:
    if origin.path is not None and origin.journal_name is not None:
        return Journal.open(origin.path, origin.journal_name, archive=origin.archive, reaching=reaching)
    return open_log(origin.build_instance(), whole=whole, archive=origin.archive, reaching=reaching)


def build_origin(log: Journal, now: int) -> Origin:
    """The origin by which tasks open a journal that is open here."""
    return Origin(None, None, log.directory, log.instance, now, log.archive)


def require_entries(origin: Origin, topic: str | None, message_type: str | None, *, later: bool = False) -> None:
    """Refuse to read entries of a topic that there cannot be: a name that is misspelt must not give an empty result.

    ``later``: the journal is followed, and may not be there yet. Raises MissingError ``SOW-ENG-012``, and UsageError
    ``SOW-SPK-100`` for a logical topic.
    """
    if topic is None or (later and origin.config is None):
        return
    try:
        with open_journal(origin) as log:
            known = list(log.read_topic_states())
    except MissingError as error:
        if not later or error.code != "SOW-JRN-001":
            raise
        known = []
    # Entries of a logical topic stand in the journal under the Name of their Pattern topic (behaviour 1.8).
    found = require_topic(origin.build_instance(), known, topic, message_type)
    if found is not None and found.logical is not None and found.name != topic:
        raise UsageError(
            "SOW-SPK-100",
            f"{topic!r} is a logical topic of {found.name!r}; its entries have the name of that topic",
            hint=f"read topic {found.name} with the column _logical_topic, and filter by it",
        )


def warn_unsplittable(instance: Instance, log: Journal) -> None:
    """Remark on files that are larger than a partition, and yet read by one task: they are compressed and have no table
    of their frames."""
    for segment in log.list_segments():
        if segment.is_packed and segment.size > PARTITION_LIMITS.partition_bytes:
            # By gzip, by another program or by an earlier release: who compressed it cannot be told here.
            text = (
                f"journal file {segment.number:010d} is compressed without a table of frames: one task "
                "reads the whole file"
            )
            instance.notify_once(f"uncut {segment.number}", text)


def plan_stretches(log: Journal, after: int, until: int | None, size: int | None) -> list[PlannedStretch]:
    """The partitions from above ``after`` to ``until`` (or the present end), each about ``size`` bytes as stored.

    None: what :func:`compute_partition_bytes` says. Headers of the files between the bounds are read, and a few blocks
    of those two in which the bounds lie.
    """
    end = log.read_last_txid()
    until = end if until is None else min(until, end)
    # Files before the first one left were removed, which is allowed from the oldest on (behaviour 6.1).
    after = max(after, log.first_txid - 1)
    return plan_partitions(log.list_segments(after, until), after, until, size, log.locate_txid)


def plan_partitions(
    segments: Sequence[Segment], after: int, until: int, size: int | None = None, near: TxidLocator = locate_by_index
) -> list[PlannedStretch]:
    """As :func:`plan_stretches`, of files that are known from wherever: nothing is opened but by ``near``."""
    if after >= until:
        return []
    wanted = find_spans(segments, after, until, near)
    if size is None:
        size = compute_partition_bytes(sum(span.size for span in wanted), os.cpu_count() or 1)
    return split_partitions(wanted, after, until, size)


def split_partitions(wanted: Sequence[Span], after: int, until: int, size: int) -> list[PlannedStretch]:
    """Spans of files as partitions of about ``size`` bytes."""
    # Each ends with its last file, so that of an archive a task needs the manifest that the one before has read.
    last = {span.segment.number: span.segment.last_txid for span in wanted}
    return [PlannedStretch(after, min(until, last[parts[-1].number]), parts) for parts in cut_stretches(wanted, size)]


def compute_partition_bytes(total: int, processors: int, worthwhile: int | None = None) -> int:
    """The size of equal partitions of so many bytes, as stored; ``worthwhile`` in place of WORTHWHILE."""
    # As many as the size asks for, or more so that every processor has work, but none so small that starting the task
    # costs more than it reads.
    size = min(
        max(PARTITION_LIMITS.partition_bytes, -(-total // PARTITION_LIMITS.max_partitions)),
        PARTITION_LIMITS.max_partition_bytes,
    )
    count = max(-(-total // size), min(processors, total // (worthwhile or PARTITION_LIMITS.min_partition_bytes)), 1)
    return -(-total // count)
