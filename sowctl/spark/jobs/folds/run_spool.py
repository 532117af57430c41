"""Spool for runs larger than a task's memory: cut into parts of the key space, on the task's local disk.

A reduce task of :mod:`sowctl.spark.jobs.folds.distributed_fold` adds its runs in the order of the shuffle, and reads
them part by part, in key order; in each part, the entries of a key are in txid order.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING

from sowctl.identity.keyspace import iterate_parts
from sowctl.spark.jobs.folds.runs import Run, encode_stream, merge_runs, read_stream
from sowctl.spark.jobs.limits import JOB_LIMITS

if TYPE_CHECKING:
    import pyarrow


class RunSpool:
    """Runs of several topics, in ``parts`` parts. The key space has ``count`` parts in total, of which the first one in
    this spool is ``first``."""

    def __init__(self, first: int, parts: int, count: int) -> None:
        self._first, self._parts, self._count = first, parts, count
        self._held: dict[int, list[Run]] = {}
        self._size = 0
        self._file: IO[bytes] | None = None
        self._places: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def __enter__(self) -> RunSpool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, run: Run) -> None:
        """Add a run; runs may be added in any order."""
        self._held.setdefault(run.topic, []).append(run)
        self._size += len(run.entries)
        if self._parts > 1 and self._size >= JOB_LIMITS.spool_buffer_bytes:
            self._cut()

    def list_topics(self) -> list[int]:
        """Return the topics that have runs."""
        return sorted({*self._held, *(topic for topic, _ in self._places)})

    def read_parts(self, topic: int) -> Iterator[tuple[int, pyarrow.Table]]:
        """Yield the entries of a topic by part: the part's number, and a table with the entries of each key in txid
        order. Can be read only once.
        """
        import pyarrow as pa

        if self._file is None:
            if held := self._held.pop(topic, []):
                # In each run the entries of a key are in txid order, and stretches do not overlap.
                yield 0, merge_runs(held)
            return
        self._cut()
        for part in range(self._parts):
            places = self._places.pop((topic, part), [])
            if places:
                table = pa.concat_tables([read_stream(self._read(*place)) for place in places]).combine_chunks()
                # Pieces that were cut at different times are not in txid order.
                yield part, table.take(pa.array(table["txid"].to_numpy().argsort()))

    def _cut(self) -> None:
        """Write the buffered runs to the file, separated by part."""
        import pyarrow as pa

        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=find_local_directory())  # noqa: SIM115 - closed at the end of the task
        for topic, runs in self._held.items():
            table = merge_runs(runs)
            for number, places in iterate_parts(table["key"].to_numpy(), self._count):
                raw = encode_stream(table.take(pa.array(places)))
                self._places.setdefault((topic, number - self._first), []).append((self._file.tell(), len(raw)))
                self._file.write(raw)
        self._held, self._size = {}, 0

    def _read(self, offset: int, size: int) -> bytes:
        assert self._file is not None
        end = self._file.tell()
        self._file.seek(offset)
        raw = self._file.read(size)
        self._file.seek(end)
        return raw


def find_local_directory() -> str | None:
    """Return the first of Spark's local directories on this machine; None if it is not set or not writable."""
    named = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return named if named and os.access(named, os.W_OK) else None
