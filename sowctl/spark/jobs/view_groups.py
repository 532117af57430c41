"""Join and group records on Spark with the engine's evaluators (for the job ``view``).

Spark's own aggregates add Doubles in the order of the shuffle, and support neither the language's common reading nor
its order of updates. So every task computes exact, mergeable *states* of the groups in its part
(:mod:`sowctl.expressions.rows.retraction`). Only these are shuffled, by the digest of the group's key, so the output of
the second stage is in key order.

If the joined sources are small, they are broadcast to every task. Otherwise, every step of the join shuffles the
records by key text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from sowctl.engine.instance import Instance
from sowctl.engine.views.column_groups import ColumnGroups, can_group_columns, iterate_parts
from sowctl.engine.views.definition import Program, Query, ViewRecord
from sowctl.engine.views.groups import encode_message, group_rows
from sowctl.engine.views.joins import JoinedRow, JoinIndex, build_rows, finish_rows, read_left_texts, read_right_texts
from sowctl.engine.views.records import read_records
from sowctl.expressions.rows.groups import Group
from sowctl.expressions.rows.projection import GroupKey
from sowctl.expressions.rows.retraction import RetractableProjection
from sowctl.identity.keys import build_batch_digester, digest_key
from sowctl.identity.keyspace import find_part
from sowctl.remote.place import Place
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs.folds.fold_layout import MAX_SHUFFLE_BLOCKS
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.progress import Work, WorkCounter, count_all, create_work_counter
from sowctl.spark.jobs.state import RangePart
from sowctl.spark.jobs.tasks import carry_iterator, describe_stages, format_attempt_name, run_tasks
from sowctl.spark.pairfiles import read_pairs, write_pairs
from sowctl.store.limits import STORE_LIMITS

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import SparkSession

    from sowctl.engine.sources.source import Pairs
    from sowctl.spark.jobs.outputs.output_spec import Part

MAX_HELD_ROWS = 100_000
"""Maximum rows whose inputs a task holds before it compacts them into states. Limits its memory; not measured."""
_STATES = msgspec.msgpack.Encoder()
_READ_STATES = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])

Row = tuple[ViewRecord | None, ...]
"""A row of a partial join: a record per source, None for sources without a matching or joined record."""


class ProgramFactory:
    """Compiles the program of a view, once per process."""

    def __init__(self, instance: Instance, query: Query) -> None:
        self.instance, self.query = instance, query
        self._made: Program | None = None

    @property
    def program(self) -> Program:
        """The program of this process."""
        if self._made is None:
            self._made = Program(self.instance, self.query)
        return self._made

    def __getstate__(self) -> tuple[Instance, Query]:
        # The compiled program is not pickled; each process compiles it again.
        return self.instance, self.query

    def __setstate__(self, state: tuple[Instance, Query]) -> None:
        self.instance, self.query = state
        self._made = None


class FilePart(Struct, frozen=True):
    """Records in a file that a task has written; they were computed from ``read`` rows."""

    place: Place
    read: int

    def iterate_pairs(self) -> Iterator[Pairs]:
        """Yield keys and stored values in key order."""
        return read_pairs(self.place)


def compute_groups(
    spark: SparkSession, instance: Instance, query: Query, parts: Sequence[Sequence[Part]], directory: Place
) -> list[FilePart]:
    """Compute the groups of a view over the records in ``parts``, a list of parts per source; returns files in key
    order."""
    # One clock for all tasks, so that expressions with the current time have the same value everywhere.
    moment = instance.now
    frozen = Instance(instance.config, partial(int, moment))
    program = Program(frozen, query)
    context = spark.sparkContext
    count = count_buckets(list(map(len, parts)), context.defaultParallelism)
    describe_stages(spark, f"view {query.name}")
    maker = ProgramFactory(frozen, query)
    attached: Broadcast[Any] | None = None
    with translate_errors():
        if sum(map(_size, parts[1:])) <= JOB_LIMITS.max_broadcast_records:
            # Also without a join; the broadcast is then empty.
            attached = context.broadcast([_read_pairs(spark, some) for some in parts[1:]])
            first = context.parallelize(list(parts[0]), max(1, len(parts[0])))
            counter = create_work_counter(_measure_pairs)
            states = first.mapPartitionsWithIndex(partial(_compute_part_states, maker, count, attached, counter))
        else:
            states = _join_sources(maker, program, _read(context, maker, parts), count).mapPartitions(
                partial(_compute_shuffled_states, maker, count)
            )
        # Partitions are ranges of digests of group keys: one task merges all states of a group, and the files are in
        # key order.
        found = (
            states.partitionBy(count, int).mapPartitionsWithIndex(partial(_merge_bucket, maker, directory)).collect()
        )
        if attached is not None:
            attached.destroy()
    return [part for _, part in sorted(found, key=itemgetter(0))]


def count_buckets(parts: Sequence[int], parallel: int) -> int:
    """Return the number of tasks that merge groups: the parts of the largest source, or ``parallel`` if that is more,
    limited by :data:`MAX_SHUFFLE_BLOCKS`."""
    most = MAX_SHUFFLE_BLOCKS // len(parts) // max(1, sum(parts))
    return max(1, min(most, max(parallel, *parts)))


def _size(parts: Sequence[Part]) -> int:
    """Estimate the number of records; more than ``max_broadcast_records`` if unknown."""
    if all(isinstance(part, FilePart) for part in parts):
        return sum(part.read for part in parts if isinstance(part, FilePart))
    # Each range has the number of records of the complete store.
    known = [part.position.records for part in parts if isinstance(part, RangePart) and part.position is not None]
    return max(known) if len(known) == len(parts) else JOB_LIMITS.max_broadcast_records + 1


def _read_pairs(spark: SparkSession, parts: Sequence[Part]) -> list[Pairs]:
    """Read all records of a small source, in key order, by tasks."""
    return [
        pairs
        for some in run_tasks(spark, list(parts), _list_pairs, what="records of a joined source")
        for pairs in some
    ]


def _list_pairs(part: Part) -> list[Pairs]:
    return list(part.iterate_pairs())


def _measure_pairs(pairs: Pairs) -> Work:
    return len(pairs[0]), sum(map(len, pairs[1]))


def _compute_part_states(
    maker: ProgramFactory,
    count: int,
    attached: Broadcast[Any],
    counter: WorkCounter[Pairs] | None,
    index: int,
    parts: Iterable[Part],
) -> Iterator[tuple[int, bytes]]:
    """Compute the states of the groups in a part of the first source; ``attached`` has the records of all others."""
    program = maker.program

    def source(number: int) -> Iterable[Pairs]:
        if number:
            found: Iterable[Pairs] = attached.value[number - 1]
            return found
        return count_all((pairs for part in parts for pairs in part.iterate_pairs()), counter)

    if can_group_columns(program):
        return carry_iterator(_group_columns(program, count, index, source))
    return carry_iterator(_group_rows(program, count, source))


def _group_columns(
    program: Program, count: int, index: int, source: Callable[[int], Iterable[Pairs]]
) -> Iterator[tuple[int, bytes]]:
    # Without lines of text (None), because parts and joined sources contain records. Among equal stamps, the message of
    # the earlier part is the earlier one.
    found = ColumnGroups(
        program,
        lambda number: iterate_parts(program, number, ((None, some) for some in source(number))),
        part=(index,),
    )
    for _ in found.compute():
        pass
    yield from _encode_buckets(program, found.groups, count)


def _group_rows(program: Program, count: int, source: Callable[[int], Iterable[Pairs]]) -> Iterator[tuple[int, bytes]]:
    # Matching records are joined in key order, as in a single process.
    held = JoinIndex(program, lambda number: read_records(program, number, source(number)))
    yield from _compute_row_states(
        program, count, (build_rows(program, some, held) for some in read_records(program, 0, source(0)))
    )


def _read(context: SparkContext, maker: ProgramFactory, parts: Sequence[Sequence[Part]]) -> list[RDD[Any]]:
    return [
        context.parallelize(list(some), max(1, len(some))).mapPartitions(partial(_records, maker, number))
        for number, some in enumerate(parts)
    ]


def _records(maker: ProgramFactory, number: int, parts: Iterable[Part]) -> Iterator[list[ViewRecord]]:
    """Yield the records of parts in the form that is shuffled, in batches."""
    return carry_iterator(some for part in parts for some in read_records(maker.program, number, part.iterate_pairs()))


def _join_sources(maker: ProgramFactory, program: Program, sources: Sequence[RDD[Any]], count: int) -> RDD[Any]:
    """Return the rows of a join, computed with a shuffle per step."""
    wide = len(sources)
    rows: RDD[Any] = sources[0].flatMap(partial(_start_rows, wide))
    for number, step in enumerate(program.steps):
        # Both sides are keyed by the text of the condition, so that matching rows are processed by the same task.
        left = rows.map(partial(_left_key, maker, number))
        right = sources[program.find_source(step.source)].flatMap(partial(_right_key, maker, number))
        # Sources are joined in the order of the join's steps, because each may be joined to any earlier source.
        rows = left.cogroup(right, count).flatMap(partial(_attach_records, maker, number))
    return rows.mapPartitions(partial(_finish_join, maker))


def _start_rows(wide: int, some: list[ViewRecord]) -> list[Row]:
    return [(record, *(None,) * (wide - 1)) for record in some]


def _left_key(maker: ProgramFactory, number: int, row: Row) -> tuple[Any, Row]:
    """Return a row with its join key for the next source; if that is NULL, with a key that no record has."""
    texts = read_left_texts(maker.program, number, row)
    if texts is None:
        # Rows without a match stay in the join, so they need a key, and one that no record of the other side has.
        return (b"row", *(b"" if one is None else one.key for one in row)), row
    return (b"key", *texts), row


def _right_key(maker: ProgramFactory, number: int, some: list[ViewRecord]) -> list[tuple[Any, ViewRecord]]:
    found = ((read_right_texts(maker.program, number, record), record) for record in some)
    return [((b"key", *texts), record) for texts, record in found if texts is not None]


def _attach_records(
    maker: ProgramFactory, number: int, found: tuple[Any, tuple[Iterable[Row], Iterable[ViewRecord]]]
) -> list[Row]:
    """Return the rows of one key, each combined with every record of the next source."""
    program = maker.program
    place = program.find_source(program.steps[number].source)
    left, right = found[1]
    others = list(right)
    # Rows without a match are kept.
    return [
        wider for row in left for wider in ([(*row[:place], other, *row[place + 1 :]) for other in others] or [row])
    ]


def _finish_join(maker: ProgramFactory, found: Iterable[Row]) -> Iterator[list[JoinedRow]]:
    return carry_iterator(_batch_rows(maker.program, found))


def _batch_rows(program: Program, found: Iterable[Row]) -> Iterator[list[JoinedRow]]:
    remaining = iter(found)
    while some := list(islice(remaining, STORE_LIMITS.read_batch_records)):
        yield finish_rows(program, some)


def _compute_shuffled_states(
    maker: ProgramFactory, count: int, found: Iterable[list[JoinedRow]]
) -> Iterator[tuple[int, bytes]]:
    return carry_iterator(_compute_row_states(maker.program, count, found))


def _compute_row_states(program: Program, count: int, found: Iterable[list[JoinedRow]]) -> Iterator[tuple[int, bytes]]:
    """Compute the states of the groups of rows; yields them by bucket of their digests."""
    groups: dict[GroupKey, Group] = {}
    held = 0
    for rows in found:
        # The order makes stamps unique: among rows with equal stamps, the one later in the order is the later one.
        stamps = [(*row.stamp, row.order) for row in rows]
        group_rows(program, rows, stamps).add_to_groups(groups)
        held += len(rows)
        if held >= MAX_HELD_ROWS:
            for group in groups.values():
                group.compact()
            held = 0
    yield from _encode_buckets(program, groups, count)


def _encode_buckets(program: Program, groups: dict[GroupKey, Group], count: int) -> Iterator[tuple[int, bytes]]:
    retractable = RetractableProjection(program.projection)
    digests = build_batch_digester(program.query.key_domain, 0)(list(groups), null=True)
    buckets: dict[int, list[tuple[bytes, bytes]]] = {}
    for digest, group in zip(digests, groups.values(), strict=True):
        group.compact()
        buckets.setdefault(find_part(digest, count), []).append((digest, retractable.encode_group(group)))
    for bucket, some in buckets.items():
        yield bucket, _STATES.encode(some)


def _merge_bucket(
    maker: ProgramFactory, directory: Place, index: int, found: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, FilePart]]:
    """Merge the groups of a bucket, and write them to a file in key order."""
    return carry_iterator(_write_groups(maker.program, directory, index, found))


def _write_groups(
    program: Program, directory: Place, index: int, found: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, FilePart]]:
    retractable = RetractableProjection(program.projection)
    groups: dict[bytes, Group] = {}
    for _, some in found:
        for digest, state in _READ_STATES.decode(some):
            group = retractable.decode_group(state)
            if digest in groups:
                groups[digest].merge(group)
            else:
                groups[digest] = group
    if not groups:
        return
    place = directory / f"groups-{format_attempt_name()}"
    write_pairs(place, _pairs(program, groups))
    yield index, FilePart(place, sum(group.size for group in groups.values()))


def _pairs(program: Program, groups: dict[bytes, Group]) -> Iterator[Pairs]:
    order = sorted(groups)
    for start in range(0, len(order), STORE_LIMITS.read_batch_records):
        part = order[start : start + STORE_LIMITS.read_batch_records]
        values = []
        for digest in part:
            fields = program.projection.compute_fields(groups[digest], program.environment)
            values.append(encode_message(program, digest, fields, groups[digest].find_stamp()))
        yield list(map(digest_key, part)), values
