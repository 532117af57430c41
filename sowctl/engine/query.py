"""query: records of topics that match a filter, in the order asked for, as many as asked for (``semantics`` 3).

Texts are compiled before a store is opened. Without an order, records come in key order, topic after topic as the
configuration has them; with one, order, skip_n and top_n hold over the whole result. Nothing is held but a batch and
the memory for sorting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from sowctl.engine.options import QueryOptions
from sowctl.engine.reading import Matcher, environment_of, key_of, open_source
from sowctl.engine.records import RecordBatch, StoredRecord, batch_of
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.scanning import Scan, filtered, scanning
from sowctl.engine.sorting import Sorter
from sowctl.engine.sources import Pairs, Source
from sowctl.engine.targets import Target
from sowctl.errors import UsageError
from sowctl.store.codec import payloads, stamps
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.expressions.actions import OrderKey
    from sowctl.messages.base import MessageType

MAX_BATCH = 10_000
FEW = 10_000
"""So many first records are looked for by an index of their order; for more, everything is sorted."""
DEFAULTS = QueryOptions()

__all__ = ["QueryOptions", "QueryResult", "query"]


class QueryResult:
    """Iterate for batches of records, once; ``statistics`` are complete when that is done.

    Close it when not; forgetting it does the same.
    """

    def __init__(self, run: _Run) -> None:
        self.statistics = run.statistics
        self._batches = run.batches()

    def __iter__(self) -> Iterator[RecordBatch]:
        return self._batches

    def records(self) -> Iterator[StoredRecord]:
        """The records one by one."""
        for batch in self._batches:
            yield from batch.records

    def close(self) -> None:
        """End the query early; snapshots and temporary files go."""
        self._batches.close()  # type: ignore[attr-defined]


class _Run:
    """One query. It knows nothing of its result, so that a forgotten result ends it."""

    def __init__(self, instance: Instance, targets: Sequence[Target], options: QueryOptions) -> None:
        _check(options)
        self._instance = instance
        self._targets = targets
        self._options = options
        self._order = _order(options.order_by)
        self._select = _select(options.select)
        self._environment = environment_of(instance) if options.filter else None
        self._functions = instance.functions if options.filter else None
        self._matchers = [self._matcher(target) for target in targets if target.topic is not None]
        self.statistics: list[QueryStatistics] = []

    def _matcher(self, target: Target, source: Source | None = None) -> Matcher:
        if target.topic is not None:
            topic = target.topic
            seen = topic.key_mode == "fields"
            kind = self._instance.type_of(topic.message_type)
            return Matcher(
                self._options.filter, kind, topic.name, self._environment, seen=seen, functions=self._functions
            )
        assert source is not None
        seen = _mode_of(source) == "fields"
        kind = self._instance.type_of(source.message_type)
        return Matcher(
            self._options.filter, kind, source.topic, self._environment, seen=seen, functions=self._functions
        )

    def batches(self) -> Iterator[RecordBatch]:
        """The result, opened when asked for the first batch."""
        batches = self._ordered() if self._order or self._options.by_time else self._limited()
        with closing(batches):  # type: ignore[type-var]
            for batch in batches:
                self.statistics[self._place[batch.topic, batch.message_type]].returned += len(batch)
                yield self._selected(batch) if self._select is not None else batch

    def _found(self) -> Iterator[tuple[Source, Iterator[Pairs]]]:
        """Every source, opened in turn, with its records that match."""
        self._place: dict[tuple[str, str], int] = {}
        compiled = iter(self._matchers)
        for target in self._targets:
            known = next(compiled) if target.topic is not None else None
            with self._opened(target, known) as (source, matcher, scan):
                numbers = QueryStatistics(source.topic, source.message_type)
                self._place[source.topic, source.message_type] = len(self.statistics)
                self.statistics.append(numbers)
                if scan is not None:
                    found = self._first(scan, numbers) or scan.matching(matcher, self._options.batch_size, numbers)
                else:
                    found = filtered(iter((self._looked_up(source, target),)), matcher, numbers)
                yield source, found

    @contextmanager
    def _opened(self, target: Target, known: Matcher | None) -> Iterator[tuple[Source, Matcher, Scan | None]]:
        def matcher_of(source: Source) -> Matcher:
            return known if known is not None else self._matcher(target, source)

        instance, options = self._instance, self._options
        if options.sow_keys is None:
            with scanning(
                instance, target, options.at, matcher_of, options.batch_size, options.index_from, self._first_by()
            ) as opened:
                scan, matcher = opened
                yield scan.source, matcher, scan
        else:
            with closing(open_source(instance, target, options.at)) as source:
                yield source, matcher_of(source), None

    def _first_by(self) -> OrderKey | None:
        """The order's first key, where few records of one topic are wanted (others may hold values of another kind)."""
        wanted = self._wanted()
        if len(self._targets) != 1 or not self._order or wanted is None or wanted > FEW:
            return None
        return self._order[0]

    def _first(self, scan: Scan, numbers: QueryStatistics) -> Iterator[Pairs] | None:
        key, wanted = self._first_by(), self._wanted()
        return scan.first(key, wanted, numbers) if key is not None and wanted is not None else None

    def _looked_up(self, source: Source, target: Target) -> Pairs:
        mode = target.topic.key_mode if target.topic is not None else _mode_of(source)
        return source.lookup([key_of(text, mode) for text in self._options.sow_keys or ()])

    def _limited(self) -> Iterator[RecordBatch]:
        skip = self._options.skip_n or 0
        left = self._options.top_n
        with closing(self._found()) as sources:  # type: ignore[type-var]
            for source, found in sources:
                kind = self._instance.type_of(source.message_type)
                for keys, values in found:
                    passed = min(skip, len(keys))
                    skip -= passed
                    end = len(keys) if left is None else min(passed + left, len(keys))
                    if left is not None:
                        left -= end - passed
                    if end > passed:
                        yield batch_of(source.topic, kind, keys[passed:end], values[passed:end])

    def _ordered(self) -> Iterator[RecordBatch]:
        """Sort what matches. If a set that was read as texts turns out to hold a number, start over with that known."""
        mixed = [False] * len(self._order)
        while True:
            self.statistics.clear()
            with closing(Sorter(self._options.sort_memory, self._wanted())) as sorter:
                if self._collect(sorter, mixed):
                    yield from self._emit(sorter)
                    return

    def _wanted(self) -> int | None:
        return None if self._options.top_n is None else self._options.top_n + (self._options.skip_n or 0)

    def _collect(self, sorter: Sorter, mixed: list[bool]) -> bool:
        """Fill the sorter; False (and ``mixed`` corrected) when the reading of a key has to change."""
        ranks = _FieldRanks(self._order, mixed) if self._order else _TimeRanks()
        with closing(self._found()) as sources:  # type: ignore[type-var]
            for number, (source, found) in enumerate(sources):
                owner = number.to_bytes(2, "big")
                ranks.begin(self._instance.type_of(source.message_type))
                for keys, values in found:
                    ranked = ranks.of(values)
                    if ranked is None:
                        return False
                    sorter.add(list(zip(ranked, [key + owner for key in keys], values, strict=True)))
        return True

    def _emit(self, sorter: Sorter) -> Iterator[RecordBatch]:
        names = [(numbers.topic, self._instance.type_of(numbers.message_type)) for numbers in self.statistics]
        held: list[tuple[bytes, bytes]] = []
        number = -1
        for _, ranked, value in islice(sorter.sorted(), self._options.skip_n or 0, None):
            owner = int.from_bytes(ranked[8:], "big")
            if held and (owner != number or len(held) >= self._options.batch_size):
                yield batch_of(*names[number], *_columns(held))
                held = []
            number = owner
            held.append((ranked[:8], value))
        if held:
            yield batch_of(*names[number], *_columns(held))

    def _selected(self, batch: RecordBatch) -> RecordBatch:
        assert self._select is not None
        select = self._instance.type_of(batch.message_type).select
        records = [StoredRecord(r.key, r.value, select(r.payload, self._select)) for r in batch.records]
        return RecordBatch(batch.topic, batch.message_type, batch.view, records)


class _FieldRanks:
    """Sort keys by fields. A key's reading starts as texts and becomes numeric with the first number met."""

    def __init__(self, order: Sequence[OrderKey], mixed: list[bool]) -> None:
        from sowctl.values import order as ordering

        self._order, self._mixed, self._seen = order, mixed, False
        self._ordering = ordering
        self._slots = tuple(Slot(key.path, text=key.text) for key in order)

    def begin(self, kind: MessageType) -> None:
        """The values to come are of this type."""
        self._extract = kind.extractor(self._slots)

    def of(self, values: Sequence[bytes]) -> list[Any] | None:
        """Sort keys; None if earlier ones were made with a reading that has turned out wrong."""
        if not values:
            return []
        ordering = self._ordering
        columns = list(zip(*self._extract(payloads(values))[0], strict=True))
        numeric = [known or ordering.holds_numbers(one) for known, one in zip(self._mixed, columns, strict=True)]
        if numeric != self._mixed:
            self._mixed[:] = numeric
            if self._seen:
                return None
        self._seen = True
        parts = []
        for column, key, mixed in zip(columns, self._order, self._mixed, strict=True):
            part = ordering.components(column, mixed, key.text)
            parts.append(list(map(ordering.reverse, part)) if key.descending else part)
        return list(zip(*parts, strict=True))


class _TimeRanks:
    """Sort keys by time and txid: the order in which records can be published again."""

    def begin(self, kind: MessageType) -> None:
        """Any type will do."""

    def of(self, values: Sequence[bytes]) -> list[Any] | None:
        """Sort keys."""
        return [stamps(value)[::-1] for value in values]


def query(instance: Instance, targets: Sequence[Target], options: QueryOptions = DEFAULTS) -> QueryResult:
    """Start a query over ``targets`` (see :func:`sowctl.engine.targets.resolve`).

    Raises UsageError (exit 2) for texts and options at once; reading raises what sources raise, and InputError
    ``SOW-QRY-004`` (exit 3) for a payload that a filter cannot read.
    """
    return QueryResult(_Run(instance, targets, options))


def _check(options: QueryOptions) -> None:
    if options.skip_n is not None and options.top_n is None:
        raise UsageError("SOW-QRY-010", "skip_n needs top_n", hint="add --top-n")  # C61
    if not 1 <= options.batch_size <= MAX_BATCH:
        raise UsageError("SOW-QRY-011", f"a batch size is 1 to {MAX_BATCH}, not {options.batch_size}")  # C62
    if (options.top_n or 0) < 0 or (options.skip_n or 0) < 0:
        raise UsageError("SOW-QRY-012", "top_n and skip_n are not negative")


def _order(text: str | None) -> tuple[OrderKey, ...]:
    if text is None:
        return ()
    from sowctl.expressions.parse import parse_order_by

    return parse_order_by(text)


def _select(text: str | None) -> list[tuple[bool, tuple[str, ...]]] | None:
    if text is None:
        return None
    from sowctl.expressions.parse import parse_select

    return [(include, path.names if path is not None else ()) for include, path in parse_select(text).directives]


def _mode_of(source: Source) -> str:
    meta = getattr(source, "meta", None)
    return meta.definition.key_mode if meta is not None else "fields"


def _columns(held: list[tuple[bytes, bytes]]) -> Pairs:
    return [key for key, _ in held], [value for _, value in held]
