"""Pruning: removing the oldest journal files whose entries no holder needs.

First comes a plan: the files that a retention rule releases, and the holders that still need some of them. Its
execution syncs the stores, plans again with their positions then, and removes the files, oldest first. Called by
``sowctl journal prune`` and the action amps-action-do-remove-journal. Specified in ``sow-journal(5)``, "Looking after
files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from sowctl.engine.maintenance.retention.holders import EntryHolder, list_holders
from sowctl.engine.maintenance.retention.journals import hold_journal_files, list_journal_files
from sowctl.engine.sources.past import find_provable_start
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import open_log, read_meta
from sowctl.errors import SowError
from sowctl.journal.maintenance.relocation import remove_files
from sowctl.structs import DescribedStruct
from sowctl.values.times import Micros, format_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.maintenance.survey import SurveyedFile
    from sowctl.journal.reader import Journal


class KeepRule(Struct, frozen=True):
    """The rule for files to keep; exactly one member is set. ``keep_for`` microseconds: files that were written to
    within this time, or have an entry as recent. ``keep_size`` bytes: the newest files up to this total, and the active
    one. ``before_txid``, ``before_time``: files with an entry that is not before it."""

    keep_for: int | None = None
    keep_size: int | None = None
    before_txid: int | None = None
    before_time: Micros | None = None


class PrunedFile(Struct, frozen=True):
    """A file that the rule releases. ``removable``: no holder needs it, else ``held_by`` names the holders;
    ``removed``: it was removed, never with ``dry_run``."""

    number: int
    path: Path
    size: int
    first_txid: int
    last_txid: int
    latest: str | None
    removed: bool
    held_by: tuple[str, ...] = ()
    removable: bool = True
    dry_run: bool = False


class HeldFiles(Struct, frozen=True):
    """Files that the rule releases but a holder needs: from file ``number`` on, the reason, and the command to release
    them."""

    holder: str
    number: int
    after: int
    why: str
    release: str | None


class LostPast(Struct, frozen=True):
    """A topic whose past states are only in the journal: ``first_instant`` is the first available instant after the
    removal.

    None if it is unknown.
    """

    topic: str
    message_type: str
    first_instant: str | None


class PruneReport(Struct):
    """The files removed, or with ``dry_run`` to be removed; ``first_txid`` is that of the first remaining file."""

    first_txid: int
    removed: int = 0
    bytes: int = 0
    files: list[PrunedFile] = field(default_factory=list)
    held: list[HeldFiles] = field(default_factory=list)
    past: list[LostPast] = field(default_factory=list)
    dry_run: bool = False


class _PrunePlan(DescribedStruct):
    """Files that the rule releases, those of them that can be removed, the first remaining file, and all holders."""

    wanted: list[SurveyedFile]
    free: list[SurveyedFile]
    left: SurveyedFile
    holders: list[EntryHolder]

    @property
    def affected_holders(self) -> list[EntryHolder]:
        """The holders with files on disk that depend on entries of files to remove; these have to be synced."""
        if not self.free:
            return []
        last = self.free[-1]
        # 0 means that the files to be removed have no entry of the topic, so no sync is needed.
        return [
            one for one in self.holders if one.file is not None and any(map(last.find_last_txid, one.topic_refs or ()))
        ]


def prune_files(
    instance: Instance, rule: KeepRule, *, bookmarks: Sequence[str] = (), dry_run: bool = False
) -> PruneReport:
    """Remove the files that ``rule`` releases and no holder needs.

    ``bookmarks``: bookmark store files in addition to those found. Raises LockedError ``SOW-JRN-060``, StorageError
    ``SOW-JRN-062``, MissingError ``SOW-UPK-003``, what listing the journal raises, and what opening a store to sync it
    raises: then nothing was removed.
    """
    with hold_journal_files(instance, dry_run=dry_run):
        plan = _plan_prune(instance, rule, bookmarks)
        if not dry_run:
            concerned = plan.affected_holders
            for holder in concerned:
                holder.sync(instance)
            if concerned:
                # The store's position is durable now; before the sync, a power failure could have reverted it.
                plan = _plan_prune(instance, rule, bookmarks)
        report = _build_report(instance, plan, dry_run)
        if not dry_run:
            # Last step: after an earlier failure nothing is removed.
            remove_files(plan.free, instance.seam)
        return report


def _plan_prune(instance: Instance, rule: KeepRule, bookmarks: Sequence[str]) -> _PrunePlan:
    files = list_journal_files(instance)
    wanted = list(_select_released(files, rule, instance.now))
    if not wanted:
        return _PrunePlan([], [], files[0], [])
    with open_log(instance) as log:
        log.read_last_txid()
        found = list(list_holders(instance, log, files, bookmarks))
    free: list[SurveyedFile] = []
    for file in wanted:
        # The oldest file that is needed ends the list: removing later ones would leave a gap in the journal.
        if any(holder.holds(file) for holder in found):
            break
        free.append(file)
    return _PrunePlan(wanted, free, files[len(free)], found)


def _select_released(files: list[SurveyedFile], rule: KeepRule, now: Micros) -> Iterator[SurveyedFile]:
    """Yield the oldest files that the rule releases; never the last one, and never one after a file that is kept."""
    size = sum(file.size for file in files)
    for file in files[:-1]:
        age = file.compute_age(now)
        assert age is not None
        assert file.last_txid is not None
        if rule.keep_for is not None and age < rule.keep_for:
            return
        if rule.keep_size is not None and size <= rule.keep_size:
            return
        if rule.before_txid is not None and file.last_txid >= rule.before_txid:
            return
        if rule.before_time is not None and file.latest >= rule.before_time:
            return
        size -= file.size
        yield file


def _build_report(instance: Instance, plan: _PrunePlan, dry_run: bool) -> PruneReport:
    report = PruneReport(plan.left.first_txid, dry_run=dry_run)
    for file in plan.wanted:
        assert file.last_txid is not None
        removable = file in plan.free
        keepers = () if removable else tuple(one.label for one in plan.holders if one.holds(file))
        latest = format_time(file.latest) if file.latest else None
        report.files.append(
            PrunedFile(
                file.number,
                file.path,
                file.size,
                file.first_txid,
                file.last_txid,
                latest,
                removable and not dry_run,
                keepers,
                removable,
                dry_run,
            )
        )
        report.removed += removable
        report.bytes += file.size if removable else 0
    for holder in plan.holders:
        first = next((file for file in plan.wanted if holder.holds(file)), None)
        if first is not None:
            report.held.append(HeldFiles(holder.label, first.number, holder.after, holder.why, holder.release))
    if plan.free:
        with open_log(instance) as log:
            report.past = list(_find_lost_pasts(instance, log, plan))
    return report


def _find_lost_pasts(instance: Instance, log: Journal, plan: _PrunePlan) -> Iterator[LostPast]:
    """Yield the topics whose past states can be queried now, but need the files to remove."""
    if instance.log is not None and instance.log.archive_url is not None:
        return  # removed files have their segments there (holders), and past states are computed from these
    last = plan.free[-1]
    assert last.last_txid is not None
    for topic in instance.topics:
        # A topic with History has its versions in its store; the states of a topic without a store begin at its
        # RecoveryPoint, which is after the removed files.
        if topic.history is None and topic.file is not None and topic.journalled:
            ref = topic.ref
            if last.find_last_txid(ref) >= plan.free[0].first_txid:
                yield LostPast(topic.name, topic.message_type, _find_first_instant(instance, log, topic, last))


def _find_first_instant(instance: Instance, log: Journal, topic: TopicConfig, last: SurveyedFile) -> str | None:
    assert topic.file is not None
    assert last.last_txid is not None
    assert last.behind is not None
    ref = topic.ref
    try:
        expires = can_expire(topic.expiration)
        removed = read_meta(topic.file, instance).removal_mark if expires else 0
        since = max(last.behind.topic_states[ref].last_time, removed)
        return format_time(find_provable_start(log, ref, since, last.last_txid, expires=expires).time)
    except SowError:
        return None
