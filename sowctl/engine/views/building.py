"""The cache of a view made from all records of its sources: messages alone, or with what later changes need.

What later changes need takes longer to write than the messages take to compute, so the first cache of a large view has
messages alone; :mod:`sowctl.engine.views.costs` says when it is made with tables. Rows are brought into the order of
their groups in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from sowctl.engine.fold.spill import Buckets
from sowctl.engine.views.computing import computed
from sowctl.engine.views.definition import Program, ViewRecord
from sowctl.engine.views.groups import encoded
from sowctl.engine.views.joins import JoinedRow, JoinTable, finished, joined, no_partners, rows_of
from sowctl.engine.views.records import records_of
from sowctl.engine.views.spilling import LEAST
from sowctl.engine.views.tables import (
    DIGEST,
    GROUPS,
    OF_JOINS,
    OF_ROWS,
    PLACES,
    ROWS,
    STAMP,
    JoinTables,
    noting,
)
from sowctl.engine.views.upkeep import Contributions
from sowctl.expressions.rows.retraction import Retractable

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.engine.views.moment import ViewInstant
    from sowctl.store.builder import StoreBuilder
    from sowctl.store.write import WriteTxn

MEMORY = 64 << 20
"""Bytes of rows that are sorted without files."""
ROW_BYTES = 400
"""A row with its contribution and what Python takes for it; a bound of memory, not measured."""
PENDING = 4 << 20
"""Bytes that a batch of rows is taken to write, a hint for the size of the map."""
TOGETHER = 10_000
"""Records that are read together, and whose rows are written in one transaction: with 1,000 of them, 500,000 orders
joined with 5,000 customers take 20.2 s of processor time, so 19.1."""
WRITTEN = 10_000
"""Rows of groups that are written in one transaction, or those of one group."""


def build_messages(moment: ViewInstant, program: Program, builder: StoreBuilder) -> None:
    """The messages alone."""
    for keys, values in computed(moment, program, builder.path.parent):
        builder.append(keys, values)
    builder.flush()


def build_all(moment: ViewInstant, program: Program, builder: StoreBuilder, directory: Path) -> int:
    """Messages, rows and groups, and for joins the records of all sources; how many rows there are.

    ``directory`` takes temporary files without a name.
    """
    builder.open_tables((*OF_ROWS, *OF_JOINS))
    retractable = Retractable(program.projection)
    rows = 0
    limit = MEMORY if moment.memory is None else max(moment.memory, LEAST)
    with Buckets(directory, ROW_BYTES * _records(moment, program), limit) as buckets:
        for some in _rows(moment, program, builder):
            made = Contributions(program, retractable, some)
            # The place and, behind its length, the contribution travel together; the SOW key brings them into order.
            data = [
                len(place).to_bytes(2, "big") + place + retractable.packed(one)
                for place, one in zip(made.places, made.contributions, strict=True)
            ]
            buckets.add(b"".join(digest[:8] for digest in made.digests), data)
            places = [(place[DIGEST + STAMP :], place[: DIGEST + STAMP]) for place in made.places]
            builder.change(partial(_append, PLACES, places), pending=PENDING)
            rows += len(some)
        _write_groups(program, retractable, builder, _groups(buckets))
    builder.flush()
    return rows


def _records(moment: ViewInstant, program: Program) -> int:
    stored = moment.source(program.query.sources[0]).stored
    return 0 if stored is None else stored.meta.records


def _append(name: str, pairs: Sequence[tuple[bytes, bytes]], txn: WriteTxn) -> None:
    txn.table(name).put(pairs, append=True)


def _rows(moment: ViewInstant, program: Program, builder: StoreBuilder) -> Iterator[list[JoinedRow]]:
    """The rows of all first records in their order; what later joins need is written on the way."""

    def source(number: int) -> Iterator[list[ViewRecord]]:
        return records_of(program, number, moment.source(program.query.sources[number]).batches(TOGETHER))

    if not program.steps:
        for records in source(0):
            yield rows_of(program, records, no_partners)
        return

    def load(number: int, records: list[ViewRecord], txn: WriteTxn) -> None:
        JoinTables(program, txn.table).load(number, records)

    held = JoinTable(program, source)
    for records in source(0):
        rows: list[tuple[ViewRecord | None, ...]] = []
        sought: list[tuple[bytes, set[bytes]]] = []
        for record in records:
            seeks: set[bytes] = set()
            rows += joined(program, record, noting(held, seeks))
            sought.append((record.key, seeks))

        def note(
            txn: WriteTxn,
            records: list[ViewRecord] = records,
            sought: list[tuple[bytes, set[bytes]]] = sought,
        ) -> None:
            tables = JoinTables(program, txn.table)
            tables.load(0, records)
            tables.load_seeks(sought)

        builder.change(note, pending=PENDING)
        yield finished(program, rows)
    # The table of records is appended to, source by source.
    for number in range(1, len(program.query.sources)):
        for records in source(number):
            builder.change(partial(load, number, records), pending=PENDING)


def _groups(buckets: Buckets) -> Iterator[list[tuple[bytes, bytes]]]:
    """The entries of the table of rows, group by group in the order of their digests."""

    def entries() -> Iterator[tuple[bytes, bytes]]:
        for _, values in buckets.sorted(TOGETHER):
            for value in values:
                end = 2 + int.from_bytes(value[:2], "big")
                yield value[2:end], value[end:]

    for _, some in groupby(entries(), key=lambda entry: entry[0][:8]):
        # Sorted by stamp, as the table is. Groups of one SOW key, which next to never happens, do not mix.
        for _, rows in groupby(sorted(some), key=lambda entry: entry[0][:DIGEST]):
            yield list(rows)


def _write_groups(
    program: Program,
    retractable: Retractable,
    builder: StoreBuilder,
    groups: Iterator[list[tuple[bytes, bytes]]],
) -> None:
    """Rows, state and message of every group."""
    rows: list[tuple[bytes, bytes]] = []
    states: list[tuple[bytes, bytes]] = []

    def write() -> None:
        builder.change(partial(_append, ROWS, rows), pending=PENDING)
        builder.change(partial(_append, GROUPS, states), pending=PENDING)

    for some in groups:
        digest = some[0][0][:DIGEST]
        group = retractable.empty()
        group.change([retractable.unpacked(data) for _, data in some], 1)
        fields = retractable.fields(group, program.environment)
        builder.append([digest[:8]], [encoded(program, digest, fields, group.stamp())])
        rows += some
        states.append((digest, retractable.pack(group)))
        if len(rows) >= WRITTEN:
            write()
            rows, states = [], []
    write()
