"""Runs: a topic's entries of one stretch of the journal in one range of keys, as Arrow makes and reads them.

The map tasks of :mod:`sowctl.spark.jobs.folds.distributed_fold` make runs of a journal's blocks, its reduce tasks read
those of one range together: the records that are left, or every key's entries in their order. Numbers and payloads go
from the decompressed blocks into Arrow without being looked at one by one. What an entry does to a record is said by
sow-journal(5).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.fold.blocks import build_entry_mask, encode_values
from sowctl.engine.fold.spill import Pairs
from sowctl.identity.keyspace import find_last_occurrences, read_words
from sowctl.journal.entries import TEXT_COLUMNS, TEXT_NAMES, EntryBatch
from sowctl.journal.format import DELETE
from sowctl.spark.jobs.limits import JOB_LIMITS

if TYPE_CHECKING:
    import pyarrow

    from sowctl.journal.block import Block
    from sowctl.values.topicref import TopicRef

_TEXT_PARTS = [column.part for column in TEXT_COLUMNS]
_NAMES = ["key", "check", "txid", "time", "expiration", "operation", "payload", *_TEXT_PARTS]


class RunFacts(Struct, frozen=True):
    """Entries of a run before folding, time and txid of the last one."""

    entries: int
    latest: int
    last_txid: int


class Run(Struct, frozen=True):
    """Entries of a topic of one stretch in one bucket, those of a key in txid order: an Arrow stream of
    :func:`build_entry_batch`. ``topic`` is its place among those that are folded."""

    first_txid: int
    facts: RunFacts
    entries: bytes
    topic: int = 0


def build_entry_batch(
    block: Block, ref: TopicRef, after: int, until: int, at: int | None
) -> pyarrow.RecordBatch | None:
    """A block's entries of a topic as an Arrow batch; None where there are none.

    Entries without a key are left out, and those not above the txid ``after``, above ``until``, or later than ``at``
    (microseconds UTC).
    """
    import numpy as np
    import pyarrow as pa

    # The block's list of topics says so; its columns are then never unpacked.
    if not block.map.has_topic(ref):
        return None
    columns = block.decode_numpy_columns()
    # The rule for what belongs to a topic and a range is the engine's own.
    chosen = build_entry_mask(block, (ref,), after=after, until=until, at=at)
    # The payloads lie back to back in the block: their running lengths are the offsets that Arrow wants, without a
    # copy.
    offsets = np.zeros(len(block) + 1, dtype=np.int64)
    columns.lengths.cumsum(dtype=np.int64, out=offsets[1:])
    raw = pa.py_buffer(block.decompress_payloads())
    texts = columns.batch.texts
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(columns.keys.astype(np.uint64)),
            pa.array(columns.checks.astype(np.uint64)),
            pa.array(columns.txids.astype(np.uint64)),
            pa.array(columns.times),
            pa.array(columns.expirations),
            pa.array(columns.operations),
            pa.Array.from_buffers(pa.large_binary(), len(block), [None, pa.py_buffer(offsets), raw]),
            *[pa.nulls(len(block), pa.binary()) if text is None else pa.array(text, pa.binary()) for text in texts],
        ],
        names=_NAMES,
    )
    if chosen is None:
        return batch
    return batch.filter(pa.array(chosen)) if chosen.any() else None


def encode_stream(table: pyarrow.Table) -> bytes:
    """A table as an Arrow stream in compressed bytes, which may be stored or sent."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def read_stream(raw: bytes) -> pyarrow.Table:
    """The table of :func:`encode_stream`."""
    import pyarrow as pa

    return pa.ipc.open_stream(raw).read_all()


def merge_runs(runs: list[Run]) -> pyarrow.Table:
    """The entries of runs, those of a key in txid order; the runs are forgotten."""
    import pyarrow as pa

    # The shuffle gives runs in any order. Stretches do not overlap, so by their first txid all entries of a key come in
    # txid order.
    runs.sort(key=attrgetter("first_txid"))
    # The list is emptied as soon as the tables exist, so that both are not in memory for long.
    tables = [read_stream(run.entries) for run in runs]
    runs.clear()
    return pa.concat_tables(tables).combine_chunks()


def select_latest(table: pyarrow.Table) -> pyarrow.Table:
    """The last entry of every key, deletions among them, in key order."""
    import pyarrow as pa

    return table.take(pa.array(find_last_occurrences(table["key"].to_numpy())))


def iterate_latest(table: pyarrow.Table) -> Iterator[Pairs]:
    """The last entry of every key but the deleted ones, in key order."""
    import numpy as np
    import pyarrow as pa

    order = find_last_occurrences(table["key"].to_numpy())
    # After the choice of the last entries: a deletion must first win over the publishes before it.
    order = order[table["operation"].to_numpy()[order] != DELETE]
    size = JOB_LIMITS.part_pairs
    for places in np.split(order, range(size, len(order), size)) if len(order) else ():
        yield _pairs(table.take(pa.array(places)))


def iterate_timelines(table: pyarrow.Table) -> Iterator[tuple[bytes, list[bytes]]]:
    """Every key with its stored values in txid order, in key order."""
    import numpy as np
    import pyarrow as pa

    # Stable, so that the entries of a key stay in txid order.
    order = table["key"].to_numpy().argsort(kind="stable")
    size = JOB_LIMITS.part_pairs
    parts = (_pairs(table.take(pa.array(places))) for places in np.split(order, range(size, len(order), size)))
    pairs = chain.from_iterable(zip(*part, strict=True) for part in parts)
    for key, rows in groupby(pairs, key=itemgetter(0)):
        yield key, [value for _, value in rows]


def _pairs(table: pyarrow.Table) -> Pairs:
    """Keys and stored values of entries; a deletion is a tombstone."""
    keys, checks = (read_words(table[name].to_numpy().astype(">u8")) for name in ("key", "check"))
    txids, times, expirations = (table[name].to_numpy().tolist() for name in ("txid", "time", "expiration"))
    columns = zip(TEXT_NAMES, (table[name] for name in _TEXT_PARTS), strict=True)
    texts: dict[str, Any] = {name: None if one.null_count == len(keys) else one.to_pylist() for name, one in columns}
    entries = EntryBatch(
        [],
        table["payload"].to_pylist(),
        keys,
        checks,
        times,
        expirations,
        operations=table["operation"].to_numpy().tobytes(),
        **texts,
    )
    return keys, encode_values(entries, txids)
