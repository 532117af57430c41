"""query: records of topics that match a filter, in the order asked for, as many as asked for (``behaviour`` 3).

Texts are compiled before a store is opened. Without an order, records come in key order, topic after topic as the
configuration has them; with one, order, skip_n and top_n hold over the whole result. Nothing is held but a batch and
the memory for sorting.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.options import QueryOptions
from sowctl.engine.records import RecordBatch, StoredRecord, batch_of
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search.keytext import key_of, keys_of
from sowctl.engine.search.lacking import Lacking, Named
from sowctl.engine.search.matcher import Matcher, environment_of
from sowctl.engine.search.plan import Narrowing, Question
from sowctl.engine.search.scan import Scan, filtered, scanning
from sowctl.engine.search.terms import after_of, check_options, order_of, select_of
from sowctl.engine.sources.source import Matched, Pairs, Source, alone
from sowctl.engine.topics.targets import Target, with_records
from sowctl.engine.views.opening import can_be_told, check_fresh, open_target
from sowctl.values.paths import Path, Step, parse_path

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.aggregate import Aggregation
    from sowctl.engine.search.plan import Plan

DEFAULTS = QueryOptions()

__all__ = ["QueryOptions", "QueryResult", "query", "tell_unknown"]


class QueryResult:
    """Iterate for batches of records, once; ``statistics`` are complete when that is done.

    Close it when not; forgetting it does the same.
    """

    def __init__(self, run: _Run) -> None:
        self.statistics = run.statistics
        self._run = run
        self._batches = run.batches()

    def __iter__(self) -> Iterator[RecordBatch]:
        return self._batches

    def again(self) -> Iterator[RecordBatch]:
        """Ask once more: the records of this moment. ``statistics`` are those of the last time."""
        self.close()
        self.statistics.clear()
        self._batches = self._run.batches()
        return self._batches

    def count(self) -> int:
        """How many records there are, without reading them where indexes tell; instead of iterating."""
        return self._run.count()

    def plans(self) -> list[Plan]:
        """How each topic would be read; instead of iterating."""
        return self._run.plans()

    def records(self) -> Iterator[StoredRecord]:
        """The records one by one."""
        for batch in self._batches:
            yield from batch.records

    def close(self) -> None:
        """End the query early; snapshots and temporary files go."""
        self._batches.close()


class _Run:
    """One query. It knows nothing of its result, so that a forgotten result ends it."""

    def __init__(self, instance: Instance, targets: Sequence[Target], options: QueryOptions) -> None:
        check_options(options, targets)
        if options.fresh:
            check_fresh(instance, targets)
        self._instance = instance
        self._targets = targets
        self._options = options
        self._order = order_of(options.order_by)
        self._select = select_of(options.select)
        # Without an expression the language is not loaded: a query by key, or of everything, starts faster.
        asks = bool(options.filter or options.projection)
        self._environment = environment_of(instance) if asks else None
        self._functions = functions_of(instance) if asks else None
        self._after = after_of(options, targets)
        topic = targets[0].topic if targets and options.projection is not None else None
        self._aggregation = self._compiled(topic.name, topic.message_type) if topic is not None else None
        # All texts are compiled before a store is opened, so a wrong filter is told at once.
        self._matchers = [self._matcher(target) for target in targets if target.topic is not None]
        self.statistics: list[QueryStatistics] = []
        self._lacking = Lacking(instance, options.unknown)
        if "%" in (options.filter or ""):
            # The filter's tree is the same for all targets.
            compiled = next((one.filter for one in self._matchers if one.filter is not None), None)
            self._lacking.note_wildcards(compiled.node if compiled is not None else None)
        self._lacking.note_dates(options.filter or "")
        self._narrowing: Narrowing | None = None

    def _matcher(self, target: Target, source: Source | None = None) -> Matcher:
        if target.topic is not None:
            name, message_type, seen = target.topic.name, target.topic.message_type, target.topic.key_mode == "fields"
        else:
            assert source is not None
            name, message_type, seen = source.topic, source.message_type, source.definition.key_mode == "fields"
        kind = self._instance.type_of(message_type)
        return Matcher(self._options.filter, kind, name, self._environment, seen=seen, functions=self._functions)

    def batches(self) -> Generator[RecordBatch]:
        """The result, opened when asked for the first batch."""
        batches = self._ordered() if self._order or self._options.by_time else self._limited()
        with closing(batches):
            for batch in batches:
                self.statistics[self._place[batch.topic, batch.message_type]].returned += len(batch)
                yield self._selected(batch) if self._select is not None else batch

    def count(self) -> int:
        """The number of records of the result."""
        options = self._options
        if options.projection is not None or options.sow_keys is not None or self._after is not None:
            return sum(map(len, self.batches()))
        skip, left, total = options.skip_n or 0, options.top_n, 0
        with closing(self._scans()) as scans:
            for scan, numbers in scans:
                # Indexes or the store's own counts answer if they can; only else are records read.
                counted = scan.count()
                if counted is None:
                    counted = sum(len(keys) for keys, _ in scan.matching(options.batch_size, numbers))
                else:
                    scan.count_passed(numbers)
                    numbers.matched = counted
                passed = min(skip, counted)
                # skip_n and top_n hold over all topics together, so both are used up from one topic to the next.
                numbers.returned = counted - passed if left is None else min(counted - passed, left)
                skip -= passed
                left = None if left is None else left - numbers.returned
                total += numbers.returned
        return total

    def plans(self) -> list[Plan]:
        """How each topic is read."""
        with closing(self._scans(shown=True)) as scans:
            return [scan.plan for scan, _ in scans]

    def _found(self) -> Generator[tuple[Source, Iterator[Matched]]]:
        """Every source, opened in turn, with what it gives: records that match, or messages made of them."""
        size, targets = self._options.batch_size, iter(self._targets)
        with closing(self._scans()) as scans:
            for scan, numbers in scans:
                target, source = next(targets), scan.source
                found: Iterator[Matched]
                if self._options.sow_keys is not None:
                    # SOW keys name the records, and the filter still applies to them.
                    found = filtered(alone((self._looked_up(source, target),)), scan.matcher, numbers)
                    if self._options.projection is not None:
                        aggregation = self._compiled(source.topic, source.message_type)
                        found = aggregation.results(found, memory=self._options.sort_memory)
                elif self._options.projection is not None:
                    aggregation = self._aggregation or self._compiled(source.topic, source.message_type)
                    found = aggregation.over(scan, size, numbers, self._options.sort_memory)
                else:
                    wanted = self._wanted()
                    first = scan.first(wanted, numbers) if wanted is not None else None
                    found = first or scan.leading(numbers) or scan.matching(size, numbers)
                yield source, found if self._after is None else _later(found, self._after)

    def _compiled(self, topic: str, message_type: str) -> Aggregation:
        from sowctl.engine.search.aggregate import Aggregation

        projection, grouping = self._options.projection, self._options.grouping
        assert projection is not None and grouping is not None and self._environment is not None
        kind = self._instance.type_of(message_type)
        return Aggregation(projection, grouping, kind, topic, self._environment, self._functions or {})

    def _scans(self, *, shown: bool = False) -> Generator[tuple[Scan, QueryStatistics]]:
        """Every target opened, with the plan for its records. ``shown``: plans are to be printed."""
        self._place: dict[tuple[str, str], int] = {}
        compiled = iter(self._matchers)
        opener = partial(open_target, fresh=self._options.fresh, memory=self._options.sort_memory)
        lacking = self._lacking
        lacking.begin()
        for target in self._targets:
            known = next(compiled) if target.topic is not None else None

            # Of a bare file the type is known only when it is open, so its filter is compiled then.
            def asked(source: Source, target: Target = target, known: Matcher | None = known) -> Question:
                return self._question(known if known is not None else self._matcher(target, source))

            options = self._options
            with scanning(
                self._instance, target, options.at, asked, options.batch_size, shown=shown, opener=opener
            ) as scan:
                numbers = QueryStatistics(scan.source.topic, scan.source.message_type)
                self._place[scan.source.topic, scan.source.message_type] = len(self.statistics)
                self.statistics.append(numbers)
                try:
                    yield scan, numbers
                except GeneratorExit:
                    # Whoever reads has enough, or had an error, which tells more than a field that is not there.
                    if numbers.returned and not shown:
                        lacking.look(scan.source, scan.matcher.type, self._named(scan.matcher), target, numbers)
                        lacking.tell()
                    raise
                if not shown:
                    lacking.look(scan.source, scan.matcher.type, self._named(scan.matcher), target, numbers)
        lacking.tell()

    def _named(self, matcher: Matcher) -> Named:
        """The fields that the query names: those of its filter, and others."""
        asked = [slot.path for slot in matcher.filter.slots] if matcher.filter is not None else []
        others = [parse_path(text) for text in self._options.shown]
        if self._options.projection is not None:
            aggregation = self._aggregation or self._compiled(matcher.topic, matcher.type.name)
            others = [slot.path for slot in aggregation.program.slots]
        else:
            others += [key.path for key in self._order]
            others += [Path(tuple(map(Step, names))) for include, names in self._select or () if include and names]
        return asked, others

    def look_ahead(self) -> None:
        """Look for the fields that are named, before any record is handed out, and remark those that no record has.

        Where they are refused, looks at all records, and raises UsageError ``SOW-QRY-024``.
        """
        for target in self._targets:
            with closing(open_target(self._instance, target, self._options.at)) as source:
                matcher = self._matcher(target, source)
                self._lacking.look(source, matcher.type, self._named(matcher), target)
        if self._lacking.refuses:
            self._lacking.refuse()
        self._lacking.tell()

    def _question(self, matcher: Matcher) -> Question:
        options = self._options
        return Question(
            matcher,
            given=None if options.sow_keys is None else len(options.sow_keys),
            order=self._order,
            wanted=self._wanted(),
            by_time=options.by_time,
            topics=len(self._targets),
            projected=options.projection is not None,
            fields=self._aggregation.slots if self._aggregation is not None else (),
            index_from=options.index_from,
            jobs=options.jobs,
            counted=options.counted,
            narrowing=self._narrowing,
        )

    def _looked_up(self, source: Source, target: Target) -> Pairs:
        texts = self._options.sow_keys or ()
        if target.topic is not None:
            return source.lookup(keys_of(texts, target.topic))
        return source.lookup([key_of(text, source.definition.key_mode) for text in texts])

    def _limited(self) -> Generator[RecordBatch]:
        skip = self._options.skip_n or 0
        left = self._options.top_n
        with closing(self._found()) as sources:
            for source, found in sources:
                kind = self._instance.type_of(source.message_type)
                for keys, values in found:
                    passed = min(skip, len(keys))
                    skip -= passed
                    end = len(keys) if left is None else min(passed + left, len(keys))
                    if left is not None:
                        left -= end - passed
                    if end - passed < len(keys):
                        keys, values = keys[passed:end], values[passed:end]
                    if keys:
                        yield batch_of(source.topic, kind, keys, values)
                    # With ``counted`` reading goes on to the end, because the statistics are to say how many match in
                    # all.
                    if left == 0 and not self._options.counted:
                        return

    def _ordered(self) -> Generator[RecordBatch]:
        from sowctl.engine.search.sorting import ordered

        return ordered(self._anew, self._instance, self._options, self._order, self._wanted())

    def _anew(self, narrowing: Narrowing | None) -> Generator[tuple[Source, Iterator[Matched]]]:
        # Messages that are made of groups need all records that match.
        self._narrowing = narrowing if self._options.projection is None else None
        # A sort that starts over reads everything once more; what was counted the first time must not count twice.
        self.statistics.clear()
        return self._found()

    def _wanted(self) -> int | None:
        return None if self._options.top_n is None else self._options.top_n + (self._options.skip_n or 0)

    def _selected(self, batch: RecordBatch) -> RecordBatch:
        assert self._select is not None
        return batch.selected(self._select)


def query(instance: Instance, targets: Sequence[Target], options: QueryOptions = DEFAULTS) -> QueryResult:
    """Start a query over ``targets`` (see :func:`sowctl.engine.topics.targets.resolve`).

    Of several targets those without any record yet are left out. Raises UsageError (exit 2) for texts and options at
    once; reading raises what sources raise, and InputError ``SOW-QRY-004`` (exit 3) for a payload that a filter cannot
    read, and UsageError ``SOW-QRY-024`` where a field that no record has is an error.
    """
    run = _Run(instance, with_records(instance, targets, can_be_told), options)
    if options.unknown == "error":
        run.look_ahead()
    return QueryResult(run)


def tell_unknown(instance: Instance, targets: Sequence[Target], options: QueryOptions) -> None:
    """Remark, or refuse as ``unknown`` says, the fields that ``options`` name and no record has; nothing else is read.

    For what finds its records in another way than a query, or changes them: it is told before anything is done. Raises
    as :func:`query`.
    """
    named = (options.filter, options.shown, options.order_by, options.select, options.projection)
    if options.unknown != "ignore" and any(named):
        _Run(instance, with_records(instance, targets, can_be_told), options).look_ahead()


def _later(found: Iterator[Matched], after: bytes) -> Iterator[Matched]:
    """What comes after a key, of pairs in key order."""
    for keys, values in found:
        start = bisect_right(keys, after)
        if start < len(keys):
            yield keys[start:], values[start:]
