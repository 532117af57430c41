"""Files of keys and stored values that a task leaves for the driver or for other tasks (for the jobs).

The tasks of a fold, of a view and of a new store write them into a staging directory; whoever puts a store together,
reads a state or writes a data set reads them, part by part, so that none is ever in memory as a whole.
``sowctl-pipeline(1)``, STAGING.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from struct import Struct

from sowctl.engine.fold.spill import Pairs
from sowctl.errors import DamageError, StorageError

PART = 1000
"""Pairs of one part, at most, where a task cuts them."""
_HEAD = Struct("<QQ")
"""Before every part of a file: the number of its pairs, and the bytes of its values."""


def in_parts(pairs: list[tuple[bytes, bytes]]) -> Iterator[Pairs]:
    """Pairs in parts, as :func:`write_pairs` takes them."""
    for start in range(0, len(pairs), PART):
        part = pairs[start : start + PART]
        yield [key for key, _ in part], [value for _, value in part]


def write_pairs(path: Path, parts: Iterator[Pairs]) -> tuple[int, int]:
    """A file of keys and stored values in parts; returns how many pairs and how many bytes of values there are."""
    import numpy as np

    count = total = 0
    try:
        with path.open("wb") as file:
            for keys, values in parts:
                lengths = np.fromiter(map(len, values), dtype="<u4", count=len(values))
                size = int(lengths.sum(dtype=np.uint64))
                file.write(b"".join([_HEAD.pack(len(keys), size), *keys, lengths.tobytes(), *values]))
                count += len(keys)
                total += size
    except OSError as problem:
        raise StorageError(
            "SOW-SPK-060",
            f"a staged file cannot be written: {problem.strerror or problem}",
            place=str(path),
            hint="make room there, or give another --staging directory",
        ) from problem
    return count, total


def read_pairs(path: Path) -> Iterator[Pairs]:
    """What :func:`write_pairs` wrote, part by part. Raises DamageError ``SOW-SPK-061`` for a file that is cut."""
    import numpy as np

    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            count, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, -1)
            keys, lengths, values = file.read(8 * count), file.read(4 * count), file.read(max(size, 0))
            if len(values) != size:
                raise DamageError("SOW-SPK-061", "a staged file is incomplete", place=str(path))
            ends = accumulate(np.frombuffer(lengths, dtype="<u4").tolist(), initial=0)
            yield (
                [keys[at : at + 8] for at in range(0, len(keys), 8)],
                [values[start:end] for start, end in pairwise(ends)],
            )
