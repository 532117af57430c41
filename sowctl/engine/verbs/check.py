"""check: reads and compares every byte of stores and journals.

Faults are returned as findings, and unread parts are reported. Stores are read in a separate process
(:mod:`sowctl.store.check`), so that damage cannot crash this one. An incomplete check is an error among the findings,
never a pass.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.keys.presentkeys import PresentKeys
from sowctl.engine.maintenance.journal_search.journal_check import check_instance_journal
from sowctl.engine.reports import CheckReport
from sowctl.engine.sources.current import open_file_source
from sowctl.engine.topics.positions import (
    KEY_DEFINITION_FIELDS,
    build_definition,
    check_position,
    format_damage_advice,
    has_log,
    notify_unlocked,
    open_log,
    open_whole_log,
    read_meta,
    refuse_lost_log,
)
from sowctl.engine.topics.targets import QUEUE_KINDS, Target
from sowctl.errors import (
    DamageError,
    LockedError,
    MissingError,
    RefusedError,
    SowError,
    StorageError,
    convert_memory_errors,
)
from sowctl.findings import Finding, Level, Place
from sowctl.store.codec import REBUILD_HINT
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.display import format_bytes, format_count
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.store.check import CheckScope, StoreCoverage
    from sowctl.store.meta import StoreMeta


_UNREADABLE_STATUSES = frozenset({StorageError.exit_status, LockedError.exit_status})
"""Exit statuses of errors that are no evidence of damage: no permission, a lock."""


@convert_memory_errors
class CheckRun:
    """Iterate for findings, once; afterwards ``coverage`` describes what was checked and what was not."""

    def __init__(self, instance: Instance, targets: Sequence[Target] | None, reading: CheckScope | None = None) -> None:
        self._instance = instance
        self._targets = targets
        self._reading = reading
        self._left = 1, 0.0
        self._lines: list[str] = []
        self._missed: list[str] = []
        self._errors = 0
        self._sound: list[int] = []
        self._told: set[tuple[str, str, str]] = set()
        self._read = CheckReport()
        self._findings = self._count_findings()

    def __repr__(self) -> str:
        return f"<{self.coverage}>" if self._lines or self._missed else "<check, not read yet>"

    def __iter__(self) -> Iterator[Finding]:
        return self._findings

    def _count_findings(self) -> Iterator[Finding]:
        for finding in self._iterate_findings():
            # An error of the journal is found for every topic: it is one fault, and is reported once.
            if (known := _identify_finding(finding)) not in self._told:
                self._told.add(known)
                self._errors += finding.level is Level.ERROR
                yield finding

    @property
    def status(self) -> int:
        """The exit status after the findings: 5 for damage; otherwise that of the first store that could not be read
        (permission: 6, a lock: 11) or that is intact but has another definition (8); else 0.

        A file without read permission, or created with another Key, is no evidence of damage, and must not lead to a
        rebuild.
        """
        if self._errors > len(self._sound):
            return DamageError.exit_status
        return self._sound[0] if self._sound else 0

    @property
    def coverage(self) -> str:
        """One line: what was checked, and what was not."""
        done = "checked " + ("; ".join(self._lines) if self._lines else "nothing")
        return done + (f"; not verified: {'; '.join(self._missed)}" if self._missed else "")

    @property
    def report(self) -> CheckReport:
        """The report of the check: counts of what was read, and what was not."""
        self._read.not_verified = tuple(self._missed)
        return self._read

    def _iterate_findings(self) -> Iterator[Finding]:
        instance = self._instance
        targets = self._targets
        if targets is None:
            targets = [Target(topic=topic) for topic in instance.topics]
        started = monotonic()
        for number, target in enumerate(targets):
            self._left = len(targets) - number, monotonic() - started
            path = target.topic.file if target.topic is not None else target.path
            try:
                yield from self._check_target(target, path)
            except SowError as error:
                if error.exit_status not in _UNREADABLE_STATUSES:
                    raise
                yield from self._note_unread(error, path.name if path is not None else "store", path)
        if self._targets is None:
            yield from self._check_journal()
            yield from self._check_queues()

    def _check_target(self, target: Target, path: Path | None) -> Iterator[Finding]:
        """Check one store. Raises StorageError and LockedError if it cannot be read."""
        if path is None or not _file_exists(path):
            yield from self._check_absent(target)
            return
        # Read in a separate process first. Only a store without a finding is read in this process: damaged pages can
        # crash a process.
        sound = yield from self._check_store(path, target.topic)
        if target.topic is not None:
            yield from self._check_membership(target.topic, path, sound and self._reading is None)

    def _note_unread(self, error: SowError, what: str, path: Path | None) -> Iterator[Finding]:
        """Note as not verified what could not be read for a reason other than damage."""
        self._missed.append(f"{what}: {error.message}")
        finding = Finding(error.code, Level.ERROR, Place(error.place or str(path or what)), error.message, error.hint)
        if _identify_finding(finding) not in self._told:
            self._sound.append(error.exit_status)
            yield finding

    def _check_queues(self) -> Iterator[Finding]:
        """Check the states of queues, by themselves and against the journal."""
        config = self._instance.config
        if config is None or not any(entry.kind in QUEUE_KINDS for entry in config.sow) or self._instance.log is None:
            return
        from sowctl.engine.queues.verification import verify_queue_state
        from sowctl.engine.topics.queuestates import build_state_path, list_configured_queues

        for queue in list_configured_queues(self._instance):
            try:
                findings, said = verify_queue_state(self._instance, queue)
            except SowError as error:
                path = build_state_path(self._instance, queue)
                if error.exit_status in _UNREADABLE_STATUSES:
                    yield from self._note_unread(error, f"queue {queue.name}", path)
                else:
                    yield Finding(error.code, Level.ERROR, Place(str(path)), error.message, error.hint)
                continue
            yield from findings
            if said is not None:
                self._lines.append(said)

    def _check_absent(self, target: Target) -> Iterator[Finding]:
        topic = target.topic
        if topic is not None and topic.durability == "transient":
            return  # it has no store: every command rebuilds it from the journal
        name = topic.name if topic is not None else str(target.path)
        self._missed.append(f"{name}: no store")
        if topic is not None and topic.journalled and self._has_entries(topic):
            yield Finding(
                "SOW-CHK-001",
                Level.WARNING,
                Place(str(topic.file or topic.name)),
                f"topic {topic.name!r} has entries in the journal but no store",
                hint=f"sowctl replay {topic.name} rebuilds it",
            )

    def _has_entries(self, topic: TopicConfig) -> bool:
        instance = self._instance
        try:
            if not has_log(instance):
                return False
            with open_log(instance) as log:
                return log.find_topic_state(topic.ref).last_txid > 0
        except SowError:
            return False

    def _check_store(self, path: Path, topic: TopicConfig | None) -> Generator[Finding, None, bool]:
        """Check the store alone; return whether there was no finding, so that this process may read it, too."""
        from sowctl.store.check import check_store

        reading = self._reading
        if reading is not None and reading.seconds is not None:
            # The remaining time is divided among the remaining stores.
            stores, elapsed = self._left
            reading = replace(reading, seconds=max(0.0, reading.seconds - elapsed) / stores)
        told = self._instance.build_watch("records" if reading is None else "pages of data")
        findings = check_store(path, seam=self._instance.seam, reading=reading, on_read=told)
        sound = True
        for finding in findings:
            sound = False
            if topic is not None and finding.hint == REBUILD_HINT:
                finding = replace(finding, hint=format_damage_advice(topic))
            yield finding
        covered = findings.coverage
        if covered.status:
            self._sound.append(covered.status)
        if covered.unlocked:
            notify_unlocked(self._instance, path)
        versions = f", {format_count(covered.versions, 'version')}" if covered.versions else ""
        self._lines.append(
            f"{path.name}: {format_count(covered.records, 'record')}{versions}, {format_bytes(covered.bytes_read)}"
        )
        if self._reading is not None:
            self._note_coverage(path, covered)
        self._missed.extend(f"{path.name}: {part}" for part in covered.not_verified)
        read = self._read
        read.stores += 1
        read.records += covered.records
        read.versions += covered.versions
        read.bytes += covered.bytes_read
        return sound and covered.is_complete

    def _note_coverage(self, path: Path, covered: StoreCoverage) -> None:
        """Report the checked share of a store, and save which pages were checked."""
        from sowctl.store.repair.checked_ranges import write_checked_ranges

        self._lines[-1] += f", {format_count(covered.pages, 'page')} of its structure"
        if covered.share < 1:
            self._missed.append(f"{path.name}: {1 - covered.share:.1%} of its data")
        since = format_time(covered.oldest) if covered.oldest else ""
        if covered.never:
            before = f"{covered.never:.1%} was never read" + (f", the rest since {since}" if since else "")
        else:
            before = f"all of it was read since {since}" if since else "no data"
        self._lines[-1] += f", {covered.share:.1%} of its data ({before})"
        if covered.record:
            try:
                write_checked_ranges(path, list(covered.record), self._instance.seam)
            except OSError as problem:
                self._missed.append(f"{path.name}: the record of checked pages cannot be written: {problem.strerror}")
        stores, read = self._read.stores, self._read
        # A mean over the stores, with equal weights.
        read.data_read = ((read.data_read or 0.0) * stores + covered.share) / (stores + 1)
        read.never_read = ((read.never_read or 0.0) * stores + covered.never) / (stores + 1)
        known = [time for time in (read.oldest_read, covered.oldest) if time]
        read.oldest_read = min(known, default=None)
        read.pages += covered.pages

    def _check_membership(self, topic: TopicConfig, path: Path, sound: bool) -> Iterator[Finding]:
        """Check the store against its definition and its position in the journal; if ``sound``, its keys as well."""
        instance = self._instance
        assert instance.config is not None
        try:
            meta = read_meta(path, instance)
        except SowError:
            return
        expected = build_definition(instance.config.name, topic)
        if different := expected.list_differences(meta.definition):
            self._sound.append(RefusedError.exit_status)
            yield Finding(
                "SOW-CHK-002",
                Level.ERROR,
                Place(str(path)),
                f"the store has another definition ({', '.join(different)}): {meta.definition}",
                hint=f"sowctl replay --rekey {topic.name} gives the records their new keys; or restore the previous Key"
                if topic.journalled and KEY_DEFINITION_FIELDS.issuperset(different)
                else "the configuration was changed, or the file belongs to another topic",
            )
        elif sound:
            yield from self._check_keys(topic, path)
        if not topic.journalled:
            return
        try:
            if not has_log(instance):
                refuse_lost_log(instance, topic.ref, meta)
            with open_log(instance, acknowledged=meta.applied if meta.has_journal else 0) as log:
                check_position(meta, log, topic.ref, path)
            if self._reading is None:
                yield from self._check_runs(path, meta)
        except SowError as error:
            # A journal without read permission is not damaged.
            if error.exit_status in _UNREADABLE_STATUSES:
                yield from self._note_unread(error, f"{path.name}: its position in the journal", path)
            elif error.exit_status != MissingError.exit_status:
                place = error.place if error.code.startswith("SOW-JRN-") else None
                yield Finding(error.code, Level.ERROR, Place(place or str(path)), error.message, error.hint)

    def _check_runs(self, store: Path, meta: StoreMeta) -> Iterator[Finding]:
        """Check the sorted runs next to a store that continue from its position; all others are unused."""
        from sowctl.store.sortedrun import BadRun, SortedRun, find_run_files

        count = changes = size = 0
        for (_, upto), path in sorted(find_run_files(store).items()):
            if upto <= meta.applied:
                continue
            try:
                run = SortedRun(path)
                run.check(STORE_LIMITS.read_batch_records)
            except BadRun as problem:
                # A writer may have merged it since the directory was listed.
                if path.exists():
                    yield Finding(
                        "SOW-CHK-004",
                        Level.WARNING,
                        Place(str(path)),
                        f"a sorted run is unusable: {problem}; its entries are read from the journal",
                    )
                continue
            count, changes, size = count + 1, changes + len(run), size + run.bytes
        if count:
            counts = f"{format_count(count, 'run')}, {format_count(changes, 'change')}"
            self._lines.append(f"{store.name}-runs: {counts}, {format_bytes(size)}")
            self._read.runs += count
            self._read.bytes += size

    def _check_keys(self, topic: TopicConfig, path: Path) -> Iterator[Finding]:
        """Check that every record has the key that its topic computes for it."""
        others = records = 0
        example: bytes | None = None
        try:
            present = PresentKeys(self._instance, topic)
            # Keys of a generator, and key fields that Enrichment overwrites, cannot be computed from the records.
            if not present.known:
                return
            with closing(open_file_source(self._instance, path)) as source:
                for keys, values in source.read_batches(STORE_LIMITS.read_batch_records):
                    found = present.find_misplaced(keys, values)
                    records += len(keys)
                    self._instance.watch("keys", records, source.meta.records)
                    others += len(found)
                    example = keys[found[0]] if found and example is None else example
        except SowError as error:
            self._missed.append(f"{path.name}: keys ({error.message})")
            return
        if example is not None:
            self._sound.append(RefusedError.exit_status)
            how = f"sowctl replay --rekey {topic.name} gives them their keys" if topic.journalled else None
            yield Finding(
                "SOW-CHK-003",
                Level.ERROR,
                Place(str(path)),
                f"{others:,} of {format_count(records, 'record')} {'has' if others == 1 else 'have'} another key "
                f"than the current Key of topic {topic.name!r} makes, the first with "
                f"SOW key {int.from_bytes(example, 'big')}",
                hint=how or "they were published with another Key, or written by another program",
            )

    def _check_lost_journal(self) -> Iterator[Finding]:
        """Check for a journal that had txids and has no files: lost or removed on purpose, which cannot be
        distinguished."""
        try:
            open_whole_log(self._instance).close()
        except DamageError as error:
            yield Finding(error.code, Level.WARNING, Place(error.place or "journal"), error.message, error.hint)
        except SowError:
            return  # it does not exist yet

    def _check_journal(self) -> Iterator[Finding]:
        from sowctl.journal.check import JournalCoverage

        instance = self._instance
        if instance.log is None or instance.config is None:
            return
        try:
            if not has_log(instance):
                self._missed.append("journal: no files")
                yield from self._check_lost_journal()
                return
        except SowError:
            pass  # missing files are among the findings
        coverage = JournalCoverage()
        try:
            yield from check_instance_journal(instance, coverage)
        except SowError as error:
            if error.exit_status not in _UNREADABLE_STATUSES:
                raise
            yield from self._note_unread(error, "journal", instance.log.directory)
        read = self._read
        read.journal_files, read.journal_entries, read.journal_bytes = coverage.files, coverage.entries, coverage.bytes
        size = format_bytes(coverage.bytes)
        files, entries = format_count(coverage.files, "file"), format_count(coverage.entries, "entry", "entries")
        self._lines.append(f"journal: {files}, {entries}, {size}")
        self._missed.extend(coverage.missed)


def _identify_finding(finding: Finding) -> tuple[str, str, str]:
    return finding.id, f"{finding.place} {finding.place.element}", finding.message


def _file_exists(path: Path) -> bool:
    """Return whether a file exists. Raises StorageError ``SOW-STO-041`` without search permission on its directory."""
    from sowctl.store.lmdberrors import translate_errors

    with translate_errors(path, "look for the store"):
        return path.exists()


def check_instance(
    instance: Instance, targets: Sequence[Target] | None = None, reading: CheckScope | None = None
) -> CheckRun:
    """Check ``targets``, or all stores and the journal of the configuration; ``reading`` limits what is read of
    stores."""
    return CheckRun(instance, targets, reading)
