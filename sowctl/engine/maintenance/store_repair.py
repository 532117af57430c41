"""Repair of a damaged store: a new file from its readable part and the journal.

The store itself shows what it contained (:mod:`sowctl.store.repair.salvage`). If a journal covers its topic, so does
the last entry of each key up to the store's position: a missing record is restored from its entry, a deleted or
replaced one is dropped. Called by the verb ``repair``. Specified in ``sow-store(5)``, "Repairing".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from sowctl.engine.fold.blocks import EntrySpan, read_winner_values
from sowctl.engine.fold.journal_fold import append_sorted, fold_journal
from sowctl.engine.fold.last_per_key import ENTRY_OVERHEAD_BYTES, KeyedValues, LastPerKey, fold_last_per_key
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.spill import Pairs
from sowctl.engine.maintenance.compaction import remove_offset_list
from sowctl.engine.reports import RepairItem, RepairReport
from sowctl.engine.topics.positions import (
    build_definition,
    check_position,
    has_log,
    open_log,
    read_meta,
    refuse_other_topic,
)
from sowctl.engine.topics.retention import build_retention
from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.identity.keyspace import read_words
from sowctl.journal.fileset import REMOVED_FILE_CODE
from sowctl.journal.reader import MAX_REREADS
from sowctl.store.builder import StoreBuilder, build_store
from sowctl.store.check import find_damage
from sowctl.store.codec import STAMP_DTYPE, extract_raw_stamps, extract_sow_key, read_expiration, read_stamps
from sowctl.store.integrity import DIGEST_MODULUS
from sowctl.store.lmdberrors import missing_store_error
from sowctl.store.meta import Definition, StoreMeta
from sowctl.store.opening.locks import StoreFiles, WriterLock
from sowctl.store.repair.damaged_copy import keep_damaged
from sowctl.store.repair.salvage import Loss, Salvage

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.store.write import WriteTxn

Array: TypeAlias = Any
"""A numpy array."""


class StoreRepair:
    """The repair of one store. Call :meth:`run` once; then ``report`` is complete, and :meth:`items` yields the
    details."""

    def __repr__(self) -> str:
        return f"<repair of {str(self._path)!r}: {self.report.action}>"

    def __init__(self, instance: Instance, path: Path, topic: TopicConfig | None) -> None:
        """``topic`` is None for a bare file, which is repaired without a journal."""
        import numpy

        self._np = numpy
        self._instance, self._path, self._topic = instance, path, topic
        self.report = RepairReport("", "", "repaired", path=str(path))
        if topic is not None:
            self.report.topic, self.report.message_type = topic.name, topic.message_type
        self._notes: list[str] = []
        self._losses: list[Loss] = []
        self._folded: list[Loss] = []
        nothing = numpy.zeros(0, dtype=numpy.uint64)
        self._stored: tuple[Array, Array] = nothing, nothing
        self._last: tuple[Array, Array, Array] = nothing, nothing, nothing.astype(bool)
        self._dropped, self._winners, self._restored = nothing, nothing, nothing
        # The last entries of the journal up to txid `_upto`, and whether it reaches back to the topic's first entry.
        self._log: Journal | None = None
        self._covered = False
        self._upto = 0
        # Number and bytes of its entries, to estimate the memory for restored records.
        self._entries = self._bytes = 0
        # The number of readable versions, and the latest time of a record: no writer may use an earlier time.
        self._versions = 0
        self._times = 0

    def run(self, *, earlier: bool = False, dry_run: bool = False) -> RepairReport:
        """Repair the store, or with ``dry_run`` report what a repair would do. ``earlier``: allow the state before the
        last transaction.

        Raises MissingError, DamageError ``SOW-STO-071`` if nothing can be saved, RefusedError ``SOW-STO-072`` if only
        an earlier state can, ``SOW-STO-073`` if the topic of the store is unknown, ``SOW-ENG-023`` if it is of another
        topic, StorageError, LockedError; then the store is unchanged.
        """
        started = monotonic()
        instance, report = self._instance, self.report
        files = StoreFiles.from_path(self._path)
        if not files.path.exists():
            raise missing_store_error(files.path)
        lock = WriterLock(files, instance.seam, instance.holder, instance.notify)
        # Writers wait: a single state is saved, and the new file replaces exactly that state.
        with ExitStack() as held:
            held.enter_context(lock.hold(instance.lock_wait))
            told = instance.build_watch("records")
            if find_damage(files.path, seam=instance.seam, now=instance.now, on_read=told) is None:
                return self._report_sound(read_meta(files.path, instance))
            salvage = held.enter_context(Salvage(files.path, instance.seam))
            if salvage.meta is not None:
                if self._topic is not None:
                    # Otherwise the journal would be read for the entries of another topic.
                    refuse_other_topic(self._topic, salvage.meta)
                definition = salvage.meta.definition
                report.topic, report.message_type = definition.topic, definition.message_type
            self._compare_with_journal(salvage, held, earlier)
            report.dry_run = dry_run
            with build_store(
                files.path,
                self._build_definition(salvage.meta),
                seam=instance.seam,
                now=instance.now,
                command=instance.holder,
            ) as builder:
                self._fill_store(builder, salvage)
                self._judge_losses(builder.meta, salvage)
                if not dry_run:
                    builder.finish()
                    self._install_store(builder, lock)
        report.note = "; ".join(dict.fromkeys(self._notes)) or None
        report.seconds = monotonic() - started
        return report

    def items(self) -> Iterator[RepairItem]:
        """Yield the differences in key order: restored, removed, lost; then losses of which only a key range is
        known."""
        topic = self.report.topic
        keys, txids, _ = self._last
        restored = self._np.isin(txids, self._restored) if len(keys) else self._restored.astype(bool)
        for key, txid in zip(keys[restored].tolist(), txids[restored].tolist(), strict=True):
            yield RepairItem(topic, "record", "restored", key, txid)
        gone = self._dropped[~self._np.isin(self._dropped, keys[restored])] if len(self._dropped) else self._dropped
        for key in gone.tolist():
            yield RepairItem(topic, "record", "removed", key, reason="the record was deleted, according to the journal")
        for loss in self._folded:
            if loss.key is not None:
                yield RepairItem(topic, "version", "restored", loss.key, loss.txid)
        for loss in self._losses:
            what = "version" if loss.versions else "record"
            # The damaged bit may be one of the key itself: then only the bounds identify the lost record.
            key = loss.key if loss.key is not None and loss.low <= loss.key <= loss.high else None
            first, last = (None, None) if key == loss.low == loss.high else (loss.low, loss.high)
            yield RepairItem(topic, what, "lost", key, loss.txid, first, last, loss.why)

    def _report_sound(self, meta: StoreMeta) -> RepairReport:
        report = self.report
        report.topic, report.message_type = meta.definition.topic, meta.definition.message_type
        report.action, report.records, report.versions = "sound", meta.records, meta.versions
        report.digest = f"{meta.digest:032x}"
        return report

    def _build_definition(self, meta: StoreMeta | None) -> Definition:
        if meta is not None:
            return meta.definition
        config, topic = self._instance.config, self._topic
        if config is None or topic is None:
            raise RefusedError(
                "SOW-STO-073",
                "cannot read the record with the topic and instance of this store",
                place=str(self._path),
                hint="repair it by the name of its topic, with its configuration",
            )
        return build_definition(config.name, topic)

    # Comparison with the journal

    def _compare_with_journal(self, salvage: Salvage, held: ExitStack, earlier: bool) -> None:
        """Read the readable records, and compare them with the journal."""
        np = self._np
        keys, raw = bytearray(), bytearray()
        for part, values in self._report_progress(salvage, "records that are read"):
            keys += b"".join(part)
            raw += extract_raw_stamps(values)
        versions = sum(len(part) for part, _ in salvage.iter_versions())
        stamps = np.frombuffer(bytes(raw), STAMP_DTYPE)
        self._stored = np.frombuffer(bytes(keys), ">u8").astype(np.uint64), stamps["txid"].copy()
        self._times = int(stamps["time"].max()) if len(stamps) else 0
        self._notes += salvage.notes
        if salvage.is_exact:
            return
        self._versions = versions
        self._ask_journal(salvage.meta, held)
        if not salvage.has_content and not self._covered:
            has_journal = self._topic is not None and self._topic.journalled
            raise DamageError(
                "SOW-STO-071",
                "no record of the store can be read",
                place=str(self._path),
                hint="restore the file from a copy"
                + (", or restore all journals since the topic's first entry" if has_journal else ""),
            )
        if salvage.earlier and not self._covered:
            self._notes.append("the state is that before the last transaction")
            if not earlier:
                raise RefusedError(
                    "SOW-STO-072",
                    "only the state before the last transaction can be read; records deleted by the last "
                    "transaction would return",
                    place=str(self._path),
                    hint="--earlier uses that state",
                )

    def _report_progress(self, salvage: Salvage, what: str) -> Iterator[Pairs]:
        """Yield the intact records, and report progress relative to the store's record count."""
        done, total = 0, salvage.meta.records if salvage.meta is not None else 0
        for keys, values in salvage.iter_records():
            done += len(keys)
            self._instance.watch(what, done, total)
            yield keys, values

    def _ask_journal(self, meta: StoreMeta | None, held: ExitStack) -> None:
        """Open the journal if it covers the store, and find the differences to it.

        Raises MissingError ``SOW-JRN-063`` if its files are pruned faster than they are read.
        """
        attempts = MAX_REREADS
        while True:
            try:
                self._log = self._open_journal(meta, held)
                if self._log is not None:
                    self._find_differences(self._log, meta)
                return
            except MissingError as error:
                # A file was removed after the journal was opened. A repair without the journal would lose records whose
                # entries are in the remaining files: list the files again.
                attempts -= 1
                if error.code != REMOVED_FILE_CODE or not attempts:
                    raise

    def _open_journal(self, meta: StoreMeta | None, held: ExitStack) -> Journal | None:
        """Return the journal if the store follows it, else None. Raises MissingError ``SOW-JRN-063``."""
        instance, topic = self._instance, self._topic
        if topic is None or not topic.journalled:
            return None
        try:
            if not has_log(instance):
                return None
            log = held.enter_context(open_log(instance, acknowledged=meta.applied if meta is not None else 0))
            # It is read twice, for the last entry of each key and for these entries: both must find all files.
            log.require_files_after()
            if meta is not None:
                if meta.lineage != log.lineage:
                    self._notes.append("the store follows another journal: nothing was restored from the journal")
                    return None
                check_position(meta, log, topic.ref, self._path)
            return log
        except (DamageError, MissingError) as error:
            if error.code == REMOVED_FILE_CODE:
                raise
            self._notes.append(f"nothing was restored from the journal: {error.message}")
            return None

    def _find_differences(self, log: Journal, meta: StoreMeta | None) -> None:
        """Find the missing records, and those that must not remain, from the last entry of each key."""
        np, topic = self._np, self._topic
        assert topic is not None
        ref = topic.ref
        # Entries after the position are not in the store, and are not lost: they are applied later as always.
        self._upto = meta.applied if meta is not None else log.read_last_txid()
        last, span = LastPerKey(), EntrySpan(0, self._upto)
        self._bytes = 0
        try:
            for block in log.iter_blocks(until=self._upto, topic=ref):
                self._bytes += last.add_block(block, ref, span)
        except DamageError as error:
            # A deletion may be in the unreadable part: then an earlier publish would bring the record back.
            self._notes.append(f"nothing was restored from the journal, which is damaged: {error.message}")
            self._log = None
            return
        self._entries = last.entries
        self._covered = log.covers_topic(ref)
        keys, txids, publishes = self._last = last.build_table()
        stored, written = self._stored
        places = np.searchsorted(keys, stored)
        known = places < len(keys)
        known[known] = keys[places[known]] == stored[known]
        # A record older than the last entry of its key was replaced or deleted by that entry: it must not remain.
        older = known.copy()
        older[known] = written[known] < txids[places[known]]
        self._dropped = stored[older]
        present = np.zeros(len(keys), dtype=bool)
        present[places[known & ~older]] = True
        # A key whose last entry is a deletion is correctly missing; every other missing key is restored.
        self._winners = np.sort(txids[publishes & ~present])

    # Writing the new store

    def _fill_store(self, builder: StoreBuilder, salvage: Salvage) -> None:
        topic, log, meta = self._topic, self._log, salvage.meta
        found = salvage.losses
        # Read a second time, now into the builder: the records of a large store are never all in memory.
        salvage.restart()
        rule = build_retention(topic.history) if topic is not None else None
        if log is not None and topic is not None and self._covered and rule is not None:
            # The kept versions depend on all entries of a key, so the whole history is folded again.
            fold_journal(builder, log, topic, EntrySpan(0, self._upto), rule)
            self._restored = self._winners
            self._folded = [loss for loss in found if loss.versions]
        else:
            restored = self._restore_records(meta.removal_mark if meta is not None else 0)
            with fold_last_per_key(restored, self._path.parent, self._estimate_restored_bytes()) as fresh:
                append_sorted(builder, self._merge_records(salvage, fresh))
            for part in _read_version_parts(salvage):
                builder.append_versions(part)
        builder.flush()

        def state(txn: WriteTxn) -> None:
            if meta is not None:
                # The position is that of the damaged file: later entries are applied from the journal as always.
                txn.copy_state(meta)
            elif log is not None:
                txn.set_applied_position(log.lineage, self._upto, log.find_block_ending_at(self._upto))
            # Times never decrease within a topic, even if the record with the last time is lost.
            txn.raise_last_time(self._times)
            for publisher, sequence in (salvage.sequences or {}).items():
                txn.set_sequence(publisher, sequence)

        builder.run_transaction(state)

    def _estimate_restored_bytes(self) -> int:
        """Return the estimated bytes of the restored values."""
        count = len(self._winners)
        return self._bytes * count // max(self._entries, 1) + ENTRY_OVERHEAD_BYTES * count

    def _restore_records(self, removed_until: int) -> Iterator[KeyedValues]:
        """Yield the records of the winning entries, without those that had expired and were removed."""
        log, topic = self._log, self._topic
        if not len(self._winners):
            return
        assert log is not None
        assert topic is not None
        restored = []
        first = int(self._winners[0])
        for block in log.iter_blocks(after=first - 1, until=self._upto, topic=topic.ref):
            # Expired records that were removed stay removed: only the store has a note of the removal, not the journal.
            pairs = zip(*read_winner_values(block, self._winners), strict=True)
            back = [(key, value) for key, value in pairs if not 0 < read_expiration(value) <= removed_until]
            if back:
                yield b"".join(key for key, _ in back), [value for _, value in back]
                restored += [read_stamps(value)[0] for _, value in back]
        self._restored = self._np.array(restored, dtype=self._np.uint64)

    def _merge_records(self, salvage: Salvage, restored: Iterator[Pairs]) -> Iterator[Pairs]:
        """Merge sound and restored records in key order."""
        dropped = set(read_words(self._dropped.astype(">u8")))
        kept = (
            (key, value)
            for keys, values in self._report_progress(salvage, "records that are saved")
            for key, value in zip(keys, values, strict=True)
            if key not in dropped
        )
        fresh = ((key, value) for part in restored for key, value in zip(*part, strict=True))
        # Both are in key order, and no key is in both: a builder requires this.
        pairs = merge(kept, fresh)
        while part := list(islice(pairs, FOLD_LIMITS.fold_part_records)):
            yield [key for key, _ in part], [value for _, value in part]

    # The report

    def _judge_losses(self, made: StoreMeta, salvage: Salvage) -> None:
        report, meta = self.report, salvage.meta
        report.records, report.versions = made.records, made.versions
        report.digest = f"{made.digest % DIGEST_MODULUS:032x}"
        report.restored = len(self._restored)
        keys, txids, _ = self._last
        back = keys[self._np.isin(txids, self._restored)] if len(keys) else keys
        report.removed = len(self._dropped) - int(self._np.isin(self._dropped, back).sum())
        if salvage.is_exact or (self._covered and self._log is not None):
            report.restored_versions = max(0, made.versions - self._versions) if self._folded else 0
            return
        self._losses = [loss for loss in salvage.losses if not self._is_restored(loss, back)]
        self._name_expiring(salvage)
        of_records = [loss for loss in self._losses if not loss.versions]
        of_versions = [loss for loss in self._losses if loss.versions]
        if meta is not None:
            # A record that the repair removed was not part of this state.
            report.lost = max(0, meta.records - made.records - report.removed)
            report.lost_versions = max(0, meta.versions - made.versions)
            if not report.lost:
                self._losses = of_versions
            if not report.lost_versions:
                self._losses = [loss for loss in self._losses if not loss.versions]
            report.complete = not self._losses
            if report.complete and self._log is None and not salvage.is_exact:
                self._notes.append("the digest does not match that in the file: some records may be older versions")
                report.complete = False
            if salvage.sequences is None or len(salvage.sequences) != meta.sequences:
                self._notes.append(
                    "the sequence numbers of publishers are lost: repeated messages will be published as new ones"
                )
                report.complete = False
        else:
            report.lost, report.lost_versions = len(of_records), len(of_versions)
            report.complete = False
            self._notes.append("the previous number of records is unknown")

    def _is_restored(self, loss: Loss, back: Array) -> bool:
        """Return whether an unreadable record was restored; False for a key range, for which that is unknown."""
        if loss.versions or loss.key is None:
            return False
        np = self._np
        low, high = np.searchsorted(back, np.array([loss.low, loss.high], dtype=np.uint64))
        return bool(low < len(back) and (low < high or int(back[low]) <= loss.high))

    def _name_expiring(self, salvage: Salvage) -> None:
        """Add the losses that the expiration index names: records whose page is lost."""
        stretches = [loss for loss in self._losses if loss.key is None and not loss.versions]
        if not stretches:
            return
        stored = set(self._stored[0].tolist())
        for key in sorted(salvage.iter_expiring_keys()):
            if key not in stored and any(loss.low <= key <= loss.high for loss in stretches):
                self._losses.append(Loss(key, key, "its page cannot be read", key))

    def _install_store(self, builder: StoreBuilder, lock: WriterLock) -> None:
        instance = self._instance
        path = builder.files.path
        # Order: link the damaged file to a second name first, so that it survives the replacement.
        moved, fresh = keep_damaged(path, instance.seam)
        try:
            builder.install(lock=lock, wait=instance.lock_wait)
        except BaseException:
            # The original file still has its own name: the second one is not needed.
            if fresh and path.exists() and moved.samefile(path):
                moved.unlink()
            raise
        self.report.moved = str(moved)
        remove_offset_list(instance, path)


def _read_version_parts(salvage: Salvage) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the readable versions as SOW key and value; a builder computes the rest of the history key."""
    for keys, values in salvage.iter_versions():
        yield list(zip(map(extract_sow_key, keys), values, strict=True))
