"""Sorting stored values by key in bounded memory.

SOW keys are hashes, so cutting their range evenly cuts the data evenly. What fits into one bucket stays in memory.
Otherwise every bucket is a temporary file without a name, read back and sorted one after the other. Within a key the
order of arrival is kept.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import IO

from sowctl.errors import StorageError

_FRAME = Struct(">8sI")
WRITE_BYTES = 1 << 20


class Buckets:
    """Keys and values in, the same in key order out; ``expected`` bytes make buckets of about ``limit``."""

    def __init__(self, directory: Path, expected: int, limit: int) -> None:
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

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        """Add pairs."""
        if self._count == 1:
            self._keys[0] += keys
            self._values[0] += values
            return
        for key, value in zip(keys, values, strict=True):
            bucket = int.from_bytes(key, "big") * self._count >> 64
            self._keys[bucket].append(key)
            self._values[bucket].append(value)
            self._sizes[bucket] += len(value)
            if self._sizes[bucket] >= WRITE_BYTES:
                self._spill(bucket)

    def _spill(self, bucket: int) -> None:
        parts = []
        for key, value in zip(self._keys[bucket], self._values[bucket], strict=True):
            parts.append(_FRAME.pack(key, len(value)))
            parts.append(value)
        try:
            self._files[bucket].write(b"".join(parts))
        except OSError as problem:
            raise StorageError(
                "SOW-ENG-040",
                f"a temporary file cannot be written: {problem.strerror or problem}",
                place=str(self._directory),
                hint="make room on this file system",
            ) from problem
        self._keys[bucket], self._values[bucket], self._sizes[bucket] = [], [], 0

    def sorted(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Everything in key order, a bucket at a time."""
        for bucket in range(self._count):
            if self._count > 1:
                self._spill(bucket)
                self._load(bucket)
            keys, values = self._keys[bucket], self._values[bucket]
            self._keys[bucket], self._values[bucket] = [], []
            order = sorted(range(len(keys)), key=keys.__getitem__)
            yield (
                list(itemgetter(*order)(keys)) if len(order) > 1 else keys,
                (list(itemgetter(*order)(values)) if len(order) > 1 else values),
            )

    def _load(self, bucket: int) -> None:
        file = self._files[bucket]
        file.seek(0)
        raw = file.read()
        file.close()
        at = 0
        while at < len(raw):
            key, size = _FRAME.unpack_from(raw, at)
            at += _FRAME.size
            self._keys[bucket].append(key)
            self._values[bucket].append(raw[at : at + size])
            at += size
