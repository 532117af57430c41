"""Reading records, versions and the expiry index inside one transaction (``sow-store(5)``, "How to read").

:class:`Reader` is the common part of snapshots and write transactions. All returned data is verified: the checksum of
every value, the order of keys in scans, the counts at their end. :mod:`sowctl.store.raw` reads records at known
offsets. Specified also in "History" and "Expiry".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sowctl.errors import DamageError
from sowctl.store import codec, integrity
from sowctl.store.changes import decode_change, find_changed_keys
from sowctl.store.codec import (
    REBUILD_HINT,
    Offsets,
    build_history_key,
    extract_expiring_key,
    extract_sow_key,
    find_damaged_entries,
    split_history_key,
)
from sowctl.store.integrity import Marks, require_sound_values
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.meta import META_KEY, SEQUENCE_PREFIX, StoreMeta, decode_meta, decode_sequence, encode_sequence_key
from sowctl.store.opening.environment import CHANGES_DATABASE, DATABASE_NAMES
from sowctl.store.opening.handle import Handle
from sowctl.store.ordered_entries import Batch, Found, OrderedEntries, inconsistent_store_error
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.store.raw.line_pages import LinePages, PageLines
    from sowctl.store.raw.offset_read import DataFile
    from sowctl.store.raw.record_offsets import RecordOffsets
    from sowctl.store.tables import Table

Run = tuple[list[bytes], list[bytes], bytes | None]
"""Keys, values, and the bytes that contain all of them with marks in between, if available."""
Version = tuple[int, int, bytes]
"""Time, txid, value."""
RecordLines: TypeAlias = "PageLines"
"""Records in key order, with their payloads as lines of text."""
LineBatch: TypeAlias = "tuple[PageLines | None, Found]"
"""Records as lines; or, if these are None, as keys and values."""
AllRecords: TypeAlias = "RecordOffsets"
"""All records of a state by their offsets, to be read without LMDB."""
COMPACTED_TXNID = 1
"""LMDB's own compacting copy restarts transaction numbers at 1."""


def describe_lost_write(recorded: int, committed: int) -> str:
    """Describe a meta record that was not written by the last transaction."""
    return (
        f"the meta record was written by LMDB transaction {recorded}, but the file is at "
        f"{committed}: a page is outdated, or another program wrote to the file"
    )


LOOKUP_BATCH_KEYS = 256
"""Keys that are looked up together: for 20,000 new ones in 3,000,000 records, each takes 2.6 us this way, and 3.7 all
at once."""


class Reader:
    """One transaction of a store, with its read operations."""

    COMMITS_AFTER = 0
    """Difference between this transaction's number and that of the last committed one."""

    def __init__(self, handle: Handle, txn: Any) -> None:
        self._handle = handle
        self._txn = txn
        self._path = handle.files.path
        with translate_errors(self._path, "read the meta record"):
            self._meta = self._load_meta()

    @property
    def path(self) -> Path:
        """The data file."""
        return self._path

    @property
    def meta(self) -> StoreMeta:
        """Definition and state as of this transaction."""
        return self._meta

    @property
    def txnid(self) -> int:
        """The number of the LMDB transaction whose state is read."""
        return int(self._txn.id())

    @property
    def record_count(self) -> int:
        """Number of records."""
        return self.meta.records

    def count_leaf_pages(self) -> tuple[int, int]:
        """Return the numbers of leaf pages of the records and of the expiry index."""
        databases = self._handle.databases
        with translate_errors(self._path, "read the size of pages"):
            records, expiry = (self._txn.stat(one) for one in (databases.records, databases.expiry))
        return records["leaf_pages"], expiry["leaf_pages"]

    def open_table(self, name: str) -> Table | None:
        """Return an additional table of a derived store; None if it has none of this name."""
        from sowctl.store.tables import find_table

        return find_table(self._handle, self._txn, name)

    def _load_meta(self) -> StoreMeta:
        # Three checks before anything is read: the record decodes, it belongs to this transaction, and its counts match
        # LMDB's.
        databases = self._handle.databases
        meta = decode_meta(self._txn.read(META_KEY, databases.meta) or b"", str(self._path))
        # The meta record is written in every transaction, with its number. Another number shows that its page is
        # outdated, after a lost write, or that another program wrote to the file without updating it.
        committed = self._txn.id() - self.COMMITS_AFTER
        if meta.transaction != committed and committed > COMPACTED_TXNID:
            raise DamageError(
                "SOW-STO-054",
                describe_lost_write(meta.transaction, committed),
                place=str(self._path),
                hint=REBUILD_HINT,
            )
        for what, database, counted in (
            ("records", databases.records, meta.records),
            ("versions", databases.history, meta.versions),
        ):
            # LMDB counts entries in the root, the meta record separately: roots of different states do not match.
            entries = self._txn.stat(database)["entries"]
            if entries != counted:
                raise inconsistent_store_error(f"LMDB has {entries} {what}, but the counter is {counted}", self._path)
        return meta

    def read_record(self, key: bytes) -> codec.Record | None:
        """Return the current record of an 8-byte key, verified. Raises :class:`DamageError`."""
        value = self.read_values((key,)).get(key)
        return None if value is None else codec.decode_record(key, value)

    def read_values(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the verified values of the ``keys`` that have a record; fastest if ``keys`` ascend."""
        found: dict[bytes, bytes] = {}
        with translate_errors(self._path, "read records"):
            cursor = self._txn.cursor(self._handle.databases.records)
            # In parts, so that the pages read for one key are in the processor's cache when its neighbours are looked
            # up.
            absent: list[bytes] = []
            for asked, pairs in cursor.read_parts(keys, LOOKUP_BATCH_KEYS):
                # Found values are proven by their checksums, which cover the key. Missing keys have no checksum: their
                # absence is proven by the pages that would contain them.
                there: dict[bytes, bytes] = dict(pairs)
                require_sound_values(list(there), list(there.values()), self._path)
                if len(there) < len(asked):
                    absent += [key for key in asked if key not in there]
                found |= there
            if absent and self.meta.records:
                cursor.verify_absence(absent, codec.KEY_SIZE, codec.KEY_SIZE)
        return found

    def read_values_at(self, keys: Sequence[bytes], offsets: Offsets) -> Found:
        """As :meth:`read_values`, for keys whose values were last written at ``offsets``.

        Values that are no longer there are looked up: pages move when a neighbouring record changes.
        """
        from sowctl.store.raw.offset_read import read_records_at

        return read_records_at(self._get_data_file(), keys, offsets, self.read_values)

    def read_many_values(self, keys: Sequence[bytes]) -> Found:
        """As :meth:`read_values`, for many ``keys`` in order: all pages of a level of the tree are searched at once.

        Imports numpy. Not for a transaction that has written.
        """
        from sowctl.store.raw.offset_read import read_records_by_key

        return read_records_by_key(self._get_data_file(), self._txn.id(), keys, self.read_values)

    def locate_values(self, keys: bytes) -> tuple[Any, Any, Any] | None:
        """Return offset, size and last four bytes of all values in the file; None if unknown.

        ``keys`` are those of all records, end to end.
        """
        from sowctl.store.raw.offset_read import locate_records

        return locate_records(self._get_data_file(), self._txn.id(), keys)

    def read_record_offsets(self) -> AllRecords | None:
        """Return all records by their offsets in the file; None if these cannot be determined."""
        from sowctl.store.raw.record_offsets import read_record_offsets

        return read_record_offsets(self._get_data_file(), self._txn.id(), self.meta.records)

    def scan_lines(self, batch: int = 1000) -> Iterator[LineBatch] | None:
        """Scan all records in verified batches, as lines if the pages of the file can be read directly.

        None if no page can.
        """
        from sowctl.store.raw.line_pages import open_line_pages

        pages = open_line_pages(self._get_data_file(), self._txn.id())
        return None if pages is None else self._scan_page_lines(pages, batch)

    def _scan_page_lines(self, pages: LinePages, batch: int) -> Iterator[LineBatch]:
        from sowctl.store.lmdbfile.locate import StaleTree

        seen, start = 0, None
        try:
            for keys, lines in pages.iter_parts():
                behind = _encode_record_key(int.from_bytes(keys[-codec.KEY_SIZE :], "big") + 1)
                if lines is not None:
                    seen += len(lines.messages)
                    yield lines, ([], [])
                else:
                    for one in self._scan_part(keys[: codec.KEY_SIZE], behind, batch):
                        seen += len(one[0])
                        yield None, one
                start = behind
        except StaleTree:
            # No key follows the highest possible key.
            if start is not None or not seen:
                for one in self._scan_part(start, None, batch):
                    seen += len(one[0])
                    yield None, one
        # The count proves what checksums cannot: that no page is missing.
        if seen != self.meta.records:
            for _ in self.scan_records():
                pass
            raise inconsistent_store_error(
                f"{format_count(seen, 'record')} found, but the counter is {self.meta.records}", self._path
            )

    def _scan_part(self, start: bytes | None, stop: bytes | None, batch: int) -> Iterator[Batch]:
        """Yield a part of :meth:`scan_records`. Damage gets the same message as in a complete scan."""
        try:
            yield from self.scan_records(start, stop, batch)
        except DamageError as problem:
            # The ends of a part are verified separately, which would give a record there another message. LMDB reads no
            # more after an error of its own.
            if problem.code in ("SOW-STO-003", "SOW-STO-023"):
                for _ in self.scan_records(batch=batch):
                    pass
            raise

    def _get_data_file(self) -> DataFile | None:
        # The inode of the open environment: the path may refer to another file by now, with other records at these
        # offsets.
        from sowctl.store.raw.offset_read import open_data_file

        return open_data_file(self._path, self._handle.identity.data, self._handle.seam)

    def scan_records(self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000) -> Iterator[Batch]:
        """Yield records in key order from ``start`` (inclusive) to ``stop`` (exclusive), in verified batches.

        Raises :class:`DamageError` with the key of the record. Nothing may be written in this transaction meanwhile.
        """
        for keys, values, _ in self.scan_runs(start, stop, batch):
            integrity.require_full_length(keys, values)
            yield keys, values

    def scan_runs(
        self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000, marks: Marks | None = None
    ) -> Iterator[Run]:
        """Yield records in verified batches, with the bytes that were verified as one run.

        Without ``marks`` the positions within a run are unknown, and no run is returned. The caller calls
        :func:`integrity.require_full_length` for the values that it decodes; calling it for all costs a twentieth of a
        scan.
        """
        seen = 0
        with translate_errors(self._path, "read the size of pages"):
            pages = self._txn.stat(self._handle.databases.records)
        # Without overflow pages each value is within a page, so a batch cannot exceed batch * page size: the sizes need
        # not be summed.
        small = not pages["overflow_pages"] and batch * pages["psize"] <= STORE_LIMITS.max_run_bytes
        for keys, values in self._open_ordered_records().walk(start, stop, batch):
            # Usually one checksum over the batch; only if it fails are values verified one by one, to name the damaged
            # one.
            run = integrity.build_sound_run(keys, values, small=small, marks=marks)
            if run is None:
                require_sound_values(keys, values, self._path)
            seen += len(keys)
            yield keys, values, None if marks is None else run
        # A complete scan must have reached every record: the count proves what checksums cannot, that no page is
        # missing.
        if start is None and stop is None and seen != self.meta.records:
            raise inconsistent_store_error(
                f"{format_count(seen, 'record')} found, but the counter is {self.meta.records}", self._path
            )

    def scan_history(self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000) -> Iterator[Batch]:
        """Yield versions ordered by key, time, txid: 24-byte history keys and values, in verified batches.

        ``start`` and ``stop`` may be SOW keys or complete history keys; :func:`~sowctl.store.codec.split_history_key`
        decodes keys.
        """
        yield from _scan_versions(self._open_ordered_history(), self._path, self.meta.versions, start, stop, batch)

    def read_versions(self, key: bytes) -> list[Version]:
        """Return the retained versions of a key, oldest first: time, txid, value. The current record is not
        included."""
        return _read_versions(self._open_ordered_history(), self._path, key)

    def _open_ordered(self, database: Any, length: int, covered: int) -> OrderedEntries:
        return OrderedEntries(self._txn, database, length, covered, self._path)

    def _open_ordered_records(self) -> OrderedEntries:
        return self._open_ordered(self._handle.databases.records, codec.KEY_SIZE, codec.KEY_SIZE)

    def _open_ordered_history(self) -> OrderedEntries:
        return self._open_ordered(self._handle.databases.history, codec.HISTORY_KEY_SIZE, codec.KEY_SIZE)

    def iter_expired_keys(self, now: int) -> Iterator[bytes]:
        """Yield SOW keys of records whose expiration is not 0 and at or before ``now`` (microseconds), oldest first."""
        entries = self._open_ordered(self._handle.databases.expiry, codec.EXPIRY_KEY_SIZE, codec.EXPIRY_KEY_SIZE)
        yield from _iterate_expired(entries, self._path, now)

    def find_next_expiry(self, now: int) -> int | None:
        """Return the earliest expiration of any record after ``now`` (microseconds), or None."""
        entries = self._open_ordered(self._handle.databases.expiry, codec.EXPIRY_KEY_SIZE, codec.EXPIRY_KEY_SIZE)
        for keys, _ in entries.walk(max(now + 1, 0).to_bytes(8, "big"), None, 1):
            return int.from_bytes(extract_sow_key(keys[0]), "big")
        return None

    def find_changed_keys(self, state_number: int) -> set[bytes] | None:
        """Return keys of the records that differ, or may differ, from the state with this number; None if unknown."""
        changes, digest = self._handle.databases.changes, self.meta.extract_digest(state_number)
        if changes is None:
            return set() if digest == self.meta.digest else None
        with translate_errors(self._path, "read the change list"):
            return find_changed_keys(self._txn, changes, digest, self.meta.digest)

    def read_sequences(self) -> dict[int, int]:
        """Return the highest sequence numbers by publisher id. Raises DamageError SOW-STO-013, SOW-STO-003."""
        with translate_errors(self._path, "read sequences"):
            pairs = self._txn.cursor(self._handle.databases.meta).iternext()
            known = {key[len(SEQUENCE_PREFIX) :]: data for key, data in pairs if key.startswith(SEQUENCE_PREFIX)}
        # Each is proven by its checksum; their count proves that none is missing.
        if len(known) != self.meta.sequences:
            counted = self.meta.sequences
            raise inconsistent_store_error(
                f"{format_count(len(known), 'sequence')} found, but the counter is {counted}", self._path
            )
        numbers = {int.from_bytes(key, "big"): data for key, data in known.items()}
        return {publisher: decode_sequence(publisher, data, str(self._path)) for publisher, data in numbers.items()}

    def list_tables(self) -> list[str]:
        """Return the names of the additional tables of a derived store."""
        with translate_errors(self._path, "list tables"):
            return sorted(name.decode() for name in set(self._txn.names) - {*DATABASE_NAMES, CHANGES_DATABASE})

    def read_changes(self) -> list[tuple[bytes, bytes]]:
        """Return the stored entries of the change list; none if one of them is damaged."""
        changes = self._handle.databases.changes
        if changes is None:
            return []
        with translate_errors(self._path, "read the change list"):
            entries = list(self._txn.cursor(changes).iternext())
        return [] if None in (decode_change(key, value) for key, value in entries) else entries

    def read_sequence(self, publisher: int) -> int | None:
        """Return the highest sequence number of a publisher id in a topic without a journal; None if unknown."""
        with translate_errors(self._path, "read sequences"):
            data = self._txn.get(encode_sequence_key(publisher), db=self._handle.databases.meta)
        if data is None and self.meta.sequences:
            # Mistaken for a new publisher, it could repeat its messages: its absence is proven by reading all existing
            # ones. A session does this once per publisher.
            self.read_sequences()
        return None if data is None else decode_sequence(publisher, data, str(self._path))


def _encode_record_key(number: int) -> bytes | None:
    """Return the key of a number; None if it exceeds all keys."""
    return number.to_bytes(codec.KEY_SIZE, "big") if number < 1 << 8 * codec.KEY_SIZE else None


def _scan_versions(
    history: OrderedEntries, path: Path, counted: int, start: bytes | None, stop: bytes | None, batch: int
) -> Iterator[Batch]:
    """Yield versions in verified batches; a complete scan must have ``counted`` of them. Raises DamageError."""
    seen = 0
    for keys, values in history.walk(start, stop, batch):
        verify_versions(keys, values, path)
        seen += len(keys)
        yield keys, values
    if start is None and stop is None and seen != counted:
        raise inconsistent_store_error(f"{format_count(seen, 'version')} found, but the counter is {counted}", path)


def _read_versions(history: OrderedEntries, path: Path, key: bytes) -> list[Version]:
    """Return the versions of one key, oldest first. Raises DamageError."""
    # The next key ends the range; after the highest key (nine bytes) there is none.
    following = (int.from_bytes(key, "big") + 1).to_bytes(9, "big")
    stop = None if following[0] else following[1:]
    found: list[Version] = []
    for keys, values in history.walk(key, stop, 256):
        verify_versions(keys, values, path)
        found.extend((*split_history_key(one)[1:], value) for one, value in zip(keys, values, strict=True))
    return found


def verify_versions(keys: Sequence[bytes], values: Sequence[bytes], path: Path) -> None:
    """Raise DamageError SOW-STO-001 or SOW-STO-004 unless all versions are valid and stored under their own keys."""
    short = list(map(extract_sow_key, keys))
    require_sound_values(short, values, path)
    # Time and txid are in key and value. A valid value under another key would be returned as another version.
    if list(map(build_history_key, short, values)) != list(keys):
        raise DamageError(
            "SOW-STO-004", "the key and the value of a version do not match", place=str(path), hint=REBUILD_HINT
        )


def _iterate_expired(expiry: OrderedEntries, path: Path, now: int) -> Iterator[bytes]:
    """Yield SOW keys of entries at or before ``now`` (microseconds), oldest first. Raises DamageError SOW-STO-052."""
    stop = max(now + 1, 0).to_bytes(8, "big")
    for keys, values in expiry.walk(None, stop, 1000):
        if find_damaged_entries(keys, values):
            message = "an entry of the expiry index is damaged: its checksum does not match"
            raise DamageError("SOW-STO-052", message, place=str(path), hint=REBUILD_HINT)
        yield from map(extract_expiring_key, keys)
