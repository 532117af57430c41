"""Messages of a staged run as they are to be recorded: enriched, deltas merged into what their keys hold by then.

Called by :mod:`sowctl.engine.bulk.commit`, with the topic's locks held, for topics with Enrichment and runs with
deltas. :mod:`sowctl.engine.writing.delta_merge` decides what becomes of a message; the result is a segment for each
bucket of the key space, so that memory holds what is known of one bucket at a time. Ruled by ``behaviour`` 1.3 and 1.7,
and ``sowctl-pipeline(1)``, STAGING.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.bulk.limits import BULK_LIMITS
from sowctl.engine.bulk.merge import StagedRow, iterate_block_rows, order_segments, write_segment
from sowctl.engine.bulk.outcomes import assign_block_times
from sowctl.engine.bulk.segments import (
    DELETE,
    DELTA,
    EXPIRES_AT,
    HAS_CORRELATION_ID,
    HAS_LIFETIME,
    HAS_TIME,
    OPERATION_MASK,
    PUBLISH,
    SegmentInfo,
    SegmentReader,
)
from sowctl.engine.reports import Rejected
from sowctl.engine.topics.expiration import is_expired
from sowctl.engine.writing.delta_merge import enrich_and_merge
from sowctl.engine.writing.outcome import ExpirationInstant, Lifetime, Reason, compute_expiration, describe_too_old
from sowctl.engine.writing.prepare import PreparedMessages
from sowctl.identity.keyspace import find_part
from sowctl.store.codec import encode_record

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.engine.writing.topicwriter import TopicWriter


class RunFinisher:
    """Finishes the messages of a run, bucket by bucket. ``refused`` are those that are too old or cannot be finished.

    A finished message has its time, as one of its own: messages that are refused count for the times of those behind
    them, and are not there any more when the commit decides about the rest.
    """

    def __init__(
        self, directory: Path, writer: TopicWriter, preparer: Preparer, now: int, names: Sequence[str]
    ) -> None:
        self.refused: list[Rejected] = []
        self._directory, self._writer, self._preparer, self._now = directory, writer, preparer, now
        self._names = names
        self._known: dict[bytes, bytes | None] = {}
        self._over: set[bytes] = set()
        """Keys of ``_known`` whose record was made in this run and has expired."""

    def finish_segments(self, segments: Sequence[SegmentInfo]) -> list[SegmentInfo]:
        """Segments of the run with finished messages, and publishes in place of deltas."""
        size = sum(info.payload_bytes for info in segments)
        buckets = max(1, -(-size // BULK_LIMITS.update_bucket_bytes))
        made = [
            write_segment(self._directory, f"finished-{number}.segment", self._finish_bucket(segments, number, buckets))
            for number in range(buckets)
        ]
        # Each bucket has messages of the whole input: their segments overlap, and are merged into input order again.
        return order_segments(self._directory, [info for info in made if info is not None])

    def _finish_bucket(self, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[StagedRow]:
        self._known = {}
        self._over = set()
        # Each bucket walks the whole input for the times: a message's time depends on all messages before it, in any
        # bucket.
        last = self._writer.last_time
        for info in segments:
            with SegmentReader(self._directory, info) as reader:
                for columns, payloads in reader.iterate_blocks():
                    times, older = assign_block_times(columns, self._now, last)
                    last, late = times[-1], set(older)
                    mine: list[StagedRow] = []
                    for place, row in enumerate(iterate_block_rows(columns, payloads)):
                        if find_part(row.key, buckets) != number:
                            continue
                        if place in late:
                            self._refuse_row(row, describe_too_old(times[place]))
                        else:
                            mine.append(row._replace(flags=row.flags | HAS_TIME, time=times[place]))
                    self._look_up_records({row.key for row in mine}.difference(self._known))
                    # A deletion ends what a delta behind it may be merged with, so messages are finished in stretches
                    # between deletions.
                    for deletes, some in groupby(mine, key=_is_deletion_row):
                        rows = list(some)
                        yield from self._split_at_deletions(rows) if deletes else self._finish_rows(rows)

    def _look_up_records(self, keys: set[bytes]) -> None:
        stored = self._writer.read_live_values(keys, self._now) if keys else {}
        # None is kept, too: a key without a record is looked up once.
        self._known.update((key, stored.get(key)) for key in keys)

    def _refuse_row(self, row: StagedRow, reason: Reason) -> None:
        name = self._names[row.file] if row.file < len(self._names) else "messages"
        self.refused.append(Rejected(name, 0, row.position, *reason, row.payload))

    def _split_at_deletions(self, rows: Iterable[StagedRow]) -> Iterator[StagedRow]:
        for row in rows:
            self._known[row.key] = None
            self._over.discard(row.key)
            yield row

    def _finish_rows(self, rows: list[StagedRow]) -> Iterator[StagedRow]:
        """Messages that follow one another without a deletion between them."""
        ready = _prepare_rows(rows)
        # What this run has made of a key stands in for the stored record, as a stored value.
        stored = {key: value for row in rows if (value := self._known[key := row.key]) is not None}
        times = [row.time for row in rows]
        # The function of publishing: a bulk load merges and enriches as single messages do.
        gone = enrich_and_merge(
            self._writer, self._preparer, ready, range(len(rows)), times, stored, self._now, self._over
        )
        for refusal in gone:
            self._refuse_row(rows[refusal.index], (refusal.code, refusal.message))
        without = {refusal.index for refusal in gone}
        correlations = ready.correlation_ids or [None] * len(rows)
        for place, row in enumerate(rows):
            if place in without:
                continue
            correlation = correlations[place]
            # From here on it is a publish: what is committed needs no record to be merged with.
            flags = row.flags & ~OPERATION_MASK | PUBLISH | (HAS_CORRELATION_ID if correlation is not None else 0)
            done = row._replace(flags=flags, payload=ready.payloads[place], correlation_id=correlation)
            yield done
            self._remember_record(done)

    def _remember_record(self, row: StagedRow) -> None:
        """Make a finished message the record that the next one of its key meets."""
        stamp = compute_expiration(row.time, _get_row_lifetime(row), self._preparer.default_lifetime)
        expired = self._writer.expires and is_expired(self._writer.config.expiration, stamp, self._now)
        # Without a txid, which is given only when the group is written: nothing in this module looks at it.
        value = encode_record(row.key, row.check, 0, row.time, stamp, 0, row.payload, row.user_key, row.correlation_id)
        self._known[row.key] = value
        # A record that is over by now is none that a delta is merged with (behaviour 11.40), and it still has its key:
        # within one batch a publish sees it so, and a run is one batch.
        (self._over.add if expired else self._over.discard)(row.key)


def _is_deletion_row(row: StagedRow) -> bool:
    return row.flags & OPERATION_MASK == DELETE


def _prepare_rows(rows: Sequence[StagedRow]) -> PreparedMessages:
    """Return rows as prepared messages."""
    users, correlations = [row.user_key for row in rows], [row.correlation_id for row in rows]
    return PreparedMessages(
        list(range(len(rows))),
        [row.payload for row in rows],
        [row.key + row.check for row in rows],
        lifetimes=[_get_row_lifetime(row) for row in rows],
        user_keys=users if any(users) else None,
        correlation_ids=correlations,
        deltas=[row.flags & OPERATION_MASK == DELTA for row in rows],
    )


def _get_row_lifetime(row: StagedRow) -> Lifetime:
    if row.flags & EXPIRES_AT:
        return ExpirationInstant(row.lifetime)
    return row.lifetime if row.flags & HAS_LIFETIME else None
