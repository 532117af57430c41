"""A filter of the keys in a store and its runs: a session that flushes to runs consults it before it searches for keys.

It has one bit for each value of a key's upper bits: SOW keys are hashes, so they are distributed evenly. A bit that is
not set proves that the key does not exist; a set bit proves nothing. The merge that writes the store sets the bits of
its keys, then every run those of its own; the filter is discarded if other processes have written. A publish of
10,500,000 distinct keys takes 111 s of processor time with it, and 155 with one of an eighth of the bits, where half of
the last keys were searched for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

FILTER_KEY_BITS = 27
"""Upper bits of a key that select a bit: 16 MiB of bits, of which 10,000,000 keys set one in fourteen."""
_BYTE_BITS = 3


class KeyFilter:
    """Bits by the upper bits of 8-byte keys. Imports numpy."""

    def __init__(self) -> None:
        import numpy

        self._np = numpy
        self._bytes = numpy.zeros(1 << (FILTER_KEY_BITS - _BYTE_BITS), dtype=numpy.uint8)

    def add_keys(self, keys: Iterable[bytes]) -> None:
        """Add keys."""
        places, bits = self._locate_bits(keys)
        # Two keys may have bits of one byte: an assignment would lose one of them.
        self._np.bitwise_or.at(self._bytes, places, bits)

    def select_possible(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the ``keys`` that may be in the filter, in their order; all others are not in it."""
        places, bits = self._locate_bits(keys)
        return list(compress(keys, (self._bytes[places] & bits).tolist()))

    def _locate_bits(self, keys: Iterable[bytes]) -> tuple[Any, Any]:
        """Return the index of the byte of each key, and its bit in that byte."""
        np = self._np
        numbers = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64) >> np.uint64(64 - FILTER_KEY_BITS)
        numbers = numbers.astype(np.int64)
        return numbers >> _BYTE_BITS, (1 << (numbers & (1 << _BYTE_BITS) - 1)).astype(np.uint8)
