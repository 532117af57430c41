"""A writing session: the journal and the stores of the topics that one command writes to.

Used by publish, delete and expire. For each batch, the session acquires the lock of the journal, then the locks of
stores in the order of their paths, and adds entries of other processes to the memtables. New entries are written to the
journal and to the memtables. Once they are synced, a memtable may be flushed: when it is full, at the end of the
session, or if a command needs all changes in the store (principle 2). Merges run between batches, without the locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.reports import TornTail
from sowctl.engine.topics.positions import get_end_position, make_not_kept_error
from sowctl.engine.writing.dryrun import DryRunWriter
from sowctl.engine.writing.topicwriter import StoreWriter, TopicWriter
from sowctl.engine.writing.writer_opening import open_writer
from sowctl.errors import ConfigError, MissingError, SowError
from sowctl.interrupts import without_interrupts

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block, TopicState
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.meta import AppliedPosition
    from sowctl.values.topicref import TopicRef


class WriteSession:
    """Topics opened for writing. A context manager; every batch is written within :meth:`hold_batch_locks`."""

    def __init__(
        self,
        instance: Instance,
        *,
        dry_run: bool = False,
        volatile: bool = False,
        journal: JournalWriter | None = None,
    ) -> None:
        """``journal``: the open journal of the instance, which stays open; otherwise it is opened on first use."""
        # A store must not be opened twice in a process: readers get the open writers from this session.
        self.instance = replace(instance, opened=self._get_open_writer)
        self.volatile = volatile
        self.dry_run = dry_run
        self.writers: dict[TopicRef, TopicWriter] = {}
        self.stores: dict[TopicRef, StoreWriter] = {}
        """The ``writers`` that have a store; none in a dry run."""
        self.torn: list[TornTail] = []
        self._journal = journal
        self._owns_journal = journal is None
        # Whether every memtable has all entries read from the journal: otherwise nothing may be flushed.
        self._complete = True

    @property
    def journal(self) -> JournalWriter:
        """The instance's journal, opened on first use."""
        if self._journal is None:
            self._journal = open_journal(self.instance, self.torn)
        return self._journal

    def open_topic(self, config: TopicConfig) -> TopicWriter:
        """Open a topic for writing: create, rebuild or catch up its store according to the recovery matrix.

        Raises DamageError (exit 5), MissingError (exit 10), RefusedError (exit 8: another definition).
        """
        # An interrupt between opening a store and registering it would leave its lock held by a program that continues.
        with without_interrupts():
            return self._open_topic_writer(config.whole_topic)

    def _open_topic_writer(self, config: TopicConfig) -> TopicWriter:
        # A logical topic is written through its Pattern topic, whose store has its records.
        ref = config.ref
        # One writer per topic: two would have two memtables, each with a part of the entries.
        found = self.writers.get(ref)
        if found is None:
            if config.key_mode == "none":
                found = self._open_journal_only(config)
            elif self.dry_run:
                found = DryRunWriter(self.instance, config)
                if found.is_volatile and not self.volatile:
                    raise make_not_kept_error(config)
            elif config.journalled:
                with self.journal.hold_lock():
                    self._refresh_writers()
                    found = self.stores[ref] = open_writer(self.instance, config, self.journal)
            else:
                found = self.stores[ref] = open_writer(self.instance, config, None, volatile=self.volatile)
            self.writers[ref] = found
        return found

    def open_store(self, config: TopicConfig) -> StoreWriter:
        """Open a topic with records to change its store; not in a dry run. Raises as :meth:`open_topic`."""
        self.open_topic(config)
        return self.stores[config.ref]

    @contextmanager
    def hold_batch_locks(self, writers: Sequence[TopicWriter], *, merge_first: bool = False) -> Iterator[None]:
        """Hold the locks for one batch on ``writers``, all of which are up to date on entry.

        ``merge_first``: a forced flush will follow under the locks. Changes that would need a new store are merged
        before, without the locks, so that others can publish meanwhile.
        """
        if self.dry_run:
            yield
            return
        self._run_due_merges(ending=False)
        if merge_first:
            self._merge_ahead([self.stores[topic.ref] for topic in writers if topic.ref in self.stores])
        with ExitStack() as locks:
            if journalled := [topic for topic in writers if topic.journalled]:
                locks.enter_context(self.journal.hold_lock())
                self._refresh_writers(journalled)
            # The journal is always locked first, then stores in the order of their paths. This order prevents deadlocks
            # between sessions.
            alone = (self.stores[topic.ref] for topic in writers if not topic.journalled)
            for writer in sorted(alone, key=lambda one: one.store.path):
                locks.enter_context(writer.store.hold_writer_lock(self.instance.lock_wait))
                # Another process may have written this store: the txids of this batch follow its last txid.
                writer.reload()
            yield

    def find_highest_sequence(self, publisher: int, writers: Iterable[TopicWriter] | None = None) -> int:
        """Return the highest sequence number of a publisher for ``writers`` (default: all writers of the session).

        Journalled topics have it in the journal, others in their stores.
        """
        chosen = list(self.writers.values() if writers is None else writers)
        journalled = any(topic.journalled for topic in chosen)
        if self.dry_run:
            return read_recorded_sequence(self.instance, publisher) if journalled else 0
        highest = self.journal.find_highest_sequence(publisher) if journalled else 0
        for topic in chosen:
            if not topic.journalled:
                with self.stores[topic.ref].store.open_snapshot() as snapshot:
                    highest = max(highest, snapshot.read_sequence(publisher) or 0)
        return highest

    @contextmanager
    def guard_memtables(self) -> Iterator[None]:
        """Guard the reading or appending of entries and their folding into the memtables.

        If that is interrupted, by a signal or by damage, the memtables lack entries. Nothing is applied from then on,
        because the position of a store would include entries that it lacks. The journal has the entries.
        """
        # No ``finally``, on purpose: after an error ``_complete`` stays False, and nothing is flushed.
        complete, self._complete = self._complete, False
        yield
        self._complete = complete

    def flush_full(self) -> None:
        """Flush the memtables that are full, under the locks of a batch; merges may be due then.

        A merge runs after the locks are released: filling a store takes long, and other processes need not wait for it.
        """
        for topic in self._list_unapplied():
            if topic.is_memtable_full():
                self._flush_memtable(topic, topic.flush_full)

    def flush_forced(self) -> None:
        """Write all changes to the stores immediately, under the locks of a batch."""
        for topic in self._list_unapplied():
            self._flush_memtable(topic, topic.flush_forced)

    def flush_final(self) -> None:
        """Flush all memtables at the end of the session, and run the merges that are due; runs may remain."""
        # If the memtables are empty, no lock is needed.
        if not self.dry_run and any(topic.journalled and topic.has_unapplied for topic in self.stores.values()):
            with self.journal.hold_lock():
                self._refresh_writers()
                for topic in self._list_unapplied():
                    self._flush_memtable(topic, topic.flush_final)
            self._run_due_merges(ending=True)

    def _list_unapplied(self) -> list[StoreWriter]:
        """List the topics whose memtables may be flushed, ordered by the paths of their stores.

        Only entries that are synced in the journal are flushed. A crash between the sync and a flush loses nothing: the
        next writer folds the same entries from the journal, starting at the store's position.
        """
        # A memtable that lacks entries must not be flushed: the store's position would include them.
        if not self._complete:
            return []
        held = [topic for topic in self.stores.values() if topic.journalled and topic.has_unapplied]
        return sorted(held, key=lambda topic: topic.store.path)

    def _flush_memtable(self, topic: StoreWriter, flush: Callable[[AppliedPosition], None]) -> None:
        with hint_catch_up(topic):
            # Refreshed first: a replay may have installed an older store, which the memtable would not continue.
            topic.refresh(self.instance, self.journal)
            flush(get_end_position(self.journal))

    def _run_due_merges(self, *, ending: bool) -> None:
        """Run the merges that flushes have deferred; the journal's lock is held only at their start and end."""
        for topic in self.stores.values() if self._complete else ():
            with hint_catch_up(topic):
                self._merge_topic(topic, ending=ending)

    def _merge_ahead(self, topics: Iterable[StoreWriter]) -> None:
        """Merge the changes that :meth:`flush_forced` would otherwise merge under the locks."""
        for topic in topics:
            if not (self._complete and topic.journalled and topic.has_unapplied):
                continue
            with hint_catch_up(topic):
                with self.journal.hold_lock():
                    self._refresh_writers([topic])
                    topic.request_merge_ahead(get_end_position(self.journal))
                if topic.is_merge_due:
                    self._merge_topic(topic, ending=True, beside_others=True)

    def _merge_topic(self, topic: StoreWriter, *, ending: bool, beside_others: bool = False) -> None:
        """Compact runs, or merge them with the store, whichever is due.

        The journal's lock is held twice, briefly: to determine what is merged, and to install the result. While the new
        file is filled, others publish: their entries follow the position of the new store, so they stay in the journal,
        in memtables and in later runs, and need not be merged again. The inputs, a snapshot of the store and the runs,
        do not change. A kill meanwhile leaves an unused file without a lock, which the next builder removes; store and
        runs are unchanged.
        """
        if not topic.is_merge_due:
            # Compaction serves later batches, so it is skipped at the end of a session.
            while not ending and (runs := topic.runs_to_compact()):
                joined = topic.compact(runs)
                topic.reach("merge.joined")
                with self.journal.hold_lock():
                    self._refresh_writers()
                    topic.install_run(runs, joined)
            return
        with self.journal.hold_lock():
            self._refresh_writers([topic])
            position = get_end_position(self.journal)
            merging = topic.begin_merge(position, ending=ending, beside_others=beside_others)
        if merging is None:
            return
        with merging:
            topic.reach("merge.begun")
            merging.fill_store()
            topic.reach("merge.filled")
            with self.journal.hold_lock():
                self._refresh_writers()
                topic.end_merge(merging)

    def close(self) -> None:
        """Close stores and journal; acknowledged entries stay in the journal."""
        for topic in self.writers.values():
            topic.close()
        if self._journal is not None and self._owns_journal:
            self._journal.close()

    def _open_journal_only(self, config: TopicConfig) -> TopicWriter:
        ref = config.ref
        if self.dry_run:
            return LogWriter(config, read_topic_state(self.instance, ref))
        with self.journal.hold_lock():
            self._refresh_writers()
            return LogWriter(config, self.journal.find_topic_state(ref))

    def _get_open_writer(self, config: TopicConfig) -> TopicWriter | None:
        return self.writers.get(config.ref)

    def _refresh_writers(self, topics: Iterable[TopicWriter] = ()) -> None:
        """Add entries of other processes to the memtables of the session, then refresh ``topics`` from their stores.

        Called right after the journal's lock was acquired.
        """
        report_torn_tails(self.instance, self.journal, self.torn)
        with self.guard_memtables():
            # Other processes may have appended while this session held no lock: their entries must be in the memtables
            # before any decision about a record.
            for block in self.journal.read_new_blocks():
                self._fold_block(block)
        for topic in topics:
            topic.refresh(self.instance, self.journal)

    def _fold_block(self, block: Block) -> None:
        for ref, topic in self.writers.items():
            if topic.journalled and block.map.has_topic(ref):
                topic.memtable.fold_block(block, ref)

    def __enter__(self) -> WriteSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def hint_catch_up(topic: StoreWriter) -> Iterator[None]:
    """Add to the hint of a store's error that durable messages are in the journal and must not be published again."""
    try:
        yield
    except SowError as error:
        if topic.journalled and error.code.startswith("SOW-STO-"):
            name = topic.config.name
            rest = (
                "do not publish durable messages again: they are in the journal, and the next command "
                f"that writes to topic {name}, or sowctl replay {name}, applies them to the store"
            )
            error.hint = rest if error.hint is None else f"{error.hint}; {rest}"
        raise


def read_recorded_sequence(instance: Instance, publisher: int) -> int:
    """Return the highest sequence number of a publisher in the journal, without a lock; 0 if there is no journal."""
    from sowctl.engine.topics.positions import open_log

    try:
        with open_log(instance) as log:
            return log.find_highest_sequence(publisher)
    except MissingError:
        return 0


def read_topic_state(instance: Instance, ref: TopicRef) -> TopicState:
    """Return the journal's state of a topic, without a lock."""
    from sowctl.engine.topics.positions import open_log
    from sowctl.journal.state import EMPTY_TOPIC_STATE

    try:
        with open_log(instance) as log:
            return log.find_topic_state(ref)
    except MissingError:
        return EMPTY_TOPIC_STATE


def report_torn_tails(instance: Instance, journal: JournalWriter, torn: list[TornTail] | None = None) -> None:
    """Report each torn tail cut off since the last call to ``instance.notify``, and append it to ``torn``."""
    for tail in journal.take_cut_tails():
        instance.notify(tail.note)
        if torn is not None:
            torn.append(TornTail(str(tail.path), tail.offset, tail.size, str(tail.copy)))


def open_journal(instance: Instance, torn: list[TornTail] | None = None) -> JournalWriter:
    """Open the instance's journal for appending; a new one starts after the txids of all stores and queues
    (``behaviour`` 11.33).

    A torn tail that is cut off is reported to ``instance.notify`` and appended to ``torn``. A missing journal that
    stores, queues or the topics file refer to is reported to ``instance.notify``.
    """
    from sowctl.engine.topics.positions import (
        find_highest_applied,
        has_log,
        list_store_positions,
        open_log,
        read_meta,
        refuse_lost_log,
    )
    from sowctl.engine.topics.queuestates import find_highest_synced, list_queue_positions
    from sowctl.journal.logend import NewJournal
    from sowctl.journal.state import read_last_known_txid
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.meta import NO_LINEAGE

    log = instance.log
    if log is None or instance.config is None:
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    known = list_store_positions(instance, instance.topics)
    states = list_queue_positions(instance)
    # Of all lineages: a reader that has seen a txid could mistake a later entry with the same txid for it.
    seen = [max(state.told, state.read) for state in states]
    lineage = None
    if has_log(instance):
        with open_log(instance) as present:
            lineage = present.lineage
    else:
        for topic in instance.topics:
            if topic.journalled and topic.file is not None and topic.file.exists():
                refuse_lost_log(instance, topic.ref, read_meta(topic.file, instance))
        # It may have been removed on purpose, or its disk is not mounted, which no other check detects.
        given = [store.applied for store in known if store.lineage != NO_LINEAGE]
        if gone := max([read_last_known_txid(log.directory, instance.config.name), *given, *seen]):
            instance.notify(
                f"the journal in {log.directory} is missing; it had txids up to {gone}, so a new "
                "journal starts after them"
            )
    new = NewJournal(
        instance.random(16),
        # A new journal starts after the txids of all stores: if a txid that a store has applied were assigned again,
        # the store would skip the new entry as already applied.
        floor=max([*(s.applied for s in known), *seen], default=0),
        # The journal records which topics had records before it: it never covers these completely (behaviour 1.6).
        beginnings={s.ref: (s.applied, s.last_time) for s in known if s.applied},
    )
    writer = JournalWriter.open(
        log.directory,
        instance.config.name,
        seam=instance.seam,
        journal_size=log.journal_size,
        lock_wait=instance.lock_wait,
        now=instance.now,
        new=new,
        # Entries that a store has applied or a queue has written were acknowledged: a torn end before them is a loss,
        # not a tail to be cut off.
        acknowledged=max(find_highest_applied(lineage, known), find_highest_synced(lineage, states))
        if lineage is not None
        else 0,
        holder=instance.holder,
        archive=log.archive_directory,
        notify=instance.notify,
    )
    report_torn_tails(instance, writer, torn)
    return writer


class LogWriter:
    """A topic that is only in the TransactionLog: has the txid and time of its last entry, and no records.

    Messages published to it are only in the journal, and their entries are flagged so (``sow-journal(5)``, Columns).
    Only publishing writes here (``behaviour`` 11.32, C57); verbs that read report that the topic has no SOW.
    """

    def __init__(self, config: TopicConfig, state: TopicState) -> None:
        self.config = config
        # Always empty: the topic has no records.
        self.memtable = Memtable()
        self.ref = config.ref
        self.journalled = True
        self.expires = False
        self.is_volatile = False
        self._set_last_entry(state)

    def _set_last_entry(self, state: TopicState) -> None:
        self.last_txid, self.last_time = state.last_txid, state.last_time

    def close(self) -> None:
        """Do nothing: no file is open."""

    def refresh(self, instance: Instance, journal: JournalWriter) -> None:
        """Read the txid and the time of the topic's last entry from the journal, whose lock is held."""
        self._set_last_entry(journal.find_topic_state(self.ref))

    def read_live_values(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """Return no records."""
        return {}

    is_columnar = False

    def get_column_writer(self, count: int) -> None:
        """Return None: there are no records."""

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Return no records."""
        return iter(())
