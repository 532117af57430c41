"""Joining and grouping records on Spark with the engine's evaluators (for the job ``view``).

A record travels as the fields that the view asks of it, its place in key order and its stamps. Every step of a join
brings together the records of one key text; the last shuffle brings together the rows of one group, by the digest of
the group's key, so that what the tasks leave is in key order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from sowctl.engine.instance import Instance
from sowctl.engine.views.records import records_of
from sowctl.expressions.rows.joining import source_of
from sowctl.expressions.rows.projection import GroupKey, GroupState
from sowctl.identity.keys import batch_digester
from sowctl.identity.keyspace import part_of
from sowctl.spark.errors import translated
from sowctl.spark.jobs.pairfiles import read_pairs, write_pairs
from sowctl.spark.jobs.tasks import attempt, carried_iterator, describe
from sowctl.spark.jobs.viewprogram import Maker, Program, Query, ViewRecord
from sowctl.store.codec import encode
from sowctl.values.fields import SlotValue

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from sowctl.engine.sources.source import Pairs
    from sowctl.expressions.environment import Header
    from sowctl.spark.jobs.outputs import Part

READ = 1000


class JoinedRow(NamedTuple):
    """A row of the join so far: a record of every source attached, None where none matched."""

    order: tuple[bytes, ...]
    records: tuple[ViewRecord | None, ...]


class GroupItem(NamedTuple):
    """A row ready for its group."""

    order: tuple[bytes, ...]
    stamp: tuple[int, ...]
    header: Header | None
    values: tuple[SlotValue, ...]


class FilePart(Struct, frozen=True):
    """Groups in a file that a task left; ``read`` rows went into them."""

    path: str
    read: int

    def pairs(self) -> Iterator[Pairs]:
        """Keys and stored values in key order."""
        return read_pairs(Path(self.path))


def grouped(
    spark: SparkSession, instance: Instance, query: Query, parts: Sequence[Sequence[Part]], directory: Path
) -> list[FilePart]:
    """The groups of a view over the records in ``parts``, a row of parts for every source; in key order."""
    # One clock for all tasks: an expression that asks for the time gets the same answer everywhere.
    moment = instance.now
    frozen = Instance(instance.config, partial(int, moment))
    program = Program(frozen, query)
    context = spark.sparkContext
    count = max(context.defaultParallelism, max(map(len, parts)))
    describe(spark, f"view {query.name}")
    maker = Maker(frozen, query)
    sources: list[RDD[Any]] = [
        context.parallelize(list(some), max(1, len(some))).mapPartitions(partial(_records, maker, number))
        for number, some in enumerate(parts)
    ]
    rows: RDD[Any] = sources[0].map(_first)
    for number, step in enumerate(program.steps):
        # Both sides are keyed by the text of the condition, so that those who match meet in one task.
        left = rows.map(partial(_left_key, maker, number))
        right = sources[program.source_of(step.source)].flatMap(partial(_right_key, maker, number))
        # One source after the other, in the order of the join's steps; each may be attached to any source before it.
        rows = left.cogroup(right, count).flatMap(partial(_attached, maker, number))
    items = rows.mapPartitions(partial(_items, maker, count))
    with translated():
        # By the digest of the group's key: all rows of a group meet in one task, and the parts come out in key order.
        found = items.partitionBy(count, int).mapPartitionsWithIndex(partial(_groups, maker, str(directory))).collect()
    return [part for _, part in sorted(found, key=itemgetter(0))]


def _records(maker: Maker, number: int, parts: Iterable[Part]) -> Iterator[ViewRecord]:
    return carried_iterator(record for part in parts for record in _of_part(maker.program, number, part))


def _of_part(program: Program, number: int, part: Part) -> Iterator[ViewRecord]:
    """What travels of the records of a part."""
    for records in records_of(program, number, part.pairs()):
        yield from records


def _first(record: ViewRecord) -> JoinedRow:
    return JoinedRow((record.key,), (record,))


def _left_key(maker: Maker, number: int, row: JoinedRow) -> tuple[Any, JoinedRow]:
    """The text by which a row finds records of the next source; where that is NULL, one that no record has."""
    program = maker.program
    texts = tuple(
        program.text(old, _record(program, row, source_of(old))) for old, _ in program.steps[number].conditions
    )
    if None in texts and not program.query.nulls_match:
        # A key of the row alone, which no record of the other side has; a row without a partner stays in the join.
        return (b"row", *row.order), row
    return (b"key", *texts), row


def _record(program: Program, row: JoinedRow, source: tuple[str | None, str]) -> ViewRecord | None:
    place = program.source_of(source)
    return row.records[place] if place < len(row.records) else None


def _right_key(maker: Maker, number: int, record: ViewRecord) -> list[tuple[Any, ViewRecord]]:
    program = maker.program
    texts = tuple(program.text(new, record) for _, new in program.steps[number].conditions)
    return [] if None in texts and not program.query.nulls_match else [((b"key", *texts), record)]


def _attached(
    maker: Maker, number: int, found: tuple[Any, tuple[Iterable[JoinedRow], Iterable[ViewRecord]]]
) -> Iterator[JoinedRow]:
    """The rows of one key, each with every record of the next source."""
    program = maker.program
    place = program.source_of(program.steps[number].source)
    left, right = found[1]
    # In key order, because the shuffle gives them in any; [None] keeps a row that nothing matches.
    others: list[ViewRecord | None] = [*sorted(right, key=itemgetter(0))] or [None]
    for row in left:
        for other in others:
            records = list(row.records) + [None] * (place + 1 - len(row.records))
            records[place] = other
            yield JoinedRow((*row.order, b"" if other is None else other.key), tuple(records))


def _items(maker: Maker, count: int, rows: Iterable[JoinedRow]) -> Iterator[tuple[int, list[GroupItem]]]:
    """Rows that pass the filter, by the bucket of their group, some at a time."""
    return carried_iterator(_bucketed(maker.program, count, rows))


def _bucketed(program: Program, count: int, rows: Iterable[JoinedRow]) -> Iterator[tuple[int, list[GroupItem]]]:
    from itertools import islice

    remaining = iter(rows)
    while some := list(islice(remaining, READ)):
        if program.filter is not None:
            tested = [program.values(row.records, program.tested) for row in some]
            some = [some[place] for place in program.filter.matches(tested, program.environment, None)]
        items = [
            GroupItem(
                row.order,
                # A row is as new as the newest of its records.
                max((one.stamp for one in row.records if one is not None), default=()),
                row.records[0].header if row.records[0] is not None else None,
                program.values(row.records, program.places),
            )
            for row in some
        ]
        buckets: dict[int, list[GroupItem]] = {}
        headers = _headers(program, items)
        keys = program.projection.keys([item.values for item in items], program.environment, headers)
        for item, digest in zip(items, batch_digester(program.query.key_domain, 0)(keys, null=True), strict=True):
            buckets.setdefault(part_of(digest, count), []).append(item)
        yield from buckets.items()


def _headers(program: Program, items: Sequence[GroupItem]) -> list[Header] | None:
    return [item.header for item in items if item.header is not None] if program.projection.uses_header else None


def _groups(
    maker: Maker, directory: str, index: int, found: Iterable[tuple[int, list[GroupItem]]]
) -> Iterator[tuple[int, FilePart]]:
    """The groups of a bucket, in a file by key."""
    return carried_iterator(_written(maker.program, directory, index, found))


def _written(
    program: Program, directory: str, index: int, found: Iterable[tuple[int, list[GroupItem]]]
) -> Iterator[tuple[int, FilePart]]:
    items = [item for _, some in found for item in some]
    if not items:
        return
    # The order in which one process would have seen the rows, so that aggregates that depend on it agree.
    items.sort(key=itemgetter(0))
    groups: dict[GroupKey, GroupState] = {}
    rows = [item.values for item in items]
    stamps_of = [item.stamp for item in items]
    program.projection.add(groups, rows, program.environment, _headers(program, items), stamps_of)
    path = Path(directory) / f"groups-{attempt()}"
    write_pairs(path, _pairs(program, groups))
    yield index, FilePart(str(path), len(items))


def _pairs(program: Program, groups: dict[GroupKey, GroupState]) -> Iterator[Pairs]:
    digests = batch_digester(program.query.key_domain, 0)(list(groups), null=True)
    order = sorted(zip(digests, groups.values(), strict=True), key=itemgetter(0))
    make: Callable[[GroupState], bytes] = partial(_message, program)
    for start in range(0, len(order), READ):
        part = order[start : start + READ]
        values = []
        for digest, group in part:
            txid, at = group.stamp or (0, 0)
            values.append(encode(digest[:8], digest[8:], txid, at, 0, 0, make(group)))
        yield [digest[:8] for digest, _ in part], values


def _message(program: Program, group: GroupState) -> bytes:
    fields = program.projection.fields(group, program.environment)
    return program.kind.build(list(zip(program.projection.destinations, fields, strict=True)))
