"""A filter of the keys in a store and its runs: a session that flushes to runs consults it before it searches for keys.

It has one slot for each value of a key's upper bits: SOW keys are hashes, so they are distributed evenly. An empty slot
proves that the key does not exist; a filled one proves nothing. The merge that writes the store fills it, then every
run; it is discarded if other processes have written. The lookups of 6,000,000 distinct keys took 19.1 s without it, and
take 9.6 s with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

FILTER_SLOT_BITS = 24
"""16 MiB of slots: with 6,000,000 keys, three in ten missing keys have a filled slot."""


class KeyFilter:
    """Slots by the upper bits of 8-byte keys. Imports numpy."""

    def __init__(self) -> None:
        import numpy

        self._np = numpy
        self._slots = numpy.zeros(1 << FILTER_SLOT_BITS, dtype=bool)

    def add_keys(self, keys: Iterable[bytes]) -> None:
        """Add keys."""
        self._slots[self._compute_slots(keys)] = True

    def select_possible(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the ``keys`` that may be in the filter, in their order; all others are not in it."""
        return list(compress(keys, self._slots[self._compute_slots(keys)].tolist()))

    def _compute_slots(self, keys: Iterable[bytes]) -> Any:
        np = self._np
        return np.frombuffer(b"".join(keys), ">u8").astype(np.uint64) >> np.uint64(64 - FILTER_SLOT_BITS)
