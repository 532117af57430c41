"""Folds the journal entries after the position of a store that is open for writing: into a memtable and sorted runs.

Called by :mod:`~sowctl.engine.writing.writer_opening`, and by :mod:`~sowctl.engine.writing.topicwriter` after another
process has changed the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.fold.flush_plan import supports_runs
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.runs import build_refold, extend_memtable, find_runs, flush_to_run, remove_runs
from sowctl.engine.topics.positions import check_position, open_log, refuse_other_history
from sowctl.errors import MissingError
from sowctl.journal.fileset import REMOVED_FILE_CODE
from sowctl.journal.reader import MAX_REREADS

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.env import Store
    from sowctl.store.meta import AppliedPosition


def build_memtable(instance: Instance, config: TopicConfig, store: Store, journal: JournalWriter | None) -> Memtable:
    """Build the memtable of the entries after a store's position. Raises DamageError (see ``positions``), and
    MissingError ``SOW-JRN-063`` if files are removed faster than they are read."""
    looks = MAX_REREADS
    while True:
        try:
            return _fold_unapplied(instance, config, store, journal)
        except MissingError as error:
            # A file without entries of the topic may be removed at any time: the next attempt proves again that the
            # remaining files have all needed entries.
            looks -= 1
            if error.code != REMOVED_FILE_CODE or not looks:
                raise


def _fold_unapplied(instance: Instance, config: TopicConfig, store: Store, journal: JournalWriter | None) -> Memtable:
    meta = store.read_meta()
    memtable = Memtable(history=config.history is not None, base=meta.applied)
    if journal is None:
        return memtable
    ref = config.ref
    # Obsolete runs are removed here, too: a process may have been killed between a merge and their removal.
    remove_runs(Path(store.path), meta, journal.lineage)
    # If the topic's last entry is applied, and the store is not ahead of the journal, there is nothing to read.
    at_rest = journal.find_topic_state(ref).last_txid <= meta.applied <= journal.last_txid
    if at_rest and meta.lineage == journal.lineage:
        refuse_other_history(meta, journal.journal, Path(store.path))
        return memtable
    # The store's position proves how far the journal reached: a journal that ends before it has lost entries.
    with open_log(instance, acknowledged=meta.applied if meta.lineage == journal.lineage else 0) as log:
        path = Path(store.path)
        after = check_position(meta, log, ref, path)
        # As for readers: if a needed file is removed now, the store would get a position whose entries it lacks.
        log.require_proven_after(after)
        history = config.history is not None
        runs = find_runs(instance, path, meta, log, after, every=history)
        memtable = Memtable(history=history, base=after, runs=runs, again=build_refold(instance, config, path, meta))
        mergeable = supports_runs(meta, history=history)

        def let_go(position: AppliedPosition) -> None:
            if mergeable:
                flush_to_run(instance, config, store, memtable, position)

        extend_memtable(memtable, log, ref, let_go)
    return memtable
