"""Further tables of a derived store: sub-databases beside its records, changed in the same transactions.

What is derived from topics, such as the cache of a view (``sow-view(5)``), keeps its records as every store does and
what it needs to catch up in tables of its own; readers of stores do not know them and pass over them. Every value ends
with the CRC-32 of its key and of what stands before, as records do, so that damage is noticed. A table is asked for
through :meth:`WriteTxn.open_table` or :meth:`Reader.open_table`. Before the first of a writer,
:meth:`WriteTxn.open_tables` is called in a transaction of its own: a handle that an aborted transaction opened must not
be used.
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
    """One table in a transaction: keys of up to 511 bytes, in their order, and values. Raises DamageError."""

    def __init__(self, txn: Any, database: Any, seam: Seam, path: Path) -> None:
        self._txn = txn
        self._database = database
        self._seam = seam
        self._path = path

    def __len__(self) -> int:
        """Return the number of entries."""
        return int(self._txn.stat(self._database)["entries"])

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None where there is none."""
        with translate_errors(self._path, "read a table"):
            found = self._txn.read(key, self._database)
            if found is None:
                self._txn.cursor(self._database).verify_absence((key,), None, None)
        return None if found is None else self._verify_value(key, found)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those ``keys`` that have one; fastest when they ascend."""
        with translate_errors(self._path, "read a table"):
            cursor = self._txn.cursor(self._database)
            found = dict(cursor.getmulti(keys))
            if len(found) < len(keys):
                cursor.verify_absence([key for key in keys if key not in found], None, None)
        return {key: self._verify_value(key, value) for key, value in found.items()}

    def walk(self, prefix: bytes = b"", *, descending: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys that begin with ``prefix`` and their values, in order. Nothing may be written meanwhile."""
        with translate_errors(self._path, "read a table"):
            cursor = self._txn.cursor(self._database)
            # A wrong key in a branch page makes a search begin too late, or end too early.
            cursor.verify_absence([bound for bound in (prefix, _prefix_end(prefix)) if bound], None, None)
            if descending:
                # From the first key behind all that begin so, one back.
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
        """Set values; ``append``: their keys ascend and come after all that there are."""
        with translate_errors(self._path, "write a table"):
            summed = [(key, value + crc32(value, crc32(key)).to_bytes(_CRC_BYTES, "little")) for key, value in pairs]
            cursor = self._txn.cursor(self._database)
            _, added = self._seam.call("lmdb.put", cursor.putmulti, summed, append=append)
            if append and added != len(summed):
                raise ValueError("keys to append must ascend and come after every key in the table")

    def delete(self, keys: Iterable[bytes]) -> None:
        """Remove keys; what is not there is left alone."""
        with translate_errors(self._path, "write a table"):
            self._seam.call("lmdb.put", self._txn.delete_many, keys, db=self._database)

    def _verify_value(self, key: bytes, value: bytes) -> bytes:
        if crc32(value, crc32(key)) != CRC_RESIDUE:
            raise inconsistent_store_error("a value of a table has a wrong checksum", self._path)
        return value[:-_CRC_BYTES]


def _prefix_end(prefix: bytes) -> bytes:
    """The first bytes behind all that begin with ``prefix``; empty where there are none."""
    rest = prefix.rstrip(b"\xff")
    return rest[:-1] + bytes((rest[-1] + 1,)) if rest else b""


def find_table(handle: Handle, txn: Any, name: str) -> Table | None:
    """A table for a reader; None where the store has none of this name."""
    with translate_errors(handle.files.path, "open a table"):
        try:
            # Of this transaction alone: it would not see a handle that came into being after it began.
            database = txn.open(handle.env, name.encode(), create=False)
        except lmdb.NotFoundError:
            return None
    return Table(txn, database, handle.seam, handle.files.path)
