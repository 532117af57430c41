"""Messages of a staged run as they are to be recorded: enriched, deltas merged into what their keys hold by then.

Called by :mod:`sowctl.engine.bulk.commit`, with the topic's locks held, for topics with Enrichment and runs with
deltas. The rules are those of :mod:`sowctl.engine.writing.finish`; the result is a segment for each bucket of the key
space, so that memory holds what is known of one bucket at a time. Ruled by ``semantics`` 1.3 and 1.7, and
``sowctl-pipeline(1)``, STAGING.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.bulk.merge import Row, block_rows, in_order, written
from sowctl.engine.bulk.outcomes import times_of
from sowctl.engine.bulk.segmentblock import (
    DELETE,
    DELTA,
    EXPIRES_AT,
    HAS_CORRELATION_ID,
    HAS_LIFETIME,
    OPERATION,
    PUBLISH,
)
from sowctl.engine.bulk.segments import SegmentInfo, SegmentReader
from sowctl.engine.reports import Rejected
from sowctl.engine.topics.expiration import is_expired
from sowctl.engine.writing.finish import finish
from sowctl.engine.writing.prepare import Prepared
from sowctl.identity.keyspace import part_of
from sowctl.store.codec import encode

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.engine.writing.topicwriter import TopicWriter

BUCKET_BYTES = 64 << 20


class Finishing:
    """Messages as they are to be recorded: enriched, deltas merged into what their key holds by then.

    The rules are those of :mod:`sowctl.engine.writing.finish`. ``refused`` are messages that have no such form.
    Messages that are older than the topic are passed on as they are, for the commit to refuse.
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
            written(self._directory, f"finished-{number}.segment", self._bucket(segments, number, buckets))
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
                    mine = [one for one in found if part_of(one[0].key, buckets) == number]
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
