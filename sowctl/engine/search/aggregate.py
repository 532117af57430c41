"""Aggregated queries: one message per group of matching records (``behaviour`` 3.4, C70-C74).

The result equals that of a view with the same projection and grouping. A field that is neither grouped nor aggregated
has its value in the most recently updated record of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sowctl.engine.search.external_grouping import ExternalGrouping, GroupWriter
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.matcher import build_headers, evaluate_records
from sowctl.engine.search.plan import is_faster_by_columns
from sowctl.errors import InputError, SowError, UsageError
from sowctl.store.codec import extract_payloads, read_all_stamps

if TYPE_CHECKING:
    from sowctl.engine.reports import QueryStatistics
    from sowctl.engine.search.index_fields import StampedRows
    from sowctl.engine.search.scan import Scan
    from sowctl.engine.sources.source import MatchedPairs, Pairs
    from sowctl.expressions.environment import Environment
    from sowctl.expressions.functions import Function
    from sowctl.expressions.rows.projection import GroupedRows
    from sowctl.messages.base import MessageType
    from sowctl.store.read import LineBatch
    from sowctl.values.batch import ColumnBatch
    from sowctl.values.fields import Refusal, Slot

    LineReader = Callable[[], Iterator[LineBatch] | None]

MAX_PROJECTION_BYTES = 64 << 10
"""Maximum size of the text of a projection."""


class Aggregation:
    """A projection and its grouping over records of one topic; an empty grouping puts all records in one group.

    Raises UsageError ``SOW-QRY-013`` (messages of the type cannot be constructed) or ``SOW-QRY-014`` (text too long),
    and ExpressionError.
    """

    def __init__(
        self,
        projection: str,
        grouping: str,
        kind: MessageType,
        topic: str,
        environment: Environment,
        functions: Mapping[str, Function],
    ) -> None:
        from sowctl.expressions.compiler import compile_projection

        if len(projection.encode("utf-8", "surrogateescape")) > MAX_PROJECTION_BYTES:
            raise UsageError("SOW-QRY-014", f"the projection exceeds the maximum of {MAX_PROJECTION_BYTES:,} bytes")
        sources = ((topic,), (kind.name, topic))
        self.program = compile_projection(
            projection, grouping if grouping.strip() else None, sources=sources, extra=functions
        )
        if not kind.constructible:
            raise UsageError(
                "SOW-QRY-013", f"messages of type {kind.name} cannot be constructed, so they cannot be projected"
            )
        self._kind = kind
        self._topic = topic
        self._environment = environment

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The fields that the projection reads; empty if it also reads metadata."""
        return () if self.program.uses_header else self.program.slots

    def aggregate_scan(self, scan: Scan, size: int, numbers: QueryStatistics, memory: int) -> Iterator[Pairs]:
        """Aggregate the matching records, from indexes alone if they cover the fields."""
        way, slots = scan.way, self.slots
        lasting = scan.lasting
        # Indexes first: by columns if the rows are many, otherwise by rows. Without indexes the records are read. All
        # three ways compute the same groups.
        columns = way.read_columns(slots) if way is not None and slots else None
        rows = way.read_rows(slots) if way is not None and slots and columns is None else None
        if way is None or (rows is None and columns is None):
            return self._aggregate_by_reading(scan, size, numbers, memory)
        numbers.examined, numbers.matched = way.source.count_visible(), way.count_matching() or 0
        # Rows include the records that changed since the indexes were built; columns do not.
        changed = way.read_changed() if columns is not None else {}
        more = [(list(changed), list(changed.values()))] if changed else []
        again = partial(self._aggregate_by_reading, scan, size, numbers, memory)
        return self.aggregate_records(
            more, rows or (), columns, memory=memory, records=numbers.matched, lasting=lasting, again=again
        )

    def _aggregate_by_reading(self, scan: Scan, size: int, numbers: QueryStatistics, memory: int) -> Iterator[Pairs]:
        stored = scan.source.stored_source
        records = None if stored is None else stored.count_visible()
        # Without a filter the number of matching records is known in advance.
        sure = 0 if records is None or scan.matcher.is_selective else records
        found = scan.read_matching(size, numbers)
        lined = partial(scan.read_lines, numbers)
        return self.aggregate_records(
            found, memory=memory, records=records, sure=sure, lined=lined, lasting=scan.lasting
        )

    def aggregate_records(
        self,
        found: Iterable[MatchedPairs],
        known: Iterable[StampedRows] = (),
        columns: ColumnBatch | None = None,
        *,
        memory: int,
        records: int | None = None,
        sure: int = 0,
        lined: LineReader | None = None,
        lasting: bool = False,
        again: Callable[[], Iterator[Pairs]] | None = None,
    ) -> Iterator[Pairs]:
        """Yield keys and stored values, encoded as in stores, of one message per group, ordered by key.

        ``known`` and ``columns``: fields and stamps of records that are not in ``found``. ``memory``: bytes that groups
        use before records spill to temporary files. ``records``: maximum number of records, ``sure``: minimum number.
        ``lined`` reads the records of ``found`` as lines if all are in a store. ``again`` computes the result from
        records alone, so that an error names the record: values of indexes do not identify it. Raises InputError
        ``SOW-QRY-004`` for a payload that cannot be read, StorageError ``SOW-ENG-040``.
        """
        writer = GroupWriter(self.program, self._environment, self._topic, self._kind)
        with ExternalGrouping(writer, limit=memory, records=records) as grouped:
            # All inputs add to the same groups, so one query may combine rows, columns and records.
            steps = self._environment.steps
            try:
                if columns is not None:
                    self._add_columns(grouped, columns)
                for some, stamped in known:
                    grouped.add(self.program.group_messages(some, self._environment, None, stamped))
            except SowError as error:
                from sowctl.expressions.environment import TIME_LIMIT_CODE

                if again is None or error.code == TIME_LIMIT_CODE:
                    raise
                self._environment.reset_steps(steps)
                yield from again()
                return
            self._add_records(grouped, found, sure, lined, lasting=lasting)
            yield from grouped.iterate_messages()

    def _add_columns(self, grouped: ExternalGrouping, messages: ColumnBatch) -> None:
        size = QUERY_LIMITS.group_batch_column_rows
        parts = (messages.take(slice(start, start + size)) for start in range(0, messages.size, size))
        self._add_parts(grouped, parts if messages.size > size else iter([messages] if messages.size else []))

    def _add_parts(self, grouped: ExternalGrouping, parts: Iterator[ColumnBatch]) -> None:
        from sowctl.expressions.columns.grouping import Grouper

        locate = partial(evaluate_records, topic=self._topic)
        grouped.add_all(Grouper(self.program, self._environment, locate).group_parts(parts))

    def _add_records(
        self,
        grouped: ExternalGrouping,
        found: Iterable[MatchedPairs],
        sure: int,
        lined: LineReader | None,
        *,
        lasting: bool,
    ) -> None:
        """Read records and add them: by rows until enough are seen (or ``sure``) for columns to be faster."""
        extract = self._kind.build_extractor(self.program.slots)
        remaining, seen = iter(found), 0
        possible = not self.program.uses_header
        while not possible or not is_faster_by_columns(max(seen, sure), lasting=lasting):
            some = next(remaining, None)
            if some is None:
                return
            keys, values = some
            rows, refused = extract(extract_payloads(values))
            if refused:
                raise self._make_unreadable_error(refused[0], keys[refused[0].index])
            # Only for projections that read metadata: building a header per record is expensive.
            headers = build_headers(keys, values, self._topic) if self.program.uses_header else None
            stamped = read_all_stamps(values)

            def group(part: slice) -> GroupedRows:
                headed = headers and headers[part]  # noqa: B023 - called immediately
                return self.program.group_messages(rows[part], self._environment, headed, stamped[part])  # noqa: B023

            grouped.add(evaluate_records(group, keys, self._topic))
            seen += len(keys)
        from sowctl.engine.search.blocks import BlockColumnReader, iterate_blocks

        # Lines start at the first record, so they can replace ``found`` only if nothing was read from it.
        whole = lined() if lined is not None and not seen else None
        read = BlockColumnReader(self._kind, self.program.slots, self._make_unreadable_error)
        blocks = iterate_blocks(((None, some) for some in remaining) if whole is None else whole)
        self._add_parts(grouped, (part for block in blocks for part in read.read_parts(block)))

    def _make_unreadable_error(self, refused: Refusal, key: bytes) -> InputError:
        # An unreadable record belongs to no group, and skipping it would make sums wrong silently.
        number = int.from_bytes(key, "big")
        return InputError(
            "SOW-QRY-004",
            f"record {number} has an invalid message: {refused.message}",
            place=self._topic,
            sow_key=str(number),
        )
