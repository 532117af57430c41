"""Outcomes of large batches by columns: the decision of :mod:`sowctl.engine.writing.outcome` for a batch in one step.

A message meets an earlier message of its batch, a record kept as columns in the memtable, or a stored record. The keys
of the batch are sorted, and each of these sources is searched once. The outcome follows by
:func:`~sowctl.engine.writing.outcome.classify_written`, as for a single message. Called by
:mod:`sowctl.engine.writing.entries`; loads numpy. :data:`~sowctl.engine.fold.limits.MEMTABLE_LIMITS` has the minimum
batch size for this path, with the measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sowctl.engine.fold.entry_columns import LatestEntries
from sowctl.engine.writing.outcome import Status, classify_written, find_unchanged, has_matching_checks
from sowctl.identity.keyspace import compute_stable_order, read_words
from sowctl.journal.arrays import EntryArrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sowctl.engine.writing.topicwriter import StoreWriter
    from sowctl.journal.entries import EntryBatch


class BatchDecision(NamedTuple):
    """The outcomes of messages, and the last message of each key."""

    statuses: list[Status]
    latest: LatestEntries


def decide_batch(writer: StoreWriter, entries: EntryBatch) -> BatchDecision | None:
    """Decide the outcomes of ``entries``, publishes in input order; the topic's locks are held.

    Returns None if the key of any message belongs to a record, or to an earlier message, with other key values: each
    outcome then depends on the earlier ones.
    """
    met = _MetRecords(entries)
    if not (met.match_earlier_messages() and met.match_memtable(writer) and met.match_stored_records(writer)):
        return None
    return BatchDecision(
        classify_written(met.meets.tolist(), met.same.tolist()), LatestEntries(met.distinct, met.last, met.sizes)
    )


class _MetRecords:
    """The records that the entries of a batch meet. ``meets``: the key has a record or an earlier entry; ``same``: that
    one has the same payload.

    ``distinct`` are the sorted keys without repetition; ``first`` and ``last`` the places of their first and last
    entries. Each method returns whether all records it found have the check words of the entries that meet them.
    """

    def __init__(self, entries: EntryBatch) -> None:
        arrays, count = EntryArrays(entries), len(entries)
        self.payloads = entries.payloads
        # Keys are numbers, which sort in the order of their bytes; check words are only compared.
        self.keys: Any = arrays.keys.astype(np.uint64)
        self.checks: Any = arrays.checks.view(np.uint64)
        self.sizes: Any = arrays.lengths
        self.meets: Any = np.zeros(count, dtype=bool)
        self.same: Any = np.zeros(count, dtype=bool)
        # Messages of one key remain in input order: each meets the one before it.
        order = compute_stable_order(self.keys)
        ordered = self.keys[order]
        again = ordered[1:] == ordered[:-1]
        self._later, self._earlier = order[1:][again], order[:-1][again]
        self.first: Any = order[np.concatenate(([True], ~again))]
        self.last: Any = order[np.concatenate((~again, [True]))]
        self.distinct: Any = self.keys[self.first]
        self._absent: Any = np.ones(len(self.first), dtype=bool)

    def match_earlier_messages(self) -> bool:
        """Match messages whose key occurs earlier in the batch."""
        return self._match_rows(self._later, self._earlier, self.checks, self.sizes, self.payloads)

    def match_memtable(self, writer: StoreWriter) -> bool:
        """Match the first message of each key whose record is kept as columns in the memtable."""
        waiting = writer.memtable.unpacked
        if waiting is None:
            return True
        rows = waiting.find_rows(self.distinct)
        self._absent = rows < 0
        there = (~self._absent).nonzero()[0]
        return self._match_rows(self.first[there], rows[there], waiting.checks, waiting.sizes, waiting.payloads)

    def match_stored_records(self, writer: StoreWriter) -> bool:
        """Match the first message of each other key whose record is stored."""
        asked = read_words(self.distinct[self._absent].astype(">u8"))
        found = writer.read_packed_values(asked)
        if not found:
            return True
        befores = list(map(found.get, asked))
        there = [number for number, before in enumerate(befores) if before is not None]
        places = self.first[self._absent][there]
        values = [befores[number] for number in there]
        self.meets[places] = True
        self.same[places] = find_unchanged(values, [self.payloads[place] for place in places.tolist()])
        return has_matching_checks(read_words(self.checks[places]), values)

    def _match_rows(self, places: Any, others: Any, checks: Any, sizes: Any, payloads: Sequence[bytes]) -> bool:
        """Match messages at ``places`` with the rows ``others`` of the given columns, pair by pair."""
        if not len(places):
            return True
        self.meets[places] = True
        # Payloads of different sizes differ, and most pairs have different sizes.
        close = (self.sizes[places] == sizes[others]).nonzero()[0]
        mine = self.payloads
        self.same[places[close]] = [
            mine[place] == payloads[other]
            for place, other in zip(places[close].tolist(), others[close].tolist(), strict=True)
        ]
        return bool((self.checks[places] == checks[others]).all())
