"""The moment of a backup: the journal's end and a state of every store that belong together.

A store with a journal may stand anywhere before the journal's end, because the journal has what comes behind. So its
state is taken first and the end read after it. Topics without a journal are held still meanwhile, all at once. The
locks are those of a batch, in the order of a batch, and are held for as long as it takes to begin read transactions
and to read the end: what takes time is done before and after.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sowctl.engine.topics.positions import has_log, open_log, open_store
from sowctl.errors import ConfigError
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import EndedHistory, FileInfo, Position
    from sowctl.store.snapshot import Snapshot


class PinnedStore(DescribedStruct, frozen=True):
    """A topic's store, and the state of it that is backed up."""

    topic: TopicConfig
    path: Path
    snapshot: Snapshot


class LogPart(DescribedStruct, frozen=True):
    """The journal up to the instant: its files in order, and the position behind its last whole group."""

    lineage: bytes
    first_txid: int
    end: Position
    files: tuple[FileInfo, ...]
    histories: tuple[EndedHistory, ...]


class BackupInstant(DescribedStruct, frozen=True):
    """The journal and the store states that belong together. ``time`` is that of the last entry that is in it,
    microseconds UTC.
    """

    time: int
    log: LogPart | None
    stores: tuple[PinnedStore, ...]

    @property
    def txid(self) -> int:
        """The last txid of the journal, 0 without one."""
        return self.log.end.txid if self.log is not None else 0


def take_instant(instance: Instance, held: ExitStack) -> BackupInstant:
    """Hold the instance for a moment and note where it stands; ``held`` ends the read transactions that this begins.

    Raises ConfigError ``SOW-ENG-020`` without a configuration, LockedError, and what is damaged.
    """
    config, log = instance.config, instance.log
    if config is None:
        raise ConfigError("SOW-ENG-020", "a backup requires the configuration of the instance")
    found = [topic for topic in instance.topics if topic.file is not None and topic.file.exists()]
    stores = [(topic, held.enter_context(open_store(instance, topic.file))) for topic in found if topic.file]
    journal = held.enter_context(open_log(instance, whole=True)) if log is not None and has_log(instance) else None
    if journal is not None:
        journal.refresh_state()  # the most of it is read without the lock
    with ExitStack() as locks:
        if journal is not None and log is not None:
            from sowctl.journal.lock import JournalLock

            lock = JournalLock(
                log.directory, config.name, instance.seam, instance.holder, instance.now, instance.notify
            )
            locks.callback(lock.close)
            lock.acquire(instance.lock_wait)
        # The lock of the journal stops the writers of all journalled topics; the others have a lock each.
        alone = [store for topic, store in stores if not topic.journalled]
        # In one order always, so that two backups cannot wait for each other.
        for store in sorted(alone, key=lambda one: one.path):
            locks.enter_context(store.hold_writer_lock(instance.lock_wait))
        # Read transactions are begun and the end of the journal is noted: writers wait for little more than that.
        pinned = tuple(
            PinnedStore(topic, store.files.path, held.enter_context(store.open_snapshot())) for topic, store in stores
        )
        state = journal.refresh_state() if journal is not None else None
        files = tuple(journal.list_files()) if journal is not None else ()
    part = None
    times = [one.snapshot.meta.last_time for one in pinned]
    if journal is not None and state is not None:
        part = LogPart(journal.lineage, journal.first_txid, state.end, files, journal.histories)
        times += [topic.last_time for topic in state.topics.values()]
    return BackupInstant(max(times, default=0) or instance.now, part, pinned)
