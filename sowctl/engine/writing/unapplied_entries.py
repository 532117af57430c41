"""The journal entries after the position of a store that is opened for writing: a memtable, and sorted runs.

Called by :mod:`~sowctl.engine.writing.writer_opening`, and by :mod:`~sowctl.engine.writing.topicwriter` behind another
process.
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
    """The memtable of the entries behind a store's position. Raises DamageError (see ``positions``), and MissingError
    ``SOW-JRN-063`` where files are removed faster than they are read."""
    looks = MAX_REREADS
    while True:
        try:
            return _fold_unapplied(instance, config, store, journal)
        except MissingError as error:
            # A file without entries of the topic may be removed at any time: the next look proves anew that the files
            # that are left have all entries that are needed.
            looks -= 1
            if error.code != REMOVED_FILE_CODE or not looks:
                raise


def _fold_unapplied(instance: Instance, config: TopicConfig, store: Store, journal: JournalWriter | None) -> Memtable:
    meta = store.read_meta()
    memtable = Memtable(history=config.history is not None, base=meta.applied)
    if journal is None:
        return memtable
    ref = config.ref
    # What no reader needs any more goes: a process may have died between a merge and this.
    remove_runs(Path(store.path), meta, journal.lineage)
    # The topic's last entry is applied, and the store is not ahead of the journal: there is nothing to read.
    at_rest = journal.find_topic_state(ref).last_txid <= meta.applied <= journal.last_txid
    if at_rest and meta.lineage == journal.lineage:
        refuse_other_history(meta, journal.journal, Path(store.path))
        return memtable
    # The store's own position proves how far the journal went: one that ends before it has lost its end.
    with open_log(instance, acknowledged=meta.applied if meta.lineage == journal.lineage else 0) as log:
        path = Path(store.path)
        after = check_position(meta, log, ref, path)
        # As for readers: without a file that goes now, the store would be brought to a position whose entries it lacks.
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
