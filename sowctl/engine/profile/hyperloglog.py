"""HyperLogLog: the number of distinct values, estimated with 4,096 small counters (Flajolet and others, 2007).

The first 12 bits of a value's hash select a counter; the counter keeps the longest run of leading zeros of the
remaining bits. The estimate is that of Ertl (arXiv:1702.01284, "New cardinality estimation algorithms for HyperLogLog
sketches", algorithm 6), which requires no correction tables and is valid from 0 to 2**64 values. The standard error is
1.04 / sqrt(4096), about 1.6 %.

Called by :mod:`sowctl.engine.profile.tally`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

INDEX_BITS = 12
COUNTER_COUNT = 1 << INDEX_BITS
STANDARD_ERROR = 1.04 / math.sqrt(COUNTER_COUNT)
"""The relative standard error."""
_REMAINING_BITS = 64 - INDEX_BITS


class HyperLogLog:
    """Estimates the number of distinct hashes added."""

    def __init__(self) -> None:
        self._counters = np.zeros(COUNTER_COUNT, np.uint8)

    def add_hashes(self, hashes: Iterable[int]) -> None:
        """Add values by their 64-bit hashes."""
        found = np.fromiter(hashes, np.uint64)
        places = (found >> np.uint64(_REMAINING_BITS)).astype(np.int64)
        rest = found & np.uint64((1 << _REMAINING_BITS) - 1)
        # 52 bits are exact as a double, whose exponent is the number of bits up to the first one set.
        lengths = np.frexp(rest.astype(np.float64))[1]
        np.maximum.at(self._counters, places, (_REMAINING_BITS + 1 - lengths).astype(np.uint8))

    def estimate_distinct(self) -> int:
        """Return the estimated number of distinct values."""
        counts = np.bincount(self._counters, minlength=_REMAINING_BITS + 2).tolist()
        found = COUNTER_COUNT * _tau(1 - counts[_REMAINING_BITS + 1] / COUNTER_COUNT)
        for place in range(_REMAINING_BITS, 0, -1):
            found = 0.5 * (found + counts[place])
        found += COUNTER_COUNT * _sigma(counts[0] / COUNTER_COUNT)
        return 0 if math.isinf(found) else round(COUNTER_COUNT * COUNTER_COUNT / (2 * math.log(2) * found))


def _sigma(part: float) -> float:
    """Return Ertl's correction for counters that are still zero."""
    if part == 1:
        return math.inf
    weight, total, before = 1.0, part, -1.0
    while total != before:
        part *= part
        before = total
        total += part * weight
        weight += weight
    return total


def _tau(part: float) -> float:
    """Return Ertl's correction for saturated counters."""
    if part in (0.0, 1.0):
        return 0.0
    weight, total, before = 1.0, 1 - part, -1.0
    while total != before:
        part = math.sqrt(part)
        before = total
        weight *= 0.5
        total -= (1 - part) ** 2 * weight
    return total / 3
