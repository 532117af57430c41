"""An instance made of a backup, in a directory of its own, as of the backup's instant or an earlier txid or time.

A plan comes first, and a dry run ends with it. Then everything is made beside the place, proven, and renamed: the place
holds the whole instance or nothing. A store that stands behind the txid is copied, and its journal leads on from there;
one that stands beyond it is taken from an earlier backup, or built from the journal. The restored instance begins a
new history (:mod:`~sowctl.engine.upkeep.backup.journals`), which its stores and queues follow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.described import DescribedStruct
from sowctl.directories import make_directories, sync_directory
from sowctl.engine.instance import unwatched
from sowctl.engine.sources.digest import Digest, digest, digest_of
from sowctl.engine.topics.targets import Target
from sowctl.engine.upkeep.backup import copying
from sowctl.engine.upkeep.backup import manifest as codec
from sowctl.engine.upkeep.backup.folder import TREE, Backup, backups, chosen, sync_tree, written
from sowctl.engine.upkeep.backup.journals import (
    STEP,
    LeftOut,
    begin_history,
    copy_journal,
    end_at,
    end_before,
    find_left_out,
    time_of,
)
from sowctl.engine.upkeep.backup.layout import moved
from sowctl.engine.upkeep.backup.manifest import BackedFile, BackedTopic, BackupManifest, damaged
from sowctl.engine.upkeep.backup.proving import check_file, prove
from sowctl.errors import MissingError, RefusedError, SowError
from sowctl.journal.block import Ended, Position
from sowctl.journal.reader import Journal
from sowctl.journal.state import last_told
from sowctl.store.env import Store
from sowctl.values.times import Micros, format_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.seam import Seam

Opener = Callable[[Path, Path], "Instance"]
"""Opens the instance of a configuration whose paths count from a directory."""


class StoreOrigin(DescribedStruct, frozen=True):
    """Where a topic's store comes from: the backup whose copy it is, None where it is built from the journal."""

    topic: BackedTopic
    source: Backup | None


class RestorePlan(DescribedStruct, frozen=True):
    """What a restore is going to do. ``end`` is where the journal is cut, None without one; ``above`` the highest txid
    that may have been given; ``whole``: nothing of the backup is undone; ``entries_left_out``: those that are not
    later than the time that was asked for and stand behind the cut; ``beyond``: so many txids behind the one that was
    asked for are taken, as its group has them, which begins behind the txid ``before``."""

    backup: Backup
    manifest: BackupManifest
    end: Position | None
    time: Micros
    above: int
    whole: bool
    stores: tuple[StoreOrigin, ...]
    others: tuple[BackedFile, ...]
    left_out: tuple[str, ...]
    entries_left_out: LeftOut
    beyond: int
    before: int


class Restored(DescribedStruct, frozen=True):
    """What was made. ``digests`` by topic name and type."""

    plan: RestorePlan
    ended: Ended | None
    lineage: bytes | None
    digests: dict[tuple[str, str], tuple[str, int, int]]
    rebuilt: tuple[str, ...]
    bytes: int


def plan_restore(directory: Path, *, name: str | None, txid: int | None, at: Micros | None, seam: Seam) -> RestorePlan:
    """Decide which backup is taken, where its journal ends, and where each store comes from.

    Raises MissingError ``SOW-BAK-005`` (no such backup), ``SOW-BAK-006`` (none reaches so far, or so far back), and
    what is damaged.
    """
    found = _all(directory)
    backup = _reaching(directory, found, name, txid, at)
    manifest = backup.known
    with _journal(backup, seam) as log:
        before = end = None if log is None else log.end()
        if log is not None and txid is not None:
            before, end = end_at(log, txid)
        elif log is not None and at is not None:
            end = end_before(log, at)
        whole = (end is None or end.txid >= manifest.last_txid) and (at is None or at >= manifest.time)
        if log is not None and end is not None and txid is not None and txid < log.first_txid - 1:
            raise _not_reached(f"txid {txid}", f"its journal begins at txid {log.first_txid}", backup)
        time = manifest.time if whole else at or (time_of(log, end) if log is not None and end is not None else 0)
        entries_left_out = LeftOut()
        if log is not None and end is not None and at is not None:
            entries_left_out = find_left_out(log, end, at)
        beyond = end.txid - txid if end is not None and before != end and txid is not None else 0
        stores = tuple(_store_plan(topic, backup, found, log, end, time, whole=whole) for topic in manifest.topics)
    others, left_out = [], []
    for file in manifest.files:
        if file.role in ("store", "journal"):
            continue
        # The state of a queue is ahead of an earlier txid; it is made anew from the journal, without its leases.
        if file.role == "queue" and not whole:
            left_out.append(file.path)
        else:
            others.append(file)
    # A txid that anybody may know of is never given again: the new history begins above all of them, with room.
    above = (_highest(found, manifest) // STEP + 1) * STEP if end is not None else 0
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


def _all(directory: Path) -> list[Backup]:
    if (directory / codec.NAME).is_file():
        directory = directory.absolute().parent
    return [one for one in backups(directory) if one.manifest is not None]


def _reaching(
    directory: Path, found: Sequence[Backup], name: str | None, txid: int | None, at: Micros | None
) -> Backup:
    """The backup to begin with: the one named, else the oldest that holds the place, else the newest."""
    if (directory / codec.NAME).is_file():
        directory, name = directory.absolute().parent, directory.absolute().name
    newest = chosen(directory, name)
    if name is not None or (txid is None and at is None):
        found = [newest]
    for one in found:
        known = one.known
        if known.instance != newest.known.instance or (known.lineage is None and txid is not None):
            continue
        if txid is not None and known.last_txid >= txid:
            return one
        if at is not None and known.time >= at and known.lineage is not None:
            return one
    if txid is None and at is None:
        return newest
    if at is not None and newest.known.lineage is None:
        # Without a journal nothing leads from one backup to the next: the last state before the time is what there is.
        before = [one for one in found if one.known.time <= at]
        if before:
            return before[-1]
    what = f"txid {txid}" if txid is not None else format_time(at or 0)
    known = newest.known
    raise _not_reached(what, f"it ends at txid {known.last_txid}, {format_time(known.time)}", newest)


def _not_reached(what: str, why: str, backup: Backup) -> MissingError:
    return MissingError(
        "SOW-BAK-006",
        f"the backup {backup.path.name} does not have {what}: {why}",
        place=str(backup.path),
        hint="sowctl backup DIR --list shows the txids of each backup",
    )


@contextmanager
def _journal(backup: Backup, seam: Seam) -> Iterator[Journal | None]:
    """The journal in a backup, read where it lies: reading writes nothing."""
    manifest = backup.known
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


def _store_plan(
    topic: BackedTopic,
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
    manifest = backup.known
    earlier = [one for one in found if one.known.instance == manifest.instance and one.path.name < backup.path.name]
    if not topic.journalled or log is None or end is None:
        # No journal leads to the instant: the last backup before it has the state there is.
        for one in reversed(earlier):
            if one.known.time <= time and (there := _same(one, topic)) is not None:
                return StoreOrigin(there, one)
        raise _not_reached(
            format_time(time), f"topic {topic.topic} has no journal, and no earlier backup has its store", backup
        )
    if topic.applied <= end.txid:
        return StoreOrigin(topic, backup)
    # Built from its whole journal a store is the same; from an earlier copy it is less work, and may be all there is.
    for one in reversed(earlier):
        there = _same(one, topic) if one.known.lineage == manifest.lineage else None
        if there is not None and log.first_txid - 1 <= there.applied <= end.txid:
            return StoreOrigin(there, one)
    if not log.covers((topic.topic, topic.message_type)):
        raise _not_reached(
            f"txid {end.txid}",
            f"the store of topic {topic.topic} is at txid {topic.applied}, and the journal begins "
            "after the topic's first entry",
            backup,
        )
    return StoreOrigin(topic, None)


def _same(backup: Backup, topic: BackedTopic) -> BackedTopic | None:
    ref = topic.topic, topic.message_type, topic.file
    return next((one for one in backup.known.topics if (one.topic, one.message_type, one.file) == ref), None)


def _highest(found: Sequence[Backup], manifest: BackupManifest) -> int:
    """The highest txid known to have been given: by the backups, and by the instance where it is still there."""
    txids = [0]
    for one in found:
        if one.known.instance == manifest.instance:
            txids += [one.known.last_txid, *(ended.above for ended in one.known.histories)]
    if manifest.origin.journal is not None:
        place = Path(manifest.origin.journal)
        archive = None if manifest.origin.archive is None else Path(manifest.origin.archive)
        with suppress(SowError, OSError):
            txids.append(last_told(place, manifest.instance))
        with suppress(SowError, OSError), Journal.open(place, manifest.instance, archive=archive) as log:
            txids.append(log.last_txid())
    return max(txids)


def refuse_taken(to: Path) -> None:
    """Refuse a place where something is. Raises RefusedError ``SOW-BAK-007``."""
    if to.is_symlink() or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
        raise RefusedError(
            "SOW-BAK-007",
            "the directory is not empty; an instance can only be restored into an empty directory",
            place=str(to),
            hint="give another directory; stop all processes that use the instance before you replace "
            "it with the restored one",
        )


def restore(
    plan: RestorePlan,
    to: Path,
    open_instance: Opener,
    *,
    seam: Seam,
    now: Micros,
    lineage: bytes,
    watch: Callable[[str, int, int], None] = unwatched,
) -> Restored:
    """Carry out a plan: the instance at ``to``, whole and proven, or nothing. ``lineage``: 16 random bytes. ``watch``
    is told how far it has come.

    Raises RefusedError ``SOW-BAK-007``, DamageError ``SOW-BAK-001``, StorageError ``SOW-BAK-003``, and what opening the
    configuration raises.
    """
    refuse_taken(to)
    with written(to, "restore the instance"):
        to = to.absolute()
        make_directories(to.parent, seam)
        with _beside(to, seam) as work:
            done = _Restoring(plan, work, open_instance, seam, now, lineage, watch).run()
            sync_tree(work, seam)
            # A directory takes the place of an empty one in one step; of one that is not empty it does not.
            seam.call("file.rename", os.rename, work, to)
            sync_directory(to.parent, seam)
        return done


@contextmanager
def _beside(to: Path, seam: Seam) -> Iterator[Path]:
    """A directory to build in; what killed processes have left of theirs is removed first, this one in the end."""
    for left in to.parent.glob(f".{to.name}.*.restore"):
        pid = left.name.split(".")[-2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)
    work = to.with_name(f".{to.name}.{os.getpid()}.restore")
    if work.exists():
        shutil.rmtree(work)
    seam.call("dir.make", os.mkdir, work, 0o750)
    try:
        yield work
    finally:
        if work.exists():
            shutil.rmtree(work, ignore_errors=True)


class _Restoring:
    def __init__(
        self,
        plan: RestorePlan,
        work: Path,
        open_instance: Opener,
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
        # The journal is read once more than it is copied, to compare it.
        read = [file for file in plan.manifest.files if file.role == "journal" or file in plan.others]
        copied = [one.topic.file for one in plan.stores if one.source is not None]
        total = sum(file.size for file in read) + sum(file.size for file in plan.manifest.files if file.path in copied)
        self.told = copying.Portions(watch, "bytes", total)
        self.files = {file.path: file for file in plan.manifest.files}

    def run(self) -> Restored:
        plan, manifest = self.plan, self.plan.manifest
        for file in plan.others:
            self._copy(plan.backup, file)
        for one in plan.stores:
            if one.source is not None and one.topic.file is not None:
                known = {file.path: file for file in one.source.known.files}
                self._copy(one.source, known[one.topic.file])
        # Order: copies first, then the journal with its new history, then what follows it.
        ended = self._journal()
        instance = replace(self.open_instance(self.work / manifest.configuration, self.work), watch=self.watch)
        there = moved(instance, self.work, plan.time)
        rebuilt = tuple(self._stores(there, ended))
        self._queues(ended)
        digests = self._prove(instance, there)
        return Restored(plan, ended, self.lineage if ended is not None else None, digests, rebuilt, self.bytes)

    def _copy(self, backup: Backup, file: BackedFile) -> None:
        source, target = backup.path / TREE / file.path, self.work / file.path
        make_directories(target.parent, self.seam)
        if not source.is_file():
            raise damaged(str(source), "the file is missing")
        size, found = copying.copy(source, target, self.seam, on_read=self.told)
        # The digest is taken while it is copied: what is restored was compared, byte for byte.
        if (size, found) != (file.size, file.digest):
            raise damaged(str(source), f"the file has digest {found}, not {file.digest}")
        target.chmod(file.mode)
        self.bytes += size

    def _journal(self) -> Ended | None:
        plan, manifest = self.plan, self.plan.manifest
        if plan.end is None or manifest.journal is None:
            return None
        tree = plan.backup.tree
        for file in manifest.files:
            if file.role == "journal" and copying.read_digest(tree / file.path, self.seam, self.told) != (
                file.size,
                file.digest,
            ):
                raise damaged(str(tree / file.path), "the digest of the file does not match the manifest")
        directory = self.work / manifest.journal
        archive = None if manifest.archive is None else self.work / manifest.archive
        places = {tree / manifest.journal: directory}
        if archive is not None and manifest.archive is not None:
            places[tree / manifest.archive] = archive
        with _journal(plan.backup, self.seam) as log:
            assert log is not None
            self.bytes += copy_journal(log.files(), plan.end, places, self.seam, self.watch)
        return begin_history(
            directory,
            manifest.instance,
            archive,
            lineage=self.lineage,
            above=plan.above,
            now=self.now,
            seam=self.seam,
        )

    def _stores(self, there: Instance, ended: Ended | None) -> Iterator[str]:
        """Stores follow the new history from where they stand; those that stand beyond its begin are built."""
        from sowctl.engine.fold.rebuild import rebuild
        from sowctl.engine.topics.positions import open_log

        missing = {(one.topic.topic, one.topic.message_type) for one in self.plan.stores if one.source is None}
        if missing:
            topics = [topic for topic in there.topics if (topic.name, topic.message_type) in missing]
            with open_log(there) as log:
                # Built behind the cut, these follow the new history from the beginning.
                rebuild(there, log, topics)
            yield from sorted(topic.name for topic in topics)
        if ended is None:
            return
        former = {ended.lineage, *(bytes.fromhex(one.lineage) for one in self.plan.manifest.histories)}
        for one in self.plan.stores:
            if one.source is None or one.topic.file is None or not one.topic.journalled:
                continue
            with Store.open(self.work / one.topic.file, write=True, seam=self.seam, durable=True) as store:
                meta = store.meta()
                # A store that follows another journal stays as it is: it was of no use before either.
                if meta.lineage in former:
                    store.write(lambda txn, meta=meta: txn.set_applied(self.lineage, meta.applied, meta.block))  # type: ignore[misc]

    def _queues(self, ended: Ended | None) -> None:
        from sowctl.store.queue.file import QueueFile

        for file in self.plan.others:
            if file.role != "queue" or ended is None:
                continue
            state = QueueFile(self.work / file.path, self.seam, boot=None, lock_wait=0.0)
            try:
                with state.change() as rows:
                    if not rows.is_new and rows.state.lineage == ended.lineage:
                        rows.state.lineage = self.lineage
            finally:
                state.close()

    def _prove(self, instance: Instance, there: Instance) -> dict[tuple[str, str], tuple[str, int, int]]:
        """Every byte of every store is read. Digests are compared with those of the backup that was taken there.

        Where none was taken, a store that was copied is compared with one that is built from the journal, if that
        reaches back to the topic's first entry.
        """
        plan = self.plan
        # At the instant of the backup every digest is known; earlier, store and journal have to agree with each other.
        if plan.whole:
            prove(instance, plan.manifest, self.work)
        else:
            for one in plan.stores:
                if one.topic.file is not None:
                    check_file(self.work / one.topic.file, self.seam, instance.watching("records to prove"))
        found = {}
        for one in plan.stores:
            topic = next(
                entry
                for entry in there.topics
                if (entry.name, entry.message_type) == (one.topic.topic, one.topic.message_type)
            )
            shown = digest(there, Target(topic=topic))
            if not plan.whole and one.source is not None and topic.journalled:
                self._compare_built(there, topic, shown)
            found[topic.name, topic.message_type] = shown.digest, shown.records, shown.versions
        return found

    def _compare_built(self, there: Instance, topic: TopicConfig, shown: Digest) -> None:
        from sowctl.engine.fold.rebuild import rebuild
        from sowctl.engine.fold.tempstore import aside
        from sowctl.engine.sources.current import open_current
        from sowctl.engine.topics.positions import open_log

        with open_log(there) as log:
            if not log.covers((topic.name, topic.message_type)):
                return
            with aside(topic, "proof") as other:
                rebuild(there, log, [other])
                with open_current(there, other) as source:
                    built = digest_of(source, Target(topic=other), there.now)
        if (built.digest, built.records) != (shown.digest, shown.records):
            raise damaged(
                str(topic.file),
                f"topic {topic.name} has digest {shown.digest}, but {built.digest} when rebuilt from the journal",
            )
