"""One state of a topic for many tasks: fixed when the query is planned, found again or refused by every task.

A snapshot of LMDB cannot be shared between processes, so each task opens its own and proves that it shows what the plan
saw. A journalled topic is read up to the planned txid, whatever has been appended or applied since, as long as nothing
of it that is newer has reached the store. sowctl-spark(7), CONSISTENCY.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.fold.blocks import values_of
from sowctl.engine.fold.overlay import Overlay
from sowctl.engine.sources.current import CurrentSource
from sowctl.engine.sources.opening import open_source
from sowctl.engine.sources.source import Pairs, Source
from sowctl.engine.topics.positions import (
    check_position,
    has_log,
    naming_replay,
    open_log,
    open_store,
    refuse_other_topic,
)
from sowctl.engine.topics.targets import Target
from sowctl.errors import LockedError
from sowctl.store.codec import TOMBSTONE
from sowctl.store.meta import StoreMeta

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.spark.origin import Origin


@dataclass(frozen=True)
class Position:
    """What the plan saw: lineage and txid of the store, and how far the journal is to be read.

    ``until`` is None where no journal is behind the store: then the store must be exactly as it was. ``records`` is
    about how many there are.
    """

    lineage: bytes
    applied: int
    digest: int
    removal_mark: int
    until: int | None
    records: int


def plan_position(origin: Origin) -> Position | None:
    """The present position of a topic's store, None where there is no file (then each reading builds one)."""
    path = origin.topic.file if origin.topic is not None else origin.path
    if path is None or not path.exists():
        return None
    instance = origin.instance()
    with (
        naming_replay(origin.topic),
        open_store(instance, path) as store,
    ):
        meta = store.meta()
    until = None
    if origin.topic is not None and origin.topic.journalled and has_log(instance):
        with open_log(instance, acknowledged=meta.applied if meta.has_journal else 0) as log:
            until = log.last_txid()
    return Position(meta.lineage, meta.applied, meta.digest, meta.removal_mark, until, meta.records)


def open_planned(origin: Origin, position: Position | None, at: int | None) -> Source:
    """The source of one task; of a Pattern topic, all of it: :func:`ranged` takes the part that is meant.

    Raises LockedError ``SOW-SPK-020`` where the topic has moved on, and what readers raise.
    """
    instance = origin.instance()
    topic = origin.topic.whole if origin.topic is not None else None
    if at is not None or position is None:
        return open_source(instance, Target(topic=topic) if topic is not None else origin.target, at)
    path = topic.file if topic is not None else origin.path
    assert path is not None
    with ExitStack() as held:
        with naming_replay(topic):
            store = open_store(instance, path)
            held.callback(store.close)
            snapshot = held.enter_context(store.snapshot())
        meta = snapshot.meta
        overlay = None
        if topic is not None:
            refuse_other_topic(topic, meta)
        if position.until is None:
            if (meta.lineage, meta.applied, meta.digest) != (position.lineage, position.applied, position.digest):
                raise _moved(path)
        else:
            if meta.removal_mark != position.removal_mark and meta.removal_mark > origin.now:
                raise _moved(path)
            assert topic is not None
            overlay = _overlay(instance, topic, meta, position.until, path)
        now = origin.now if topic is not None else 0
        return CurrentSource(held.pop_all(), snapshot, overlay, topic, now)


def ranged(source: Source, origin: Origin, size: int, low: bytes | None, high: bytes | None) -> Iterator[Pairs]:
    """The records of ``source`` that are meant, from ``low`` (inclusive) to ``high`` (exclusive), in key order."""
    logical = origin.topic.logical if origin.topic is not None else None
    found = source.part(size, low, high)
    if logical is None:
        return found
    from sowctl.engine.sources.logical import chosen

    return map(chosen(logical), found)


def _overlay(instance: Instance, topic: TopicConfig, meta: StoreMeta, until: int, path: Path) -> Overlay | None:
    """The journal's entries behind the store, up to ``until``."""
    ref = topic.name, topic.message_type
    with open_log(instance, acknowledged=meta.applied if meta.has_journal else 0) as log:
        after = check_position(meta, log, ref, path)
        if after > until and _newer(log, ref, until, after):
            raise _moved(path)
        if log.topic_state(ref).last_txid <= after:
            return None
        overlay = Overlay(history=topic.history is not None)
        for block in log.blocks(after=after, until=until, topic=ref):
            for key, value in zip(*values_of(block, ref, after=after, until=until), strict=True):
                if value[0] & TOMBSTONE:
                    overlay.delete(key, value)
                else:
                    overlay.put((key,), (value,))
        return overlay


def _newer(log: Journal, ref: tuple[str, str], until: int, applied: int) -> bool:
    """Whether the store holds entries of the topic behind ``until``."""
    if log.topic_state(ref).last_txid <= until:
        return False
    return any(
        until < entry.txid <= applied
        for block in log.blocks(after=until, until=applied, topic=ref)
        for entry in block.entries()
        if entry.topic == ref
    )


def _moved(path: Path) -> LockedError:
    return LockedError(
        "SOW-SPK-020",
        "the store has changed since the query was planned: its parts would not fit together",
        place=str(path),
        hint="run it again; with option pin the tasks read a copy that nobody changes",
    )
