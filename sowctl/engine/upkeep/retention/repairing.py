"""The journal of an instance mended: damage cut out with a receipt, a torn end cut off; what is sound stays as it is.

Ruled by ``sow-journal(5)``, "Damage cut out" and "A torn tail".
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.described import DescribedStruct
from sowctl.engine.topics.positions import applied_of, open_log, standings
from sowctl.engine.topics.queuestates import queue_standings, told_of
from sowctl.engine.upkeep.retention.journals import logged, looked_after
from sowctl.errors import SowError
from sowctl.journal.appender import write_error
from sowctl.journal.files import JournalFile
from sowctl.journal.listing import list_files
from sowctl.journal.lock import JournalLock
from sowctl.journal.state import load
from sowctl.journal.upkeep.mending import Mended, Mending, described, mend, plan
from sowctl.journal.writer import JournalWriter

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.findings import Finding
    from sowctl.journal.block import TailReport


class JournalRepair(DescribedStruct, frozen=True):
    """What was done to a journal, or with ``dry_run`` would be.

    ``gaps`` stand in the place of damage; ``tail`` is what was torn or unfinished at the end, with the copy that was
    kept, None where nothing was; ``left`` is damage that a gap does not mend.
    """

    gaps: list[Mended]
    tail: TailReport | None
    left: list[Finding]
    dry_run: bool


def repair(instance: Instance, *, dry_run: bool = False) -> JournalRepair:
    """Mend the journal, without a writer or other upkeep beside it.

    Raises ConfigError ``SOW-ENG-020`` without a TransactionLog, MissingError ``SOW-JRN-001`` without a file,
    DamageError ``SOW-JRN-006`` where one is missing, LockedError, StorageError ``SOW-JRN-072`` and ``SOW-JRN-021``.
    """
    config, log = logged(instance)
    if dry_run:
        found = _planned(instance)
        gaps = [one for path, cuts in found.cuts.items() for one in described(path, cuts, [None] * len(cuts))]
        return JournalRepair(gaps, found.tail, found.left, dry_run)
    with looked_after(instance, dry_run=dry_run):
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
            found = _planned(instance)
            for path, cuts in found.cuts.items():
                receipts = mend(path, cuts, instance.seam, instance.now)
                gaps += described(path, cuts, receipts)
        except OSError as error:
            raise write_error(error, lock.path, None) from error
        finally:
            lock.close()
        tail = found.tail
        if tail is not None and not found.left:
            tail = _settled(instance) or tail
        return JournalRepair(gaps, tail, found.left, dry_run)


def _planned(instance: Instance) -> Mending:
    config, log = logged(instance)
    lineage = _lineage(instance)
    # What the topics file counts in had been synced, too: it cannot be torn, only lost.
    told = load(log.directory, config.name, lineage)
    acknowledged = max(_proven(instance, lineage), told.end.txid if told is not None else 0)
    return plan(log.directory, config.name, instance.seam, acknowledged, log.archive_here)


def _proven(instance: Instance, lineage: bytes) -> int:
    """Up to which txid stores and queues prove that the journal had been synced."""
    stores = standings(instance, [topic for topic in instance.topics if topic.journalled])
    return max(applied_of(lineage, stores), told_of(lineage, queue_standings(instance)))


def _lineage(instance: Instance) -> bytes:
    """That of the last file, empty where it cannot be read. Raises MissingError ``SOW-JRN-001`` without a file."""
    config, log = logged(instance)
    paths = list_files(log.directory, config.name, log.archive_here)
    if not paths:
        open_log(instance).close()  # raises
    try:
        with closing(JournalFile(paths[max(paths)][0], max(paths), instance.seam)) as file:
            return file.header.lineage
    except SowError:
        return b""


def _settled(instance: Instance) -> TailReport | None:
    """The end put right as every writer does it: a torn tail copied and cut off, an unfinished group closed."""
    config, log = logged(instance)
    with JournalWriter.open(
        log.directory,
        config.name,
        seam=instance.seam,
        lock_wait=instance.lock_wait,
        now=instance.now,
        random=instance.random(16),
        acknowledged=_proven(instance, _lineage(instance)),
        holder=instance.holder,
        archive=log.archive_directory,
        notify=instance.notify,
    ) as writer:
        cut = writer.cut_tails()
        return cut[0] if cut else writer.tail_report
