"""Entries of a commit of a staged run: the messages of its blocks that are left, for the journal or the store.

Called by :mod:`sowctl.engine.bulk.commit` only, once the outcome of every message is known
(:mod:`sowctl.engine.bulk.outcomes`). Memory holds one block at a time. Ruled by ``sowctl-pipeline(1)``, STAGING,
``sow-journal(5)`` and ``sow-store(5)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sowctl.engine.bulk.outcomes import MISSING, OUTCOME_NAMES, REFUSED, Outcomes, assign_block_times
from sowctl.engine.bulk.segments import DELETE, EXPIRES_AT, HAS_LIFETIME, OPERATION_MASK, STAGED_TEXTS, SegmentColumns
from sowctl.engine.writing.outcome import ExpirationInstant, Lifetime, compute_entry_flags, compute_expirations
from sowctl.journal.entries import EntryBatch

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer


def build_staged_entries(
    blocks: Iterable[tuple[SegmentColumns, list[bytes]]],
    outcomes: Outcomes,
    preparer: Preparer,
    now: int,
    last_time: int,
) -> Iterator[EntryBatch]:
    """Build the entries, block by block in input order; ``now`` and ``last_time``, the topic's, in microseconds."""
    at = 0
    for columns, texts in blocks:
        codes = outcomes.codes[at : at + len(columns)]
        # All messages of the block count for the times, those that are refused too: as where they were decided.
        times, _ = assign_block_times(columns, now, last_time)
        # A deletion of a key without a record writes no entry: the journal holds what changed something.
        places = ((codes != REFUSED) & (codes != MISSING)).nonzero()[0]
        owners = columns.checks if outcomes.checks is None else outcomes.checks[at : at + len(columns)]
        if len(places):
            yield _build_block_entries(columns, texts, places, codes, times, owners, preparer)
        # Also past messages that were refused: the times are those by which the outcomes were decided.
        at, last_time = at + len(columns), times[-1]


def _build_block_entries(
    columns: SegmentColumns,
    texts: list[bytes],
    places: Any,
    codes: Any,
    all_times: list[int],
    owners: Any,
    preparer: Preparer,
) -> EntryBatch:
    """The messages at ``places`` of a block; ``owners`` has the check words of the records that deletions remove."""
    import numpy as np

    chosen = places.tolist()
    flags = columns.flags[places]
    gone = ((flags & OPERATION_MASK) == DELETE).tolist()
    deletes = True in gone
    checks = columns.checks[places].astype(np.uint64)
    if deletes:
        # The entry of a deletion has the check word of the record that it removes, as one that ``sowctl delete``
        # writes.
        checks = np.where(gone, owners[places].astype(np.uint64), checks)
    times = [all_times[place] for place in chosen]
    statuses = [OUTCOME_NAMES[code] for code in codes[places].tolist()]
    staged = {name: getattr(columns, name) for name, _ in STAGED_TEXTS}
    optional: dict[str, Any] = {
        name: None if column is None else [column[place] for place in chosen] for name, column in staged.items()
    }
    entries = EntryBatch(
        [preparer.topic.ref],
        [texts[place] for place in chosen],
        columns.keys[places].tobytes(),
        checks.astype(">u8").tobytes(),
        times,
        compute_expirations(times, _restore_lifetimes(columns.lifetimes[places], flags), preparer.default_lifetime),
        compute_entry_flags(statuses),
        **optional,
    )
    return entries.mark_deletions(gone) if deletes else entries


def _restore_lifetimes(values: Any, flags: Any) -> list[Lifetime] | None:
    """The lifetimes of staged messages as they were before they were staged, None where none has its own."""
    # One test for the block: mostly no message brings a lifetime.
    if not (flags & (HAS_LIFETIME | EXPIRES_AT)).any():
        return None
    return [
        ExpirationInstant(value) if flag & EXPIRES_AT else value if flag & HAS_LIFETIME else None
        for value, flag in zip(values.tolist(), flags.tolist(), strict=True)
    ]
