"""A filter of the keys in a store and its runs: a session that flushes to runs consults it before it searches for keys.

It is a Bloom filter whose two hashes are parts of the key: SOW keys are hashes, so they are distributed evenly. A bit
that is not set proves that the key does not exist; two set bits prove nothing. The merge that writes the store sets the
bits of its keys, then every run those of its own; the filter is discarded if other processes have written. A publish
of 10,500,000 distinct keys takes 99 s of processor time, with one hash 103. With a byte for each value of 24 bits, half
of the last keys were searched for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

FILTER_KEY_BITS = 27
"""Bits of a key that select a bit of the filter, which has 16 MiB: 10,000,000 keys set one in seven, so that one in
fifty missing keys is searched for."""
_KEY_SHIFTS = (64 - FILTER_KEY_BITS, 64 - 2 * FILTER_KEY_BITS)
_BYTE_BITS = 3


class KeyFilter:
    """Bits by two parts of 8-byte keys. Imports numpy."""

    def __init__(self) -> None:
        import numpy

        self._np = numpy
        self._bytes = numpy.zeros(1 << (FILTER_KEY_BITS - _BYTE_BITS), dtype=numpy.uint8)

    def add_keys(self, keys: Iterable[bytes]) -> None:
        """Add keys."""
        for places, bits in self._locate_bits(keys):
            # Two keys may have bits of one byte: an assignment would lose one of them.
            self._np.bitwise_or.at(self._bytes, places, bits)

    def select_possible(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the ``keys`` that may be in the filter, in their order; all others are not in it."""
        first, second = ((self._bytes[places] & bits) != 0 for places, bits in self._locate_bits(keys))
        return list(compress(keys, (first & second).tolist()))

    def _locate_bits(self, keys: Iterable[bytes]) -> Iterator[tuple[Any, Any]]:
        """Yield, for each part of the keys, the index of the byte of each key, and its bit in that byte."""
        np = self._np
        words = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
        for shift in _KEY_SHIFTS:
            numbers = (words >> np.uint64(shift)).astype(np.int64) & (1 << FILTER_KEY_BITS) - 1
            yield numbers >> _BYTE_BITS, (1 << (numbers & (1 << _BYTE_BITS) - 1)).astype(np.uint8)
