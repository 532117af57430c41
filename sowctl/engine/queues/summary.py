"""The summary of a queue for ``info``: its counters as of the last change, and the number of unread journal entries.

It reads no new entries, returns no leases and writes nothing, and its cost does not depend on the depth; ``queue info``
reports more, after reading the journal up to its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.topic_patterns import topic_matches
from sowctl.engine.queues.definition import compute_definition_digest
from sowctl.engine.queues.recovery import explain_stale_state, read_proven_end
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.engine.topics.queuestates import build_state_path, read_boot_id
from sowctl.journal.block import Position
from sowctl.store.queue.file import QueueFile

if TYPE_CHECKING:
    from sowctl.config.derived_entries import Queue
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal


class QueueSummary(Struct):
    """``state``: ``current``, ``behind`` or ``no state``. Numbers of messages as of the last change: pending, leased,
    dead; and the age of the oldest pending one. ``behind``: upper limit of the number of journal entries since.
    """

    state: str = "no state"
    path: Path | None = None
    size: int = 0
    pending: int = 0
    leased: int = 0
    dead: int = 0
    age_seconds: float | None = None
    applied: int = 0
    behind: int = 0


def read_queue_summary(instance: Instance, queue: Queue) -> QueueSummary:
    """Read the summary of a queue. Raises LockedError ``SOW-QUE-010``, and the DamageErrors of file and journal."""
    found = QueueSummary()
    if not has_log(instance):
        return found
    path = build_state_path(instance, queue)
    boot, synced = read_boot_id(), queue.file_backed_metadata
    file = QueueFile(path, instance.seam, boot=boot, synced=synced, lock_wait=instance.lock_wait, tell=instance.notify)
    with open_log(instance) as log:
        oldest = None
        with file.open_rows() as rows:
            if (
                rows is not None
                and explain_stale_state(rows, compute_definition_digest(queue), log, read_proven_end(rows, log)) is None
            ):
                state = rows.state
                found.path, found.size, found.applied = path, path.stat().st_size, state.applied
                found.pending, found.leased, found.dead = state.pending_count, state.leased, state.dead
                txid = rows.find_first_pending()
                if txid is not None and (at := rows.find_page(txid)) is not None:
                    place = at[1].find_block_place(at[1].find_index(txid))
                    oldest = txid, Position(place.number, place.offset, place.before)
        if oldest is not None and (block := log.find_block_at(oldest[1])) is not None:
            time = block.decode_columns().times[oldest[0] - block.first_txid]
            found.age_seconds = max(0, instance.now - time) / 1e6
        found.behind = _count_unread_entries(instance, queue, log, found.applied)
        if found.path is not None:
            found.state = "behind" if found.behind else "current"
    return found


def _count_unread_entries(instance: Instance, queue: Queue, log: Journal, applied: int) -> int:
    """Return an upper limit of the number of entries after ``applied`` that concern the queue."""
    regex = instance.log is not None and instance.log.regex_topics
    ends = [
        state.last_txid
        for (name, kind), state in log.read_topic_states().items()
        if kind == queue.message_type and (name == queue.name or topic_matches(queue.underlying, name, regex))
    ]
    return max(0, max(ends, default=0) - applied)
