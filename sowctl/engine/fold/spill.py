"""Sorting stored values by key in bounded memory.

SOW keys are hashes, so cutting their range evenly cuts the data evenly. What fits into one bucket stays in memory.
Otherwise every bucket is a temporary file without a name, read back and sorted one after the other. Within a key the
order of arrival is kept.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import accumulate, pairwise
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import IO, Any

from sowctl.errors import StorageError

Pairs = tuple[list[bytes], list[bytes]]
"""Keys of 8 bytes and stored values, in parallel."""

_CHUNK = Struct("<QQ")
"""Before every part of a file: the number of its pairs, and the bytes of its values."""
WRITE_BYTES = 1 << 20


class Buckets:
    """Keys and values in, the same in key order out; ``expected`` bytes make buckets of about ``limit``."""

    def __init__(self, directory: Path, expected: int, limit: int) -> None:
        import numpy

        self._np = numpy
        self._count = max(1, -(-expected // limit))
        self._keys: list[list[bytes]] = [[] for _ in range(self._count)]
        self._values: list[list[bytes]] = [[] for _ in range(self._count)]
        self._sizes = [0] * self._count
        self._files: list[IO[bytes]] = []
        self._stack = ExitStack()
        self._directory = directory

    def __enter__(self) -> Buckets:
        if self._count > 1:
            self._files = [
                self._stack.enter_context(tempfile.TemporaryFile(dir=self._directory))  # noqa: SIM115 - closed by the stack
                for _ in range(self._count)
            ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, keys: bytes, values: list[bytes]) -> None:
        """Add values; ``keys`` are theirs, of 8 bytes each, back to back."""
        if self._count == 1:
            self._keys[0].append(keys)
            self._values[0] += values
            return
        np = self._np
        numbers = np.frombuffer(keys, dtype=">u8")
        owners = (numbers >> np.uint64(32)) * np.uint64(self._count) >> np.uint64(32)
        order = np.argsort(owners, kind="stable")
        ends = np.searchsorted(owners[order], np.arange(self._count + 1, dtype=np.uint64))
        for bucket, (start, end) in enumerate(pairwise(ends.tolist())):
            if start == end:
                continue
            places = order[start:end]
            chosen = [values[place] for place in places.tolist()]
            self._keys[bucket].append(numbers[places].tobytes())
            self._values[bucket] += chosen
            self._sizes[bucket] += sum(map(len, chosen))
            if self._sizes[bucket] >= WRITE_BYTES:
                self._spill(bucket)

    def sorted(self, size: int) -> Iterator[Pairs]:
        """Everything in key order, in parts of at most ``size`` pairs."""
        for bucket in range(self._count):
            raw, values = self._load(bucket)
            keys = self._np.frombuffer(raw, dtype=">u8")
            order = self._order(keys.astype(self._np.uint64))
            for start in range(0, len(order), size):
                part = order[start : start + size]
                yield words(keys[part]), [values[place] for place in part.tolist()]

    def _order(self, numbers: Any) -> Any:
        """The places of ``numbers`` in ascending order; equal ones stay in theirs, which takes a slower sort."""
        order = numbers.argsort()
        ascending = numbers[order]
        return numbers.argsort(kind="stable") if (ascending[1:] == ascending[:-1]).any() else order

    def _spill(self, bucket: int) -> None:
        keys, values = self._keys[bucket], self._values[bucket]
        lengths = self._np.fromiter(map(len, values), dtype="<u4", count=len(values))
        head = _CHUNK.pack(len(values), int(lengths.sum(dtype="u8")))
        try:
            self._files[bucket].write(b"".join([head, *keys, lengths.tobytes(), *values]))
        except OSError as problem:
            raise StorageError(
                "SOW-ENG-040",
                f"a temporary file cannot be written: {problem.strerror or problem}",
                place=str(self._directory),
                hint="make room on this file system",
            ) from problem
        self._keys[bucket], self._values[bucket], self._sizes[bucket] = [], [], 0

    def _load(self, bucket: int) -> tuple[bytes, list[bytes]]:
        """Keys and values of a bucket, which is empty then: those of its file, and those not yet written."""
        keys: list[bytes] = []
        values: list[bytes] = []
        if self._count > 1:
            file = self._files[bucket]
            file.seek(0)
            while head := file.read(_CHUNK.size):
                count, size = _CHUNK.unpack(head)
                keys.append(file.read(8 * count))
                lengths = self._np.frombuffer(file.read(4 * count), dtype="<u4").tolist()
                raw = file.read(size)
                values += [raw[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]
            file.close()
        keys += self._keys[bucket]
        values += self._values[bucket]
        self._keys[bucket], self._values[bucket] = [], []
        return b"".join(keys), values


def words(column: Any) -> list[bytes]:
    """The 8-byte words of a numpy array."""
    raw = column.tobytes()
    return [raw[at : at + 8] for at in range(0, len(raw), 8)]
