"""The values of one path, and how often each occurs: all of them as long as there is room, estimates beyond.

The paths of a question share a :class:`Room`. Where their values outgrow it, the path with the most values keeps a
sketch of them instead: HyperLogLog for their number, and for the most frequent ones the counters of Misra and Gries
(1982), whose counts are too low by a known number at most. Values are equal where the language has them equal as
numbers or as texts: 1 and 1.0 are one value, 1 and ``"1"`` two. TRUE and FALSE are counted apart from numbers.

Called by :mod:`sowctl.engine.profile.shape` and the verb ``stats``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import xxhash
from msgspec import Struct

from sowctl.engine.profile.hyperloglog import ERROR, HyperLogLog

HELD = 500_000
"""Values that all paths of a question hold together: about 60 MB."""
TOP = 256
"""Counters for the most frequent values of a path whose values are not all held."""
LONGEST = 100
"""Characters of a text that are held; longer texts are told apart by their hashes of 128 bits."""

Value = str | int | float


class ClippedText(Struct, frozen=True):
    """A text too long to be held: its beginning, and the hash of all of it."""

    begins: str
    hashed: bytes


class Distinct(Struct, frozen=True):
    """How many different values there are; ``error`` is the standard error of an estimate, 0 where it is exact."""

    count: int
    error: float


class Frequent(Struct, frozen=True):
    """A value (of a long text the beginning and ``...``) that occurs ``count`` times, and ``missed`` more at most."""

    value: Value | bool
    count: int
    missed: int


class Tally:
    """Counts the values of one path. ``top``: also which are the most frequent ones, when not all can be held."""

    def __init__(self, room: Room, *, top: bool = False) -> None:
        self.booleans = [0, 0]
        self.held: Counter[Value | ClippedText] = Counter()
        self.examples: list[Value | bool] = []
        self._top = top
        self._missed = 0
        self._sketch: HyperLogLog | None = None
        room.tallies.append(self)

    @property
    def is_exact(self) -> bool:
        """Whether all different values are held."""
        return self._sketch is None

    def add_booleans(self, values: Sequence[bool]) -> None:
        """Count truths."""
        true = sum(values)
        self.booleans[True] += true
        self.booleans[False] += len(values) - true
        if len(self.examples) < 3:
            self._note(dict.fromkeys(values))

    def add(self, values: Sequence[Value]) -> None:
        """Count numbers or texts, all of ``values`` of one kind."""
        if not values:
            return
        keys: Sequence[Value | ClippedText] = values
        if type(values[0]) is str and max(map(len, values)) > LONGEST:  # type: ignore[arg-type]  # all are texts
            keys = [_cut(value) if len(value) > LONGEST else value for value in values]  # type: ignore[arg-type]
        if len(self.examples) < 3:
            self._note(dict.fromkeys(keys))
        if self._sketch is None:
            self.held.update(keys)
            return
        counts = Counter(keys)
        self._sketch.add(map(_hash, counts))
        if self._top:
            self.held.update(counts)
            self._thin()

    def _note(self, values: dict[Value | ClippedText, None] | dict[bool, None]) -> None:
        for value in values:
            shown = _shown(value)
            if len(self.examples) < 3 and not any(
                shown == known and type(shown) is type(known) for known in self.examples
            ):
                self.examples.append(shown)

    def sketch(self) -> None:
        """Let go of the values, and estimate from now on."""
        self._sketch = HyperLogLog()
        self._sketch.add(map(_hash, self.held))
        if self._top:
            self._thin()
        else:
            self.held = Counter()

    def _thin(self) -> None:
        """Keep the :data:`TOP` most frequent values: what the next one has is taken from the count of each."""
        if len(self.held) <= TOP:
            return
        ranked = self.held.most_common(TOP + 1)
        # The law of Misra and Gries, as Agarwal and others (2012) merge such summaries: no count is too low by more
        # than all that was taken so far, and what is gone was never more frequent than that.
        less = ranked[TOP][1]
        self._missed += less
        self.held = Counter({value: count - less for value, count in ranked[:TOP] if count > less})

    def distinct(self) -> Distinct:
        """How many different values there are."""
        truths = sum(map(bool, self.booleans))
        if self._sketch is None:
            return Distinct(len(self.held) + truths, 0.0)
        return Distinct(self._sketch.estimate() + truths, ERROR)

    def frequent(self, count: int) -> list[Frequent]:
        """The most frequent values, those that came first before others as frequent."""
        found = [Frequent(_shown(value), number, self._missed) for value, number in self.held.most_common(count)]
        found += [Frequent(truth, self.booleans[truth], 0) for truth in (True, False) if self.booleans[truth]]
        return sorted(found, key=lambda one: -one.count)[:count]


class Room:
    """What the tallies of one question may hold together."""

    def __init__(self, held: int = HELD) -> None:
        self.limit = held
        self.tallies: list[Tally] = []

    def settle(self) -> None:
        """Make room where there is none left. Called after each batch."""
        exact = [tally for tally in self.tallies if tally.is_exact]
        held = sum(len(tally.held) for tally in exact)
        # The largest goes first: most of the paths stay exact, and those that do not have the most to be estimated.
        for tally in sorted(exact, key=lambda one: -len(one.held)):
            if held <= self.limit:
                return
            held -= len(tally.held)
            tally.sketch()


def _cut(text: str) -> ClippedText:
    return ClippedText(text[:LONGEST], xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass")))


def _shown(value: Value | ClippedText | bool) -> Value | bool:
    return f"{value.begins}..." if isinstance(value, ClippedText) else value


def _hash(value: Value | ClippedText) -> int:
    if isinstance(value, ClippedText):
        return xxhash.xxh3_64_intdigest(value.hashed, 1)
    if isinstance(value, str):
        return xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass"), 2)
    # Equal numbers have equal hashes in Python, whatever their types, in every process; they only have to be spread.
    return xxhash.xxh3_64_intdigest(hash(value).to_bytes(8, "big", signed=True), 3)
