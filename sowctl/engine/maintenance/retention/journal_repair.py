"""Repair of an instance's journal: damage is cut out with a receipt, an incomplete end is truncated; intact entries are
not changed.

Specified in ``sow-journal(5)``, "Damage cut out" and "A torn tail".
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.maintenance.retention.journals import hold_journal_files, require_transaction_log
from sowctl.engine.topics.positions import find_highest_applied, list_store_positions, open_log
from sowctl.engine.topics.queuestates import find_highest_synced, list_queue_positions
from sowctl.errors import SowError
from sowctl.journal.appender import write_error
from sowctl.journal.files import JournalFile
from sowctl.journal.listing import list_files
from sowctl.journal.lock import JournalLock
from sowctl.journal.logend import NewJournal
from sowctl.journal.maintenance.repair import RepairedGap, RepairPlan, list_repaired_gaps, plan_repair, repair_file
from sowctl.journal.state import load_topics_state
from sowctl.journal.writer import JournalWriter
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.findings import Finding
    from sowctl.journal.block import TailReport


class JournalRepair(DescribedStruct, frozen=True):
    """The repair of a journal, done or with ``dry_run`` planned.

    ``gaps`` replace damage; ``tail`` is the torn or incomplete end, with the saved copy, None without one; ``left`` is
    damage that a gap does not repair.
    """

    gaps: list[RepairedGap]
    tail: TailReport | None
    left: list[Finding]
    dry_run: bool


def repair_journal(instance: Instance, *, dry_run: bool = False) -> JournalRepair:
    """Repair the journal, without a concurrent writer or other maintenance.

    Raises ConfigError ``SOW-ENG-020`` without a TransactionLog, MissingError ``SOW-JRN-001`` without a file,
    DamageError ``SOW-JRN-006`` if a file is missing, LockedError, StorageError ``SOW-JRN-072`` and ``SOW-JRN-021``.
    """
    config, log = require_transaction_log(instance)
    if dry_run:
        found = _plan_mending(instance)
        gaps = [one for path, cuts in found.cuts.items() for one in list_repaired_gaps(path, cuts, [None] * len(cuts))]
        return JournalRepair(gaps, found.tail, found.left, dry_run)
    with hold_journal_files(instance, dry_run=dry_run):
        gaps = []
        try:
            lock = JournalLock(
                log.directory, config.name, instance.seam, instance.holder, instance.now, instance.notify
            )
        except OSError as error:
            raise write_error(error, log.directory, None) from error
        try:
            # No writer may append to a file that is about to be replaced.
            lock.acquire(instance.lock_wait)
            found = _plan_mending(instance)
            for path, cuts in found.cuts.items():
                receipts = repair_file(path, cuts, instance.seam, instance.now)
                gaps += list_repaired_gaps(path, cuts, receipts)
        except OSError as error:
            raise write_error(error, lock.path, None) from error
        finally:
            lock.close()
        # The lock was released above, because JournalWriter.open takes it itself (flock does not nest).
        tail = found.tail
        if tail is not None and not found.left:
            tail = _repair_tail(instance) or tail
        return JournalRepair(gaps, tail, found.left, dry_run)


def _plan_mending(instance: Instance) -> RepairPlan:
    config, log = require_transaction_log(instance)
    lineage = _read_lineage(instance)
    # The entries up to the position in the topics file were synced, too: they cannot be torn, only lost.
    told = load_topics_state(log.directory, config.name, lineage)
    acknowledged = max(_find_proven_txid(instance, lineage), told.end.txid if told is not None else 0)
    return plan_repair(log.directory, config.name, instance.seam, acknowledged, log.moved_archive)


def _find_proven_txid(instance: Instance, lineage: bytes) -> int:
    """Return the txid up to which stores and queues prove that the journal was synced."""
    stores = list_store_positions(instance, [topic for topic in instance.topics if topic.journalled])
    return max(find_highest_applied(lineage, stores), find_highest_synced(lineage, list_queue_positions(instance)))


def _read_lineage(instance: Instance) -> bytes:
    """Return the lineage of the last file, empty if it cannot be read. Raises MissingError ``SOW-JRN-001`` without a
    file."""
    config, log = require_transaction_log(instance)
    paths = list_files(log.directory, config.name, log.moved_archive)
    if not paths:
        open_log(instance).close()  # raises
    try:
        with closing(JournalFile(paths[max(paths)][0], max(paths), instance.seam)) as file:
            return file.header.lineage
    except SowError:
        return b""


def _repair_tail(instance: Instance) -> TailReport | None:
    """Repair the end as every writer does: copy and truncate a torn tail, close an incomplete group."""
    config, log = require_transaction_log(instance)
    with JournalWriter.open(
        log.directory,
        config.name,
        seam=instance.seam,
        lock_wait=instance.lock_wait,
        now=instance.now,
        new=NewJournal(instance.random(16)),
        acknowledged=_find_proven_txid(instance, _read_lineage(instance)),
        holder=instance.holder,
        archive=log.archive_directory,
        notify=instance.notify,
    ) as writer:
        cut = writer.take_cut_tails()
        return cut[0] if cut else writer.tail_report
