"""SOW keys by the column: equal parts of their range, their order, the last occurrence of each.

SOW keys are hashes, so equal parts of the range of 64 bits hold about equally many records. A key's part is decided by
its upper 32 bits alone, everywhere: in buckets of a sort or a bulk load, in the shuffle of a fold on Spark, in the
ranges that processes and tasks read apart. Columns are numpy arrays of 64-bit numbers; this module itself imports no
numpy, so that a command that cuts the range for a few processes does not load it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from struct import Struct, unpack
from typing import Any, TypeAlias

import msgspec

PART_KEY_BITS = 32
"""Bits of a key that tell its part: with fewer than 2**32 parts, ``half * count`` stays within 64 bits."""

_WORDS_LAYOUT = Struct("8s" * 256)


class KeyspaceLimits(msgspec.Struct):
    """Bounds of what is done with keys at once; tests set smaller ones."""

    sort_batch_keys: int = 1 << 20
    """Approximate number of keys that are sorted at once."""


KEYSPACE_LIMITS = KeyspaceLimits()
Words: TypeAlias = list[bytes] | bytes | memoryview
"""SOW keys or check words, 8 bytes each: one by one, or end to end."""
KeyBounds = tuple[bytes | None, bytes | None]
"""The keys from the first (inclusive) to the second (exclusive); None is no bound."""


def find_part(key: bytes, count: int) -> int:
    """The number of the part, of ``count`` equal ones, that an 8-byte key lies in."""
    return int.from_bytes(key[:4], "big") * count >> PART_KEY_BITS


def find_parts(keys: Any, count: int) -> Any:
    """:func:`find_part` for a numpy array of keys (uint64)."""
    # Numbers of the array's own type, so that the product stays within 64 bits without sign.
    word = keys.dtype.type
    return (keys >> word(PART_KEY_BITS)) * word(count) >> word(PART_KEY_BITS)


def compute_part_bounds(count: int) -> list[KeyBounds]:
    """Compute the key bounds of each of ``count`` parts; they agree with the part of every key."""
    # the least upper half h with h * count >> 32 == number, rounded up
    edges = [-(-(number << PART_KEY_BITS) // count) for number in range(1, count)]
    return list(pairwise([None, *((edge << PART_KEY_BITS).to_bytes(8, "big") for edge in edges), None]))


def iterate_parts(keys: Any, count: int) -> Iterator[tuple[int, Any]]:
    """Every part that has any of ``keys`` (uint64), with the places of its keys in the order in which they stand."""
    import numpy as np

    owners = find_parts(keys, count)
    order = owners.argsort(kind="stable")
    ends = np.searchsorted(owners[order], np.arange(count + 1, dtype=np.uint64))
    for number, (start, end) in enumerate(pairwise(ends.tolist())):
        if start < end:
            yield number, order[start:end]


def find_last_occurrences(keys: Any) -> Any:
    """The places of the last occurrence of every key of a numpy array (uint64), in key order."""
    import numpy as np

    count = -(-len(keys) // KEYSPACE_LIMITS.sort_batch_keys)
    if count <= 1:
        return _find_last_in_part(keys)
    # Part by part of the key space: what a sort needs besides, five numbers for each key, it needs for one part.
    found = []
    for start, stop in compute_part_bounds(count):
        mine = np.ones(len(keys), dtype=bool) if start is None else keys >= np.uint64(int.from_bytes(start, "big"))
        if stop is not None:
            mine &= keys < np.uint64(int.from_bytes(stop, "big"))
        places = mine.nonzero()[0]
        found.append(places[_find_last_in_part(keys[places])])
    return np.concatenate(found)


def _find_last_in_part(keys: Any) -> Any:
    import numpy as np

    if not len(keys):
        return np.zeros(0, dtype=np.intp)
    # The sort need not be stable: of each run of equal keys the highest place is taken, wherever in the run it came.
    order = keys.argsort()
    ordered = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return np.maximum.reduceat(order, begins)


def compute_stable_order(keys: Any) -> Any:
    """The places of ``keys`` in ascending order, equal ones in the order in which they stand."""
    # The stable sort is the slower one, and most columns of keys have no key twice.
    order = keys.argsort()
    ascending = keys[order]
    return keys.argsort(kind="stable") if (ascending[1:] == ascending[:-1]).any() else order


def read_words(column: Any) -> list[bytes]:
    """The 8-byte words of a numpy array, as its bytes lie in memory."""
    return _cut_words(memoryview(column.tobytes()))


def split_words(words: Words) -> list[bytes]:
    """8-byte words, one by one."""
    return words if isinstance(words, list) else _cut_words(memoryview(words))


def join_words(words: Words) -> bytes:
    """8-byte words, end to end."""
    return b"".join(words) if isinstance(words, list) else bytes(words)


def _cut_words(raw: memoryview) -> list[bytes]:
    whole = len(raw) - len(raw) % _WORDS_LAYOUT.size
    # Slices of 1,000 words take three to seven times as long.
    rest = unpack("8s" * ((len(raw) - whole) // 8), raw[whole:])
    return [*chain.from_iterable(_WORDS_LAYOUT.iter_unpack(raw[:whole])), *rest]
