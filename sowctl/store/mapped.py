"""The store's file mapped for reading records at places that are known (``sow-memo(5)``, "Kind 5").

LMDB finds a record by its key on a page for every level of its tree; who knows the place needs none of them. What is
read here may be anything, since a page that no state in use holds is written again: it counts only if its checksums do.
A map is kept from one reading to the next, because mapping the pages is most of the work.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from operator import add, itemgetter
from pathlib import Path
from struct import pack
from typing import NamedTuple

from sowctl.store.codec import CRC_SIZE, verify

KEPT = 8
"""Maps that a process keeps."""
_kept: dict[Path, tuple[int, int, mmap.mmap]] = {}
_SUM = itemgetter(slice(-CRC_SIZE, None))


class Spots(NamedTuple):
    """Where values lie: first byte, size, and the four bytes at their end as a number, in parallel."""

    starts: Sequence[int]
    sizes: Sequence[int]
    sums: Sequence[int]


def map_of(path: Path, inode: int) -> mmap.mmap | None:
    """The file at ``path`` mapped, all of it; None where it is not the one with ``inode`` or cannot be mapped."""
    try:
        status = path.stat()
        known = _kept.pop(path, None)
        if known is None or known[:2] != (status.st_dev, status.st_ino) or len(known[2]) != status.st_size:
            with path.open("rb") as stream:
                status = os.fstat(stream.fileno())
                data = mmap.mmap(stream.fileno(), status.st_size, access=mmap.ACCESS_READ)
            known = status.st_dev, status.st_ino, data
    except (OSError, ValueError):
        return None
    while len(_kept) >= KEPT:
        _kept.pop(next(iter(_kept)), None)
    _kept[path] = known
    return known[2] if known[1] == inode else None


def values_at(data: mmap.mmap, keys: Sequence[bytes], spots: Spots) -> tuple[list[bytes], list[int]]:
    """What lies at ``spots``, and the indexes of what is not a sound value of its key, or not the one meant."""
    ends = map(add, spots.starts, spots.sizes)
    values = list(map(data.__getitem__, map(slice, spots.starts, ends)))
    wrong = verify(keys, values)
    sums = list(map(_SUM, values))
    if b"".join(sums) != pack(f"<{len(spots.sums)}I", *spots.sums):
        meant = enumerate(zip(sums, spots.sums, strict=True))
        other = [index for index, (found, wanted) in meant if found != wanted.to_bytes(CRC_SIZE, "little")]
        wrong = sorted({*wrong, *other})
    return values, wrong


__all__ = ["Spots", "map_of", "values_at"]
