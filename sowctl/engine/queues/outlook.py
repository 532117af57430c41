"""What ``info`` says of a queue: its counters as the last change left them, and how far the journal has gone on since.

Nothing is read up, returned or written here, and it costs the same for any depth: ``queue info`` says more, and brings
the state up to the end of the journal first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.matching import topic_matches
from sowctl.engine.queues.definition import digest_of
from sowctl.engine.queues.recovery import proven_end, stale
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.engine.topics.queuestates import boot_of, state_path
from sowctl.journal.block import Position
from sowctl.store.queue.file import QueueFile

if TYPE_CHECKING:
    from sowctl.config.derived import Queue
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal


class QueueOutlook(Struct):
    """``state``: ``current``, ``behind`` or ``no state``. Messages as of the last change: pending, leased, dead, and
    how long the oldest pending one has been there. ``behind``: up to so many entries of the journal came since.
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


def outlook(instance: Instance, queue: Queue) -> QueueOutlook:
    """What is known of a queue. Raises LockedError ``SOW-QUE-010``, and the DamageErrors of file and journal."""
    found = QueueOutlook()
    if not has_log(instance):
        return found
    path = state_path(instance, queue)
    boot, synced = boot_of(), queue.file_backed_metadata
    file = QueueFile(path, instance.seam, boot=boot, synced=synced, lock_wait=instance.lock_wait, tell=instance.notify)
    with open_log(instance) as log:
        oldest = None
        with file.look() as rows:
            if rows is not None and stale(rows, digest_of(queue), log, proven_end(rows, log)) is None:
                state = rows.state
                found.path, found.size, found.applied = path, path.stat().st_size, state.applied
                found.pending, found.leased, found.dead = state.pending, state.leased, state.dead
                txid = rows.first_pending()
                if txid is not None and (at := rows.page_of(txid)) is not None:
                    place = at[1].place_of(at[1].index(txid))
                    oldest = txid, Position(place.number, place.offset, place.before)
        if oldest is not None and (block := log.block_at(oldest[1])) is not None:
            time = block.columns().times[oldest[0] - block.first_txid]
            found.age_seconds = max(0, instance.now - time) / 1e6
        found.behind = _behind(instance, queue, log, found.applied)
        if found.path is not None:
            found.state = "behind" if found.behind else "current"
    return found


def _behind(instance: Instance, queue: Queue, log: Journal, applied: int) -> int:
    """How many entries there are at most behind ``applied`` that are about the queue."""
    regex = instance.log is not None and instance.log.regex_topics
    ends = [
        state.last_txid
        for (name, kind), state in log.topics().items()
        if kind == queue.message_type and (name == queue.name or topic_matches(queue.underlying, name, regex))
    ]
    return max(0, max(ends, default=0) - applied)
