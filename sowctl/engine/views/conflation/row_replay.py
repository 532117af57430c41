"""Replaying the history of a view change by change: applies each change of a source to rows, groups and messages.

For each changed record, its previous rows are retracted from their groups and its new rows are added. In a join every
row begins with one record of the first source. A change of any source therefore affects the first records that seek
the texts of the changed record (``behaviour`` 5.2).

A conflated topic over a view needs the messages after every single change: two changes at one instant that cancel each
other open an interval, and an output has the stamp of the last change of its payload (11.44). So a change costs a few
reads and writes of tables, and the state of its groups, which includes distinct values for MIN, MAX and similar.
Caches instead compute all groups affected by many changes in one step, from columns
(:mod:`sowctl.engine.views.column_refresh`). For single changes, that takes 1.7 ms of processor time instead of 0.3 with
10,000 records in 1,000 groups, and 7.4 instead of 0.3 with 100,000 records in one group with a SUM.

Called by :mod:`sowctl.engine.views.conflation.rowchanges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.search.matcher import evaluate_records
from sowctl.engine.views.conflation.replay_tables import (
    DIGEST_BYTES,
    STAMP_BYTES,
    JoinTables,
    RowTables,
    encode_stamp,
    record_seeks,
)
from sowctl.engine.views.definition import Program, ViewRecord
from sowctl.engine.views.groups import encode_message
from sowctl.engine.views.joins import JoinedRow, build_rows, find_no_partners, finish_rows, join_record
from sowctl.expressions.rows.groups import Contribution
from sowctl.expressions.rows.retraction import RetractableProjection
from sowctl.identity.keys import build_batch_digester, digest_key
from sowctl.store.limits import STORE_LIMITS

if TYPE_CHECKING:
    from sowctl.store.write import WriteTxn

Changes = Mapping[bytes, ViewRecord | None]
"""The current records of a source that may have changed, by key; None for a removed record."""


class Contributions:
    """For each of some rows, the digest of its group and its contribution to the group."""

    def __init__(self, program: Program, retractable: RetractableProjection, rows: Sequence[JoinedRow]) -> None:
        headers = [row.header for row in rows if row.header is not None] if program.projection.uses_header else None
        # The order makes stamps unique: among rows with equal stamps, the last in order is the latest.
        stamps = [(*row.stamp, row.order) for row in rows]
        values = [row.values for row in rows]
        keys, self.contributions = evaluate_records(
            lambda part: retractable.compute_contributions(
                values[part], stamps[part], program.environment, headers and headers[part]
            ),
            [row.key for row in rows],
            program.query.sources[0].name,
        )
        self.digests = build_batch_digester(program.query.key_domain, 0)(keys, null=True)
        self.places = [
            digest + encode_stamp(row.stamp) + row.order for digest, row in zip(self.digests, rows, strict=True)
        ]


class IncrementalUpdate:
    """Applies changes to the tables in one transaction. Raises DamageError if the tables belong to another view."""

    def __init__(self, program: Program, txn: WriteTxn) -> None:
        self._program = program
        self._retractable = RetractableProjection(program.projection)
        self._txn = txn
        self._rows = RowTables(txn.open_table)
        self._joins = JoinTables(program, txn.open_table) if program.steps else None
        self._gone: dict[bytes, list[Contribution]] = {}
        self._fresh: dict[bytes, list[Contribution]] = {}

    def apply(self, changes: Sequence[Changes]) -> int:
        """Apply ``changes`` of each source to rows, groups and messages. Return the increase in the number of rows."""
        if self._joins is None:
            self._rows_of_one(changes[0])
        else:
            self._rows_of_joins(self._joins, changes)
        # After writing all rows, because a group that lost its minimum or latest value reads the table of rows.
        self._groups()
        return sum(map(len, self._fresh.values())) - sum(map(len, self._gone.values()))

    def _rows_of_one(self, changes: Changes) -> None:
        keys = sorted(changes)
        for start in range(0, len(keys), STORE_LIMITS.read_batch_records):
            some = keys[start : start + STORE_LIMITS.read_batch_records]
            records = [record for key in some if (record := changes[key]) is not None]
            rows = build_rows(self._program, records, find_no_partners)
            self._exchange(some, rows)

    def _rows_of_joins(self, tables: JoinTables, changes: Sequence[Changes]) -> None:
        concerned: set[bytes] = set()
        for source, records in enumerate(changes):
            for key in sorted(records):
                old, new = tables.read_record(source, key), records[key]
                if old != new:
                    concerned |= tables.replace_record(source, key, old, new)
        # Rows are built only after all records are updated.
        roots = sorted(concerned)
        for start in range(0, len(roots), STORE_LIMITS.read_batch_records):
            some = roots[start : start + STORE_LIMITS.read_batch_records]
            rows: list[tuple[ViewRecord | None, ...]] = []
            for root in some:
                record, sought = tables.read_record(0, root), set[bytes]()
                if record is not None:
                    rows += join_record(self._program, record, record_seeks(tables.find_records, sought))
                tables.replace_seeks(root, sought)
            self._exchange(some, finish_rows(self._program, rows))

    def _exchange(self, roots: Sequence[bytes], rows: Sequence[JoinedRow]) -> None:
        """Replace the previous rows of first records by ``rows``."""
        tables, retractable = self._rows, self._retractable
        before: dict[bytes, bytes] = {}
        for root in roots:
            before.update(tables.find_root_rows(root, joined=self._joins is not None))
        made = Contributions(self._program, retractable, rows)
        old = tables.rows.get_many(sorted(before.values()))
        put: list[tuple[bytes, bytes]] = []
        for row, digest, place, one in zip(rows, made.digests, made.places, made.contributions, strict=True):
            data = retractable.encode_contribution(one)
            # An identical row is kept: neither its group nor its message changes.
            if before.get(row.order) == place and old.get(place) == data:
                del before[row.order]
                continue
            put.append((place, data))
            self._fresh.setdefault(digest, []).append(one)
        for place in before.values():
            self._gone.setdefault(place[:DIGEST_BYTES], []).append(
                retractable.decode_contribution(_require_row(old, place))
            )
        # Delete first, because a row with a changed contribution may have the same key.
        tables.rows.delete(before.values())
        tables.places.delete(order for order in before)
        tables.rows.put(sorted(put))
        tables.places.put(
            sorted((place[DIGEST_BYTES + STAMP_BYTES :], place[: DIGEST_BYTES + STAMP_BYTES]) for place, _ in put)
        )

    def _groups(self) -> None:
        tables, retractable, environment = self._rows, self._retractable, self._program.environment
        touched = sorted(self._gone.keys() | self._fresh.keys())
        states = tables.groups.get_many(touched)
        kept: list[tuple[bytes, bytes]] = []
        messages: dict[bytes, bytes] = {}
        empty: list[bytes] = []
        for digest in touched:
            state = states.get(digest)
            group = self._program.projection.build_group() if state is None else retractable.decode_group(state)
            if digest in self._gone:
                group.update(self._gone[digest], -1)
            if digest in self._fresh:
                group.update(self._fresh[digest], 1)
            if not group.size:
                empty.append(digest)
                continue

            def rows(descending: bool, digest: bytes = digest) -> Iterator[Contribution]:
                return map(retractable.decode_contribution, tables.iterate_group(digest, descending))

            stamp = group.find_stamp(rows)
            fields = self._program.projection.compute_fields(group, environment, rows)
            messages[digest_key(digest)] = encode_message(self._program, digest, fields, stamp)
            kept.append((digest, retractable.encode_group(group)))
        tables.groups.put(kept)
        tables.groups.delete(empty)
        self._messages(messages, set(map(digest_key, empty)))

    def _messages(self, messages: Mapping[bytes, bytes], empty: set[bytes]) -> None:
        keys = sorted(messages)
        olds = self._txn.read_values(keys)
        changed = [key for key in keys if olds.get(key) != messages[key]]
        self._txn.put_records(changed, [messages[key] for key in changed])
        self._txn.delete_records(empty)


def _require_row(rows: Mapping[bytes, bytes], place: bytes) -> bytes:
    found = rows.get(place)
    if found is None:
        from sowctl.expressions.aggregates.accumulator import build_damage_error

        raise build_damage_error("rows")
    return found
