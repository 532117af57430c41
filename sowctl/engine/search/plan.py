"""The plan of a query for one topic: a value built before any record is read, printed by --explain, then executed.

Planning has two steps, both pure functions. :func:`draft_plan` chooses the access path from the compiled query
(:class:`TopicQuery`) and the store's meta record (:class:`TopicStatistics`): lookup of keys that the filter names, memo
indexes, or a scan in one or more processes. Opened indexes report how many records satisfy each condition
(:class:`IndexCounts`). :func:`refine_plan` then chooses the order of conditions, or a scan if that is faster
(:func:`build_scan_plan`).

Called by :mod:`sowctl.engine.search.scan`, which executes plans. The thresholds are in
:mod:`sowctl.engine.search.figures`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.search.conditions import IndexCondition
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.sources.source import Pairs
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.messages.base import MessageType
    from sowctl.store.meta import Definition
    from sowctl.values.fields import Slot

SCAN, KEY_LOOKUP, MEMO_INDEX, HASH_INDEX = "scan", "key lookup", "memo index", "hash index"


class PlanStep(Struct, frozen=True):
    """A condition, and the number of records that satisfy it according to an index."""

    condition: str
    records: int


class Plan(DescribedStruct, frozen=True):
    """The plan for reading one topic.

    ``access``: ``key lookup``, ``hash index``, ``memo index`` or ``scan``; ``records``: number in the topic;
    ``estimated``: number of records read; ``steps``: conditions that indexes answer; ``residual``: conditions evaluated
    on records; ``behind``: number of records that are only in the journal; ``processes``: number that read; ``order``:
    order of the result. With analyze: the numbers ``examined``, ``matched`` and ``returned``, and the elapsed
    ``milliseconds``.

    The remaining fields are executed but not printed. ``keys``: those that the filter names; ``asked``: conditions for
    indexes, in the order of ``steps`` if these are known; ``sort`` and ``fields``: order and fields for which indexes
    are opened in addition; ``ranked``: indexes cover these; ``arrays``: row numbers are numpy arrays; ``leading``: a
    scan skips, by columns, records that cannot be among the first.
    """

    topic: str
    message_type: str
    access: str
    records: int
    estimated: int
    steps: tuple[PlanStep, ...] = ()
    residual: tuple[str, ...] = ()
    behind: int = 0
    processes: int = 1
    order: str = "by SOW key"
    examined: int | None = None
    matched: int | None = None
    returned: int | None = None
    milliseconds: float | None = None
    keys: tuple[bytes, ...] | None = None
    asked: tuple[IndexCondition, ...] = ()
    sort: OrderKey | None = None
    fields: tuple[Slot, ...] = ()
    ranked: bool = False
    arrays: bool = False
    leading: bool = False

    def build_facts(self) -> dict[str, Any]:
        """Return the printed fields by name, steps as objects."""
        printed = self.__struct_fields__[: self.__struct_fields__.index("keys")]
        return {name: getattr(self, name) for name in printed} | {"steps": [asdict(step) for step in self.steps]}


class TopicStatistics(DescribedStruct, frozen=True):
    """Facts about a topic that are known before any of its records is read.

    ``records``: number of visible records; ``stored``: number in the store, including expired ones; ``behind``: number
    that are only in the journal. ``whole``: the source is the current state of a complete store. ``filed``: it has a
    file, which indexes require; ``reopens``: other processes can open that file; ``processors``: number available to
    them, 0 if no process can be started. ``fields``: messages have fields. ``lasting``: the process is long-running,
    so that loading a library pays later. ``lined``: the file may hold all records as lines.
    """

    topic: str
    message_type: str
    definition: Definition
    config: TopicConfig | None = None
    records: int = 0
    stored: int = 0
    behind: int = 0
    whole: bool = True
    filed: bool = True
    reopens: bool = True
    processors: int = 0
    fields: bool = True
    lasting: bool = False
    lined: bool = False


class IndexCounts(DescribedStruct, frozen=True):
    """Counts from opened indexes: indexed ``records``, ``hits`` per condition (None: no index), indexed fields
    ``known``."""

    records: int
    hits: Sequence[int | None]
    known: Collection[Slot]


class PartReducer(ABC):
    """Reduces matching records to those that the query needs."""

    @abstractmethod
    def reduce_part(self, kind: MessageType, found: Iterator[Pairs]) -> tuple[Iterator[Pairs], list[bool]]:
        """Return the needed records of a part, and a report for the first process. Called in a further process."""

    @abstractmethod
    def add_report(self, told: list[bool]) -> None:
        """Receive the report of a further process. Called in the first process, after the records of the part."""

    @abstractmethod
    def note_numbers(self, numbers: Sequence[bool]) -> None:
        """Receive which fields hold a number in skipped records. Called after all needed records."""


class TopicQuery:
    """The compiled query of one topic.

    ``given``: number of keys specified directly. ``order``: order keys; ``wanted``: number of first records returned
    (None: all); ``topic_count``: number of topics in the query; ``by_time``: order by time of update if ``order`` is
    empty. ``projected``: the result is one message per group, computed from ``fields`` alone if there are any.
    ``index_from``: minimum number of records for indexes, None: never use them; ``jobs``: maximum number of reading
    processes, None: choose automatically. ``counted``: statistics are requested. ``narrowing``: reducer of matching
    records, None if all are needed.
    """

    def __init__(
        self,
        matcher: Matcher,
        *,
        given: int | None = None,
        order: Sequence[OrderKey] = (),
        wanted: int | None = None,
        by_time: bool = False,
        topic_count: int = 1,
        projected: bool = False,
        fields: Sequence[Slot] = (),
        index_from: int | None = QUERY_LIMITS.index_min_records,
        jobs: int | None = None,
        counted: bool = True,
        narrowing: PartReducer | None = None,
    ) -> None:
        self.matcher = matcher
        self.narrowing = narrowing
        self.counted = counted
        self.given = given
        self.fields = tuple(fields)
        self.index_from = index_from
        self.jobs = jobs
        self.order, self._by_time = tuple(order), by_time
        self.wanted = wanted
        # Values of another kind in other topics may change how the values of this topic compare.
        sorts = (
            bool(order)
            and topic_count == 1
            and not projected
            and wanted is not None
            and wanted <= QUERY_LIMITS.top_k_max_records
        )
        self.ranks = bool(order) and not projected and wanted is not None and given is None
        """Whether the order fields of all matching records must be read to find the first ones."""
        self.sort = self.order[0] if sorts else None
        """The first order key, if the query returns few records of a single topic; otherwise None."""

    @cached_property
    def conditions(self) -> tuple[tuple[IndexCondition, ...], tuple[str, ...]]:
        """The conditions that indexes can answer, and the texts of the others; compiled on first use."""
        matcher = self.matcher
        if matcher.filter is None:
            return (), ()
        from sowctl.engine.search.conditions import split_conditions

        assert matcher.environment is not None
        asked, others = split_conditions(matcher.filter, matcher.environment, matcher.functions)
        return tuple(asked), tuple(others)

    def format_order(self, *, ranked: bool) -> str:
        """Return the order of the result in words; ``ranked``: by an index."""
        if not self.order:
            return "by time" if self._by_time else "by SOW key"
        if self.wanted is None:
            return "sorted"
        return f"the first {self.wanted:,}" + (" by index" if ranked else " of all that match")


def draft_plan(question: TopicQuery, statistics: TopicStatistics) -> Plan:
    """Build the plan from the store's meta record; :func:`refine_plan` completes a plan that uses indexes."""
    plan = _build_base_plan(question, statistics)
    # Specified keys are always looked up; the filter is evaluated on the few records found.
    if question.given is not None:
        return replace(plan, access=KEY_LOOKUP, estimated=question.given)
    # Keys and indexes of the current store cannot be used for past states or for parts of a Pattern topic.
    if statistics.whole:
        # Each key costs a single tree search, regardless of the rest of the filter: no access is faster.
        keys = _find_filter_keys(question, statistics)
        # An empty list is a valid result: the filter cannot match any record, and none is read.
        if keys is not None:
            return replace(plan, access=KEY_LOOKUP, estimated=len(keys), keys=tuple(keys))
        # A draft: after reading the indexes, refine_plan may still choose a scan.
        indexed = _draft_index_plan(question, statistics, plan)
        if indexed is not None:
            return indexed
    return build_scan_plan(question, statistics)


def build_scan_plan(question: TopicQuery, statistics: TopicStatistics) -> Plan:
    """Return the plan of a scan, which is always possible."""
    plan = _build_base_plan(question, statistics)
    # By columns one process is about as fast as two by rows, with half the processor time.
    if _can_scan_top_k(question, statistics):
        return replace(plan, leading=True)
    return replace(plan, processes=_choose_processes(question, statistics))


def _can_scan_top_k(question: TopicQuery, statistics: TopicStatistics) -> bool:
    """Return whether a scan finds the first records of an order by columns of its fields."""
    wanted = question.wanted
    # ``narrowing`` is not checked: it is None when a plan is only printed, but set when the query runs.
    if not question.ranks or question.matcher.is_selective:
        return False
    # Explicitly requested processes each scan a part of the keys instead.
    if (question.jobs or 1) > 1 or not statistics.lined:
        return False
    # Without a wanted record, candidates cannot be compared with the last of the best.
    if not wanted or wanted > QUERY_LIMITS.top_k_max_records or question.order[0].text:
        return False
    if statistics.stored < (
        QUERY_LIMITS.lasting_top_k_min_records if statistics.lasting else QUERY_LIMITS.top_k_min_records
    ):
        return False
    from sowctl.messages.template_columns import find_template_reader

    slots = list(map(build_order_slot, question.order))
    return find_template_reader(question.matcher.type, slots) is not None


def refine_plan(plan: Plan, counts: IndexCounts, question: TopicQuery, statistics: TopicStatistics) -> Plan:
    """Return the draft of an index plan, refined by the counts of the indexes, or a scan if that is faster."""
    residual = list(plan.residual)
    answered = []
    for asked, hits in zip(plan.asked, counts.hits, strict=True):
        # A condition without an index is evaluated on the records, as in a scan.
        if hits is None:
            residual.append(asked.condition.text)
        else:
            answered.append((hits, asked))
    # Indexes supply order and fields without reading records, but a residual condition requires reading them.
    ranked = not residual and (
        (plan.sort is not None and build_order_slot(plan.sort) in counts.known)
        or (bool(plan.fields) and all(slot in counts.known for slot in plan.fields))
    )
    # The most selective condition first: the others examine only the records that it leaves.
    answered.sort(key=lambda one: one[0])
    if answered:
        # Records found by an index are looked up one by one: for many of them, reading all in order is faster.
        if answered[0][0] > QUERY_LIMITS.index_max_share * counts.records and not ranked:
            return build_scan_plan(question, statistics)
    # No index answers a condition. An order or fields by index still help if there is no condition; otherwise a scan
    # reads the same records.
    elif plan.asked or not ranked:
        return build_scan_plan(question, statistics)
    return replace(
        plan,
        access=HASH_INDEX if _is_hash_index_match(plan, residual, statistics) else MEMO_INDEX,
        steps=tuple(PlanStep(asked.condition.text, hits) for hits, asked in answered),
        residual=tuple(residual),
        asked=tuple(asked for _, asked in answered),
        order=question.format_order(ranked=ranked),
        ranked=ranked,
        # The result of the first condition is the largest set of row numbers in memory.
        arrays=bool(answered) and is_faster_by_arrays(answered[0][0], lasting=statistics.lasting),
    )


def is_faster_by_columns(rows: int, *, lasting: bool) -> bool:
    """Return whether grouping this many rows is faster by columns than row by row.

    The time to load numpy is included, unless the process is ``lasting``.
    """
    return rows * QUERY_LIMITS.group_cost_factor >= _choose_array_min_rows(lasting)


def is_faster_by_arrays(rows: int, *, lasting: bool) -> bool:
    """Return whether evaluating a condition on this many values is faster on a column than value by value.

    The time to load numpy is included, unless the process is ``lasting``. For 300,000 numbers in a lasting process,
    ``/n % 97 = 5`` takes 5 ms instead of 122; a process with the single query ``NOT /n > 1`` takes 0.18 s instead of
    0.16.
    """
    return rows >= _choose_array_min_rows(lasting)


def build_order_slot(key: OrderKey) -> Slot:
    """Return the field by which an order key sorts."""
    from sowctl.values.fields import Slot

    return Slot(key.path, text=key.text)


def _choose_array_min_rows(lasting: bool) -> int:
    """Return the minimum number of rows for numpy. It is higher for a command with a single query, which must load
    numpy first."""
    return QUERY_LIMITS.lasting_array_min_rows if lasting else QUERY_LIMITS.array_min_rows


def _build_base_plan(question: TopicQuery, statistics: TopicStatistics) -> Plan:
    return Plan(
        statistics.topic,
        statistics.message_type,
        SCAN,
        statistics.records,
        statistics.records,
        residual=question.matcher.list_conditions(),
        behind=statistics.behind,
        order=question.format_order(ranked=False),
    )


def _find_filter_keys(question: TopicQuery, statistics: TopicStatistics) -> list[bytes] | None:
    if question.matcher.filter is None or not statistics.stored:
        return None
    from sowctl.engine.search.keylookup import find_filter_keys

    return find_filter_keys(question.matcher.filter.node, statistics.definition, statistics.config)


def _draft_index_plan(question: TopicQuery, statistics: TopicStatistics, plan: Plan) -> Plan | None:
    """Return the draft of an index plan; None if indexes must not be opened, or no field of the query can use one."""
    # Reading a small store is faster than opening indexes.
    if question.index_from is None or statistics.stored < question.index_from:
        return None
    # Indexes are files next to the store's file, and hold values of fields.
    if not statistics.filed or not statistics.fields:
        return None
    asked, others = question.conditions
    # No index holds texts in text order (``text``). A residual condition rules out order and fields by index, too.
    sort = question.sort if question.sort is not None and not others and not question.sort.text else None
    fields = () if others else question.fields
    if not asked and sort is None and not fields:
        return None
    return replace(plan, access=MEMO_INDEX, residual=others, asked=asked, sort=sort, fields=fields)


def _choose_processes(question: TopicQuery, statistics: TopicStatistics) -> int:
    """Return the number of reading processes: more than one to filter many records of a file that each can open."""
    # If no record is decoded, a second process has no work.
    if not statistics.whole or not statistics.reopens or not (question.matcher.is_selective or question.ranks):
        return 1
    if statistics.stored < QUERY_LIMITS.parallel_min_records or not statistics.processors:
        return 1
    if question.jobs is None:
        return min(QUERY_LIMITS.default_processes, statistics.processors)
    return max(1, min(question.jobs, QUERY_LIMITS.max_processes))


def _is_hash_index_match(plan: Plan, residual: Sequence[str], statistics: TopicStatistics) -> bool:
    """Return whether the filter consists of exact matches on all fields of Key or of a HashIndex (seed example 38)."""
    config = statistics.config
    if config is None or residual or not plan.asked or any(one.condition.strings is None for one in plan.asked):
        return False
    paths = sorted(str(one.slot.path) for one in plan.asked)
    return any(paths == sorted(map(str, index)) for index in (config.keys, *config.hash_indexes))
