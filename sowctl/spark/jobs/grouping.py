"""Joining and grouping records on Spark with the engine's evaluators (for the job ``view``).

A record travels as the fields that the view asks of it, its place in key order and its stamps. Every step of a join
brings together the records of one key text; the last shuffle brings together the rows of one group, by the digest of
the group's key, so that what the tasks leave is in key order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.engine.instance import Instance
from sowctl.engine.reading import Matcher, environment_of, headers_of
from sowctl.errors import InputError, UsageError
from sowctl.expressions.joining import Step, plan, source_of
from sowctl.expressions.joins import Join, JoinSide, parse_join
from sowctl.expressions.projection import Group, GroupKey, Projection, compile_projection
from sowctl.identity.keys import batch_digester
from sowctl.spark.errors import translated
from sowctl.spark.jobs.pairfiles import read_pairs, write_pairs
from sowctl.spark.jobs.tasks import attempt, carried_iterator, describe
from sowctl.store.codec import encode, payloads, stamps
from sowctl.tuples import NamedTuple
from sowctl.values.fields import Slot, SlotValue, Values

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from sowctl.engine.sources import Pairs
    from sowctl.expressions.compile import Filter
    from sowctl.expressions.environment import Header
    from sowctl.spark.jobs.outputs import Part

READ = 1000


@dataclass(frozen=True, slots=True)
class Query:
    """A view: ``sources`` are message type and name; texts as a configuration has them."""

    name: str
    message_type: str
    sources: tuple[tuple[str, str], ...]
    joins: tuple[str, ...]
    projection: tuple[str, ...]
    grouping: tuple[str, ...]
    filter: str | None
    nulls_match: bool
    key_domain: str


class Record(NamedTuple):
    """What travels of a record: its key, (txid, time), header, the fields asked for, the texts of join keys."""

    key: bytes
    stamp: tuple[int, ...]
    header: Header | None
    values: tuple[SlotValue, ...]
    texts: tuple[bytes | None, ...]


class Row(NamedTuple):
    """A row of the join so far: a record of every source attached, None where none matched."""

    order: tuple[bytes, ...]
    records: tuple[Record | None, ...]


class Item(NamedTuple):
    """A row ready for its group."""

    order: tuple[bytes, ...]
    stamp: tuple[int, ...]
    header: Header | None
    values: tuple[SlotValue, ...]


@dataclass(frozen=True, slots=True)
class FilePart:
    """Groups in a file that a task left; ``read`` rows went into them."""

    path: str
    read: int

    def pairs(self) -> Iterator[Pairs]:
        """Keys and stored values in key order."""
        return read_pairs(Path(self.path))


class Program:
    """A compiled view: which fields of which source, and what becomes of them. Made anew by every task."""

    def __init__(self, instance: Instance, query: Query) -> None:
        self.instance, self.query = instance, query
        functions = instance.functions
        joined = len(query.sources) > 1
        names = [(name,) for _, name in query.sources] + [(kind, name) for kind, name in query.sources]
        self.projection: Projection = compile_projection(
            query.projection, query.grouping, joined=joined, sources=names, extra=functions
        )
        self.kind = instance.type_of(query.message_type)
        if not self.kind.constructible:
            raise UsageError("SOW-QRY-013", f"messages of type {self.kind.name} cannot be written, so not projected")
        self.environment = environment_of(instance)
        self.filter: Filter | None = None
        if joined and query.filter:
            from sowctl.expressions.compile import compile_filter

            self.filter = compile_filter(query.filter, extra=functions)
        self.joins: tuple[Join, ...] = tuple(map(parse_join, query.joins))
        self.slots: list[list[Slot]] = [[] for _ in query.sources]
        self.places = self._placed(self.projection.slots, self.projection.sources)
        self.tested = self._placed(self.filter.slots, self.filter.sources) if self.filter is not None else []

    def _placed(self, slots: Sequence[Slot], sources: Sequence[tuple[str, ...]]) -> list[tuple[int, int, bool]]:
        """For every slot: its source, its place among that source's slots, whether it is a list."""
        found = []
        for slot, qualifier in zip(slots, sources, strict=True):
            source = self.source_of(qualifier)
            mine = self.slots[source]
            if slot not in mine:
                mine.append(slot)
            found.append((source, mine.index(slot), slot.listed))
        return found

    def source_of(self, qualifier: tuple[str | None, ...]) -> int:
        """The number of the source that a qualifier names; the first where there is none."""
        if not qualifier:
            return 0
        for number, (kind, name) in enumerate(self.query.sources):
            if name == qualifier[-1] and (len(qualifier) < 2 or qualifier[0] in (None, kind)):
                return number
        raise UsageError("SOW-EXP-028", f"[{qualifier[-1]}] is no source of the view")

    @cached_property
    def sides(self) -> list[list[JoinSide]]:
        """The sides of joins by source, each once: their texts travel with the records."""
        found: list[list[JoinSide]] = [[] for _ in self.query.sources]
        for join in self.joins:
            for side in join:
                mine = found[self.source_of((side.message_type, side.topic))]
                if side not in mine:
                    mine.append(side)
        return found

    @cached_property
    def steps(self) -> list[Step[Any]]:
        """The steps of the join. Raises UsageError ``SOW-EXP-027``."""
        if not self.joins:
            return []
        start: tuple[str | None, str]
        steps: list[Step[Any]]
        start, steps = plan(self.joins)
        if self.source_of(start) != 0:
            raise UsageError("SOW-EXP-027", f"[{start[1]}] is joined before it is attached")
        return steps

    def text(self, side: JoinSide, record: Record | None) -> bytes | None:
        """The text of a join key in a record."""
        if record is None:
            return None
        return record.texts[self.sides[self.source_of(source_of(side))].index(side)]

    def values(self, records: Sequence[Record | None], places: list[tuple[int, int, bool]]) -> tuple[SlotValue, ...]:
        """The values of slots in a row."""
        found: list[SlotValue] = []
        for source, place, listed in places:
            record = records[source] if source < len(records) else None
            found.append(record.values[place] if record is not None else Values(()) if listed else None)
        return tuple(found)


def grouped(
    spark: SparkSession, instance: Instance, query: Query, parts: Sequence[Sequence[Part]], directory: Path
) -> list[FilePart]:
    """The groups of a view over the records in ``parts``, a row of parts for every source; in key order."""
    moment = instance.now
    frozen = Instance(instance.config, partial(int, moment))
    program = Program(frozen, query)
    context = spark.sparkContext
    count = max(context.defaultParallelism, max(map(len, parts)))
    describe(spark, f"view {query.name}")
    maker = _Maker(frozen, query)
    sources: list[RDD[Any]] = [
        context.parallelize(list(some), max(1, len(some))).mapPartitions(partial(_records, maker, number))
        for number, some in enumerate(parts)
    ]
    rows: RDD[Any] = sources[0].map(_first)
    for number, step in enumerate(program.steps):
        left = rows.map(partial(_left_key, maker, number))
        right = sources[program.source_of(step.source)].flatMap(partial(_right_key, maker, number))
        rows = left.cogroup(right, count).flatMap(partial(_attached, maker, number))
    items = rows.mapPartitions(partial(_items, maker, count))
    with translated():
        found = items.partitionBy(count, int).mapPartitionsWithIndex(partial(_groups, maker, str(directory))).collect()
    return [part for _, part in sorted(found, key=itemgetter(0))]


class _Maker:
    """Makes the program once per process."""

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
        return self.instance, self.query

    def __setstate__(self, state: tuple[Instance, Query]) -> None:
        self.instance, self.query = state
        self._made = None


def _records(maker: _Maker, number: int, parts: Iterable[Part]) -> Iterator[Record]:
    return carried_iterator(record for part in parts for record in _of_part(maker.program, number, part))


def _of_part(program: Program, number: int, part: Part) -> Iterator[Record]:
    """What travels of the records of a part."""
    message_type, topic = program.query.sources[number]
    kind = program.instance.type_of(message_type)
    text = program.query.filter if len(program.query.sources) == 1 else None
    matcher = Matcher(text, kind, topic, program.environment, functions=program.instance.functions)
    extract = kind.extractor(program.slots[number])
    sides = program.sides[number]
    key_texts = kind.key_texts([side.path for side in sides]) if sides else None
    for keys, values in part.pairs():
        places = matcher.places(keys, values)
        keys, values = [keys[place] for place in places], [values[place] for place in places]
        messages = payloads(values)
        rows, refused = extract(messages)
        if refused:
            key = str(int.from_bytes(keys[refused[0].index], "big"))
            raise InputError(
                "SOW-QRY-004",
                f"the message of record {key} cannot be read: {refused[0].message}",
                place=topic,
                sow_key=key,
            )
        texts: Sequence[tuple[bytes | None, ...]] = (
            key_texts(messages)[0] if key_texts is not None else [()] * len(rows)
        )
        uses_header = number == 0 and program.projection.uses_header
        headers = headers_of(keys, values, topic) if uses_header else [None] * len(rows)
        yield from map(Record, keys, map(stamps, values), headers, rows, texts)


def _first(record: Record) -> Row:
    return Row((record.key,), (record,))


def _left_key(maker: _Maker, number: int, row: Row) -> tuple[Any, Row]:
    """The text by which a row finds records of the next source; one that nobody has where that is NULL."""
    program = maker.program
    texts = tuple(
        program.text(old, _record(program, row, source_of(old))) for old, _ in program.steps[number].conditions
    )
    if None in texts and not program.query.nulls_match:
        return (b"row", *row.order), row
    return (b"key", *texts), row


def _record(program: Program, row: Row, source: tuple[str | None, str]) -> Record | None:
    place = program.source_of(source)
    return row.records[place] if place < len(row.records) else None


def _right_key(maker: _Maker, number: int, record: Record) -> list[tuple[Any, Record]]:
    program = maker.program
    texts = tuple(program.text(new, record) for _, new in program.steps[number].conditions)
    return [] if None in texts and not program.query.nulls_match else [((b"key", *texts), record)]


def _attached(maker: _Maker, number: int, found: tuple[Any, tuple[Iterable[Row], Iterable[Record]]]) -> Iterator[Row]:
    """The rows of one key, each with every record of the next source."""
    program = maker.program
    place = program.source_of(program.steps[number].source)
    left, right = found[1]
    others: list[Record | None] = [*sorted(right, key=itemgetter(0))] or [None]
    for row in left:
        for other in others:
            records = list(row.records) + [None] * (place + 1 - len(row.records))
            records[place] = other
            yield Row((*row.order, b"" if other is None else other.key), tuple(records))


def _items(maker: _Maker, count: int, rows: Iterable[Row]) -> Iterator[tuple[int, list[Item]]]:
    """Rows that pass the filter, by the bucket of their group, some at a time."""
    return carried_iterator(_bucketed(maker.program, count, rows))


def _bucketed(program: Program, count: int, rows: Iterable[Row]) -> Iterator[tuple[int, list[Item]]]:
    from itertools import islice

    remaining = iter(rows)
    while some := list(islice(remaining, READ)):
        if program.filter is not None:
            tested = [program.values(row.records, program.tested) for row in some]
            some = [some[place] for place in program.filter.matches(tested, program.environment, None)]
        items = [
            Item(
                row.order,
                max((one.stamp for one in row.records if one is not None), default=()),
                row.records[0].header if row.records[0] is not None else None,
                program.values(row.records, program.places),
            )
            for row in some
        ]
        buckets: dict[int, list[Item]] = {}
        headers = _headers(program, items)
        keys = program.projection.keys([item.values for item in items], program.environment, headers)
        for item, digest in zip(items, batch_digester(program.query.key_domain, 0)(keys, null=True), strict=True):
            buckets.setdefault(int.from_bytes(digest[:4], "big") * count >> 32, []).append(item)
        yield from buckets.items()


def _headers(program: Program, items: Sequence[Item]) -> list[Header] | None:
    return [item.header for item in items if item.header is not None] if program.projection.uses_header else None


def _groups(
    maker: _Maker, directory: str, index: int, found: Iterable[tuple[int, list[Item]]]
) -> Iterator[tuple[int, FilePart]]:
    """The groups of a bucket, in a file by key."""
    return carried_iterator(_written(maker.program, directory, index, found))


def _written(
    program: Program, directory: str, index: int, found: Iterable[tuple[int, list[Item]]]
) -> Iterator[tuple[int, FilePart]]:
    items = [item for _, some in found for item in some]
    if not items:
        return
    items.sort(key=itemgetter(0))
    groups: dict[GroupKey, Group] = {}
    rows = [item.values for item in items]
    stamps_of = [item.stamp for item in items]
    program.projection.add(groups, rows, program.environment, _headers(program, items), stamps_of)
    path = Path(directory) / f"groups-{attempt()}"
    write_pairs(path, _pairs(program, groups))
    yield index, FilePart(str(path), len(items))


def _pairs(program: Program, groups: dict[GroupKey, Group]) -> Iterator[Pairs]:
    digests = batch_digester(program.query.key_domain, 0)(list(groups), null=True)
    order = sorted(zip(digests, groups.values(), strict=True), key=itemgetter(0))
    make: Callable[[Group], bytes] = partial(_message, program)
    for start in range(0, len(order), READ):
        part = order[start : start + READ]
        values = []
        for digest, group in part:
            txid, at = group.stamp or (0, 0)
            values.append(encode(digest[:8], digest[8:], txid, at, 0, 0, make(group)))
        yield [digest[:8] for digest, _ in part], values


def _message(program: Program, group: Group) -> bytes:
    fields = program.projection.fields(group, program.environment)
    return program.kind.build(list(zip(program.projection.destinations, fields, strict=True)))
