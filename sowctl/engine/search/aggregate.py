"""Aggregated queries: one message per group of the records that match (``behaviour`` 3.4, C70-C74).

The result is that of a view with the same projection and grouping. A field that is neither grouped nor aggregated has
the value of the record of its group that was updated last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING

from sowctl.engine.search import figures
from sowctl.engine.search.matcher import headers_of
from sowctl.errors import InputError, UsageError
from sowctl.identity.keys import batch_digester
from sowctl.store.codec import all_stamps, encode, payloads

if TYPE_CHECKING:
    from sowctl.engine.reports import QueryStatistics
    from sowctl.engine.search.memofields import Columns, Stamped
    from sowctl.engine.search.scan import Scan
    from sowctl.engine.sources.source import Matched, Pairs
    from sowctl.expressions.environment import Environment
    from sowctl.expressions.functions import Function
    from sowctl.expressions.rows.projection import GroupKey, GroupState
    from sowctl.messages.base import MessageType
    from sowctl.values.fields import Slot

MOST_TEXT = 64 << 10
"""Bytes that the text of a projection may have."""


class Aggregation:
    """A projection with its grouping over records of one topic; where that names no field, all of them are one group.

    Raises UsageError ``SOW-QRY-013`` (a type that cannot be written), ``SOW-QRY-014`` (text too long), ExpressionError.
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
        from sowctl.expressions.compile import compile_projection

        if len(projection.encode("utf-8", "surrogateescape")) > MOST_TEXT:
            raise UsageError("SOW-QRY-014", f"the projection is longer than {MOST_TEXT:,} bytes")
        sources = ((topic,), (kind.name, topic))
        self.program = compile_projection(
            projection, grouping if grouping.strip() else None, sources=sources, extra=functions
        )
        if not kind.constructible:
            raise UsageError("SOW-QRY-013", f"messages of type {kind.name} cannot be written, so not projected")
        self._kind = kind
        self._topic = topic
        self._environment = environment

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The fields of a record that it reads, if they are all it reads."""
        return () if self.program.uses_header else self.program.slots

    def over(self, scan: Scan, size: int, numbers: QueryStatistics) -> Iterator[Pairs]:
        """What :meth:`results` gives of the records that match, from indexes alone where these know the fields."""
        way, slots = scan.way, self.slots
        # Indexes first, by columns where there are many rows, then by rows; else the records are read. All three ways
        # give the same groups.
        columns = way.columns(slots) if way is not None and slots else None
        rows = way.rows(slots) if way is not None and slots and columns is None else None
        if way is None or (rows is None and columns is None):
            return self.results(scan.matching(size, numbers))
        numbers.examined, numbers.matched = way.source.visible_records(), way.count() or 0
        return self.results((), rows or (), columns)

    def results(
        self, found: Iterable[Matched], known: Iterable[Stamped] = (), columns: Columns | None = None
    ) -> Iterator[Pairs]:
        """Keys and stored values, as records have them, of one message per group, by key.

        ``known`` and ``columns``: fields and stamps of records that are not in ``found``. The key is that of the
        grouping texts, txid and time are the highest of the group. Raises InputError ``SOW-QRY-004`` for a payload that
        cannot be read.
        """
        groups: dict[GroupKey, GroupState] = {}
        if columns is not None:
            from sowctl.expressions.columns.grouping import add_columns

            fields, txids, times = columns
            # Each way adds to the same groups, so rows, columns and records may even come together.
            add_columns(
                self.program,
                groups,
                [fields[slot] for slot in self.program.slots],
                len(txids),
                self._environment,
                txids,
                times,
            )
        for some, stamped in known:
            self.program.add(groups, some, self._environment, None, stamped)
        extract = self._kind.extractor(self.program.slots)
        for keys, values in found:
            rows, refused = extract(payloads(values))
            # A record that cannot be read belongs to no group; leaving it out would make sums wrong without a word.
            if refused:
                number = int.from_bytes(keys[refused[0].index], "big")
                raise InputError(
                    "SOW-QRY-004",
                    f"the message of record {number} cannot be read: {refused[0].message}",
                    place=self._topic,
                    sow_key=str(number),
                )
            # Made only where the projection asks for metadata: a header for every record takes its time.
            headers = headers_of(keys, values, self._topic) if self.program.uses_header else None
            self.program.add(groups, rows, self._environment, headers, all_stamps(values))
        yield from self._written(groups)

    def _written(self, groups: dict[GroupKey, GroupState]) -> Iterator[Pairs]:
        digester = batch_digester(self._topic, 0)
        # By key as records come: the order depends on the groups alone, not on the way that they were found.
        order = sorted(zip(digester(list(groups), null=True), groups.values(), strict=True), key=itemgetter(0))
        for start in range(0, len(order), figures.WRITTEN):
            keys, values = [], []
            for digest, group in order[start : start + figures.WRITTEN]:
                payload = self._message(group)
                # The highest txid of the group, so a field that is neither grouped nor aggregated is that of its latest
                # update (decision 50).
                txid, time = group.stamp
                keys.append(digest[:8])
                values.append(encode(digest[:8], digest[8:], txid, time, 0, 0, payload))
            yield keys, values

    def _message(self, group: GroupState) -> bytes:
        found = self.program.fields(group, self._environment)
        return self._kind.build(list(zip(self.program.destinations, found, strict=True)))
