"""Reading records, versions and the expiry index inside one transaction (``sow-store(5)``, "How to read").

:class:`Reader` is what a snapshot and a write transaction have in common. What leaves here has been verified: the
checksum of every value, the order of keys in scans, the counts at their end. Records at known offsets are read by
:mod:`sowctl.store.raw`. Ruled by "History" and "Expiry", too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sowctl.errors import DamageError
from sowctl.store import codec, integrity
from sowctl.store.changes import decode_change, find_changed_keys
from sowctl.store.codec import (
    Offsets,
    build_history_key,
    extract_expiring_key,
    extract_sow_key,
    find_damaged_entries,
    split_history_key,
)
from sowctl.store.integrity import Marks, require_sound_values
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.lmdberrors import REBUILD_HINT, translate_errors
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
"""Keys, values, and the bytes in which all of them stand with marks between them, where there are such."""
Version = tuple[int, int, bytes]
"""Time, txid, value."""
RecordLines: TypeAlias = "PageLines"
"""Records in the order of their keys, with their payloads as lines of text."""
LineBatch: TypeAlias = "tuple[PageLines | None, Found]"
"""Records as lines; or, where these are None, as keys and values."""
AllRecords: TypeAlias = "RecordOffsets"
"""All records of a state by their places, to be read without LMDB."""
COMPACTED_TXNID = 1
"""LMDB's own compacting copy starts transaction numbers again, at 1."""


def describe_lost_write(recorded: int, committed: int) -> str:
    """Words for a meta record that is not the one which the last transaction wrote."""
    return (
        f"the meta record was written by LMDB transaction {recorded}, but the file is at "
        f"{committed}: a page is outdated, or another program wrote to the file"
    )


LOOKUP_BATCH_KEYS = 256
"""Keys that are looked up together: of 20,000 new ones in 3,000,000 records, each takes 2.6 us so, and 3.7 all at once.
"""


class Reader:
    """One transaction of a store, and what can be read in it."""

    COMMITS_AFTER = 0
    """How many transactions after the last committed one this is."""

    def __init__(self, handle: Handle, txn: Any) -> None:
        self._handle = handle
        self._txn = txn
        self._path = handle.files.path
        with translate_errors(self._path, "read the meta record"):
            self._meta = self._load_meta()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def meta(self) -> StoreMeta:
        """Definition and state as of this transaction."""
        return self._meta

    @property
    def txnid(self) -> int:
        """The number of the LMDB transaction whose state this is."""
        return int(self._txn.id())

    @property
    def record_count(self) -> int:
        """Number of records."""
        return self.meta.records

    def count_leaf_pages(self) -> tuple[int, int]:
        """Count the leaf pages of the records and of the expiry index."""
        databases = self._handle.databases
        with translate_errors(self._path, "read the size of pages"):
            records, expiry = (self._txn.stat(one) for one in (databases.records, databases.expiry))
        return records["leaf_pages"], expiry["leaf_pages"]

    def open_table(self, name: str) -> Table | None:
        """A further table of a derived store; None where it has none of this name."""
        from sowctl.store.tables import find_table

        return find_table(self._handle, self._txn, name)

    def _load_meta(self) -> StoreMeta:
        # Three proofs before anything is read: the record decodes, it is of this transaction, and its counts are those
        # of LMDB.
        databases = self._handle.databases
        meta = decode_meta(self._txn.read(META_KEY, databases.meta) or b"", str(self._path))
        # The meta record is written in every transaction, with its number. Another number shows that its page is an
        # older one, which a lost write leaves, or that a program wrote that does not keep it.
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
            # LMDB counts entries in the root, the meta record counts them by itself: two roots of different states do
            # not agree.
            entries = self._txn.stat(database)["entries"]
            if entries != counted:
                raise inconsistent_store_error(f"LMDB has {entries} {what}, but the counter is {counted}", self._path)
        return meta

    def read_record(self, key: bytes) -> codec.Record | None:
        """The current record of an 8-byte key, verified. Raises :class:`DamageError`."""
        value = self.read_values((key,)).get(key)
        return None if value is None else codec.decode_record(key, value)

    def read_values(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those ``keys`` that have a record, verified; fastest when ``keys`` ascend."""
        found: dict[bytes, bytes] = {}
        with translate_errors(self._path, "read records"):
            cursor = self._txn.cursor(self._handle.databases.records)
            # In parts, so that the pages which the first search of a key has met are in the processor's cache when its
            # neighbours are looked at.
            absent: list[bytes] = []
            for asked, pairs in cursor.read_parts(keys, LOOKUP_BATCH_KEYS):
                # What was found is proven by its checksum, which covers the key. What was not found has no checksum:
                # its absence is proven by the pages in which it would be.
                there: dict[bytes, bytes] = dict(pairs)
                require_sound_values(list(there), list(there.values()), self._path)
                if len(there) < len(asked):
                    absent += [key for key in asked if key not in there]
                found |= there
            if absent and self.meta.records:
                cursor.verify_absence(absent, codec.KEY_SIZE, codec.KEY_SIZE)
        return found

    def read_values_at(self, keys: Sequence[bytes], offsets: Offsets) -> Found:
        """As :meth:`read_values`, for keys whose values lay at ``offsets`` when they were last written.

        What does not lie there any more is looked up: pages move when a record beside it changes.
        """
        from sowctl.store.raw.offset_read import read_records_at

        return read_records_at(self._get_data_file(), keys, offsets, self.read_values)

    def read_many_values(self, keys: Sequence[bytes]) -> Found:
        """As :meth:`read_values`, for many ``keys`` in order: all pages of a level of the tree are searched at once.

        Loads numpy. Not for a transaction that has written.
        """
        from sowctl.store.raw.offset_read import read_records_by_key

        return read_records_by_key(self._get_data_file(), self._txn.id(), keys, self.read_values)

    def locate_values(self, keys: bytes) -> tuple[Any, Any, Any] | None:
        """Return offset, size and last four bytes of all values in the file; None where that is not known.

        ``keys`` are those of all records, end to end.
        """
        from sowctl.store.raw.offset_read import locate_records

        return locate_records(self._get_data_file(), self._txn.id(), keys)

    def read_record_offsets(self) -> AllRecords | None:
        """All records by their places in the file; None where that cannot be told."""
        from sowctl.store.raw.record_offsets import read_record_offsets

        return read_record_offsets(self._get_data_file(), self._txn.id(), self.meta.records)

    def scan_lines(self, batch: int = 1000) -> Iterator[LineBatch] | None:
        """Scan all records in verified batches, as lines wherever the pages of the file show them at once.

        None where they show nothing.
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
            # Behind the highest of all keys nothing follows.
            if start is not None or not seen:
                for one in self._scan_part(start, None, batch):
                    seen += len(one[0])
                    yield None, one
        # The count proves what checksums cannot: that no page was left out.
        if seen != self.meta.records:
            for _ in self.scan_records():
                pass
            raise inconsistent_store_error(
                f"{format_count(seen, 'record')} found, but the counter is {self.meta.records}", self._path
            )

    def _scan_part(self, start: bytes | None, stop: bytes | None, batch: int) -> Iterator[Batch]:
        """A part of :meth:`scan_records`. What is damaged is named as by all of it."""
        try:
            yield from self.scan_records(start, stop, batch)
        except DamageError as problem:
            # The ends of a part are verified by themselves: a record there would be called otherwise. Behind an error
            # of its own LMDB reads no more.
            if problem.code in ("SOW-STO-003", "SOW-STO-023"):
                for _ in self.scan_records(batch=batch):
                    pass
            raise

    def _get_data_file(self) -> DataFile | None:
        # The inode of the open environment: at the same path another file may lie by now, with other records at these
        # offsets.
        from sowctl.store.raw.offset_read import open_data_file

        return open_data_file(self._path, self._handle.identity.data, self._handle.seam)

    def scan_records(self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000) -> Iterator[Batch]:
        """Records in key order from ``start`` (inclusive) to ``stop`` (exclusive), in verified batches.

        Raises :class:`DamageError` with the key of the record. Nothing may be written in this transaction meanwhile.
        """
        for keys, values, _ in self.scan_runs(start, stop, batch):
            integrity.require_full_length(keys, values)
            yield keys, values

    def scan_runs(
        self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000, marks: Marks | None = None
    ) -> Iterator[Run]:
        """Yield records in verified batches, with the bytes that were verified in one run.

        Without ``marks`` it cannot be told what stands where in a run, and none is given. The caller asks
        :func:`integrity.require_full_length` of the values that it takes apart; asking all costs a twentieth of a scan.
        """
        seen = 0
        with translate_errors(self._path, "read the size of pages"):
            pages = self._txn.stat(self._handle.databases.records)
        # Without overflow pages each value lies within a page, so a batch cannot exceed batch * page size: the sizes
        # need not be summed.
        small = not pages["overflow_pages"] and batch * pages["psize"] <= STORE_LIMITS.max_run_bytes
        for keys, values in self._open_ordered_records().walk(start, stop, batch):
            # One checksum over the batch in the usual case; only if it fails are values looked at one by one, to name
            # the damaged one.
            run = integrity.build_sound_run(keys, values, small=small, marks=marks)
            if run is None:
                require_sound_values(keys, values, self._path)
            seen += len(keys)
            yield keys, values, None if marks is None else run
        # A scan of all must have met every record: the count proves what checksums cannot, that no page was left out.
        if start is None and stop is None and seen != self.meta.records:
            raise inconsistent_store_error(
                f"{format_count(seen, 'record')} found, but the counter is {self.meta.records}", self._path
            )

    def scan_history(self, start: bytes | None = None, stop: bytes | None = None, batch: int = 1000) -> Iterator[Batch]:
        """Versions in the order of key, time, txid: 24-byte history keys and values, in verified batches.

        ``start`` and ``stop`` may be SOW keys or whole history keys;
        :func:`~sowctl.store.codec.split_history_key` takes keys apart.
        """
        yield from _scan_versions(self._open_ordered_history(), self._path, self.meta.versions, start, stop, batch)

    def read_versions(self, key: bytes) -> list[Version]:
        """The retained versions of a key, oldest first: time, txid, value. The current record is not among them."""
        return _read_versions(self._open_ordered_history(), self._path, key)

    def _open_ordered(self, database: Any, length: int, covered: int) -> OrderedEntries:
        return OrderedEntries(self._txn, database, length, covered, self._path)

    def _open_ordered_records(self) -> OrderedEntries:
        return self._open_ordered(self._handle.databases.records, codec.KEY_SIZE, codec.KEY_SIZE)

    def _open_ordered_history(self) -> OrderedEntries:
        return self._open_ordered(self._handle.databases.history, codec.HISTORY_KEY_SIZE, codec.KEY_SIZE)

    def iter_expired_keys(self, now: int) -> Iterator[bytes]:
        """SOW keys of the records whose expiration is not 0 and at or before ``now`` (microseconds), oldest first."""
        entries = self._open_ordered(self._handle.databases.expiry, codec.EXPIRY_KEY_SIZE, codec.EXPIRY_KEY_SIZE)
        yield from _iterate_expired(entries, self._path, now)

    def find_next_expiry(self, now: int) -> int | None:
        """The earliest expiration behind ``now`` (microseconds) of any record; None where there is none."""
        entries = self._open_ordered(self._handle.databases.expiry, codec.EXPIRY_KEY_SIZE, codec.EXPIRY_KEY_SIZE)
        for keys, _ in entries.walk(max(now + 1, 0).to_bytes(8, "big"), None, 1):
            return int.from_bytes(extract_sow_key(keys[0]), "big")
        return None

    def find_changed_keys(self, digest: int) -> set[bytes] | None:
        """Keys of the records that differ, or may, from the state with ``digest``; None where the store cannot tell."""
        changes = self._handle.databases.changes
        if changes is None:
            return set() if digest == self.meta.digest else None
        with translate_errors(self._path, "read the change list"):
            return find_changed_keys(self._txn, changes, digest, self.meta.digest)

    def read_sequences(self) -> dict[int, int]:
        """The highest sequence numbers by publisher id. Raises DamageError SOW-STO-013, SOW-STO-003."""
        with translate_errors(self._path, "read sequences"):
            pairs = self._txn.cursor(self._handle.databases.meta).iternext()
            known = {key[len(SEQUENCE_PREFIX) :]: data for key, data in pairs if key.startswith(SEQUENCE_PREFIX)}
        # Each proves itself by its checksum; that none is missing is proven by their count.
        if len(known) != self.meta.sequences:
            counted = self.meta.sequences
            raise inconsistent_store_error(
                f"{format_count(len(known), 'sequence')} found, but the counter is {counted}", self._path
            )
        numbers = {int.from_bytes(key, "big"): data for key, data in known.items()}
        return {publisher: decode_sequence(publisher, data, str(self._path)) for publisher, data in numbers.items()}

    def list_tables(self) -> list[str]:
        """The names of the further tables of a derived store."""
        with translate_errors(self._path, "list tables"):
            return sorted(name.decode() for name in set(self._txn.names) - {*DATABASE_NAMES, CHANGES_DATABASE})

    def read_changes(self) -> list[tuple[bytes, bytes]]:
        """The entries of the change list, as they are stored; none where one of them is damaged."""
        changes = self._handle.databases.changes
        if changes is None:
            return []
        with translate_errors(self._path, "read the change list"):
            entries = list(self._txn.cursor(changes).iternext())
        return [] if None in (decode_change(key, value) for key, value in entries) else entries

    def read_sequence(self, publisher: int) -> int | None:
        """The highest sequence number of a publisher id in a topic without a journal; None when it is not known."""
        with translate_errors(self._path, "read sequences"):
            data = self._txn.get(encode_sequence_key(publisher), db=self._handle.databases.meta)
        if data is None and self.meta.sequences:
            # Taken for one that never published, a publisher could repeat its messages: its absence is proven by all
            # that are there. A session asks for a publisher once.
            self.read_sequences()
        return None if data is None else decode_sequence(publisher, data, str(self._path))


def _encode_record_key(number: int) -> bytes | None:
    """The key of a number; None where it is behind all keys."""
    return number.to_bytes(codec.KEY_SIZE, "big") if number < 1 << 8 * codec.KEY_SIZE else None


def _scan_versions(
    history: OrderedEntries, path: Path, counted: int, start: bytes | None, stop: bytes | None, batch: int
) -> Iterator[Batch]:
    """Versions in verified batches; of a scan of all, ``counted`` is how many there must be. Raises DamageError."""
    seen = 0
    for keys, values in history.walk(start, stop, batch):
        verify_versions(keys, values, path)
        seen += len(keys)
        yield keys, values
    if start is None and stop is None and seen != counted:
        raise inconsistent_store_error(f"{format_count(seen, 'version')} found, but the counter is {counted}", path)


def _read_versions(history: OrderedEntries, path: Path, key: bytes) -> list[Version]:
    """The versions of one key, oldest first. Raises DamageError."""
    # The key after this one ends the range; behind the highest key, nine bytes, there is none.
    following = (int.from_bytes(key, "big") + 1).to_bytes(9, "big")
    stop = None if following[0] else following[1:]
    found: list[Version] = []
    for keys, values in history.walk(key, stop, 256):
        verify_versions(keys, values, path)
        found.extend((*split_history_key(one)[1:], value) for one, value in zip(keys, values, strict=True))
    return found


def verify_versions(keys: Sequence[bytes], values: Sequence[bytes], path: Path) -> None:
    """Raise DamageError SOW-STO-001 or SOW-STO-004 unless all versions are sound and filed where they belong."""
    short = list(map(extract_sow_key, keys))
    require_sound_values(short, values, path)
    # Time and txid stand in key and value. A sound value that was filed elsewhere would be served as another version.
    if list(map(build_history_key, short, values)) != list(keys):
        raise DamageError(
            "SOW-STO-004", "the key and the value of a version do not match", place=str(path), hint=REBUILD_HINT
        )


def _iterate_expired(expiry: OrderedEntries, path: Path, now: int) -> Iterator[bytes]:
    """SOW keys of the entries at or before ``now`` (microseconds), oldest first. Raises DamageError SOW-STO-052."""
    stop = max(now + 1, 0).to_bytes(8, "big")
    for keys, values in expiry.walk(None, stop, 1000):
        if find_damaged_entries(keys, values):
            message = "an entry of the expiry index is damaged: its checksum does not match"
            raise DamageError("SOW-STO-052", message, place=str(path), hint=REBUILD_HINT)
        yield from map(extract_expiring_key, keys)
