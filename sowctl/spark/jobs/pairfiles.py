"""Files of keys and stored values that a task leaves for the driver or for other tasks (for the jobs).

The tasks of a fold, of a view and of a new store write them into a staging directory. Jobs that put a store
together, read a state or write a data set read them part by part, so that none is ever in memory as a whole.
``sowctl-pipeline(1)``, STAGING.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sowctl.engine.fold.spill import Pairs, packed, parts_in
from sowctl.errors import DamageError, StorageError

PART = 1000
"""Pairs of one part, at most, where a task cuts them."""


def in_parts(pairs: list[tuple[bytes, bytes]]) -> Iterator[Pairs]:
    """Pairs in parts, as :func:`write_pairs` takes them."""
    for start in range(0, len(pairs), PART):
        part = pairs[start : start + PART]
        yield [key for key, _ in part], [value for _, value in part]


def write_pairs(path: Path, parts: Iterator[Pairs]) -> tuple[int, int]:
    """A file of keys and stored values in parts; returns how many pairs and how many bytes of values there are."""
    count = total = 0
    try:
        with path.open("wb") as file:
            for keys, values in parts:
                # A part without pairs is the end mark, so an empty one is left out on the way.
                if keys:
                    file.write(packed(b"".join(keys), values))
                    count += len(keys)
                    total += sum(map(len, values))
            # A file that is cut between two parts would be a whole one otherwise.
            file.write(packed(b"", []))
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
    with path.open("rb") as file:
        try:
            for keys, values in parts_in(file):
                if not keys:
                    return
                # SOW keys are 8 bytes each, written side by side.
                yield [keys[at : at + 8] for at in range(0, len(keys), 8)], values
        except EOFError as problem:
            raise _incomplete(path) from problem
    raise _incomplete(path)


def _incomplete(path: Path) -> DamageError:
    return DamageError("SOW-SPK-061", "a staged file is incomplete", place=str(path))
