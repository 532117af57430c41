"""Segments made from segments before a commit: merged into one order, and what an overwrite deletes.

Called by :mod:`sowctl.engine.bulk.commit` and what it starts, with the topic's locks held. The results are segments in
the same staging directory. Memory holds one bucket of the key space at a time. Ruled by ``sowctl-pipeline(1)``,
STAGING.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.bulk.outcomes import BUCKET_ENTRIES
from sowctl.engine.bulk.segments import (
    SegmentInfo,
    SegmentWriter,
    StagedBatch,
    concatenate_staged,
    read_segments,
)
from sowctl.identity.keyspace import find_parts
from sowctl.journal.entries import EntryBatch
from sowctl.journal.format import DELETE

if TYPE_CHECKING:
    from sowctl.engine.writing.topicwriter import StoreWriter

OVERWRITE_FILE_NUMBER = 0xFFFFFFFF
"""The file number of what an overwrite deletes: behind every file of the input."""
PART_ROWS = 1000


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
    streams = [read_segments(directory, [info]) for info in cluster]
    found = write_segment(directory, f"merged-{cluster[0].name}", _merge_streams(streams))
    assert found is not None
    return found


def _merge_streams(streams: Iterable[Iterator[StagedBatch]]) -> Iterator[StagedBatch]:
    """The messages of streams in the order of the input; a block of each stream is held."""
    import numpy as np

    held = [(batch, stream) for stream in streams if (batch := next(stream, None)) is not None]
    while held:
        # Up to the first end of a block no stream has a message that is not held.
        bound = min(batch.get_order(-1) for batch, _ in held)
        counts = [batch.count_until(bound) for batch, _ in held]
        ready = concatenate_staged(
            [batch.slice(0, count) for (batch, _), count in zip(held, counts, strict=True) if count]
        )
        merged = ready.take(np.lexsort((ready.positions, ready.files)))
        # Payloads are read by now: the last block of a stream closes its file when the next one is asked for.
        rest = [
            (batch.slice(count, len(batch)) if count < len(batch) else next(stream, None), stream)
            for (batch, stream), count in zip(held, counts, strict=True)
        ]
        held = [(batch, stream) for batch, stream in rest if batch is not None]
        yield merged


def write_segment(directory: Path, name: str, batches: Iterator[StagedBatch]) -> SegmentInfo | None:
    """A segment of ``batches``; None where these have no messages."""
    writer = SegmentWriter(directory, name)
    try:
        for batch in batches:
            writer.add_batch(batch)
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

    def list_rest() -> Iterator[StagedBatch]:
        count = writer.store.read_meta().records + len(writer.memtable)
        # The topic is scanned once for each bucket; in exchange, memory holds the keys of one bucket only.
        buckets = max(1, -(-(count + sum(info.entries for info in segments)) // BUCKET_ENTRIES))
        done = 0
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
                gone = (mine & ~np.isin(numbers, kept)).nonzero()[0].tolist()
                nothing = np.zeros(len(gone), dtype=np.int64)
                yield StagedBatch(
                    EntryBatch(
                        [writer.ref],
                        [b""] * len(gone),
                        [keys[place] for place in gone],
                        bytes(8 * len(gone)),
                        0,
                        operations=DELETE,
                    ),
                    # Behind every file of the input, so that these deletions come last, and their txids are the highest
                    # of the group. Numbered as they come: a segment's messages must ascend by file and position.
                    nothing + OVERWRITE_FILE_NUMBER,
                    np.arange(done, done + len(gone)),
                    nothing,
                    nothing,
                )
                done += len(gone)

    return write_segment(directory, "rest.segment", list_rest())


def _read_bucket_keys(directory: Path, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[object]:
    """The keys of one bucket that the run has messages for, as numpy arrays."""
    import numpy as np

    for batch in read_segments(directory, segments):
        keys = batch.arrays.keys.astype(np.uint64)
        yield keys[find_parts(keys, buckets) == number]
