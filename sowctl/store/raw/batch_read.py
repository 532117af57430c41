"""Many records of a mapped file at once: copied into one run of bytes, and verified there by one checksum.

For processes that have already imported numpy, and records that are far apart (``sow-memo(5)``, "Kind 5"); called by
:mod:`sowctl.store.raw.offset_read`.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from itertools import compress
from struct import unpack
from typing import Any, TypeAlias, overload

import numpy as np

from sowctl.checksum import crc32
from sowctl.store.codec import CRC_SIZE, HEADER_SIZE, KEY_SIZE, VALUE_OVERHEAD_BYTES, LazyValues
from sowctl.store.integrity import CRC_RESTART
from sowctl.store.limits import STORE_LIMITS

Array: TypeAlias = "np.ndarray[Any, Any]"
CACHE_LINE_BYTES = 64
"""Bytes that a processor fetches from memory at once."""
PREFETCH_BYTES = 1024
"""Prefetched bytes per value: the processor fetches the rest of longer values by itself."""
_BEHIND_BYTES = CRC_SIZE + len(CRC_RESTART)
_BEFORE_BYTES = KEY_SIZE + HEADER_SIZE


class BatchValues(LazyValues):
    """Valid values without optional parts in one run of bytes, from ``starts`` to ``stops``, and their payloads.

    A value is copied on demand.
    """

    __slots__ = ("_payloads", "_run", "_starts", "_stops")

    def __init__(self, run: bytes, starts: Array, stops: Array, payloads: list[bytes]) -> None:
        self._run = run
        self._starts = starts
        self._stops = stops
        self._payloads = payloads

    def __len__(self) -> int:
        return len(self._payloads)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> BatchValues: ...
    def __getitem__(self, place: int | slice) -> bytes | BatchValues:
        if isinstance(place, slice):
            return BatchValues(self._run, self._starts[place], self._stops[place], self._payloads[place])
        return self._run[self._starts[place] : self._stops[place]]

    def __iter__(self) -> Iterator[bytes]:
        return map(self._run.__getitem__, map(slice, self._starts.tolist(), self._stops.tolist()))

    def list_payloads(self) -> list[bytes]:
        """Return the payloads of all values."""
        return self._payloads

    def select_values(self, places: Sequence[int]) -> BatchValues:
        """Return some of the values."""
        payloads = [self._payloads[place] for place in places]
        return BatchValues(self._run, self._starts[places], self._stops[places], payloads)


def read_batch(
    data: mmap.mmap, keys: Sequence[bytes], starts: Array, sizes: Array, sums: bytes
) -> tuple[BatchValues, list[int]] | None:
    """Return the values of ``keys`` at ``starts``, with ``sizes`` (two int64 arrays) and checksums ``sums``, end to
    end.

    Returns those that are still there, and the indexes of the others. None if a batch cannot determine this: one is
    damaged or has optional parts, they are too large to be copied, or none is found.
    """
    expected = np.frombuffer(sums, "<u4")
    stops = starts + sizes
    # Offsets come from a file that may be damaged: they are checked against the map before numpy reads at them.
    if not len(keys) or int(starts.min()) < 0 or int(stops.max()) > len(data) or len(expected) != len(keys):
        return None
    if int(sizes.min()) < VALUE_OVERHEAD_BYTES or int(sizes.sum()) > STORE_LIMITS.max_run_bytes:
        return None
    # One numpy call accesses each cache line of each record once: the processor fetches many of them in parallel, while
    # the copies below would wait for one after the other.
    lines = np.arange(0, min(int(sizes.max()), PREFETCH_BYTES), CACHE_LINE_BYTES)
    np.frombuffer(data, np.uint8).take(starts[:, None] + lines, mode="clip")

    # A view of the file as overlapping 32-bit numbers that begin at every byte: one gather compares the last four bytes
    # of all values with the expected ones.
    there = np.ndarray((len(data) - CRC_SIZE + 1,), "<u4", data, 0, (1,))[stops - CRC_SIZE] == expected
    missing: list[int] = []
    if not there.all():
        missing = np.flatnonzero(~there).tolist()
        keys = list(compress(keys, there.tolist()))
        starts, sizes, stops, expected = starts[there], sizes[there], stops[there], expected[there]
    joined = _join_sound_values(data, keys, starts, sizes, stops, expected) if keys else None
    return None if joined is None else (joined, missing)


def _join_sound_values(
    data: mmap.mmap, keys: Sequence[bytes], starts: Array, sizes: Array, stops: Array, expected: Array
) -> BatchValues | None:
    """Return all values, if they are valid and without optional parts.

    Between two payloads are the expected checksum of the first, the bytes that restart the checksum, and key and header
    of the second: so the checksum of the whole run proves that every value is the expected one.
    """
    count = len(keys)
    heads = np.ndarray((len(data) - HEADER_SIZE + 1, HEADER_SIZE), np.uint8, data, 0, (1, 1))[starts]
    # With flags or optional parts the payload does not follow the header directly; such values are read one by one.
    if heads[:, :4].any():
        return None
    between = np.empty((count + 1, _BEHIND_BYTES + _BEFORE_BYTES), np.uint8)
    between[1:, :CRC_SIZE] = expected.view(np.uint8).reshape(count, CRC_SIZE)
    between[:, CRC_SIZE:_BEHIND_BYTES] = np.frombuffer(CRC_RESTART, np.uint8)
    between[:-1, _BEHIND_BYTES : _BEHIND_BYTES + KEY_SIZE] = np.frombuffer(b"".join(keys), np.uint8).reshape(
        count, KEY_SIZE
    )
    between[:-1, _BEHIND_BYTES + KEY_SIZE :] = heads
    # The bytes between two payloads, as one piece per gap: the join below then has two parts per record instead of
    # five.
    pieces = unpack(f"{_BEHIND_BYTES + _BEFORE_BYTES}s" * (count + 1), between.data)
    slices = map(slice, (starts + HEADER_SIZE).tolist(), (stops - CRC_SIZE).tolist())
    payloads = list(map(data.__getitem__, slices))
    parts = [b""] * (2 * count + 1)
    parts[0::2], parts[1::2] = pieces, payloads
    parts[0], parts[-1] = pieces[0][_BEHIND_BYTES:], pieces[-1][:_BEHIND_BYTES]
    run = b"".join(parts)
    # 0 if and only if each value is valid under its key and has the expected checksum, for the reason given in
    # :func:`sowctl.store.integrity.build_sound_run`.
    if crc32(run):
        return None
    ends = np.cumsum(sizes + (KEY_SIZE + len(CRC_RESTART))) - len(CRC_RESTART)
    return BatchValues(run, ends - sizes, ends, payloads)


__all__ = ["BatchValues", "read_batch"]
