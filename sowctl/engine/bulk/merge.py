"""Segments that are written before a commit: segments merged into input order, and the deletions of an overwrite.

Called by :mod:`sowctl.engine.bulk.commit` and its helpers, with the topic's locks held. The results are segments in the
same staging directory. Memory holds one bucket of the key space at a time. The contract is ``sowctl-pipeline(1)``,
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
"""The file number of an overwrite's deletions, which sorts them after all files of the input."""
PART_ROWS = 1000


def order_segments(directory: Path, segments: Sequence[SegmentInfo]) -> list[SegmentInfo]:
    """Return segments with these messages in input order; overlapping segments are merged."""
    done: list[SegmentInfo] = []
    cluster: list[SegmentInfo] = []
    # Tasks usually read consecutive parts of the input. Only clusters of overlapping segments are read and written
    # again; the others are used unchanged.
    for info in sorted(segments, key=lambda one: one.first):
        if cluster and info.first > max(one.last for one in cluster):
            done.append(_merge_cluster(directory, cluster))
            cluster = []
        cluster.append(info)
    if cluster:
        done.append(_merge_cluster(directory, cluster))
    return done


def _merge_cluster(directory: Path, cluster: list[SegmentInfo]) -> SegmentInfo:
    # The usual case: use the segment without reading it.
    if len(cluster) == 1:
        return cluster[0]
    streams = [read_segments(directory, [info]) for info in cluster]
    found = write_segment(directory, f"merged-{cluster[0].name}", _merge_streams(streams))
    assert found is not None
    return found


def _merge_streams(streams: Iterable[Iterator[StagedBatch]]) -> Iterator[StagedBatch]:
    """Merge the messages of streams into input order; memory holds a block of each stream."""
    import numpy as np

    held = [(batch, stream) for stream in streams if (batch := next(stream, None)) is not None]
    while held:
        # All messages up to the smallest block end are in memory.
        bound = min(batch.get_order(-1) for batch, _ in held)
        counts = [batch.count_until(bound) for batch, _ in held]
        ready = concatenate_staged(
            [batch.slice(0, count) for (batch, _), count in zip(held, counts, strict=True) if count]
        )
        merged = ready.take(np.lexsort((ready.positions, ready.files)))
        # take() has read the payloads; advancing a stream after its last block closes the file.
        rest = [
            (batch.slice(count, len(batch)) if count < len(batch) else next(stream, None), stream)
            for (batch, stream), count in zip(held, counts, strict=True)
        ]
        held = [(batch, stream) for batch, stream in rest if batch is not None]
        yield merged


def write_segment(directory: Path, name: str, batches: Iterator[StagedBatch]) -> SegmentInfo | None:
    """Write a segment of ``batches`` and return it, None if they have no messages."""
    writer = SegmentWriter(directory, name)
    try:
        for batch in batches:
            writer.add_batch(batch)
        # An empty segment would have no position in the input order.
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
    """Write a segment that deletes every record without a message in the run; return None if there are none."""
    import numpy as np

    def list_rest() -> Iterator[StagedBatch]:
        count = writer.store.read_meta().records + len(writer.memtable)
        # Scan the topic once per bucket, so that memory holds only the keys of one bucket.
        buckets = max(1, -(-(count + sum(info.entries for info in segments)) // BUCKET_ENTRIES))
        done = 0
        for number in range(buckets):
            kept = np.concatenate(
                [np.zeros(0, dtype=np.uint64), *_read_bucket_keys(directory, segments, number, buckets)]
            )
            kept.sort()
            # The scan skips expired records. They need no deletion, because they are removed anyway.
            for keys, _ in writer.scan(PART_ROWS, now):
                numbers = np.frombuffer(b"".join(keys), dtype=">u8").astype(np.uint64)
                mine = find_parts(numbers, buckets) == number
                # Records with a message in the run are replaced or kept by it; only the others are deleted.
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
                    # After all files of the input, so that these deletions have the highest txids of the group. The
                    # positions are consecutive, because messages of a segment must ascend by file and position.
                    nothing + OVERWRITE_FILE_NUMBER,
                    np.arange(done, done + len(gone)),
                    nothing,
                    nothing,
                )
                done += len(gone)

    return write_segment(directory, "rest.segment", list_rest())


def _read_bucket_keys(directory: Path, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[object]:
    """Yield the keys of one bucket for which the run has messages, as numpy arrays."""
    import numpy as np

    for batch in read_segments(directory, segments):
        keys = batch.arrays.keys.astype(np.uint64)
        yield keys[find_parts(keys, buckets) == number]
