"""Segments made from segments before a commit: merged into one order, and what an overwrite deletes.

Called by :mod:`sowctl.engine.bulk.commit` and what it starts, with the topic's locks held. The results are segments in
the same staging directory. Memory holds one bucket of the key space at a time. Ruled by ``sowctl-pipeline(1)``,
STAGING.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.bulk.outcomes import BUCKET_ENTRIES
from sowctl.engine.bulk.segments import (
    DELETE,
    InputOrder,
    SegmentColumns,
    SegmentInfo,
    SegmentReader,
    SegmentRows,
    SegmentWriter,
)
from sowctl.identity.keyspace import find_parts

if TYPE_CHECKING:
    from sowctl.engine.writing.topicwriter import StoreWriter

OVERWRITE_FILE_NUMBER = 0xFFFFFFFF
"""The file number of what an overwrite deletes: behind every file of the input."""
PART_ROWS = 1000


class StagedRow(NamedTuple):
    """One staged message; the fields of :class:`SegmentRows` in their order."""

    file: int
    position: int
    key: bytes
    check: bytes
    time: int
    lifetime: int
    flags: int
    user_key: bytes | None
    correlation_id: bytes | None
    payload: bytes

    @property
    def order(self) -> InputOrder:
        """Its place in the input."""
        return self.file, self.position


def order_segments(directory: Path, segments: Sequence[SegmentInfo]) -> list[SegmentInfo]:
    """Segments with these messages that follow one another; those that lie across each other are merged."""
    done: list[SegmentInfo] = []
    cluster: list[SegmentInfo] = []
    # Tasks mostly read parts of the input one behind the other. Segments that overlap none before them are taken as
    # they are, and only a cluster of overlapping ones is read and written once more.
    for info in sorted(segments, key=lambda one: one.first):
        if cluster and info.first > max(one.last for one in cluster):
            done.append(_merge_cluster(directory, cluster))
            cluster = []
        cluster.append(info)
    if cluster:
        done.append(_merge_cluster(directory, cluster))
    return done


def _merge_cluster(directory: Path, cluster: list[SegmentInfo]) -> SegmentInfo:
    # The usual case: the segment is taken as it is, without being read.
    if len(cluster) == 1:
        return cluster[0]
    # Streams are read block by block, so the merge holds a block of each segment.
    streams = [read_rows(directory, info) for info in cluster]
    found = write_segment(directory, f"merged-{cluster[0].name}", heapq.merge(*streams, key=lambda row: row.order))
    assert found is not None
    return found


def read_rows(directory: Path, info: SegmentInfo) -> Iterator[StagedRow]:
    """The messages of a segment."""
    with SegmentReader(directory, info) as reader:
        for columns, payloads in reader.iterate_blocks():
            yield from iterate_block_rows(columns, payloads)


def iterate_block_rows(columns: SegmentColumns, payloads: Sequence[bytes]) -> Iterator[StagedRow]:
    """The messages of a block."""
    count = len(columns)
    keys, checks = columns.keys.tobytes(), columns.checks.tobytes()
    empty: list[bytes | None] = [None] * count
    yield from map(
        StagedRow,
        columns.files.tolist(),
        columns.positions.tolist(),
        [keys[at : at + 8] for at in range(0, 8 * count, 8)],
        [checks[at : at + 8] for at in range(0, 8 * count, 8)],
        columns.times.tolist(),
        columns.lifetimes.tolist(),
        columns.flags.tolist(),
        columns.user_keys or empty,
        columns.correlation_ids or empty,
        payloads,
    )


def write_segment(directory: Path, name: str, rows: Iterator[StagedRow]) -> SegmentInfo | None:
    """A segment of ``rows``; None where there are none."""
    writer = SegmentWriter(directory, name)
    try:
        part: list[StagedRow] = []
        for row in rows:
            part.append(row)
            if len(part) == PART_ROWS:
                writer.add_rows(SegmentRows(*map(list, zip(*part, strict=True))))
                part = []
        if part:
            writer.add_rows(SegmentRows(*map(list, zip(*part, strict=True))))
        # Without a message there is no segment: an empty one would have no order to be merged by.
        if writer.last == (-1, -1):
            writer.discard()
            return None
        return writer.finish()
    except BaseException:
        writer.discard()
        raise


def write_rest_deletions(
    directory: Path, segments: Sequence[SegmentInfo], writer: StoreWriter, now: int
) -> SegmentInfo | None:
    """A segment that deletes every record of the topic for whose key the run has no message; None if there is none."""
    import numpy as np

    def rest() -> Iterator[StagedRow]:
        count = writer.store.read_meta().records + len(writer.memtable)
        # The topic is scanned once for each bucket; in exchange, memory holds the keys of one bucket only.
        buckets = max(1, -(-(count + sum(info.entries for info in segments)) // BUCKET_ENTRIES))
        for number in range(buckets):
            kept = np.concatenate(
                [np.zeros(0, dtype=np.uint64), *_read_bucket_keys(directory, segments, number, buckets)]
            )
            kept.sort()
            # What has expired is not seen here and needs no deletion: it leaves the store by itself.
            for keys, _ in writer.scan(PART_ROWS, now):
                numbers = np.frombuffer(b"".join(keys), dtype=">u8").astype(np.uint64)
                mine = find_parts(numbers, buckets) == number
                # Records whose key the run has a message for are replaced or kept by that message; only the rest goes.
                gone = mine & ~np.isin(numbers, kept)
                for place in gone.nonzero()[0].tolist():
                    # Behind every file of the input, so that these deletions come last, and their txids are the highest
                    # of the group.
                    yield StagedRow(OVERWRITE_FILE_NUMBER, 0, keys[place], bytes(8), 0, 0, DELETE, None, None, b"")

    # Numbered as they come, bucket after bucket: a segment's rows must ascend by file and position.
    numbered = (row._replace(position=place) for place, row in enumerate(rest()))
    return write_segment(directory, "rest.segment", numbered)


def _read_bucket_keys(directory: Path, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[object]:
    """The keys of one bucket that the run has messages for, as numpy arrays."""
    import numpy as np

    for info in segments:
        with SegmentReader(directory, info) as reader:
            for columns in reader.iterate_columns():
                keys = columns.keys.astype(np.uint64)
                yield keys[find_parts(keys, buckets) == number]
