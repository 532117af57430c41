"""Columns of SOW keys: equal parts of their range, their order, the last occurrence of each key.

SOW keys are hashes, so equal parts of the 64-bit range have about the same number of records. The part of a key depends
only on its upper 32 bits, everywhere: in buckets of a sort or a bulk load, in the shuffle of a fold on Spark, in the
ranges that processes and tasks read separately. Columns are numpy arrays of 64-bit numbers; this module itself does not
import numpy, so that a command that divides the range between a few processes does not import it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from struct import Struct, unpack
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    import numpy

PART_KEY_BITS = 32
"""Bits of a key that determine its part: with fewer than 2**32 parts, ``half * count`` stays within 64 bits."""
MAX_PARTS = (1 << PART_KEY_BITS) - 1

_WORDS_LAYOUT = Struct("8s" * 256)


class KeyspaceLimits(msgspec.Struct):
    """Limits on the number of keys processed at once; tests set smaller ones."""

    sort_batch_keys: int = 1 << 20
    """Approximate number of keys that are sorted at once."""


KEYSPACE_LIMITS = KeyspaceLimits()
Words: TypeAlias = list[bytes] | bytes | memoryview
"""SOW keys or check words, 8 bytes each: as a list, or end to end."""
KeyBounds = tuple[bytes | None, bytes | None]
"""The keys from the first (inclusive) to the second (exclusive); None means no bound."""


def find_part(key: bytes, count: int) -> int:
    """Return the number of the part, of ``count`` equal ones, that contains an 8-byte key."""
    return int.from_bytes(key[:4], "big") * count >> PART_KEY_BITS


def find_parts(keys: Any, count: int) -> Any:
    """:func:`find_part` for a numpy array of keys (uint64)."""
    # Numbers of the array's own type, so that the product stays within unsigned 64 bits.
    word = keys.dtype.type
    return (keys >> word(PART_KEY_BITS)) * word(count) >> word(PART_KEY_BITS)


def compute_part_bounds(count: int) -> list[KeyBounds]:
    """Return the key bounds of each of ``count`` parts; they agree with :func:`find_part` for every key."""
    # The smallest upper half h with h * count >> 32 == number, rounded up.
    edges = [-(-(number << PART_KEY_BITS) // count) for number in range(1, count)]
    return list(pairwise([None, *((edge << PART_KEY_BITS).to_bytes(8, "big") for edge in edges), None]))


def iterate_parts(keys: Any, count: int) -> Iterator[tuple[int, Any]]:
    """Yield every part that has any of ``keys`` (uint64), with the indexes of its keys in their order."""
    import numpy as np

    owners = find_parts(keys, count)
    order = owners.argsort(kind="stable")
    ends = np.searchsorted(owners[order], np.arange(count + 1, dtype=np.uint64))
    for number, (start, end) in enumerate(pairwise(ends.tolist())):
        if start < end:
            yield number, order[start:end]


def find_last_occurrences(keys: Any) -> Any:
    """Return the indexes of the last occurrence of every key of a numpy array (uint64), in key order."""
    import numpy as np

    count = -(-len(keys) // KEYSPACE_LIMITS.sort_batch_keys)
    if count <= 1:
        return _find_last_in_part(keys)
    # Part by part of the key space: the additional memory of a sort, five numbers per key, is needed for one part only.
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
    # The sort need not be stable: of each run of equal keys the highest index is used, wherever in the run it is.
    order = keys.argsort()
    ordered = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return np.maximum.reduceat(order, begins)


def compute_stable_order(keys: Any) -> Any:
    """Return the indexes of ``keys`` in ascending order, equal ones in their original order."""
    # The stable sort is slower, and most columns of keys have no duplicates.
    order = keys.argsort()
    ascending = keys[order]
    return keys.argsort(kind="stable") if (ascending[1:] == ascending[:-1]).any() else order


def sort_distinct(arrays: Sequence[numpy.ndarray[Any, Any]]) -> numpy.ndarray[Any, Any]:
    """Return the distinct numbers of some arrays, at least one, ascending.

    ``numpy.unique`` has a hash table for this, and takes 1.5 us for each of 480,000 numbers in eight ascending arrays,
    which the stable sort merges in 0.02.
    """
    import numpy as np

    ascending = np.sort(np.concatenate(arrays), kind="stable")
    return ascending[np.append(True, ascending[1:] != ascending[:-1])] if len(ascending) else ascending


def read_words(column: Any) -> list[bytes]:
    """Return the 8-byte words of a numpy array in memory order."""
    return _cut_words(memoryview(column.tobytes()))


def split_words(words: Words) -> list[bytes]:
    """Return 8-byte words as a list."""
    return words if isinstance(words, list) else _cut_words(memoryview(words))


def join_words(words: Words) -> bytes:
    """Return 8-byte words end to end."""
    return b"".join(words) if isinstance(words, list) else bytes(words)


def _cut_words(raw: memoryview) -> list[bytes]:
    whole = len(raw) - len(raw) % _WORDS_LAYOUT.size
    # Slices of 1,000 words take three to seven times as long.
    rest = unpack("8s" * ((len(raw) - whole) // 8), raw[whole:])
    return [*chain.from_iterable(_WORDS_LAYOUT.iter_unpack(raw[:whole])), *rest]
