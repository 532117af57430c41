"""Restoring an instance from a backup to a new directory, as of the backup's instant or an earlier txid or time.

First comes a plan; a dry run ends with it. Then the instance is built next to the target, verified, and renamed: the
target has the complete instance or nothing. A store whose position is before the txid is copied, and its journal
continues from there; one whose position is after it is copied from an earlier backup, or rebuilt from the journal. The
restored instance starts a new history (:mod:`~sowctl.engine.maintenance.backup.journals`), which its stores and queues
follow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.directories import make_directories, sync_directory
from sowctl.engine.instance import ignore_progress
from sowctl.engine.maintenance.backup import file_copy
from sowctl.engine.maintenance.backup import manifest as codec
from sowctl.engine.maintenance.backup.folder import (
    TREE_NAME,
    Backup,
    find_backup,
    read_backups,
    sync_tree,
    wrap_write_errors,
)
from sowctl.engine.maintenance.backup.journals import (
    TXID_STEP,
    LeftOutEntries,
    begin_history,
    copy_journal,
    find_end_at,
    find_end_before,
    find_left_out,
    read_time_before,
)
from sowctl.engine.maintenance.backup.layout import move_instance
from sowctl.engine.maintenance.backup.manifest import BackupFile, BackupManifest, BackupTopic, build_damage_error
from sowctl.engine.maintenance.backup.verification import check_store_file, verify_topics
from sowctl.engine.sources.digest import Digest, compute_current_digest, compute_digest
from sowctl.engine.topics.targets import Target
from sowctl.errors import MissingError, RefusedError, SowError
from sowctl.journal.block import EndedHistory, Position
from sowctl.journal.reader import Journal
from sowctl.journal.state import read_last_known_txid
from sowctl.store.env import Store
from sowctl.structs import DescribedStruct
from sowctl.values.times import Micros, format_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.seam import Seam
    from sowctl.values.topicref import TopicRef

OpenInstance = Callable[[Path, Path], "Instance"]
"""Opens the instance of a configuration whose paths are relative to a directory."""


class StoreOrigin(DescribedStruct, frozen=True):
    """The origin of a topic's store: the backup to copy it from, None if it is rebuilt from the journal."""

    topic: BackupTopic
    source: Backup | None


class RestorePlan(DescribedStruct, frozen=True):
    """The plan of a restore. ``end`` is where the journal is cut, None without one; ``above`` the highest txid that may
    have been assigned; ``whole``: nothing of the backup is undone; ``entries_left_out``: entries after the cut that are
    not later than the requested time; ``beyond``: the number of txids after the requested one that are included,
    because they are in the same group; the group starts after the txid ``before``."""

    backup: Backup
    manifest: BackupManifest
    end: Position | None
    time: Micros
    above: int
    whole: bool
    stores: tuple[StoreOrigin, ...]
    others: tuple[BackupFile, ...]
    left_out: tuple[str, ...]
    entries_left_out: LeftOutEntries
    beyond: int
    before: int


class RestoreResult(DescribedStruct, frozen=True):
    """The result of a restore. ``digests`` by topic name and type."""

    plan: RestorePlan
    ended: EndedHistory | None
    lineage: bytes | None
    digests: dict[TopicRef, tuple[str, int, int]]
    rebuilt: tuple[str, ...]
    bytes: int


def plan_restore(directory: Path, *, name: str | None, txid: int | None, at: Micros | None, seam: Seam) -> RestorePlan:
    """Choose the backup, the end of its journal, and the origin of each store.

    Raises MissingError ``SOW-BAK-005`` (no such backup), ``SOW-BAK-006`` (no backup reaches the position), and errors
    of damaged files.
    """
    found = _read_all_backups(directory)
    backup = _find_start_backup(directory, found, name, txid, at)
    manifest = backup.valid_manifest
    with _open_backup_journal(backup, seam) as log:
        before = end = None if log is None else log.find_end()
        if log is not None and txid is not None:
            before, end = find_end_at(log, txid)
        elif log is not None and at is not None:
            end = find_end_before(log, at)
        whole = (end is None or end.txid >= manifest.last_txid) and (at is None or at >= manifest.time)
        if log is not None and end is not None and txid is not None and txid < log.first_txid - 1:
            raise _build_not_reached_error(f"txid {txid}", f"its journal begins at txid {log.first_txid}", backup)
        time = (
            manifest.time if whole else at or (read_time_before(log, end) if log is not None and end is not None else 0)
        )
        entries_left_out = LeftOutEntries()
        if log is not None and end is not None and at is not None:
            entries_left_out = find_left_out(log, end, at)
        beyond = end.txid - txid if end is not None and before != end and txid is not None else 0
        stores = tuple(_plan_store(topic, backup, found, log, end, time, whole=whole) for topic in manifest.topics)
    others, left_out = [], []
    for file in manifest.files:
        if file.role in ("store", "journal"):
            continue
        # The state of a queue is ahead of an earlier txid; it is rebuilt from the journal, without its leases.
        if file.role == "queue" and not whole:
            left_out.append(file.path)
        else:
            others.append(file)
    # A txid that may be known anywhere is never assigned again: the new history starts well above all of them.
    above = (_find_highest_txid(found, manifest) // TXID_STEP + 1) * TXID_STEP if end is not None else 0
    return RestorePlan(
        backup,
        manifest,
        end,
        time,
        above,
        whole,
        stores,
        tuple(others),
        tuple(left_out),
        entries_left_out,
        beyond,
        before.txid if before is not None else 0,
    )


def _read_all_backups(directory: Path) -> list[Backup]:
    if (directory / codec.MANIFEST_NAME).is_file():
        directory = directory.absolute().parent
    return [one for one in read_backups(directory) if one.manifest is not None]


def _find_start_backup(
    directory: Path, found: Sequence[Backup], name: str | None, txid: int | None, at: Micros | None
) -> Backup:
    """Return the backup to start from: the one named, else the oldest that includes the position, else the newest."""
    if (directory / codec.MANIFEST_NAME).is_file():
        directory, name = directory.absolute().parent, directory.absolute().name
    newest = find_backup(directory, name)
    if name is not None or (txid is None and at is None):
        found = [newest]
    for one in found:
        known = one.valid_manifest
        if known.instance != newest.valid_manifest.instance or (known.lineage is None and txid is not None):
            continue
        if txid is not None and known.last_txid >= txid:
            return one
        if at is not None and known.time >= at and known.lineage is not None:
            return one
    if txid is None and at is None:
        return newest
    if at is not None and newest.valid_manifest.lineage is None:
        # Without a journal, a backup cannot be advanced to a later instant: use the last state before the time.
        before = [one for one in found if one.valid_manifest.time <= at]
        if before:
            return before[-1]
    what = f"txid {txid}" if txid is not None else format_time(at or 0)
    known = newest.valid_manifest
    raise _build_not_reached_error(what, f"it ends at txid {known.last_txid}, {format_time(known.time)}", newest)


def _build_not_reached_error(what: str, why: str, backup: Backup) -> MissingError:
    return MissingError(
        "SOW-BAK-006",
        f"the backup {backup.path.name} does not have {what}: {why}",
        place=str(backup.path),
        hint="sowctl backup DIR --list shows the txids of each backup",
    )


@contextmanager
def _open_backup_journal(backup: Backup, seam: Seam) -> Iterator[Journal | None]:
    """Open the journal in a backup in place: reading writes nothing."""
    manifest = backup.valid_manifest
    if manifest.journal is None or manifest.lineage is None:
        yield None
        return
    archive = None if manifest.archive is None else backup.tree / manifest.archive
    with Journal.open(
        backup.tree / manifest.journal,
        manifest.instance,
        seam=seam,
        acknowledged=manifest.last_txid,
        archive=archive,
    ) as log:
        yield log


def _plan_store(
    topic: BackupTopic,
    backup: Backup,
    found: Sequence[Backup],
    log: Journal | None,
    end: Position | None,
    time: Micros,
    *,
    whole: bool,
) -> StoreOrigin:
    if whole:
        return StoreOrigin(topic, backup)
    manifest = backup.valid_manifest
    earlier = [
        one for one in found if one.valid_manifest.instance == manifest.instance and one.path.name < backup.path.name
    ]
    if not topic.journalled or log is None or end is None:
        # No journal leads to the instant: the last backup before it has the best available state.
        for one in reversed(earlier):
            if one.valid_manifest.time <= time and (there := _find_same_topic(one, topic)) is not None:
                return StoreOrigin(there, one)
        raise _build_not_reached_error(
            format_time(time), f"topic {topic.topic} has no journal, and no earlier backup has its store", backup
        )
    if topic.applied <= end.txid:
        return StoreOrigin(topic, backup)
    # A store rebuilt from its whole journal is the same; from an earlier copy it is less work, and may be the only way.
    for one in reversed(earlier):
        there = _find_same_topic(one, topic) if one.valid_manifest.lineage == manifest.lineage else None
        if there is not None and log.first_txid - 1 <= there.applied <= end.txid:
            return StoreOrigin(there, one)
    if not log.covers_topic(topic.ref):
        raise _build_not_reached_error(
            f"txid {end.txid}",
            f"the store of topic {topic.topic} is at txid {topic.applied}, and the journal begins "
            "after the topic's first entry",
            backup,
        )
    return StoreOrigin(topic, None)


def _find_same_topic(backup: Backup, topic: BackupTopic) -> BackupTopic | None:
    ref = topic.topic, topic.message_type, topic.file
    return next((one for one in backup.valid_manifest.topics if (one.topic, one.message_type, one.file) == ref), None)


def _find_highest_txid(found: Sequence[Backup], manifest: BackupManifest) -> int:
    """Return the highest txid known to be assigned: by the backups, and by the instance if it still exists."""
    txids = [0]
    for one in found:
        if one.valid_manifest.instance == manifest.instance:
            txids += [one.valid_manifest.last_txid, *(ended.above for ended in one.valid_manifest.histories)]
    if manifest.origin.journal is not None:
        place = Path(manifest.origin.journal)
        archive = None if manifest.origin.archive is None else Path(manifest.origin.archive)
        # The instance may be gone or damaged (it is being restored), so read errors are ignored.
        with suppress(SowError, OSError):
            txids.append(read_last_known_txid(place, manifest.instance))
        with suppress(SowError, OSError), Journal.open(place, manifest.instance, archive=archive) as log:
            txids.append(log.read_last_txid())
    return max(txids)


def require_free_place(to: Path) -> None:
    """Refuse a directory that is not empty. Raises RefusedError ``SOW-BAK-007``."""
    if to.is_symlink() or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
        raise RefusedError(
            "SOW-BAK-007",
            "the directory is not empty; an instance can only be restored into an empty directory",
            place=str(to),
            hint="give another directory; stop all processes that use the instance before you replace "
            "it with the restored one",
        )


def run_restore(
    plan: RestorePlan,
    to: Path,
    open_instance: OpenInstance,
    *,
    seam: Seam,
    now: Micros,
    lineage: bytes,
    watch: Callable[[str, int, int], None] = ignore_progress,
) -> RestoreResult:
    """Execute a plan: create the complete and verified instance at ``to``, or nothing. ``lineage``: 16 random bytes.
    ``watch`` is called with the progress.

    Raises RefusedError ``SOW-BAK-007``, DamageError ``SOW-BAK-001``, StorageError ``SOW-BAK-003``, and what opening the
    configuration raises.
    """
    require_free_place(to)
    with wrap_write_errors(to, "restore the instance"):
        to = to.absolute()
        make_directories(to.parent, seam)
        with _create_work_directory(to, seam) as work:
            done = _RestoreRun(plan, work, open_instance, seam, now, lineage, watch).run()
            # Synced before the rename: after a crash, the complete instance exists or nothing.
            sync_tree(work, seam)
            # A rename atomically replaces an empty directory, but not one with content.
            seam.call("file.rename", os.rename, work, to)
            sync_directory(to.parent, seam)
        return done


@contextmanager
def _create_work_directory(to: Path, seam: Seam) -> Iterator[Path]:
    """Create a work directory, and remove it at the end; directories of killed processes are removed first."""
    for left in to.parent.glob(f".{to.name}.*.restore"):
        pid = left.name.split(".")[-2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)
    # Next to `to`, because a rename works only within one file system.
    work = to.with_name(f".{to.name}.{os.getpid()}.restore")
    if work.exists():
        shutil.rmtree(work)
    seam.call("dir.make", os.mkdir, work, 0o750)
    try:
        yield work
    finally:
        if work.exists():
            shutil.rmtree(work, ignore_errors=True)


class _RestoreRun:
    def __init__(
        self,
        plan: RestorePlan,
        work: Path,
        open_instance: OpenInstance,
        seam: Seam,
        now: Micros,
        lineage: bytes,
        watch: Callable[[str, int, int], None],
    ) -> None:
        self.plan = plan
        self.work = work
        self.open_instance = open_instance
        self.seam = seam
        self.now = now
        self.lineage = lineage
        self.bytes = 0
        self.watch = watch
        # The journal is read twice: compared and copied.
        read = [file for file in plan.manifest.files if file.role == "journal" or file in plan.others]
        copied = [one.topic.file for one in plan.stores if one.source is not None]
        total = sum(file.size for file in read) + sum(file.size for file in plan.manifest.files if file.path in copied)
        self.told = file_copy.PortionProgress(watch, "bytes", total)
        self.files = {file.path: file for file in plan.manifest.files}

    def run(self) -> RestoreResult:
        plan, manifest = self.plan, self.plan.manifest
        for file in plan.others:
            self._copy_file(plan.backup, file)
        for one in plan.stores:
            if one.source is not None and one.topic.file is not None:
                known = {file.path: file for file in one.source.valid_manifest.files}
                self._copy_file(one.source, known[one.topic.file])
        # Order: copies first, then the journal with its new history, then the files that follow it.
        ended = self._restore_journal()
        instance = replace(self.open_instance(self.work / manifest.configuration, self.work), watch=self.watch)
        there = move_instance(instance, self.work, plan.time)
        rebuilt = tuple(self._restore_stores(there, ended))
        self._restore_queues(ended)
        digests = self._verify_stores(instance, there)
        return RestoreResult(plan, ended, self.lineage if ended is not None else None, digests, rebuilt, self.bytes)

    def _copy_file(self, backup: Backup, file: BackupFile) -> None:
        source, target = backup.path / TREE_NAME / file.path, self.work / file.path
        make_directories(target.parent, self.seam)
        if not source.is_file():
            raise build_damage_error(str(source), "the file is missing")
        size, found = file_copy.copy_file(source, target, self.seam, on_read=self.told)
        # The digest is computed during the copy, so every restored byte was compared.
        if (size, found) != (file.size, file.digest):
            raise build_damage_error(str(source), f"the file has digest {found}, not {file.digest}")
        target.chmod(file.mode)
        self.bytes += size

    def _restore_journal(self) -> EndedHistory | None:
        plan, manifest = self.plan, self.plan.manifest
        if plan.end is None or manifest.journal is None:
            return None
        tree = plan.backup.tree
        for file in manifest.files:
            # Verified before copying: the copy ends at the cut, so its digest matches no file of the backup.
            if file.role == "journal" and file_copy.read_digest(tree / file.path, self.seam, self.told) != (
                file.size,
                file.digest,
            ):
                raise build_damage_error(str(tree / file.path), "the digest of the file does not match the manifest")
        directory = self.work / manifest.journal
        archive = None if manifest.archive is None else self.work / manifest.archive
        places = {tree / manifest.journal: directory}
        if archive is not None and manifest.archive is not None:
            places[tree / manifest.archive] = archive
        with _open_backup_journal(plan.backup, self.seam) as log:
            assert log is not None
            self.bytes += copy_journal(log.list_files(), plan.end, places, self.seam, self.watch)
        return begin_history(
            directory,
            manifest.instance,
            archive,
            lineage=self.lineage,
            above=plan.above,
            now=self.now,
            seam=self.seam,
        )

    def _restore_stores(self, there: Instance, ended: EndedHistory | None) -> Iterator[str]:
        """Make stores follow the new history; rebuild those whose position is after its start; yield the rebuilt
        topics."""
        from sowctl.engine.fold.rebuild import rebuild_stores
        from sowctl.engine.topics.positions import open_log

        missing = {one.topic.ref for one in self.plan.stores if one.source is None}
        if missing:
            topics = [topic for topic in there.topics if topic.ref in missing]
            with open_log(there) as log:
                # Built from the cut journal, these follow the new history from the start.
                rebuild_stores(there, log, topics)
            yield from sorted(topic.name for topic in topics)
        if ended is None:
            return
        former = {ended.lineage, *(bytes.fromhex(one.lineage) for one in self.plan.manifest.histories)}
        for one in self.plan.stores:
            if one.source is None or one.topic.file is None or not one.topic.journalled:
                continue
            with Store.open(self.work / one.topic.file, write=True, seam=self.seam, durable=True) as store:
                # Only the lineage changes: a copied store has applied no entry after the cut (_plan_store).
                meta = store.read_meta()
                # A store that follows another journal stays unchanged: it was unusable before, too.
                if meta.lineage in former:
                    store.write(lambda txn, meta=meta: txn.set_applied_position(self.lineage, meta.applied, meta.block))  # type: ignore[misc]

    def _restore_queues(self, ended: EndedHistory | None) -> None:
        from sowctl.store.queue.file import QueueFile

        for file in self.plan.others:
            if file.role != "queue" or ended is None:
                continue
            state = QueueFile(self.work / file.path, self.seam, boot=None, lock_wait=0.0)
            try:
                with state.begin_change() as rows:
                    # A state of another history is left as it is: the queue rebuilds it from the journal.
                    if not rows.is_new and rows.state.lineage == ended.lineage:
                        rows.state.lineage = self.lineage
            finally:
                state.close()

    def _verify_stores(self, instance: Instance, there: Instance) -> dict[TopicRef, tuple[str, int, int]]:
        """Read every byte of every store, compare the digests with those of the backup, and return them.

        Without a digest in the backup, a copied store is compared with one that is rebuilt from the journal, if the
        journal reaches back to the topic's first entry.
        """
        plan = self.plan
        # For the instant of the backup every digest is known; for an earlier one, store and journal are compared.
        if plan.whole:
            verify_topics(instance, plan.manifest, self.work)
        else:
            for one in plan.stores:
                if one.topic.file is not None:
                    check_store_file(self.work / one.topic.file, self.seam, instance.build_watch("records to prove"))
        found = {}
        for one in plan.stores:
            topic = next(entry for entry in there.topics if entry.ref == one.topic.ref)
            shown = compute_digest(there, Target(topic=topic))
            if not plan.whole and one.source is not None and topic.journalled:
                self._compare_built(there, topic, shown)
            found[topic.ref] = shown.digest, shown.records, shown.versions
        return found

    def _compare_built(self, there: Instance, topic: TopicConfig, shown: Digest) -> None:
        from sowctl.engine.fold.rebuild import rebuild_stores
        from sowctl.engine.fold.tempstore import open_temporary_topic
        from sowctl.engine.sources.current import open_current_source
        from sowctl.engine.topics.positions import open_log

        with open_log(there) as log:
            if not log.covers_topic(topic.ref):
                return
            with open_temporary_topic(topic, "proof") as other:
                rebuild_stores(there, log, [other])
                with open_current_source(there, other) as source:
                    built = compute_current_digest(source, Target(topic=other), there.now)
        if (built.digest, built.records) != (shown.digest, shown.records):
            raise build_damage_error(
                str(topic.file),
                f"topic {topic.name} has digest {shown.digest}, but {built.digest} when rebuilt from the journal",
            )
