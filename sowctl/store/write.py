"""Changing records and versions inside one write transaction (``sow-store(5)``, "How to write").

:class:`WriteTxn` is passed to the function given to ``Store.write``. It keeps counts, bytes, digest, expiry index and
the meta record consistent. All operations are bulk operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Any

from sowctl.errors import DamageError
from sowctl.store import codec, integrity
from sowctl.store.changes import append_change
from sowctl.store.codec import build_history_key, encode_expiry_key, encode_expiry_value, extract_sow_key
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.meta import META_KEY, AppliedBlock, StoreMeta, encode_meta, encode_sequence, encode_sequence_key
from sowctl.store.opening.handle import Handle
from sowctl.store.read import Reader, verify_versions

if TYPE_CHECKING:
    from sowctl.store.tables import Table

_EXTRA, _EXPIRATION = itemgetter(slice(2, 4)), itemgetter(slice(20, 28))
_NO_EXPIRATION, _NO_EXTRA = {bytes(8)}, {bytes(2)}


def count_payload_bytes(values: Sequence[bytes]) -> int:
    """Return the total payload bytes of many values."""
    size = sum(map(len, values)) - codec.VALUE_OVERHEAD_BYTES * len(values)
    if values and set(map(_EXTRA, values)) != _NO_EXTRA:
        size -= sum(map(codec.count_optional_bytes, values))
    return size


def is_ascending(keys: Sequence[bytes]) -> bool:
    """Return whether every key is greater than the previous one."""
    return all(map(lt, keys, keys[1:]))


def build_expiry_entries(keys: Sequence[bytes], values: Sequence[bytes]) -> set[bytes]:
    """Return the entries of these records in the expiry index."""
    # Usually no record of a batch expires: eight bytes of each value show this, and the index stays unchanged.
    if not values or set(map(_EXPIRATION, values)) == _NO_EXPIRATION:
        return set()
    pairs = zip(map(codec.read_expiration, values), keys, strict=True)
    return {encode_expiry_key(expiration, key) for expiration, key in pairs if expiration > 0}


def _iterate_replaced(keys: Sequence[bytes], olds: Mapping[bytes, bytes]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return those of ``keys`` that had a record, and its values."""
    try:
        # If all of them had one, which is usual for updates, no key is looked up twice.
        return keys, list(map(olds.__getitem__, keys))
    except KeyError:
        known = [key for key in keys if key in olds]
        return known, [olds[key] for key in known]


class WriteTxn(Reader):
    """A write transaction. An exception undoes it; it may be run again if the map was too small."""

    COMMITS_AFTER = 1

    def __init__(self, handle: Handle, txn: Any) -> None:
        super().__init__(handle, txn)
        self.changed = False
        self._before = self._meta.digest
        # Back to back: a transaction may touch millions of keys, each of which then needs 8 bytes of memory, not 50.
        self._touched = bytearray()
        self._lists = True

    def _change_meta(self, **parts: object) -> None:
        self._meta = self._meta.replace_parts(**parts)
        self.changed = True

    def put_records(
        self, keys: Sequence[bytes], values: Sequence[bytes], olds: Mapping[bytes, bytes] | None = None
    ) -> None:
        """Insert or replace records. ``keys`` ascend strictly; ``values`` are encoded records in the same order.

        ``olds`` is the result of :meth:`read_values` of this transaction for at least these keys, unless records were
        put since; it saves a second lookup. Raises ValueError for keys out of order.
        """
        # Ascending keys let LMDB continue from the page of the previous key; equal ones would make the counts wrong.
        if not is_ascending(keys) or len(keys) != len(values):
            raise ValueError("keys must ascend strictly, with one value each")
        # The old values are needed to subtract their terms from digest, bytes and expiry index. They are verified: a
        # damaged one would make the digest permanently wrong.
        if olds is None:
            olds = self.read_values(keys)
        known, previous = _iterate_replaced(keys, olds)
        with translate_errors(self._path, "write records"):
            cursor = self._txn.cursor(self._handle.databases.records)
            self._handle.seam.call("lmdb.put", cursor.putmulti, zip(keys, values, strict=True))
            self._update_accounts(keys, values, known, previous)
        self._touched += b"".join(keys)

    def append_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add records whose keys ascend strictly and come after every key in the store. Raises ValueError otherwise.

        The change list does not include them: it begins when a store is complete.
        """
        if not is_ascending(keys) or len(keys) != len(values):
            raise ValueError("keys must ascend strictly, with one value each")
        with translate_errors(self._path, "write records"):
            cursor = self._txn.cursor(self._handle.databases.records)
            pairs = zip(keys, values, strict=True)
            # Append mode fills pages without a search and leaves them full; LMDB itself rejects a key that is not above
            # all others.
            _, added = self._handle.seam.call("lmdb.put", cursor.putmulti, pairs, append=True)
            if added != len(keys):
                raise ValueError("keys to append must come after every key in the store")
            self._update_accounts(keys, values, (), ())
        # Records were added without an entry: the list could not cross this transaction, so it stays unchanged.
        self._lists = False

    def delete_records(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Remove records; return the existing ones, with their values."""
        wanted = sorted(set(keys))
        found = self.read_values(wanted)
        with translate_errors(self._path, "delete records"):
            self._remove_keys(self._handle.databases.records, list(found))
            self._update_accounts((), (), list(found), list(found.values()))
        self._touched += b"".join(found)
        return found

    def _remove_keys(self, database: Any, keys: Iterable[bytes]) -> None:
        self._handle.seam.call("lmdb.put", self._txn.delete_many, keys, db=database)

    def _update_accounts(
        self, keys: Sequence[bytes], values: Sequence[bytes], old_keys: Sequence[bytes], old_values: Sequence[bytes]
    ) -> None:
        # Differences of sets: a record with the same expiration changes nothing in the index. Sorted, because LMDB
        # writes fastest in key order.
        added, removed = build_expiry_entries(keys, values), build_expiry_entries(old_keys, old_values)
        expiry = self._handle.databases.expiry
        if gone := sorted(removed - added):
            self._remove_keys(expiry, gone)
        if fresh := sorted(added - removed):
            cursor = self._txn.cursor(expiry)
            self._handle.seam.call("lmdb.put", cursor.putmulti, [(key, encode_expiry_value(key)) for key in fresh])
        meta = self._meta
        # Every change of records passes through here, so that counts, bytes, digest and index only change together.
        digest = (
            meta.digest
            + integrity.compute_digest_sum(keys, values)
            - integrity.compute_digest_sum(old_keys, old_values)
        )
        self._change_meta(
            records=meta.records + len(keys) - len(old_keys),
            payload_bytes=meta.payload_bytes + count_payload_bytes(values) - count_payload_bytes(old_values),
            digest=digest % integrity.DIGEST_MODULUS,
        )

    def put_versions(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Store versions: pairs of SOW key and value. Time and txid come from the value; equal ones are replaced."""
        # A replay may store the same version twice: one key, one version, the later one of the batch.
        fresh = {build_history_key(key, value): value for key, value in items}
        keys = sorted(fresh)
        values = [fresh[key] for key in keys]
        olds = self._read_old_versions(keys)
        with translate_errors(self._path, "write versions"):
            cursor = self._txn.cursor(self._handle.databases.history)
            self._handle.seam.call("lmdb.put", cursor.putmulti, zip(keys, values, strict=True))
            self._account_versions(keys, values, olds)

    def append_versions(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Append versions that come after every version in the store, by key, time, txid. Raises ValueError
        otherwise."""
        keys = [build_history_key(key, value) for key, value in items]
        values = [value for _, value in items]
        with translate_errors(self._path, "write versions"):
            cursor = self._txn.cursor(self._handle.databases.history)
            pairs = zip(keys, values, strict=True)
            _, added = self._handle.seam.call("lmdb.put", cursor.putmulti, pairs, append=True)
            if added != len(keys) or not is_ascending(keys):
                raise ValueError("versions to append must ascend and come after every version in the store")
            self._account_versions(keys, values, {})

    def delete_versions(self, history_keys: Iterable[bytes]) -> int:
        """Remove versions by their 24-byte keys (:func:`~sowctl.store.codec.build_history_key`).

        Returns the number of existing ones.
        """
        olds = self._read_old_versions(sorted(set(history_keys)))
        with translate_errors(self._path, "delete versions"):
            self._remove_keys(self._handle.databases.history, list(olds))
            self._account_versions((), (), olds)
        return len(olds)

    def _read_old_versions(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        with translate_errors(self._path, "read versions"):
            found = dict(self._txn.cursor(self._handle.databases.history).getmulti(keys))
        verify_versions(list(found), list(found.values()), self._path)
        return found

    def _account_versions(self, keys: Sequence[bytes], values: Sequence[bytes], olds: dict[bytes, bytes]) -> None:
        meta = self._meta
        old_values = list(olds.values())
        digest = meta.digest + integrity.compute_digest_sum(list(map(extract_sow_key, keys)), values)
        digest -= integrity.compute_digest_sum(list(map(extract_sow_key, olds)), old_values)
        self._change_meta(
            versions=meta.versions + len(keys) - len(olds),
            version_bytes=meta.version_bytes + count_payload_bytes(values) - count_payload_bytes(old_values),
            digest=digest % integrity.DIGEST_MODULUS,
        )

    def set_applied_position(self, lineage: bytes, txid: int, block: AppliedBlock | None = None) -> None:
        """Set the log (16 bytes; zero: none) and the txid up to which the records are complete.

        ``block`` is the journal's block that ends with ``txid``, None if the caller does not know it.
        """
        if len(lineage) != 16:
            raise ValueError("a lineage has 16 bytes")
        self._change_meta(lineage=lineage, applied=txid, block=block)

    def raise_last_time(self, time: int) -> None:
        """Raise the highest applied time (microseconds) to ``time``, if that is later."""
        if time > self._meta.last_time:
            self._change_meta(last_time=time)

    def set_removal_mark(self, clock: int) -> None:
        """Raise the clock of the latest removal of expired records to ``clock``, if that is later."""
        if clock > self._meta.removal_mark:
            self._change_meta(removal_mark=clock)

    def copy_state(self, meta: StoreMeta) -> None:
        """Copy position, times and removal mark of another store of the same records."""
        parts = {"lineage", "applied", "block", "last_time", "removal_mark"}
        self._change_meta(**{name: getattr(meta, name) for name in parts})

    def copy_changes(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Replace the change list by that of another store with the same digest."""
        changes = self._handle.databases.changes
        if changes is None:
            return
        with translate_errors(self._path, "write the change list"):
            self._txn.drop(changes)
            cursor = self._txn.cursor(changes)
            self._handle.seam.call("lmdb.put", cursor.putmulti, entries, append=True)
        self.changed = True

    def set_sequence(self, publisher: int, sequence: int) -> None:
        """Set the highest sequence number of a publisher id (64 bits each)."""
        key = encode_sequence_key(publisher)
        with translate_errors(self._path, "write sequences"):
            meta = self._handle.databases.meta
            # Counted, so that the check detects a lost sequence.
            fresh = self._txn.get(key, db=meta) is None
            value = encode_sequence(publisher, sequence)
            self._handle.seam.call("lmdb.put", self._txn.put, key, value, db=meta)
        self._change_meta(sequences=self._meta.sequences + fresh)

    def open_tables(self, names: Sequence[str]) -> None:
        """Open additional tables for later transactions, and create missing ones.

        The transaction must do nothing else: a handle that an aborted transaction opened must not be used.
        """
        tables, env = self._handle.tables, self._handle.env
        with translate_errors(self._path, "open a table"):
            for name in names:
                if name not in tables:
                    tables[name] = self._txn.open(env, name.encode(), create=True)
                    # Creating one changes the file, and every transaction that does so writes the meta record.
                    self.changed = True

    def open_table(self, name: str) -> Table:
        """Return an additional table opened by :meth:`open_tables`; it may be changed."""
        from sowctl.store.tables import Table

        # The tables belong to the records: the transaction is committed even if no record changed.
        self.changed = True
        return Table(self._txn, self._handle.tables[name], self._handle.seam, self._path)

    def finish(self) -> None:
        """Write the change list and the meta record; the store calls it before the commit."""
        # Change list first: the meta record is written last and describes everything else.
        self._list_changes()
        self._put_meta(self._meta.replace_parts(transaction=self._txn.id()))

    def _list_changes(self) -> None:
        changes, after = self._handle.databases.changes, self._meta.digest
        # An equal digest means equal records: readers need no chain to it, so no entry is written.
        if changes is None or not self._lists or after == self._before:
            return
        touched = bytes(self._touched)
        with translate_errors(self._path, "write the change list"):
            entry = self._before, after, touched, self._meta.records, str(self._path)
            self._handle.seam.call("lmdb.put", append_change, self._txn, changes, *entry)

    @classmethod
    def create(cls, handle: Handle, txn: Any, meta: StoreMeta) -> None:
        """Initialize a new store with ``meta``, in the transaction that creates its sub-databases (builders only)."""
        work = cls.__new__(cls)
        work._handle, work._txn, work._path, work._meta, work.changed = handle, txn, handle.files.path, meta, True
        work._before, work._touched, work._lists = meta.digest, bytearray(), False
        work.finish()

    def _put_meta(self, meta: StoreMeta) -> None:
        # A negative count proves that the counts in the file were wrong before; it could not be written as an unsigned
        # number anyway.
        if min(meta.records, meta.versions, meta.payload_bytes, meta.version_bytes) < 0:
            raise DamageError("SOW-STO-003", "the counts of the store are damaged", place=str(self._path))
        with translate_errors(self._path, "write the meta record"):
            database = self._handle.databases.meta
            self._handle.seam.call("lmdb.put", self._txn.put, META_KEY, encode_meta(meta), db=database)
