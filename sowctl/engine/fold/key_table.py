"""The last entry of every key, looked up by key, in bounded memory.

A change feed looks up the records that a part of the journal replaces; they may have any earlier key. Entries that
exceed the memory limit go to sorted runs in unnamed temporary files, as in an LSM tree: runs of similar size are merged
into one. A lookup reads the pieces of each run that may contain the keys, newest run first.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sowctl.engine.fold.last_per_key import LastPerKey
from sowctl.engine.fold.limits import FOLD_LIMITS, count_runs_to_compact
from sowctl.errors import StorageError
from sowctl.identity.keyspace import find_last_occurrences

if TYPE_CHECKING:
    from sowctl.engine.fold.blocks import EntrySpan
    from sowctl.journal.block import Block
    from sowctl.values.topicref import TopicRef

_ENTRY_BYTES = 16
"""Bytes of an entry in a run: its key, then its txid times two, plus one for a publish; unsigned, little-endian."""


class KeyTable:
    """The txid of the last entry of every key, and whether that is a publish. Entries are added in txid order.

    In memory are up to ``table_entries`` of them, 17 bytes each, and one key per ``table_piece_entries`` of a run.
    """

    def __init__(self) -> None:
        self._recent = LastPerKey()
        self._runs: list[_Run] = []
        self._flushed = 0
        self._flushed_latest = 0

    @property
    def entries(self) -> int:
        """The number of added entries."""
        return self._flushed + self._recent.entries

    @property
    def latest(self) -> int:
        """The time of the last entry, microseconds UTC; 0 for none."""
        return max(self._flushed_latest, self._recent.latest)

    def add_block(self, block: Block, ref: TopicRef, span: EntrySpan) -> None:
        """Add the entries of a block. Raises StorageError ``SOW-ENG-040`` if a run cannot be written."""
        self._recent.add_block(block, ref, span)
        if self._recent.entries >= FOLD_LIMITS.table_entries:
            self._flush()

    def add_entries(self, later: LastPerKey) -> None:
        """Add the entries of ``later``, all newer than those added before. Raises as :meth:`add_block`."""
        if self._recent.entries + later.entries >= FOLD_LIMITS.table_entries:
            self._flush()
            self._recent = later
            self._flush()
        elif later.entries:
            columns, facts = later.list_columns(), (later.entries, later.latest, later.last_txid)
            self._recent.add_columns(*columns, entries=facts[0], latest=facts[1], last_txid=facts[2])

    def find_record_txids(self, keys: Any) -> Any:
        """Return the txids, ascending, of the records of ``keys`` (a numpy array of uint64, unique, ascending)."""
        import numpy as np

        found = [_none()]
        recent = _join_words(*self._recent.build_table())
        searches = [iter([(recent, slice(None))] if len(recent) else [])]
        searches += [run.iterate_pieces_with(keys) for run in reversed(self._runs)]
        missing = np.ones(len(keys), bool)
        for pieces in searches:
            for piece, span in pieces:
                own = piece[:, 0]
                places = np.minimum(own.searchsorted(keys[span]), len(piece) - 1)
                # Keys found in a newer run are ignored here.
                there = (own[places] == keys[span]) & missing[span]
                found.append(_select_records(piece[places[there], 1]))
                missing[span] &= ~there
        return np.sort(np.concatenate(found))

    def list_record_txids(self) -> Any:
        """Return the txids of all records, ascending, as a numpy array: 8 bytes each, in memory."""
        import numpy as np

        self._flush()
        if len(self._runs) > 1:
            self._runs = [_merge_runs(self._runs)]
        words = [piece[:, 1] for run in self._runs for piece in run.iterate_pieces()]
        return np.sort(
            np.concatenate([some[(some & np.uint64(1)) == 1] >> np.uint64(1) for some in words] or [_none()])
        )

    def _flush(self) -> None:
        recent = self._recent
        if not recent.entries:
            return
        self._flushed += recent.entries
        self._flushed_latest = max(self._flushed_latest, recent.latest)
        self._recent = LastPerKey()
        self._runs.append(_write_run(iter([_join_words(*recent.build_table())])))
        while (count := count_runs_to_compact([run.entries for run in self._runs])) > 1:
            self._runs[-count:] = [_merge_runs(self._runs[-count:])]


class _Run(NamedTuple):
    """Entries by key in a file; ``starts`` are the first keys of its pieces."""

    file: IO[bytes]
    entries: int
    starts: Any

    def read(self, start: int, stop: int) -> Any:
        """Return the entries at these indexes, as rows of two numbers."""
        import numpy as np

        raw = os.pread(self.file.fileno(), (stop - start) * _ENTRY_BYTES, start * _ENTRY_BYTES)
        return np.frombuffer(raw, "<u8").reshape(-1, 2)

    def iterate_pieces(self) -> Iterator[Any]:
        """Yield all entries, some pieces at a time."""
        size = FOLD_LIMITS.table_piece_entries * FOLD_LIMITS.table_read_pieces
        for start in range(0, self.entries, size):
            yield self.read(start, min(start + size, self.entries))

    def iterate_pieces_with(self, keys: Any) -> Iterator[tuple[Any, slice]]:
        """Yield the pieces that may contain any of the ascending ``keys``, with the slice of these keys. Consecutive
        pieces are read together."""
        import numpy as np

        size = FOLD_LIMITS.table_piece_entries
        owners = self.starts.searchsorted(keys, "right") - 1
        numbers, firsts = np.unique(owners, return_index=True)
        stops = [*firsts[1:].tolist(), len(keys)]
        begin = 0
        for at, number in enumerate(numbers.tolist()):
            last = at + 1 == len(numbers) or numbers[at + 1] != number + 1
            if number < 0:
                # Below the first key of all pieces.
                begin = at + 1
            elif last or at - begin + 1 == FOLD_LIMITS.table_read_pieces:
                span = slice(int(firsts[begin]), stops[at])
                yield self.read(int(numbers[begin]) * size, min((number + 1) * size, self.entries)), span
                begin = at + 1

    def find_place(self, key: Any) -> int:
        """Return the index of the first entry whose key is not below ``key``."""
        number = max(int(self.starts.searchsorted(key)) - 1, 0)
        size = FOLD_LIMITS.table_piece_entries
        piece = self.read(number * size, min((number + 1) * size, self.entries))
        return number * size + int(piece[:, 0].searchsorted(key))


def _write_run(pieces: Iterator[Any]) -> _Run:
    """Write a run of entries in key order. Raises StorageError ``SOW-ENG-040``."""
    import numpy as np

    count, starts = 0, []
    size = FOLD_LIMITS.table_piece_entries
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the run
        for piece in pieces:
            # The keys of those entries of the argument that begin a piece of the file.
            starts.append(piece[-count % size :: size, 0])
            count += len(piece)
            file.write(np.ascontiguousarray(piece, "<u8").data)
        file.flush()
    except OSError as problem:
        text = f"cannot write a temporary file: {problem.strerror}"
        raise StorageError("SOW-ENG-040", text, place=tempfile.gettempdir()) from problem
    return _Run(file, count, np.concatenate(starts or [_none()]))


def _merge_runs(runs: Sequence[_Run]) -> _Run:
    """Merge several runs, ordered from the oldest to the newest: the newest entry of each key remains."""
    merged = _write_run(_iterate_merged(runs))
    for run in runs:
        run.file.close()
    return merged


def _iterate_merged(runs: Sequence[_Run]) -> Iterator[Any]:
    import numpy as np

    # Keys are hashes, so edges that divide the longest run evenly divide all runs evenly.
    edges = max(runs, key=lambda run: run.entries).starts[:: FOLD_LIMITS.table_read_pieces][1:]
    places = [0] * len(runs)
    for edge in [*edges, None]:
        stops = [run.entries if edge is None else run.find_place(edge) for run in runs]
        rows = np.concatenate([run.read(*span) for run, *span in zip(runs, places, stops, strict=True)])
        places = stops
        yield rows[find_last_occurrences(np.ascontiguousarray(rows[:, 0]))]


def _join_words(keys: Any, txids: Any, publishes: Any) -> Any:
    """Return entries as rows of two numbers."""
    import numpy as np

    return np.stack((keys, (txids << np.uint64(1)) | publishes.astype(np.uint64)), axis=1)


def _select_records(words: Any) -> Any:
    """Return the txids of publishes: a key whose last entry is a deletion has no record."""
    import numpy as np

    return words[(words & np.uint64(1)) == 1] >> np.uint64(1)


def _none() -> Any:
    import numpy as np

    return np.zeros(0, np.uint64)
