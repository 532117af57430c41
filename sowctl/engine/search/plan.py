"""The plan of a query for one topic: a value, made before any record is read, printed by --explain, then executed.

It is made in two steps, both pure functions. :func:`draft_plan` takes what is asked (:class:`TopicQuery`, compiled) and
what the store's meta record says (:class:`TopicStatistics`) and decides on a way: by keys that the filter names, by
memo indexes, or by a scan in one process or several. Where indexes are opened, they tell how many records each
condition leaves (:class:`IndexCounts`), and :func:`refine_plan` decides again: in which order conditions are taken, or
that a scan is faster after all (:func:`build_scan_plan`).

Called by :mod:`sowctl.engine.search.scan`, which executes plans. The figures are those of
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
    """One condition, and how many records an index says satisfy it."""

    condition: str
    records: int


class Plan(DescribedStruct, frozen=True):
    """The plan for reading one topic. ``access``: ``key lookup``, ``hash index``, ``memo index`` or ``scan``;
    ``records`` that it has; ``estimated``: how many are read; ``steps`` conditions that indexes answer, ``residual``
    those asked of records; ``behind``: records that are in the journal only; ``processes`` that read; ``order``: how
    the result is ordered. With analyze: how many were ``examined``, ``matched`` and ``returned``, and the
    ``milliseconds`` taken.

    What follows is executed and not printed: the ``keys`` that a filter names; the conditions ``asked`` of indexes, in
    the order of ``steps`` where there are such; the order ``sort`` and the ``fields`` that indexes are opened for
    besides; ``ranked``: indexes have these; ``arrays``: row numbers are arrays of numpy; ``leading``: a scan leaves out
    by columns what is not among the first.
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
        """Return the printed facts by name, steps as objects."""
        printed = self.__struct_fields__[: self.__struct_fields__.index("keys")]
        return {name: getattr(self, name) for name in printed} | {"steps": [asdict(step) for step in self.steps]}


class TopicStatistics(DescribedStruct, frozen=True):
    """The facts known of a topic before any of its records is read.

    ``records`` to see, ``stored`` ones in the store, expired ones among them, ``behind`` it in the journal. ``whole``:
    it is the present state of a whole store. ``filed``: indexes can stand beside its file; ``reopens``: other processes
    can open that file too; ``processors`` that they would have, 0 where no process may begin. ``fields``: its messages
    have fields. ``lasting``: the process asks again and again, so that what it loads pays later. ``lined``: the file
    may show all records as lines.
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
    """Counts from opened indexes: ``records`` known, ``hits`` per condition (None: no index), fields ``known``."""

    records: int
    hits: Sequence[int | None]
    known: Collection[Slot]


class PartReducer(ABC):
    """A reduction of matching records to those needed, where that is less than all of them."""

    @abstractmethod
    def reduce_part(self, kind: MessageType, found: Iterator[Pairs]) -> tuple[Iterator[Pairs], list[bool]]:
        """Return the needed records of a part, and what to report about it. Called in a further process."""

    @abstractmethod
    def add_report(self, told: list[bool]) -> None:
        """Take the report of a further process. Called in the first process, behind what was needed of the part."""

    @abstractmethod
    def note_numbers(self, numbers: Sequence[bool]) -> None:
        """Take which fields hold a number in records that were passed over. Called behind all that was needed."""


class TopicQuery:
    """The compiled query of one topic. ``given``: so many keys were given instead of a filter.

    ``order`` with ``wanted`` first records (None: all), over ``topic_count`` topics; ``by_time``: in the order of
    updates where there is no other. ``projected``: the result is messages made of groups, of ``fields`` alone if there
    are any. ``index_from``: records from which on indexes are used, None for never; ``jobs``: processes that may read,
    None for as many as pay. ``counted``: the statistics are asked for. ``narrowing``: what is needed of the records
    that match, None for all.
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
        # Other topics may hold values of another kind, which changes how those of this one compare.
        sorts = (
            bool(order)
            and topic_count == 1
            and not projected
            and wanted is not None
            and wanted <= QUERY_LIMITS.top_k_max_records
        )
        self.ranks = bool(order) and not projected and wanted is not None and given is None
        """Whether fields of all records that match are read, to know the first of them."""
        self.sort = self.order[0] if sorts else None
        """The order's first key, where few records of one topic are wanted."""

    @cached_property
    def conditions(self) -> tuple[tuple[IndexCondition, ...], tuple[str, ...]]:
        """The conditions that indexes can answer, and the texts of the others; compiled when first asked for."""
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
    """Build the plan as far as the store's meta record tells; :func:`refine_plan` completes one that uses indexes."""
    plan = _build_base_plan(question, statistics)
    # Keys that were given are looked up, whatever the filter: it is asked of the few records that are found.
    if question.given is not None:
        return replace(plan, access=KEY_LOOKUP, estimated=question.given)
    # Neither the past nor a part of a Pattern topic can be looked up by keys or indexes of the present store.
    if statistics.whole:
        # A key is one search in a tree, whatever else stands in the filter: nothing is faster.
        keys = _find_filter_keys(question, statistics)
        # An empty list is an answer, too: the filter can match no record, and none is read.
        if keys is not None:
            return replace(plan, access=KEY_LOOKUP, estimated=len(keys), keys=tuple(keys))
        # Only a draft: what the indexes say may still make it a scan.
        indexed = _draft_index_plan(question, statistics, plan)
        if indexed is not None:
            return indexed
    return build_scan_plan(question, statistics)


def build_scan_plan(question: TopicQuery, statistics: TopicStatistics) -> Plan:
    """The plan of a scan, which is always possible."""
    plan = _build_base_plan(question, statistics)
    # By columns one process takes about as long as two otherwise, and half their processor time.
    if _can_scan_top_k(question, statistics):
        return replace(plan, leading=True)
    return replace(plan, processes=_choose_processes(question, statistics))


def _can_scan_top_k(question: TopicQuery, statistics: TopicStatistics) -> bool:
    """Return whether a scan finds the first of an order by columns of its fields."""
    wanted = question.wanted
    # Whether there is a narrowing yet is not asked: a plan that is printed has none, and tells of the query that has.
    if not question.ranks or question.matcher.is_selective:
        return False
    # Processes that were asked for have their part of the keys each.
    if (question.jobs or 1) > 1 or not statistics.lined:
        return False
    # Where none is wanted, there is no last of the best to be behind.
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
    """The draft of a plan by indexes, with what these say; a scan where that is faster."""
    residual = list(plan.residual)
    answered = []
    for asked, hits in zip(plan.asked, counts.hits, strict=True):
        # Without an index a condition is asked of the records, which is what a scan does.
        if hits is None:
            residual.append(asked.condition.text)
        else:
            answered.append((hits, asked))
    # Indexes give an order or fields without the records; where these are asked a residual condition, that is no use.
    ranked = not residual and (
        (plan.sort is not None and build_order_slot(plan.sort) in counts.known)
        or (bool(plan.fields) and all(slot in counts.known for slot in plan.fields))
    )
    # The condition that leaves the fewest first: the others look only at what it left.
    answered.sort(key=lambda one: one[0])
    if answered:
        # An index leaves keys, and each record is then looked up alone: for many of them, reading all in order is
        # faster.
        if answered[0][0] > QUERY_LIMITS.index_max_share * counts.records and not ranked:
            return build_scan_plan(question, statistics)
    # No condition was answered. An order by index still helps where nothing was asked; else a scan reads the same
    # records.
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
        # The first condition leaves the most row numbers that are ever held.
        arrays=bool(answered) and is_faster_by_arrays(answered[0][0], lasting=statistics.lasting),
    )


def is_faster_by_columns(rows: int, *, lasting: bool) -> bool:
    """Return whether so many rows are grouped faster by columns than one by one.

    Loading numpy is included, unless the process is ``lasting``.
    """
    return rows * QUERY_LIMITS.group_cost_factor >= _choose_array_min_rows(lasting)


def is_faster_by_arrays(rows: int, *, lasting: bool) -> bool:
    """Return whether a condition is asked of so many values faster as a column than one by one.

    Loading numpy is included, unless the process is ``lasting``. Of 300,000 numbers in a lasting process, ``/n % 97 =
    5`` takes 5 ms instead of 122; a process that asks ``NOT /n > 1`` once takes 0.18 s instead of 0.16.
    """
    return rows >= _choose_array_min_rows(lasting)


def build_order_slot(key: OrderKey) -> Slot:
    """The field by which an order sorts."""
    from sowctl.values.fields import Slot

    return Slot(key.path, text=key.text)


def _choose_array_min_rows(lasting: bool) -> int:
    """Return the number of rows from which on numpy is used. A command that asks once pays for loading it; a program
    does not."""
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
    """The draft of a plan by indexes; None where none are to be opened, or there is no field to ask one about."""
    # A small store is read faster than indexes are opened.
    if question.index_from is None or statistics.stored < question.index_from:
        return None
    # Indexes stand beside the store's file, and hold values of fields.
    if not statistics.filed or not statistics.fields:
        return None
    asked, others = question.conditions
    # Texts that are ordered as such (``text``) are in no index; a residual condition makes the rest useless, too.
    sort = question.sort if question.sort is not None and not others and not question.sort.text else None
    fields = () if others else question.fields
    if not asked and sort is None and not fields:
        return None
    return replace(plan, access=MEMO_INDEX, residual=others, asked=asked, sort=sort, fields=fields)


def _choose_processes(question: TopicQuery, statistics: TopicStatistics) -> int:
    """Return how many processes read: more than one for much to filter in a file that each can open."""
    # Where nothing is decoded, a second process has nothing to take over.
    if not statistics.whole or not statistics.reopens or not (question.matcher.is_selective or question.ranks):
        return 1
    if statistics.stored < QUERY_LIMITS.parallel_min_records or not statistics.processors:
        return 1
    if question.jobs is None:
        return min(QUERY_LIMITS.default_processes, statistics.processors)
    return max(1, min(question.jobs, QUERY_LIMITS.max_processes))


def _is_hash_index_match(plan: Plan, residual: Sequence[str], statistics: TopicStatistics) -> bool:
    """Return whether the filter is exact matches on all fields of Key or of a HashIndex (seed example 38)."""
    config = statistics.config
    if config is None or residual or not plan.asked or any(one.condition.strings is None for one in plan.asked):
        return False
    paths = sorted(str(one.slot.path) for one in plan.asked)
    return any(paths == sorted(map(str, index)) for index in (config.keys, *config.hash_indexes))
