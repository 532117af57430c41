"""The values of one path with their frequencies: all of them within the memory budget, estimates beyond it.

The paths of a request share a :class:`TallyBudget`. If their values exceed it, the path with the most values switches
to a sketch: HyperLogLog for their number, and for the most frequent ones the counters of Misra and Gries (1982), whose
counts are too low by at most a known number. Values are equal if the expression language compares them as equal numbers
or texts: 1 and 1.0 are one value, 1 and ``"1"`` two. TRUE and FALSE are counted separately from numbers.

Called by :mod:`sowctl.engine.profile.path_profile` and the verb ``stats``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import xxhash
from msgspec import Struct

from sowctl.engine.profile.hyperloglog import STANDARD_ERROR, HyperLogLog

MAX_HELD_VALUES = 500_000
"""Maximum values kept by all paths of a request together: about 60 MB."""
MAX_FREQUENT_VALUES = 256
"""Counters for the most frequent values of a path that uses a sketch."""
MAX_TEXT_CHARACTERS = 100
"""Characters of a text that are kept; longer texts are distinguished by their hashes of 128 bits."""

ScalarValue = str | int | float


class ClippedText(Struct, frozen=True):
    """A text too long to keep: its beginning, and the hash of all of it."""

    begins: str
    hashed: bytes


class DistinctCount(Struct, frozen=True):
    """The number of distinct values; ``error`` is the standard error of an estimate, 0 if it is exact."""

    count: int
    error: float


class FrequentValue(Struct, frozen=True):
    """A value (of a long text the beginning and ``...``) that occurs ``count`` times, and at most ``missed`` times
    more."""

    value: ScalarValue | bool
    count: int
    missed: int


class Tally:
    """Counts the values of one path. ``top``: track the most frequent values even if not all can be kept."""

    def __init__(self, room: TallyBudget, *, top: bool = False) -> None:
        self.booleans = [0, 0]
        self.held: Counter[ScalarValue | ClippedText] = Counter()
        self.examples: list[ScalarValue | bool] = []
        self._top = top
        self._missed = 0
        self._sketch: HyperLogLog | None = None
        room.tallies.append(self)

    @property
    def is_exact(self) -> bool:
        """True if all distinct values are kept."""
        return self._sketch is None

    def add_booleans(self, values: Sequence[bool]) -> None:
        """Count booleans."""
        true = sum(values)
        self.booleans[True] += true
        self.booleans[False] += len(values) - true
        if len(self.examples) < 3:
            self._count_values(dict.fromkeys(values))

    def add_values(self, values: Sequence[ScalarValue]) -> None:
        """Count numbers or texts; ``values`` are all of one kind."""
        if not values:
            return
        keys: Sequence[ScalarValue | ClippedText] = values
        if type(values[0]) is str and max(map(len, values)) > MAX_TEXT_CHARACTERS:  # type: ignore[arg-type]  # all are texts
            keys = [_clip_text(value) if len(value) > MAX_TEXT_CHARACTERS else value for value in values]  # type: ignore[arg-type]
        if len(self.examples) < 3:
            self._count_values(dict.fromkeys(keys))
        if self._sketch is None:
            self.held.update(keys)
            return
        counts = Counter(keys)
        self._sketch.add_hashes(map(_hash_value, counts))
        if self._top:
            self.held.update(counts)
            self._drop_rare_values()

    def _count_values(self, values: dict[ScalarValue | ClippedText, None] | dict[bool, None]) -> None:
        for value in values:
            shown = _format_value(value)
            if len(self.examples) < 3 and not any(
                shown == known and type(shown) is type(known) for known in self.examples
            ):
                self.examples.append(shown)

    def switch_to_sketch(self) -> None:
        """Drop the values, and estimate from now on."""
        self._sketch = HyperLogLog()
        self._sketch.add_hashes(map(_hash_value, self.held))
        if self._top:
            self._drop_rare_values()
        else:
            self.held = Counter()

    def _drop_rare_values(self) -> None:
        """Keep the :data:`MAX_FREQUENT_VALUES` most frequent values; subtract the count of the next one from each."""
        if len(self.held) <= MAX_FREQUENT_VALUES:
            return
        ranked = self.held.most_common(MAX_FREQUENT_VALUES + 1)
        # The bound of Misra and Gries, as Agarwal and others (2012) merge such summaries: no count is too low by more
        # than the sum of all subtractions, and no dropped value was more frequent than that.
        less = ranked[MAX_FREQUENT_VALUES][1]
        self._missed += less
        self.held = Counter({value: count - less for value, count in ranked[:MAX_FREQUENT_VALUES] if count > less})

    def count_distinct(self) -> DistinctCount:
        """Return the number of distinct values."""
        truths = sum(map(bool, self.booleans))
        if self._sketch is None:
            return DistinctCount(len(self.held) + truths, 0.0)
        return DistinctCount(self._sketch.estimate_distinct() + truths, STANDARD_ERROR)

    def list_frequent(self, count: int) -> list[FrequentValue]:
        """Return the most frequent values; of equally frequent ones, those that occurred first."""
        found = [
            FrequentValue(_format_value(value), number, self._missed) for value, number in self.held.most_common(count)
        ]
        found += [FrequentValue(truth, self.booleans[truth], 0) for truth in (True, False) if self.booleans[truth]]
        return sorted(found, key=lambda one: -one.count)[:count]


class TallyBudget:
    """The memory bound of all tallies of one request."""

    def __init__(self, held: int = MAX_HELD_VALUES) -> None:
        self.limit = held
        self.tallies: list[Tally] = []

    def enforce(self) -> None:
        """Switch the largest tallies to sketches until the bound is kept. Called after each batch."""
        exact = [tally for tally in self.tallies if tally.is_exact]
        held = sum(len(tally.held) for tally in exact)
        # The largest goes first: most paths stay exact, and estimates are for the paths with the most values.
        for tally in sorted(exact, key=lambda one: -len(one.held)):
            if held <= self.limit:
                return
            held -= len(tally.held)
            tally.switch_to_sketch()


def _clip_text(text: str) -> ClippedText:
    return ClippedText(text[:MAX_TEXT_CHARACTERS], xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass")))


def _format_value(value: ScalarValue | ClippedText | bool) -> ScalarValue | bool:
    return f"{value.begins}..." if isinstance(value, ClippedText) else value


def _hash_value(value: ScalarValue | ClippedText) -> int:
    if isinstance(value, ClippedText):
        return xxhash.xxh3_64_intdigest(value.hashed, 1)
    if isinstance(value, str):
        return xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass"), 2)
    # Equal numbers have equal hashes in Python, whatever their types, in every process; they only have to be spread.
    return xxhash.xxh3_64_intdigest(hash(value).to_bytes(8, "big", signed=True), 3)
