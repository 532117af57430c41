"""Read a whole store and report its problems. Runs in a separate process: LMDB may abort on damage.

Started only by :mod:`sowctl.store.check`, which reads its findings. Specified in ``sow-store(5)``, "What damage can
cost".
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter, lt
from pathlib import Path
from typing import Any

import lmdb
from msgspec.structs import asdict, replace
from xxhash import xxh3_64_intdigest

from sowctl.errors import DamageError, LockedError, SowError, VersionError
from sowctl.findings import Finding, Level, Place
from sowctl.seam import SEAM
from sowctl.store import codec, integrity
from sowctl.store.changes import decode_change
from sowctl.store.check import StoreCoverage
from sowctl.store.codec import REBUILD_HINT, build_history_key, find_damaged_entries, split_history_key
from sowctl.store.lmdberrors import build_store_error
from sowctl.store.meta import META_KEY, SEQUENCE_PREFIX, StoreMeta, decode_meta, decode_sequence
from sowctl.store.opening.environment import OpenMode, open_handle
from sowctl.store.opening.handle import Handle
from sowctl.store.opening.locks import StoreFiles
from sowctl.store.opening.meta_pages import read_spare_meta
from sowctl.store.opening.unlocked_watch import WATCH_INTERVAL_RECORDS
from sowctl.store.read import COMPACTED_TXNID, describe_lost_write
from sowctl.store.write import build_expiry_entries, count_payload_bytes
from sowctl.values.display import format_count

# Pairs checked together: enough for one checksum over many, few enough that a finding identifies the location.
EXAMINE_BATCH_RECORDS = 2000
PROGRESS_INTERVAL_BATCHES = 25
"""Batches between two progress reports."""
_FIRST, _SECOND = itemgetter(0), itemgetter(1)


class StoreExamination:
    """One run over a store, in one read transaction."""

    def __init__(self, handle: Handle, txn: Any, note: Callable[[str], None]) -> None:
        self.path = str(handle.files.path)
        self.databases = handle.databases
        self.txn = txn
        self._watch, self._state = handle.watch, int(txn.id())
        self.note = note
        self.meta: StoreMeta | None = None
        self.records = self.versions = self.expiries = self.bytes_read = 0
        self.payload_bytes = self.version_bytes = self.digest = 0
        self.expiry_sum = 0
        self.highest_txid = 0
        self.skipped: list[str] = []
        self._page_faults: set[str] = set()
        self.progress: Callable[[int, int], None] = ignore_progress

    def iter_findings(self) -> Iterator[Finding]:
        """Yield a finding for every problem."""
        # In this order: causes come before their consequences, and totals are compared at the end.
        yield from self._read_spare_page()
        yield from self._read_meta()
        yield from self._walk_database("records", self.databases.records, self._check_records)
        yield from self._walk_database("history", self.databases.history, self._check_history)
        # Two sums over the same entries, one derived from the records and one from the index: equal sums mean equal
        # sets, without keeping either in memory.
        before = self.expiry_sum
        self.expiry_sum = 0
        yield from self._walk_database("expiry", self.databases.expiry, self._check_expiry)
        # The sums lack skipped parts: then only the damage itself is reported, not its consequences.
        if before != self.expiry_sum and not self.skipped:
            yield self._build_finding("SOW-STO-052", "the expiry index does not match the records", "expiry")
        yield from self._read_sequences()
        if self.databases.changes is not None:
            yield from self._walk_database("changes", self.databases.changes, self._check_changes)
        try:
            self.txn.verify_free_list()
        except DamageError as problem:
            yield self._build_finding(problem.code, problem.message, "free list")
        if self.meta is not None and not self.skipped:
            yield from self._check_totals(self.meta)

    def require_one_state(self) -> None:
        """Require that only one state is read. Raises LockedError SOW-STO-061 when reading without locks."""
        if self._watch is not None:
            self._watch.verify_state(self._state)

    def report_progress(self) -> None:
        """Report the number of entries read, of those counted in the file; it has no count for the expiry index."""
        meta = self.meta
        if meta is not None:
            self.progress(self.records + self.versions, meta.records + meta.versions)

    def build_coverage(self) -> StoreCoverage:
        """Build the coverage of the data read."""
        return StoreCoverage(self.records, self.versions, self.expiries, self.bytes_read, tuple(self.skipped))

    def _build_finding(self, code: str, message: str, element: str) -> Finding:
        return Finding(code, Level.ERROR, Place(self.path, element=element), message, REBUILD_HINT)

    def _damaged_page(self, problem: Exception, where: str, element: str) -> Iterator[Finding]:
        """Yield the finding for a page that cannot be followed; none if it was reported before, nor for pages that LMDB
        refuses to read in the same transaction after that, which is the same fault."""
        error = build_store_error(problem, Path(self.path), "read")
        if error.message in self._page_faults or (self._page_faults and isinstance(problem, lmdb.BadTxnError)):
            return
        self._page_faults.add(error.message)
        yield self._build_finding(error.code, error.message + where, element)

    def _read_spare_page(self) -> Iterator[Finding]:
        """Check the meta page that is not in use: LMDB leaves it with parts of two states if writing it fails.

        Its roots are then those of a transaction that was never committed, and lead to a meta record with the number of
        this transaction: the next one that would use this page.
        """
        # Read with plain reads: LMDB shows only the page in use.
        found = read_spare_meta(Path(self.path), SEAM)
        if found is None:
            return
        page, value = found
        fault = page.fault
        if value is not None and page.txnid > COMPACTED_TXNID:
            with suppress(SowError):
                # The pages alternate, so this page's next transaction is two later; its meta record shows that its
                # write had begun.
                if (leads_to := decode_meta(value, self.path).transaction) == page.txnid + 2:
                    fault = f"its meta page {page.number} is of transaction {page.txnid}, but refers to {leads_to}"
        if fault:
            message = (
                f"{fault}, because a write of it failed or its transaction id is damaged. "
                f"The other meta page is intact and in use, and its state complete: transaction {page.txnid + 1}"
            )
            hint = (
                "the next message published to the topic rewrites it; if none failed and the topic has no journal, "
                "publish the last messages again"
            )
            yield Finding("SOW-STO-060", Level.WARNING, Place(self.path, element="meta page"), message, hint)

    def _read_meta(self) -> Iterator[Finding]:
        try:
            self.meta = decode_meta(self.txn.get(META_KEY, b"", db=self.databases.meta), self.path)
        except SowError as problem:
            yield from self._damaged_page(problem, "", "meta")
            # Without a meta record totals cannot be compared; everything else is still read.
            self.skipped.append("counts and digest: the meta record cannot be read")
        except lmdb.Error as problem:
            yield from self._damaged_page(problem, "", "meta")
            self.skipped.append("counts and digest: the meta record cannot be read")

    def _walk_database(
        self, name: str, database: Any, look: Callable[[list[bytes], list[bytes]], Iterator[Finding]]
    ) -> Iterator[Finding]:
        """Pass the pairs of a sub-database to ``look`` in batches, as long as their keys ascend."""
        last, batches = b"", 0
        self.note(f"{name} at the start")
        try:
            # A cursor moves from leaf to leaf past a wrong key in a branch page, where a search would go wrong.
            self.txn.verify_tree(database)
        except DamageError as problem:
            yield from self._damaged_page(problem, "", name)
        try:
            # One cursor over the leaves: it reaches every entry that is linked from its neighbours.
            pairs = self.txn.cursor(database).iternext()
            while chunk := self._take_chunk(pairs):
                keys, values = list(map(_FIRST, chunk)), list(map(_SECOND, chunk))
                # Out of order: the cursor is in pages that do not belong here, perhaps in a cycle. Reading on might
                # never end.
                if last >= keys[0] or not all(map(lt, keys, keys[1:])):
                    yield self._build_finding("SOW-STO-003", f"keys out of order after {_format_key(last)}", name)
                    self.skipped.append(f"{name} after {_format_key(last)}")
                    return
                self.require_one_state()
                self.bytes_read += sum(map(len, keys)) + sum(map(len, values))
                yield from look(keys, values)
                last, batches = keys[-1], batches + 1
                if batches % PROGRESS_INTERVAL_BATCHES == 0:
                    self.note(f"{name} after {_format_key(last)}")
                    self.report_progress()
            self.report_progress()
        except (lmdb.Error, DamageError) as problem:
            yield from self._damaged_page(problem, f", after {_format_key(last)}", name)
            self.skipped.append(f"{name} after {_format_key(last)}")

    def _take_chunk(self, pairs: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        if self._watch is None:
            return list(islice(pairs, EXAMINE_BATCH_RECORDS))
        self.require_one_state()
        return list(islice(pairs, WATCH_INTERVAL_RECORDS))

    def _check_records(self, keys: list[bytes], values: list[bytes]) -> Iterator[Finding]:
        yield from self._check_values(keys, values, "record")
        self.records += len(keys)
        self.payload_bytes += _count_found_payload_bytes(values)
        for entry in build_expiry_entries(keys, values):
            self.expiry_sum += xxh3_64_intdigest(entry)

    def _check_values(self, keys: Sequence[bytes], values: Sequence[bytes], what: str) -> Iterator[Finding]:
        # A damaged value is reported but not decoded: its parts would cause additional errors.
        damaged = set(integrity.find_damaged_values(keys, values))
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            if index in damaged:
                yield self._build_finding("SOW-STO-001", "the checksum does not match", f"{what} {_format_key(key)}")
            elif not value.startswith(codec.PLAIN_PREFIX):
                try:
                    record = codec.decode_record(key, value)
                except SowError as problem:
                    yield self._build_finding(problem.code, problem.message, f"{what} {_format_key(key)}")
                    continue
                if record.is_tombstone and (record.payload or what == "record"):
                    yield self._build_finding("SOW-STO-053", "an unexpected tombstone", f"{what} {_format_key(key)}")
        # The digest is a sum, so records and versions are added in any order.
        self.digest += integrity.compute_digest_sum(keys, values)
        txids = (codec.read_stamps(value)[0] for value in values if len(value) >= codec.VALUE_OVERHEAD_BYTES)
        self.highest_txid = max(self.highest_txid, max(txids, default=0))

    def _check_history(self, keys: list[bytes], values: list[bytes]) -> Iterator[Finding]:
        short = list(map(codec.extract_sow_key, keys))
        yield from self._check_values(short, values, "version of")
        self.versions += len(keys)
        self.version_bytes += _count_found_payload_bytes(values)
        before: tuple[bytes, int] = (b"", 0)
        for sow_key, key, value in zip(short, keys, values, strict=True):
            if len(key) != codec.HISTORY_KEY_SIZE or len(value) < codec.VALUE_OVERHEAD_BYTES:
                yield self._build_finding(
                    "SOW-STO-004", "the key of a version has a wrong length", f"version of {_format_key(key)}"
                )
                continue
            if build_history_key(sow_key, value) != key:
                place = f"version of {_format_key(sow_key)}"
                yield self._build_finding("SOW-STO-004", "the key and the value of a version do not match", place)
            txid = split_history_key(key)[2]
            # Versions of a key ascend in time; txids must ascend with them.
            if before[0] == sow_key and txid <= before[1]:
                place = f"version of {_format_key(sow_key)}"
                yield self._build_finding("SOW-STO-053", "a later version has a lower txid", place)
            before = (sow_key, txid)
        yield from self._check_current_records(dict(zip(short, keys, strict=True)))

    def _check_current_records(self, newest: dict[bytes, bytes]) -> Iterator[Finding]:
        """Check that no version is newer than the current record of its key."""
        # The current record is the newest version; `newest` has the last version of each key of this batch.
        for key, value in self.txn.cursor(self.databases.records).getmulti(sorted(newest)):
            if newest[key] > build_history_key(key, value):
                message = "a version is newer than the current record"
                yield self._build_finding("SOW-STO-053", message, f"version of {_format_key(key)}")

    def _check_expiry(self, keys: list[bytes], values: list[bytes]) -> Iterator[Finding]:
        self.expiries += len(keys)
        self.expiry_sum += sum(map(xxh3_64_intdigest, keys))
        if find_damaged_entries(keys, values):
            yield self._build_finding(
                "SOW-STO-052", "an entry of the expiry index does not match its checksum", "expiry"
            )

    def _check_changes(self, keys: list[bytes], values: list[bytes]) -> Iterator[Finding]:
        if None in map(decode_change, keys, values):
            yield self._build_finding(
                "SOW-STO-055", "an entry of the change list does not match its checksum", "changes"
            )

    def _read_sequences(self) -> Iterator[Finding]:
        seen = 0
        try:
            for key, data in self.txn.cursor(self.databases.meta).iternext():
                if key.startswith(SEQUENCE_PREFIX):
                    seen += 1
                    decode_sequence(int.from_bytes(key[len(SEQUENCE_PREFIX) :], "big"), data, self.path)
        except SowError as problem:
            yield from self._damaged_page(problem, "", "sequences")
        except (lmdb.Error, OverflowError) as problem:
            yield from self._damaged_page(problem, "", "sequences")
            return
        if self.meta is not None and seen != self.meta.sequences:
            message = f"{format_count(seen, 'sequence')} found, but the counter is {self.meta.sequences}"
            yield self._build_finding("SOW-STO-051", message, "sequences")

    def _check_totals(self, meta: StoreMeta) -> Iterator[Finding]:
        for what, found, stated in (
            ("records", self.records, meta.records),
            ("versions", self.versions, meta.versions),
            ("records by LMDB's count", self.txn.stat(self.databases.records)["entries"], meta.records),
            ("versions by LMDB's count", self.txn.stat(self.databases.history)["entries"], meta.versions),
            ("payload bytes of records", self.payload_bytes, meta.payload_bytes),
            ("payload bytes of versions", self.version_bytes, meta.version_bytes),
        ):
            if found != stated:
                yield self._build_finding("SOW-STO-051", f"{found} {what} found, but the counter is {stated}", "meta")
        if self.digest % integrity.DIGEST_MODULUS != meta.digest:
            yield self._build_finding(
                "SOW-STO-051", "the digest of the records does not match the digest in the file", "meta"
            )
        # A meta record of another transaction: its page is older than the roots that lead to it.
        if meta.transaction != self.txn.id() and self.txn.id() > COMPACTED_TXNID:
            yield self._build_finding("SOW-STO-054", describe_lost_write(meta.transaction, self.txn.id()), "meta")
        # A record above the applied position would be applied a second time by the next catch-up.
        if meta.has_journal and self.highest_txid > meta.applied:
            message = f"a record has txid {self.highest_txid}, but the position of the store is txid {meta.applied}"
            yield self._build_finding("SOW-STO-051", message, "meta")


def _count_found_payload_bytes(values: Sequence[bytes]) -> int:
    """Return the payload bytes of many values; values shorter than their overhead do not count."""
    overhead, count_optional_bytes = codec.VALUE_OVERHEAD_BYTES, codec.count_optional_bytes
    return count_payload_bytes([value for value in values if len(value) >= overhead + count_optional_bytes(value)])


def ignore_progress(done: int, total: int) -> None:
    """Ignore the progress."""


def _format_key(key: bytes) -> str:
    return str(int.from_bytes(codec.extract_sow_key(key), "big")) if key else "the start"


ProgressCallback = Callable[[int, int], None]
"""Receives the number of entries read, and their total."""
ExaminationFactory = Callable[[Handle, Any], StoreExamination]
"""Creates the examination of a store from its handle and a read transaction."""


def examine_store(
    path: str,
    no_lock: bool,
    note: Callable[[str], None],
    make: ExaminationFactory | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Iterator[Finding | StoreCoverage]:
    """Yield the findings of the store at ``path``, and finally the coverage. ``note`` receives the current position,
    ``progress`` the number of entries read and their total."""
    note("the start of the file")
    try:
        # Opened like by any reader: an error that excludes readers is a finding, with the reader's message.
        handle = open_handle(StoreFiles.from_path(path), OpenMode(False, True, no_lock, 0.0), SEAM)
        txn = handle.begin_transaction(write=False)
        examination = StoreExamination(handle, txn, note) if make is None else make(handle, txn)
        examination.progress = progress
    except SowError as problem:
        yield from _build_unread_finding(path, problem, "all data: the file could not be opened")
        return
    unlocked = handle.watch is not None
    try:
        for finding in examination.iter_findings():
            examination.require_one_state()  # findings from a mixture of two states are no damage
            yield finding
        examination.require_one_state()
    except LockedError as problem:
        yield from _build_unread_finding(
            path, problem, "the checked data: another process wrote to the store during the check"
        )
        return
    finally:
        examination.txn.abort()
        handle.close()
    yield replace(examination.build_coverage(), unlocked=unlocked)


def _build_unread_finding(path: str, problem: SowError, what: str) -> Iterator[Finding | StoreCoverage]:
    """Yield the finding with the reason why a store was not read: damage, or another reason, which proves nothing about
    its content."""
    yield Finding(problem.code, Level.ERROR, Place(path), problem.message, problem.hint)
    # Damage is a result of the check; a lock or a missing permission is a failure to check, with its own exit status.
    status = 0 if isinstance(problem, (DamageError, VersionError)) else problem.exit_status
    yield StoreCoverage(not_verified=(what,), status=status)


def main(path: str, locks: str = "") -> None:
    """The child process. ``locks`` is ``no-lock`` to read without locks."""
    write_findings(lambda note, progress: examine_store(path, locks == "no-lock", note, progress=progress))


def write_findings(
    examined: Callable[[Callable[[str], None], ProgressCallback], Iterator[Finding | StoreCoverage]],
) -> None:
    """Write the findings to standard output, one JSON object per line."""
    # LMDB may abort on damage, which is expected here: it leaves no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def say(kind: str, content: Any) -> None:
        sys.stdout.write(json.dumps({kind: content}) + "\n")
        # Each line is flushed immediately: if this process is killed, the parent knows the progress.
        sys.stdout.flush()

    for item in examined(lambda where: say("at", where), lambda done, total: say("read", (done, total))):
        if isinstance(item, StoreCoverage):
            say("coverage", asdict(item))
        else:
            row = {
                "id": item.id,
                "level": item.level,
                "element": item.place.element,
                "message": item.message,
                "hint": item.hint,
            }
            say("finding", row)
