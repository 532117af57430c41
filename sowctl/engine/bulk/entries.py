"""Entries of a commit of a staged run: the messages of its blocks that are left, for the journal or the store.

Called by :mod:`sowctl.engine.bulk.commit` only, once the outcome of every message is known
(:mod:`sowctl.engine.bulk.outcomes`). Memory holds one block at a time. Ruled by ``sowctl-pipeline(1)``, STAGING,
``sow-journal(5)`` and ``sow-store(5)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.engine.bulk.outcomes import MISSING, OUTCOME_NAMES, REFUSED, Outcomes, assign_block_times
from sowctl.engine.bulk.segments import EXPIRES_AT, HAS_LIFETIME, StagedBatch
from sowctl.engine.writing.outcome import ExpirationInstant, Lifetime, compute_entry_flags, compute_expirations
from sowctl.journal.entries import EntryBatch
from sowctl.journal.format import DELETE, NO_PUBLISHER, PUBLISH

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer


def build_staged_entries(
    blocks: Iterable[StagedBatch],
    outcomes: Outcomes,
    preparer: Preparer,
    now: int,
    last_time: int,
) -> Iterator[EntryBatch]:
    """Build the entries, block by block in input order; ``now`` and ``last_time``, the topic's, in microseconds."""
    at = 0
    for batch in blocks:
        codes = outcomes.codes[at : at + len(batch)]
        # All messages of the block count for the times, those that are refused too: as where they were decided.
        times, _ = assign_block_times(batch, now, last_time)
        # A deletion of a key without a record writes no entry: the journal holds what changed something.
        places = ((codes != REFUSED) & (codes != MISSING)).nonzero()[0]
        owners = batch.arrays.checks if outcomes.checks is None else outcomes.checks[at : at + len(batch)]
        if len(places):
            yield _build_block_entries(batch, places, codes, times, owners, preparer)
        # Also past messages that were refused: the times are those by which the outcomes were decided.
        at, last_time = at + len(batch), times[-1]


def _build_block_entries(
    batch: StagedBatch, places: Any, codes: Any, all_times: list[int], owners: Any, preparer: Preparer
) -> EntryBatch:
    """The messages at ``places`` of a block; ``owners`` has the check words of the records that deletions remove."""
    import numpy as np

    gone = batch.arrays.operations[places] == DELETE
    times = [all_times[place] for place in places.tolist()]
    lifetimes = restore_lifetimes(batch.lifetimes[places], batch.marks[places])
    entries = batch.arrays.take(places)
    entries = replace(
        entries,
        topic_refs=[preparer.topic.ref],
        times=times,
        expirations=compute_expirations(times, lifetimes, preparer.default_lifetime),
        flags=compute_entry_flags([OUTCOME_NAMES[code] for code in codes[places].tolist()]),
        # What no staged message has: one value for all, of which the journal makes columns faster.
        operations=PUBLISH,
        topic_indexes=0,
        publisher_indexes=NO_PUBLISHER,
        sequences=0,
    )
    if not gone.any():
        return entries
    # The entry of a deletion has the check word of the record that it removes, as one that ``sowctl delete`` writes.
    checks = np.where(gone, owners[places].astype(np.uint64), batch.arrays.checks[places].astype(np.uint64))
    entries.checks = checks.astype(">u8").tobytes()
    return entries.mark_deletions(gone.tolist())


def restore_lifetimes(values: Any, marks: Any) -> list[Lifetime] | None:
    """The lifetimes of staged messages as they were before they were staged, None where none has its own."""
    # One test for the block: mostly no message brings a lifetime.
    if not (marks & (HAS_LIFETIME | EXPIRES_AT)).any():
        return None
    return [
        ExpirationInstant(value) if mark & EXPIRES_AT else value if mark & HAS_LIFETIME else None
        for value, mark in zip(values.tolist(), marks.tolist(), strict=True)
    ]
