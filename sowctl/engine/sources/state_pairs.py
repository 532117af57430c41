"""Two states in one pass: the records of each key in pairs, in key order, in bounded memory.

Both sources are read batch by batch and split at the lower of their last keys, so at most two batches are in memory. A
pair whose stored values, or payloads, are equal byte by byte is skipped without being decoded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.store.codec import extract_payloads

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs

RecordPair = tuple[bytes, bytes | None, bytes | None]
"""A key, its stored value on the one side and on the other; None on a side without it, never on both."""


class PairStretch(Struct, frozen=True):
    """One stretch of the key space: the pairs that are not ``equal``, in key order, and the number of equal ones."""

    pairs: list[RecordPair]
    equal: int


def pair_states(before: Iterator[Pairs], after: Iterator[Pairs], *, stamps: bool = False) -> Iterator[PairStretch]:
    """Yield the records of two states, which are in key order without duplicate keys, stretch by stretch.

    Two records are equal if their payloads have the same bytes; with ``stamps``, if their whole stored values do.
    """
    old, new = _StateSide(before), _StateSide(after)
    while old.keys or new.keys:
        # After the lower of the two last keys, the other side's next batch may still have keys of this stretch.
        if not old.keys or not new.keys:
            stop = None
        else:
            stop = min(old.keys[-1], new.keys[-1])
        yield _pair_stretch(*old.take_until(stop), *new.take_until(stop), stamps)


class _StateSide:
    """The rest of one state: the part of the current batch that is not consumed yet."""

    def __init__(self, batches: Iterator[Pairs]) -> None:
        self._batches = batches
        self.keys: list[bytes] = []
        self._values: list[bytes] = []
        self._read_next_batch()

    def take_until(self, stop: bytes | None) -> Pairs:
        """Return the records with keys up to ``stop``; the whole batch if that is None."""
        cut = len(self.keys) if stop is None else bisect_right(self.keys, stop)
        keys, values = self.keys[:cut], self._values[:cut]
        self.keys, self._values = self.keys[cut:], self._values[cut:]
        self._read_next_batch()
        return keys, values

    def _read_next_batch(self) -> None:
        while not self.keys:
            batch = next(self._batches, None)
            if batch is None:
                return
            self.keys, self._values = list(batch[0]), list(batch[1])


def _pair_stretch(
    old_keys: list[bytes], old: list[bytes], new_keys: list[bytes], new: list[bytes], stamps: bool
) -> PairStretch:
    if old_keys == new_keys:
        # The common case: no key is on only one side, and most values are equal byte by byte.
        both = [row for row in zip(old_keys, old, new, strict=True) if row[1] != row[2]]
        pairs: list[RecordPair] = list(both) if stamps else _find_payload_differences(both)
        return PairStretch(pairs, len(old_keys) - len(pairs))
    there = dict(zip(new_keys, new, strict=True))
    known = dict(zip(old_keys, old, strict=True))
    both = [(key, value, there[key]) for key, value in known.items() if key in there and value != there[key]]
    pairs = list(both) if stamps else _find_payload_differences(both)
    common = known.keys() & there.keys()
    equal = len(common) - len(pairs)
    pairs += [(key, value, None) for key, value in known.items() if key not in common]
    pairs += [(key, None, value) for key, value in there.items() if key not in common]
    pairs.sort(key=_get_pair_key)
    return PairStretch(pairs, equal)


def _find_payload_differences(rows: list[tuple[bytes, bytes, bytes]]) -> list[RecordPair]:
    """Return the records with different payloads among those with different stored values."""
    olds, news = extract_payloads([old for _, old, _ in rows]), extract_payloads([new for _, _, new in rows])
    return [row for row, old, new in zip(rows, olds, news, strict=True) if old != new]


def _get_pair_key(pair: RecordPair) -> bytes:
    return pair[0]
