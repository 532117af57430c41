"""Segments made from segments before a commit: merged into one order, messages finished, what an overwrite deletes.

Called by :mod:`sowctl.engine.staged` only, with the topic's locks held. The results are segments in the same staging
directory. Memory holds one bucket of the key space at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.fates import BUCKET_ENTRIES, in_bucket, times_of
from sowctl.engine.finishing import finish
from sowctl.engine.lifetime import is_expired
from sowctl.engine.prepare import Prepared
from sowctl.engine.reports import Rejected
from sowctl.engine.segmentblock import (
    DELETE,
    DELTA,
    EXPIRES_AT,
    HAS_CORRELATION_ID,
    HAS_LIFETIME,
    OPERATION,
    PUBLISH,
    Columns,
    Rows,
)
from sowctl.engine.segments import Order, SegmentInfo, SegmentReader, SegmentWriter
from sowctl.store.codec import encode
from sowctl.tuples import NamedTuple

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


class Finishing:
    """Messages as they are to be recorded: enriched, deltas merged into what their key holds by then.

    The rules are those of :mod:`sowctl.engine.finishing`. ``refused`` are messages that have no such form. Messages
    that are older than the topic are passed on as they are, for the commit to refuse.
    """

    def __init__(
        self, directory: Path, writer: TopicWriter, preparer: Preparer, now: int, names: Sequence[str]
    ) -> None:
        self.refused: list[Rejected] = []
        self._directory, self._writer, self._preparer, self._now = directory, writer, preparer, now
        self._names = names
        self._known: dict[bytes, bytes | None] = {}

    def finish(self, segments: Sequence[SegmentInfo]) -> list[SegmentInfo]:
        """The same run, finished, with publishes in place of deltas."""
        size = sum(info.payload_bytes for info in segments)
        buckets = max(1, -(-size // BUCKET_BYTES))
        made = [
            _written(self._directory, f"finished-{number}.segment", self._bucket(segments, number, buckets))
            for number in range(buckets)
        ]
        return in_order(self._directory, [info for info in made if info is not None])

    def _bucket(self, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[Row]:
        self._known = {}
        last = self._writer.last_time
        for info in segments:
            with SegmentReader(self._directory, info) as reader:
                for columns, payloads in reader.blocks():
                    times, old = times_of(columns, self._now, last)
                    last = int(times[-1])
                    found = zip(block_rows(columns, payloads), times.tolist(), old.tolist(), strict=True)
                    mine = [one for one in found if (int.from_bytes(one[0].key[:4], "big") * buckets) >> 32 == number]
                    self._look_up({row.key for row, _, _ in mine}.difference(self._known))
                    for deletes, some in groupby(mine, key=_is_deletion):
                        rows = list(some)
                        yield from self._deleted(rows) if deletes else self._finished(rows)

    def _look_up(self, keys: set[bytes]) -> None:
        stored = self._writer.stored(keys, self._now) if keys else {}
        self._known.update((key, stored.get(key)) for key in keys)

    def _deleted(self, rows: Iterable[tuple[Row, int, bool]]) -> Iterator[Row]:
        for row, _, _ in rows:
            self._known[row.key] = None
            yield row

    def _finished(self, found: list[tuple[Row, int, bool]]) -> Iterator[Row]:
        """Messages that follow one another without a deletion between them."""
        rows = [row for row, _, _ in found]
        ready = _prepared(rows)
        keep = [place for place, (_, _, old) in enumerate(found) if not old]
        stored = {key: value for row in rows if (value := self._known[key := row.key]) is not None}
        times = [time for _, time, _ in found]
        gone = finish(self._writer, self._preparer, ready, keep, times, stored, self._now)
        for refusal in gone:
            row = rows[refusal.index]
            name = self._names[row.file] if row.file < len(self._names) else "messages"
            self.refused.append(Rejected(name, 0, row.position, refusal.code, refusal.message, row.payload))
        without = {refusal.index for refusal in gone}
        correlations = ready.correlation_ids or [None] * len(rows)
        for place, (row, time, old) in enumerate(found):
            if place in without:
                continue
            correlation = correlations[place]
            flags = row.flags & ~OPERATION | PUBLISH | (HAS_CORRELATION_ID if correlation is not None else 0)
            done = row._replace(flags=flags, payload=ready.payloads[place], correlation_id=correlation)
            yield done
            if not old:
                self._remember(done, time)

    def _remember(self, row: Row, time: int) -> None:
        stamp = self._preparer.stamp(time, _lifetime(row))
        expired = self._writer.expires and is_expired(self._writer.config.expiration, stamp, self._now)
        value = encode(row.key, row.check, 0, time, stamp, 0, row.payload, row.user_key, row.correlation_id)
        self._known[row.key] = None if expired else value


def _is_deletion(found: tuple[Row, int, bool]) -> bool:
    return found[0].flags & OPERATION == DELETE


def _prepared(rows: Sequence[Row]) -> Prepared:
    """Rows as the engine prepares messages."""
    users, correlations = [row.user_key for row in rows], [row.correlation_id for row in rows]
    return Prepared(
        list(range(len(rows))),
        [row.payload for row in rows],
        [row.key + row.check for row in rows],
        lifetimes=[_lifetime(row) for row in rows],
        user_keys=users if any(users) else None,
        correlation_ids=correlations,
        deltas=[row.flags & OPERATION == DELTA for row in rows],
    )


def _lifetime(row: Row) -> float | tuple[str, int] | None:
    if row.flags & EXPIRES_AT:
        return "at", row.lifetime
    return row.lifetime / 1_000_000 if row.flags & HAS_LIFETIME else None


def deletions_of_rest(
    directory: Path, segments: Sequence[SegmentInfo], writer: TopicWriter, now: int
) -> SegmentInfo | None:
    """A segment that deletes every record of the topic for whose key the run has no message; None if there is none."""
    import numpy as np

    def rest() -> Iterator[Row]:
        count = writer.store.meta().records + len(writer.overlay)
        buckets = max(1, -(-(count + sum(info.entries for info in segments)) // BUCKET_ENTRIES))
        for number in range(buckets):
            kept = np.concatenate([np.zeros(0, dtype=np.uint64), *_keys(directory, segments, number, buckets)])
            kept.sort()
            for keys, _ in writer.scan(PART, now):
                numbers = np.frombuffer(b"".join(keys), dtype=">u8").astype(np.uint64)
                mine = in_bucket(numbers, number, buckets)
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
                yield keys[in_bucket(keys, number, buckets)]
