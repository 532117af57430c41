"""Joining and grouping records on Spark with the engine's evaluators (for the job ``view``).

Spark's own aggregates add Doubles in the order of the shuffle and know neither the language's common reading nor its
order of updates. So every task makes *states* of the groups in its part, exact ones that add up
(:mod:`sowctl.expressions.rows.retraction`), and these alone are shuffled, by the digest of the group's key: what the
tasks of the second stage leave is in key order.

Attached sources of a join that are small go to every task as a whole. Where one is large, every step of the join brings
together the records of one key text by a shuffle.
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
"""Rows whose inputs a task holds before it makes states of them. A bound of its memory, not measured."""
_STATES = msgspec.msgpack.Encoder()
_READ_STATES = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])

Row = tuple[ViewRecord | None, ...]
"""A row of the join so far: a record of every source, None where none is attached."""


class ProgramFactory:
    """Makes the program of a view, once in every process that works for it."""

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
        # The compiled program stays behind: each process compiles the texts once for itself.
        return self.instance, self.query

    def __setstate__(self, state: tuple[Instance, Query]) -> None:
        self.instance, self.query = state
        self._made = None


class FilePart(Struct, frozen=True):
    """Records in a file that a task left; ``read`` rows went into them."""

    place: Place
    read: int

    def iterate_pairs(self) -> Iterator[Pairs]:
        """Keys and stored values in key order."""
        return read_pairs(self.place)


def compute_groups(
    spark: SparkSession, instance: Instance, query: Query, parts: Sequence[Sequence[Part]], directory: Place
) -> list[FilePart]:
    """The groups of a view over the records in ``parts``, a row of parts for every source; in key order."""
    # One clock for all tasks: an expression that asks for the time gets the same answer everywhere.
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
            # Also without a join, where nothing is attached.
            attached = context.broadcast([_read_pairs(spark, some) for some in parts[1:]])
            first = context.parallelize(list(parts[0]), max(1, len(parts[0])))
            counter = create_work_counter(_measure_pairs)
            states = first.mapPartitionsWithIndex(partial(_compute_part_states, maker, count, attached, counter))
        else:
            states = _join_sources(maker, program, _read(context, maker, parts), count).mapPartitions(
                partial(_compute_shuffled_states, maker, count)
            )
        # By the digest of the group's key: all states of a group meet in one task, and the parts come out in key order.
        found = (
            states.partitionBy(count, int).mapPartitionsWithIndex(partial(_merge_bucket, maker, directory)).collect()
        )
        if attached is not None:
            attached.destroy()
    return [part for _, part in sorted(found, key=itemgetter(0))]


def count_buckets(parts: Sequence[int], parallel: int) -> int:
    """Return how many tasks merge groups: as many as there are parts, within the bound of the shuffles."""
    most = MAX_SHUFFLE_BLOCKS // len(parts) // max(1, sum(parts))
    return max(1, min(most, max(parallel, *parts)))


def _size(parts: Sequence[Part]) -> int:
    """About how many records there are; more than ``max_broadcast_records`` where nothing tells."""
    if all(isinstance(part, FilePart) for part in parts):
        return sum(part.read for part in parts if isinstance(part, FilePart))
    # Each range of a store tells the records of the whole store.
    known = [part.position.records for part in parts if isinstance(part, RangePart) and part.position is not None]
    return max(known) if len(known) == len(parts) else JOB_LIMITS.max_broadcast_records + 1


def _read_pairs(spark: SparkSession, parts: Sequence[Part]) -> list[Pairs]:
    """All records of a small source, in key order, read by tasks."""
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
    """The states of the groups in a part of the first source; the records of all others are at hand."""
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
    # No lines of text: a part is a range of a store, and the joined sources came here as records.
    # Of equal stamps the earlier message is that of the earlier part.
    found = ColumnGroups(
        program,
        lambda number: iterate_parts(program, number, ((None, some) for some in source(number))),
        part=(index,),
    )
    for _ in found.compute():
        pass
    yield from _encode_buckets(program, found.groups, count)


def _group_rows(program: Program, count: int, source: Callable[[int], Iterable[Pairs]]) -> Iterator[tuple[int, bytes]]:
    # Partners are taken in key order, in which one process reads them.
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
    """Read the records of some parts in the form that travels, some at a time."""
    return carry_iterator(some for part in parts for some in read_records(maker.program, number, part.iterate_pairs()))


def _join_sources(maker: ProgramFactory, program: Program, sources: Sequence[RDD[Any]], count: int) -> RDD[Any]:
    """The rows of a join whose sources are brought together step by step."""
    wide = len(sources)
    rows: RDD[Any] = sources[0].flatMap(partial(_start_rows, wide))
    for number, step in enumerate(program.steps):
        # Both sides are keyed by the text of the condition, so that those who match meet in one task.
        left = rows.map(partial(_left_key, maker, number))
        right = sources[program.find_source(step.source)].flatMap(partial(_right_key, maker, number))
        # One source after the other, in the order of the join's steps; each may be attached to any source before it.
        rows = left.cogroup(right, count).flatMap(partial(_attach_records, maker, number))
    return rows.mapPartitions(partial(_finish_join, maker))


def _start_rows(wide: int, some: list[ViewRecord]) -> list[Row]:
    return [(record, *(None,) * (wide - 1)) for record in some]


def _left_key(maker: ProgramFactory, number: int, row: Row) -> tuple[Any, Row]:
    """The text by which a row finds records of the next source; where that is NULL, one that no record has."""
    texts = read_left_texts(maker.program, number, row)
    if texts is None:
        # A key of the row alone, which no record of the other side has; a row without a partner stays in the join.
        return (b"row", *(b"" if one is None else one.key for one in row)), row
    return (b"key", *texts), row


def _right_key(maker: ProgramFactory, number: int, some: list[ViewRecord]) -> list[tuple[Any, ViewRecord]]:
    found = ((read_right_texts(maker.program, number, record), record) for record in some)
    return [((b"key", *texts), record) for texts, record in found if texts is not None]


def _attach_records(
    maker: ProgramFactory, number: int, found: tuple[Any, tuple[Iterable[Row], Iterable[ViewRecord]]]
) -> list[Row]:
    """The rows of one key, each with every record of the next source."""
    program = maker.program
    place = program.find_source(program.steps[number].source)
    left, right = found[1]
    others = list(right)
    # A row that nothing matches stays.
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
    """The states of the groups of some rows, by the bucket of their digests."""
    groups: dict[GroupKey, Group] = {}
    held = 0
    for rows in found:
        # The order makes stamps unique: of rows of one instant, the later in it is the later one.
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
    """The groups of a bucket, in a file by key."""
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
