"""The entries of one sub-database in key order, and proof that none was left out (``sow-store(5)``, "How to read").

A checksum says that an entry is sound, and nothing of where it stands: a wrong bit in a branch page, or two pages
exchanged, lead a search to a place where it finds sound entries, but not those that it should. Then keys do not ascend
there, are of another length, or are not found by a search of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter, lt
from pathlib import Path
from typing import Any

import lmdb

from sowctl.checksum import crc32
from sowctl.errors import DamageError
from sowctl.store.codec import RESIDUE
from sowctl.store.lmdberrors import REBUILD, translate

Batch = tuple[list[bytes], list[bytes]]
"""Keys and values, in parallel."""
Found = tuple[list[bytes], Sequence[bytes]]
"""Keys and values, in parallel, where the values need not be a list."""
_FIRST, _SECOND = itemgetter(0), itemgetter(1)


def inconsistent(reason: str, path: Path) -> DamageError:
    """The error for parts of a store that are sound by themselves and do not fit each other."""
    return DamageError("SOW-STO-003", f"the store is damaged: {reason}", place=str(path), hint=REBUILD)


class Ordered:
    """A sub-database in a transaction."""

    def __init__(self, txn: Any, database: Any, length: int, covered: int, path: Path, *, again: bool) -> None:
        """``length``: bytes of its keys; ``covered``: so many of them go into the checksum of a value.

        ``again``: what is found beside a gap is searched for by itself and verified, too.
        """
        self._txn = txn
        self._database = database
        self._length = length
        self._covered = covered
        self._path = path
        self._again = again

    def walk(self, start: bytes | None, stop: bytes | None, size: int) -> Iterator[Batch]:
        """Entries from ``start`` (inclusive) to ``stop`` (exclusive), at most ``size`` at a time.

        Raises :class:`DamageError` SOW-STO-003.
        """
        try:
            cursor = self._txn.cursor(self._database)
            # A wrong key in a branch page makes a search begin too late: entries would be missing at the start, all
            # others sound and in order. Searching for the neighbours of the bound by themselves finds that out.
            if start is not None and self._again:
                self._beside(cursor, start)
            beyond = self._beside(cursor, stop)[1] if stop is not None and self._again else None
            if not (cursor.first() if start is None else cursor.set_range(start)):
                return
            pairs = cursor.iternext()
            last = b""
            while chunk := list(islice(pairs, size)):
                keys, values = list(map(_FIRST, chunk)), list(map(_SECOND, chunk))
                # Strictly ascending over the borders of batches, too. A cursor that wandered into another page, or into
                # one it had already visited, breaks the order.
                if last >= keys[0] or not all(map(lt, keys, keys[1:])):
                    raise self._disordered(keys[0])
                # Entries of another sub-database have keys of another length.
                if len(b"".join(keys)) != self._length * len(keys):
                    raise self._disordered(keys[0])
                last = keys[-1]
                if stop is not None and last >= stop:
                    end = bisect_left(keys, stop)
                    # The entry that ends the range must be the one that a search of its own finds there; otherwise
                    # entries before it were skipped.
                    if self._again and keys[end] != beyond:
                        raise self._disordered(stop)
                    if end:
                        yield keys[:end], values[:end]
                    return
                yield keys, values
        except lmdb.Error as problem:
            raise translate(problem, self._path, "read") from problem

    def verify_absence(self, keys: Sequence[bytes]) -> None:
        """Raise :class:`DamageError` SOW-STO-003 if one of ``keys``, which a search did not find, may be there.

        Nothing is between two neighbours that are where they should be: keys in order share what shows a gap.
        """
        cursor = self._txn.cursor(self._database)
        low = high = b""
        for key in keys:
            # Sorted keys that fall into the same gap are answered by one look at its two ends.
            if not low < key < high:
                previous, following = self._beside(cursor, key)
                if following == key:
                    raise self._disordered(key)
                low = previous or b""
                high = following or bytes((255,)) * (self._length + 1)

    def _beside(self, cursor: Any, bound: bytes) -> tuple[bytes | None, bytes | None]:
        """The last key before ``bound`` and the first that is not, None if there is none; both are verified."""
        after = cursor.set_range(bound)
        following: Any = cursor.key() if after else None
        # set_range promises the first key not below the bound. A damaged branch page breaks the promise, and the keys
        # themselves show it.
        if after and (following < bound or len(following) != self._length):
            raise self._disordered(bound)
        before = cursor.prev() if after else cursor.last()
        previous: Any = cursor.key() if before else None
        if before and (previous >= bound or len(previous) != self._length):
            raise self._disordered(bound)
        if self._again:
            for key in (following, previous):
                if key is not None:
                    self._verify_found(key)
        return previous, following

    def _verify_found(self, key: bytes) -> None:
        # From the root: a cursor reaches an entry sideways even if the way from the root does not lead to it.
        value = self._txn.get(key, None, self._database)
        if value is None:
            raise self._disordered(key)
        if crc32(value, crc32(key[: self._covered])) != RESIDUE:
            reason = f"what stands at {_number(key)}, beside what was looked for, has a wrong checksum"
            raise inconsistent(reason, self._path)

    def _disordered(self, key: bytes) -> DamageError:
        reason = f"its keys are out of order, or are not its own, near {_number(key)}"
        return inconsistent(reason, self._path)


def _number(key: bytes) -> int:
    return int.from_bytes(key[:8], "big")


__all__ = ["Batch", "Found", "Ordered", "inconsistent"]
