"""Outcomes of large batches by columns: the decision of :mod:`sowctl.engine.writing.outcome`, a whole batch at a time.

What a message meets, an earlier one of its batch, a record that waits as columns in the memtable, or one that is
stored, is found by sorting the keys of the batch and asking each place once. What follows from it is said by
:func:`~sowctl.engine.writing.outcome.classify_written`, as for a single message. Called by
:mod:`sowctl.engine.writing.entries`; loads numpy. :data:`~sowctl.engine.fold.limits.MEMTABLE_LIMITS` has from which
size on a batch is decided so, and what was measured.
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
    """The outcomes of messages, and the last one of each key."""

    statuses: list[Status]
    latest: LatestEntries


def decide_batch(writer: StoreWriter, entries: EntryBatch) -> BatchDecision | None:
    """The outcomes of messages as ``entries``, publishes in the order of the input; the topic's locks are held.

    None where the key of any message belongs to a record, or to an earlier message, with other key values: then each
    outcome depends on those before it.
    """
    met = _MetRecords(entries)
    if not (met.match_earlier_messages() and met.match_memtable(writer) and met.match_stored_records(writer)):
        return None
    return BatchDecision(
        classify_written(met.meets.tolist(), met.same.tolist()), LatestEntries(met.distinct, met.last, met.sizes)
    )


class _MetRecords:
    """What the entries of a batch meet. ``meets``: there is a record or an earlier entry of its key; ``same``: with
    its payload.

    ``distinct`` are the keys in order, each once; ``first`` and ``last`` the places of their first and last entries.
    Each of the methods returns whether all that it has found have the check words of the entries that meet them.
    """

    def __init__(self, entries: EntryBatch) -> None:
        arrays, count = EntryArrays(entries), len(entries)
        self.payloads = entries.payloads
        # Keys are numbers, so that they sort as their bytes do; check words are only compared.
        self.keys: Any = arrays.keys.astype(np.uint64)
        self.checks: Any = arrays.checks.view(np.uint64)
        self.sizes: Any = arrays.lengths
        self.meets: Any = np.zeros(count, dtype=bool)
        self.same: Any = np.zeros(count, dtype=bool)
        # Messages of one key stand in the order of the input: each meets the one before it.
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
        """The first message of each key whose record waits as columns in the memtable."""
        waiting = writer.memtable.unpacked
        if waiting is None:
            return True
        rows = waiting.find_rows(self.distinct)
        self._absent = rows < 0
        there = (~self._absent).nonzero()[0]
        return self._match_rows(self.first[there], rows[there], waiting.checks, waiting.sizes, waiting.payloads)

    def match_stored_records(self, writer: StoreWriter) -> bool:
        """The first message of each other key whose record is stored."""
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
        """Match messages at ``places``, each with the one of ``others``, in the given columns."""
        if not len(places):
            return True
        self.meets[places] = True
        # Payloads of different sizes differ, and most do.
        close = (self.sizes[places] == sizes[others]).nonzero()[0]
        mine = self.payloads
        self.same[places[close]] = [
            mine[place] == payloads[other]
            for place, other in zip(places[close].tolist(), others[close].tolist(), strict=True)
        ]
        return bool((self.checks[places] == checks[others]).all())
