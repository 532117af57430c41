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

from sowctl.engine.fold.spill import SortBuckets
from sowctl.engine.views.cache_tables import (
    DIGEST_BYTES,
    GROUPS_TABLE,
    JOIN_TABLES,
    PLACES_TABLE,
    ROW_TABLES,
    ROWS_TABLE,
    STAMP_BYTES,
    JoinTables,
    record_seeks,
)
from sowctl.engine.views.computation import compute_messages
from sowctl.engine.views.definition import Program, ViewRecord
from sowctl.engine.views.group_spill import MIN_PART_BYTES
from sowctl.engine.views.groups import encode_message
from sowctl.engine.views.incremental import Contributions
from sowctl.engine.views.joins import JoinedRow, JoinIndex, build_rows, find_no_partners, finish_rows, join_record
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.records import read_records
from sowctl.expressions.rows.retraction import RetractableProjection
from sowctl.identity.keys import digest_key

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.engine.views.instant import ViewInstant
    from sowctl.store.builder import StoreBuilder
    from sowctl.store.write import WriteTxn

ROW_BYTES = 400
"""A row with its contribution and what Python takes for it; a bound of memory, not measured."""
BATCH_WRITE_BYTES = 4 << 20
"""Bytes that a batch of rows is taken to write, a hint for the size of the map."""
BATCH_RECORDS = 10_000
"""Records that are read together, and whose rows are written in one transaction: with 1,000 of them, 500,000 orders
joined with 5,000 customers take 20.2 s of processor time, so 19.1."""
TRANSACTION_ROWS = 10_000
"""Rows of groups that are written in one transaction, or those of one group."""


def build_messages(moment: ViewInstant, program: Program, builder: StoreBuilder) -> None:
    """The messages alone."""
    for keys, values in compute_messages(moment, program, builder.path.parent):
        builder.append_records(keys, values)
    builder.flush()


def build_all_tables(moment: ViewInstant, program: Program, builder: StoreBuilder, directory: Path) -> int:
    """Write messages, rows and groups, and for joins the records of all sources; how many rows there are.

    ``directory`` takes temporary files without a name.
    """
    builder.open_tables((*ROW_TABLES, *JOIN_TABLES))
    retractable = RetractableProjection(program.projection)
    rows = 0
    limit = VIEW_LIMITS.max_sort_bytes if moment.memory is None else max(moment.memory, MIN_PART_BYTES)
    with SortBuckets(directory, ROW_BYTES * _records(moment, program), limit) as buckets:
        for some in _build_rows(moment, program, builder):
            made = Contributions(program, retractable, some)
            # The place and, behind its length, the contribution travel together; the SOW key brings them into order.
            data = [
                len(place).to_bytes(2, "big") + place + retractable.encode_contribution(one)
                for place, one in zip(made.places, made.contributions, strict=True)
            ]
            buckets.add_values(b"".join(map(digest_key, made.digests)), data)
            places = [
                (place[DIGEST_BYTES + STAMP_BYTES :], place[: DIGEST_BYTES + STAMP_BYTES]) for place in made.places
            ]
            builder.run_transaction(partial(_append, PLACES_TABLE, places), pending=BATCH_WRITE_BYTES)
            rows += len(some)
        _write_groups(program, retractable, builder, _iterate_groups(buckets))
    builder.flush()
    return rows


def _records(moment: ViewInstant, program: Program) -> int:
    stored = moment.find_source(program.query.sources[0]).stored_source
    return 0 if stored is None else stored.meta.records


def _append(name: str, pairs: Sequence[tuple[bytes, bytes]], txn: WriteTxn) -> None:
    # Callers pass keys in ascending order, which appending requires: rows of first records by key, groups by digest.
    txn.open_table(name).put(pairs, append=True)


def _build_rows(moment: ViewInstant, program: Program, builder: StoreBuilder) -> Iterator[list[JoinedRow]]:
    """The rows of all first records in their order; what later joins need is written on the way."""

    def source(number: int) -> Iterator[list[ViewRecord]]:
        return read_records(
            program, number, moment.find_source(program.query.sources[number]).read_batches(BATCH_RECORDS)
        )

    if not program.steps:
        for records in source(0):
            yield build_rows(program, records, find_no_partners)
        return

    def load(number: int, records: list[ViewRecord], txn: WriteTxn) -> None:
        JoinTables(program, txn.open_table).load_records(number, records)

    held = JoinIndex(program, source)
    for records in source(0):
        rows: list[tuple[ViewRecord | None, ...]] = []
        sought: list[tuple[bytes, set[bytes]]] = []
        for record in records:
            seeks: set[bytes] = set()
            rows += join_record(program, record, record_seeks(held, seeks))
            sought.append((record.key, seeks))

        def note(
            txn: WriteTxn,
            records: list[ViewRecord] = records,
            sought: list[tuple[bytes, set[bytes]]] = sought,
        ) -> None:
            tables = JoinTables(program, txn.open_table)
            tables.load_records(0, records)
            tables.load_seeks(sought)

        builder.run_transaction(note, pending=BATCH_WRITE_BYTES)
        yield finish_rows(program, rows)
    # The table of records is appended to, source by source.
    for number in range(1, len(program.query.sources)):
        for records in source(number):
            builder.run_transaction(partial(load, number, records), pending=BATCH_WRITE_BYTES)


def _iterate_groups(buckets: SortBuckets) -> Iterator[list[tuple[bytes, bytes]]]:
    """The entries of the table of rows, group by group in the order of their digests."""

    def entries() -> Iterator[tuple[bytes, bytes]]:
        for _, values in buckets.iterate_sorted(BATCH_RECORDS):
            for value in values:
                end = 2 + int.from_bytes(value[:2], "big")
                yield value[2:end], value[end:]

    for _, some in groupby(entries(), key=lambda entry: entry[0][:8]):
        # Sorted by stamp, as the table is. Groups of one SOW key, which next to never happens, do not mix.
        for _, rows in groupby(sorted(some), key=lambda entry: entry[0][:DIGEST_BYTES]):
            yield list(rows)


def _write_groups(
    program: Program,
    retractable: RetractableProjection,
    builder: StoreBuilder,
    groups: Iterator[list[tuple[bytes, bytes]]],
) -> None:
    """Write rows, state and message of every group."""
    rows: list[tuple[bytes, bytes]] = []
    states: list[tuple[bytes, bytes]] = []

    def write() -> None:
        builder.run_transaction(partial(_append, ROWS_TABLE, rows), pending=BATCH_WRITE_BYTES)
        builder.run_transaction(partial(_append, GROUPS_TABLE, states), pending=BATCH_WRITE_BYTES)

    for some in groups:
        digest = some[0][0][:DIGEST_BYTES]
        group = retractable.build_empty_group()
        group.update([retractable.decode_contribution(data) for _, data in some], 1)
        fields = retractable.compute_fields(group, program.environment)
        builder.append_records([digest_key(digest)], [encode_message(program, digest, fields, group.find_stamp())])
        rows += some
        states.append((digest, retractable.encode_group(group)))
        if len(rows) >= TRANSACTION_ROWS:
            write()
            rows, states = [], []
    write()
