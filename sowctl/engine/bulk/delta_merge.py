"""Finish the messages of a staged run: enrich them, and merge deltas into the records that precede them.

Called by :mod:`sowctl.engine.bulk.commit`, with the topic's locks held, for topics with Enrichment and runs with
deltas. :mod:`sowctl.engine.writing.delta_merge` computes the finished messages. The result is one segment per bucket of
the key space, so that memory holds the records of one bucket at a time. The contract is ``behaviour`` 1.3 and 1.7, and
``sowctl-pipeline(1)``, STAGING.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.bulk.entries import restore_lifetimes
from sowctl.engine.bulk.limits import BULK_LIMITS
from sowctl.engine.bulk.merge import order_segments, write_segment
from sowctl.engine.bulk.outcomes import assign_block_times
from sowctl.engine.bulk.segments import HAS_TIME, IS_DELTA, SegmentInfo, StagedBatch, read_segments
from sowctl.engine.fold.blocks import encode_values
from sowctl.engine.reports import Rejected
from sowctl.engine.topics.expiration import is_expired
from sowctl.engine.writing.delta_merge import enrich_and_merge
from sowctl.engine.writing.outcome import Reason, compute_expirations, describe_too_old
from sowctl.engine.writing.prepare import PreparedMessages
from sowctl.identity.keyspace import find_parts, split_words
from sowctl.journal.entries import TEXT_NAMES
from sowctl.journal.format import DELETE

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.engine.writing.topicwriter import TopicWriter


class RunFinisher:
    """Finishes the messages of a run, bucket by bucket. ``refused`` are those that are too old or cannot be finished.

    Finished messages have explicit times: rejected messages affect the times of later ones, but when the commit decides
    the outcomes, the segments no longer contain them.
    """

    def __init__(
        self, directory: Path, writer: TopicWriter, preparer: Preparer, now: int, names: Sequence[str]
    ) -> None:
        self.refused: list[Rejected] = []
        self._directory, self._writer, self._preparer, self._now = directory, writer, preparer, now
        self._names = names
        self._known: dict[bytes, bytes | None] = {}
        self._over: set[bytes] = set()
        """Keys of ``_known`` whose record was written in this run and has expired."""

    def finish_segments(self, segments: Sequence[SegmentInfo]) -> list[SegmentInfo]:
        """Write segments with finished messages, in which deltas are publishes; return them in input order."""
        size = sum(info.payload_bytes for info in segments)
        buckets = max(1, -(-size // BULK_LIMITS.update_bucket_bytes))
        made = [
            write_segment(self._directory, f"finished-{number}.segment", self._finish_bucket(segments, number, buckets))
            for number in range(buckets)
        ]
        # Buckets have messages of the whole input, so their segments overlap and are merged into input order.
        return order_segments(self._directory, [info for info in made if info is not None])

    def _finish_bucket(self, segments: Sequence[SegmentInfo], number: int, buckets: int) -> Iterator[StagedBatch]:
        import numpy as np

        self._known = {}
        self._over = set()
        # Read the whole input for each bucket, because the time of a message depends on all earlier messages, in all
        # buckets.
        last = self._writer.last_time
        for batch in read_segments(self._directory, segments):
            times, older = assign_block_times(batch, self._now, last)
            last = times[-1]
            mine = find_parts(batch.arrays.keys.astype(np.uint64), buckets) == number
            for place in older:
                if mine[place]:
                    self._refuse_message(batch, place, describe_too_old(times[place]))
                    mine[place] = False
            places = mine.nonzero()[0]
            if not len(places):
                continue
            found = batch.take(places)
            found.entries.times = [times[place] for place in places.tolist()]
            found.marks = found.marks | HAS_TIME
            yield from self._finish_messages(found)

    def _finish_messages(self, batch: StagedBatch) -> Iterator[StagedBatch]:
        keys = split_words(batch.entries.keys)
        self._look_up_records(set(keys).difference(self._known))
        # A delta is not merged with a record before a deletion, so messages are finished in stretches between
        # deletions.
        deletes = batch.arrays.operations == DELETE
        ends = [*((deletes[1:] != deletes[:-1]).nonzero()[0] + 1).tolist(), len(batch)]
        start = 0
        for end in ends:
            part = batch.slice(start, end)
            if deletes[start]:
                self._known.update(dict.fromkeys(keys[start:end]))
                self._over.difference_update(keys[start:end])
                yield part
            else:
                yield self._finish_publishes(part)
            start = end

    def _look_up_records(self, keys: set[bytes]) -> None:
        stored = self._writer.read_live_values(keys, self._now) if keys else {}
        # Cache None, too, so that a key without a record is looked up only once.
        self._known.update((key, stored.get(key)) for key in keys)

    def _refuse_message(self, batch: StagedBatch, place: int, reason: Reason) -> None:
        file, position = batch.get_order(place)
        name = self._names[file] if file < len(self._names) else "messages"
        self.refused.append(Rejected(name, 0, position, *reason, batch.entries.payloads[place]))

    def _finish_publishes(self, batch: StagedBatch) -> StagedBatch:
        """Finish consecutive messages without deletions between them."""
        import numpy as np

        keys, times = split_words(batch.entries.keys), batch.entries.list_numbers("times")
        ready = _prepare_messages(batch)
        # If this run has already changed a key, its result is used instead of the stored record.
        stored = {key: value for key in keys if (value := self._known[key]) is not None}
        # Publishing uses the same function, so a bulk load merges and enriches in the same way.
        gone = enrich_and_merge(
            self._writer, self._preparer, ready, range(len(keys)), times, stored, self._now, self._over
        )
        for refusal in gone:
            self._refuse_message(batch, refusal.index, (refusal.code, refusal.message))
        without = {refusal.index for refusal in gone}
        done = replace(
            batch,
            entries=replace(batch.entries, payloads=ready.payloads, correlation_ids=ready.correlation_ids),
            # A merged delta is committed as a publish.
            marks=batch.marks & ~np.uint32(IS_DELTA),
        ).take(np.array([place for place in range(len(keys)) if place not in without], dtype=np.intp))
        self._remember_records(done)
        return done

    def _remember_records(self, batch: StagedBatch) -> None:
        """Record finished messages as the current records of their keys, for later messages of the run."""
        times = batch.entries.list_numbers("times")
        lifetimes = restore_lifetimes(batch.lifetimes, batch.marks)
        stamps = compute_expirations(times, lifetimes, self._preparer.default_lifetime)
        keys = split_words(batch.entries.keys)
        # Txids are assigned when the group is written; this module does not use them.
        values = encode_values(replace(batch.entries, expirations=stamps), [0] * len(keys))
        for key, value, stamp in zip(keys, values, stamps, strict=True):
            self._known[key] = value
            expired = self._writer.expires and is_expired(self._writer.config.expiration, stamp, self._now)
            # Deltas are not merged with an expired record (behaviour 11.40), but it still exists for publishes of the
            # same batch, and a run is one batch.
            (self._over.add if expired else self._over.discard)(key)


def _prepare_messages(batch: StagedBatch) -> PreparedMessages:
    """Convert staged messages to prepared messages."""
    entries = batch.entries
    keys, checks = split_words(entries.keys), split_words(entries.checks)
    ready = PreparedMessages(
        list(range(len(batch))),
        list(entries.payloads),
        [key + check for key, check in zip(keys, checks, strict=True)],
        lifetimes=restore_lifetimes(batch.lifetimes, batch.marks),
        deltas=((batch.marks & IS_DELTA) != 0).tolist(),
    )
    for name in TEXT_NAMES:
        column = getattr(entries, name)
        setattr(ready, name, None if column is None else list(column))
    return ready
