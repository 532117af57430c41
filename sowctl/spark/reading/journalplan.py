"""Planning of a journal's partitions, of about equal sizes, by the headers of its files (sowctl-spark(7), PARTITIONS).

Each task itself finds the start of its first block (:mod:`sowctl.journal.stretch`).
"""

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
    """A part of a journal: the entries after txid ``after`` up to ``until`` in the blocks of these stretches."""

    def __init__(self, after: int, until: int, parts: tuple[Stretch, ...]) -> None:
        self.after = after
        self.until = until
        self.parts = parts

    def read_blocks(self, log: Journal, after: int, until: int, topic: TopicRef | None = None) -> Iterator[Block]:
        """Yield the blocks with a txid within these and its own bounds, in order; with ``topic``, only its blocks."""
        low, high = max(after, self.after), min(until, self.until)
        for part in self.parts:
            yield from log.iter_stretch_blocks(part, low, high, topic)


class _Task(Protocol):
    """The part of a journal that a task reads."""

    @property
    def until(self) -> int:
        """The last txid."""
        ...

    @property
    def parts(self) -> tuple[Stretch, ...]:
        """The stretches of files, with a mark for those in an archive at a URL."""
        ...


def open_journal(origin: Origin, *, whole: bool = False, task: _Task | None = None) -> Journal:
    """Open the journal for reading.

    ``whole``: check against all stores that the end of the journal is not missing. ``task``: the part that a task
    reads, with which a cached manifest of an archive at a URL may be reused. Raises what opening a journal raises, and
    DamageError ``SOW-JRN-084`` if the archive has other entries than those that were planned.
    """
    if task is None:
        return _open_log(origin, whole=whole)
    parts = task.parts
    # This process may have cached the manifest of an archive that was recreated at its URL since then. Such a manifest
    # does not match the plan or the local files.
    with suppress(DamageError), ExitStack() as held:
        log = held.enter_context(_open_log(origin, reaching=task.until))
        if all(_is_planned(log, part) for part in parts):
            held.pop_all()
            return log
    with ExitStack() as held:
        log = held.enter_context(_open_log(origin))
        for part in parts:
            told = log.find_archived_file(part.number) if part.mark else None
            # Another file with the same blocks is valid: files that were compressed since then are uploaded again.
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
    """Return whether the manifest of the open journal lists the planned file; local files are not checked."""
    if not part.mark:
        return True
    told = log.find_archived_file(part.number)
    return told is not None and told.fingerprint == part.mark


def _open_log(origin: Origin, *, whole: bool = False, reaching: int | None = None) -> Journal:
    if origin.path is not None and origin.journal_name is not None:
        return Journal.open(origin.path, origin.journal_name, archive=origin.archive, reaching=reaching)
    return open_log(origin.build_instance(), whole=whole, archive=origin.archive, reaching=reaching)


def build_origin(log: Journal, now: int) -> Origin:
    """Return the origin with which tasks open the journal ``log``."""
    return Origin(None, None, log.directory, log.instance, now, log.archive)


def require_entries(origin: Origin, topic: str | None, message_type: str | None, *, later: bool = False) -> None:
    """Check that the topic exists, so that a misspelt name is an error and not an empty result.

    ``later``: the journal is followed and need not exist yet. Raises MissingError ``SOW-ENG-012`` if the topic does not
    exist, and UsageError ``SOW-SPK-100`` for a logical topic.
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
    # The journal stores entries of a logical topic under the Name of their Pattern topic (behaviour 1.8).
    found = require_topic(origin.build_instance(), known, topic, message_type)
    if found is not None and found.logical is not None and found.name != topic:
        raise UsageError(
            "SOW-SPK-100",
            f"{topic!r} is a logical topic of {found.name!r}; its entries have the name of that topic",
            hint=f"read topic {found.name} with the column _logical_topic, and filter by it",
        )


def warn_unsplittable(instance: Instance, log: Journal) -> None:
    """Notify about compressed files without a table of frames that are larger than a partition: one task has to read
    each of them completely."""
    for segment in log.list_segments():
        if segment.is_packed and segment.size > PARTITION_LIMITS.partition_bytes:
            # The text does not say which program compressed it: it may be gzip, another program or an earlier release.
            text = (
                f"journal file {segment.number:010d} is compressed without a table of frames: one task "
                "reads the whole file"
            )
            instance.notify_once(f"uncut {segment.number}", text)


def plan_stretches(log: Journal, after: int, until: int | None, size: int | None) -> list[PlannedStretch]:
    """Plan the partitions of the entries after txid ``after`` up to ``until`` (None: the present end).

    Each has about ``size`` stored bytes, by default those of :func:`compute_partition_bytes`. Reads the headers of the
    files between the bounds, and a few blocks of the two files that contain the bounds.
    """
    end = log.read_last_txid()
    until = end if until is None else min(until, end)
    # Older files may have been removed (behaviour 6.1).
    after = max(after, log.first_txid - 1)
    return plan_partitions(log.list_segments(after, until), after, until, size, log.locate_txid)


def plan_partitions(
    segments: Sequence[Segment], after: int, until: int, size: int | None = None, near: TxidLocator = locate_by_index
) -> list[PlannedStretch]:
    """As :func:`plan_stretches`, for known ``segments``; only ``near`` opens files."""
    if after >= until:
        return []
    wanted = find_spans(segments, after, until, near)
    if size is None:
        size = compute_partition_bytes(sum(span.size for span in wanted), os.cpu_count() or 1)
    return split_partitions(wanted, after, until, size)


def split_partitions(wanted: Sequence[Span], after: int, until: int, size: int) -> list[PlannedStretch]:
    """Divide spans of files into partitions of about ``size`` bytes."""
    # A partition ends at most with its last file, so that a task can use the manifest that an earlier task cached.
    last = {span.segment.number: span.segment.last_txid for span in wanted}
    return [PlannedStretch(after, min(until, last[parts[-1].number]), parts) for parts in cut_stretches(wanted, size)]


def compute_partition_bytes(total: int, processors: int, worthwhile: int | None = None) -> int:
    """Return the size of equal partitions of ``total`` stored bytes.

    ``worthwhile`` replaces ``PARTITION_LIMITS.min_partition_bytes``."""
    # Use more partitions than the size requires if processors would be idle, but none for which starting the task costs
    # more than reading.
    size = min(
        max(PARTITION_LIMITS.partition_bytes, -(-total // PARTITION_LIMITS.max_partitions)),
        PARTITION_LIMITS.max_partition_bytes,
    )
    count = max(-(-total // size), min(processors, total // (worthwhile or PARTITION_LIMITS.min_partition_bytes)), 1)
    return -(-total // count)
