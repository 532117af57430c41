"""Creating a backup: from one instant of an instance to a verified tree of files with a manifest.

Order: files with their own lock (states of queues, files of bookmarks) are copied first, so that they are not ahead of
the journal; then comes the instant; then the journal files, the stores, and the verification. If the directory has an
earlier backup, unchanged files are links to its files. The backups remain independent: each can be removed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.directories import make_directories
from sowctl.engine.maintenance.backup import file_copy
from sowctl.engine.maintenance.backup.folder import (
    TREE_NAME,
    Backup,
    create_draft,
    find_final_name,
    hold_directory,
    install_backup,
    read_backups,
    wrap_write_errors,
)
from sowctl.engine.maintenance.backup.layout import compute_tree_path
from sowctl.engine.maintenance.backup.manifest import (
    BackupFile,
    BackupManifest,
    BackupOrigin,
    BackupTopic,
    Lineage,
    Role,
)
from sowctl.engine.maintenance.backup.verification import link_probe_tree, verify_topics
from sowctl.engine.sources.current import CurrentSource, read_overlay
from sowctl.engine.sources.digest import compute_current_digest
from sowctl.engine.topics.positions import has_log, open_log, open_store
from sowctl.engine.topics.targets import Target
from sowctl.errors import ConfigError
from sowctl.journal.format import FILE_VERSION
from sowctl.journal.maintenance.lock import hold_maintenance_lock
from sowctl.remote.place import require_local
from sowctl.store.meta import FORMAT_VERSION
from sowctl.structs import DescribedStruct
from sowctl.version import VERSION

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import EndedHistory, FileInfo, Position
    from sowctl.seam import Seam
    from sowctl.store.snapshot import Snapshot

BOOKMARKS_SUFFIX = ".bookmarks"


class PinnedStore(DescribedStruct, frozen=True):
    """A topic's store, and a snapshot of the state that is backed up."""

    topic: TopicConfig
    path: Path
    snapshot: Snapshot


class LogPart(DescribedStruct, frozen=True):
    """The journal up to the instant: its files in order, and the end position of its last complete group."""

    lineage: bytes
    first_txid: int
    end: Position
    files: tuple[FileInfo, ...]
    histories: tuple[EndedHistory, ...]


class BackupInstant(DescribedStruct, frozen=True):
    """A journal position and the store states that belong to it. ``time`` is that of the last entry included,
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
    """Stop the writers for a moment and record the positions; ``held`` closes the read transactions that this opens.

    A store with a journal may be at any position before the journal's end, because the journal has the later entries.
    So its snapshot is opened first and the end of the journal is read after it. Writers of all topics without a journal
    are stopped together. The locks are those of a batch, in the order of a batch, and are held only while read
    transactions are opened and the end is read: slow operations come before and after.

    Raises ConfigError ``SOW-ENG-020`` without a configuration, LockedError, and errors of damaged files.
    """
    config, log = instance.config, instance.log
    if config is None:
        raise ConfigError("SOW-ENG-020", "a backup requires the configuration of the instance")
    found = [topic for topic in instance.topics if topic.file is not None and topic.file.exists()]
    stores = [(topic, held.enter_context(open_store(instance, topic.file))) for topic in found if topic.file]
    journal = held.enter_context(open_log(instance, whole=True)) if log is not None and has_log(instance) else None
    if journal is not None:
        journal.refresh_state()  # most of it is read without the lock
    with ExitStack() as locks:
        if journal is not None and log is not None:
            from sowctl.journal.lock import JournalLock

            lock = JournalLock(
                log.directory, config.name, instance.seam, instance.holder, instance.now, instance.notify
            )
            locks.callback(lock.close)
            lock.acquire(instance.lock_wait)
        # The lock of the journal stops the writers of all journalled topics; each of the others has its own lock.
        alone = [store for topic, store in stores if not topic.journalled]
        # Always in the same order, so that two backups cannot deadlock.
        for store in sorted(alone, key=lambda one: one.path):
            locks.enter_context(store.hold_writer_lock(instance.lock_wait))
        # Opens read transactions and records the end of the journal: writers wait for little more than that.
        pinned = tuple(
            PinnedStore(topic, store.files.path, held.enter_context(store.open_snapshot())) for topic, store in stores
        )
        state = journal.refresh_state() if journal is not None else None
        files = tuple(journal.list_files()) if journal is not None else ()
    part = None
    times = [one.snapshot.meta.last_time for one in pinned]
    if journal is not None and state is not None:
        part = LogPart(journal.lineage, journal.first_txid, state.end, files, journal.histories)
        times += [topic.last_time for topic in state.topic_states.values()]
    return BackupInstant(max(times, default=0) or instance.now, part, pinned)


def take_backup(
    instance: Instance, directory: Path, *, bookmarks: Sequence[Path] = (), full: bool = False
) -> tuple[BackupManifest, Path]:
    """Back up an instance into a new directory below ``directory``; return the manifest and the path of the backup.

    ``bookmarks`` are bookmark store files in addition to those next to the configuration; ``full``: use no earlier
    backup. Raises StorageError ``SOW-BAK-003``, LockedError, and errors of damaged files of the instance; then there is
    no new backup.
    """
    seam = instance.seam
    with hold_directory(directory, seam, instance.lock_wait), wrap_write_errors(directory, "make a backup"):
        # Read before the draft is created: a damaged manifest is skipped and reported.
        earlier = [one for one in read_backups(directory) if one.manifest is not None]
        with create_draft(directory, instance.now, seam) as path:
            manifest = _BackupRun(instance, path, bookmarks, None if full else earlier, full=full).run()
            return manifest, install_backup(path, manifest, seam)


class _BackupRun:
    """Creates one backup below ``path``."""

    def __init__(
        self,
        instance: Instance,
        path: Path,
        bookmarks: Sequence[Path],
        earlier: list[Backup] | None,
        *,
        full: bool,
    ) -> None:
        if instance.log is not None:
            # Files at a URL stay there: a backup has only the files of this machine.
            instance = instance.with_archive(instance.log.moved_archive)
        assert instance.config is not None
        self.instance = instance
        self.config = instance.config
        self.path = path
        self.tree = path / TREE_NAME
        self.seam: Seam = instance.seam
        self.bookmarks = bookmarks
        self.earlier = earlier or []
        self.reason = "asked for" if full else None
        self.base: Backup | None = None
        self.files: list[BackupFile] = []
        self.known: dict[str, BackupFile] = {}

    def run(self) -> BackupManifest:
        """Write the backup and return its manifest; the caller renames the directory."""
        instance, log = self.instance, self.instance.log
        self._copy_configuration()
        # Before the instant: these files may be behind the journal, and then catch up or are rebuilt; never ahead of
        # it.
        self._copy_queues()
        self._copy_bookmarks()
        with ExitStack() as held, ExitStack() as still:
            if log is not None and log.directory.is_dir():
                # Prevents other processes from archiving, compressing or removing files between the instant and the
                # links to them.
                still.enter_context(
                    hold_maintenance_lock(
                        log.directory,
                        self.config.name,
                        seam=self.seam,
                        wait=instance.lock_wait,
                        holder=instance.holder,
                        now=instance.now,
                        notify=instance.notify,
                    )
                )
            # From here on everything is of one instant: snapshots are open, and the end of the journal is recorded.
            instant = take_instant(instance, held)
            self.base = self._find_base(instant)
            if self.base is not None:
                self.known = {file.path: file for file in self.base.valid_manifest.files}
            # Files are linked under the lock, so that none is removed; a link keeps the bytes, so digests can be
            # computed later.
            later = list(self._copy_journal(instant.log)) if instant.log is not None else []
            still.close()
            for file in later:
                self._note_linked_file(file)
            # Smallest first: an open snapshot prevents its store from reusing pages, so few should stay open for long.
            done = {one.path: self._copy_store(one, instant) for one in sorted(instant.stores, key=_count_store_bytes)}
            backup_topics = tuple(done[one.path] for one in instant.stores)
        manifest = self._build_manifest(instant, backup_topics)
        copied = {file.path for file in manifest.files if file.role == "store" and file.how == "copied"}
        # The backup gets its final name only after it was opened and every digest matched that of the instant.
        with link_probe_tree(self.tree, manifest, self.path / "probe", self.seam) as place:
            verify_topics(instance, manifest, place, copied)
        return self._verify_files(manifest)

    def _build_manifest(self, instant: BackupInstant, backup_topics: tuple[BackupTopic, ...]) -> BackupManifest:
        instance, config, log = self.instance, self.config, instant.log
        place = instance.log
        archive = place.moved_archive if place is not None else None
        return BackupManifest(
            name=find_final_name(self.path),
            instance=config.name,
            created=instance.now,
            time=instant.time,
            kind="full" if self.base is None else "incremental",
            origin=BackupOrigin(
                str(config.root.absolute()),
                None if place is None else str(place.directory.absolute()),
                None if archive is None else str(archive.absolute()),
            ),
            configuration=self._format_tree_path(config.path),
            program=VERSION,
            base=None if self.base is None else self.base.path.name,
            reason=self.reason,
            lineage=None if log is None else log.lineage.hex(),
            first_txid=0 if log is None else log.first_txid,
            last_txid=instant.txid,
            histories=tuple(
                Lineage(one.lineage.hex(), one.last_txid, one.above, one.time)
                for one in (log.histories if log is not None else ())
            ),
            journal=None if place is None else self._format_tree_path(place.directory),
            archive=None if archive is None else self._format_tree_path(archive),
            formats={"journal": FILE_VERSION, "store": FORMAT_VERSION},
            topics=backup_topics,
            files=tuple(sorted(self.files, key=lambda file: file.path)),
        )

    def _verify_files(self, manifest: BackupManifest) -> BackupManifest:
        from msgspec.structs import replace

        return replace(manifest, verified=self.instance.now)

    def _format_tree_path(self, path: Path) -> str:
        return str(compute_tree_path(path, self.config.root))

    def _find_base(self, instant: BackupInstant) -> Backup | None:
        """Return the newest earlier backup that this one can build on, or None after recording the reason."""
        mine = [one for one in self.earlier if one.valid_manifest.instance == self.config.name]
        if not mine:
            self.reason = self.reason or "the directory has no earlier backup"
            return None
        base, log = mine[-1], instant.log
        known = base.valid_manifest
        if log is None:
            return base
        # Txids of two histories mean different entries, so a backup cannot build on one of another history.
        if known.lineage != log.lineage.hex():
            self.reason = "the earlier backups have another history"
        elif known.last_txid < log.first_txid - 1:
            # Neither has the entries between the two, so this backup must not claim to continue the earlier one.
            self.reason = (
                f"the journal begins at txid {log.first_txid}, after the end of the earlier backup "
                f"({known.last_txid}): the files between were removed"
            )
        elif known.last_txid > log.end.txid:
            self.reason = "the journal ends before the end of the earlier backup"
        else:
            return base
        return None

    def _choose_target(self, source: Path) -> tuple[str, Path]:
        path = self._format_tree_path(source)
        target = self.tree / path
        make_directories(target.parent, self.seam)
        return path, target

    def _copy_file(self, source: Path, role: Role, size: int | None = None) -> None:
        path, target = self._choose_target(source)
        found, digest = file_copy.copy_file(source, target, self.seam, size, rest=True)
        self.files.append(BackupFile(path, role, found, digest, target.stat().st_mode & 0o777, "copied"))

    def _copy_configuration(self) -> None:
        seen = set()
        for source in self.config.document.sources:
            path = Path(source.file)
            if self._format_tree_path(path) not in seen and path.is_file():
                seen.add(self._format_tree_path(path))
                self._copy_file(path, "configuration")

    def _copy_queues(self) -> None:
        """Copy the states of queues, each under its lock: they are small, and only they have the leases."""
        if self.instance.log is None:
            return
        place = self.instance.log.directory / f"{self.config.name}.queues"
        for path in sorted(place.glob("*.queue")) if place.is_dir() else ():
            self._copy_queue(path)

    def _copy_queue(self, path: Path) -> None:
        from sowctl.engine.topics.queuestates import read_boot_id
        from sowctl.store.queue.file import QueueFile

        with QueueFile(
            path, self.seam, boot=read_boot_id(), lock_wait=self.instance.lock_wait
        ).hold_unchanged() as whole:
            # A state from before a reboot is used by no process and rebuilt from the journal.
            if whole:
                self._copy_file(path, "queue")

    def _copy_bookmarks(self) -> None:
        places = {self.config.root.absolute(), self.instance.working.absolute()}
        beside = {path for place in places for path in place.glob(f"*{BOOKMARKS_SUFFIX}") if path.is_file()}
        for path in sorted(beside | {path.absolute() for path in self.bookmarks}):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)
                self._copy_file(path, "bookmarks")
            finally:
                os.close(fd)

    def _copy_journal(self, log: LogPart) -> Iterable[tuple[Path, str, Path]]:
        """Link or copy the files of the journal; yield those that were linked, whose digests are computed later."""
        for info in log.files:
            if info.number == log.end.number and not info.is_compressed:
                # The active file is copied up to the instant: a link would grow with it.
                self._copy_file(require_local(info.path), "journal", log.end.offset)
                continue
            source = require_local(info.path)
            path, target = self._choose_target(source)
            # All other files never change. A link takes no space and no time.
            if file_copy.link_file(source, target, self.seam):
                yield source, path, target
            else:
                self._copy_unlinkable(source, path, target)

    def _copy_unlinkable(self, source: Path, path: str, target: Path) -> None:
        """Copy a file of another file system, or link it to an identical copy in the earlier backup."""
        before = self.known.get(path)
        if before is not None and before.size == source.stat().st_size and self.base is not None:
            _, digest = file_copy.read_digest(source, self.seam)
            if digest == before.digest and file_copy.link_file(self.base.tree / path, target, self.seam):
                self.files.append(BackupFile(path, "journal", before.size, digest, before.mode, "kept"))
                return
        self._copy_file(source, "journal")

    def _note_linked_file(self, file: tuple[Path, str, Path]) -> None:
        """Record a linked file with its digest; that of a file that the earlier backup links, too, is known."""
        _, path, target = file
        now, before = target.stat(), self.known.get(path)
        mode = now.st_mode & 0o777
        if before is not None and self.base is not None:
            there = self.base.tree / path
            # The same inode is the same file, which never changes: its digest was computed when it was first backed up.
            if there.exists() and (there.stat().st_ino, there.stat().st_size) == (now.st_ino, before.size):
                self.files.append(BackupFile(path, "journal", before.size, before.digest, mode, "linked"))
                return
        size, digest = file_copy.read_digest(target, self.seam)
        self.files.append(BackupFile(path, "journal", size, digest, mode, "linked"))

    def _report_chunks(self, chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
        """Yield the chunks of a store unchanged and report progress; free pages are omitted, so there may be fewer
        bytes than the file size."""
        done = 0
        for chunk in chunks:
            yield chunk
            done += len(chunk)
            self.instance.watch("bytes of a store", min(done, size), size)

    def _copy_store(self, pinned: PinnedStore, instant: BackupInstant) -> BackupTopic:
        topic, meta = pinned.topic, pinned.snapshot.meta
        path, target = self._choose_target(pinned.path)
        stamp = meta.created, meta.transaction
        stored = f"{meta.digest:032x}"
        # The same creation time, transaction and digest prove that the earlier backup has a copy of the same state.
        before = self._link_unchanged(path, topic.name, topic.message_type, (stamp, stored, meta.applied))
        if before is not None:
            self.files.append(before)
        else:
            mode = pinned.path.stat().st_mode & 0o777

            def take(pipe: int) -> tuple[int, str]:
                chunks = self._report_chunks(file_copy.read_pipe(pipe), pinned.path.stat().st_size)
                return file_copy.write_file(chunks, target, self.seam, mode, rest=True)

            size, digest = pinned.snapshot.copy_to_pipe(take)
            self.files.append(BackupFile(path, "store", size, digest, target.stat().st_mode & 0o777, "copied"))
        self._copy_chains(pinned.path)
        with ExitStack() as nothing:
            until = instant.txid if instant.log is not None else None
            memtable = read_overlay(self.instance, topic, meta, pinned.path, until)
            source = CurrentSource(nothing, pinned.snapshot, memtable, topic, instant.time)
            shown = compute_current_digest(source, Target(topic=topic), instant.time)
        # Closed as soon as it was read: an open snapshot makes its store grow.
        pinned.snapshot.close()
        return BackupTopic(
            topic=topic.name,
            message_type=topic.message_type,
            journalled=topic.journalled,
            file=path,
            applied=meta.applied,
            stamp=stamp,
            stored=stored,
            digest=shown.digest,
            records=shown.records,
            versions=shown.versions,
        )

    def _link_unchanged(
        self, path: str, topic: str, message_type: str, state: tuple[tuple[int, int], str, int]
    ) -> BackupFile | None:
        """Link the earlier backup's copy of a store if the store is still in the same state; return it, else None."""
        if self.base is None:
            return None
        for one in self.base.valid_manifest.topics:
            if (one.topic, one.message_type, one.file) == (topic, message_type, path):
                before = self.known.get(path)
                same = (one.stamp, one.stored, one.applied) == state and before is not None
                if not same or before is None or not (self.base.tree / path).is_file():
                    return None
                if file_copy.link_file(self.base.tree / path, self.tree / path, self.seam):
                    return BackupFile(path, "store", before.size, before.digest, before.mode, "kept")
        return None

    def _copy_chains(self, store: Path) -> None:
        """Copy the key chains next to a store: after its snapshot was opened, so that they include all of its keys."""
        path = store.with_name(f"{store.name}.chains")
        if path.is_file():
            self._copy_file(path, "chains")


def _count_store_bytes(pinned: PinnedStore) -> int:
    return pinned.path.stat().st_size
