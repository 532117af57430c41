"""The same state of a topic for all tasks: fixed when the query is planned, and verified by every task.

Processes cannot share a snapshot of LMDB, so each task opens its own and verifies that it shows the planned state. A
journalled topic is read up to the planned txid, even if more entries have been appended or applied since, as long as no
newer entry of the topic has been applied to the store. sowctl-spark(7), CONSISTENCY.
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
"""The code of the error if a store no longer shows the planned state."""


class PlannedState(Struct, frozen=True):
    """The planned state: position of the store, and the txid up to which the journal is read.

    ``until`` is None if the store has no journal: then the store must be unchanged. ``log_lineage`` is that of the
    journal. ``records`` is the approximate number of records.
    """

    lineage: bytes
    applied: int
    digest: int
    removal_mark: int
    until: int | None
    log_lineage: bytes
    records: int

    def admit(self, origin: Origin, path: Path, meta: StoreMeta) -> None:
        """Raise LockedError ``SOW-SPK-020`` if a store with ``meta`` can no longer show the planned state."""
        # Without a journal, newer records cannot be identified, so the store must be unchanged.
        if self.until is None:
            moved = (meta.lineage, meta.applied, meta.digest) != (self.lineage, self.applied, self.digest)
        else:
            # Records removed since then are missing only if they had not expired at the planned instant.
            removed = meta.removal_mark != self.removal_mark and meta.removal_mark > origin.now
            # If the store lags, each task applies the journal up to ``until``. If it is ahead, no newer entry of this
            # topic may have been applied.
            moved = removed or (meta.applied > self.until and _has_newer_entries(origin, meta, self.until))
        if moved:
            raise _build_moved_error(path)


def plan_position(origin: Origin) -> PlannedState | None:
    """Return the present position of a topic's store, None if it has no file (then each read builds the state)."""
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
    """Open the source of one task. For a logical topic, that is its whole Pattern topic; :func:`read_range` filters it.

    Raises LockedError ``SOW-SPK-020`` if the store no longer shows the planned state, and what opening a source raises.
    """
    instance = origin.build_instance()
    topic = origin.topic.whole_topic if origin.topic is not None else None
    if at is not None or planned is None:
        # The state at an instant does not depend on the position of the store. Without a store file, each task builds
        # the present state from the journal.
        return open_source(instance, Target(topic=topic) if topic is not None else origin.target, at)
    if topic is None:
        path = origin.store_path
        assert path is not None
        return open_file_source(instance, path, admit=partial(planned.admit, origin, path))
    assert topic.file is not None
    admit = partial(planned.admit, origin, topic.file)
    # If there was no journal when the query was planned, no entries of a newer journal are read.
    return open_current_source(instance, topic, now=origin.now, until=planned.until or 0, admit=admit)


def read_range(source: Source, origin: Origin, size: int, low: bytes | None, high: bytes | None) -> Iterator[Pairs]:
    """Yield the records of ``origin`` in ``source`` from ``low`` (inclusive) to ``high`` (exclusive), in key order."""
    logical = origin.topic.logical if origin.topic is not None else None
    found = source.read_part(size, low, high)
    if logical is None:
        return found
    from sowctl.engine.sources.logical_topics import build_logical_filter

    return map(build_logical_filter(logical), found)


def _has_newer_entries(origin: Origin, meta: StoreMeta, until: int) -> bool:
    """Return whether entries of the topic after ``until`` have been applied to the store.

    Its position alone does not tell, because entries of other topics advance it, too."""
    assert origin.topic is not None
    ref = origin.topic.ref
    with open_log(origin.build_instance(), acknowledged=meta.applied if meta.has_journal else 0) as log:
        # The txid of the topic's last entry is known without reading blocks, and decides most cases.
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
