"""One state of a topic for many tasks: fixed when the query is planned, found again or refused by every task.

A snapshot of LMDB cannot be shared between processes, so each task opens its own and proves that it shows what the plan
saw. A journalled topic is read up to the planned txid, whatever has been appended or applied since, as long as nothing
of it that is newer has reached the store. sowctl-spark(7), CONSISTENCY.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.fold.blocks import find_entry_places
from sowctl.engine.sources.current import open_current_source, open_file_source
from sowctl.engine.sources.opener import open_source
from sowctl.engine.sources.source import Pairs, Source
from sowctl.engine.topics.positions import (
    add_replay_hint,
    has_log,
    open_log,
    open_store,
)
from sowctl.engine.topics.targets import Target
from sowctl.errors import LockedError
from sowctl.store.meta import NO_LINEAGE, StoreMeta

if TYPE_CHECKING:
    from sowctl.spark.origin import Origin

MOVED_CODE = "SOW-SPK-020"
"""The code where a store does not show the planned state any more."""


class PlannedState(Struct, frozen=True):
    """State that the plan saw: lineage and txid of the store, and how far the journal is to be read.

    ``until`` is None where no journal is behind the store: then the store must be exactly as it was. ``log_lineage`` is
    that of the journal. ``records`` is about how many there are.
    """

    lineage: bytes
    applied: int
    digest: int
    removal_mark: int
    until: int | None
    log_lineage: bytes
    records: int

    def admit(self, origin: Origin, path: Path, meta: StoreMeta) -> None:
        """Raise LockedError ``SOW-SPK-020`` where a store with ``meta`` cannot show the planned state any more."""
        # Without a journal nothing can tell the old state from the new: the store must be the very same.
        if self.until is None:
            moved = (meta.lineage, meta.applied, meta.digest) != (self.lineage, self.applied, self.digest)
        else:
            # What was removed since is missed only if it had not expired by the planned instant.
            removed = meta.removal_mark != self.removal_mark and meta.removal_mark > origin.now
            # With a journal a store that is behind is completed by each task up to ``until``. One that is further ahead
            # fits only if nothing of this topic has been applied since.
            moved = removed or (meta.applied > self.until and _has_newer_entries(origin, meta, self.until))
        if moved:
            raise _build_moved_error(path)


def plan_position(origin: Origin) -> PlannedState | None:
    """The present position of a topic's store, None where there is no file (then each reading builds one)."""
    path = origin.topic.file if origin.topic is not None else origin.store_path
    if path is None or not path.exists():
        return None
    instance = origin.build_instance()
    with (
        add_replay_hint(origin.topic),
        open_store(instance, path) as store,
    ):
        meta = store.read_meta()
    until, lineage = None, NO_LINEAGE
    if origin.topic is not None and origin.topic.journalled and has_log(instance):
        with open_log(instance, acknowledged=meta.applied if meta.has_journal else 0) as log:
            until, lineage = log.read_last_txid(), log.lineage
    return PlannedState(meta.lineage, meta.applied, meta.digest, meta.removal_mark, until, lineage, meta.records)


def open_planned_source(origin: Origin, planned: PlannedState | None, at: int | None) -> Source:
    """The source of one task; of a Pattern topic, all of it: :func:`read_range` takes the part that is meant.

    Raises LockedError ``SOW-SPK-020`` where the topic has moved on, and what readers raise.
    """
    instance = origin.build_instance()
    topic = origin.topic.whole_topic if origin.topic is not None else None
    if at is not None or planned is None:
        # The state at an instant does not depend on how far the store has moved; without a file each task builds the
        # present from the journal.
        return open_source(instance, Target(topic=topic) if topic is not None else origin.target, at)
    if topic is None:
        path = origin.store_path
        assert path is not None
        return open_file_source(instance, path, admit=partial(planned.admit, origin, path))
    assert topic.file is not None
    admit = partial(planned.admit, origin, topic.file)
    # without a journal at the time of the plan, nothing of one that began since is read
    return open_current_source(instance, topic, now=origin.now, until=planned.until or 0, admit=admit)


def read_range(source: Source, origin: Origin, size: int, low: bytes | None, high: bytes | None) -> Iterator[Pairs]:
    """The records of ``source`` that are meant, from ``low`` (inclusive) to ``high`` (exclusive), in key order."""
    logical = origin.topic.logical if origin.topic is not None else None
    found = source.read_part(size, low, high)
    if logical is None:
        return found
    from sowctl.engine.sources.logical_topics import build_logical_filter

    return map(build_logical_filter(logical), found)


def _has_newer_entries(origin: Origin, meta: StoreMeta, until: int) -> bool:
    """Return whether the store holds entries of the topic behind ``until``; other topics move its position, too."""
    assert origin.topic is not None
    ref = origin.topic.ref
    with open_log(origin.build_instance(), acknowledged=meta.applied if meta.has_journal else 0) as log:
        # The topic's last entry, which the journal knows without reading, decides most cases.
        if meta.lineage != log.lineage or log.find_topic_state(ref).last_txid <= until:
            return False
        return any(
            find_entry_places(block, ref, after=until, until=meta.applied, unkeyed=True)
            for block in log.iter_blocks(after=until, until=meta.applied, topic=ref)
        )


def _build_moved_error(path: Path) -> LockedError:
    return LockedError(
        MOVED_CODE,
        "the store changed after the query was planned",
        place=str(path),
        hint="run the query again; with option pin=auto, its tasks read a copy that never changes",
    )
