"""Records of a snapshot read at known offsets in the store's file, instead of one search for a key after the other.

LMDB finds a record by its key on one page for each level of its tree; a known offset needs none of them
(``sow-memo(5)``, "Kind 5"). What is read may be anything, since a page that no state in use holds is written again: it
counts only if its checksum is right and is the one that was expected. Everything else is looked up by its key. Many
keys get their offsets together, from the pages of the tree (:func:`read_records_by_key`).

A few plain reads cost less than mapping the pages around each of them, and many cost more; so a file is mapped once
there were many, and stays so from one query of the process to the next. The reads do not go through the seam one by
one: whatever fails here is looked up by its key. Called by :class:`sowctl.store.read.Reader` alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import add, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.open_files import register_closer
from sowctl.seam import Seam
from sowctl.store.codec import CRC_SIZE, Numbers, Offsets
from sowctl.store.integrity import find_damaged_values
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.opening.environment import RECORDS_DATABASE
from sowctl.store.ordered_entries import Found

if TYPE_CHECKING:
    import mmap

    from sowctl.store.raw.batch_read import BatchValues

MAX_OPEN_FILES = 8
"""Files that a process keeps open."""
_open_files: dict[Path, DataFile] = {}
_SUM = itemgetter(slice(-CRC_SIZE, None))
LookUp = Callable[[Sequence[bytes]], dict[bytes, bytes]]
"""The values of those keys that have a record, verified."""


class DataFile:
    """One store's file, open for reading: ``identity`` (device, inode) tells it from another one at the same path.

    A file that has grown since it was mapped is mapped anew only when somebody reads behind that.
    """

    def __init__(self, path: Path, seam: Seam) -> None:
        """Raises OSError."""
        self._fd: int = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        self.identity = status.st_dev, status.st_ino
        self.size = status.st_size
        self._reads = 0
        self._map: mmap.mmap | None = None
        self._newest: mmap.mmap | None = None

    def read_values(self, starts: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """The bytes at some places; fewer where the file ends before. Raises OSError, OverflowError."""
        if not self._should_map(len(starts)):
            # Plain reads: the kernel brings one page per record, while a map of a large file would be set up for few of
            # them.
            read, file = os.pread, self._fd
            return [read(file, size, start) for start, size in zip(starts, sizes, strict=True)]
        whole = self._find_map(max(starts, default=0))
        # Slices behind the end are shorter, which the checksums find out.
        return list(map(whole.__getitem__, map(slice, starts, map(add, starts, sizes))))

    def read_batch(self, keys: Sequence[bytes], offsets: Offsets) -> tuple[BatchValues, list[int]] | None:
        """See :func:`sowctl.store.raw.batch_read.read_batch`; None where mapping the file does not pay, too. Raises
        OSError.
        """
        if isinstance(offsets.starts, Sequence) or not self._should_map(len(keys)):
            return None
        from sowctl.store.raw.batch_read import read_batch

        return read_batch(self._find_map(int(offsets.starts.max(initial=0))), keys, *offsets)

    def _find_map(self, place: int) -> mmap.mmap:
        """A map that has ``place``, if there is one: the first that was made, whose pages are there already."""
        if self._map is None:
            self._map = self.map_file()
        return self._map if place < len(self._map) else self.map_file()

    def _should_map(self, reads: int) -> bool:
        """Return whether mapping the file pays, with so many more reads."""
        self._reads += reads
        return self._map is not None or self._reads * STORE_LIMITS.plain_read_bytes >= self.size

    def map_file(self) -> mmap.mmap:
        """All of the file as large as it is. Raises OSError."""
        import mmap

        if self._newest is None or len(self._newest) < self.size:
            self._newest = mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ)
        return self._newest

    def close(self) -> None:
        """Close the file; what was mapped goes with its last user."""
        self._map = self._newest = None
        os.close(self._fd)


def open_data_file(path: Path, inode: int, seam: Seam) -> DataFile | None:
    """The file at ``path``; None where it is not the one with ``inode``, or cannot be opened."""
    # Taken out and put back at the end: dictionaries keep the order of insertion, so the first one is the one unused
    # for longest.
    known = _open_files.pop(path, None)
    try:
        status = path.stat()
        # Replaced or cut: reading a mapped page behind the end of a file that was cut would end the process.
        if known is not None and (known.identity != (status.st_dev, status.st_ino) or status.st_size < known.size):
            known.close()
            known = None
        file = known or DataFile(path, seam)
        file.size = max(file.size, status.st_size)
    except OSError:
        if known is not None:
            known.close()
        return None
    # Each kept file is a descriptor and perhaps a map: a process with many topics must not run out of either.
    while len(_open_files) >= MAX_OPEN_FILES:
        _open_files.pop(next(iter(_open_files))).close()
    _open_files[path] = file
    # The file at the path must be the one that the snapshot reads; a store replaced a moment ago has its records
    # elsewhere.
    return file if file.identity[1] == inode else None


@register_closer
def close_open_files() -> None:
    """Close all files that are kept."""
    while _open_files:
        _open_files.popitem()[1].close()


def read_values_at(file: DataFile, keys: Sequence[bytes], offsets: Offsets) -> tuple[Sequence[bytes], list[int]]:
    """Read the values in ``file`` at ``offsets``, and the indexes of those that are not the sound values meant.

    Raises OSError, OverflowError.
    """
    known = file.read_batch(keys, offsets)
    if known is not None:
        return _align_values(*known), known[1]
    values = file.read_values(*map(_as_list, offsets[:2]))
    # A sound value is not enough: an older version of the record may still stand on a page that is free. The last four
    # bytes, its checksum, tell which version is meant.
    wrong = find_damaged_values(keys, values)
    sums = list(map(_SUM, values))
    if b"".join(sums) != offsets.sums:
        meant = [offsets.sums[at : at + CRC_SIZE] for at in range(0, len(offsets.sums), CRC_SIZE)]
        wrong = sorted({*wrong, *(index for index, one in enumerate(sums) if one != meant[index])})
    return values, wrong


def _align_values(values: Sequence[bytes], missing: Sequence[int]) -> Sequence[bytes]:
    """The values with nothing in the places of those that are missing."""
    if not missing:
        return values
    found = list(values)
    for place in missing:
        found.insert(place, b"")
    return found


def _as_list(numbers: Numbers) -> Sequence[int]:
    found: Sequence[int] = numbers if isinstance(numbers, Sequence) else numbers.tolist()
    return found


def read_records_at(file: DataFile | None, keys: Sequence[bytes], offsets: Offsets, look_up: LookUp) -> Found:
    """The records of ``keys``, whose values lay at ``offsets``."""
    values: Sequence[bytes] = [b""] * len(keys)
    wrong = list(range(len(keys)))
    if file is not None:
        with suppress(OSError, OverflowError, ValueError):  # ValueError: there is nothing left to map
            values, wrong = read_values_at(file, keys, offsets)
    # The usual case: nothing moved, and neither list is copied.
    if not wrong:
        return list(keys), values
    # Only what did not prove sound is asked of LMDB; a key that it does not know either has no record any more.
    found = dict(zip(keys, values, strict=True))
    moved = [keys[place] for place in wrong]
    for key in moved:
        del found[key]
    found |= look_up(moved)
    present = [key for key in keys if key in found]
    return present, [found[key] for key in present]


def read_records_by_key(file: DataFile | None, txnid: int, keys: Sequence[bytes], look_up: LookUp) -> Found:
    """The records of ``keys``, which ascend: those that are found on the pages of a state are read there."""
    located = _find_records(file, txnid, keys) if keys else None
    if located is None:
        found = look_up(keys)
    else:
        places, offsets = located
        if len(places) == len(keys):
            return read_records_at(file, keys, offsets, look_up)
        some = [keys[place] for place in places]
        found = dict(zip(*read_records_at(file, some, offsets, look_up), strict=True))
        # Their absence is proven, or they are found all the same.
        found |= look_up(sorted(set(keys).difference(some)))
    present = [key for key in keys if key in found]
    return present, [found[key] for key in present]


def _find_records(file: DataFile | None, txnid: int, keys: Sequence[bytes]) -> tuple[list[int], Offsets] | None:
    """The indexes of those ``keys`` that are found, and the places of their values; None if that cannot be told."""
    import numpy as np

    from sowctl.store.lmdbfile.locate import StaleTree, find_values

    wanted = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
    try:
        if file is None:
            return None
        places, starts, sizes, sums = find_values(file.map_file(), txnid, RECORDS_DATABASE, wanted)
    except (StaleTree, OSError, ValueError):
        return None
    return places.tolist(), Offsets(starts, sizes, sums.tobytes())


def locate_records(file: DataFile | None, txnid: int, keys: bytes) -> tuple[Any, Any, Any] | None:
    """Find the places of the values of all records; ``keys`` are theirs, end to end; None if unknown. None: it is
    not known.
    """
    from sowctl.store.lmdbfile.locate import StaleTree, locate_values

    try:
        return None if file is None else locate_values(file.map_file(), txnid, RECORDS_DATABASE, keys)
    except (StaleTree, OSError, ValueError):
        return None


__all__ = [
    "DataFile",
    "close_open_files",
    "locate_records",
    "open_data_file",
    "read_records_at",
    "read_records_by_key",
    "read_values_at",
]
