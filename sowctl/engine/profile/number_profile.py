"""The numbers of one path: count, minimum, maximum, mean, quantiles, histogram, in bounded memory.

All numbers are kept while the paths of a request fit into their budget (:class:`NumberBudget`); then quantiles are
exact. If they exceed it, the path with the most numbers switches to the sketch of Manku, Rajagopalan and Lindsay
(1998): buffers of sorted numbers, of which every second one represents two when a buffer is full. Each such step
changes a rank by at most the weight of one number of that buffer; the sum of these bounds is known, and is reported as
``error``.

Called by the verb ``stats``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from sowctl.values.scalars import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

MAX_HELD_NUMBERS = 8_000_000
"""Maximum numbers kept by all paths of a request together: 64 MB."""
SKETCH_BUFFER_NUMBERS = 2048
"""Numbers in a buffer of a sketch."""
QUANTILE_RANKS = (0.05, 0.25, 0.5, 0.75, 0.95)
_WIDE_NUMBER_COST = 5
"""Memory for an integer that does not fit a double, relative to that for a double."""


class HistogramBar(Struct, frozen=True):
    """The numbers from ``low`` (inclusive) to ``high`` (exclusive; inclusive in the last bar)."""

    low: float
    high: float
    count: int


class NumberProfile:
    """The numbers of one path. ``count`` are finite; ``infinite`` ones, too large for a double, are only counted."""

    def __init__(self, store: NumberBudget) -> None:
        self.count = 0
        self.infinite = 0
        self.minimum: int | float | None = None
        self.maximum: int | float | None = None
        self._whole = 0
        self._parts: list[float] = []
        self._held: list[Array] = []
        self._levels: list[list[Array]] | None = None
        self._keep_second: list[bool] = []
        self._moved = self._size = 0
        store.paths.append(self)

    @property
    def held_count(self) -> int:
        """The count of numbers kept individually; integers that fit no double count by their size."""
        return self._size if self._levels is None else 0

    @property
    def is_exact(self) -> bool:
        """True if all numbers are kept."""
        return self._levels is None

    @property
    def max_rank_error(self) -> float:
        """The maximum error of a quantile's rank as a share of all numbers."""
        return self._moved / self.count if self.count else 0.0

    @property
    def mean(self) -> float | None:
        """The arithmetic mean: sums are rounded once per batch. None if the sum is not a finite double."""
        total = _compute_sum([self._whole, *self._parts])
        return total / self.count if self.count and math.isfinite(total) else None

    def add_numbers(self, values: Sequence[int | float]) -> None:
        """Add the numbers of a batch."""
        if float in set(map(type, values)) and not all(map(math.isfinite, values)):
            finite = [value for value in values if math.isfinite(value)]
            self.infinite += len(values) - len(finite)
            values = finite
        if not values:
            return
        low, high = min(values), max(values)
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)
        self.count += len(values)
        if set(map(type, values)) == {int}:
            self._whole += sum(values)  # type: ignore[assignment]  # no double among them
        else:
            self._parts.append(_compute_sum(values))
        wide = low < -MAX_EXACT_INTEGER or high > MAX_EXACT_INTEGER
        # Integers beyond the exact range of doubles are kept unchanged: quantiles are actual numbers of the data.
        wide = wide and any(
            type(value) is int and not -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER for value in values
        )
        taken = np.array(values, object if wide else np.float64)
        self._size += len(values) * (_WIDE_NUMBER_COST if wide else 1)
        if len(self._parts) > 1000:
            self._parts = [_compute_sum(self._parts)]
        self._held.append(taken)
        if self._levels is not None:
            self._move_to_sketch()

    def switch_to_sketch(self) -> None:
        """Drop the individual numbers, and estimate quantiles from now on."""
        self._levels = []
        self._move_to_sketch()

    def _move_to_sketch(self) -> None:
        assert self._levels is not None
        for taken in self._held:
            doubles = taken.astype(np.float64)
            for start in range(0, len(doubles), SKETCH_BUFFER_NUMBERS):
                self._add_to_level(0, doubles[start : start + SKETCH_BUFFER_NUMBERS])
        self._held = []

    def _add_to_level(self, level: int, some: Array) -> None:
        """Add numbers with a weight of ``2 ** level`` to the buffer of their level; merge a full buffer into the next
        level."""
        assert self._levels is not None
        if level == len(self._levels):
            self._levels.append([])
            self._keep_second.append(False)
        buffer = self._levels[level]
        buffer.append(some)
        if sum(map(len, buffer)) < 2 * SKETCH_BUFFER_NUMBERS:
            return
        joined = np.sort(np.concatenate(buffer))
        even = len(joined) // 2 * 2
        # The last one of an odd number remains. First and second of each pair are kept alternately, so that errors of
        # successive steps have both directions.
        self._levels[level] = [joined[even:]] if even < len(joined) else []
        second = self._keep_second[level]
        self._keep_second[level] = not second
        self._moved += 1 << level
        self._add_to_level(level + 1, joined[int(second) : even : 2])

    def _build_weighted_numbers(self) -> tuple[Array, Array]:
        """Return the numbers in ascending order, and their weights."""
        if self._levels is None:
            joined = self._join_held()
            return joined, np.ones(len(joined), np.int64)
        parts = [(np.concatenate(some), 1 << level) for level, some in enumerate(self._levels) if some]
        numbers = np.concatenate([some for some, _ in parts])
        weights = np.concatenate([np.full(len(some), weight, np.int64) for some, weight in parts])
        order = np.argsort(numbers, kind="stable")
        return numbers[order], weights[order]

    def _join_held(self) -> Array:
        if not self._held:
            return np.zeros(0)
        mixed = any(part.dtype == object for part in self._held)
        joined = np.concatenate([part.astype(object) for part in self._held] if mixed else self._held)
        joined.sort()
        self._held = [joined]
        return joined

    def compute_quantiles(self, ranks: Sequence[float] = QUANTILE_RANKS) -> list[int | float]:
        """Return for each rank p the smallest actual number that at least a share p of all numbers do not exceed."""
        if not self.count:
            return []
        numbers, weights = self._build_weighted_numbers()
        below = np.cumsum(weights)
        total = int(below[-1])
        places = [int(np.searchsorted(below, max(1, math.ceil(rank * total)))) for rank in ranks]
        return [self._convert_number(numbers[place]) for place in places]

    def _convert_number(self, number: Any) -> int | float:
        found = float(number) if not isinstance(number, int) else number
        # If all numbers were integers, so are those displayed.
        whole = not self._parts and isinstance(found, float) and found.is_integer()
        return int(found) if whole else found

    def build_histogram(self, bars: int) -> list[HistogramBar]:
        """Return about ``bars`` bars of one width, a round number, from below the minimum to above the maximum."""
        if not self.count or self.minimum is None or self.maximum is None:
            return []
        numbers, weights = self._build_weighted_numbers()
        edges = compute_edges(float(self.minimum), float(self.maximum), bars)
        counts, _ = np.histogram(numbers.astype(np.float64), edges, weights=weights)
        return [HistogramBar(low, high, int(count)) for low, high, count in zip(edges, edges[1:], counts, strict=False)]


class NumberBudget:
    """The memory bound of all numbers of one request."""

    def __init__(self, held: int = MAX_HELD_NUMBERS) -> None:
        self.limit = held
        self.paths: list[NumberProfile] = []

    def enforce(self) -> None:
        """Switch the largest paths to sketches until the bound is kept. Called after each batch."""
        exact = [path for path in self.paths if path.is_exact]
        held = sum(path.held_count for path in exact)
        for path in sorted(exact, key=lambda one: -one.held_count):
            if held <= self.limit:
                return
            held -= path.held_count
            path.switch_to_sketch()


def compute_edges(low: float, high: float, bars: int) -> list[float]:
    """Return the edges of at most ``bars`` + 1 bars that include ``low`` and ``high``: multiples of 1, 2 or 5 times a
    power of ten. One bar if all numbers are equal."""
    if low == high:
        return [low, high]
    width = (high / bars - low / bars) or math.ulp(high)
    if not math.isfinite(width):
        return [low, high]
    power = 10.0 ** math.floor(math.log10(width))
    for step in (power * by for by in (1, 2, 5, 10, 20) if power * by >= width * (1 - 1e-9)):
        first, last = math.floor(low / step), math.ceil(high / step)
        # A quotient may be too small for a double: then the maximum is beyond the computed edge.
        last += last * step < high
        # The maximum belongs to the last bar, and may be its upper edge.
        edges = [float(f"{place * step:.12g}") for place in range(first, min(last, first + bars + 2) + 1)]
        # Large numbers that differ little have no distinct round edges between them.
        rising = 2 <= len(edges) <= bars + 2 and len(set(edges)) == len(edges) and all(map(math.isfinite, edges))
        if rising and edges[0] <= low and high <= edges[-1]:
            return edges
    return [low, high]


def _compute_sum(values: Sequence[int | float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        # The sum of finite doubles overflows: no mean is reported either.
        return math.inf
