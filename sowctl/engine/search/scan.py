"""Filtering all records of a target: by keys or indexes, in this process, or in several processes by parts of the keys.

:func:`open_scan` opens a target and yields a :class:`Scan`. Each process runs :func:`filter_runs` on its part of the
keys (:func:`~sowctl.identity.keyspace.compute_part_bounds`). A further process (:class:`PartProcess`) is a fork. LMDB
must not be used across a fork, so the first process closes the store before forking, and each process opens it again.
Results of a fork are used only if both processes see the same state. They pass through a temporary file, so that
neither process waits for the other. If a fork fails, the first process reads its part, and so raises the first error in
key order, as a single process would.

Called by queries, deletes and plans. Ruled by ``behaviour`` 3.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.plan import (
    MEMO_INDEX,
    Plan,
    TopicQuery,
    TopicStatistics,
    build_order_slot,
    build_scan_plan,
    draft_plan,
)
from sowctl.engine.sources.opener import Opener, open_source
from sowctl.engine.sources.source import MatchedPairs, Pairs, Source, StoredSource, build_bare_runs
from sowctl.engine.topics.positions import add_replay_hint
from sowctl.engine.topics.targets import Target
from sowctl.errors import DamageError, SowError
from sowctl.forked_process import SendFunction, can_fork, count_processors, start_process
from sowctl.identity.keyspace import compute_part_bounds
from sowctl.store.codec import extract_payloads
from sowctl.store.integrity import require_full_length

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.index_access import IndexAccess
    from sowctl.engine.search.keylookup import KeyAccess
    from sowctl.engine.search.matcher import Matcher
    from sowctl.store.read import LineBatch, Run


def filter_runs(
    runs: Iterable[Run], matcher: Matcher, counts: QueryStatistics, size: int = QUERY_LIMITS.decode_batch_records
) -> Iterator[Pairs]:
    """Yield the matching records of ``runs``, in batches that are not empty.

    Records that cannot match are skipped by the prefilter. The others are collected across runs and decoded about
    ``size`` at a time.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    try:
        for some, others, run in runs:
            # Count before filtering: the statistics report all records read, however they were decided.
            counts.examined += len(some)
            # The prefilter excludes only records that cannot match; the others are decoded below.
            places = matcher.find_possible(others, run)
            if len(places) < len(some):
                some, others = [some[place] for place in places], [others[place] for place in places]
            # Candidates of several reads are decoded together, because each call of the decoder has a cost.
            if keys and len(keys) + len(some) > size:
                yield from _filter_batch(keys, values, matcher, counts)
                keys, values = [], []
            keys, values = (keys + some, values + others) if keys else (some, others)
    except SowError:
        # The records read before the error are sound and are yielded first.
        yield from _filter_batch(keys, values, matcher, counts)
        raise
    yield from _filter_batch(keys, values, matcher, counts)


def _filter_batch(keys: list[bytes], values: list[bytes], matcher: Matcher, counts: QueryStatistics) -> Iterator[Pairs]:
    # Before decoding: a value too short for its header is reported as damage.
    require_full_length(keys, values)
    places = matcher.decide_matches(keys, values)
    counts.matched += len(places)
    if len(places) == len(keys) > 0:
        yield keys, values
    elif len(places):
        yield [keys[place] for place in places], [values[place] for place in places]


class Scan:
    """An open source and the plan to execute on it. Created by :func:`open_scan`.

    ``way``: access by keys or indexes, None for a scan; ``others``: further processes of a scan; ``lasting`` as in
    :class:`~sowctl.engine.search.plan.TopicStatistics`.
    """

    def __init__(
        self,
        source: Source,
        question: TopicQuery,
        plan: Plan,
        way: IndexAccess | KeyAccess | None,
        others: Sequence[PartProcess] = (),
        *,
        lasting: bool = False,
    ) -> None:
        self.lasting = lasting
        self.source = source
        self.matcher = question.matcher
        self.plan = plan
        self.way = way
        self._question = question
        self._others = others

    def count_matching(self) -> int | None:
        """Return the number of matching records, None if that requires reading all of them."""
        stored = self.source.stored_source
        if stored is None:
            return None
        if not self.matcher.is_selective:
            return stored.count_visible()
        return self.way.count_matching() if self.way is not None else None

    def count_passed(self, counts: QueryStatistics) -> None:
        """Count all visible records as examined for an access by keys or indexes, if statistics are requested.

        With many unapplied journal entries, counting would take longer than looking up the keys.
        """
        if self._question.counted and self.source.stored_source is not None:
            counts.examined += self.source.stored_source.count_visible()

    def read_top_k(self, wanted: int, counts: QueryStatistics) -> Iterator[Pairs] | None:
        """Return records that include the first ``wanted`` of the order; None if that requires all matching records."""
        key = self._question.sort
        if self.way is None or key is None:
            return None
        # Statistics report the number of matching records, so order by index requires that indexes can count them.
        matched = self.way.count_matching()
        pairs = self.way.read_top_k(key, wanted) if matched is not None else None
        if matched is None or pairs is None:
            return None
        self.count_passed(counts)
        counts.matched += matched
        return iter((pairs,))

    def scan_top_k(self, counts: QueryStatistics) -> Iterator[MatchedPairs] | None:
        """Return records that include the first ones of the query, found by columns; None if the plan does not allow it
        or records cannot be read as lines.

        Loads numpy. Raises the errors of reading.
        """
        question, source = self._question, self.source.stored_source
        parts = self.read_lines(counts) if self.plan.leading else None
        if source is None or parts is None or question.narrowing is None or question.wanted is None:
            return None
        from sowctl.engine.search.top_k import TopKFilter

        top_k = TopKFilter(self.matcher.type, question.order, question.wanted, question.narrowing)

        def rest(start: bytes) -> Iterator[MatchedPairs]:
            yield from filter_runs(source.read_runs(QUERY_LIMITS.read_batch_records, start), self.matcher, counts)
            _verify_count(source)

        return _rescan_on_damage(source, top_k.read_candidates(source.snapshot, parts, rest))

    def read_lines(self, counts: QueryStatistics) -> Iterator[LineBatch] | None:
        """Yield all records, as lines of text where the store's file holds them so; return None if
        :meth:`read_matching` must be used.

        Loads numpy. Raises the errors of reading.
        """
        source = self.source.stored_source
        if source is None or self.way is not None or self.matcher.is_selective or self._others:
            return None
        parts = source.read_lines(QUERY_LIMITS.read_batch_records)
        return None if parts is None else _count_lines(parts, counts)

    def read_matching(self, size: int, counts: QueryStatistics) -> Iterator[MatchedPairs]:
        """Yield keys and values of the matching records, in key order, at most ``size`` at a time, and update
        ``counts``.

        Raises the errors of reading and of :meth:`Matcher.find_matches`.
        """
        matcher, source = self.matcher, self.source.stored_source
        read, decoded = min(size, QUERY_LIMITS.read_batch_records), min(size, QUERY_LIMITS.decode_batch_records)
        if self.way is not None:
            self.count_passed(counts)
            for keys, values in self.way.read_matching(
                decoded if self.plan.residual else min(size, QUERY_LIMITS.indexed_read_batch_records)
            ):
                counts.matched += len(keys)
                yield keys, values
            return
        if source is None:
            yield from filter_runs(build_bare_runs(self.source.read_batches(read)), matcher, counts, decoded)
            return
        marks = matcher.build_marks(source.meta.records)
        # This process reads the first part, while the others read theirs.
        first = self._others[0].start if self._others else None
        source.processes = 1 + len(self._others)
        yield from filter_runs(source.read_runs(read, stop=first, marks=marks), matcher, counts, decoded)
        if not self._others:
            return
        for other in self._others:
            # Parts are read in key order, so the result equals that of a single process.
            if other.wait_for_success(source):
                yield from other.read_results(source, counts)
            else:
                yield from filter_runs(source.read_runs(read, other.start, other.stop, marks), matcher, counts, decoded)
        _verify_count(source)


def _rescan_on_damage(source: StoredSource, found: Iterator[MatchedPairs]) -> Iterator[MatchedPairs]:
    """Yield ``found``. On damage, scan again to report the first one in key order, which lookups by key may skip."""
    try:
        with add_replay_hint(source.config):
            yield from found
    except DamageError as problem:
        # After an error of LMDB itself, no further reads are possible.
        if problem.code == "SOW-STO-003":
            for _ in source.read_part(QUERY_LIMITS.read_batch_records):
                pass
        raise


def _verify_count(source: StoredSource) -> None:
    """Raise DamageError if the number of records read in parts differs from that of the store."""
    # The meta record holds the number of records, so a silently skipped part of the file is detected here.
    if source.scanned != source.meta.records:
        # Each part was consistent by itself; a scan of the complete store raises the error.
        for _ in source.snapshot.scan_records():
            pass


def _count_lines(parts: Iterator[LineBatch], counts: QueryStatistics) -> Iterator[LineBatch]:
    for part in parts:
        lines, batch = part
        size = len(batch[0]) if lines is None else len(lines.messages)
        counts.examined += size
        counts.matched += size
        yield part


@contextmanager
def open_scan(
    instance: Instance,
    target: Target,
    at: int | None,
    asked: Callable[[Source], TopicQuery],
    size: int,
    *,
    shown: bool = False,
    opener: Opener = open_source,
) -> Iterator[Scan]:
    """Open a target, plan the query that ``asked`` returns for its source, and yield the scan. Raises the errors of
    ``opener``.

    ``shown``: the plan is printed, so it needs the number of visible records, which requires counting expired ones.
    ``opener`` opens the target; if a store must be opened again, :func:`open_source` does that.
    """
    # One clock for the whole query: a record does not expire between its plan and its reading.
    now = instance.now
    instance = replace(instance, clock=lambda: now)
    with ExitStack() as held:
        source = opener(instance, target, at)
        opened = held.enter_context(closing(source))
        question = asked(source)
        if target.topic is not None and target.topic.derived is not None:
            target = _resolve_file_target(source, target)
        again = at is None and _can_reopen(target)
        statistics = read_statistics(source, question, reopens=again, shown=shown, lasting=instance.lasting)
        plan, way = _open_plan(instance, source.stored_source, question, statistics)
        others: list[PartProcess] = []
        if plan.processes > 1:
            # LMDB must not be used across a fork: each process opens the source again after it.
            opened.close()
            for start, stop in compute_part_bounds(plan.processes)[1:]:
                # Start all processes before opening the store again, so that they run concurrently.
                others.append(PartProcess(instance, target, question, size, start, stop))
                held.callback(others[-1].terminate)
            source = held.enter_context(closing(open_source(instance, target, at)))
        yield Scan(source, question, plan, way, others, lasting=instance.lasting)


def read_statistics(
    source: Source, question: TopicQuery, *, reopens: bool = False, shown: bool = False, lasting: bool = False
) -> TopicStatistics:
    """Return the statistics of a source without reading records; ``reopens``: other processes can open its file."""
    # For logical topics, all records of their store are read and filtered by topic.
    base, whole = source.base_source.stored_source, source.stored_source is not None
    topic, kind = source.topic, question.matcher.type
    if base is None:
        return TopicStatistics(topic, source.message_type, source.definition, whole=False)
    return TopicStatistics(
        topic,
        source.message_type,
        source.definition,
        base.config,
        # A plan that is not printed does not need the count of expired records.
        base.count_visible() if shown else base.meta.records,
        base.meta.records,
        len(base.memtable) if base.memtable is not None else 0,
        whole,
        base.path is not None,
        reopens,
        count_processors() if reopens and can_fork() else 0,
        kind.filterable,
        lasting,
        whole and not base.hides and not (base.memtable is not None and len(base.memtable)),
    )


def open_access(
    instance: Instance, source: StoredSource, matcher: Matcher, index_from: int | None = QUERY_LIMITS.index_min_records
) -> IndexAccess | KeyAccess | None:
    """Return the access to the candidate records of a filter by keys or memo indexes; None if the caller must scan."""
    question = TopicQuery(matcher, index_from=index_from)
    return _open_plan(instance, source, question, read_statistics(source, question, lasting=instance.lasting))[1]


def _open_plan(
    instance: Instance, source: StoredSource | None, question: TopicQuery, statistics: TopicStatistics
) -> tuple[Plan, IndexAccess | KeyAccess | None]:
    """Return the plan and its open access. Without usable or selective indexes, the plan is that of a scan."""
    plan = draft_plan(question, statistics)
    # Past states and logical topics have no indexes.
    if source is None:
        return plan, None
    if plan.keys is not None:
        from sowctl.engine.search.keylookup import KeyAccess

        return plan, KeyAccess(source, question.matcher, plan.keys)
    if plan.leading and not _begins_with_numbers(source, question):
        return build_scan_plan(question, replace(statistics, lined=False)), None
    if plan.access != MEMO_INDEX:
        return plan, None
    from sowctl.engine.search.index_access import open_index_access

    found = open_index_access(instance, source, question, statistics, plan)
    return (build_scan_plan(question, statistics), None) if found is None else (found.plan, found)


def _begins_with_numbers(source: StoredSource, question: TopicQuery) -> bool:
    """Return whether the first order field is a number in most of the first records; only numbers are filtered."""
    with add_replay_hint(source.config):
        values = next((values for _, values in source.snapshot.scan_records(batch=QUERY_LIMITS.read_batch_records)), [])
    rows, _ = question.matcher.type.build_extractor((build_order_slot(question.order[0]),))(extract_payloads(values))
    return 2 * sum(type(row[0]) in (int, float) for row in rows) > len(rows)


def _resolve_file_target(source: Source, target: Target) -> Target:
    """Return the target of the store opened for a derived source, or ``target`` if the source has no store."""
    stored = source.stored_source
    return target if stored is None or stored.config is None else Target(topic=stored.config)


def _can_reopen(target: Target) -> bool:
    """Return whether the file can be opened again; a missing store was rebuilt temporarily for this query."""
    path = target.topic.file if target.topic is not None else target.path
    return path is not None and path.exists()


def _read_state(source: StoredSource) -> tuple[Any, ...]:
    meta = source.meta
    return meta.lineage, meta.applied, meta.records, meta.digest.to_bytes(16, "big"), source.last_txid


class PartProcess:
    """A further process, which reads the keys from ``start`` (inclusive) to ``stop`` (exclusive)."""

    def __init__(
        self,
        instance: Instance,
        target: Target,
        question: TopicQuery,
        size: int,
        start: bytes | None,
        stop: bytes | None,
    ) -> None:
        self.start, self.stop = start, stop
        self._narrowing = question.narrowing
        self._process = start_process(
            lambda send: self._read_part(send, instance, target, question.matcher, size), spooled=True
        )

    def _read_part(self, send: SendFunction, instance: Instance, target: Target, matcher: Matcher, size: int) -> None:
        """Send the state, the matching records and the counts of the part. Runs in the further process."""
        with closing(open_source(instance, target, None)) as opened:
            source = opened.stored_source
            assert source is not None
            # Send the state first: the first process uses the results only if it reads the same state.
            send(marshal.dumps(_read_state(source)))
            counts = QueryStatistics(source.topic, source.message_type)
            marks = matcher.build_marks(source.meta.records)
            runs = source.read_runs(min(size, QUERY_LIMITS.read_batch_records), self.start, self.stop, marks)
            found = filter_runs(runs, matcher, counts, min(size, QUERY_LIMITS.decode_batch_records))
            told: list[bool] = []
            if self._narrowing is not None:
                found, told = self._narrowing.reduce_part(matcher.type, found)
            for pairs in found:
                send(marshal.dumps(pairs))
            send(marshal.dumps((counts.examined, counts.matched, source.scanned, told)))

    def wait_for_success(self, source: StoredSource) -> bool:
        """Wait for the process to end. Return whether it succeeded and read the same state as ``source``."""
        # If it failed, the first process reads the part itself.
        if self._process is None or not self._process.wait_for_success():
            return False
        return bool(self._receive_item() == _read_state(source))

    def read_results(self, source: StoredSource, counts: QueryStatistics) -> Iterator[Pairs]:
        """Yield the records that the process found, then add its counts."""
        while len(item := self._receive_item()) == 2:
            yield item
        counts.examined += item[0]
        counts.matched += item[1]
        source.scanned += item[2]
        if self._narrowing is not None:
            self._narrowing.add_report(item[3])

    def terminate(self) -> None:
        """End the process if it still runs, and discard its results."""
        if self._process is not None:
            self._process.terminate()

    def _receive_item(self) -> Any:
        assert self._process is not None
        frame = self._process.receive()
        assert frame is not None  # the reader stops after the last item, recognized by its length
        return marshal.loads(frame)
