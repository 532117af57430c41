"""The entries of one sub-database in key order, and proof that none is missing (``sow-store(5)``, "How to read").

A checksum proves that an entry is valid, but not its position: a wrong bit in a branch page, or two exchanged pages,
can lead a search to valid entries that are not the right ones. Then keys are not ascending, have another length, or
contradict the branches (:mod:`sowctl.store.opening.proof`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import lt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb

from sowctl.errors import DamageError
from sowctl.store.codec import REBUILD_HINT, extract_sow_key
from sowctl.store.lmdberrors import build_store_error

if TYPE_CHECKING:
    from sowctl.store.opening.proof.transaction import ProvenTransaction

Batch = tuple[list[bytes], list[bytes]]
"""Keys and values, in parallel."""
Found = tuple[list[bytes], Sequence[bytes]]
"""Keys and values, in parallel; the values need not be a list."""


def inconsistent_store_error(reason: str, path: Path) -> DamageError:
    """Return the error for parts of a store that are valid individually but inconsistent."""
    return DamageError("SOW-STO-003", f"the store is damaged: {reason}", place=str(path), hint=REBUILD_HINT)


class OrderedEntries:
    """A sub-database in a transaction."""

    def __init__(self, txn: ProvenTransaction, database: Any, length: int, covered: int, path: Path) -> None:
        """``length``: bytes of its keys; ``covered``: number of these bytes that the checksum of a value includes."""
        self._txn = txn
        self._database = database
        self._length = length
        self._covered = covered
        self._path = path

    def walk(self, start: bytes | None, stop: bytes | None, size: int) -> Iterator[Batch]:
        """Yield entries from ``start`` (inclusive) to ``stop`` (exclusive), at most ``size`` at a time.

        Raises :class:`DamageError` SOW-STO-003.
        """
        try:
            cursor = self._txn.cursor(self._database)
            # A wrong key in a branch page makes a search begin too late, and a range end too early: entries would be
            # missing there, while all others are valid and in order.
            bounds = [bound for bound in (start, stop) if bound is not None]
            cursor.verify_absence(bounds, self._length, self._covered)
            last = b""
            for keys, values in cursor.read_from(start, size, tiled=bool(bounds)):
                # Strictly ascending, also across batches. A cursor that strayed to another page, or to one already
                # visited, breaks the order.
                if last >= keys[0] or not all(map(lt, keys, keys[1:])):
                    raise self._disorder_error(keys[0])
                # Entries of another sub-database have keys of another length.
                if len(b"".join(keys)) != self._length * len(keys):
                    raise self._disorder_error(keys[0])
                last = keys[-1]
                if stop is not None and last >= stop:
                    end = bisect_left(keys, stop)
                    if end:
                        yield keys[:end], values[:end]
                    return
                yield keys, values
        except lmdb.Error as problem:
            raise build_store_error(problem, self._path, "read") from problem

    def _disorder_error(self, key: bytes) -> DamageError:
        reason = f"its keys are out of order, or are not its own, near {_decode_number(key)}"
        return inconsistent_store_error(reason, self._path)


def _decode_number(key: bytes) -> int:
    return int.from_bytes(extract_sow_key(key), "big")


__all__ = ["Batch", "Found", "OrderedEntries", "inconsistent_store_error"]
