"""A sorted run: changes after the position of a store, in a separate file, in key order (``sow-run(5)``).

It has the newest value of every key; for a topic with History every value, in the order of their entries.

Everything in a run is also in the journal, so a run may be missing, truncated or damaged at any time: an unusable run
raises :class:`BadRun`, and the caller folds the journal's entries again. A run is written once, under a temporary name,
and never changed, so that a reader may keep it mapped after its removal. Called by :mod:`sowctl.engine.fold.runs`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path

from sowctl.checksum import crc32
from sowctl.errors import SowError
from sowctl.identity.keyspace import sort_distinct
from sowctl.seam import Seam
from sowctl.store.codec import KEY_SIZE, TOMBSTONE_FLAG, read_stamps
from sowctl.store.integrity import find_damaged_values
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.meta import StoreMeta, decode_meta, encode_meta
from sowctl.store.opening.access import StoreFiles

MAGIC = b"SOWRUN\0\0"
VERSION = 1
_HEAD = struct.Struct("<8sHHIQQQQII")
"""Magic, version, kind, bytes of the state, txid after which it begins, changes, deletions, bytes of values, checksums
of the keys and of the ends."""
NEWEST_CHANGES_KIND, EVERY_CHANGE_KIND = 0, 1
"""Kinds: the newest change of every key, where a deletion has no value; every change, a deletion as its tombstone."""
_CRC = struct.Struct("<I")
# Columns begin at a multiple of 8, so that their numbers are read in place.
_ALIGNMENT_BYTES = 8
COUNT_BATCH_KEYS = 1_000_000
"""Keys that are counted at once."""
_RUN_NAME_PATTERN = re.compile(r"([0-9]+)-([0-9]+)\.run")

Changes = tuple[list[bytes], list[bytes | None]]
"""Keys in order and their stored values, in parallel; None is a deletion."""


class BadRun(Exception):
    """An unusable file: damaged, truncated, of another version, or of a machine with another byte order."""


def build_runs_directory(store: Path) -> Path:
    """Return the directory of the runs of the store at ``store``; links are followed, as for its locks."""
    real = StoreFiles.from_path(store).path
    return real.with_name(f"{real.name}-runs")


def find_run_files(store: Path) -> dict[tuple[int, int], Path]:
    """Return the files that are runs of a store by their names: the txid after which each begins, and its last txid."""
    directory = build_runs_directory(store)
    try:
        paths = list(directory.iterdir())
    except OSError:
        return {}  # the usual case: there is no such directory
    found = {}
    for path in paths:
        if match := _RUN_NAME_PATTERN.fullmatch(path.name):
            found[int(match[1]), int(match[2])] = path
    return found


def write_run(
    store: Path,
    state: StoreMeta,
    base: int,
    count: int,
    parts: Iterable[Changes],
    seam: Seam,
    kind: int = NEWEST_CHANGES_KIND,
) -> Path:
    """Write the changes that bring a store from txid ``base`` to ``state``; return the file. Raises StorageError.

    ``parts`` have ``count`` ascending keys in total, each once (with the kind :data:`EVERY_CHANGE_KIND`: equal ones in
    txid order, and deletions as tombstones). ``state`` has definition, lineage, position, block and last time of a
    store with these changes. Nothing is synced: the journal has the entries, and checksums detect losses after a crash.
    """
    directory = build_runs_directory(store)
    path = directory / f"{base}-{state.applied}.run"
    temporary = path.with_name(f"{path.name}.new-{os.getpid()}")
    with translate_errors(Path(store), "write a sorted run"):
        with suppress(FileExistsError):
            seam.call("dir.make", os.mkdir, directory, 0o750)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = seam.call("file.open", os.open, temporary, flags, store.stat().st_mode & 0o777)
        try:
            # This lock shows other processes that the file does not belong to a dead process.
            fcntl.flock(fd, fcntl.LOCK_EX)
            _fill_run(fd, state, base, count, parts, seam, kind)
            seam.call("file.rename", os.rename, temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
    return path


def is_being_written(path: Path) -> bool:
    """Return whether a living process is writing the file at ``path``, which is not a run yet."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _fill_run(
    fd: int, state: StoreMeta, base: int, count: int, parts: Iterable[Changes], seam: Seam, kind: int
) -> None:
    """Write each part to its three places immediately, so that only one is in memory; write the header at the end."""
    raw = encode_meta(state)
    start = _align_size(_HEAD.size + len(raw) + _CRC.size)
    at = start + 16 * count
    done = size = deletions = keys_crc = ends_crc = 0
    for keys, values in parts:
        if None in values:
            deletions += values.count(None)
        filled = [value or b"" for value in values]
        if kind == EVERY_CHANGE_KIND:
            deletions += sum(value[0] & TOMBSTONE_FLAG == TOMBSTONE_FLAG for value in filled)
        numbers = array("Q", b"".join(keys))
        numbers.byteswap()  # keys are big-endian; in the byte order of this machine they are searched in place
        ends = array("Q", accumulate(map(len, filled), initial=size))[1:]
        keys_crc, ends_crc = crc32(numbers.tobytes(), keys_crc), crc32(ends.tobytes(), ends_crc)
        _write_piece(fd, numbers.tobytes(), start + 8 * done, seam)
        _write_piece(fd, ends.tobytes(), start + 8 * (count + done), seam)
        size += _write_piece(fd, b"".join(filled), at + size, seam)
        done += len(keys)
    assert done == count, "parts have as many keys as was said"
    head = _HEAD.pack(MAGIC, VERSION, kind, len(raw), base, count, deletions, size, keys_crc, ends_crc) + raw
    head += _CRC.pack(crc32(head))
    _write_piece(fd, head.ljust(start, b"\0"), 0, seam)


def _align_size(size: int) -> int:
    return size + -size % _ALIGNMENT_BYTES


def _write_piece(fd: int, piece: bytes, at: int, seam: Seam) -> int:
    # pwrite(2) may write less than requested.
    rest = memoryview(piece)
    while rest:
        written = seam.call("file.pwrite", os.pwrite, fd, rest, at)
        rest, at = rest[written:], at + written
    return len(piece)


class SortedRun:
    """A mapped run. ``state`` is the meta record of a store with these changes; ``base`` the txid before them.

    Header, keys and ends of the values are verified on opening, each value on reading.
    """

    def __init__(self, path: Path) -> None:
        """Open a run. Raises BadRun, also for a missing file."""
        if sys.byteorder != "little":
            raise BadRun("runs are little-endian")
        self.path = path
        self.arrays = False
        """Whether numpy looks up keys: a bulk load looks up many, repeatedly. In a run of 400,000 keys it finds 8 in 4
        us instead of 5, 256 in 11 instead of 490."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                self.bytes = os.fstat(fd).st_size
                if self.bytes < _HEAD.size:
                    raise BadRun("too short")
                # Mapped instead of read: a lookup accesses only the pages that it needs. The file is only ever removed
                # as a whole, never truncated, so the mapped pages stay valid.
                self._map = mmap.mmap(fd, self.bytes, access=mmap.ACCESS_READ)
            finally:
                os.close(fd)
        except OSError as problem:
            raise BadRun(problem.strerror or str(problem)) from None
        view = memoryview(self._map)
        magic, version, kind, length, self.base, count, self.deletions, size, *crcs = _HEAD.unpack_from(view)
        end = _HEAD.size + length
        if magic != MAGIC or version != VERSION or kind not in (NEWEST_CHANGES_KIND, EVERY_CHANGE_KIND):
            raise BadRun("another format")
        if end + _CRC.size > self.bytes or crc32(view[:end]) != _CRC.unpack_from(view, end)[0]:
            raise BadRun("the header is damaged")
        start = _align_size(end + _CRC.size)
        middle, values = start + 8 * count, start + 16 * count
        if values + size != self.bytes or any(view[end + _CRC.size : start]):
            raise BadRun("it is not as long as its header says")
        if [crc32(view[start:middle]), crc32(view[middle:values])] != crcs:
            raise BadRun("keys or ends are damaged")
        self.every = kind == EVERY_CHANGE_KIND
        """Whether it has every change, not only the newest of each key."""
        try:
            self.state = decode_meta(bytes(view[_HEAD.size : end]), str(path))
        except SowError as problem:
            raise BadRun(problem.message) from None
        self._keys, self._ends, self._values = (
            view[start:middle].cast("Q"),
            view[middle:values].cast("Q"),
            view[values:],
        )

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self._keys)

    @property
    def last_txid(self) -> int:
        """The last txid of the run."""
        return self.state.applied

    def find_place(self, key: bytes, low: int = 0, *, after: bool = False) -> int:
        """Return the index of the first key from ``low`` on that is not before ``key``; with ``after``, that is after
        it."""
        return (bisect_right if after else bisect_left)(self._keys, int.from_bytes(key, "big"), low)

    def key_at(self, place: int) -> bytes:
        """Return the key at an index."""
        return self._keys[place].to_bytes(KEY_SIZE, "big")

    def read_changes(self, start: int, stop: int) -> Changes:
        """Return the changes from index ``start`` to ``stop`` (exclusive), verified; None for a deletion.

        The newest of several changes of one key is last. Raises BadRun.
        """
        keys, values = self._slice_values(start, stop)
        return keys, self._verify_values(keys, values)

    def read_all_changes(self, start: int, stop: int) -> tuple[list[bytes], list[bytes]]:
        """As :meth:`read_changes`, for a run that has every change; a deletion is a tombstone."""
        assert self.every
        keys, values = self._slice_values(start, stop)
        if find_damaged_values(keys, values):
            raise BadRun("a value is damaged")
        return keys, values

    def _slice_values(self, start: int, stop: int) -> tuple[list[bytes], list[bytes]]:
        count = stop - start
        if count <= 0:
            return [], []
        raw = struct.pack(f">{count}Q", *self._keys[start:stop])
        keys = [raw[at : at + KEY_SIZE] for at in range(0, len(raw), KEY_SIZE)]
        first = self._ends[start - 1] if start else 0
        ends = [end - first for end in self._ends[start:stop]]
        # One copy of all values, then slices of it: a slice of a mapped view costs more.
        piece = bytes(self._values[first : first + ends[-1]])
        return keys, [piece[at:end] for at, end in pairwise((0, *ends))]

    def find_values(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Return the newest values of the changed keys among ``keys``, in order. Raises BadRun."""
        places = self._find_places(keys)
        if not places:
            return {}
        ends, cut = self._ends, self._values
        found = [keys[number] for number, _ in places]
        values = [bytes(cut[ends[at - 1] if at else 0 : ends[at]]) for _, at in places]
        return dict(zip(found, self._verify_values(found, values), strict=True))

    def _find_places(self, keys: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return for each changed key among the ascending ``keys`` its index in ``keys`` and the index of its newest
        change."""
        if self.arrays and len(self._keys):
            import numpy as np

            own = np.frombuffer(self._keys, dtype="<u8")
            wanted = np.frombuffer(b"".join(keys), dtype=">u8").astype("<u8")
            # After the key: of equal ones the last is the newest.
            behind = np.maximum(own.searchsorted(wanted, side="right"), 1) - 1
            there = (own[behind] == wanted).nonzero()[0]
            return list(zip(there.tolist(), behind[there].tolist(), strict=True))
        places: list[tuple[int, int]] = []
        at = 0
        for number, key in enumerate(keys):
            at = self.find_place(key, at, after=True)
            if at and self._keys[at - 1] == int.from_bytes(key, "big"):
                places.append((number, at - 1))
        return places

    def _verify_values(self, keys: Sequence[bytes], values: list[bytes]) -> list[bytes | None]:
        """Return ``values`` with None for deletions; all non-empty values are verified."""
        if self.every or not self.deletions:
            if find_damaged_values(keys, values):
                raise BadRun("a value is damaged")
            if self.deletions:
                return [None if value[0] & TOMBSTONE_FLAG else value for value in values]
            return values  # type: ignore[return-value]  # a list of bytes, to which no caller adds
        live = [(key, value) for key, value in zip(keys, values, strict=True) if value]
        if live and find_damaged_values(*zip(*live, strict=True)):
            raise BadRun("a value is damaged")
        return [value or None for value in values]

    def check(self, size: int = 1000) -> None:
        """Read everything once. Raises BadRun."""
        last: tuple[bytes, int] = b"", 0
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            keys, values = self.read_all_changes(start, stop) if self.every else self.read_changes(start, stop)
            # Changes of one key are in txid order; in a run with unique keys, all count as one.
            txids = [read_stamps(value)[0] for value in values if value] if self.every else [0] * len(keys)
            places = [last, *zip(keys, txids, strict=True)]
            if any(after <= before for before, after in pairwise(places)):
                raise BadRun("its keys do not ascend")
            last = places[-1]


def count_distinct_keys(runs: Sequence[SortedRun]) -> int:
    """Count the distinct keys of several runs together. Imports numpy."""
    import numpy as np

    columns = [np.frombuffer(run._keys, dtype="<u8") for run in runs if len(run)]
    found, parts = 0, 1 + sum(map(len, columns)) // COUNT_BATCH_KEYS
    bounds = [number * (1 << 64) // parts for number in range(1, parts)]
    lows = [0] * len(columns)
    for bound in [*bounds, None]:
        # One part of the key space after the other: only its keys are in memory.
        highs = [len(own) if bound is None else int(own.searchsorted(np.uint64(bound))) for own in columns]
        some = [own[low:high] for own, low, high in zip(columns, lows, highs, strict=True)]
        found += len(sort_distinct(some))
        lows = highs
    return found


__all__ = [
    "EVERY_CHANGE_KIND",
    "NEWEST_CHANGES_KIND",
    "BadRun",
    "Changes",
    "SortedRun",
    "build_runs_directory",
    "count_distinct_keys",
    "find_run_files",
    "is_being_written",
    "write_run",
]
