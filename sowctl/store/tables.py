"""Additional tables of a derived store: sub-databases beside its records, changed in the same transactions.

Stores derived from topics, such as the cache of a view (``sow-view(5)``), keep their records like every store and the
state for incremental updates in separate tables; readers of stores ignore these. Every value ends with the CRC-32 of
its key and the preceding bytes, as in records, so that damage is detected. A table is opened through
:meth:`WriteTxn.open_table` or :meth:`Reader.open_table`. Before a writer's first table, :meth:`WriteTxn.open_tables` is
called in a separate transaction: a handle that an aborted transaction opened must not be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import lmdb

from sowctl.checksum import crc32
from sowctl.store.codec import CRC_RESIDUE
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.ordered_entries import inconsistent_store_error
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.seam import Seam
    from sowctl.store.opening.handle import Handle

_CRC_BYTES = 4


class Table:
    """One table in a transaction: keys of up to 511 bytes, in order, and values. Raises DamageError."""

    def __init__(self, txn: Any, database: Any, seam: Seam, path: Path) -> None:
        self._txn = txn
        self._database = database
        self._seam = seam
        self._path = path

    def __len__(self) -> int:
        """Return the number of entries."""
        return int(self._txn.stat(self._database)["entries"])

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        with translate_errors(self._path, "read a table"):
            found = self._txn.read(key, self._database)
            if found is None:
                self._txn.cursor(self._database).verify_absence((key,), None, None)
        return None if found is None else self._verify_value(key, found)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of the existing ``keys``; fastest if they ascend."""
        with translate_errors(self._path, "read a table"):
            cursor = self._txn.cursor(self._database)
            found = dict(cursor.getmulti(keys))
            if len(found) < len(keys):
                cursor.verify_absence([key for key in keys if key not in found], None, None)
        return {key: self._verify_value(key, value) for key, value in found.items()}

    def walk(self, prefix: bytes = b"", *, descending: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys that begin with ``prefix`` and their values, in order. Nothing may be written meanwhile."""
        with translate_errors(self._path, "read a table"):
            cursor = self._txn.cursor(self._database)
            # A wrong key in a branch page makes a search begin too late, or end too early.
            cursor.verify_absence([bound for bound in (prefix, _prefix_end(prefix)) if bound], None, None)
            if descending:
                # One before the first key after all keys with this prefix.
                there = cursor.set_range(_prefix_end(prefix)) if _prefix_end(prefix) else False
                begun = cursor.prev() if there else cursor.last()
                pairs = cursor.iterprev() if begun else iter(())
            else:
                pairs = cursor.iternext() if cursor.set_range(prefix) else iter(())
            last: bytes | None = None
            count = 0
            for key, value in pairs:
                if last is not None and not (key < last if descending else last < key):
                    raise inconsistent_store_error("keys of a table are out of order", self._path)
                if not key.startswith(prefix):
                    return
                last, count = key, count + 1
                yield key, self._verify_value(key, value)
            if not prefix and count != len(self):
                raise inconsistent_store_error(
                    f"{format_count(count, 'entry', 'entries')} of a table found, but the counter is {len(self)}",
                    self._path,
                )

    def put(self, pairs: Iterable[tuple[bytes, bytes]], *, append: bool = False) -> None:
        """Set values; with ``append``, their keys must ascend and come after all existing ones."""
        with translate_errors(self._path, "write a table"):
            summed = [(key, value + crc32(value, crc32(key)).to_bytes(_CRC_BYTES, "little")) for key, value in pairs]
            cursor = self._txn.cursor(self._database)
            _, added = self._seam.call("lmdb.put", cursor.putmulti, summed, append=append)
            if append and added != len(summed):
                raise ValueError("keys to append must ascend and come after every key in the table")

    def delete(self, keys: Iterable[bytes]) -> None:
        """Remove keys; missing ones are ignored."""
        with translate_errors(self._path, "write a table"):
            self._seam.call("lmdb.put", self._txn.delete_many, keys, db=self._database)

    def _verify_value(self, key: bytes, value: bytes) -> bytes:
        if crc32(value, crc32(key)) != CRC_RESIDUE:
            raise inconsistent_store_error("a value of a table has a wrong checksum", self._path)
        return value[:-_CRC_BYTES]


def _prefix_end(prefix: bytes) -> bytes:
    """Return the first bytes that sort after all keys with ``prefix``; empty if there are none."""
    rest = prefix.rstrip(b"\xff")
    return rest[:-1] + bytes((rest[-1] + 1,)) if rest else b""


def find_table(handle: Handle, txn: Any, name: str) -> Table | None:
    """Return a table for a reader; None if the store has none of this name."""
    with translate_errors(handle.files.path, "open a table"):
        try:
            # A handle of this transaction only: the transaction would not see a table created after it began.
            database = txn.open(handle.env, name.encode(), create=False)
        except lmdb.NotFoundError:
            return None
    return Table(txn, database, handle.seam, handle.files.path)
