"""Versions that no query can reach any more: not current for longer than their topic's window (``semantics`` 2.2).

A writer drops those of the keys that it writes; those of keys that nobody writes again wait for ``expire``, which asks
here. Dropping them changes no result at that clock or a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from sowctl.engine.topics.retention import Version, prune
from sowctl.engine.topics.timeline import version_of
from sowctl.store.keys import history_key_of

if TYPE_CHECKING:
    from sowctl.engine.topics.retention import Retention
    from sowctl.store.read import Reader
    from sowctl.store.write import WriteTxn

BATCH = 1000


def remove_unreachable(txn: WriteTxn, rule: Retention, now: int) -> int:
    """Remove the versions that are outside the window at ``now`` (microseconds); returns how many."""
    gone = list(_unreachable(txn, rule, now))
    for start in range(0, len(gone), BATCH):
        txn.delete_versions(gone[start : start + BATCH])
    if gone:
        txn.set_removal_mark(now)
    return len(gone)


def count_unreachable(timelines: Iterable[tuple[bytes, Sequence[Version]]], rule: Retention, now: int) -> int:
    """How many of the versions of ``timelines`` are outside the window at ``now``."""
    return sum(len(versions) - len(prune(versions, now, rule.window)) for _, versions in timelines)


def _unreachable(reader: Reader, rule: Retention, now: int) -> Iterator[bytes]:
    """The history keys of what is outside the window, in their order."""
    rows = ((key, value) for batch in reader.scan_history(batch=BATCH) for key, value in zip(*batch, strict=True))
    for key, group in groupby(rows, key=lambda row: row[0][:8]):
        stored = [version_of(value) for _, value in group]
        current = [version_of(value) for value in reader.get_many([key]).values()]
        kept = prune([*stored, *current], now, rule.window)
        # what is kept are the latest ones: versions leave oldest first
        for version in stored[: len(stored) + len(current) - len(kept)]:
            yield history_key_of(key, version.value)
