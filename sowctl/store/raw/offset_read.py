"""Records of a snapshot read at known offsets in the store's file, instead of searching one key after the other.

LMDB finds a record by its key on one page per level of its tree; a known offset needs none of them (``sow-memo(5)``,
"Kind 5"). The bytes read may be anything, since pages that no state in use needs are rewritten: they count only if
their checksum is right and is the expected one. Other records are looked up by key. The offsets of many keys are found
together, from the pages of the tree (:func:`read_records_by_key`).

A few plain reads cost less than mapping the pages around each of them, and many cost more; so a file is mapped after
many reads, and stays mapped between the queries of a process. The reads do not go through the seam one by one: after
any failure the record is looked up by key. Called only by :class:`sowctl.store.read.Reader`.
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
"""Maximum number of files that a process keeps open."""
_open_files: dict[Path, DataFile] = {}
_SUM = itemgetter(slice(-CRC_SIZE, None))
LookUp = Callable[[Sequence[bytes]], dict[bytes, bytes]]
"""Returns the verified values of the keys that have a record."""


class DataFile:
    """One store's file, open for reading: ``identity`` (device, inode) distinguishes it from another one at the same
    path.

    A file that has grown since it was mapped is mapped again only for reads after the end of the map.
    """

    def __init__(self, path: Path, seam: Seam) -> None:
        """Open the file. Raises OSError."""
        self._fd: int = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        self.identity = status.st_dev, status.st_ino
        self.size = status.st_size
        self._reads = 0
        self._map: mmap.mmap | None = None
        self._newest: mmap.mmap | None = None

    def read_values(self, starts: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes at some offsets; fewer if the file ends before them. Raises OSError, OverflowError."""
        if not self._should_map(len(starts)):
            # Plain reads: the kernel loads one page per record, while a map of a large file would be created for few of
            # them.
            read, file = os.pread, self._fd
            return [read(file, size, start) for start, size in zip(starts, sizes, strict=True)]
        whole = self._find_map(max(starts, default=0))
        # Slices after the end are shorter, which the checksums detect.
        return list(map(whole.__getitem__, map(slice, starts, map(add, starts, sizes))))

    def read_batch(self, keys: Sequence[bytes], offsets: Offsets) -> tuple[BatchValues, list[int]] | None:
        """See :func:`sowctl.store.raw.batch_read.read_batch`; None also if mapping the file is not worthwhile. Raises
        OSError."""
        if isinstance(offsets.starts, Sequence) or not self._should_map(len(keys)):
            return None
        from sowctl.store.raw.batch_read import read_batch

        return read_batch(self._find_map(int(offsets.starts.max(initial=0))), keys, *offsets)

    def _find_map(self, place: int) -> mmap.mmap:
        """Return a map that contains ``place``, if possible: the first one, whose pages are already mapped."""
        if self._map is None:
            self._map = self.map_file()
        return self._map if place < len(self._map) else self.map_file()

    def _should_map(self, reads: int) -> bool:
        """Return whether mapping the file is worthwhile after ``reads`` more reads."""
        self._reads += reads
        return self._map is not None or self._reads * STORE_LIMITS.plain_read_bytes >= self.size

    def map_file(self) -> mmap.mmap:
        """Map the whole file at its current size. Raises OSError."""
        import mmap

        if self._newest is None or len(self._newest) < self.size:
            self._newest = mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ)
        return self._newest

    def close(self) -> None:
        """Close the file; its maps end with their last user."""
        self._map = self._newest = None
        os.close(self._fd)


def open_data_file(path: Path, inode: int, seam: Seam) -> DataFile | None:
    """Return the file at ``path``; None if it does not have ``inode``, or cannot be opened."""
    # Removed and added again at the end: dictionaries keep the order of insertion, so the first one is the least
    # recently used.
    known = _open_files.pop(path, None)
    try:
        status = path.stat()
        # Replaced or truncated: reading a mapped page after the end of a truncated file would kill the process.
        if known is not None and (known.identity != (status.st_dev, status.st_ino) or status.st_size < known.size):
            known.close()
            known = None
        file = known or DataFile(path, seam)
        file.size = max(file.size, status.st_size)
    except OSError:
        if known is not None:
            known.close()
        return None
    # Each file needs a descriptor and perhaps a map: a process with many topics must not run out of either.
    while len(_open_files) >= MAX_OPEN_FILES:
        _open_files.pop(next(iter(_open_files))).close()
    _open_files[path] = file
    # The file at the path must be the one that the snapshot reads; a store replaced a moment ago has its records
    # elsewhere.
    return file if file.identity[1] == inode else None


@register_closer
def close_open_files() -> None:
    """Close all files that are kept open."""
    while _open_files:
        _open_files.popitem()[1].close()


def read_values_at(file: DataFile, keys: Sequence[bytes], offsets: Offsets) -> tuple[Sequence[bytes], list[int]]:
    """Return the values in ``file`` at ``offsets``, and the indexes of those that are not the expected valid values.

    Raises OSError, OverflowError.
    """
    known = file.read_batch(keys, offsets)
    if known is not None:
        return _align_values(*known), known[1]
    values = file.read_values(*map(_as_list, offsets[:2]))
    # A valid value is not enough: an older version of the record may still be on a free page. The last four bytes, its
    # checksum, identify the expected version.
    wrong = find_damaged_values(keys, values)
    sums = list(map(_SUM, values))
    if b"".join(sums) != offsets.sums:
        meant = [offsets.sums[at : at + CRC_SIZE] for at in range(0, len(offsets.sums), CRC_SIZE)]
        wrong = sorted({*wrong, *(index for index, one in enumerate(sums) if one != meant[index])})
    return values, wrong


def _align_values(values: Sequence[bytes], missing: Sequence[int]) -> Sequence[bytes]:
    """Return the values with empty bytes for the missing ones."""
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
    """Return the records of ``keys``, whose values were at ``offsets``."""
    values: Sequence[bytes] = [b""] * len(keys)
    wrong = list(range(len(keys)))
    if file is not None:
        with suppress(OSError, OverflowError, ValueError):  # ValueError: there is nothing left to map
            values, wrong = read_values_at(file, keys, offsets)
    # The usual case: nothing moved, and neither list is copied.
    if not wrong:
        return list(keys), values
    # Only values that were not proven valid are looked up in LMDB; a key that it does not find has no record any more.
    found = dict(zip(keys, values, strict=True))
    moved = [keys[place] for place in wrong]
    for key in moved:
        del found[key]
    found |= look_up(moved)
    present = [key for key in keys if key in found]
    return present, [found[key] for key in present]


def read_records_by_key(file: DataFile | None, txnid: int, keys: Sequence[bytes], look_up: LookUp) -> Found:
    """Return the records of the ascending ``keys``: those found on the pages of a state are read there."""
    located = _find_records(file, txnid, keys) if keys else None
    if located is None:
        found = look_up(keys)
    else:
        places, offsets = located
        if len(places) == len(keys):
            return read_records_at(file, keys, offsets, look_up)
        some = [keys[place] for place in places]
        found = dict(zip(*read_records_at(file, some, offsets, look_up), strict=True))
        # LMDB proves their absence, or finds them.
        found |= look_up(sorted(set(keys).difference(some)))
    present = [key for key in keys if key in found]
    return present, [found[key] for key in present]


def _find_records(file: DataFile | None, txnid: int, keys: Sequence[bytes]) -> tuple[list[int], Offsets] | None:
    """Return the indexes of the ``keys`` found, and the locations of their values; None if this is unknown."""
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
    """Return the locations of the values of all records, whose ``keys`` are given end to end; None if unknown."""
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
