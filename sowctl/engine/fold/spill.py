"""Sorts stored values by key in bounded memory; also the format of files of keys and values, and temporary storage.

SOW keys are hashes, so dividing their range evenly divides the data evenly. Data that fits into one bucket stays in
memory. Otherwise buckets go to unnamed temporary files, and are read back and sorted one after the other. Values of a
key keep their order.
"""

from __future__ import annotations

import marshal
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import accumulate, pairwise
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import IO, Any, Protocol

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.errors import StorageError
from sowctl.identity.keyspace import compute_stable_order, find_last_occurrences, iterate_parts, read_words

Pairs = tuple[list[bytes], list[bytes]]
"""Keys of 8 bytes and stored values, in parallel."""

MIN_WRITE_BYTES = 4096
"""Minimum bytes in a bucket's buffer before it is written."""
_PART_HEADER = Struct("<QQ")
"""Before every part of a file: the number of its pairs, and the bytes of its values."""


class Readable(Protocol):
    """A file that is read sequentially."""

    def read(self, size: int, /) -> bytes:
        """Read ``size`` bytes; fewer at the end."""
        ...


def encode_part(keys: bytes, values: Sequence[bytes]) -> bytes:
    """Encode a part of a file of pairs: header, keys of 8 bytes back to back, lengths of the values, values."""
    import numpy as np

    lengths = np.fromiter(map(len, values), dtype="<u4", count=len(values))
    return b"".join((_PART_HEADER.pack(len(values), int(lengths.sum(dtype="u8"))), keys, lengths.tobytes(), *values))


def read_parts(file: Readable) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield the parts of a file of pairs: keys back to back, and values. Raises EOFError if the file is truncated."""
    import numpy as np

    while head := file.read(_PART_HEADER.size):
        if len(head) < _PART_HEADER.size:
            raise EOFError
        count, size = _PART_HEADER.unpack(head)
        keys, lengths, raw = file.read(8 * count), file.read(4 * count), file.read(size)
        # The values are last: if they are complete, so is everything before them.
        if len(raw) < size or len(lengths) < 4 * count:
            raise EOFError
        ends = accumulate(np.frombuffer(lengths, dtype="<u4").tolist(), initial=0)
        yield keys, [raw[start:end] for start, end in pairwise(ends)]


class SortBuckets:
    """Sorts keys and values by key; up to ``limit`` of the ``expected`` bytes stay in memory."""

    def __init__(self, directory: Path, expected: int, limit: int) -> None:
        import numpy

        self._np = numpy
        self._count = 1 if expected <= limit else -(-expected // min(limit, FOLD_LIMITS.max_bucket_file_bytes))
        self._keys: list[list[bytes]] = [[] for _ in range(self._count)]
        self._values: list[list[bytes]] = [[] for _ in range(self._count)]
        self._sizes = [0] * self._count
        # Writes are large, and all buffers together do not exceed the memory limit.
        self._buffer_bytes = min(FOLD_LIMITS.write_buffer_bytes, max(limit // self._count, MIN_WRITE_BYTES))
        # Few files, because of the limit on open files; but several, because each is removed after it was read.
        self._file_count = min(self._count, FOLD_LIMITS.max_bucket_files)
        self._offsets: list[list[int]] = [[] for _ in range(self._count)]
        self._files: list[IO[bytes]] = []
        self._stack = ExitStack()
        self._directory = directory

    def __enter__(self) -> SortBuckets:
        if self._count > 1:
            self._files = [
                # In the directory of the new store, whose file system needs room for the store anyway; unnamed, so that
                # a crash leaves no file.
                self._stack.enter_context(tempfile.TemporaryFile(dir=self._directory))  # noqa: SIM115 - closed by the stack
                for _ in range(self._file_count)
            ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add_values(self, keys: bytes, values: list[bytes]) -> None:
        """Add values; ``keys`` are their keys, of 8 bytes each, back to back."""
        # With one bucket, all data fits into memory: nothing is divided or written.
        if self._count == 1:
            self._keys[0].append(keys)
            self._values[0] += values
            return
        numbers = self._np.frombuffer(keys, dtype=">u8")
        # Within a bucket, values keep their order, in memory and in the file: after a stable sort, the values of a key
        # are in txid order.
        for bucket, places in iterate_parts(numbers.astype(self._np.uint64), self._count):
            chosen = [values[place] for place in places.tolist()]
            self._keys[bucket].append(numbers[places].tobytes())
            self._values[bucket] += chosen
            self._sizes[bucket] += sum(map(len, chosen))
            if self._sizes[bucket] >= self._buffer_bytes:
                self._spill_bucket(bucket)

    def iterate_sorted(self, size: int) -> Iterator[Pairs]:
        """Yield everything in key order, in parts of at most ``size`` pairs."""
        return self._iterate_chosen(size, compute_stable_order)

    def iterate_last(self, size: int) -> Iterator[Pairs]:
        """As :meth:`iterate_sorted`, with only the last added value of every key."""
        return self._iterate_chosen(size, find_last_occurrences)

    def _iterate_chosen(self, size: int, choose: Callable[[Any], Any]) -> Iterator[Pairs]:
        for keys, values in self._iterate_buckets():
            order = choose(keys.astype(self._np.uint64))
            for start in range(0, len(order), size):
                part = order[start : start + size]
                yield read_words(keys[part]), [values[place] for place in part.tolist()]

    def iterate_timelines(self, size: int) -> Iterator[list[tuple[bytes, list[bytes]]]]:
        """Yield all values of every key, in the order of adding, by key; several keys with about ``size`` values at a
        time."""
        for keys, values in self._iterate_buckets():
            order = compute_stable_order(keys.astype(self._np.uint64))
            ordered = keys[order]
            starts = self._np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
            ends = [0, *starts.tolist(), len(order)] if len(order) else []
            names = read_words(ordered[ends[:-1]]) if ends else []
            in_order = [values[place] for place in order.tolist()]
            some: list[tuple[bytes, list[bytes]]] = []
            first = 0
            for name, (start, stop) in zip(names, pairwise(ends), strict=True):
                some.append((name, in_order[start:stop]))
                if stop - first >= size:
                    yield some
                    some, first = [], stop
            if some:
                yield some

    def _iterate_buckets(self) -> Iterator[tuple[Any, list[bytes]]]:
        """Yield keys (as their bytes in memory) and values, bucket by bucket: sorting each bucket sorts all data."""
        # Buckets are ascending ranges of keys.
        for bucket in range(self._count):
            raw, values = self._load_bucket(bucket)
            yield self._np.frombuffer(raw, dtype=">u8"), values

    def _find_file(self, bucket: int) -> int:
        return bucket * self._file_count // self._count

    def _spill_bucket(self, bucket: int) -> None:
        file = self._files[self._find_file(bucket)]
        try:
            self._offsets[bucket].append(file.tell())
            file.write(encode_part(b"".join(self._keys[bucket]), self._values[bucket]))
        except OSError as problem:
            raise _describe_write_failure(problem, self._directory) from problem
        self._keys[bucket], self._values[bucket], self._sizes[bucket] = [], [], 0

    def _load_bucket(self, bucket: int) -> tuple[bytes, list[bytes]]:
        """Return keys and values of a bucket, from its file and from memory, and empty the bucket."""
        keys: list[bytes] = []
        values: list[bytes] = []
        if self._count > 1:
            number = self._find_file(bucket)
            file = self._files[number]
            for offset in self._offsets[bucket]:
                file.seek(offset)
                raw, part = next(read_parts(file))
                keys.append(raw)
                values += part
            if bucket + 1 == self._count or self._find_file(bucket + 1) != number:
                file.close()
        # Unwritten values were added last.
        keys += self._keys[bucket]
        values += self._values[bucket]
        self._keys[bucket], self._values[bucket] = [], []
        return b"".join(keys), values


class Spool:
    """Tuples of plain values (types of :mod:`marshal`), read any number of times in the order of adding.

    If they exceed ``spool_memory_bytes``, they are kept in an unnamed temporary file in ``directory``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        memory = FOLD_LIMITS.spool_memory_bytes
        self._file = tempfile.SpooledTemporaryFile(memory, dir=str(directory))  # noqa: SIM115 - see __exit__
        self._count = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing writes buffered data, which may fail again; the failure was reported before.
        with suppress(OSError):
            self._file.close()

    def __len__(self) -> int:
        return self._count

    def add(self, item: tuple[Any, ...]) -> None:
        """Add a tuple; not allowed after reading. Raises StorageError ``SOW-ENG-040``."""
        try:
            self._file.write(marshal.dumps(item))
        except OSError as problem:
            raise _describe_write_failure(problem, self._directory) from problem
        self._count += 1

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        try:
            self._file.seek(0)  # flushes the buffer
        except OSError as problem:
            raise _describe_write_failure(problem, self._directory) from problem
        for _ in range(self._count):
            yield marshal.load(self._file)


class PartFiles:
    """Values in unnamed files, one per part, each read in the order of adding.

    Values are encoded with :mod:`pickle`; no other process reads or writes them. ``directory`` None: the default
    temporary directory.
    """

    def __init__(self, count: int, directory: Path | None = None) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._files: list[IO[bytes]] = []
        with ExitStack() as stack:
            for _ in range(count):
                self._files.append(stack.enter_context(tempfile.TemporaryFile(dir=directory)))
            self._stack = stack.pop_all()

    def __len__(self) -> int:
        return len(self._files)

    def close(self) -> None:
        """Remove the files."""
        # Closing writes buffered data, which may fail again; the failure was reported before.
        with suppress(OSError):
            self._stack.close()

    def add_value(self, part: int, value: object) -> None:
        """Add a value to a part. Raises StorageError ``SOW-ENG-040``."""
        try:
            pickle.dump(value, self._files[part], pickle.HIGHEST_PROTOCOL)
        except OSError as problem:
            raise _describe_write_failure(problem, self._directory or Path(tempfile.gettempdir())) from problem

    def read_values(self, part: int) -> Iterator[Any]:
        """Yield the values of a part. Raises StorageError ``SOW-ENG-040``."""
        file = self._files[part]
        try:
            end = file.seek(0, os.SEEK_END)  # flushes the buffer
            file.seek(0)
        except OSError as problem:
            raise _describe_write_failure(problem, self._directory or Path(tempfile.gettempdir())) from problem
        while file.tell() < end:
            yield pickle.load(file)


def _describe_write_failure(problem: OSError, directory: Path) -> StorageError:
    return StorageError(
        "SOW-ENG-040",
        f"cannot write a temporary file: {problem.strerror or problem}",
        place=str(directory),
        hint="free space on this file system",
    )
