"""Write a job's records to one ``.sow`` file: tasks collect them in files, from which the driver builds the store.

Called by the jobs that export topics, take snapshots and compute views. ``sowctl-pipeline(1)``, OUTPUT, documents the
output, and sow-store(5) the file format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.fold.journal_fold import append_sorted
from sowctl.engine.instance import Instance
from sowctl.remote.place import Place
from sowctl.spark.jobs.outputs.delivery import deliver_store
from sowctl.spark.jobs.outputs.output_spec import Output, Part, WriteTotals
from sowctl.spark.jobs.progress import Work
from sowctl.spark.jobs.tasks import format_attempt_name, run_tasks
from sowctl.spark.pairfiles import read_pairs, write_pairs
from sowctl.store.builder import build_store
from sowctl.store.codec import read_stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.engine.sources.source import Pairs
    from sowctl.store.meta import Definition
    from sowctl.store.write import WriteTxn


class _File(Struct, frozen=True):
    """A sorted file that a task has written, with totals of its records."""

    place: Place
    records: int
    bytes: int
    last_txid: int
    last_time: int


def write_store(
    spark: SparkSession, instance: Instance, parts: Sequence[Part], output: Output, definition: Definition, place: Place
) -> WriteTotals:
    """Write the records of ``parts`` to a new store, without versions. ``place`` is a staging directory."""
    files = run_tasks(spark, list(parts), _PairFileWriter(place), what=f"gather {output.label}", measure=_measure_file)
    with (
        deliver_store(output) as path,
        build_store(path, definition, seam=instance.seam, now=instance.now, command=instance.holder) as builder,
    ):
        for file in files:
            append_sorted(builder, read_pairs(file.place))

        def position(txn: WriteTxn) -> None:
            # A lineage of zeros: the store does not follow a journal, so entries are never applied to it, and its txids
            # are those of the source.
            txn.set_applied_position(bytes(16), max((file.last_txid for file in files), default=0))
            txn.raise_last_time(max((file.last_time for file in files), default=0))

        builder.flush()
        builder.run_transaction(position)
        builder.install(wait=instance.lock_wait)
        meta = builder.meta
    return WriteTotals(meta.records, meta.payload_bytes, len(parts))


def _measure_file(file: _File) -> Work:
    return file.records, file.bytes


class _PairFileWriter:
    """Writes the records of a part to a file, on an executor."""

    def __init__(self, directory: Place) -> None:
        self.directory = directory

    def __call__(self, part: Part) -> _File:
        place = self.directory / f"part-{format_attempt_name()}"
        txid = time = 0

        def watched() -> Iterator[Pairs]:
            nonlocal txid, time
            for keys, values in part.iterate_pairs():
                for value in values:
                    one, at = read_stamps(value)
                    # Collected while the records are written: the store's position must not be below their txids.
                    txid, time = max(txid, one), max(time, at)
                yield keys, values

        count, size = write_pairs(place, watched())
        return _File(place, count, size, txid, time)
