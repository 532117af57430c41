"""query: the records of topics that match a filter, in a given order and up to a given number (``behaviour`` 3).

Texts are compiled before a store is opened. Without an order, records are in key order, topic by topic in the order of
the configuration; order, skip_n and top_n apply to the whole result. Memory holds only a batch and the records being
sorted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.options import QueryOptions
from sowctl.engine.records import RecordBatch, StoredRecord, build_record_batch
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search.filter_notes import note_filter
from sowctl.engine.search.keytext import read_key_options
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.search.plan import PartReducer, TopicQuery
from sowctl.engine.search.scan import Scan, filter_runs, open_scan
from sowctl.engine.search.terms import check_options, parse_order_keys, parse_select_list, parse_start_key
from sowctl.engine.search.unknown_fields import NamedFields, UnknownFieldCheck
from sowctl.engine.sources.source import MatchedPairs, Pairs, Source, build_bare_runs
from sowctl.engine.topics.targets import Target, select_readable_targets
from sowctl.engine.views.openers import check_fresh, has_known_state, open_target
from sowctl.values.paths import Path, Step, parse_path

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.aggregate import Aggregation
    from sowctl.engine.search.plan import Plan
    from sowctl.values.topicref import TopicRef

DEFAULT_OPTIONS = QueryOptions()

__all__ = ["QueryOptions", "QueryResult", "report_unknown_fields", "start_query"]


class QueryResult:
    """Iterate for batches of records, once; ``statistics`` are complete afterwards.

    Close it otherwise; garbage collection closes it, too.
    """

    def __init__(self, run: _QueryRun) -> None:
        self.statistics = run.statistics
        self._run = run
        self._batches = run.iterate_batches()

    def __iter__(self) -> Iterator[RecordBatch]:
        return self._batches

    def iterate_again(self) -> Iterator[RecordBatch]:
        """Run the query again, with the current records. ``statistics`` are those of the last run."""
        self.close()
        self.statistics.clear()
        self._batches = self._run.iterate_batches()
        return self._batches

    def count_records(self) -> int:
        """Count the records, without reading them if indexes suffice; call it instead of iterating."""
        return self._run.count_records()

    def list_plans(self) -> list[Plan]:
        """Return the plan for each topic; call it instead of iterating."""
        return self._run.list_plans()

    def iterate_records(self) -> Iterator[StoredRecord]:
        """Yield the records one by one."""
        for batch in self._batches:
            yield from batch.records

    def close(self) -> None:
        """End the query early: close snapshots and remove temporary files."""
        self._batches.close()


class _QueryRun:
    """One query. It has no reference to its result, so that garbage collection of the result ends it."""

    def __init__(self, instance: Instance, targets: Sequence[Target], options: QueryOptions) -> None:
        check_options(options, targets)
        if options.fresh:
            check_fresh(instance, targets)
        self._instance = instance
        self._targets = targets
        self._options = options
        self._order = parse_order_keys(options.order_by)
        self._select = parse_select_list(options.select)
        # Without an expression the language is not loaded: a query by key, or of everything, starts faster.
        asks = bool(options.filter or options.projection)
        self._environment = build_environment(instance) if asks else None
        self._functions = load_functions(instance) if asks else None
        self._after = parse_start_key(options, targets)
        # Keys that a topic cannot have are rejected before the records of another topic are printed.
        for target in targets:
            if target.topic is not None:
                read_key_options(options, target, None)
        topic = targets[0].topic if targets and options.projection is not None else None
        self._aggregation = self._compile_aggregation(topic.name, topic.message_type) if topic is not None else None
        # All texts are compiled before a store is opened, so that an invalid filter is reported immediately.
        self._matchers = [self._build_matcher(target) for target in targets if target.topic is not None]
        self.statistics: list[QueryStatistics] = []
        self._lacking = UnknownFieldCheck(instance, options.unknown)
        if options.unknown != "ignore":
            note_filter(instance, options.filter)
        self._narrowing: PartReducer | None = None

    def _build_matcher(self, target: Target, source: Source | None = None) -> Matcher:
        if target.topic is not None:
            name, message_type, seen = target.topic.name, target.topic.message_type, target.topic.key_mode == "fields"
        else:
            assert source is not None
            name, message_type, seen = source.topic, source.message_type, source.definition.key_mode == "fields"
        kind = self._instance.find_message_type(message_type)
        return Matcher(self._options.filter, kind, name, self._environment, seen=seen, functions=self._functions)

    def iterate_batches(self) -> Generator[RecordBatch]:
        """Yield the result; sources are opened with the first batch."""
        batches = self._iterate_ordered() if self._order or self._options.by_time else self._iterate_limited()
        with closing(batches):
            for batch in batches:
                self.statistics[self._place[batch.ref]].returned += len(batch)
                yield self._select_fields(batch) if self._select is not None else batch

    def count_records(self) -> int:
        """Return the number of records of the result."""
        options = self._options
        if options.projection is not None or self._names_keys or self._after is not None:
            return sum(map(len, self.iterate_batches()))
        skip, left, total = options.skip_n or 0, options.top_n, 0
        with closing(self._open_scans()) as scans:
            for scan, numbers in scans:
                # Use indexes or the store's own counts if they suffice; otherwise read the records.
                counted = scan.count_matching()
                if counted is None:
                    counted = sum(len(keys) for keys, _ in scan.read_matching(options.batch_size, numbers))
                else:
                    scan.count_passed(numbers)
                    numbers.matched = counted
                passed = min(skip, counted)
                # skip_n and top_n apply to all topics together, so what remains of both is passed on to the next topic.
                numbers.returned = counted - passed if left is None else min(counted - passed, left)
                skip -= passed
                left = None if left is None else left - numbers.returned
                total += numbers.returned
        return total

    def list_plans(self) -> list[Plan]:
        """Return the plan for each topic."""
        with closing(self._open_scans(shown=True)) as scans:
            return [scan.plan for scan, _ in scans]

    def _iterate_matching(self) -> Generator[tuple[Source, Iterator[MatchedPairs]]]:
        """Open every source in turn, and yield it with its results: matching records, or messages computed from
        them."""
        size, targets = self._options.batch_size, iter(self._targets)
        with closing(self._open_scans()) as scans:
            for scan, numbers in scans:
                target, source = next(targets), scan.source
                found: Iterator[MatchedPairs]
                if self._names_keys:
                    # SOW keys name the records, and the filter still applies to them.
                    found = filter_runs(build_bare_runs((self._look_up_keys(source, target),)), scan.matcher, numbers)
                    if self._options.projection is not None:
                        aggregation = self._compile_aggregation(source.topic, source.message_type)
                        found = aggregation.aggregate_records(found, memory=self._options.sort_memory)
                elif self._options.projection is not None:
                    aggregation = self._aggregation or self._compile_aggregation(source.topic, source.message_type)
                    found = aggregation.aggregate_scan(scan, size, numbers, self._options.sort_memory)
                else:
                    wanted = self._count_wanted()
                    first = scan.read_top_k(wanted, numbers) if wanted is not None else None
                    found = first or scan.scan_top_k(numbers) or scan.read_matching(size, numbers)
                yield source, found if self._after is None else _skip_to_key(found, self._after)

    def _compile_aggregation(self, topic: str, message_type: str) -> Aggregation:
        from sowctl.engine.search.aggregate import Aggregation

        projection, grouping = self._options.projection, self._options.grouping
        assert projection is not None and grouping is not None and self._environment is not None
        kind = self._instance.find_message_type(message_type)
        return Aggregation(projection, grouping, kind, topic, self._environment, self._functions or {})

    def _open_scans(self, *, shown: bool = False) -> Generator[tuple[Scan, QueryStatistics]]:
        """Yield every target opened, with the plan for its records. ``shown``: plans are printed."""
        self._place: dict[TopicRef, int] = {}
        compiled = iter(self._matchers)
        opener = partial(open_target, fresh=self._options.fresh, memory=self._options.sort_memory)
        lacking = self._lacking
        lacking.reset()
        for target in self._targets:
            known = next(compiled) if target.topic is not None else None

            # The type of a bare file is known only when it is open, so its filter is compiled then.
            def asked(source: Source, target: Target = target, known: Matcher | None = known) -> TopicQuery:
                return self._build_question(known if known is not None else self._build_matcher(target, source))

            options = self._options
            with open_scan(
                self._instance, target, options.at, asked, options.batch_size, shown=shown, opener=opener
            ) as scan:
                numbers = QueryStatistics(scan.source.topic, scan.source.message_type)
                self._place[scan.source.ref] = len(self.statistics)
                self.statistics.append(numbers)
                try:
                    yield scan, numbers
                except GeneratorExit:
                    # The reader has enough, or had an error, which is more important than an unknown field.
                    if numbers.returned and not shown:
                        lacking.check_source(
                            scan.source, scan.matcher.type, self._list_named_fields(scan.matcher), target, numbers
                        )
                        lacking.notify_unknown()
                    raise
                if not shown:
                    lacking.check_source(
                        scan.source, scan.matcher.type, self._list_named_fields(scan.matcher), target, numbers
                    )
        lacking.notify_unknown()

    def _list_named_fields(self, matcher: Matcher) -> NamedFields:
        """Return the fields that the query names: those of its filter, and others."""
        asked = [slot.path for slot in matcher.filter.slots] if matcher.filter is not None else []
        others = [parse_path(text) for text in self._options.shown]
        if self._options.projection is not None:
            aggregation = self._aggregation or self._compile_aggregation(matcher.topic, matcher.type.name)
            others = [slot.path for slot in aggregation.program.slots]
        else:
            others += [key.path for key in self._order]
            others += [Path(tuple(map(Step, names))) for include, names in self._select or () if include and names]
        return asked, others

    def check_named_fields(self) -> None:
        """Check the named fields before any record is returned, and report those that occur in no record.

        If these are errors, reads all records, and raises UsageError ``SOW-QRY-024``.
        """
        for target in self._targets:
            with closing(open_target(self._instance, target, self._options.at)) as source:
                matcher = self._build_matcher(target, source)
                self._lacking.check_source(source, matcher.type, self._list_named_fields(matcher), target)
        if self._lacking.refuses:
            self._lacking.refuse_unknown()
        self._lacking.notify_unknown()

    def _build_question(self, matcher: Matcher) -> TopicQuery:
        options = self._options
        return TopicQuery(
            matcher,
            given=len((*(options.sow_keys or ()), *(options.keys or ()))) if self._names_keys else None,
            order=self._order,
            wanted=self._count_wanted(),
            by_time=options.by_time,
            topic_count=len(self._targets),
            projected=options.projection is not None,
            fields=self._aggregation.slots if self._aggregation is not None else (),
            index_from=options.index_from,
            jobs=options.jobs,
            counted=options.counted,
            narrowing=self._narrowing,
        )

    def _look_up_keys(self, source: Source, target: Target) -> Pairs:
        return source.find_records(read_key_options(self._options, target, source.definition) or [])

    @property
    def _names_keys(self) -> bool:
        return self._options.sow_keys is not None or self._options.keys is not None

    def _iterate_limited(self) -> Generator[RecordBatch]:
        skip = self._options.skip_n or 0
        left = self._options.top_n
        with closing(self._iterate_matching()) as sources:
            for source, found in sources:
                kind = self._instance.find_message_type(source.message_type)
                for keys, values in found:
                    passed = min(skip, len(keys))
                    skip -= passed
                    end = len(keys) if left is None else min(passed + left, len(keys))
                    if left is not None:
                        left -= end - passed
                    if end - passed < len(keys):
                        keys, values = keys[passed:end], values[passed:end]
                    if keys:
                        yield build_record_batch(source.topic, kind, keys, values)
                    # With ``counted`` reading continues to the end, because the statistics include the total number of
                    # matches.
                    if left == 0 and not self._options.counted:
                        return

    def _iterate_ordered(self) -> Generator[RecordBatch]:
        from sowctl.engine.search.sorter import sort_records

        return sort_records(self._iterate_narrowed, self._instance, self._options, self._order, self._count_wanted())

    def _iterate_narrowed(self, narrowing: PartReducer | None) -> Generator[tuple[Source, Iterator[MatchedPairs]]]:
        # Messages computed from groups need all matching records.
        self._narrowing = narrowing if self._options.projection is None else None
        # A sort that starts over reads everything again; the counts of the first read must not be added.
        self.statistics.clear()
        return self._iterate_matching()

    def _count_wanted(self) -> int | None:
        return None if self._options.top_n is None else self._options.top_n + (self._options.skip_n or 0)

    def _select_fields(self, batch: RecordBatch) -> RecordBatch:
        assert self._select is not None
        return batch.select_fields(self._select)


def start_query(instance: Instance, targets: Sequence[Target], options: QueryOptions = DEFAULT_OPTIONS) -> QueryResult:
    """Start a query on ``targets`` (see :func:`sowctl.engine.topics.targets.resolve_targets`).

    Of several targets, those without any record yet are skipped. Raises UsageError (exit 2) for invalid texts and
    options immediately; reading raises what sources raise, InputError ``SOW-QRY-004`` (exit 3) for a payload that a
    filter cannot parse, and UsageError ``SOW-QRY-024`` if an unknown field is an error.
    """
    run = _QueryRun(instance, select_readable_targets(instance, targets, has_known_state), options)
    if options.unknown == "error":
        run.check_named_fields()
    return QueryResult(run)


def report_unknown_fields(instance: Instance, targets: Sequence[Target], options: QueryOptions) -> None:
    """Report the fields that ``options`` name and no record has, as notes or as an error according to ``unknown``; read
    nothing else.

    For operations that find records in another way than a query, or change them: call it before anything is done.
    Raises as :func:`start_query`.
    """
    named = (options.filter, options.shown, options.order_by, options.select, options.projection)
    if options.unknown != "ignore" and any(named):
        _QueryRun(instance, select_readable_targets(instance, targets, has_known_state), options).check_named_fields()


def _skip_to_key(found: Iterator[MatchedPairs], after: bytes) -> Iterator[MatchedPairs]:
    """Skip pairs in key order up to and including a key."""
    for keys, values in found:
        start = bisect_right(keys, after)
        if start < len(keys):
            yield keys[start:], values[start:]
