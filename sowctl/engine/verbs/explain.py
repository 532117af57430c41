"""The plan of a query: how each topic's records are found, as plain values (``sowctl-query(1)``, --explain)."""

from __future__ import annotations

from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.search.scan import Scan
    from sowctl.engine.sources.source import Source
    from sowctl.engine.topics.targets import Target


class PlanStep(Struct, frozen=True):
    """One condition, and how many records an index says satisfy it."""

    condition: str
    records: int


class Plan(Struct, frozen=True):
    """How one topic is read. ``access``: ``key lookup``, ``hash index``, ``memo index`` or ``scan``; ``records`` that
    it has; ``estimated``: how many are read; ``steps`` conditions that indexes answer, ``residual`` those asked of
    records; ``behind``: records that are in the journal only; ``processes`` that read; ``order``: how the result is
    ordered. With analyze: how many were ``examined``, ``matched`` and ``returned``, and the ``milliseconds`` taken.
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


def explain(
    instance: Instance,
    targets: Sequence[Target],
    options: QueryOptions,
    *,
    analyze: bool = False,
    timer: Callable[[], float] = perf_counter,
) -> list[Plan]:
    """The plans of a query, topic by topic; indexes that it needs are built. ``analyze`` runs it, too.

    ``timer`` tells seconds: the instance's clock may stand still. Raises what the query raises.
    """
    from sowctl.engine.verbs.query import query

    with closing(query(instance, targets, options)) as result:
        plans = result.plans()
    if not analyze:
        return plans
    start = timer()
    with closing(query(instance, targets, options)) as result:
        for _ in result:
            pass
        taken = (timer() - start) * 1000
        return [
            replace(
                plan,
                examined=numbers.examined,
                matched=numbers.matched,
                returned=numbers.returned,
                milliseconds=taken,
            )
            for plan, numbers in zip(plans, result.statistics, strict=True)
        ]


def plan_of(source: Source, matcher: Matcher, scan: Scan | None, options: QueryOptions, wanted: int | None) -> Plan:
    """How a query reads one topic; ``scan`` None where its records are looked up by key.

    ``wanted`` is how many records at the most are read in an order by fields, None for all.
    """
    stored = source.base.stored  # of logical topics, all that their store holds
    records = stored.visible_records() if stored is not None else 0
    order = _order_in_words(scan, options, wanted)
    plan = Plan(source.topic, source.message_type, "scan", records, records, order=order)
    if stored is not None and stored.overlay is not None:
        plan = replace(plan, behind=len(stored.overlay.current))
    if scan is None:
        plan = replace(plan, access="key lookup", estimated=len(options.sow_keys or ()))
    elif scan.found is not None:
        steps = tuple(PlanStep(step.condition, step.matched) for step in scan.found.steps)
        residual, estimated = tuple(scan.found.residual), scan.found.candidates
        plan = replace(plan, access=scan.found.access, steps=steps, residual=residual, estimated=estimated)
    if scan is None or scan.found is None:
        conditions = matcher.conditions()
        plan = replace(plan, residual=conditions, processes=scan.jobs if scan is not None else 1)
    return plan


def _order_in_words(scan: Scan | None, options: QueryOptions, wanted: int | None) -> str:
    if options.order_by is None:
        return "by time" if options.by_time else "by SOW key"
    if wanted is None:
        return "sorted"
    by_index = scan is not None and scan.found is not None and scan.found.ranked
    return f"the first {wanted:,}" + (" by index" if by_index else " of all that match")


def plan_lines(plan: Plan) -> list[str]:
    """A plan for people."""
    lines = [f"{plan.topic} ({plan.message_type}): {plan.access}, {plan.estimated:,} of {plan.records:,} records"]
    lines += [f"  index     {step.condition}: {step.records:,} records" for step in plan.steps]
    lines += [f"  record    {condition}" for condition in plan.residual]
    if plan.behind:
        lines.append(f"  journal   {plan.behind:,} records that the store has not yet")
    if plan.processes > 1:
        lines.append(f"  processes {plan.processes}")
    lines.append(f"  order     {plan.order}")
    if plan.milliseconds is not None:
        lines.append(
            f"  actual    {plan.examined:,} examined, {plan.matched:,} matched, {plan.returned:,} returned, "
            f"{plan.milliseconds:,.1f} ms"
        )
    return lines
