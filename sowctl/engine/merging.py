"""Segments made from segments before a commit: merged into one order, deltas resolved, what an overwrite deletes.

Called by :mod:`sowctl.engine.staged` only, with the topic's locks held. The results are segments in the same staging
directory. Memory holds one bucket of the key space at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.fates import times_of
from sowctl.engine.reports import Rejected
from sowctl.engine.segments import (
    DELETE,
    DELTA,
    HAS_CORRELATION_ID,
    OPERATION,
    PUBLISH,
    Columns,
    Order,
    Rows,
    SegmentInfo,
    SegmentReader,
    SegmentWriter,
)
from sowctl.errors import InputError
from sowctl.store.codec import decode

if TYPE_CHECKING:
    from sowctl.engine.prepare import Preparer
    from sowctl.engine.writer import TopicWriter

BUCKET_BYTES = 64 << 20
LAST_FILE = 0xFFFFFFFF
"""The file number of what an overwrite deletes: behind every file of the input."""
PART = 1000


class Row(NamedTuple):
    """One staged message; the fields of :class:`Rows` in their order."""

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
    def order(self) -> Order:
        """Its place in the input."""
        return self.file, self.position


def in_order(directory: Path, segments: Sequence[SegmentInfo]) -> list[SegmentInfo]:
    """The same messages in segments that follow one another; those that lie across each other are merged."""
    done: list[SegmentInfo] = []
    cluster: list[SegmentInfo] = []
    for info in sorted(segments, key=lambda one: one.first):
        if cluster and info.first > max(one.last for one in cluster):
            done.append(_merged(directory, cluster))
            cluster = []
        cluster.append(info)
    if cluster:
        done.append(_merged(directory, cluster))
    return done


def _merged(directory: Path, cluster: list[SegmentInfo]) -> SegmentInfo:
    if len(cluster) == 1:
        return cluster[0]
    streams = [rows_of(directory, info) for info in cluster]
    found = _written(directory, f"merged-{cluster[0].name}", heapq.merge(*streams, key=lambda row: row.order))
    assert found is not None
    return found


def rows_of(directory: Path, info: SegmentInfo) -> Iterator[Row]:
    """The messages of a segment."""
    with SegmentReader(directory, info) as reader:
        for columns, payloads in reader.blocks():
            yield from block_rows(columns, payloads)


def block_rows(columns: Columns, payloads: Sequence[bytes]) -> Iterator[Row]:
    """The messages of a block."""
    count = len(columns)
    keys, checks = columns.keys.tobytes(), columns.checks.tobytes()
    empty: list[bytes | None] = [None] * count
    yield from map(
        Row,
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


def _written(directory: Path, name: str, rows: Iterator[Row]) -> SegmentInfo | None:
    """A segment of ``rows``; None where there are none."""
    writer = SegmentWriter(directory, name)
    try:
        part: list[Row] = []
        for row in rows:
            part.append(row)
            if len(part) == PART:
                writer.add(Rows(*map(list, zip(*part, strict=True))))
                part = []
        if part:
            writer.add(Rows(*map(list, zip(*part, strict=True))))
        if writer.last == (-1, -1):
            writer.discard()
            return None
        return writer.finish()
    except BaseException:
        writer.discard()
        raise


class Deltas:
    """Deltas into whole messages: each is merged into what its key holds by then (``semantics`` 1.3).

    ``refused`` are those that could not be merged. Messages that the commit will refuse are passed on as they are.
    """

    def __init__(
        self, directory: Path, writer: TopicWriter, preparer: Preparer, now: int, names: Sequence[str]
    ) -> None:
        self.refused: list[Rejected] = []
        self._directory, self._writer, self._preparer, self._now = directory, writer, preparer, now
        self._names = names

    def resolve(self, segments: Sequence[SegmentInfo]) -> list[SegmentInfo]:
        """The same run with publishes in place of deltas."""
        size = sum(info.payload_bytes for info in segments)
        buckets = max(1, -(-size // BUCKET_BYTES))
        made = [
            _written(self._directory, f"resolved-{number}.segment", self._bucket(segments, number, buckets))
            for number in range(buckets)
        ]
        return in_order(self._directory, [info for info in made if info is not None])

    def _bucket(self, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[Row]:
        state: dict[bytes, tuple[bytes, bytes, bytes | None] | None] = {}
        last = self._writer.last_time
        for info in segments:
            with SegmentReader(self._directory, info) as reader:
                for columns, payloads in reader.blocks():
                    times, old = times_of(columns, self._now, last)
                    last = int(times[-1])
                    rows = [
                        (row, refused)
                        for row, refused in zip(block_rows(columns, payloads), old.tolist(), strict=True)
                        if (int.from_bytes(row.key[:4], "big") * buckets) >> 32 == number
                    ]
                    self._load({row.key for row, _ in rows}.difference(state), state)
                    for row, refused in rows:
                        yield from self._one(row, refused, state)

    def _load(self, keys: set[bytes], state: dict[bytes, tuple[bytes, bytes, bytes | None] | None]) -> None:
        stored = self._writer.stored(keys, self._now) if keys else {}
        for key in keys:
            record = decode(key, stored[key]) if key in stored else None
            state[key] = None if record is None else (record.check, record.payload, record.correlation_id)

    def _one(
        self, row: Row, refused: bool, state: dict[bytes, tuple[bytes, bytes, bytes | None] | None]
    ) -> Iterator[Row]:
        before, operation = state[row.key], row.flags & OPERATION
        if operation == DELETE:
            state[row.key] = None
            yield row
            return
        flags = row.flags & ~OPERATION | PUBLISH
        if refused or (before is not None and before[0] != row.check):
            yield row._replace(flags=flags)
            return
        payload, correlation = row.payload, row.correlation_id
        if operation == DELTA and before is not None:
            try:
                payload = self._preparer.type.merge(before[1], row.payload)
            except InputError as error:
                self._refuse(row, error.code, error.message)
                return
            if len(payload) > self._preparer.max_payload:
                words = (
                    f"the merged message has {len(payload)} bytes; the topic's slabs leave {self._preparer.max_payload}"
                )
                self._refuse(row, "SOW-PUB-001", words)
                return
            correlation = before[2] if correlation is None else correlation
            flags |= HAS_CORRELATION_ID if correlation is not None else 0
        state[row.key] = row.check, payload, correlation
        yield row._replace(flags=flags, payload=payload, correlation_id=correlation)

    def _refuse(self, row: Row, code: str, words: str) -> None:
        name = self._names[row.file] if row.file < len(self._names) else "messages"
        self.refused.append(Rejected(name, 0, row.position, code, words, row.payload))


def deletions_of_rest(
    directory: Path, segments: Sequence[SegmentInfo], writer: TopicWriter, now: int
) -> SegmentInfo | None:
    """A segment that deletes every record of the topic for whose key the run has no message; None if there is none."""
    import numpy as np

    def rest() -> Iterator[Row]:
        count = writer.store.meta().records + len(writer.overlay)
        buckets = max(1, -(-(count + sum(info.entries for info in segments)) // (1 << 21)))
        for number in range(buckets):
            kept = np.concatenate([np.zeros(0, dtype=np.uint64), *_keys(directory, segments, number, buckets)])
            kept.sort()
            for keys, _ in writer.scan(PART, now):
                numbers = np.frombuffer(b"".join(keys), dtype=">u8").astype(np.uint64)
                mine = ((numbers >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)) == number
                gone = mine & ~np.isin(numbers, kept)
                for place in gone.nonzero()[0].tolist():
                    yield Row(LAST_FILE, 0, keys[place], bytes(8), 0, 0, DELETE, None, None, b"")

    numbered = (row._replace(position=place) for place, row in enumerate(rest()))
    return _written(directory, "rest.segment", numbered)


def _keys(directory: Path, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[object]:
    """The keys of one bucket that the run has messages for, as numpy arrays."""
    import numpy as np

    for info in segments:
        with SegmentReader(directory, info) as reader:
            for columns in reader.columns():
                keys = columns.keys.astype(np.uint64)
                yield keys[((keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)) == number]
