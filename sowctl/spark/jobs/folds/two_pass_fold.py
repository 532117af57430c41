"""A fold in two passes over the journal, without a shuffle: find the last entries, then read them (for the rebuild).

A single process writes all records of a store. If it can hold the txids of the journal, tasks first read only the key
columns and write the last txid of each key, and the driver merges these over all stretches. In the second pass, tasks
read the last entries, encode them as stored values, and write them to files by ranges of keys. The driver sorts each
range. Replaced payloads are never encoded, and no payload passes through Spark. A replay makes the same two passes with
the same functions (:mod:`sowctl.engine.fold.journal_fold`).

Larger journals, topics with History, and staging at a URL require :mod:`sowctl.spark.jobs.folds.distributed_fold`; this
fold exists only because it is faster. For 1,000,000 entries with 500,000 keys, alternating in one warm session on two
cores, a rebuild used 3.2 CPU seconds with this fold and 5.0 with the other. Spark's ``max_by`` with
``repartitionByRange``, which could replace both, used 7.9 without writing anything: without either fold, rebuilds would
take more than 10 % longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.fold.blocks import EntrySpan, read_winner_values
from sowctl.engine.fold.last_per_key import LastPerKey, fold_last_per_key
from sowctl.engine.fold.spill import Pairs, encode_part
from sowctl.identity.keyspace import iterate_parts
from sowctl.journal.stretch import find_spans
from sowctl.spark.jobs.folds.distributed_fold import FoldPlan, estimate_entry_bytes, plan_fold
from sowctl.spark.jobs.folds.key_sample import TxidSet, choose_sample
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.progress import Work
from sowctl.spark.jobs.tasks import create_gap_accumulator, format_attempt_name, report_gaps, run_tasks
from sowctl.spark.pairfiles import (
    build_incomplete_error,
    open_staged_file,
    read_part,
    translate_write_errors,
)
from sowctl.spark.reading.journalplan import PlannedStretch, open_journal
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal

_ROW = (("keys", "u8"), ("txids", "u8"), ("publishes", "?"))


class _Look(Struct, frozen=True):
    """Findings of the first pass for a topic in a stretch: number of entries, payload bytes, last time, first and last
    txid. The file contains, by columns, ``kept`` keys, the last txid of each, and whether that is a publish, followed
    by the first txids of ``blocks`` blocks."""

    path: str
    kept: int
    blocks: int
    entries: int
    size: int
    latest: int
    first_txid: int
    last_txid: int


class _TakePlan(Struct, frozen=True):
    """Entries to read from a stretch: per topic, a range in its file of txids and the number of key ranges."""

    stretch: PlannedStretch
    places: tuple[tuple[int, int], ...]
    buckets: tuple[int, ...]


class _Piece(Struct, frozen=True):
    """Records of a topic in a range of keys: the position in a file, the number of records, and bytes of their
    values."""

    topic: int
    bucket: int
    path: str
    offset: int
    count: int
    size: int


class TwoPassFold(DescribedStruct, frozen=True):
    """Result of the fold: per topic the number of entries folded, time and txid of the last one, and the pieces of its
    records by range of keys; the number of tasks; the txids of the records whose keys are to be checked."""

    entries: tuple[int, ...]
    latest: tuple[int, ...]
    last_txid: tuple[int, ...]
    pieces: tuple[tuple[tuple[_Piece, ...], ...], ...]
    partitions: int
    sample: TxidSet

    @property
    def bytes(self) -> int:
        """Bytes of the stored values of all records."""
        return sum(piece.size for rows in self.pieces for row in rows for piece in row)

    def read_records(self, topic: int) -> Iterator[Pairs]:
        """Yield keys and stored values of a topic in key order; only one range of keys is in memory at a time. Raises
        DamageError ``SOW-SPK-061`` and ``SOW-SPK-158``."""
        with _PieceFiles() as files:
            for bucket in self.pieces[topic]:
                # Each key has one record, so the order of the pieces does not matter. A range fits into memory.
                if bucket:
                    with fold_last_per_key(map(files.read, bucket), Path(bucket[0].path).parent, 0) as records:
                        yield from records


class _PieceFiles:
    """Files of pieces; the first ``max_open_files`` stay open until the ``with`` block ends."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._files: dict[str, IO[bytes]] = {}

    def __enter__(self) -> _PieceFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def read(self, piece: _Piece) -> tuple[bytes, list[bytes]]:
        """Return the concatenated keys of a piece, and its values. Raises DamageError ``SOW-SPK-061`` and
        ``SOW-SPK-158``."""
        path = Path(piece.path)
        with ExitStack() as once:
            file = self._files.get(piece.path)
            if file is None and len(self._files) < JOB_LIMITS.max_open_files:
                file = self._files[piece.path] = self._held.enter_context(open_staged_file(path))
            found = read_part(file or once.enter_context(open_staged_file(path)), piece.offset, path)
        if len(found[1]) != piece.count:
            raise build_incomplete_error(path)
        return found


def can_gather(log: Journal, topics: Sequence[TopicConfig], until: int) -> bool:
    """Return whether the two-pass fold is possible: the entries are within the limits, and no topic has History. Their
    size is estimated from a few blocks."""
    after = log.first_txid - 1
    if until - after > JOB_LIMITS.max_gather_txids or any(topic.history is not None for topic in topics):
        return False
    return (
        estimate_entry_bytes(find_spans(log.list_segments(), after, until, log.locate_txid), log.sample_header)
        <= JOB_LIMITS.max_gather_bytes
    )


def gather_records(
    spark: SparkSession,
    log: Journal,
    topics: Sequence[TopicConfig],
    directory: Path,
    *,
    until: int,
    at: int | None,
) -> TwoPassFold:
    """Fold the entries of ``topics`` up to ``until`` and ``at``, with files in ``directory``.

    Raises what reading the journal raises, StorageError ``SOW-SPK-060``, and DamageError for incomplete files.
    """
    plan, stretches = plan_fold(spark, log, topics, 0, until, at)
    gaps = create_gap_accumulator(spark)
    scanner = _KeyScanner(plan, str(directory), gaps)
    looks = run_tasks(spark, stretches, scanner, what="find the last entries", measure=_measure_looks)
    report_gaps(gaps, log.on_gap)
    # Results have the order of the stretches, so later ones have higher txids.
    found = [_merge_looks(plan, rows) for rows in zip(*looks, strict=True)] or [_build_empty_result(plan)] * len(topics)
    buckets, winners, sample = [], [], TxidSet(plan.after + 1, plan.until)
    for number, (last, size, starts) in enumerate(found):
        txids = last.list_record_txids()
        winners.append(txids)
        left = TxidSet(plan.after + 1, plan.until)
        left.add(txids)
        choose_sample(sample, starts, left)
        # As in a replay, the size of the records is estimated from the share of entries that remain.
        share = len(txids) / max(last.entries, 1)
        buckets.append(
            min(max(1, -(-int(size * share + 96 * len(txids)) // JOB_LIMITS.range_bytes)), JOB_LIMITS.max_ranges)
        )
        with translate_write_errors(path := _winner_path(directory, number)):
            txids.tofile(path)
    wanted = [_plan_take(stretch, row, winners, tuple(buckets)) for stretch, row in zip(stretches, looks, strict=True)]
    wanted = [one for one in wanted if any(start < stop for start, stop in one.places)]
    taker = _RecordTaker(plan, str(directory))
    pieces: list[list[list[_Piece]]] = [[[] for _ in range(count)] for count in buckets]
    taken = run_tasks(spark, wanted, taker, what="take the last entries", measure=_measure_pieces)
    for piece in chain.from_iterable(taken):
        pieces[piece.topic][piece.bucket].append(piece)
    for rows, txids in zip(pieces, winners, strict=True):
        # Every last entry must be found again; otherwise the journal has changed between the two passes.
        if sum(piece.count for row in rows for piece in row) != len(txids):
            raise build_incomplete_error(directory)
    lasts = [last for last, _, _ in found]
    return TwoPassFold(
        tuple(last.entries for last in lasts),
        tuple(last.latest for last in lasts),
        tuple(last.last_txid for last in lasts),
        tuple(tuple(map(tuple, rows)) for rows in pieces),
        len(looks) + len(wanted),
        sample,
    )


def _measure_looks(looks: list[_Look]) -> Work:
    return sum(look.entries for look in looks), sum(look.size for look in looks)


def _measure_pieces(pieces: list[_Piece]) -> Work:
    return sum(piece.count for piece in pieces), sum(piece.size for piece in pieces)


def _winner_path(directory: str | Path, topic: int) -> Path:
    """Return the path of the file with the txids of a topic's last entries, ascending."""
    # The name contains no attempt, because the driver writes this file before the tasks start.
    return Path(directory) / f"last-{topic}"


def _build_empty_result(plan: FoldPlan) -> tuple[LastPerKey, int, TxidSet]:
    """Return the result of a topic without entries."""
    return LastPerKey(), 0, TxidSet(plan.after + 1, plan.until)


def _merge_looks(plan: FoldPlan, looks: Iterable[_Look]) -> tuple[LastPerKey, int, TxidSet]:
    """Merge a topic's findings in all stretches: last entries, bytes of payloads, first txids of its blocks."""
    import numpy as np

    last, size, starts = _build_empty_result(plan)
    for look in looks:
        size += look.size
        if look.entries:
            with open_staged_file(Path(look.path)) as file:
                columns = [np.fromfile(file, dtype=kind, count=look.kept) for _, kind in _ROW]
                begins = np.fromfile(file, dtype="u8", count=look.blocks)
            if len(begins) < look.blocks:
                raise build_incomplete_error(Path(look.path))
            last.add_columns(*columns, entries=look.entries, latest=look.latest, last_txid=look.last_txid)
            starts.add(begins)
    return last, size, starts


def _plan_take(
    stretch: PlannedStretch, looks: Sequence[_Look], winners: Sequence[Any], buckets: tuple[int, ...]
) -> _TakePlan:
    """Return the entries to read from a stretch, given the findings in it. Stretches are consecutive and txids ascend,
    so they are one range of each topic's txids."""
    places = []
    for look, txids in zip(looks, winners, strict=True):
        # Use numbers of the array's type, because numpy would compare others as floating-point numbers.
        number = txids.dtype.type
        start = int(txids.searchsorted(number(look.first_txid)))
        stop = int(txids.searchsorted(number(look.last_txid), side="right")) if look.entries else start
        places.append((start, stop))
    return _TakePlan(stretch, tuple(places), buckets)


class _KeyScanner:
    """The first pass: reads key columns only."""

    def __init__(self, plan: FoldPlan, directory: str, gaps: Accumulator[Any]) -> None:
        self.plan = plan
        self.directory = directory
        self.gaps = gaps

    def __call__(self, stretch: PlannedStretch) -> list[_Look]:
        plan = self.plan
        span = EntrySpan(plan.after, plan.until, plan.at)
        found = [LastPerKey() for _ in plan.topic_refs]
        sizes: list[int] = [0] * len(found)
        starts: list[list[int]] = [[] for _ in found]
        with open_journal(plan.origin, task=stretch) as log:
            log.on_gap = lambda gap: self.gaps.add([gap])
            for block in stretch.read_blocks(log, plan.after, plan.until):
                for number, ref in enumerate(plan.topic_refs):
                    # The block has a list of its topics, so that the columns of other blocks are not decompressed.
                    if block.map.has_topic(ref):
                        sizes[number] += found[number].add_block(block, ref, span)
                        # A block may begin before the range of the fold.
                        starts[number].append(max(block.first_txid, plan.after + 1))
        return [self._write_look(*row) for row in zip(range(len(found)), found, sizes, starts, strict=True)]

    def _write_look(self, number: int, last: LastPerKey, size: int, starts: list[int]) -> _Look:
        """Write the keys of a topic to a file, and return the findings."""
        import numpy as np

        if not last.entries:
            return _Look("", 0, 0, 0, 0, 0, 0, 0)
        columns = last.list_columns()
        # The name contains the attempt, because Spark may run a task twice, and both write files.
        path = Path(self.directory) / f"keys-{number}-{format_attempt_name()}"
        with translate_write_errors(path), path.open("wb") as file:
            for column, (_, kind) in zip(columns, _ROW, strict=True):
                column.astype(kind, copy=False).tofile(file)
            np.array(starts, dtype="u8").tofile(file)
        count = len(columns[0])
        return _Look(str(path), count, len(starts), last.entries, size, last.latest, starts[0], last.last_txid)


class _RecordTaker:
    """The second pass: reads the last entries, and writes them to a file as stored values."""

    def __init__(self, plan: FoldPlan, directory: str) -> None:
        self.plan = plan
        self.directory = directory

    def __call__(self, wanted: _TakePlan) -> list[_Piece]:
        import numpy as np

        winners = []
        for number, (start, stop) in enumerate(wanted.places):
            with open_staged_file(_winner_path(self.directory, number)) as file:
                file.seek(8 * start)
                winners.append(np.fromfile(file, dtype="u8", count=stop - start))
        pieces = _Pieces(Path(self.directory) / f"records-{format_attempt_name()}", wanted.buckets)
        with open_journal(self.plan.origin, task=wanted.stretch) as log:
            for block in wanted.stretch.read_blocks(log, self.plan.after, self.plan.until):
                pieces.add(block, winners)
        pieces.write()
        return pieces.found


class _Pieces:
    """A file of pieces: records of blocks, separated by topic and range of keys.

    :meth:`add` buffers records. When ``piece_buffer_bytes`` are reached, it writes a piece for each topic and range.
    """

    def __init__(self, path: Path, buckets: Sequence[int]) -> None:
        self.found: list[_Piece] = []
        self._path, self._buckets = path, buckets
        self._held: list[Pairs] = [([], []) for _ in buckets]
        self._size = self._end = 0

    def add(self, block: Block, winners: Sequence[Any]) -> None:
        """Add the entries of a block that are among the ``winners`` of a topic."""
        for held, txids in zip(self._held, winners, strict=True):
            keys, values = read_winner_values(block, txids)
            held[0].extend(keys)
            held[1].extend(values)
            self._size += sum(map(len, values)) + 96 * len(keys)
        if self._size >= JOB_LIMITS.piece_buffer_bytes:
            self.write()

    def write(self) -> None:
        """Write the buffered records to the file."""
        import numpy as np

        held, self._held = self._held, [([], []) for _ in self._buckets]
        self._size = 0
        with translate_write_errors(self._path), self._path.open("ab") as file:
            for topic, (count, (keys, values)) in enumerate(zip(self._buckets, held, strict=True)):
                if not keys:
                    continue
                numbers = np.frombuffer(b"".join(keys), dtype=">u8")
                for bucket, places in iterate_parts(numbers.astype(np.uint64), count):
                    some = values if count == 1 else [values[place] for place in places.tolist()]
                    raw = encode_part(numbers[places].tobytes(), some)
                    size = sum(map(len, some))
                    self.found.append(_Piece(topic, bucket, str(self._path), self._end, len(some), size))
                    file.write(raw)
                    self._end += len(raw)
