"""Entries of the commit of a staged run: the remaining messages of its blocks, for the journal or the store.

Called only by :mod:`sowctl.engine.bulk.commit`, after the outcome of every message is decided
(:mod:`sowctl.engine.bulk.outcomes`). Memory holds one block at a time. The contract is ``sowctl-pipeline(1)``, STAGING,
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
    """Yield the entries, block by block in input order; ``now`` and the topic's ``last_time`` are in microseconds."""
    at = 0
    for batch in blocks:
        codes = outcomes.codes[at : at + len(batch)]
        # Rejected messages affect the times, too, as when the outcomes were decided.
        times, _ = assign_block_times(batch, now, last_time)
        # A deletion of a key without a record changes nothing, so it gets no entry.
        places = ((codes != REFUSED) & (codes != MISSING)).nonzero()[0]
        owners = batch.arrays.checks if outcomes.checks is None else outcomes.checks[at : at + len(batch)]
        if len(places):
            yield _build_block_entries(batch, places, codes, times, owners, preparer)
        # Advance past rejected messages, too, so that the times are those by which the outcomes were decided.
        at, last_time = at + len(batch), times[-1]


def _build_block_entries(
    batch: StagedBatch, places: Any, codes: Any, all_times: list[int], owners: Any, preparer: Preparer
) -> EntryBatch:
    """Build entries of the messages at ``places`` of a block; ``owners`` has the check words of removed records."""
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
        # Fields that staged messages do not have: with a single value, the journal builds these columns faster.
        operations=PUBLISH,
        topic_indexes=0,
        publisher_indexes=NO_PUBLISHER,
        sequences=0,
    )
    if not gone.any():
        return entries
    # The entry of a deletion has the check word of the removed record, as with ``sowctl delete``.
    checks = np.where(gone, owners[places].astype(np.uint64), batch.arrays.checks[places].astype(np.uint64))
    entries.checks = checks.astype(">u8").tobytes()
    return entries.mark_deletions(gone.tolist())


def restore_lifetimes(values: Any, marks: Any) -> list[Lifetime] | None:
    """Return the lifetimes of staged messages as they were before staging, None if no message has one."""
    # Usually no message has a lifetime, so one test suffices for the block.
    if not (marks & (HAS_LIFETIME | EXPIRES_AT)).any():
        return None
    return [
        ExpirationInstant(value) if mark & EXPIRES_AT else value if mark & HAS_LIFETIME else None
        for value, mark in zip(values.tolist(), marks.tolist(), strict=True)
    ]
