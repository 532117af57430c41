"""Runs: a topic's entries of one stretch of the journal in one range of keys, as Arrow streams.

The map tasks of :mod:`sowctl.spark.jobs.folds.distributed_fold` encode the entries of blocks as runs. Its reduce tasks
merge the runs of a range, and read the remaining records, or the entries of every key in order. Numbers and payloads
pass from decompressed blocks to Arrow as columns, not one by one. sow-journal(5) specifies the effect of an entry on a
record.
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
    """Number of entries of a run before folding, and time and txid of the last one."""

    entries: int
    latest: int
    last_txid: int


class Run(Struct, frozen=True):
    """Entries of a topic of one stretch in one bucket, those of a key in txid order, as an Arrow stream with the
    columns of :func:`build_entry_batch`. ``topic`` is the index of the topic in the fold."""

    first_txid: int
    facts: RunFacts
    entries: bytes
    topic: int = 0


def build_entry_batch(
    block: Block, ref: TopicRef, after: int, until: int, at: int | None
) -> pyarrow.RecordBatch | None:
    """Return a block's entries of a topic as an Arrow batch; None if there are none.

    Only entries that have a key, with txids above ``after`` and up to ``until``, and not later than ``at``
    (microseconds UTC).
    """
    import numpy as np
    import pyarrow as pa

    # The block has a list of its topics, so that the columns of other blocks are not decompressed.
    if not block.map.has_topic(ref):
        return None
    columns = block.decode_numpy_columns()
    # The engine's own function selects the entries, so that all folds use the same rule.
    chosen = build_entry_mask(block, (ref,), after=after, until=until, at=at)
    # Payloads are contiguous in the block, so their cumulative lengths are Arrow's offsets, and no copy is needed.
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
    """Encode a table as a compressed Arrow stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def read_stream(raw: bytes) -> pyarrow.Table:
    """Decode a table from :func:`encode_stream`."""
    import pyarrow as pa

    return pa.ipc.open_stream(raw).read_all()


def merge_runs(runs: list[Run]) -> pyarrow.Table:
    """Merge the entries of runs, those of a key in txid order; empties the list ``runs``."""
    import pyarrow as pa

    # The shuffle returns runs in any order. Stretches do not overlap, so sorted by first txid, the entries of each key
    # are in txid order.
    runs.sort(key=attrgetter("first_txid"))
    # The list is cleared as soon as the tables exist, so that encoded runs and tables are not both held for long.
    tables = [read_stream(run.entries) for run in runs]
    runs.clear()
    return pa.concat_tables(tables).combine_chunks()


def select_latest(table: pyarrow.Table) -> pyarrow.Table:
    """Return the last entry of every key, including deletions, in key order."""
    import pyarrow as pa

    return table.take(pa.array(find_last_occurrences(table["key"].to_numpy())))


def iterate_latest(table: pyarrow.Table) -> Iterator[Pairs]:
    """Yield the records, that is the last entry of every key that is not deleted, in key order."""
    import numpy as np
    import pyarrow as pa

    order = find_last_occurrences(table["key"].to_numpy())
    # Remove deletions only after selecting the last entries, because a deletion replaces earlier publishes.
    order = order[table["operation"].to_numpy()[order] != DELETE]
    size = JOB_LIMITS.part_pairs
    for places in np.split(order, range(size, len(order), size)) if len(order) else ():
        yield _pairs(table.take(pa.array(places)))


def iterate_timelines(table: pyarrow.Table) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield every key, in key order, with its stored values in txid order."""
    import numpy as np
    import pyarrow as pa

    # A stable sort keeps the entries of a key in txid order.
    order = table["key"].to_numpy().argsort(kind="stable")
    size = JOB_LIMITS.part_pairs
    parts = (_pairs(table.take(pa.array(places))) for places in np.split(order, range(size, len(order), size)))
    pairs = chain.from_iterable(zip(*part, strict=True) for part in parts)
    for key, rows in groupby(pairs, key=itemgetter(0)):
        yield key, [value for _, value in rows]


def _pairs(table: pyarrow.Table) -> Pairs:
    """Return keys and stored values of entries; the value of a deletion is a tombstone."""
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
